"""Mistakes that people make in `scale_for_unit_variance`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.scale_for_unit_variance import EXERCISE


@EXERCISE.misconception(
    "You divide by the variance. A factor s multiplies the variance by s^2, so take the root: "
    "1/sqrt(d_k * var_q * var_k).",
    gravity="slip",
)
def no_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / (d_k * var_q * var_k)


@EXERCISE.misconception(
    "You return the standard deviation of q . k. Return one over it: 1/sqrt(d_k * var_q * var_k).",
    gravity="slip",
)
def inverted(d_k, var_q=1.0, var_k=1.0):
    return np.sqrt(d_k * var_q * var_k)


@EXERCISE.misconception(
    "1/sqrt(d_k) is right for unit variances only. Wider components spread the dot product more: put "
    "var_q and var_k under the root too."
)
def variances_ignored(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k)


@EXERCISE.misconception(
    "You treat the variances as standard deviations. Put them under the root: 1/sqrt(d_k * var_q * var_k)."
)
def sigma_for_variance(d_k, var_q=1.0, var_k=1.0):
    return 1 / (np.sqrt(d_k) * var_q * var_k)


@EXERCISE.misconception(
    "You take the root of the variances twice. Put them under one root with d_k: 1/sqrt(d_k * var_q * var_k)."
)
def root_twice(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * np.sqrt(var_q * var_k))


@EXERCISE.misconception(
    "You average the variances. For a product of independent factors they multiply: put d_k * var_q * var_k "
    "under the root."
)
def variances_averaged(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * (var_q + var_k) / 2)


@EXERCISE.misconception(
    "You use var_q for both variances. The variance of q . k is d_k * var_q * var_k: write 1/sqrt(d_k * "
    "var_q * var_k)."
)
def query_variance_only(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * var_q**2)


@EXERCISE.misconception(
    "You return the factor that q and k would each need. Return the factor of their dot product: "
    "the square root, not the fourth root."
)
def fourth_root(d_k, var_q=1.0, var_k=1.0):
    return (d_k * var_q * var_k) ** -0.25


@EXERCISE.misconception(
    "The variances are in the numerator. A wider query needs a *smaller* factor: 1/sqrt(d_k * var_q * var_k)."
)
def variances_on_top(d_k, var_q=1.0, var_k=1.0):
    return np.sqrt(var_q * var_k / d_k)
