"""A class graded by a real Dask scheduler and its workers, one of which is killed."""

import json
import os
import signal
from contextlib import nullcontext

import pytest
from scratch import ASSIGNMENT, SEED

from autograder.course.errors import BadInputError
from autograder.grading import cages, executors
from autograder.grading.pair import notebook_task
from autograder.grading.session import Limits

pytest.importorskip("distributed", reason="needs Dask")
RIGHT = "import numpy as np\ndef softmax(x, axis=-1):\n    e = np.exp(x - x.max(axis=axis, keepdims=True))\n"
COUNT = 12


def code(source, **metadata):
    return {
        "cell_type": "code",
        "source": source,
        "metadata": metadata,
        "outputs": [],
        "execution_count": None,
    }


def notebook(last_line):
    marks = {"schema_version": 3, "solution": False, "grade": True, "locked": True, "points": 3}
    return {
        "cells": [
            code(RIGHT + last_line),
            code("check(softmax).score", nbgrader={"grade_id": "softmax", **marks}),
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def tasks():
    released = json.dumps(notebook("    raise NotImplementedError()")).encode()
    lines = ("    return e / e.sum(axis=axis, keepdims=True)", "    return e")
    for i in range(COUNT):
        data = json.dumps(notebook(lines[i % 2])).encode()
        yield str(i), notebook_task(ASSIGNMENT, released, data, SEED + i, Limits())


@pytest.mark.slow
def test_each_is_graded_once_though_a_worker_is_killed(monkeypatch):
    from distributed import LocalCluster

    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        monkeypatch.setenv(executors.SCHEDULER, cluster.scheduler_address)
        assert executors.tier_of("dask", allow_unsafe=False) == cages.strongest().tier
        victim = cluster.workers[0].pid
        verdicts = []
        for number, graded in enumerate(executors.grade_all(tasks(), cages.strongest().tier, "dask")):
            verdicts.append(graded)
            if number == 2:
                os.kill(victim, signal.SIGKILL)
    assert sorted(int(key) for key, _ in verdicts) == list(range(COUNT))
    for key, verdict in verdicts:
        assert verdict.status == "graded", verdict.note
        assert verdict.tier == cages.strongest().tier
        assert (verdict.score == 3) == (int(key) % 2 == 0)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setenv(executors.SCHEDULER, "tcp://127.0.0.1:1")
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    with pytest.raises(BadInputError, match="no Dask scheduler answers at tcp"):
        list(executors.dask(tasks(), "D", 1))


class Client(nullcontext):
    """Stands in for the client of a scheduler that answers."""

    def __init__(self, address, timeout):
        super().__init__(self)

    def wait_for_workers(self, count, timeout):
        pass


def test_a_disk_that_fails_is_not_the_scheduler(monkeypatch):
    monkeypatch.setenv(executors.SCHEDULER, "tcp://somewhere")
    monkeypatch.setattr("distributed.Client", Client)
    with pytest.raises(OSError, match="Input/output"), executors._client(1):
        raise OSError(5, "Input/output error")
    with pytest.raises(BadInputError, match="no Dask scheduler answers"), executors._client(1):
        raise OSError("in <TCP>: Stream is closed")


class Pair:
    """Stands in for the processes of a pair; its verdict is its tier."""

    def __init__(self, tier):
        self.tier, self.closed = tier, False

    def grade(self, task):
        return "closed" if self.closed else self.tier

    def close(self):
        self.closed = True


def test_a_worker_grades_each_run_at_its_own_tier(monkeypatch):
    monkeypatch.setattr(executors, "Pair", Pair)
    pairs = executors._Pairs()
    assert [pairs.grade({}, tier) for tier in "DDAAD"] == ["D", "D", "A", "A", "D"]
    assert [pair.closed for pair in pairs._all] == [True, True, False]


class Workers:
    """Stands in for a client of workers that hold less, or grade with something else."""

    def __init__(self, *standings):
        self.standings = standings

    def run(self, function):
        return {f"tcp://worker-{i}": standing for i, standing in enumerate(self.standings)}


@pytest.mark.parametrize(
    ("standings", "tier"),
    [
        ((("same", "A"), ("same", "A")), "A"),
        ((("same", "A"), ("same", "B")), "B"),
        ((("same", "B"), ("same", "D")), "no sandbox works on this machine .tier D"),
        ((("same", "A"), ("older", "A")), "tcp://worker-1 has another version of the grader"),
    ],
)
def test_the_tier_is_that_of_the_weakest_worker(monkeypatch, standings, tier):
    held = [(version, cages.Held(letter, {})) for version, letter in standings]
    monkeypatch.setenv(executors.SCHEDULER, "tcp://somewhere")
    monkeypatch.setattr(executors, "_client", lambda workers: nullcontext(Workers(*held)))
    monkeypatch.setattr(executors.versions, "hash_everything", lambda: "same")
    if len(tier) == 1:
        assert executors.tier_of("dask", allow_unsafe=False) == tier
    else:
        with pytest.raises(BadInputError, match=tier):
            executors.tier_of("dask", allow_unsafe=False)


@pytest.mark.slow
def test_a_scheduler_without_workers_is_told(monkeypatch):
    from distributed import Scheduler, SpecCluster

    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    alone = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
    with SpecCluster(workers={}, scheduler=alone) as cluster:
        monkeypatch.setenv(executors.SCHEDULER, cluster.scheduler_address)
        with pytest.raises(BadInputError, match="has no workers"):
            executors.tier_of("dask", allow_unsafe=False)
