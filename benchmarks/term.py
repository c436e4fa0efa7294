"""A term's chain for one assignment, collect, grade, feedback, report and export, beside stock nbgrader.

    python benchmarks/term.py [--assignment NAME] [--students N] [--stock N] [--cleared] [--json]

Honest students run their notebooks and hand them in as Jupyter saves them, with outputs; --cleared removes
these. Our grader keeps a saved picture and draws one that is missing. Each answer has a line of its own, so
that no two are the same work to grade or to lay out. Each of our commands handles the whole class, on all
cores. Stock nbgrader runs `autograde` and `generate_feedback` for one of a sample of the class (--stock) and
then for the others, in the same run, so that (long - short) / (how many more) is the cost of one submission;
from that and from starting up follows the cost of the class. `nbgrader export` takes the sample. Processor
time is the sum over all processes of a command. Memory is the most that these processes hold together: the
proportional set size, in which a shared page counts once. The machine's load is printed, because other
programs slow down seconds more than processor time. Ends with 1 if any points of the sample differ.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import grading  # first: it takes this folder off the path
import psutil

from autograder import exercises
from autograder.course.layout import Course
from autograder.proof.samples import make
from autograder.proof.verify import HIDDEN_SEED

LOOK_SECONDS = 0.5
HANDED_IN = "2026-03-01 10:00:00 UTC"


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds, seconds of all its processes on processors, and megabytes."""

    seconds: float
    processor: float
    memory: float

    def __add__(self, other: Cost) -> Cost:
        """One command after the other."""
        return Cost(
            self.seconds + other.seconds, self.processor + other.processor, max(self.memory, other.memory)
        )


