"""Wheels of the packages, and what bundles are made of."""
