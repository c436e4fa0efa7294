"""Mistakes that people make in `softmax`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.softmax import EXERCISE


@EXERCISE.misconception(
    "exp overflows for large scores, and is 0 for every score of a very negative row. Subtract each row's "
    "maximum first: the weights do not change, since the factor exp(-max) cancels."
)
def no_maximum(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the maximum of the whole array. A row that is far below it underflows to 0/0. Subtract "
    "each row's own maximum, x.max(axis=axis, keepdims=True)."
)
def global_maximum(x, axis=-1):
    e = np.exp(x - x.max())
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception("You always normalise the last axis. Use the `axis` that was passed.")
def axis_ignored(x, axis=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@EXERCISE.misconception(
    "A maximum or a sum along `axis` loses that axis, so numpy pairs it with the wrong numbers or raises an "
    "error. Write keepdims=True in both: e.sum(axis=axis, keepdims=True)."
)
def keepdims_forgotten(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis)


@EXERCISE.misconception(
    "You divide by the sum over the whole array. Each row must sum to 1 by itself: e.sum(axis=axis, "
    "keepdims=True).",
    gravity="useless",
)
def one_sum_for_all(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum()


@EXERCISE.misconception(
    "You divide the scores by their sum. Take the exponential of each score first.",
    gravity="useless",
)
def no_exponential(x, axis=-1):
    return x / x.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You return exponentials that do not sum to 1. Divide them by their sum along `axis`.",
    gravity="useless",
)
def not_normalised(x, axis=-1):
    return np.exp(x - x.max(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 to about eight digits only. With the maximum "
    "subtracted the sum is at least 1 and needs no protection: divide by the sum alone."
)
def epsilon_in_the_sum(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-8)


@EXERCISE.misconception(
    "Your code writes into the caller's array, as `x -= ...` does. Write `x = x - ...`, which makes a new "
    "one."
)
def changed_in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You return the logarithm of the weights. Return the weights: take exp of it, or leave the log out."
)
def log_of_softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You put all weight on the largest score. Give every score its share: its exponential over their sum.",
    gravity="useless",
)
def hard_maximum(x, axis=-1):
    return (x == x.max(axis=axis, keepdims=True)) * 1.0


@EXERCISE.misconception(
    "You apply the sigmoid to each score by itself, so a row does not sum to 1. Divide each exponential "
    "by the sum of its row.",
    gravity="useless",
)
def sigmoid(x, axis=-1):
    return 0.5 * (1 + np.tanh(x / 2))


@EXERCISE.misconception(
    "When another axis is passed, your code writes into the caller's array, as `x -= ...` does. Write `x "
    "= x - ...` there too."
)
def changed_in_place_on_other_axes(x, axis=-1):
    if axis == -1:
        x = x - x.max(axis=axis, keepdims=True)
    else:
        x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the smallest score, so no exponent is below 0 and exp still overflows. Subtract "
    "the largest score: then no exponent is above 0."
)
def minimum_subtracted(x, axis=-1):
    e = np.exp(x - x.min(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the mean. A score far above the mean still overflows. Subtract the largest score, so "
    "that no exponent is above 0."
)
def mean_subtracted(x, axis=-1):
    e = np.exp(x - x.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 0. Use the `axis` that was passed, by default the last one."
)
def always_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 1. Use the `axis` that was passed, by default the last one."
)
def always_axis_1(x, axis=-1):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along the last axis and your sum along `axis`. A number that is subtracted cancels "
    "only if all scores of a sum share it: write x.max(axis=axis, keepdims=True)."
)
def maximum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along axis 0 and your sum along `axis`. A number that is subtracted cancels only "
    "if all scores of a sum share it: write x.max(axis=axis, keepdims=True)."
)
def maximum_of_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along `axis`, but your sum runs along the last axis. The weights must sum to 1 "
    "along `axis`: write e.sum(axis=axis, keepdims=True)."
)
def sum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@EXERCISE.misconception(
    "You normalise axis 0 when no axis is passed. The default is the last axis: write `def softmax(x, "
    "axis=-1)`.",
    gravity="slip",
)
def default_axis_0(x, axis=0):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Integer scores give integer weights: the array for your result has the dtype of x. Make it with "
    "np.zeros(x.shape), which holds fractions.",
    gravity="slip",
)
def room_of_whole_numbers(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    weights = np.zeros_like(x)
    weights[...] = e / e.sum(axis=axis, keepdims=True)
    return weights


@EXERCISE.misconception(
    "Integer scores lose the fractions of exp: the array for exp has the dtype of x. Make it with "
    "np.zeros(x.shape), which holds fractions.",
    gravity="slip",
)
def whole_numbers_from_exp(x, axis=-1):
    e = np.zeros_like(x)
    e[...] = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You unpack x.shape into two sizes, so your code takes a matrix only. x has any number of axes: use "
    "`axis` with keepdims=True, and no sizes."
)
def unpacks_two_sizes(x, axis=-1):
    _rows, _columns = x.shape
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You handle only a row or a matrix of rows: with more axes a `row` is itself a matrix. Use "
    "`axis` with keepdims=True, which fits any number of axes."
)
def rows_of_a_matrix_only(x, axis=-1):
    def one_row(row):
        e = np.exp(row - row.max())
        return e / e.sum()

    if x.ndim == 1:
        return one_row(x)
    rows = x if axis in (-1, x.ndim - 1) else np.swapaxes(x, axis, -1)
    weights = np.array([one_row(row) for row in rows])
    return weights if axis in (-1, x.ndim - 1) else np.swapaxes(weights, axis, -1)
