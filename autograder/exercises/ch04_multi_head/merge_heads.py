"""ch04_multi_head/merge_heads: the heads side by side again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def separate(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads of width 3", (tensor(rng, 1, 2, 4, 3),))
    B, h, T, d_head = sizes(rng, (2, 4), (2, 5), (5, 8), (3, 7))
    yield Case(f"B = {B}, T = {T}, {h} heads of width {d_head}", (tensor(rng, B, h, T, d_head),))
    yield Case("one head", (tensor(rng, 2, 1, 4, 5),))
    yield Case("heads of width 1", (tensor(rng, 2, 4, 5, 1),))
    yield Case("a single token", (tensor(rng, 2, 3, 1, 4),))
    yield Case("a long sequence, 6 heads", (tensor(rng, 2, 6, 50, 4),))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 3, 2, 5, 4)),))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 3, 5, 4, dtype=torch.float64),))
    yield Case("bfloat16", (tensor(rng, 3, 2, 4, 5, dtype=torch.bfloat16),))


def comes_from(trial: Trial) -> str | None:
    """Name the place of x that the first wrong number comes from, and the right place."""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "head", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/merge_heads",
    signature="merge_heads(x)",
    goal="Put the heads of each token side by side: (B, h, T, d/h) to (B, T, d), the inverse of split_heads.",
    section="The cut",
    minutes=10,
    difficulty="easy",
    reference=heads.merge_heads,
    same=as_close,
    criteria=(
        Criterion("each token gets the channels of all its heads, head by head", 1, separate),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(separate), test=on_any_device),
        Criterion("gradients flow back to x", 0.25, differentiated(separate)),
        Criterion("x is left as it was", 0.25, separate, observes="arguments"),
    ),
    properties=(*FIRST, Property("each number comes from its place", comes_from), *LAST),
)
