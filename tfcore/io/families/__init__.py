"""The families, one to a file. To add one, add a file that defines ``FAMILY``: it is found by being here."""
