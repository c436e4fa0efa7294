"""What grading costs, counted and not timed: per submission the same, however large the class is."""

import gc
import tracemalloc
from collections import Counter
from contextlib import contextmanager

import pytest
from scratch import ASSIGNMENT, LIMITS, SEED, hand_in
from sqlalchemy import event
from sqlalchemy.engine import Engine

from autograder.course.layout import Course
from autograder.grading import pair as pairs
from autograder.grading.batch import grade
from autograder.grading.executors import EXECUTORS

SMALL, LARGE = 10, 30
ROOM = 45_000
"""Bytes that the driver may keep of a submission until all are entered: mostly nbgrader's rows."""


@contextmanager
def counted():
    """Counts the statements and commits of every database."""
    seen = Counter()

    def statement(*args):
        seen["statements"] += 1

    def commit(*args):
        seen["commits"] += 1

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", commit)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", statement)
        event.remove(Engine, "commit", commit)


@pytest.fixture(scope="module")
def verdict(template, students, pair, tmp_path_factory):
    """The verdict on somebody, which everybody gets here: grading itself is not what is counted."""
    from autograder.grading.pair import notebook_task
    from autograder.proof.samples import make
    from autograder.release.publish import notebooks

    (released,) = notebooks(Course.at(template), ASSIGNMENT).values()
    submission = make.as_bytes(students["mistake-01"][0])
    return pair.grade(notebook_task(ASSIGNMENT, released, submission, SEED, LIMITS))


@pytest.fixture
def at_once(verdict):
    EXECUTORS["at once"] = lambda tasks, tier, workers: ((key, verdict) for key, task in tasks)
    yield "at once"
    del EXECUTORS["at once"]


def class_of(count, course, students):
    for number in range(count):
        notebook = students["blank"][0] | {"metadata": {"number": number}}
        hand_in(course, f"student-{number:03d}", notebook)


def costs(count, course, students, executor):
    """What a batch of so many asks of the database, and the most memory that the driver took."""
    class_of(count, course, students)
    gc.collect()
    tracemalloc.start()
    try:
        with counted() as seen:
            batch = grade(
                Course.at(course), [], course / "submitted", executor=executor, seed=SEED, limits=LIMITS
            )
        seen["bytes"] = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.new for one in batch.graded] == [True] * count
    return seen


@pytest.fixture
def default_collector():
    """Garbage is looked for as often as in any process, and not as rarely as in the other tests."""
    rarely = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*rarely)


@pytest.fixture
def both_costs(template, tmp_path, students, at_once, default_collector):
    """The costs of a small class and of a large one."""
    import shutil

    told = []
    for count in (2, SMALL, LARGE):  # the first imports what is imported once
        folder = shutil.copytree(template, tmp_path / str(count))
        told.append(costs(count, folder, students, at_once))
    return told[1:]


@pytest.mark.slow
def test_the_driver_pays_for_each_submission_alike(both_costs):
    small, large = both_costs
    assert small["commits"] == large["commits"]
    assert large["statements"] / LARGE <= 1.05 * small["statements"] / SMALL
    assert (large["bytes"] - small["bytes"]) / (LARGE - SMALL) < ROOM


def test_each_submission_is_one_fork_of_either_process(template, course, students, pair, monkeypatch):
    orders = Counter()
    ask = pairs._Process.ask

    def counting(self, tag, *rest):
        orders[tag] += 1
        return ask(self, tag, *rest)

    monkeypatch.setattr(pairs._Process, "ask", counting)
    class_of(4, course, students)
    grade(Course.at(course), [], course / "submitted", executor="kept", seed=SEED, limits=LIMITS)
    assert orders == {b"F": 4, b"G": 4, b"E": 4}, "fork a child, judge it, end it"
