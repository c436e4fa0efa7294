"""ch07_causal_masking/combine_masks: a key is open if it comes no later and is not padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device
from tfcore import masks


def padded(rng: np.random.Generator, batch: int, T_k: int, left: bool = False) -> Tensor:
    """Draw padding (B, T_k) on the right or left, of different lengths, the shortest sequence first."""
    lengths = np.sort(rng.permutation(np.arange(1, T_k))[:batch])
    real = torch.arange(T_k) < torch.from_numpy(lengths)[:, None]
    return real.flip(1) if left else real


def as_many_keys_as_queries(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one sequence of 3, its last token padding", (_causal(3), torch.tensor([[True, True, False]])))
    B, T = sizes(rng, (2, 3), (5, 7))
    yield Case(f"a batch of {B}, T = {T}, padded on the right", (_causal(T), padded(rng, B, T)))
    yield Case(f"a batch of {B + 1}, T = {T}, no padding", (_causal(T), torch.ones(B + 1, T).bool()))


def other_shapes(rng: np.random.Generator) -> Iterator[Case]:
    B, T_q, T_k = sizes(rng, (2, 4), (3, 5), (7, 9))
    yield Case(f"{T_q} queries, {T_k} keys", (_causal(T_q, T_k), padded(rng, B, T_k)))
    yield Case("one query", (_causal(1, T_k), padded(rng, B, T_k)))
    yield Case("masks that are not contiguous", (strided(_causal(T_q, T_k)), strided(padded(rng, B, T_k))))


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with queries that see nothing: padding comes first, or all is padding."""
    yield Case("the first token is padding", (_causal(2), torch.tensor([[False, True]])))
    B, T = sizes(rng, (2, 4), (5, 8))
    yield Case(f"a batch of {B}, padded on the left", (_causal(T), padded(rng, B, T, left=True)))
    nothing = padded(rng, B, T)
    nothing[-1] = False
    yield Case("a sequence that is all padding", (_causal(T), nothing))


def _causal(q_len: int, k_len: int | None = None) -> Tensor:
    return masks.causal_mask(q_len, k_len)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from as_many_keys_as_queries(rng)
    yield from other_shapes(rng)


def _entry(trial: Trial, wrong: np.ndarray) -> tuple[str, bool, bool]:
    """Return a description of the first wrong entry, and the entries of the two masks there."""
    b, _, i, j = (int(n) for n in np.argwhere(wrong)[0])
    causal, padding = map(numbers, trial.case.args)
    return f"sequence {b}, query {i}, key {j}", bool(causal[i, j]), bool(padding[b, j])


def is_boolean(trial: Trial) -> str | None:
    if trial.value.dtype == torch.bool:
        return None
    return f"your mask holds numbers ({trial.value.dtype}); each entry should be True (may attend) or False"


def allows_no_more(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) != 0) & ~numbers(trial.expected)
    if not wrong.any():
        return None
    place, causal, real = _entry(trial, wrong)
    why = "the key is padding" if causal and not real else "the key comes later"
    return f"{place}: your mask is True, though {why if causal or real else 'both masks forbid it'}"


def allows_no_less(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) == 0) & numbers(trial.expected)
    if not wrong.any():
        return None
    return f"{_entry(trial, wrong)[0]}: your mask is False, though causal and padding are both True there"


EXERCISE = Exercise(
    name="ch07_causal_masking/combine_masks",
    signature="combine_masks(causal, padding)",
    goal="Allow what both masks allow, in a shape that broadcasts over heads: (B, 1, T_q, T_k).",
    section="Minus infinity, not zero",
    minutes=10,
    difficulty="easy",
    reference=masks.combine_masks,
    criteria=(
        Criterion("a key is open if both masks are True", 1, as_many_keys_as_queries),
        Criterion("any number of queries and keys", 0.25, other_shapes),
        Criterion("a query that sees nothing keeps its row of False", 0.25, empty_rows),
        Criterion("works on any device", 0.25, elsewhere(everything), test=on_any_device),
        Criterion("the masks are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("the mask is boolean", is_boolean),
        Property("nothing that a mask forbids is open", allows_no_more),
        Property("everything that both masks allow is open", allows_no_less),
    ),
)
