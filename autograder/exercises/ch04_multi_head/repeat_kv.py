"""ch04_multi_head/repeat_kv: one head of keys for several heads of queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def shared(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads, 3 copies of each", (tensor(rng, 1, 2, 4, 5), 3))
    B, h_kv, T, d, groups = sizes(rng, (2, 4), (2, 4), (5, 8), (6, 9), (2, 5))
    yield Case(f"B = {B}, {h_kv} heads, {groups} copies of each", (tensor(rng, B, h_kv, T, d), groups))
    yield Case("one head for all", (tensor(rng, 3, 1, 5, 2), 4))
    yield Case("one copy of each", (tensor(rng, 2, 3, 4, 5), 1))
    yield Case("a single token", (tensor(rng, 2, 4, 1, 3), 2))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 3, 2, 5, 4)), 6))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 3, 5, 4, dtype=torch.float64), 2))
    yield Case("bfloat16", (tensor(rng, 3, 2, 4, 5, dtype=torch.bfloat16), 6))


def heads_come_from(trial: Trial) -> str | None:
    """Name the key head that a query head i reads instead of head i // num_groups."""
    x, num_groups = numbers(trial.case.args[0]), trial.case.args[1]
    if not numbers(trial.value).any():
        return "every number of the result is 0; copy the heads of x"
    for i, head in enumerate(np.moveaxis(numbers(trial.value), 1, 0)):
        copied = [j for j in range(x.shape[1]) if np.array_equal(head, x[:, j])]
        if copied and copied[0] != i // num_groups:
            return (
                f"head {i} of the result is a copy of head {copied[0]}; with {num_groups} copies of each, "
                f"side by side, it should be a copy of head {i // num_groups}"
            )
    return None


def comes_from(trial: Trial) -> str | None:
    """Name the place of x that the first wrong number comes from, and the right place."""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "head", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/repeat_kv",
    signature="repeat_kv(x, num_groups)",
    goal="Copy each head of keys or values for the query heads that share it, copies side by side.",
    section="Groups: side by side, or tiled",
    minutes=10,
    difficulty="easy",
    reference=heads.repeat_kv,
    criteria=(
        Criterion("each head num_groups times, copies side by side", 1, shared),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(shared), test=on_any_device),
        Criterion("gradients of all copies flow back to x", 0.25, differentiated(shared)),
        Criterion("x is left as it was", 0.25, shared, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("query head i reads from head i // num_groups", heads_come_from),
        Property("each number comes from its place", comes_from),
        *LAST,
    ),
    forbidden=("transformers.models.llama.modeling_llama.repeat_kv",),
)
