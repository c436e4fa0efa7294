"""The same honest submissions graded by stock nbgrader, by otter-grader and by us: speed, overhead, points.

    python benchmarks/grading.py [--assignment NAME] [--students N] [--rounds N] [--json]
    python benchmarks/grading.py --points [NAME ...] [--json]

The class is a light one, three exercises of chapter 2 without its picture, or that of a whole assignment. All
run on one core, in turns, each by its own command. In each round a command grades one submission and then
several, so that (long - short) / (how many more) is what one more submission costs; starting up is told
apart. Stock and otter start a kernel for each notebook and run the public checks in it. We run the notebook
in a caged fork and judge it from outside by hidden cases, of one seed, so that every run is alike. Since that
is quick, we are given ten copies of everyone, each with a line of its own. What of our time is no overhead is
found by running the same cells, but for the checks, in forks of a process that has everything imported.

otter-grader is installed in an environment of its own; where that fails it is left out. ``--points`` compares
only points, ours and stock's, of all honest students in the sample classes of the assignments that are named,
or of all. Ends with 1 if any points differ.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import site
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package

from autograder import exercises
from autograder.checking.declaration import Exercise
from autograder.checking.examination import Examination
from autograder.course.layout import Course
from autograder.grading import gradebook
from autograder.grading.gradebook import Row
from autograder.proof.samples import accidents, make
from autograder.proof.verify import HIDDEN_SEED
from autograder.release import publish
from autograder.student import PUBLIC_SEED

Notebook = dict[str, Any]
Class = dict[str, Notebook]
Points = dict[str, tuple[dict[str, float], tuple[str, ...]]]
"""Of each student: points by cell, and the cells that wait for a person."""

ROOT = Path(__file__).resolve().parents[1]
HONEST = re.compile(r"style|mistake|blank|half-done|exception-in-|syntax-error")
"""People who mean well, and whom stock nbgrader can grade. It loses those whose editor dropped the metadata
or whose process ended, gives nothing to who prints on stderr or answers after the test, waits for loops."""
LIGHT = 3
"""So many exercises of `make.EVERY_ACCIDENT` are the light assignment."""
COPIES = 10
"""How often our grader gets everyone."""
OTTER = "otter-grader==7.0.0"
STOCK_CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "stock"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assignment", default="light", help="whose class is graded (default: a light one)")
    parser.add_argument("--students", type=int, default=6, help="how many in each round (default: 6)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each takes its turn (default: 3)")
    parser.add_argument("--points", nargs="*", metavar="NAME", help="compare only points, of these")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.assignment not in (known := ("light", *exercises.assignments())):
        parser.error(f"--assignment must be one of {', '.join(known)}")
    if options.students < 2 or options.rounds < 1:
        parser.error("at least two students and one round are needed")
    if unknown := set(options.points or []) - set(known):
        parser.error(f"--points takes names of {', '.join(known)}, not {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        if options.points is not None:
            told = compared(Path(folder), options.points or exercises.assignments())
        else:
            told = race(Path(folder), options.assignment, options.students, options.rounds)
    print(json.dumps(told) if options.json else shown(told))
    return 1 if told["different"] else 0


def race(folder: Path, assignment: str, students: int, rounds: int) -> dict[str, Any]:
    """Lets the graders take turns on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    lesson = named(assignment)
    everyone = list(honest(lesson).items())
    chosen = dict(everyone[i * len(everyone) // students] for i in range(students))
    graders: list[Grader] = [Ours(folder / "ours", lesson), Stock(folder / "stock", lesson)]
    otter, why = environment(folder / "environment")
    if otter:
        graders.append(Otter(folder / "otter", lesson, otter))
    for number in range(rounds + 1):  # the first one is to warm up
        for grader in graders:
            grader.take_turn(f"r{number}", chosen if number else dict([*chosen.items()][:2]))
    ours = graders[0]
    own = computing([distinct(notebook, name) for name, notebook in chosen.items()])
    points = {grader.name: grader.points() for grader in graders}
    return {
        "assignment": assignment,
        "submissions": {grader.name: len(points[grader.name]) for grader in graders},
        "seconds": {grader.name: statistics.median(grader.each[1:]) for grader in graders},
        "start_up": {grader.name: statistics.median(grader.start[1:]) for grader in graders},
        "own_computing": own,
        "overhead": statistics.median(ours.each[1:]) - own,
        "without": {} if otter else {"otter-grader": why},
        "points": {name: told for name, told in points[ours.name].items() if name.startswith("r1-")},
        "different": {
            f"{grader.name}: {name}": [points[grader.name][name], told]
            for grader in graders[1:]
            for name, told in points[ours.name].items()
            if name in points[grader.name] and not grader.agrees(points[grader.name][name], told)
        },
    }


@dataclass(frozen=True)
class Lesson:
    """An assignment, or a part of one: its solved notebook and its exercises."""

    assignment: str
    notebook: Notebook
    declared: list[Exercise]


def named(name: str) -> Lesson:
    """The light assignment or a whole one."""
    return light() if name == "light" else whole(name)


def whole(assignment: str) -> Lesson:
    """An assignment as it is."""
    notebook = json.loads((ROOT / "solutions" / assignment / f"{assignment}.ipynb").read_bytes())
    return Lesson(assignment, notebook, exercises.of_assignment(assignment))


def light() -> Lesson:
    """The first exercises of an assignment, and nothing drawn or written."""
    lesson = whole(make.EVERY_ACCIDENT)
    declared = lesson.declared[:LIGHT]
    wanted = {e.function_name for e in declared} | {f"{e.function_name}_answer" for e in declared}
    marks = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in lesson.notebook["cells"]]
    imports = next(i for i, cell in enumerate(lesson.notebook["cells"]) if cell["cell_type"] == "code")
    kept = [c for i, c in enumerate(lesson.notebook["cells"]) if marks[i] in wanted or i == imports]
    return Lesson(lesson.assignment, lesson.notebook | {"cells": kept}, declared)


class Grader:
    """A grader with a folder of its own, and what its turns took."""

    name = ""
    copies = 1

    def __init__(self, folder: Path, lesson: Lesson) -> None:
        self.folder, self.assignment = folder, lesson.assignment
        self.start: list[float] = []
        self.each: list[float] = []

    def take_turn(self, turn: str, students: Class) -> None:
        """Grades one submission, then all that are given."""
        first = dict([*students.items()][:1])
        short, few = self.timed(f"{turn}s", first, 1)
        long, many = self.timed(turn, students, self.copies)
        self.each.append((long - short) / (many - few))
        self.start.append(short - self.each[-1])

    def timed(self, turn: str, students: Class, copies: int) -> tuple[float, int]:
        """Hands in under names that begin with the turn, grades, and says how long it took for how many."""
        handed_in = {
            f"{turn}-{name}" + (f"-{number}" if number else ""): notebook
            for name, notebook in students.items()
            for number in range(copies)
        }
        for student, notebook in handed_in.items():
            path = self.folder / turn / student / self.assignment / f"{self.assignment}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(make.as_bytes(distinct(notebook, student)))
        started = time.perf_counter()
        self.grade(turn)
        return time.perf_counter() - started, len(handed_in)

    def grade(self, turn: str) -> None:
        raise NotImplementedError

    def points(self) -> Points:
        return points(Course.at(self.folder), self.assignment)

    def agrees(self, told: Any, ours: Any) -> bool:
        return bool(told == ours)


class Ours(Grader):
    """`autograder grade` with one worker, at the strongest tier of the machine."""

    name = "autograder grade"
    copies = COPIES

    def __init__(self, folder: Path, lesson: Lesson) -> None:
        super().__init__(folder, lesson)
        course(self.folder, lesson, (ROOT / "nbgrader_config.py").read_text())

    def grade(self, turn: str) -> None:
        how = ("-s", turn, "-j1", "--json", "--seed", str(HIDDEN_SEED))
        told = run(self.folder, "-m", "autograder.cli", "grade", self.assignment, *how)
        if problems := json.loads(told)["problems"]:
            raise SystemExit(f"autograder grade: {problems}")


class Stock(Grader):
    """`nbgrader autograde` as it comes."""

    name = "nbgrader autograde"

    def __init__(self, folder: Path, lesson: Lesson) -> None:
        super().__init__(folder, lesson)
        course(self.folder, lesson, STOCK_CONFIG)
        run(self.folder, "-m", "nbgrader", "generate_assignment", self.assignment)

    def grade(self, turn: str) -> None:
        where = f"--CourseDirectory.submitted_directory={turn}"
        run(self.folder, "-m", "nbgrader", "autograde", self.assignment, where)


class Otter(Grader):
    """otter-grader without its containers: `otter run` for one notebook after another in one process."""

    name = "otter run"

    def __init__(self, folder: Path, lesson: Lesson, python: str) -> None:
        super().__init__(folder, lesson)
        self.python = python
        self.graded = [exercise.function_name for exercise in lesson.declared]
        self.told: dict[str, dict[str, float]] = {}
        tests = folder / "tests"
        tests.mkdir(parents=True)
        for exercise in lesson.declared:
            (tests / f"{exercise.function_name}.py").write_text(
                f"OK_FORMAT = True\ntest = {otter_test(exercise)!r}\n"
            )
        generate = ("-m", "otter", "generate", "-t", "tests", "--no-config", "--no-environment")
        run(folder, *generate, "--no-requirements", "-o", "autograder.zip", python=python)

    def grade(self, turn: str) -> None:
        for path in (paths := sorted((self.folder / turn).rglob("*.ipynb"))):
            without_checks(path)
        told = run(self.folder, "-c", OTTER_LOOP, *map(str, paths), python=self.python)
        by_path = json.loads(told.splitlines()[-1])
        self.told |= {path.parents[1].name: by_path[str(path)] for path in paths}

    def points(self) -> Points:
        return {student: (told, ()) for student, told in self.told.items()}

    def agrees(self, told: Any, ours: Any) -> bool:
        """It has no cells that wait for a person."""
        return bool(told[0] == {name: ours[0][name] for name in self.graded})


OTTER_LOOP = """
import json, os, sys
from otter.api import grade_submission
told = {}
for path in sys.argv[1:]:
    results = grade_submission(path, "autograder.zip", quiet=True).results
    told[path] = {name: one.score for name, one in results.items()}
print()
print(json.dumps(told))
"""


def otter_test(exercise: Exercise) -> dict[str, Any]:
    """The public check in otter's form: a case for each criterion, for as many points."""
    name = exercise.function_name
    criteria = [criterion for criterion, _ in Examination(exercise, PUBLIC_SEED).oracle.drawn]
    told = f"{name}.told"  # a case sees what others have bound only where it is bound to something
    check = [
        ">>> import contextlib, io",
        ">>> from autograder import check",
        ">>> with contextlib.redirect_stdout(io.StringIO()):",
        f"...     {told} = check({name})",
    ]
    cases = [
        {
            "code": "\n".join(
                [*(check if not number else []), f">>> assert {told}.criteria[{number}].earned"]
            ),
            "points": criterion.points,
            "hidden": True,
        }
        for number, criterion in enumerate(criteria)
    ]
    return {"name": name, "points": None, "suites": [{"cases": cases, "scored": True, "type": "doctest"}]}


def without_checks(path: Path) -> None:
    """Takes the test cells out of a notebook; otter brings its own."""
    notebook = json.loads(path.read_bytes())
    notebook["cells"] = [cell for cell in notebook["cells"] if not is_test(cell)]
    path.write_bytes(make.as_bytes(notebook))


def is_test(cell: dict[str, Any]) -> bool:
    """Whether a cell is a test, which gives points to what stands in others."""
    marks = cell["metadata"].get("nbgrader", {})
    return bool(marks.get("grade") and not marks.get("solution"))


def environment(folder: Path) -> tuple[str | None, str]:
    """An interpreter with otter-grader and all that this one has, or None and why there is none."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", OTTER]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = "; ".join(f"site.addsitedir({path!r})" for path in site.getsitepackages())
    (packages / "zz_ours.pth").write_text(f"import site; {ours}\n")
    return python, ""


def computing(notebooks: list[Notebook]) -> float:
    """Seconds that the cells of a notebook take by themselves, without starting anything: the mean."""
    sources = [
        ["".join(c["source"]) for c in n["cells"] if c["cell_type"] == "code" and not is_test(c)]
        for n in notebooks
    ]
    told = run(ROOT, "-c", BARE, stdin=json.dumps(sources))
    return float(told.splitlines()[-1])


BARE = f"""
import json, os, sys, time
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
from autograder.cage import child
shell = child.make_shell()
taken = []
for sources in json.load(sys.stdin):
    started = time.perf_counter()
    if not os.fork():
        for source in sources:
            child._run(shell, np.frombuffer(source.encode(), np.uint8), 60)
        os._exit(0)
    os.wait()
    taken.append(time.perf_counter() - started)
print(sum(taken) / len(taken))
"""


def compared(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Our points and stock's of all honest students of these classes."""
    lessons = [named(name) for name in names]
    classes = [honest(lesson) for lesson in lessons]
    folders = [folder / name for name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # only commands run in threads
        told = list(pool.map(points_of, folders, lessons, classes))
    return {
        "submissions": {"compared": sum(count for count, _ in told)},
        "different": {name: both for _, different in told for name, both in different.items()},
    }


def points_of(folder: Path, lesson: Lesson, students: Class) -> tuple[int, dict[str, list[Any]]]:
    """How many of a class both graded, and whose points differ: stock's, ours."""
    ours, stock = Ours(folder / "ours", lesson), Stock(folder / "stock", lesson)
    for grader in (ours, stock):
        grader.timed("handed_in", students, 1)
    by_us, by_stock = ours.points(), stock.points()
    different = {
        f"{lesson.assignment}: {name}": [by_stock.get(name), by_us.get(name)]
        for name in sorted({*by_stock, *by_us})
        if by_stock.get(name) != by_us.get(name)
    }
    return len(by_us), different


def course(folder: Path, lesson: Lesson, config: str) -> Course:
    """A scratch course of one lesson, with a configuration."""
    path = folder / "solutions" / lesson.assignment / f"{lesson.assignment}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(make.as_bytes(lesson.notebook))
    (folder / "nbgrader_config.py").write_text(config)
    return Course.at(folder)


def honest(lesson: Lesson) -> Class:
    """The students of the lesson's sample class whom stock nbgrader can grade."""
    with tempfile.TemporaryDirectory() as folder:
        here = course(Path(folder), lesson, (ROOT / "nbgrader_config.py").read_text())
        (released,) = publish.notebooks(here, lesson.assignment).values()
    befallen = tuple(one for one in accidents.ALL if HONEST.match(one.__name__.replace("_", "-")))
    class_of = make.students(json.loads(released), lesson.declared, befallen)
    return {student: notebook for student, notebook, _ in class_of}


def distinct(notebook: Notebook, student: str) -> Notebook:
    """The notebook with its student's name in it, so that no two are the same work to grade."""
    own = copy.deepcopy(notebook)
    place = next(i for i, cell in enumerate(own["cells"]) if "nbgrader" not in cell["metadata"])
    own["cells"][place]["source"] = ["".join(own["cells"][place]["source"]) + f"\n# {student}"]
    return own


def run(here: Path, *args: str, python: str = sys.executable, stdin: str = "") -> str:
    """Runs Python in a folder; what it printed."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [python, *args],
        cwd=here,
        env={**os.environ, "PATH": path},
        input=stdin,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(args)[:200]} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def points(here: Course, assignment: str) -> Points:
    """Each student's points in a gradebook."""

    def told(row: Row) -> tuple[dict[str, float], tuple[str, ...]]:
        return dict(sorted(row.scores.items())), row.needs_manual_grade

    return {row.student: told(row) for row in gradebook.read(here, assignment)}


def shown(told: dict[str, Any]) -> str:
    lines = []
    if "seconds" in told:
        lines += [f"{told['assignment']}, honest submissions, on one core, one after another"]
        lines += [f"{'':22}graded  seconds each  start-up  we are"]
        ours = told["seconds"]["autograder grade"]
        for name, seconds in told["seconds"].items():
            lines.append(
                f"  {name:20}{told['submissions'][name]:6}{seconds:14.3f}{told['start_up'][name]:10.1f}"
                f"{seconds / ours:7.1f} x"
            )
        lines.append(f"  of ours, the cells' own computing{told['own_computing']:9.3f}")
        lines.append(f"  overhead                         {told['overhead']:9.3f}")
        lines += [f"  without {name}: {why}" for name, why in told["without"].items()]
        lines += ["", "points"]
        lines += [f"  {name:32}{sum(p.values()):6g}  {p}" for name, (p, _) in told["points"].items()]
    if told["different"]:
        lines.append("DIFFERENT POINTS (theirs, ours):")
        lines += [f"  {name}\n    {one}\n    {other}" for name, (one, other) in told["different"].items()]
    else:
        lines.append(f"the same points for everyone: {told['submissions']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
