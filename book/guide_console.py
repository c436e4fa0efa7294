"""Run the console of the instructor guide in a scratch course: ``python book/guide_console.py`` records it.

In a block after the comment ``% run``, each command after a ``$`` is run, and its output replaces the text
below it. A ``diff`` after ``% apply`` is applied to a copy of the course. ``% mark STUDENT POINTS`` enters
points as a teacher does in formgrader. Text is broken at 60 columns, and a long output loses its middle.
`tests/book/test_book_guides.py` runs the same commands with a smaller class.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "instructor_guide.md"
WIDTH = 60
FIRST, LAST = 18, 6
"""The lines of a long output that are shown at its beginning and at its end."""
CLONE = ("autograder", "tfcore", "solutions", "nbgrader_config.py", "_config.yml", "requirements.txt")
"""The parts of the repository that the commands need."""
HOME = "/home/you"
"""The page's name for the scratch folder."""
PROGRESS = re.compile(r"[a-z ]+:( \d+ of \d+,)? \d+ s")
"""A line that a long command prints every ten seconds; the page leaves these lines out."""
STEP = re.compile(
    r"^% run\n```console\n(?P<console>.*?)^```$"
    r"|^% apply\n```diff\n(?P<diff>.*?)^```$"
    r"|^% mark (?P<student>\S+) (?P<points>\S+)$",
    re.M | re.S,
)


@dataclass
class Ran:
    """A command as the page has it, its output, and its exit status."""

    typed: str
    printed: str
    code: int


def typed_in(console: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each as it is typed, with the text below it."""
    for one in re.finditer(r"^(\$ (?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", console, re.M):
        yield one[1], one[2]


class Walk:
    """A scratch folder with a copy of the course, and the folder where the last command ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clone = self.here = folder / "transformers"
        self.clone.mkdir()
        for name in CLONE:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.clone / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, self.clone)

    def type(self, typed: str) -> Ran:
        """Run a command in a shell, in the folder where the last one ended."""
        place = self.folder / "here"
        script = f"{typed.removeprefix('$ ')}\ncode=$?\npwd > {place}\nexit $code"
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=self.here,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(self.clone),
                "COLUMNS": str(WIDTH),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.here = Path(place.read_text().strip())
        return Ran(typed, shown(ran.stdout.replace(str(self.folder), HOME)), ran.returncode)

    def apply(self, diff: str) -> None:
        """Change the copy of the course."""
        subprocess.run(["git", "apply", "--unidiff-zero"], cwd=self.clone, input=diff, text=True, check=True)

    def mark(self, student: str, points: float) -> None:
        """Enter points for the first written answer that needs a mark, as formgrader does."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.here / 'gradebook.db'}") as book:
            (submission,) = book.student_submissions(student)
            grade = next(
                one
                for notebook in submission.notebooks
                for one in notebook.grades
                if one.needs_manual_grade and one.auto_score is None
            )
            grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()


def shown(printed: str) -> str:
    """Return an output as the page shows it: narrow, and without its middle if it is long."""
    told = [
        textwrap.wrap(line, WIDTH, break_on_hyphens=False) if len(line) > WIDTH else [line.rstrip()]
        for line in printed.splitlines()
        if not PROGRESS.fullmatch(line)
    ]
    if sum(map(len, told)) > FIRST + LAST:
        told = [*within(told, FIRST), ["..."], *within(told[::-1], LAST)[::-1]]
    return "".join(f"{line}\n" for lines in told for line in lines)


def within(told: list[list[str]], most: int) -> list[list[str]]:
    """Return the first outputs, each a list of lines, that have at most so many lines together."""
    heights = accumulate(map(len, told))
    return [lines for lines, height in zip(told, heights, strict=True) if height <= most]


def walk(page: str, folder: Path) -> Iterator[tuple[re.Match[str], list[Ran]]]:
    """Run every step of the page, in order, and yield each with the results of its commands."""
    here = Walk(folder)
    for step in STEP.finditer(page):
        ran: list[Ran] = []
        if step["console"]:
            ran += [here.type(typed) for typed, _ in typed_in(step["console"])]
        elif step["diff"]:
            here.apply(step["diff"])
        else:
            here.mark(step["student"], float(step["points"]))
        yield step, ran


def main() -> None:
    page, made, done = PAGE.read_text(), "", 0
    with tempfile.TemporaryDirectory() as folder:
        for step, ran in walk(page, Path(folder)):
            for one in ran:
                print(f"{one.typed}{one.printed}", end="", flush=True)
            text = "".join(one.typed + one.printed for one in ran)
            made += page[done : step.start()]
            made += f"% run\n```console\n{text}```" if ran else step[0]
            done = step.end()
    PAGE.write_text(made + page[done:])


if __name__ == "__main__":
    main()
