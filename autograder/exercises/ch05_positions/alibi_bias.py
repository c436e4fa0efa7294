"""ch05_positions/alibi_bias: a penalty that grows with distance, at a slope of its own for each head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST
from tfcore.positions import alibi

CLOSE = 1e-5
"""The tolerance: the arguments are whole numbers, so float32 is wide enough, and float64 is right too."""


def bias(num_heads: int, q_len: int, k_len: int) -> Case:
    heads, queries = (
        f"{num_heads} head{'s' * (num_heads > 1)}",
        "1 query" if q_len == 1 else f"{q_len} queries",
    )
    return Case(f"{heads}, {queries}, {k_len} key{'s' * (k_len > 1)}", (num_heads, q_len, k_len))


def powers_of_two(rng: np.random.Generator) -> Iterator[Case]:
    yield bias(2, 3, 3)
    yield bias(4, 5, 5)
    for num_heads in (1, 8, 16, 32):
        (length,) = sizes(rng, (5, 7))
        yield bias(num_heads, length, length)


def more_keys(rng: np.random.Generator) -> Iterator[Case]:
    yield bias(2, 1, 3)
    yield bias(1, 2, 4)
    yield bias(4, 1, 1)
    yield bias(8, 2, 5)
    yield bias(4, *sizes(rng, (5, 7), (9, 12)))
    yield bias(16, 3, int(rng.integers(60, 90)))


def other_head_counts(rng: np.random.Generator) -> Iterator[Case]:
    yield bias(3, 2, 2)
    yield bias(6, 4, 4)
    yield bias(12, 5, 5)
    yield bias(15, 2, 3)
    yield bias(int(rng.choice([5, 7, 9, 10, 11, 13, 14, 20, 24])), 2, 4)


def any_float(got: Any, expected: Any, case: Case) -> bool:
    """Compare the numbers, in any floating dtype."""
    return torch.is_floating_point(got) and differs(got.double(), expected.double(), CLOSE) is None


def right_numbers(trial: Trial) -> str | None:
    return differs(trial.value.to(trial.expected.dtype), trial.expected, CLOSE)


def nothing_on_the_own_key(trial: Trial) -> str | None:
    _, q_len, k_len = trial.case.args
    own = trial.value[:, torch.arange(q_len), torch.arange(k_len - q_len, k_len)]
    if not own.any():
        return None
    head, query = (int(n) for n in own.nonzero()[0])
    key = k_len - q_len + query
    return (
        f"the queries are at the last positions, so query {query} is at position {key} of 0 to {k_len - 1}; "
        f"the distance is 0 there, and your bias of head {head} is {float(own[head, query]):.4g}"
    )


def nothing_above_zero(trial: Trial) -> str | None:
    wrong = (trial.value > 0).nonzero()
    if not len(wrong):
        return None
    head, query, key = (int(n) for n in wrong[0])
    return (
        f"head {head} adds {float(trial.value[head, query, key]):.4g} to the score of query {query} and key "
        f"{key}; distance is punished, on either side, so no bias is above 0"
    )


def grows_by_the_slope(trial: Trial) -> str | None:
    """Check that, within a head, each step away costs the same."""
    steps = trial.value[:, -1].diff(dim=-1)
    if not len(steps[0]) or not torch.isfinite(steps).all():
        return None
    uneven = (steps - steps[:, -1:]).abs().amax(-1) > 1e-4 * steps.abs().amax(-1) + 1e-9
    if not uneven.any():
        return None
    head = int(uneven.nonzero()[0])
    found = ", ".join(f"{float(x):.4g}" for x in trial.value[head, -1][-4:])
    return (
        f"for the last query, head {head} has {found} at the last keys; each step away from the query costs "
        "the same"
    )


def same_distance_same_cost(trial: Trial) -> str | None:
    """Check that two pairs of a query and a key at one distance have one bias."""
    _, q_len, k_len = trial.case.args
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    for far in range(k_len):
        pairs = (distance == far).nonzero().tolist()
        found = trial.value[:, distance == far].double()
        off = (found - found[:, :1]).abs() > 1e-4 * found.abs() + 1e-9
        if off.any():
            head, other = off.nonzero()[0].tolist()
            (q0, k0), (q1, k1) = pairs[0], pairs[other]
            return (
                f"head {head} adds {float(found[head, 0]):.4g} for query {q0} and key {k0}, and "
                f"{float(found[head, other]):.4g} for query {q1} and key {k1}; both pairs are {far} apart"
            )
    return None


def right_slopes(trial: Trial) -> str | None:
    """Check the slope of each head, read off the last query's two last keys."""
    num_heads = trial.case.args[0]
    found = trial.value[:, -1, -1] - trial.value[:, -1, -2]
    for head, (got, right) in enumerate(zip(found, alibi.alibi_slopes(num_heads), strict=True)):
        if abs(got - right) > 1e-4 * right:
            exact = f"2^{math.log2(right):g} = {float(right):.5g}"
            return f"of {num_heads} heads, head {head} has the slope {float(got):.5g}; it should be {exact}"
    return None


EXERCISE = Exercise(
    name="ch05_positions/alibi_bias",
    signature="alibi_bias(num_heads, q_len, k_len)",
    goal="Return what ALiBi adds to the scores: for each head, minus its slope times the distance.",
    section="What a sum does to a score",
    minutes=15,
    difficulty="medium",
    reference=alibi.alibi_bias,
    criteria=(
        Criterion("minus slope times distance, 2^n heads", 1.5, powers_of_two, test=right_numbers),
        Criterion("the queries are at the last positions", 0.75, more_keys, test=right_numbers),
        Criterion("the slopes for other head counts", 0.75, other_head_counts, test=right_numbers),
    ),
    properties=(
        *FIRST,
        Property("its own key costs nothing", nothing_on_the_own_key),
        Property("no bias is above zero", nothing_above_zero),
        Property("the cost grows evenly", grows_by_the_slope),
        Property("the same distance costs the same", same_distance_same_cost),
        Property("the slopes are right", right_slopes),
        *LAST,
    ),
    forbidden=("transformers.models.bloom.modeling_bloom.build_alibi_tensor",),
    same=any_float,
)
