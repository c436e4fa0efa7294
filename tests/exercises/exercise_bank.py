"""What the tests of the exercises share: the catalogue, its banks examined once, and a toy exercise."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from autograder import exercises
from autograder.cage.tensors import is_array, leaves, numbers
from autograder.checking.candidate import local, watched_at_first
from autograder.checking.declaration import Answer, Case, Criterion, Exercise, Property, Trial
from autograder.checking.examination import Examination, examine
from autograder.checking.report import Report
from autograder.student import PUBLIC_SEED

SEEDS = (PUBLIC_SEED, 22)
"""Beside them `autograder verify` tries the public seed and a hidden one."""

NAMES = exercises.names()
"""All exercises: for tests that read declarations or draw cases."""

LONG = (
    "ch03_scaling/dot_product_stats",
    *(f"ch11_capstone/{name}" for name in ("TinyGPT", "find_coreference_head", "TinyLlama")),
)
"""Exercises whose answers take long to examine: thousands of draws, whole models."""

SAMPLE = {name.split("/")[0]: name for name in reversed(NAMES) if name not in LONG}.values()
"""The first other exercise of each assignment."""

EACH = [pytest.param(name, marks=pytest.mark.slow if name not in SAMPLE else ()) for name in NAMES]
"""All exercises: for tests that examine answers of the bank, which `make test-fast` does with the sample."""


def named(function: str) -> str:
    """Return the full name of the exercise that asks for this function."""
    (name,) = (name for name in NAMES if name.endswith(f"/{function}"))
    return name


def answers(exercise: Exercise) -> list[Answer]:
    return [*exercise.misconceptions, *exercise.styles]


@cache
def examination(name: str, seed: int) -> Examination:
    """The cases of an exercise under a seed; what the bank does in them is found once."""
    return Examination(exercises.find(name), seed)


@cache
def reports(name: str, seed: int) -> dict[str, Report]:
    """Every answer in the bank of an exercise, examined: its report by the answer's name."""
    exercise = exercises.find(name)
    calls = (*exercise.forbidden, "tfcore")
    on_answers = examination(name, seed).report_on_bank(calls)
    return {answer.name: report for answer, report in zip(exercise.answers, on_answers, strict=True)}


def report_on(name: str, function, seed: int = PUBLIC_SEED, shrinking: bool = False) -> Report:
    """A function examined as a student's answer to an exercise; cases are made smaller if asked."""
    exercise = exercises.find(name)
    candidate = watched_at_first(function, (*exercise.forbidden, "tfcore"))
    return examination(name, seed).report_on(candidate, shrinking)


def cases(name: str, seed: int = PUBLIC_SEED) -> Iterator[tuple[Criterion, Case]]:
    for criterion, drawn in exercises.find(name).draw(seed):
        yield from ((criterion, case) for case in drawn)


def alike(one, other) -> bool:
    """Whether two structures of arguments hold the same numbers, generators and objects lent."""
    first, second = list(leaves(one)), list(leaves(other))
    return len(first) == len(second) and all(
        np.array_equal(numbers(a), numbers(b), equal_nan=True)
        if is_array(a) and is_array(b)
        else repr(a) == repr(b)
        for (_, a), (_, b) in zip(first, second, strict=True)
    )


def toy() -> Exercise:
    """A made-up exercise: `total(x, axis=None)`, which sums, and refuses what is empty."""

    def total(x, axis=None):
        if x.size == 0:
            raise ValueError("nothing to add")
        return x.sum(axis=axis)

    def plain(rng: np.random.Generator) -> Iterator[Case]:
        yield Case("three numbers", (rng.uniform(1, 2, size=3),))
        yield Case("a table", (rng.uniform(1, 2, size=(4, 5)),))

    def along(rng: np.random.Generator) -> Iterator[Case]:
        yield Case("columns", (rng.uniform(1, 2, size=(2, 3)),), {"axis": 0})

    def empty(rng: np.random.Generator) -> Iterator[Case]:
        yield Case("no number", (np.zeros(0),))

    def positive(trial: Trial) -> str | None:
        return "a sum of positive numbers is positive" if np.min(trial.value) < 0 else None

    exercise = Exercise(
        name="toy/total",
        signature="total(x, axis=None)",
        goal="Add up.",
        reference=total,
        criteria=(
            Criterion("the sum", 2, plain),
            Criterion("along an axis", 1, along),
            Criterion("a ValueError for nothing", 0.5, empty),
            Criterion("the input is left as it was", 0.5, plain, observes="arguments"),
        ),
        properties=(Property("positive", positive),),
        forbidden=("math.fsum",),
    )

    @exercise.misconception("You take the mean. Add, and do not divide.")
    def mean(x, axis=None):
        return x.mean(axis=axis)

    @exercise.misconception("You ignore `axis`.")
    def axis_ignored(x, axis=None):
        return x.sum()

    @exercise.misconception("You change the input.")
    def in_place(x, axis=None):
        result = x.sum(axis=axis)
        x *= 0
        return result

    @exercise.style("numpy")
    def numpy_sum(x, axis=None):
        if not x.size:
            raise ValueError
        return np.sum(x, axis)

    return exercise


def examined(function, seed: int = 5) -> Report:
    """A function examined as an answer to the toy exercise."""
    exercise = toy()
    return examine(exercise, local(function, exercise.forbidden), seed)
