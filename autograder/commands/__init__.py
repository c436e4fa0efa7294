"""Define the commands, one in each module. Only these modules print for people."""
