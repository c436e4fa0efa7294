"""The families, one to a file. To add a family, add a file here that defines ``FAMILY``."""
