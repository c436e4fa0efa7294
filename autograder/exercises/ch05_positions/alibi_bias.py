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
"""Nothing comes in that has a dtype: float32 is wide enough, and float64 is right too."""


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
    """The same numbers, in whatever floating dtype."""
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
        f"the queries are the last of the keys, so query {query} is at position {key} of 0 to {k_len - 1}; "
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
    """Within a head, each step away costs the same."""
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
    """Two pairs of a query and a key that are equally far apart have the same bias."""
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
                f"{float(found[head, other]):.4g} for query {q1} and key {k1}; both are {far} apart"
            )
    return None


def right_slopes(trial: Trial) -> str | None:
    """The slope of each head, read off the last query's two last keys."""
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
    reference=alibi.alibi_bias,
    criteria=(
        Criterion("minus slope times distance, 2^n heads", 1.5, powers_of_two, test=right_numbers),
        Criterion("the queries are the last of the keys", 0.75, more_keys, test=right_numbers),
        Criterion("the slopes for other head counts", 0.75, other_head_counts, test=right_numbers),
    ),
    properties=(
        *FIRST,
        Property("the own key costs nothing", nothing_on_the_own_key),
        Property("no bias is above zero", nothing_above_zero),
        Property("the cost grows evenly", grows_by_the_slope),
        Property("the same distance costs the same", same_distance_same_cost),
        Property("the slopes are right", right_slopes),
        *LAST,
    ),
    forbidden=("transformers.models.bloom.modeling_bloom.build_alibi_tensor",),
    same=any_float,
)


@EXERCISE.misconception(
    "Your bias grows with distance, so that far keys are preferred. It is a penalty: return minus the "
    "slope times the distance.",
    gravity="slip",
)
def sign(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Your exponents are off by one: the first slope is 1. Count heads from 1, so that the first slope "
    "is 2^(-8/n) and the last 2^-8.",
    gravity="slip",
)
def heads_from_0(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(n)]
    slopes += [2 ** (-4 * h / n) for h in range(0, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "You use 2^(-8h/n) for any n. Where n is no power of two, take the slopes of the next lower power "
    "of two, then every second slope of the next higher one, from its first."
)
def formula_for_any_head_count(num_heads, q_len, k_len):
    slopes = torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)])
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -slopes[:, None, None] * distance


