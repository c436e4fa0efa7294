"""Scratch courses to grade in: made once a session from the repository's solutions, copied for each test."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from scratch import ASSIGNMENT, FEW, OF_THE_CLASS, SECRET_SEED, SEED, command, graded, hand_in, new_course

from autograder import exercises
from autograder.course.layout import Course
from autograder.grading import batch, cages
from autograder.grading.executors import EXECUTORS
from autograder.proof.samples import make
from autograder.release.publish import notebooks


@pytest.fixture
def without_walls(monkeypatch):
    """A machine that has not what walls are made of."""
    monkeypatch.setattr(cages.syscalls, "program", lambda: None)
    cages.strongest.cache_clear()
    yield
    cages.strongest.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _kept(request):
    """An executor whose pair of processes serves all tests, since starting one takes seconds."""

    def kept(tasks, tier, workers):
        pair = request.getfixturevalue("pair")
        return ((key, pair.grade(task)) for key, task in tasks)

    EXECUTORS["kept"] = kept
    yield
    del EXECUTORS["kept"]


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A course whose release has been made already."""
    folder = new_course(tmp_path_factory.mktemp("template") / "course")
    for assignment in exercises.assignments():
        notebooks(Course.at(folder), assignment)
    return folder


@pytest.fixture(scope="session")
def students(template):
    """Sample students of chapter 2, with the start of the bank: name -> (notebook, expected points)."""
    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    declared = [
        replace(exercise, misconceptions=exercise.misconceptions[:1], styles=exercise.styles[:2])
        for exercise in exercises.of_assignment(ASSIGNMENT)
    ]
    return {name: (nb, scores) for name, nb, scores in make.students(json.loads(released), declared)}


@pytest.fixture
def course(template, tmp_path):
    """A course of one's own, with nothing handed in."""
    return Path(shutil.copytree(template, tmp_path / "course"))


@pytest.fixture(scope="session")
def few_template(template, students, tmp_path_factory):
    """A course with a few students graded."""
    folder = tmp_path_factory.mktemp("few") / "course"
    shutil.copytree(template, folder)
    for student in FEW:
        hand_in(folder, student, students[student][0], timestamp="2026-03-01 18:00:00.000000 UTC")
    graded(folder)
    (folder / ".autograder" / "seed").write_text(f"{SEED}\n")
    return folder


@pytest.fixture
def few(few_template, tmp_path):
    """A graded course of one's own."""
    return Path(shutil.copytree(few_template, tmp_path / "course"))


@pytest.fixture(scope="session")
def graded_class(template, tmp_path_factory):
    """The whole sample class, graded by the command line as a teacher would, with what it printed."""
    folder = tmp_path_factory.mktemp("class") / "course"
    shutil.copytree(template, folder)
    with mock.patch.object(batch.secrets, "randbits", return_value=SECRET_SEED):
        batch.secret_seed(Course.at(folder))
    make.make(Course.at(folder), folder / "sample")
    done = command("grade", *OF_THE_CLASS, cwd=folder, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads(done.stdout)
