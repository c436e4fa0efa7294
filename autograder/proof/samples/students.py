"""Make the submission of a student of each kind: honest, mistaken, partial, broken, hostile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from random import Random
from typing import Any

from autograder.checking.declaration import Answer, Exercise
from autograder.proof.attacks import ATTACKS, Attack
from autograder.proof.samples.accidents import ACCIDENTS, TRICKS, Change, head
from autograder.proof.samples.notebooks import Notebook, Scores, add_cell, answer_cell, pasted
from autograder.release.declared_cells import as_bytes

Answers = dict[str, Answer]
"""An answer of the bank for each exercise, by the exercise's name."""
File = tuple[str, bytes]
"""The name of a file and its contents."""

WORDS = {
    "good": "Every row is a set of weights that sum to one. With nothing to ask, all scores are equal, so "
    "all weights are equal too, and the output is the mean of the values. Nothing here knows about order.",
    "short": "The weights sum to one because of the softmax.",
    "wrong": "The token with the largest numbers is the most important one, so everybody looks at it.",
    "off the point": "I ran the cell and the picture looked fine to me.",
    "none": "",
}
"""Written answers, by the judgement that a person would give."""
HOW_OFTEN = {"good": 8, "short": 5, "wrong": 3, "off the point": 1, "none": 1}

GUESSED = {
    "secret": "../../.autograder/seed",
    "gradebook": "../../gradebook.db",
    "course": "../..",
    "pid": 2**31 - 1,
    "port": 8888,
    "socket": "../../grader.sock",
}
"""The guesses of a stranger for the targets of an attack; `pid` is a number that no process has."""

