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
    """The positions whose distance is not where a bucket begins on the logarithm: there rounding decides."""
    per_side, exact, max_distance = _scale(**(DEFAULTS | given))
    place = (
        np.log(np.maximum(np.abs(positions), 1) / exact) / np.log(max_distance / exact) * (per_side - exact)
    )
    clear = (np.abs(positions) <= exact) | (np.abs(place - np.round(place)) > 1e-3)
    return torch.from_numpy(positions[clear])


def _scale(bidirectional: bool, num_buckets: int, max_distance: int) -> tuple[int, int, int]:
    """Buckets a side, how many of them are exact, and where the logarithm ends."""
    per_side = num_buckets // 2 if bidirectional else num_buckets
    return per_side, per_side // 2, max_distance


def grid(rng: np.random.Generator, queries: tuple[int, int], keys: tuple[int, int]) -> Tensor:
    """Key positions minus query positions, (T_q, T_k), the queries being the last."""
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
    """The same numbers, in whatever dtype."""
    return is_tensor(got) and torch.equal(got.double(), expected.double())


def right_buckets(trial: Trial) -> str | None:
    """The nearest relative position that is in the wrong bucket."""
    wrong = [(abs(r), r, got, right) for r, got, right in _rows(trial) if got != right]
    if not wrong:
        return None
    _, r, got, right = min(wrong)
    return f"the relative position {r} belongs to bucket {right:g}, yours is {got:g}"


def _rows(trial: Trial) -> list[tuple[int, float, float]]:
    """Each relative position with the bucket it got and the right one."""
    given = trial.case.args[0].flatten().tolist()
    return list(zip(given, trial.value.flatten().tolist(), trial.expected.flatten().tolist(), strict=True))


def own_position(trial: Trial) -> str | None:
    wrong = [got for r, got, _ in _rows(trial) if r == 0 and got != 0]
    return f"a token's distance to itself is 0, bucket 0; yours is {wrong[0]:g}" if wrong else None


def within_range(trial: Trial) -> str | None:
    num_buckets = (DEFAULTS | trial.case.kwargs)["num_buckets"]
    for r, got, _ in _rows(trial):
        if not 0 <= got < num_buckets:
            buckets = f"the buckets are 0 to {num_buckets - 1}"
            return f"the relative position {r} gets bucket {got:g}; {buckets}"
    return None


def sides(trial: Trial) -> str | None:
    """Keys ahead have the second half of the buckets, or share bucket 0."""
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
    """On either side a longer distance never gets a lower bucket."""
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
                f"of the {per_side} buckets a side the first {exact} hold one distance each, 0 to "
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
    goal="Sort relative positions into buckets as T5 does: one each while near, wider and wider when far.",
    section="What a sum does to a score",
    reference=relative.t5_relative_bucket,
    criteria=(
        Criterion("the bucket of each distance, behind and ahead", 1.5, both_ways, test=right_buckets),
        Criterion("one way: keys ahead share bucket 0", 0.5, backwards_only, test=right_buckets),
        Criterion("any number of buckets, any max_distance", 0.5, other_sizes, test=right_buckets),
        Criterion("works on any device", 0.25, elsewhere(few_in_both_directions), test=on_any_device),
        Criterion("the input is left as it was", 0.25, both_directions, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("bucket 0 is the own position", own_position),
        Property("buckets are in range", within_range),
        Property("keys ahead and behind have different buckets", sides),
        Property("near distances have a bucket each", near_ones_exactly),
        Property("further is never lower", monotone),
        Property("far distances follow the logarithm", far_ones_by_the_logarithm),
        *LAST,
    ),
    forbidden=("transformers.models.t5.modeling_t5.T5Attention",),
    same=same_buckets,
)


