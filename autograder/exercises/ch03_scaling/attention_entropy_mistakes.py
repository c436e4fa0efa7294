"""Mistakes that people make in `attention_entropy`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.attention_entropy import EXERCISE


@EXERCISE.misconception(
    "A row that holds a zero gives NaN. 0 * log 0 is NaN, and np.log(..., where=...) without `out` leaves "
    "memory that was never written. Write np.log(np.where(weights > 0, weights, 1))."
)
def nan_at_zero(weights, axis=-1):
    return -(weights * np.log(weights)).sum(axis=axis)


@EXERCISE.misconception("You use log2, which gives bits. Return nats: np.log.", gravity="slip")
def in_bits(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log2(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "The minus sign is missing. The logarithm of a weight is negative, the entropy is not: return -sum p "
    "ln p.",
    gravity="slip",
)
def no_minus(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return (weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "An epsilon inside the logarithm biases every row, and makes the entropy of a one-hot row negative. "
    "Replace only the zeros: np.log(np.where(weights > 0, weights, 1)).",
    gravity="slip",
)
def epsilon_in_the_logarithm(weights, axis=-1):
    return -(weights * np.log(weights + 1e-8)).sum(axis=axis)


@EXERCISE.misconception(
    "An epsilon of 0.001 is larger than many weights. Replace only the zeros: np.log(np.where(weights > "
    "0, weights, 1)).",
    gravity="slip",
)
def large_epsilon(weights, axis=-1):
    return -(weights * np.log(weights + 1e-3)).sum(axis=axis)


@EXERCISE.misconception("You always sum over the last axis. Use the `axis` that was passed: .sum(axis=axis).")
def axis_ignored(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=-1)


@EXERCISE.misconception(
    "You sum over all rows; weights[weights > 0] leads to this too, since it makes one long row. Each query "
    "has its own entropy: keep the shape, with np.where, and sum along `axis` only."
)
def one_sum_for_all(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum()


@EXERCISE.misconception(
    "You take the mean over the keys. Entropy is a sum, since the weights already make it an average: write "
    ".sum(axis=axis)."
)
def mean_over_keys(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).mean(axis=axis)


@EXERCISE.misconception(
    "Your result has an axis of size 1 too many, as keepdims=True leaves it. Return the shape of the "
    "weights without `axis`: leave keepdims out.",
    gravity="slip",
)
def axis_kept(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You divide by ln n, so that the result is between 0 and 1. Return the entropy itself, in nats."
)
def divided_by_its_maximum(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis) / max(np.log(weights.shape[axis]), 1e-9)


@EXERCISE.misconception("You return exp of the entropy, the perplexity. Leave out the exp.", gravity="slip")
def perplexity(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return np.exp(-(weights * np.log(safe)).sum(axis=axis))


@EXERCISE.misconception(
    "You sum the logarithms without the weights. Multiply each logarithm by its weight: weights * "
    "np.log(...)."
)
def logarithms_not_weighted(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -np.log(safe).sum(axis=axis)


@EXERCISE.misconception(
    "Your code writes into the caller's weights, as weights[weights == 0] = 1 does. Use np.where, which "
    "makes a new array."
)
def zeros_replaced_in_place(weights, axis=-1):
    entropy = -np.nan_to_num(weights * np.log(weights)).sum(axis=axis)
    weights[weights == 0] = 1
    return entropy


@EXERCISE.misconception(
    "You sum along axis 0 when no axis is passed. The default is the last axis: write `def "
    "attention_entropy(weights, axis=-1)`.",
    gravity="slip",
)
def default_axis_0(weights, axis=0):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "You sum over all axes when no axis is passed. The default is the last axis: write `def "
    "attention_entropy(weights, axis=-1)`.",
    gravity="slip",
)
def default_axis_none(weights, axis=None):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "You always sum along axis 1. Use the `axis` that was passed, by default the last one."
)
def always_axis_1(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=1)


@EXERCISE.misconception(
    "You always sum along axis 0. Use the `axis` that was passed, by default the last one."
)
def always_axis_0(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=0)


@EXERCISE.misconception(
    "You unpack weights.shape into two sizes, so your code takes a matrix only. Sum along `axis`, which "
    "fits any number of axes and needs no sizes."
)
def unpacks_two_sizes(weights, axis=-1):
    _queries, _keys = weights.shape
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)
