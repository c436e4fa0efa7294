"""Configure nbgrader in each user's server, from variables that `jupyterhub_config.py` sets."""

import os

c = get_config()  # type: ignore[name-defined]
c.Exchange.root = os.environ["COURSE_EXCHANGE"]

if "COURSE" in os.environ:  # the teacher's server
    c.CourseDirectory.root = os.environ["COURSE"]
else:  # students hand in under their name in the hub, even if they share a system account
    c.CourseDirectory.student_id = os.environ["JUPYTERHUB_USER"]
