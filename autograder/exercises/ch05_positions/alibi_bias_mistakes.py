"""Mistakes that people make in `alibi_bias`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.alibi_bias import EXERCISE


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
    "is 2^(-8/n).",
    gravity="slip",
)
def heads_from_0(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(n)]
    slopes += [2 ** (-4 * h / n) for h in range(0, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


@EXERCISE.misconception(
    "You use 2^(-8h/n) for any n. If n is not a power of two, take the slopes of the next lower power of "
    "two, then every second slope of the next higher one, from its first."
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
    "Your slopes are 1/2, 1/4, 1/8, ... for any number of heads, which is right for 8 heads only. For a "
    "power of two n, use the exponent -8h/n: head n gets 2^-8."
)
def halved_each_time(num_heads, q_len, k_len):
    slopes = 2.0 ** -torch.arange(1, num_heads + 1)
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -slopes[:, None, None] * distance


@EXERCISE.misconception(
    "Your slopes are sorted. If the head count is not a power of two, keep the published order: the slopes "
    "of the lower power first, then those taken from the higher power."
)
def sorted_slopes(num_heads, q_len, k_len):
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)][: num_heads - n]
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -torch.tensor(sorted(slopes, reverse=True))[:, None, None] * distance


@EXERCISE.misconception(
    "If the head count is not a power of two, you take the first slopes of the next higher power. Start "
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
    "Your heads are in reverse order. For a power of two, go from the steepest slope, 2^(-8/n), to "
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
    "gives the same weights, but return minus the slope times the distance, a row for each query."
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
