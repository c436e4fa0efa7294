"""Configure a JupyterHub for a class on one server, with nbgrader's exchange."""
