"""What the tests of grading share: running commands, handing in, comparing folders."""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from typer.testing import CliRunner

import autograder
from autograder import exercises
from autograder.cli import app
from autograder.course.layout import Course
from autograder.grading.batch import grade
from autograder.grading.session import Limits
from autograder.proof.samples import make

ROOT = Path(autograder.__file__).parents[1]
ASSIGNMENT = "ch02_qkv"
FULL = int(sum(exercise.points for exercise in exercises.of_assignment(ASSIGNMENT)))
"""Points of its functions."""
SEED = 271828
LIMITS = Limits(cell_seconds=3.0, call_seconds=3.0)
AS_GRADED = ("--cell-limit", "3")
"""The limits of `graded` on the command line: where `SEED` is the course's own, its verdicts are known."""
SECRET_SEED = 271828182845904523
"""Of the course of the sample class. What a mistake is worth may depend on the cases that a seed draws."""
OF_THE_CLASS = ("--submissions", "sample/submitted", "--cell-limit", 2, "--json")
FEW = ("style-01", "style-02", "mistake-01", "blank", "script-in-the-answer")


def in_process(*args, cwd=None):
    """Runs a command here, quickly; the result has exit_code, stdout and stderr."""
    course = ["--course", str(cwd)] if cwd else []
    result = CliRunner().invoke(app, [*map(str, args), *course])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def command(*args, cwd, timeout=300, **how):
    """Runs a command as a person would, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "autograder.cli", *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "200"},
        **how,
    )


def tree(folder):
    """What a folder holds: each path with a hash of the file, the target of the link, or nothing."""
    told = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            told[name] = os.readlink(path)
        elif path.is_file():
            told[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            told[name] = None
    return told


def new_course(folder):
    """A course with the repository's solutions and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(
        ROOT / "solutions", folder / "solutions", ignore=shutil.ignore_patterns(".ipynb_checkpoints")
    )
    return folder


def hand_in(course, student, notebook, assignment=ASSIGNMENT, timestamp=None):
    """Puts a notebook, as JSON data or bytes, where submissions lie."""
    folder = course / "submitted" / student / assignment
    folder.mkdir(parents=True, exist_ok=True)
    data = notebook if isinstance(notebook, bytes) else make.as_bytes(notebook)
    (folder / f"{assignment}.ipynb").write_bytes(data)
    if timestamp:
        (folder / "timestamp.txt").write_text(timestamp)
    return folder / f"{assignment}.ipynb"


def graded(course, db=None, **how):
    """Grades what is handed in, here."""
    how = {"executor": "kept", "seed": SEED, "limits": LIMITS, **how}
    return grade(Course.at(course, db), [], course / "submitted", **how)


def clean_python(folder, requirements):
    """A Python of its own with pip and what a requirements.txt names, linked from here, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    pins = [Requirement(line) for line in requirements.splitlines() if "==" in line]
    for name in ["pip", *(pin.name for pin in pins if not pin.marker or pin.marker.evaluate())]:
        for file in metadata.distribution(name).files:
            source, target = Path(file.locate()), Path(os.path.normpath(site / file))
            if not source.is_file() or not target.is_relative_to(folder) or "include" in target.parts:
                continue
            if target.parent != folder / "bin" or not source.read_bytes().startswith(b"#!"):
                _link(source, target)
            compiled = Path(cache_from_source(source))
            if source.suffix == ".py" and compiled.is_file():  # as pip compiles what it installs
                _link(compiled, Path(cache_from_source(target)))
    return folder / "bin" / "python"


def _link(source, target):
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)


def run(*command, cwd, **environment):
    """Runs a command that knows nothing of this repository and reaches no package index."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PIP_NO_INDEX": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