FILES: dict[str, Callable[[str, bytes], File]] = {
    "cut off in the middle": lambda name, data: (f"{name}.ipynb", data[: len(data) // 2]),
    "a web page, saved as a notebook": lambda name, data: (
        f"{name}.ipynb",
        b"<!DOCTYPE html><title>Sign in</title>",
    ),
    "a script, and no notebook": lambda name, data: (f"{name}.py", b"print('all done')\n"),
    "called otherwise": lambda name, data: (f"{name} (1).ipynb", data),
}
"""Changes to the file itself, by name."""
READABLE = ("called otherwise",)
"""The changes to the file after which it can still be graded."""


@dataclass
class Student:
    """The truth about one student and the submission."""

    kind: str
    what: str = ""
    """The finished part of the exercises, the accident or the attack."""
    misconceptions: dict[str, str] = field(default_factory=dict)
    """The mistake of the bank in each exercise, by the exercise's name."""
    written: str = "none"
    """The kind of the written answer, a key of `WORDS`."""
    handed_in: str = ""
    late: bool = False
    points: Scores | None = None
    """The certain points by exercise, without exercises that have a mistake; None if none are certain."""


@dataclass(frozen=True)
class Sheet:
    """The common start of all submissions: the released notebook, its name and exercises, and a generator."""

    name: str
    blank: Notebook
    declared: list[Exercise]
    rng: Random

    def right(self) -> Answers:
        """Return a right answer to every exercise, each in a random style."""
        return {exercise.function_name: self.rng.choice(exercise.styles) for exercise in self.declared}

    def filled(self, student: Student, answers: Answers) -> Notebook:
        """Return the notebook with these answers and a random written answer; store its certain points."""
        student.written = self.rng.choices([*HOW_OFTEN], [*HOW_OFTEN.values()])[0] if answers else "none"
        student.points = {
            e.function_name: e.points if e.function_name in answers else 0.0
            for e in self.declared
            if e.function_name not in student.misconceptions
        }
        return pasted(self.blank, answers, WORDS[student.written])

    def file(self, notebook: Notebook) -> File:
        return f"{self.name}.ipynb", as_bytes(notebook)


def honest(sheet: Sheet) -> tuple[Student, File]:
    """Make a submission with right answers."""
    student = Student("honest")
    return student, sheet.file(sheet.filled(student, sheet.right()))


def mistaken(sheet: Sheet, mistakes: Answers) -> tuple[Student, File]:
    """Make a submission that is right except for these mistakes."""
    student = Student("mistaken", misconceptions={name: answer.name for name, answer in mistakes.items()})
    return student, sheet.file(sheet.filled(student, sheet.right() | mistakes))


def partial(sheet: Sheet, done: int) -> tuple[Student, File]:
    """Make a submission with the first exercises right, the next begun and the rest as released."""
    student = Student(
        "partial", f"{done} of {len(sheet.declared)} exercises, the next begun" if done else "blank"
    )
    notebook = sheet.filled(student, dict(list(sheet.right().items())[:done]))
    if done:
        begun = sheet.declared[done]
        answer_cell(notebook, begun.function_name)["source"] = (
            f"{head(begun)}    # to do\n    result = None\n"
        )
    return student, sheet.file(notebook)


def broken(sheet: Sheet, what: str) -> tuple[Student, File]:
    """Make a submission with right answers and an accident to its notebook or its file."""
    student = Student("broken", what)
    notebook = sheet.filled(student, sheet.right())
    if what in NAMED_ACCIDENTS:
        assert student.points is not None
        NAMED_ACCIDENTS[what](notebook, student.points, sheet.declared)
        return student, sheet.file(notebook)
    if what not in READABLE:
        student.points = None
    return student, FILES[what](sheet.name, as_bytes(notebook))


def hostile(sheet: Sheet, what: Change | Attack) -> tuple[Student, File]:
    """Make a submission that tries a trick or an attack."""
    student = Student("hostile", what.name if isinstance(what, Attack) else description(what))
    notebook = sheet.filled(student, sheet.right())
    if isinstance(what, Attack):
        student.points = None
        if what.answer is not None:
            answer_cell(notebook, what.exercise.split("/")[1])["source"] = what.answer
        if what.cell:
            add_cell(notebook, 1, f"TARGET = {GUESSED!r}\n{what.cell_source}")
        if what.change:
            what.change(notebook)
    else:
        assert student.points is not None
        what(notebook, student.points, sheet.declared)
    return student, sheet.file(notebook)


def description(change: Change) -> str:
    """Return the name of a change in words."""
    return change.__name__.replace("_", " ")


NAMED_ACCIDENTS = {description(change): change for change in ACCIDENTS}


def attacks_on(assignment: str) -> list[Attack]:
    """Return the attacks for this assignment: attacks on its exercises, and cells that fit any notebook."""
    return [
        attack
        for attack in ATTACKS
        if attack.exercise.startswith(f"{assignment}/")
        or (attack.cell and attack.answer is None and not attack.change)
    ]


def of_every_kind(
    kinds: Sequence[str], planted: Sequence[Answers], sheet: Sheet
) -> Iterator[tuple[Student, File]]:
    """Yield the truth about each student and the submitted file.

    Args:
        kinds: the kind of each student.
        planted: the mistakes of each mistaken student, in turn.
        sheet: the released notebook and its exercises.
    """
    mistakes = iter(planted)
    finished = cycle(range(len(sheet.declared)))
    accidents = cycle(_shuffled([*FILES, *NAMED_ACCIDENTS], sheet.rng))
    attempts = cycle(_shuffled([*TRICKS, *attacks_on(sheet.declared[0].assignment)], sheet.rng))
    makers: dict[str, Callable[[], tuple[Student, File]]] = {
        "honest": lambda: honest(sheet),
        "mistaken": lambda: mistaken(sheet, next(mistakes)),
        "partial": lambda: partial(sheet, next(finished)),
        "broken": lambda: broken(sheet, next(accidents)),
        "hostile": lambda: hostile(sheet, next(attempts)),
    }
    for kind in kinds:
        yield makers[kind]()


def _shuffled(things: list[Any], rng: Random) -> list[Any]:
    return rng.sample(things, len(things))
