"""The guides: every command exists, every report is what `check` says today, every limit is the grader's."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from book_paths import ROOT

STUDENT = ROOT / "book" / "student_guide.md"
INSTRUCTOR = ROOT / "book" / "instructor_guide.md"
LANDING = ROOT / "book" / "index.md"
GLOSSARY = ROOT / "book" / "glossary.md"
CHAPTER = "ch03_scaling"
WIDTH = 46
"""What fits into a phone without being moved sideways."""

REPORT = re.compile(
    r"^% report on (?P<name>\w+)\n```python\n(?P<code>.*?)^```\n.*?^```text\n(?P<report>.*?)^```$",
    re.M | re.S,
)
"""A comment that names the exercise, the answer, and after it the report on it."""


def reports() -> list[Any]:
    found = [one for page in (STUDENT, LANDING) for one in REPORT.finditer(page.read_text())]
    return [pytest.param(*one.groups(), id=f"{n}-{one['name']}") for n, one in enumerate(found, 1)]


def reported(name: str, code: str) -> Any:
    """The report on an answer, as in a notebook."""
    import math

    import numpy as np

    from autograder import check

    cells: dict[str, Any] = {"np": np, "math": math}
    exec(code, cells)
    return check(cells[name])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code", "report"), reports())
def test_a_report_is_what_check_says(name: str, code: str, report: str) -> None:
    assert report == reported(name, code).wrapped(WIDTH) + "\n"


@pytest.mark.parametrize(("name", "code", "report"), reports())
def test_an_answer_and_its_report_fit_on_a_phone(name: str, code: str, report: str) -> None:
    assert [line for line in (code + report).splitlines() if len(line) > WIDTH] == []


def test_the_landing_page_does_not_count_too_many_mistakes() -> None:
    from autograder import exercises

    assert "name more than 1,500 mistakes" in LANDING.read_text()
    assert sum(len(exercises.find(name).misconceptions) for name in exercises.names()) > 1500


@pytest.mark.slow
def test_the_reports_are_of_every_kind() -> None:
    found = [reported(one["name"], one["code"]) for one in REPORT.finditer(STUDENT.read_text())]
    assert len(found) >= 4
    assert any(report.diagnosis for report in found)
    assert any(not report.passed and not report.diagnosis for report in found)
    assert any("expected shape" in str(report) for report in found)
    assert any(report.passed for report in found)


def test_the_students_find_every_notebook() -> None:
    linked = set(re.findall(r"\{doc\}`[^`<]*<(notebook_\w+)>`", STUDENT.read_text()))
    assert linked == {page.stem for page in (ROOT / "book").glob("notebook_*.md")}


def commands(page: Path) -> list[str]:
    """What stands behind a ``$`` in the page's console blocks; a backslash continues a line."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.M | re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


COMMANDS = sorted({command for page in (STUDENT, INSTRUCTOR) for command in commands(page)})


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def pinned() -> set[str]:
    return set(re.findall(r"^([\w-]+)(?:\[\w+\])?==", (ROOT / "requirements.txt").read_text(), re.M))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    program, *words = shlex.split(command.split(" | ")[0], comments=True)
    if program == "autograder":
        import typer

        from autograder.cli import app

        group: Any = typer.main.get_command(app)
        name, *rest = words
        assert name in group.commands
        group.commands[name].make_context(name, rest)  # parses, and runs nothing
    elif program == "make":
        assert set(words) <= targets()
    elif program == "nbgrader":
        from nbgrader.apps.dbapp import DbAssignmentApp, DbStudentApp

        known = {"assignment": DbAssignmentApp.subcommands, "student": DbStudentApp.subcommands}
        assert words[0] == "db"
        assert words[2] in known[words[1]]
    elif program == "python":
        dash_m, module, *rest = words
        assert dash_m == "-m"
        assert module == "autograder.platforms.clusters.slurm"
        from autograder.platforms.clusters.slurm import parser

        test_a_command_exists(shlex.join(parser().parse_args(rest).command))
    elif program == "pip":
        assert {name.split("[")[0] for name in words[1:]} <= pinned()
    else:
        assert program in (
            "git",
            "cp",
            "ln",
            "mkdir",
            "cd",
            "export",
            "jupyter",
            "rm",
            "mv",
            "tar",
            "echo",
            "cut",
        )


def test_every_command_of_the_autograder_is_shown() -> None:
    from autograder.cli import app

    shown = {command.split()[1] for command in commands(INSTRUCTOR) if command.startswith("autograder ")}
    names = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback}
    names |= {group.name for group in app.registered_groups}
    assert shown == names


def test_the_limits_are_those_of_the_grader() -> None:
    from autograder.cage.probes import LONGER
    from autograder.cage.scratch_dir import MOST_BYTES
    from autograder.checking.report import WIDTH as IN_A_NOTEBOOK
    from autograder.grading.matching import MAX_BYTES
    from autograder.grading.session import Limits
    from autograder.proof.doctor import TIER_WORDS
    from autograder.student import CALL_SECONDS

    text, limits = STUDENT.read_text(), Limits()
    assert f"A cell may take {limits.cell_seconds:g} seconds" in text
    assert f"a call of your function {limits.call_seconds:g} seconds" in text
    assert f"the whole notebook {limits.total_seconds:g} seconds" in text
    assert f"may use {limits.memory_bytes >> 30} GiB of memory" in text
    assert f"more than {CALL_SECONDS:g} seconds of computing" in text
    assert f"must not exceed {MAX_BYTES >> 20} MiB" in text
    assert f"up to {IN_A_NOTEBOOK} characters" in text
    assert f"broken at {WIDTH}," in text
    assert set(LONGER.values()) == {6}, "the page says six times"
    teachers = " ".join(INSTRUCTOR.read_text().split())
    assert TIER_WORDS["A"] in teachers
    assert f"{MOST_BYTES >> 20} MB into its home" in teachers
    own = f"{limits.cell_seconds:g} seconds a cell and {limits.total_seconds:g} seconds in all"
    assert own in teachers


