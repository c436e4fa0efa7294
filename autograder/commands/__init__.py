"""Define the commands, one in each module, and what they share."""
