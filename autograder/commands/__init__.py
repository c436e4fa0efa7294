"""The command line: a module for each group of commands. Nothing else prints for people."""