ACCIDENTS = {
    "one answer with a syntax error": "syntax_error",
    "an extra cell that never ends": "endless_loop_in_a_cell",
    "`os._exit(0)` in a cell before the third exercise": "process_ended_in_a_cell",
    "a loop that swallows every interrupt, before the fifth": "endless_loop_that_cannot_be_stopped",
    "all metadata lost, as in some editors": "metadata_stripped",
    "the first answer moved to the end": "answers_out_of_order",
    "the test cells deleted": "test_cells_deleted",
    "blank, with test cells changed to give `100`": "test_cells_forged",
    "blank, with test cells tagged to be skipped": "test_cells_skipped",
}
"""What the page says of an accident, and what the sample class calls it."""


@pytest.fixture(scope="module")
def sample_class() -> dict[str, dict[str, float]]:
    """What each student of a sample class of chapter 3 must get, with every accident."""
    import json

    from autograder import exercises
    from autograder.course.layout import Course
    from autograder.proof.samples import make
    from autograder.release import publish

    (blank,) = publish.notebooks(Course.at(ROOT), CHAPTER).values()
    students = make.students(json.loads(blank), exercises.of_assignment(CHAPTER))
    return {name: scores for name, _, scores in students}


def without_points(scores: dict[str, float]) -> str:
    """Say which exercises have no points, in the words of the page."""
    names = list(scores)
    lost = [name for name in names if not scores[name]]
    first = names.index(lost[0]) if lost else len(names)
    ordinal = {2: "third", 4: "fifth"}
    if lost == names[first:]:
        return {0: "all", len(names): "none"}.get(first) or f"the {ordinal[first]} and all after it"
    assert len(lost) == 1
    return "the exercise of this answer"


@pytest.mark.slow
def test_the_accidents_cost_what_the_page_says(sample_class: dict[str, dict[str, float]]) -> None:
    text = INSTRUCTOR.read_text()
    for said, accident in ACCIDENTS.items():
        scores = sample_class[accident.replace("_", "-")]
        assert f"| {said} | {without_points(scores)} |" in text


FEW = 24
"""Students, where the page has 200."""


def beginning(printed: str) -> str:
    """How an output begins, without its numbers."""
    return re.sub(r"[\d.]+", "#", printed.partition("\n")[0].strip())[:30]


@pytest.mark.slow
def test_the_instructors_console_does_what_the_page_says(tmp_path: Path) -> None:
    """The whole walk with a smaller class."""
    from guide_console import STEP, typed_in, walk

    page = INSTRUCTOR.read_text()
    shown = [below for step in STEP.finditer(page) for _, below in typed_in(step["console"] or "")]
    short = page.replace("--students 200", f"--students {FEW}")
    done = [ran for _, commands in walk(short, tmp_path) for ran in commands]
    assert len(done) == len(shown) > 15
    for ran, below in zip(done, shown, strict=True):
        assert "Traceback" not in ran.printed
        assert ran.code in (
            (0, 2) if " grade " in ran.typed else (0, 1) if " check " in ran.typed else (0,)
        ), ran
        assert beginning(ran.printed) == beginning(below), ran.typed
    told = " ".join(done[-2].printed.split())
    assert "changed: ch02_qkv, soft_lookup: up for 3 submissions that did not change" in told
    grades = (tmp_path / "autumn" / "grades.csv").read_text()
    assert re.search(r"^student-012,ch02_qkv,.*,2\.5,", grades, re.M), "the mark is in the table"


@pytest.mark.slow
def test_the_page_tells_of_the_class_as_it_is_simulated(tmp_path: Path) -> None:
    from autograder.course.layout import Course
    from autograder.proof.samples.simulate import simulate

    text = " ".join(INSTRUCTOR.read_text().split())
    (truth,) = simulate(Course.at(ROOT), ["ch02_qkv"], tmp_path / "class", 200, 1)["assignments"].values()
    kinds = ", ".join(f"{count} {kind}" for kind, count in truth["kinds"].items())
    assert f"ch02_qkv: {kinds}; {truth['late']} handed in after {truth['due']}" in text
    assert f'--duedate "{truth["due"]}"' in text
    for counts in truth["misconceptions"].values():
        assert "in {}, {} and {} of the 200".format(*sorted(counts.values(), reverse=True)) in text
    for exercise, counts in truth["misconceptions"].items():
        most = max(counts, key=lambda name: counts[name])
        assert f"{counts[most]} of 196 {exercise}: {most} " in text, "the report finds what was planted"


def terms() -> list[tuple[str, str]]:
    """The terms of the glossary, each with its definition."""
    (body,) = re.findall(r"^:::+\{glossary\}\n(.*?)^:::", GLOSSARY.read_text(), re.M | re.S)
    return re.findall(r"^(\S.*)\n +(\S.*(?:\n +\S.*)*)", body, re.M)


def test_the_glossary_is_in_order() -> None:
    names = [re.sub(r"[^a-z0-9 ]", "", name.lower().replace("-", " ")) for name, _ in terms()]
    assert names == sorted(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("name", "definition"), [pytest.param(*one, id=one[0]) for one in terms()])
def test_a_term_is_short_and_says_where(name: str, definition: str) -> None:
    assert re.search(r"\{doc\}`|chapter\s(7|8|9|10)\b", definition)
    assert len(definition.split()) < 70
