"""Connect the grader with other systems: learning platforms, nbgrader, JupyterHub, clusters; make bundles."""
