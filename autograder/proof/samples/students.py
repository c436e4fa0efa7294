"""What a student of each kind hands in: honest, mistaken, partial, broken, hostile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from random import Random
from typing import Any

from autograder.checking.declaration import Answer, Exercise
from autograder.proof.attacks import ATTACKS, Attack
from autograder.proof.samples.accidents import ACCIDENTS, TRICKS, Change, head
from autograder.proof.samples.notebooks import Notebook, Scores, add_cell, answer_cell, as_bytes, pasted

Answers = dict[str, Answer]
"""By exercise, an answer of its bank."""
File = tuple[str, bytes]
"""A name and what is in it."""

WORDS = {
    "good": "Every row is a set of weights that sum to one. With nothing to ask, all scores are equal, so "
    "all weights are equal too, and the output is the mean of the values. Nothing here knows about order.",
    "short": "The weights sum to one because of the softmax.",
    "wrong": "The token with the largest numbers is the most important one, so everybody looks at it.",
    "off the point": "I ran the cell and the picture looked fine to me.",
    "none": "",
}
"""Written answers, by what a person will find."""
HOW_OFTEN = {"good": 8, "short": 5, "wrong": 3, "off the point": 1, "none": 1}

GUESSED = {
    "secret": "../../.autograder/seed",
    "gradebook": "../../gradebook.db",
    "course": "../..",
    "pid": 2**31 - 1,
    "port": 8888,
    "socket": "../../grader.sock",
}
"""What a stranger takes for the target of an attack; of a process only a number that none has."""

FILES: dict[str, Callable[[str, bytes], File]] = {
    "cut off in the middle": lambda name, data: (f"{name}.ipynb", data[: len(data) // 2]),
    "a web page, saved as a notebook": lambda name, data: (
        f"{name}.ipynb",
        b"<!DOCTYPE html><title>Sign in</title>",
    ),
    "a script, and no notebook": lambda name, data: (f"{name}.py", b"print('all done')\n"),
    "called otherwise": lambda name, data: (f"{name} (1).ipynb", data),
}
"""What becomes of the file itself."""
READABLE = ("called otherwise",)
"""Of these, what can be graded still."""


@dataclass
class Student:
    """What is true of one student."""

    kind: str
    what: str = ""
    """What is done, what befell the notebook, or what it attempts."""
    misconceptions: dict[str, str] = field(default_factory=dict)
    """By exercise, the mistake of the bank."""
    written: str = "none"
    """A key of `WORDS`: what kind of written answer there is."""
    handed_in: str = ""
    late: bool = False
    points: Scores | None = None
    """By exercise, what is certain; what a known mistake costs is left out. None where nothing is."""


@dataclass(frozen=True)
class Sheet:
    """What everybody gets: the released notebook, its name and exercises, and the luck of the draw."""

    name: str
    blank: Notebook
    declared: list[Exercise]
    rng: Random

    def right(self) -> Answers:
        """A right answer to every exercise, each in some style."""
        return {exercise.function_name: self.rng.choice(exercise.styles) for exercise in self.declared}

    def filled(self, student: Student, answers: Answers) -> Notebook:
        """The notebook with these answers and some written one; what is known of its points is noted."""
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
    student = Student("honest")
    return student, sheet.file(sheet.filled(student, sheet.right()))


def mistaken(sheet: Sheet, mistakes: Answers) -> tuple[Student, File]:
    """Right but for known mistakes."""
    student = Student("mistaken", misconceptions={name: answer.name for name, answer in mistakes.items()})
    return student, sheet.file(sheet.filled(student, sheet.right() | mistakes))


def partial(sheet: Sheet, done: int) -> tuple[Student, File]:
    """The first exercises right, the next begun, the rest as released."""
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
    """Right, but something befell the notebook or its file."""
    student = Student("broken", what)
    notebook = sheet.filled(student, sheet.right())
    if what in BEFALLS:
        assert student.points is not None
        BEFALLS[what](notebook, student.points, sheet.declared)
        return student, sheet.file(notebook)
    if what not in READABLE:
        student.points = None
    return student, FILES[what](sheet.name, as_bytes(notebook))


def hostile(sheet: Sheet, what: Change | Attack) -> tuple[Student, File]:
    """A notebook that goes for points, files, other people's time or the grader."""
    student = Student("hostile", what.name if isinstance(what, Attack) else said(what))
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


def said(change: Change) -> str:
    """What a change is called, in words."""
    return change.__name__.replace("_", " ")


BEFALLS = {said(change): change for change in ACCIDENTS}


def attacks_on(assignment: str) -> list[Attack]:
    """The attacks that can be tried in its notebook: its own, and cells that go anywhere."""
    return [
        attack
        for attack in ATTACKS
        if attack.exercise.startswith(f"{assignment}/")
        or (attack.cell and attack.answer is None and not attack.change)
    ]


def of_every_kind(
    kinds: Sequence[str], planted: Sequence[Answers], sheet: Sheet
) -> Iterator[tuple[Student, File]]:
    """What each student hands in, with the truth about it.

    Args:
        kinds: what each is.
        planted: the mistakes of the mistaken, in turn.
        sheet: what all get.
    """
    mistakes = iter(planted)
    undone = cycle(range(len(sheet.declared)))
    befalls = cycle(_shuffled([*FILES, *BEFALLS], sheet.rng))
    attempts = cycle(_shuffled([*TRICKS, *attacks_on(sheet.declared[0].assignment)], sheet.rng))
    makers: dict[str, Callable[[], tuple[Student, File]]] = {
        "honest": lambda: honest(sheet),
        "mistaken": lambda: mistaken(sheet, next(mistakes)),
        "partial": lambda: partial(sheet, next(undone)),
        "broken": lambda: broken(sheet, next(befalls)),
        "hostile": lambda: hostile(sheet, next(attempts)),
    }
    for kind in kinds:
        yield makers[kind]()


def _shuffled(things: list[Any], rng: Random) -> list[Any]:
    return rng.sample(things, len(things))
