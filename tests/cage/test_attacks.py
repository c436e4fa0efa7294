"""No declared attack, at any tier that this machine holds, earns or learns anything or harms anybody."""

import json
import os
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from small_course import RIGHT, SEED, answer_cell, cell, released

from autograder import exercises
from autograder.grading import cages, written
from autograder.grading.pair import Pair, notebook_task
from autograder.grading.session import Limits
from autograder.proof.attacks import ATTACKS, EARNED, EITHER, FULL, NONE, WORKS, Attack
from autograder.proof.attacks.attack import GOT
from autograder.proof.attacks.on_points import WRONG

COURSE = Path(__file__).resolve().parents[2]
LIMITS = Limits(cell_seconds=1, call_seconds=0.5, total_seconds=30, memory_bytes=1 << 29)
ANSWER = 2


@pytest.fixture(scope="module", params=[tier for tier in cages.SAFE if tier >= cages.strongest().tier])
def caged(request):

    with Pair(request.param) as pair:
        yield pair


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """What an insider would know; all of it must stay as it is."""
    folder = tmp_path_factory.mktemp("target")
    (folder / "secret").write_text("a secret of the grader")
    with sqlite3.connect(folder / "gradebook.db") as book:
        book.execute("create table grade (score)")
    with cages.secret() as sockets:
        yield {
            "secret": str(folder / "secret"),
            "gradebook": str(folder / "gradebook.db"),
            "course": str(COURSE),
            "pid": os.getpid(),
            "port": sockets["port"],
            "socket": sockets["socket"],
        }


def submission(attack, target):
    function = attack.exercise.split("/")[1]
    notebook = released(function)
    notebook["cells"][ANSWER] = answer_cell(RIGHT if attack.answer is None else attack.answer, function)
    if attack.cell:
        notebook["cells"].insert(1, cell("code", f"TARGET = {target!r}\n{attack.cell_source}"))
    if attack.change:
        attack.change(notebook)
    return notebook


def state_of(target):
    """Every file around the target, with its contents, mode and time."""
    folder = Path(target["secret"]).parent
    return {
        path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in sorted(folder.iterdir())
    }


@cache
def without_the_cell(pair, exercise, answer):
    """The points of an answer by itself."""
    return grade(pair, Attack("none", "", answer=answer, exercise=exercise), {}).score


def grade(pair, attack, target):
    assignment, function = attack.exercise.split("/")
    data, release = (json.dumps(one).encode() for one in (submission(attack, target), released(function)))
    return pair.grade(notebook_task(assignment, release, data, SEED, LIMITS))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_nothing_comes_of_it(caged, target, attack):
    before = state_of(target)
    verdict = grade(caged, attack, target)
    assert verdict.status == "graded", verdict.note
    assert verdict.tier == caged.tier
    json.loads(written.as_bytes(written.with_results(verdict)))
    (graded,) = [c for c in verdict.cells if c.report]
    assert graded.max_score == exercises.find(attack.exercise).points
    full = graded.max_score
    if attack.points == EARNED:
        assert graded.score <= without_the_cell(caged, attack.exercise, attack.answer), graded.report
    else:
        may_have = {FULL: {full}, WORKS: {full}, NONE: {0}, EITHER: {0, full}}
        assert graded.score in may_have[attack.points], graded.report
    found = [remark for remark in verdict.remarks if remark.kind == "machinery"]
    if attack.remark:
        assert any(remark.says.startswith(f"`{attack.remark}") for remark in found), found
        assert all(remark.place and remark.line for remark in found)
    else:
        assert found == []
    printed = "".join(
        output.get("text", "") + json.dumps(output.get("data", ""))
        for c in verdict.notebook["cells"]
        for output in c.get("outputs", ())
    )
    assert GOT not in printed, printed[printed.index(GOT) :][:200]
    assert state_of(target) == before
    assert grade(caged, HONEST, target).score == 3


HONEST = Attack("none", "full points")


@pytest.mark.slow
@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.points == WORKS], ids=lambda one: one.name)
def test_who_blinds_the_watch_has_the_points_of_a_function_that_works_and_no_others(caged, target, attack):
    verdict = grade(caged, replace(attack, answer=WRONG), target)
    (graded,) = [c for c in verdict.cells if c.report]
    assert graded.score == 0
    assert graded.report.failures
