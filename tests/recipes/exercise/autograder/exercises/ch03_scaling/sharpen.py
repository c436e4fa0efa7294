"""ch03_scaling/sharpen: weights raised to a power."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise
from autograder.exercises.laws import FIRST, LAST
from tfcore import sharpening


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    drawn = rng.uniform(0.1, 1.0, size=shape)
    result: np.ndarray = drawn / drawn.sum(axis=-1, keepdims=True)
    return result


def squared(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one row of 3 weights", (weights(rng, 3),))
    yield Case("4 rows of 5 weights", (weights(rng, 4, 5),))
    yield Case("a batch of shape (2, 3, 4)", (weights(rng, 2, 3, 4),))


def other_powers(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("power 3", (weights(rng, 2, 4), 3.0))
    yield Case("the root", (weights(rng, 3, 5),), {"power": 0.5})


EXERCISE = Exercise(
    name="ch03_scaling/sharpen",
    signature="sharpen(weights, power=2.0)",
    goal="Raise the weights to a power, and let each row sum to 1 again.",
    section="What goes wrong",
    minutes=10,
    difficulty="easy",
    reference=sharpening.sharpen,
    criteria=(
        Criterion("the squares, as weights again", 2, squared),
        Criterion("any power that is asked for", 0.5, other_powers),
        Criterion("the input is left as it was", 0.5, squared, observes="arguments"),
    ),
    properties=(*FIRST, *LAST),
)
