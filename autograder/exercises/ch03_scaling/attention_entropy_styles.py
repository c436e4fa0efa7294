"""Right answers to `attention_entropy`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch03_scaling.attention_entropy import EXERCISE


@EXERCISE.style("zeros replaced by 1 inside the logarithm")
def ones_for_zeros(weights, axis=-1):
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)), axis=axis)


@EXERCISE.style("NaN to zero")
def nan_to_zero(weights, axis=-1):
    return -np.nan_to_num(weights * np.log(weights)).sum(axis)


@EXERCISE.style("a masked array")
def masked_array(weights, axis=-1):
    terms = weights * np.ma.log(weights)
    return -terms.filled(0.0).sum(axis=axis)


@EXERCISE.style("np.log with out and where, in float64")
def log_where(weights, axis=-1):
    p = weights.astype(np.float64)
    log = np.zeros_like(p)
    np.log(p, out=log, where=p != 0)
    return -np.einsum("...k,...k->...", np.moveaxis(p, axis, -1), np.moveaxis(log, axis, -1))


@EXERCISE.style("row by row with math.log")
def row_by_row(weights, axis=-1):
    def entropy(row):
        return sum(-p * math.log(p) for p in row.tolist() if p > 0)

    return np.apply_along_axis(entropy, axis, weights)


@EXERCISE.style("minus the logarithm of the product of p to the p, since 0 to the 0 is 1")
def product_of_powers(weights, axis=-1):
    return -np.log(np.prod(weights**weights, axis=axis))


@EXERCISE.style("clipped at the smallest number of the dtype")
def clipped(weights, axis=-1):
    tiny = np.finfo(weights.dtype).tiny
    return np.sum(weights * -np.log(np.maximum(weights, tiny)), axis=axis)


@EXERCISE.style("the mean of -log p, a float for one row")
def mean_of_surprise(weights, axis=-1):
    surprise = np.zeros(weights.shape)
    surprise[weights > 0] = -np.log(weights[weights > 0])
    entropy = (weights * surprise).sum(axis=axis)
    return float(entropy) if entropy.ndim == 0 else entropy
