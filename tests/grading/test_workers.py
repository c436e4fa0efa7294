"""How many are graded at once: what is asked for, else what this process may use."""

import os

import pytest
from scratch import in_process

from autograder.course import workers
from autograder.grading.executors import EXECUTORS


@pytest.fixture
def asked(monkeypatch):
    """What an executor is told, by name."""
    told = []

    def kept(tasks, tier, workers):
        told.append(workers)
        return iter(())

    monkeypatch.setitem(EXECUTORS, "kept", kept)
    monkeypatch.delenv("AUTOGRADER_WORKERS", raising=False)
    return told


def grade(course, *options):
    in_process("grade", "--executor", "kept", "--submissions", course / "submitted", *options, cwd=course)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can give a process fewer cores")
def test_a_process_that_may_use_one_core_has_one_worker(few, asked):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert workers.cores() == 1
        grade(few, "--force")
    finally:
        os.sched_setaffinity(0, before)
    assert asked == [1]
    assert workers.cores() == len(before)


def test_the_environment_says_how_many_and_the_option_has_the_last_word(few, asked, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_WORKERS", "3")
    grade(few, "--force")
    grade(few, "--force", "--workers", "5")
    assert asked == [3, 5]
