"""ch07_causal_masking/min_p: rule out tokens that are far less likely than the likeliest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch07_causal_masking.filter_logits import (
    removed_means_minus_infinity,
    something_stays,
    what_stays_is_unchanged,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import differentiated, elsewhere, on_any_device
from tfcore.generate import min_p_filter

Array = np.ndarray
CLEAR = 0.1
"""How far each token's share of the largest probability is from min_p, relative to min_p."""


def min_p(logits, min_p):
    """Compute the reference answer, under the names that the notebook uses."""
    return min_p_filter(logits, min_p)


def parts(logits: Array) -> Array:
    """Return each probability as a part of the largest of its row (..., V)."""
    return np.exp(logits - logits.max(axis=-1, keepdims=True))


def clear(logits: Array, share: float) -> bool:
    """Return whether rounding is harmless: each token is the likeliest or far from `share`."""
    part = parts(logits)
    return bool((((part == 1) | (np.abs(part / share - 1) > CLEAR)) | np.isneginf(logits)).all())


def clear_cut(case: Case) -> bool:
    """Return whether the case is clear in every row."""
    logits, share = case.args
    return clear(numbers(logits).astype(np.float64), float(share)) and 0 < share <= 1


def rows(rng: np.random.Generator, share: float, *shape: int, spread: float = 1.5) -> Array:
    """Draw clear logits, each row at its own height: a token is removed, one stays beside the likeliest."""
    while True:
        logits = rng.normal(scale=spread, size=shape) + 3 * rng.normal(size=(*shape[:-1], 1))
        part = parts(logits)
        logits[(part < 1) & (np.abs(part / share - 1) <= CLEAR)] -= 3 * CLEAR  # clearly below
        kept = parts(logits) >= share
        if not kept.all() and kept.sum() > np.prod(shape[:-1]):
            return logits


def tensor(array: Array, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(np.array(array)).to(dtype)


def relative(rng: np.random.Generator) -> Iterator[Case]:
    few = np.log([0.5, 0.3, 0.15, 0.05])
    yield Case("p = 0.5, 0.3, 0.15, 0.05 in some order", (tensor(rng.permutation(few))[None], 0.4))
    B, V = sizes(rng, (2, 4), (7, 11))
    yield Case(f"B = {B}, V = {V}, min_p = 0.2", (tensor(rows(rng, 0.2, B, V)), 0.2))
    uneven = np.concatenate([rows(rng, 0.3, 1, 9, spread=2.5), rows(rng, 0.3, 1, 9, spread=0.6)])
    yield Case("a sharp row and a flat one, min_p = 0.3", (tensor(uneven), 0.3))
    yield Case("V = 300, min_p = 0.05", (tensor(rows(rng, 0.05, 2, 300)), 0.05))
    yield Case("logits far below 0", (tensor(rows(rng, 0.2, 3, 6) - 40), 0.2))


def at_the_ends(rng: np.random.Generator) -> Iterator[Case]:
    apart = rng.permuted(np.tile(np.linspace(-2, 1, 7), (3, 1)), axis=-1) + 3 * rng.normal(size=(3, 1))
    yield Case("min_p = 1 keeps the likeliest alone", (tensor(apart), 1.0))
    tied = np.array([1.0, 2.0, 2.0, -1.0])
    yield Case("min_p = 1 and two equally likely tokens", (tensor(rng.permutation(tied))[None], 1.0))
    yield Case("a small min_p keeps nearly all", (tensor(rows(rng, 0.01, 2, 9)), 0.01))
    yield Case("a row of equal logits", (torch.full((1, 5), -1.5), 0.7))
    far = 1e4 * rng.permuted(np.tile(np.linspace(-1, 1, 6), (2, 1)), axis=-1)
    yield Case("logits spread over 20,000", (tensor(far), 0.1))
    yield Case("logits of 1,000 and near it", (tensor(rows(rng, 0.2, 2, 7) + 1000), 0.2))
    ruled_out = np.concatenate([rows(rng, 0.3, 2, 4), np.full((2, 3), -np.inf)], axis=-1)
    yield Case("three tokens are ruled out already", (tensor(rng.permuted(ruled_out, axis=-1)), 0.3))


def forms(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one row without a batch", (tensor(rows(rng, 0.25, 7)), 0.25))
    yield Case("(B, T, V) = (2, 3, 7)", (tensor(rows(rng, 0.25, 2, 3, 7)), 0.25))
    yield Case("float64", (tensor(rows(rng, 0.25, 2, 5), torch.float64), 0.25))
    coarse = np.stack([rng.permutation(np.log([0.5, 0.3, 0.12, 0.08])) for _ in range(3)])
    yield Case("bfloat16", (tensor(coarse, torch.bfloat16), 0.4))
    yield Case("float16", (tensor(coarse, torch.float16), 0.4))
    yield Case("not contiguous", (strided(tensor(rows(rng, 0.2, 3, 8))), 0.2))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield from relative(rng)


def as_many_as_reach_the_share(trial: Trial) -> str | None:
    """Compare, for each row, which tokens stay with their parts of the largest probability."""
    logits, share = trial.case.args
    z = numbers(logits).astype(np.float64)
    z = z.reshape(-1, z.shape[-1])
    got, expected = (numbers(x).astype(np.float64).reshape(z.shape) for x in (trial.value, trial.expected))
    for index, row in enumerate(z):
        stays, should = ~np.isneginf(got[index]), ~np.isneginf(expected[index])
        if (stays == should).all():
            continue
        i = int(np.argmax(stays != should))
        part = parts(row)[i]
        does = "stays" if stays[i] else "is removed"
        return (
            f"token {i} of row {index} {does}: its probability is {part:.3g} of the row's largest, "
            f"{'less' if part < share else 'not less'} than min_p={share:.3g}"
        )
    return None


EXERCISE = Exercise(
    name="ch07_causal_masking/min_p",
    signature="min_p(logits, min_p)",
    goal="Remove the tokens whose probability is below min_p times the largest.",
    section="Drawing a token",
    minutes=10,
    difficulty="medium",
    reference=min_p,
    domain=clear_cut,
    criteria=(
        Criterion("what stays has at least min_p times the largest probability", 0.75, relative),
        Criterion("the likeliest always stays, whatever the logits", 0.25, at_the_ends),
        Criterion("any leading axes, any type of logits", 0.25, forms),
        Criterion("gradients reach the logits that stay", 0.25, differentiated(soft)),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the logits are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        Property("some token stays", something_stays),
        Property("removed logits are -inf", removed_means_minus_infinity),
        Property("the logits that stay are not changed", what_stays_is_unchanged),
        Property("the tokens that stay reach the share", as_many_as_reach_the_share),
    ),
)
