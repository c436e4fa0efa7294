"""A thousand submissions in one batch: what the grader's processes hold, from the first to the last.

    python benchmarks/grading_memory.py [--assignment NAME] [--submissions N] [--json]

`autograder grade` runs with one worker on a class of distinct notebooks. Its own process and those of the
worker (the judge, the zygote and their forks) are looked at twice a second. Memory is the proportional set
size: a page that several processes share counts once. When all are graded, the driver enters them into the
gradebook in one transaction, which has a line of its own; what that takes does not depend on the class if a
smaller one (--submissions) takes the same. Ends with 1 if the driver's memory or the worker's has grown by
more than a tenth between the first three tenths of the class and the last, or a worker held over 600 MB.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grading  # first: it takes this folder off the path
import psutil

from autograder import exercises
from autograder.course.layout import Course
from autograder.proof.samples import make

MOST = 600
"""MB that a worker may hold."""
GROWTH = 1.1
LOOK_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assignment", default="light", help="whose class is graded (default: a light one)")
    parser.add_argument("--submissions", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.assignment not in (known := ("light", *exercises.assignments())):
        parser.error(f"--assignment must be one of {', '.join(known)}")
    if options.submissions < 40:
        parser.error("at least 40 submissions are needed to see growth")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        told = watched(Path(folder), grading.named(options.assignment), options.submissions)
    print(json.dumps(told) if options.json else shown(told))
    return 0 if told["flat"] and told["worker_most"] <= MOST else 1


def watched(folder: Path, lesson: grading.Lesson, count: int) -> dict[str, Any]:
    """Grades so many distinct submissions and looks at the memory meanwhile."""
    here = grading.course(folder, lesson, (grading.ROOT / "nbgrader_config.py").read_text())
    class_of = itertools.cycle(grading.honest(lesson).items())
    for number, (name, notebook) in zip(range(count), class_of, strict=False):
        path = folder / "submitted" / f"{number:04d}-{name}" / lesson.assignment
        path.mkdir(parents=True)
        own = grading.distinct(notebook, path.parent.name)
        (path / f"{lesson.assignment}.ipynb").write_bytes(make.as_bytes(own))
    command = [sys.executable, "-m", "autograder.cli", "grade", lesson.assignment, "-s", "submitted", "-j1"]
    started = time.perf_counter()
    with tempfile.TemporaryFile() as told:  # a pipe that nobody reads meanwhile would hold it up
        run = subprocess.Popen([*command, "--json"], cwd=folder, stdout=told)
        looks = []
        while run.poll() is None:
            looks.append(look(psutil.Process(run.pid), here, lesson.assignment))
            time.sleep(LOOK_SECONDS)
        told.seek(0)
        graded = json.load(told)["graded"]
    if graded != count:
        raise SystemExit(f"{graded} of {count} submissions were graded")
    return summary(looks, count) | {"seconds": time.perf_counter() - started, "submissions": count}


def look(driver: psutil.Process, here: Course, assignment: str) -> tuple[int, float, float]:
    """How many are done; MB of the driver and of its worker."""
    store = here.state / "verdicts" / f"{assignment}.jsonl"
    done = store.read_bytes().count(b"\n") if store.exists() else 0
    return done, megabytes(driver), sum(map(megabytes, descendants(driver)))


def descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def megabytes(process: psutil.Process) -> float:
    """The proportional set size; nothing of a process that has just ended."""
    try:
        return float(process.memory_full_info().pss) / 2**20
    except psutil.Error:
        return 0.0


def summary(looks: list[tuple[int, float, float]], count: int) -> dict[str, Any]:
    """The most that was held while each tenth of the class was graded."""
    rows: list[dict[str, Any]] = []
    graded = [one for one in looks if one[0] < count]
    for start in range(0, count, count // 10):
        end = start + count // 10
        if own := [(driver, worker) for done, driver, worker in graded if start < done <= end]:
            drivers, workers = zip(*own, strict=True)
            rows.append({"up_to": end, "driver": max(drivers), "worker": max(workers)})
    flat = all(
        rows[-1][which] <= GROWTH * max(row[which] for row in rows[:3]) for which in ("driver", "worker")
    )
    return {
        "rows": rows,
        "entering": max((driver for done, driver, _ in looks if done == count), default=0.0),
        "worker_most": max(w for _, _, w in looks),
        "flat": flat,
    }


def shown(told: dict[str, Any]) -> str:
    lines = [f"{told['submissions']} submissions by one worker in {told['seconds']:.0f} s; most held, in MB"]
    lines.append("   up to    driver    worker")
    lines += [f"{row['up_to']:8}{row['driver']:10.0f}{row['worker']:10.0f}" for row in told["rows"]]
    lines.append(f"entering{told['entering']:10.0f}")
    lines.append(
        f"most of a worker: {told['worker_most']:.0f} MB of {MOST}; {'flat' if told['flat'] else 'GROWING'}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
