"""Build wheels of the course's packages, and collect the other parts of bundles."""
