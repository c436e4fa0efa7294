"""Right answers to `alibi_bias`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.alibi_bias import EXERCISE


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


@EXERCISE.style("from the higher power of two: every second slope, then the others")
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