NOTHING = Cost(0, 0, 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assignment", default="ch02_qkv", help="which one (default: ch02_qkv)")
    parser.add_argument("--students", type=int, default=200, help="how many hand in (default: 200)")
    parser.add_argument("--stock", type=int, default=10, help="how many of them stock grades (default: 10)")
    parser.add_argument("--cleared", action="store_true", help="hand in notebooks without outputs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.assignment not in (known := exercises.assignments()):
        parser.error(f"--assignment must be one of {', '.join(known)}")
    if not 3 <= options.stock <= options.students:
        parser.error("--stock must be at least 3 and at most --students")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        lesson = grading.whole(options.assignment)
        everyone = class_of(lesson, options.students, options.cleared)
        told = race(Path(folder), lesson, everyone, options.stock)
    print(json.dumps(told) if options.json else shown(told))
    return 1 if told["different"] else 0


def race(folder: Path, lesson: grading.Lesson, everyone: grading.Class, sample: int) -> dict[str, Any]:
    """Lets both do everything, one after the other."""
    load, students = [os.getloadavg()[0]], len(everyone)
    ours = our_chain(folder / "ours", lesson, everyone)
    load.append(os.getloadavg()[0])
    stock, start_up = stock_chain(folder / "stock", lesson, dict([*everyone.items()][:sample]))
    load.append(os.getloadavg()[0])
    by_us, by_stock = (
        grading.points(Course.at(folder / name), lesson.assignment) for name in ("ours", "stock")
    )
    whole, each = sum(ours.values(), NOTHING), sum(stock.values(), NOTHING)
    for_all = {part: getattr(start_up, part) + students * getattr(each, part) for part in PARTS}
    return {
        "assignment": lesson.assignment,
        "students": students,
        "sample": sample,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": load,
        "ours": {name: asdict(cost) for name, cost in ours.items()} | {"whole chain": asdict(whole)},
        "stock_each": {name: asdict(cost) for name, cost in stock.items()} | {"whole chain": asdict(each)},
        "stock_start_up": asdict(start_up),
        "stock_for_all": for_all,
        "ratio": {part: for_all[part] / getattr(whole, part) for part in PARTS},
        "different": {
            name: [by_stock[name], by_us.get(name)] for name in by_stock if by_stock[name] != by_us.get(name)
        },
    }


PARTS = ("seconds", "processor")


def class_of(lesson: grading.Lesson, students: int, cleared: bool = False) -> grading.Class:
    """So many honest students, who each wrote a line of their own into every answer."""
    kinds = [*grading.honest(lesson).items()][:students]
    if not cleared:
        kinds = [(kind, executed(notebook)) for kind, notebook in kinds]
    found = {}
    for number, (kind, notebook) in zip(range(students), cycle(kinds), strict=False):
        name = f"{number:04d}-{kind}"
        own = copy.deepcopy(notebook)
        for cell in own["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution"):
                cell["source"] = ["".join(cell["source"]) + f"\n# {name}"]
        found[name] = own
    return found


def executed(notebook: grading.Notebook) -> grading.Notebook:
    """The notebook as Jupyter saves it after all cells have run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "notebook.ipynb")
        path.write_bytes(make.as_bytes(notebook))
        how = ("--to", "notebook", "--inplace", "--execute", "--allow-errors")
        grading.run(Path(folder), "-m", "nbconvert", *how, path.name)
        saved: grading.Notebook = json.loads(path.read_bytes())
    return saved


def our_chain(folder: Path, lesson: grading.Lesson, everyone: grading.Class) -> dict[str, Cost]:
    """What each of our commands takes for the whole class."""
    grading.course(folder, lesson, (grading.ROOT / "nbgrader_config.py").read_text())
    name = lesson.assignment
    for student, notebook in everyone.items():
        path = folder / "inbox" / f"{student}+{name}+{HANDED_IN}" / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(make.as_bytes(notebook))
    grading.run(folder, "-m", "autograder.cli", "release", name)
    commands = {
        "collect": ("collect", name, "inbox"),
        "grade": ("grade", name, "--json", "--seed", str(HIDDEN_SEED)),
        "feedback": ("feedback", name),
        "report": ("report", name),
        "export": ("export", name, "--output", "grades.csv"),
    }
    return {step: watched(folder, "autograder.cli", *command) for step, command in commands.items()}


def stock_chain(
    folder: Path, lesson: grading.Lesson, students: grading.Class
) -> tuple[dict[str, Cost], Cost]:
    """Stock nbgrader's cost of one more submission, by command, and the cost of starting its commands."""
    grading.course(folder, lesson, grading.STOCK_CONFIG)
    name = lesson.assignment
    grading.run(folder, "-m", "nbgrader", "generate_assignment", name)
    first, *others = students
    for student, notebook in students.items():
        path = folder / ("one" if student == first else "more") / student / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(make.as_bytes(notebook))
    each, start = {}, NOTHING
    for step, reads, writes in STOCK_STEPS:
        one, more = (
            watched(
                folder,
                *("nbgrader", step, name),
                f"--CourseDirectory.{reads}_directory={turn}" + ("" if reads == "submitted" else f"-{reads}"),
                f"--CourseDirectory.{writes}_directory={turn}-{writes}",
            )
            for turn in ("one", "more")
        )
        per = [(getattr(more, part) - getattr(one, part)) / (len(others) - 1) for part in PARTS]
        each[step] = Cost(*per, more.memory)
        start += Cost(one.seconds - per[0], one.processor - per[1], one.memory)
    return each, start + watched(folder, "nbgrader", "export")


STOCK_STEPS = ("autograde", "submitted", "autograded"), ("generate_feedback", "autograded", "feedback")
"""Stock's commands for each submission, with the folder that each reads and the folder that it writes."""


def watched(folder: Path, *command: str) -> Cost:
    """Runs a command of a module in a folder and looks at its processes meanwhile."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    began = time.perf_counter()
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    processor = memory = 0.0
    while process.poll() is None:
        used, held = look(psutil.Process(process.pid))
        processor, memory = max(processor, used), max(memory, held)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
    if process.returncode:
        said = (folder / "output.txt").read_text(errors="replace")[-3000:]
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    return Cost(time.perf_counter() - began, processor, memory)


def look(root: psutil.Process) -> tuple[float, float]:
    """Processor seconds and megabytes of a process with its descendants; seconds also of ended ones."""
    used = held = 0.0
    with suppress(psutil.Error):
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                used += sum(process.cpu_times()[:4])  # its own, and of its children that have ended
                held += process.memory_full_info().pss / 1e6
    return used, held


def shown(told: dict[str, Any]) -> str:
    load = ", ".join(f"{one:.1f}" for one in told["load"])
    lines = [
        f"{told['assignment']}, {told['students']} honest submissions, {told['cores']} cores; "
        f"load before, between and after: {load}",
        f"{'autograder':20}{'seconds':>10}{'processor':>11}{'MB':>7}",
    ]
    for name, cost in told["ours"].items():
        lines.append(f"  {name:18}{cost['seconds']:10.1f}{cost['processor']:11.1f}{cost['memory']:7.0f}")
    lines += ["", f"stock nbgrader, each of {told['sample']}"]
    for name, cost in told["stock_each"].items():
        lines.append(f"  {name:18}{cost['seconds']:10.2f}{cost['processor']:11.2f}{cost['memory']:7.0f}")
    cost, ratio = told["stock_for_all"], told["ratio"]
    lines.append(f"  {'for the whole class':18}{cost['seconds']:9.0f}{cost['processor']:11.0f}")
    lines.append(f"  we are faster by  {ratio['seconds']:10.1f}{ratio['processor']:11.1f}")
    if told["different"]:
        lines.append("DIFFERENT POINTS (theirs, ours):")
        lines += [f"  {name}\n    {one}\n    {other}" for name, (one, other) in told["different"].items()]
    else:
        lines.append(f"the same points for all {told['sample']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
