"""ch07_causal_masking/causal_mask: each query sees the keys up to its own, and no later one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import numbers
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from tfcore import masks


def causal_mask(q_len, k_len=None):
    """Compute the reference answer, without the argument for a device."""
    return masks.causal_mask(q_len, k_len)


def square(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens", (3,))
    yield Case("a single token", (1,))
    T, long = sizes(rng, (4, 7), (12, 24))
    yield Case(f"{T} tokens", (T,))
    yield Case(f"{long} tokens", (long,))


def beside_a_cache(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries, 3 keys", (2, 3))
    q_len, k_len = sizes(rng, (3, 5), (7, 11))
    yield Case(f"{q_len} queries, {k_len} keys", (q_len, k_len))
    yield Case("one query, as in each step of a generation", (1, k_len))
    yield Case("as many keys as queries, k_len given", (q_len, q_len))
    yield Case(f"k_len={k_len + 20} by name", (q_len,), {"k_len": k_len + 20})


def _lengths(trial: Trial) -> tuple[int, int]:
    q_len, k_len = (*trial.case.args, trial.case.kwargs.get("k_len"))[:2]
    return q_len, q_len if k_len is None else k_len


def _told(trial: Trial, i: int, j: int) -> str:
    """Describe query i and key j in words, each with its place in the sequence."""
    q_len, k_len = _lengths(trial)
    place = f", token {k_len - q_len + i} of the sequence," if k_len != q_len else ""
    return f"query {i}{place} and key {j}"


def is_boolean(trial: Trial) -> str | None:
    if trial.value.dtype == torch.bool:
        return None
    return f"your mask holds numbers ({trial.value.dtype}); each entry should be True (may attend) or False"


def sees_nothing_later(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) != 0) & ~numbers(trial.expected)
    if not wrong.any():
        return None
    i, j = (int(n) for n in np.argwhere(wrong)[0])
    return f"{_told(trial, i, j)}: the mask is True, though the key comes later; no query sees its future"


def sees_all_before(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) == 0) & numbers(trial.expected)
    if not wrong.any():
        return None
    i, j = (int(n) for n in np.argwhere(wrong)[0])
    return f"{_told(trial, i, j)}: the mask is False, though the key is the query's own or an earlier one"


EXERCISE = Exercise(
    name="ch07_causal_masking/causal_mask",
    signature="causal_mask(q_len, k_len=None)",
    goal="Mark the keys that each query may see: its own and the earlier ones, never a later one.",
    section="Who can know what",
    minutes=5,
    difficulty="easy",
    reference=causal_mask,
    criteria=(
        Criterion("each token sees itself and what came before", 0.5, square),
        Criterion("with more keys than queries, the last query sees the last key", 0.5, beside_a_cache),
    ),
    properties=(
        Property("the mask is boolean", is_boolean),
        Property("no query sees its future", sees_nothing_later),
        Property("each query sees its past and itself", sees_all_before),
    ),
    forbidden=(
        "torch.nn.Transformer.generate_square_subsequent_mask",
        "torch.nn.attention.bias.causal_lower_right",
        "torch.nn.attention.bias.causal_upper_left",
    ),
)
