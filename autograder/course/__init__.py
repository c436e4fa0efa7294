"""Describe a course on disk: its layout, files, errors and student ids, for all other folders."""
