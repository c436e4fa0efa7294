"""Right answers to `softmax`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.softmax import EXERCISE


@EXERCISE.style("subtract the maximum, exponentiate, normalise")
def textbook(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(x, axis=-1):
    m = np.max(x, axis=axis, keepdims=True)
    lse = m + np.log(np.sum(np.exp(x - m), axis=axis, keepdims=True))
    return np.exp(x - lse)


@EXERCISE.style("each row by itself, in a loop")
def row_by_row(x, axis=-1):
    def one_row(row):
        e = np.exp(row - max(row))
        return e / sum(e)

    return np.apply_along_axis(one_row, axis, x)


@EXERCISE.style("the axis moved to the end, and back")
def moved_axis(x, axis=-1):
    y = np.moveaxis(np.array(x, dtype=np.float64), axis, -1)
    y -= y.max(axis=-1)[..., None]
    np.exp(y, out=y)
    y /= y.sum(axis=-1)[..., None]
    return np.moveaxis(y, -1, axis)


@EXERCISE.style("one over the sum of exponentials of differences")
def pairwise_differences(x, axis=-1):
    y = np.moveaxis(x, axis, -1)
    differences = y[..., None, :] - y[..., :, None]
    with np.errstate(over="ignore"):
        return np.moveaxis(1 / np.exp(differences).sum(axis=-1), -1, axis)
