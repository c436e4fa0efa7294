"""An option that would do nothing beside another is refused, and so is a value that would ruin a class."""

import os
import subprocess
import sys

import pytest
from scratch import in_process, tree

from autograder.grading.session import Limits


def test_a_cell_that_may_take_an_hour_has_an_hour():
    assert Limits(cell_seconds=3600).total_seconds == 3600
    assert Limits(cell_seconds=3).total_seconds == Limits().total_seconds


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("feedback", "--output", "out"), "it needs --for"),
        (("status", "--submissions", "submited"), "submited is not a folder"),
        (("verify", "--mutants", 3, "--caged", 2), "--caged does not apply to --mutants"),
        (("grade", "--cell-limit", "inf"), "86400"),
        (("grade", "--memory", 10**12), "1048576"),
        (("check", "x.py", "--call-limit", "inf"), "86400"),
        (("export", "--db", "sqlite://gradebook.db"), "Count the slashes"),
        (("export", "--db", "postgresql://u@host"), "Count the slashes"),
    ],
    ids=lambda args: args[0] if isinstance(args, tuple) else "",
)
def test_it_is_refused(course, args, says):
    before = tree(course)
    done = in_process(*args, cwd=course)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert tree(course) == before


@pytest.mark.slow
def test_nobody_reads_the_rest_of_the_output(course):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        command = [sys.executable, "-m", "autograder.cli", "late", "--json"]
        done = subprocess.run(command, cwd=course, stdout=output, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
