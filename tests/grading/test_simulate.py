"""A simulated class: the same from the same seed, and the report finds in it what was planted."""

import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from scratch import ASSIGNMENT, graded, in_process, tree

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.platforms.collect import collect
from autograder.proof.samples import simulate as simulating
from autograder.proof.samples.accidents import TRICKS
from autograder.proof.samples.simulate import KINDS, MISTAKES, shares, simulate
from autograder.proof.samples.students import (
    FILES,
    NAMED_ACCIDENTS,
    READABLE,
    Sheet,
    attacks_on,
    broken,
    hostile,
)
from autograder.release.publish import notebooks
from autograder.reports import class_report

STUDENTS = 24


def truth_of(folder, assignment=ASSIGNMENT):
    return json.loads((folder / "truth.json").read_text())["assignments"][assignment]


@pytest.mark.slow
def test_a_seed_makes_one_class_and_another_seed_another(course, tmp_path):
    here = Course.at(course)
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        simulate(here, [ASSIGNMENT], tmp_path / name, STUDENTS, seed)
    assert tree(tmp_path / "one") == tree(tmp_path / "same")
    one, other = ([s["kind"] for s in truth_of(tmp_path / n)["students"].values()] for n in ("one", "other"))
    assert one != other
    assert truth_of(tmp_path / "one")["misconceptions"] != truth_of(tmp_path / "other")["misconceptions"]


@pytest.mark.slow
@pytest.mark.parametrize("assignment", exercises.assignments())
def test_the_truth_has_the_declared_proportions(template, tmp_path, assignment):
    truth = simulate(Course.at(template), [assignment], tmp_path / "class", 40, 3)["assignments"][assignment]
    assert truth["kinds"] == dict(zip(KINDS, shares([*KINDS.values()], 40), strict=True))
    students = truth["students"].values()
    assert Counter(one["kind"] for one in students) == truth["kinds"]
    assert truth["late"] == sum(one["late"] for one in students) == 4
    assert all((one["handed_in"] > truth["due"]) == one["late"] for one in students)
    declared = exercises.of_assignment(assignment)
    assert set(truth["misconceptions"]) == {e.function_name for e in declared}
    for exercise in declared:
        counts = truth["misconceptions"][exercise.function_name]
        assert sorted(counts.values(), reverse=True) == shares([*MISTAKES], truth["kinds"]["mistaken"])
        assert counts.keys() <= {answer.name for answer in exercise.misconceptions}
    assert all(bool(one["misconceptions"]) == (one["kind"] == "mistaken") for one in students)
    assert len([*(tmp_path / "class" / assignment).iterdir()]) == 40


def test_the_rest_of_a_term_changes_nothing_in_an_assignment(template, tmp_path):
    here = Course.at(template)
    simulate(here, [ASSIGNMENT], tmp_path / "alone", 8, 1)
    simulate(here, ["ch01_rnn_bottleneck", ASSIGNMENT], tmp_path / "both", 8, 1)
    assert tree(tmp_path / "alone" / ASSIGNMENT) == tree(tmp_path / "both" / ASSIGNMENT)


def test_nothing_is_overwritten_and_nothing_half_written(template, tmp_path, monkeypatch):
    here, folder = Course.at(template), tmp_path / "class"
    folder.mkdir()
    with pytest.raises(BadInputError, match="is there already"):
        simulate(here, [ASSIGNMENT], folder, 4, 1)
    folder.rmdir()
    monkeypatch.setattr(simulating, "as_bytes", lambda truth: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        simulate(here, [ASSIGNMENT], folder, 4, 1)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_command_says_what_it_made(course):
    told = in_process("simulate", ASSIGNMENT, "--students", 20, "--output", course / "class", cwd=course)
    assert told.exit_code == 0
    assert "9 honest, 5 mistaken, 3 partial, 2 broken, 1 hostile; 2 handed in after 2026-03-08" in told.stdout
    step = re.search(r"next: autograder (.*)", told.stdout)[1]
    assert in_process(*shlex.split(step), cwd=course).exit_code == 0
    assert len(list((course / "submitted").iterdir())) == 20
    again = in_process("simulate", ASSIGNMENT, "--output", course / "class", cwd=course)
    assert again.exit_code == 2
    assert "is there already" in " ".join(again.stderr.split())
    assert in_process("simulate", "ch99", cwd=course).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("assignment", [ASSIGNMENT, "ch11_capstone"])
def test_every_accident_and_every_attack_becomes_a_file(template, assignment):
    ((name, released),) = notebooks(Course.at(template), assignment).items()
    sheet = Sheet(name, json.loads(released), exercises.of_assignment(assignment), Random(1))
    made = [broken(sheet, what) for what in (*FILES, *NAMED_ACCIDENTS)]
    made += [hostile(sheet, what) for what in (*TRICKS, *attacks_on(assignment))]
    assert len({student.what for student, _ in made}) == len(made) > 50


@pytest.fixture(scope="module")
def simulated(template, tmp_path_factory):
    """A simulated class, collected and graded, and the truth about it."""
    folder = Path(shutil.copytree(template, tmp_path_factory.mktemp("simulated") / "course"))
    here = Course.at(folder)
    simulate(here, [ASSIGNMENT], folder / "simulated", STUDENTS, 1)
    truth = truth_of(folder / "simulated")
    collected = collect(here, ASSIGNMENT, folder / "simulated" / ASSIGNMENT, folder / "submitted")
    return here, truth, collected, graded(folder)


@pytest.mark.slow
def test_the_report_finds_what_was_planted(simulated):
    here, truth, _, _ = simulated
    found = {}
    for mistake in class_report.make_report(here, ASSIGNMENT).misconceptions:
        found.setdefault(mistake.exercise, {})[mistake.name] = mistake.count
    assert found == truth["misconceptions"]


@pytest.mark.slow
def test_everybody_has_the_points_that_are_certain(simulated):
    here, truth, collected, batch = simulated
    rows = {row.student: row.scores for row in gradebook.read(here, ASSIGNMENT)}
    full = {e.function_name: e.points for e in exercises.of_assignment(ASSIGNMENT)}
    lost = {s for s, one in truth["students"].items() if one["what"] in FILES.keys() - set(READABLE)}
    told = {problem.student for problem in batch.problems}
    assert lost == truth["students"].keys() - rows.keys()
    assert told | {problem.split(":")[0] for problem in collected.problems} == lost
    for student, scores in rows.items():
        about = truth["students"][student]
        for exercise, points in (about["points"] or {}).items():
            assert scores[exercise] == points, (student, about)
        for exercise in about["misconceptions"]:
            assert scores[exercise] < full[exercise], (student, about)