@EXERCISE.misconception(
    "Your queries are at the first positions. They are the last q_len of the k_len, since the keys "
    "before them come from a cache: put query i at position k_len - q_len + i.",
    gravity="slip",
)
def queries_first(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(q_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Keys ahead of a query are rewarded: their distance has lost its absolute value. Distance counts on "
    "either side: take .abs().",
    gravity="slip",
)
def no_absolute_value(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Keys ahead of a query cost nothing. Return minus slope times |distance| on either side; hiding "
    "keys ahead is the work of the causal mask.",
    gravity="slip",
)
def nothing_ahead(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).clamp(min=0)
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Keys ahead get -inf, which is the work of the causal mask. Return minus slope times |distance| for "
    "all keys.",
    gravity="slip",
)
def causal_mask_as_well(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    bias = -torch.tensor(slopes)[:, None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf"))


@EXERCISE.misconception(
    "Your slopes are 1/2, 1/4, 1/8, ... for any number of heads, which is right for 8 heads only. Use "
    "the exponent -8h/n: the last head always gets 2^-8."
)
def halved_each_time(num_heads, q_len, k_len):
    slopes = 2.0 ** -torch.arange(1, num_heads + 1)
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -slopes[:, None, None] * distance


@EXERCISE.misconception(
    "Your slopes are sorted. Where the head count is no power of two, keep the published order: the "
    "slopes of the lower power first, then those taken from the higher power."
)
def sorted_slopes(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(sorted(slopes, reverse=True))[:, None, None] * distance


@EXERCISE.misconception(
    "Where the head count is no power of two, you take the first slopes of the next higher power. Start "
    "with *all* slopes of the next lower power."
)
def cut_from_the_higher_power(num_heads, q_len, k_len):
    n = 2 ** math.ceil(math.log2(num_heads))
    slopes = torch.tensor([2 ** (-8 * h / n) for h in range(1, num_heads + 1)])
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -slopes[:, None, None] * distance


@EXERCISE.misconception(
    "After the slopes of the lower power of two you go on with all of the higher one. Take every second "
    "of those, the first, third, fifth ...: the others are in the list already."
)
def not_every_second(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "From the higher power of two you take the second, fourth, sixth slope, which are in the list "
    "already. Start with its first: slopes[0::2]."
)
def the_other_half(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(2, 2 * n + 1, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Your heads are in reverse order. Give the first head the steepest slope, 2^(-8/n), and the last "
    "the gentlest, 2^-8.",
    gravity="slip",
)
def gentlest_first(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes[::-1])[:, None, None] * distance


@EXERCISE.misconception(
    "Your bias is slope times the key's position, the same for every query. In a causal softmax that "
    "gives the same weights, but return the distance itself: one row for each query."
)
def position_of_the_key_only(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    bias = torch.tensor(slopes)[:, None, None] * torch.arange(k_len)
    return bias.expand(num_heads, q_len, k_len)


@EXERCISE.misconception(
    "Your penalty grows with the square of the distance. Make it linear: twice as far costs twice as much."
)
def squared_distance(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)) ** 2
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "Your distance is divided by the number of keys, so that the same distance costs less in a longer "
    "text. Use the distance in tokens."
)
def distance_as_a_fraction(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs() / k_len
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "The heads are your last axis. Put them first, as in the scores: (num_heads, q_len, k_len), with "
    "slopes[:, None, None].",
    gravity="slip",
)
def heads_last(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes) * distance[..., None]


@EXERCISE.misconception(
    "Your exponents are rounded down to whole numbers, so that with more than 8 heads slopes repeat. "
    "Divide with `/`: `//` drops the fraction."
)
def whole_number_exponents(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2.0 ** (-8 * h // n) for h in range(1, n + 1)]
    slopes += [2.0 ** (-4 * h // n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.style("two lists of slopes, times the distance")
def two_lists(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.style("every second slope of twice as many heads, by recursion")
def by_recursion(num_heads, q_len, k_len):
    def slopes_of(n):
        if n & (n - 1) == 0:
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        lower = 2 ** math.floor(math.log2(n))
        return slopes_of(lower) + slopes_of(2 * lower)[0::2][: n - lower]

    queries = torch.arange(q_len)[:, None] + k_len - q_len
    distance = (torch.arange(k_len)[None, :] - queries).abs().float()
    return torch.tensor(slopes_of(num_heads)).view(-1, 1, 1) * -distance


@EXERCISE.style("from the higher power of two: the second half of the pairs first")
def from_the_higher_power(num_heads, q_len, k_len):
    n = 2 ** math.ceil(math.log2(num_heads))
    slopes = 2.0 ** (-torch.arange(1, n + 1) * 8 / n)
    if n != num_heads:
        slopes = torch.cat([slopes[1::2], slopes[0::2]])[:num_heads]
    steps = torch.arange(k_len - 1, -1, -1) - torch.arange(q_len - 1, -1, -1)[:, None]
    return torch.einsum("h,qk->hqk", slopes, -steps.abs().to(slopes.dtype))


@EXERCISE.style("number by number, in loops, in float64")
def in_loops(num_heads, q_len, k_len):
    n = 1
    while 2 * n <= num_heads:
        n *= 2
    bias = torch.zeros(num_heads, q_len, k_len, dtype=torch.float64)
    for head in range(num_heads):
        exponent = 8 * (head + 1) / n if head < n else 4 * (2 * (head - n) + 1) / n
        for i in range(q_len):
            for j in range(k_len):
                bias[head, i, j] = -(0.5**exponent) * abs(k_len - q_len + i - j)
    return bias


@EXERCISE.style("the whole square, cut to its last rows")
def last_rows_of_the_square(num_heads, q_len, k_len):
    n = 2 ** int(math.log2(num_heads))
    slopes = torch.pow(2, -torch.linspace(8 / n, 8, n))
    between = torch.pow(2, -torch.linspace(4 / n, 8 - 4 / n, n))
    slopes = torch.cat([slopes, between])[:num_heads]
    place = torch.arange(k_len)
    square = torch.minimum(place[None] - place[:, None], place[:, None] - place[None])
    return slopes[:, None, None] * square[k_len - q_len :]


@EXERCISE.style("distances by torch.cdist")
def by_cdist(num_heads, q_len, k_len):
    n = 2 ** (num_heads.bit_length() - 1)
    exponents = torch.cat([torch.arange(1, n + 1) * 8 / n, torch.arange(1, 2 * n, 2) * 4 / n])
    place = torch.arange(k_len, dtype=torch.float32)[:, None]
    return -torch.cdist(place[-q_len:], place, p=1) * torch.exp2(-exponents[:num_heads])[:, None, None]
