"""ch04_multi_head/split_heads: each token's wide row cut into h narrow ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads of width 3", (tensor(rng, 1, 4, 6), 2))
    B, T, h, d_head = sizes(rng, (2, 4), (5, 7), (2, 4), (3, 6))
    yield Case(f"B = {B}, T = {T}, {h} heads of width {d_head}", (tensor(rng, B, T, h * d_head), h))
    yield Case("one head", (tensor(rng, 2, 3, 5), 1))
    yield Case("heads of width 1", (tensor(rng, 2, 5, 4), 4))
    yield Case("a single token", (tensor(rng, 3, 1, 8), 2))
    yield Case("a long sequence, 6 heads", (tensor(rng, 2, 50, 24), 6))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 2, 7, 9)), 3))


def not_dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 heads for a width of 8", (tensor(rng, 2, 5, 8), 3))
    yield Case("more heads than channels", (tensor(rng, 2, 3, 4), 8))
    h = int(rng.integers(3, 7))
    yield Case("one channel too many", (tensor(rng, 2, 1, 3 * h + 1), h))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 5, 12, dtype=torch.float64), 3))
    yield Case("bfloat16", (tensor(rng, 3, 4, 10, dtype=torch.bfloat16), 2))


def comes_from(trial: Trial) -> str | None:
    """Name the place of x that the first wrong number comes from, and the right place."""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/split_heads",
    signature="split_heads(x, num_heads)",
    goal="Cut each token's d channels into h heads of width d/h: (B, T, d) to (B, h, T, d/h).",
    section="The cut",
    minutes=15,
    difficulty="easy",
    reference=heads.split_heads,
    same=as_close,
    criteria=(
        Criterion("each head gets its own channels of every token", 1.5, dividing),
        Criterion("a ValueError when the heads do not divide the width", 0.5, not_dividing),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(dividing), test=on_any_device),
        Criterion("gradients flow back to x", 0.25, differentiated(dividing)),
        Criterion("x is left as it was", 0.25, dividing, observes="arguments"),
    ),
    properties=(*FIRST, Property("each number comes from its place", comes_from), *LAST),
)