@EXERCISE.misconception(
    "Your sides are exchanged: you read the relative position as query minus key. It is key minus "
    "query: negative for a key behind, positive for one ahead.",
    gravity="slip",
)
def query_minus_key(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    relative_position = -relative_position
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your halves are exchanged. Give keys *ahead* (above 0) the second half of the buckets, and keys "
    "behind the first.",
    gravity="slip",
)
def halves_exchanged(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position < 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A token counts itself as ahead. Ahead is > 0, not >= 0: give the distance 0 bucket 0.",
    gravity="slip",
)
def zero_counted_as_ahead(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position >= 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A key 3 ahead and a key 3 behind share a bucket. Keep the sign: add num_buckets // 2 for keys "
    "ahead, so that they get the second half."
)
def one_side_for_both(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    if bidirectional:
        num_buckets = num_buckets // 2
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your default of `bidirectional` is False. Write bidirectional=True in the first line of the function.",
    gravity="slip",
)
def one_way_by_default(relative_position, bidirectional=False, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Each of your sides has all the buckets, so that there are twice as many. Both ways, a side has "
    "num_buckets // 2: halve first, then go on with that number."
)
def all_buckets_on_each_side(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "`bidirectional` makes no difference. One way, let keys ahead share bucket 0 and use all buckets "
    "for the keys behind."
)
def always_both_ways(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    num_buckets = num_buckets // 2
    side = (relative_position > 0) * num_buckets
    n = relative_position.abs()
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "One way, keys ahead get the buckets of keys behind. Let them share bucket 0: the distance is "
    "(-relative_position).clamp(min=0)."
)
def ahead_by_distance_one_way(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
    n = relative_position.abs()
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "One way, you use only half of the buckets. Do not halve num_buckets there: all of them are for one side."
)
def halved_one_way_too(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        num_buckets = num_buckets // 2
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Distances from max_distance on go beyond the last bucket of their side. Limit the far buckets "
    "before the side is added: clamp(max=b - 1), where b is num_buckets // 2 if both ways count."
)
def no_clamp(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far)


@EXERCISE.misconception(
    "Your last bucket is num_buckets, which is one too many. Buckets count from 0: clamp each side to "
    "its number of buckets - 1.",
    gravity="slip",
)
def clamped_one_too_late(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets))


