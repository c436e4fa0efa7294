"""Define the commands, one in each module, and the parts that they share."""
