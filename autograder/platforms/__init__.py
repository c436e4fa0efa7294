"""The way in and out: learning platforms, bundles to hand out, nbgrader, a hub, a cluster."""