@EXERCISE.misconception(
    "Your logarithm starts at distance 1. It starts where the exact buckets end: divide ln(n / exact) "
    "by ln(max_distance / exact)."
)
def logarithm_of_n(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n) / math.log(max_distance)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Below the fraction a division by exact is missing. Write ln(n / exact) / ln(max_distance / exact): "
    "then n = max_distance gives 1."
)
def not_all_divided_by_exact(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your logarithms have two bases, log2 above the fraction and ln below. Use one base for both: "
    "torch.log with math.log.",
    gravity="slip",
)
def two_bases(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log2(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You round to the nearest bucket. A distance stays in a bucket until it reaches the next one: cut "
    "the fraction off, as .long() does.",
    gravity="slip",
)
def rounded_to_nearest(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).round().long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "8 to 15 all count as 8: n / exact has lost its fraction before the logarithm. Divide n by exact "
    "with `/`; `//` drops the fraction.",
    gravity="slip",
)
def whole_number_division(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n // exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You give every distance a bucket of its own until there are none left. Do so for the first half of "
    "a side; let the rest grow with the logarithm up to max_distance."
)
def linear_then_clamped(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    return side + n.clamp(max=num_buckets - 1)


@EXERCISE.misconception(
    "You use the logarithm for all distances. Below `exact` give each distance its own bucket: "
    "torch.where(n < exact, n, ...)."
)
def logarithm_from_the_start(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + far.clamp(0, num_buckets - 1)


@EXERCISE.misconception(
    "Your far buckets grow too fast: the logarithm is multiplied by the number of all buckets of a "
    "side. It fills those that are left: multiply by num_buckets - exact.",
    gravity="slip",
)
def all_buckets_for_the_logarithm(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * num_buckets).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your buckets are those of the defaults 32 and 128, whatever is passed. Work out the numbers from "
    "num_buckets and max_distance, which a caller may change."
)
def numbers_of_the_default(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        side = (relative_position > 0) * 16
        n, exact, last = relative_position.abs(), 8, 15
    else:
        n, exact, last = (-relative_position).clamp(min=0), 16, 31
    far = exact + (torch.log(n / exact) / math.log(128 / exact) * exact).long()
    return side + torch.where(n < exact, n, far.clamp(max=last))


@EXERCISE.misconception(
    "`if`, `and`, `min` and `max` need one truth value, and a tensor has one for each number. Ask for all at "
    "once: use torch.where, or a comparison times a number."
)
def asks_if_for_a_tensor(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = num_buckets if relative_position > 0 else 0
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You write into the caller's tensor, as abs_() does and every method that ends in an underscore. "
    "Take abs(), which makes a new tensor."
)
def changed_in_place(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs_()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "One way, you write into the caller's tensor, as neg_() and clamp_() do. Leave out the underscore: "
    "neg() and clamp() make a new tensor."
)
def changed_in_place_one_way(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = relative_position.neg_().clamp_(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A tensor that you make is on the cpu, where it cannot meet the others on a graphics card. Use "
    "torch.full_like or pass device=; clamp(max=...) needs no tensor."
)
def device_forgotten(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, torch.minimum(far, torch.full(far.shape, num_buckets - 1)))


@EXERCISE.misconception(
    "Your code fixes the number of axes at two, as `q, k = relative_position.shape` does. The input has any "
    "shape: work on all numbers at once, without asking for its sizes.",
    gravity="slip",
)
def two_axes_only(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    _, _ = relative_position.shape
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your number of exact buckets is not whole: num_buckets / 4 and the like keep a fraction. Divide by `//` "
    "both times: exact = per_side // 2, after per_side = num_buckets // 2.",
    gravity="slip",
)
def exact_not_whole(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets / 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = torch.floor(exact + ratio * (num_buckets - exact))
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.style("exact where near, logarithm where far")
def near_and_far(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.style("as in T5's code, buckets added up")
def added_up(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    buckets = 0
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_position > 0).to(torch.long) * num_buckets
        distance = torch.abs(relative_position)
    else:
        distance = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    large = torch.log(distance.float() / max_exact) / math.log(max_distance / max_exact)
    large = max_exact + (large * (num_buckets - max_exact)).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    buckets += torch.where(distance < max_exact, distance, large)
    return buckets


@EXERCISE.style("number by number, in plain Python")
def number_by_number(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2

    def bucket(r):
        n = abs(r) if bidirectional else max(-r, 0)
        if n >= exact:
            n = exact + int(math.log(n / exact) / math.log(max_distance / exact) * (per_side - exact))
        return min(n, per_side - 1) + (per_side if bidirectional and r > 0 else 0)

    flat = [bucket(r) for r in relative_position.flatten().tolist()]
    return torch.tensor(flat, device=relative_position.device).reshape(relative_position.shape)


@EXERCISE.style("counting the bucket edges that a distance has passed")
def edges_passed(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    steps = torch.arange(per_side - exact, device=relative_position.device) / (per_side - exact)
    edges = exact * (max_distance / exact) ** steps
    edges = torch.cat([torch.arange(1, exact, device=edges.device), edges])
    n = relative_position.abs() if bidirectional else torch.relu(-relative_position)
    ahead = per_side * (relative_position > 0) if bidirectional else 0
    return torch.bucketize(n, edges, right=True) + ahead


@EXERCISE.style("a table of all distances, looked up")
def looked_up(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    n = torch.arange(max_distance + 1, device=relative_position.device)
    growth = torch.log2(n.clamp(min=exact) / exact) / math.log2(max_distance / exact)
    table = torch.where(n < exact, n, exact + torch.floor(growth * (per_side - exact)))
    table = table.clamp(max=per_side - 1).int()
    behind = table[(-relative_position).clamp(0, max_distance)]
    ahead = table[relative_position.clamp(0, max_distance)]
    if not bidirectional:
        return behind
    return torch.where(relative_position > 0, per_side + ahead, behind)


@EXERCISE.style("differences of logarithms, in floats")
def differences_of_logarithms(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    r = relative_position.double()
    per_side = num_buckets // 2 if bidirectional else num_buckets
    exact = per_side // 2
    n = r.abs() if bidirectional else torch.clamp(-r, min=0)
    scale = (per_side - exact) / (math.log(max_distance) - math.log(exact))
    far = exact + torch.floor((torch.log(n + 1e-9) - math.log(exact)) * scale + 1e-9)
    far[far > per_side - 1] = per_side - 1
    far[n < exact] = n[n < exact]
    return far + per_side * torch.heaviside(r, torch.zeros_like(r)) if bidirectional else far
