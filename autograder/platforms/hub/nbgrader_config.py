"""What nbgrader must know in everybody's server; `jupyterhub_config.py` beside it sets the variables."""

import os

c = get_config()  # type: ignore[name-defined]
c.Exchange.root = os.environ["COURSE_EXCHANGE"]

if "COURSE" in os.environ:  # of the teacher
    c.CourseDirectory.root = os.environ["COURSE"]
else:  # students hand in under the name of the hub, also where they share an account of the system
    c.CourseDirectory.student_id = os.environ["JUPYTERHUB_USER"]
