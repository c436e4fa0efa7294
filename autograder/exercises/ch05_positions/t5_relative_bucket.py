"""ch05_positions/t5_relative_bucket: distances in buckets, narrow when near and wide when far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import is_tensor, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, elsewhere, on_any_device
from tfcore.positions import relative

DEFAULTS = {"bidirectional": True, "num_buckets": 32, "max_distance": 128}


def judged(positions: np.ndarray, **given: Any) -> Tensor:
    """Select positions away from the edges of the logarithmic buckets, where rounding would decide."""
    per_side, exact, max_distance = _scale(**(DEFAULTS | given))
    place = (
        np.log(np.maximum(np.abs(positions), 1) / exact) / np.log(max_distance / exact) * (per_side - exact)
    )
    clear = (np.abs(positions) <= exact) | (np.abs(place - np.round(place)) > 1e-3)
    return torch.from_numpy(positions[clear])


def _scale(bidirectional: bool, num_buckets: int, max_distance: int) -> tuple[int, int, int]:
    """Return how many buckets a side has, how many are exact, and the distance where the logarithm ends."""
    per_side = num_buckets // 2 if bidirectional else num_buckets
    return per_side, per_side // 2, max_distance


def grid(rng: np.random.Generator, queries: tuple[int, int], keys: tuple[int, int]) -> Tensor:
    """Return key positions minus query positions, (T_q, T_k); the queries are the last tokens."""
    T_q, T_k = sizes(rng, queries, keys)
    return torch.arange(T_k) - torch.arange(T_k - T_q, T_k)[:, None]


def both_ways(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("distances up to 2", (torch.arange(-2, 3),))
    yield Case("distances up to 7, out of order", (torch.from_numpy(rng.permutation(15) - 7),))
    yield Case("a few distances further off", (judged(np.array([-100, -50, -20, 12, 30, 70])),))
    yield Case("queries by keys", (grid(rng, (2, 4), (6, 9)),))
    yield Case("queries by keys, not contiguous", (strided(grid(rng, (2, 3), (5, 9))),))
    yield Case("int32", (torch.from_numpy(rng.permutation(9) - 4).int(),))
    yield Case("distances up to 127", (judged(rng.permutation(255) - 127),))
    beyond = rng.integers(128, 2000, size=6) * rng.permutation([-1, -1, -1, 1, 1, 1])
    yield Case("beyond max_distance", (torch.from_numpy(beyond),))
    every = judged(rng.permutation(1201) - 600)
    yield Case("shape (2, 3, 100)", (every[:600].reshape(2, 3, 100),))


def backwards_only(rng: np.random.Generator) -> Iterator[Case]:
    one_way = {"bidirectional": False}
    yield Case("distances up to 2, one way", (torch.arange(-2, 3),), one_way)
    yield Case("the newest query, one way", (grid(rng, (1, 1), (6, 9)),), one_way)
    yield Case("queries by keys, one way", (grid(rng, (2, 4), (8, 12)),), one_way)
    far = judged(rng.permutation(261) - 200, bidirectional=False)
    yield Case("distances up to 200, one way", (far,), one_way)
    yield Case(
        "shape (2, 1, 5), one way", (torch.from_numpy(rng.permutation(10) - 7).view(2, 1, 5),), one_way
    )


def other_sizes(rng: np.random.Generator) -> Iterator[Case]:
    fixed = {"num_buckets": 8, "max_distance": 20}
    yield Case("8 buckets up to 20", (judged(rng.permutation(61) - 30, **fixed),), fixed)
    fixed = {"bidirectional": False, "num_buckets": 8, "max_distance": 20}
    yield Case("8 buckets up to 20, one way", (judged(rng.permutation(61) - 30, **fixed),), fixed)
    drawn = {"num_buckets": 4 * int(rng.integers(3, 7)), "max_distance": int(rng.integers(40, 100))}
    says = "{num_buckets} buckets up to {max_distance}".format(**drawn)
    yield Case(says, (judged(rng.permutation(301) - 150, **drawn),), drawn)
    fixed = {"num_buckets": 9, "max_distance": 30}
    yield Case("9 buckets up to 30", (judged(rng.permutation(81) - 40, **fixed),), fixed)
    fixed = {"num_buckets": 10, "max_distance": 50}
    yield Case("10 buckets up to 50", (judged(rng.permutation(121) - 60, **fixed),), fixed)
    fixed = {"bidirectional": False, "num_buckets": 15, "max_distance": 90}
    yield Case("15 buckets up to 90, one way", (judged(rng.permutation(221) - 150, **fixed),), fixed)
    yield Case(
        "32 buckets up to 60", (judged(rng.permutation(161) - 80, max_distance=60),), {"max_distance": 60}
    )
    yield Case(
        "64 buckets up to 128", (judged(rng.permutation(301) - 150, num_buckets=64),), {"num_buckets": 64}
    )


def few_in_both_directions(rng: np.random.Generator) -> Iterator[Case]:
    yield from islice(both_ways(rng), 4)
    yield from islice(backwards_only(rng), 2)


def both_directions(rng: np.random.Generator) -> Iterator[Case]:
    yield from both_ways(rng)
    yield from backwards_only(rng)


def same_buckets(got: Any, expected: Any, case: Case) -> bool:
    """Compare the numbers, in any dtype."""
    return is_tensor(got) and torch.equal(got.double(), expected.double())


def right_buckets(trial: Trial) -> str | None:
    """Find the nearest relative position in a wrong bucket."""
    wrong = [(abs(r), r, got, right) for r, got, right in _rows(trial) if got != right]
    if not wrong:
        return None
    _, r, got, right = min(wrong)
    return f"the relative position {r} belongs to bucket {right:g}, yours is {got:g}"


def _rows(trial: Trial) -> list[tuple[int, float, float]]:
    """Return each relative position with its bucket and the right bucket."""
    given = trial.case.args[0].flatten().tolist()
    return list(zip(given, trial.value.flatten().tolist(), trial.expected.flatten().tolist(), strict=True))


def own_position(trial: Trial) -> str | None:
    wrong = [got for r, got, _ in _rows(trial) if r == 0 and got != 0]
    return f"a token itself, at distance 0, has bucket 0; yours is {wrong[0]:g}" if wrong else None


def within_range(trial: Trial) -> str | None:
    num_buckets = (DEFAULTS | trial.case.kwargs)["num_buckets"]
    for r, got, _ in _rows(trial):
        if not 0 <= got < num_buckets:
            buckets = f"the buckets are 0 to {num_buckets - 1}"
            return f"the relative position {r} gets bucket {got:g}; {buckets}"
    return None


def sides(trial: Trial) -> str | None:
    """Check that keys ahead have the second half of the buckets, or share bucket 0."""
    given = DEFAULTS | trial.case.kwargs
    half = given["num_buckets"] // 2
    for r, got, _ in _rows(trial):
        if r > 0 and not given["bidirectional"] and got:
            return f"one way, a key {r} ahead is never seen and shares bucket 0; yours is {got:g}"
        if given["bidirectional"] and r and (got >= half) != (r > 0):
            where, side = ("ahead", f"{half} to {2 * half - 1}") if r > 0 else ("behind", f"0 to {half - 1}")
            return f"a key {abs(r)} {where} belongs to the buckets {side}; yours is {got:g}"
    return None


def monotone(trial: Trial) -> str | None:
    """Check that on either side a longer distance never gets a lower bucket."""
    for behind in (True, False):
        row = sorted((abs(r), got) for r, got, _ in _rows(trial) if r and (r < 0) == behind)
        for (near, low), (far, high) in pairwise(row):
            if high < low:
                return f"distance {far} gets bucket {high:g}, below bucket {low:g} of distance {near}"
    return None


def near_ones_exactly(trial: Trial) -> str | None:
    given = DEFAULTS | trial.case.kwargs
    per_side, exact, _ = _scale(**given)
    for r, got, right in sorted(_rows(trial), key=lambda row: abs(row[0])):
        if abs(r) < exact and got != right:
            return (
                f"of the {per_side} buckets of a side, the first {exact} hold one distance each, 0 to "
                f"{exact - 1}; the relative position {r} gets bucket {got:g} and not {right:g}"
            )
    return None


def far_ones_by_the_logarithm(trial: Trial) -> str | None:
    given = DEFAULTS | trial.case.kwargs
    per_side, exact, max_distance = _scale(**given)
    for r, got, right in sorted(_rows(trial), key=lambda row: abs(row[0])):
        if got == right or abs(r) < exact:
            continue
        steps = math.log(abs(r) / exact) / math.log(max_distance / exact) * (per_side - exact)
        side = f"{per_side} + " if r > 0 else ""
        whole = f"{exact} + floor({steps:.2f})"
        if exact + math.floor(steps) > per_side - 1:
            whole = f"min({whole}, {per_side - 1})"
        return (
            f"distance {abs(r)} is ln({abs(r)}/{exact}) / ln({max_distance}/{exact}) * {per_side - exact} "
            f"= {steps:.2f} buckets beyond the exact ones: bucket {side}{whole} = {right:g}; yours is {got:g}"
        )
    return None


EXERCISE = Exercise(
    name="ch05_positions/t5_relative_bucket",
    signature="t5_relative_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128)",
    goal="Sort relative positions into buckets like T5: one for each near distance, wider ones farther off.",
    section="What a sum does to a score",
    minutes=20,
    difficulty="medium",
    reference=relative.t5_relative_bucket,
    criteria=(
        Criterion("the bucket of each distance, behind and ahead", 1.5, both_ways, test=right_buckets),
        Criterion("bidirectional=False: keys ahead share bucket 0", 0.5, backwards_only, test=right_buckets),
        Criterion("any number of buckets, any max_distance", 0.5, other_sizes, test=right_buckets),
        Criterion("works on any device", 0.25, elsewhere(few_in_both_directions), test=on_any_device),
        Criterion("the input is left as it was", 0.25, both_directions, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the token itself has bucket 0", own_position),
        Property("buckets are in range", within_range),
        Property("keys ahead and behind have different buckets", sides),
        Property("near distances have a bucket each", near_ones_exactly),
        Property("far buckets are not lower", monotone),
        Property("far distances follow the logarithm", far_ones_by_the_logarithm),
        *LAST,
    ),
    forbidden=("transformers.models.t5.modeling_t5.T5Attention",),
    same=same_buckets,
)
