"""``kill -9`` of any process at any moment: what is graded in the end is what an undisturbed run gives."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time

import psutil
import pytest
from scratch import ASSIGNMENT, FEW, SEED, tree

from autograder.course.layout import Course
from autograder.grading import gradebook

KILLS = int(os.environ.get("KILLS", "8"))
"""Fifty take five minutes: `KILLS=50 pytest tests/grading/test_killed.py`."""
COMMAND = [sys.executable, "-m", "autograder.cli", "grade", "--submissions", "submitted", "--seed", str(SEED)]
STUDENTS = 24
LIMITS = ["--cell-limit", "3", "--workers", "2"]
KINDS = ("driver", "judge", "judge's fork", "zygote", "submission")


def processes_of(driver):
    """The living processes of a run, by kind."""
    found = {kind: [] for kind in KINDS} | {"driver": [driver]}
    for process in driver.children(recursive=True):
        try:
            line, parent = " ".join(process.cmdline()), " ".join(process.parent().cmdline())
        except (psutil.Error, AttributeError):
            continue
        if "autograder.grading.judge" in line:
            found["judge's fork" if "autograder.grading.judge" in parent else "judge"].append(process)
        elif "zygote.py" in line:
            inner = "zygote.py" in parent and not parent.startswith("bwrap")
            found["submission" if inner else "zygote"].append(process)
    return found


def victim(driver, kind, draw):
    """A living process of that kind, waited for as long as the run lasts; None if none comes."""
    while driver.poll() is None:
        with contextlib.suppress(psutil.Error):
            if living := processes_of(psutil.Process(driver.pid))[kind]:
                return draw.choice(living)
        time.sleep(0.01)
    return None


@pytest.fixture
def class_of_many(few_template, template, tmp_path):
    """A course with submissions that all differ, ungraded."""
    course = tmp_path / "class"
    shutil.copytree(template, course)
    for number in range(STUDENTS):
        path = few_template / "submitted" / FEW[number % len(FEW)] / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        notebook = json.loads(path.read_text())
        notebook["cells"].append(
            {"cell_type": "markdown", "metadata": {}, "source": f"handed in by {number}"}
        )
        handed_in = course / "submitted" / f"student-{number}" / ASSIGNMENT / path.name
        handed_in.parent.mkdir(parents=True)
        handed_in.write_text(json.dumps(notebook))
    return course


def start(course):
    return subprocess.Popen(
        [*COMMAND, *LIMITS], cwd=course, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.slow
def test_killed_at_random_moments(class_of_many, tmp_path):
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(class_of_many, undisturbed)
    assert start(undisturbed).wait() == 0
    expected = gradebook.read(Course.at(undisturbed), ASSIGNMENT)
    assert len(expected) == STUDENTS
    draw, killed = random.Random(SEED), dict.fromkeys(KINDS, 0)

    def enough():
        return sum(killed.values()) >= KILLS and min(killed.values()) > 0

    while not enough():
        course = tmp_path / f"course-{sum(killed.values())}"
        shutil.copytree(class_of_many, course)
        code = None
        while code != 0:
            driver = start(course)
            while driver.poll() is None and not enough():
                time.sleep(draw.uniform(0, 1))
                weight = {"driver": 3}
                kind = min(KINDS, key=lambda kind: weight.get(kind, 1) * killed[kind] + draw.uniform(0, 4))
                with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended by itself
                    if process := victim(driver, kind, draw):
                        process.kill()
                        killed[kind] += 1
            code = driver.wait()
        assert gradebook.read(Course.at(course), ASSIGNMENT) == expected
        assert tree(course / "autograded") == tree(undisturbed / "autograded")
