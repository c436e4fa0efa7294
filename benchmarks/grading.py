"""The same honest submissions graded by stock nbgrader and by us: equal points, and how long each took.

    python benchmarks/grading.py [--students N] [--json]

Stock nbgrader starts a kernel for each notebook and runs the public checks in it; we run the notebook in a
forked child and judge it from outside by hidden cases. Both are timed as commands, start-up included, and the
second of our figures without it. Ends with 1 if any student's points differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package

from autograder import exercises, release
from autograder.grading import gradebook
from autograder.grading.gradebook import Row
from autograder.layout import Course
from autograder.samples import make

ROOT = Path(__file__).parents[1]
ASSIGNMENT = "ch02_qkv"
HONEST = re.compile(r"style|mistake|partly|blank|answers-out|exception-in-a-function|syntax-error")
STOCK = """
c = get_config()
c.CourseDirectory.course_id = "stock"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=12, help="how many submissions (default: 12)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        told = compare(Path(folder), options.students)
    if options.json:
        print(json.dumps(told))
    else:
        show(told)
    return 1 if told["different"] else 0


def compare(folder: Path, count: int) -> dict[str, Any]:
    """Makes two courses with the same submissions, grades each its way, compares."""
    ours, stock = course(folder / "ours", None), course(folder / "stock", STOCK)
    for student, notebook in honest(ours, count).items():
        for here in (ours, stock):
            own = here.root / "submitted" / student / ASSIGNMENT
            own.mkdir(parents=True)
            (own / f"{ASSIGNMENT}.ipynb").write_bytes(make.as_bytes(notebook))
    run(stock, "nbgrader", "generate_assignment", ASSIGNMENT)
    stock_seconds = run(stock, "nbgrader", "autograde", ASSIGNMENT)
    grade = ("autograder.cli", "grade", ASSIGNMENT, "--submissions", "submitted", "--workers", "1", "--json")
    our_seconds = run(ours, *grade)
    inside = [
        json.loads(line)["verdict"]["seconds"]
        for line in (ours.state / "verdicts" / f"{ASSIGNMENT}.jsonl").read_text().splitlines()
    ]
    by_stock, by_us = points(stock), points(ours)
    return {
        "submissions": len(by_us),
        "stock_seconds": stock_seconds / len(by_us),
        "our_seconds": our_seconds / len(by_us),
        "our_seconds_without_start": sorted(inside)[len(inside) // 2],
        "ratio": stock_seconds / our_seconds,
        "different": {
            student: [by_stock.get(student), by_us.get(student)]
            for student in sorted({*by_stock, *by_us})
            if by_stock.get(student) != by_us.get(student)
        },
    }


def course(folder: Path, config: str | None) -> Course:
    """A scratch course with the repository's solutions, and its configuration or another."""
    shutil.copytree(ROOT / "solutions", folder / "solutions")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    if config:
        (folder / "nbgrader_config.py").write_text(config)
    return Course.at(folder)


def honest(ours: Course, count: int) -> dict[str, dict[str, Any]]:
    """Submissions of people who mean well, some right and some wrong, spread over the sample class."""
    (released,) = release.notebooks(ours, ASSIGNMENT).values()
    declared = exercises.of_assignment(ASSIGNMENT)
    found = {n: nb for n, nb, _ in make.students(json.loads(released), declared) if HONEST.match(n)}
    names = list(found)
    return {names[i * len(names) // count]: found[names[i * len(names) // count]] for i in range(count)}


def run(here: Course, module: str, *args: str) -> float:
    """Runs a command in the course; the seconds it took."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        cwd=here.root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(args)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return time.perf_counter() - started


def points(here: Course) -> dict[str, tuple[dict[str, float], tuple[str, ...]]]:
    """Each student's points by cell, and the cells that wait for a person."""

    def told(row: Row) -> tuple[dict[str, float], tuple[str, ...]]:
        return dict(sorted(row.scores.items())), row.needs_manual_grade

    return {row.student: told(row) for row in gradebook.read(here, ASSIGNMENT)}


def show(told: dict[str, Any]) -> None:
    print(
        f"{told['submissions']} honest submissions of {ASSIGNMENT}, one at a time, on {os.cpu_count()} cores"
    )
    print(f"  stock nbgrader autograde   {told['stock_seconds']:6.2f} s a submission")
    print(f"  autograder grade           {told['our_seconds']:6.2f} s a submission, start-up included")
    print(f"    without start-up         {told['our_seconds_without_start']:6.2f} s a submission, median")
    print(f"  {told['ratio']:.1f} times as fast")
    if told["different"]:
        print("  DIFFERENT POINTS (stock, ours):")
        for student, both in told["different"].items():
            print(f"    {student}: {both[0]}\n    {' ' * len(student)}  {both[1]}")
    else:
        print("  the same points for every student")


if __name__ == "__main__":
    sys.exit(main())
