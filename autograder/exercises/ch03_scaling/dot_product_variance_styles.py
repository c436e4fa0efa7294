"""Right answers to `dot_product_variance`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch03_scaling.dot_product_variance import EXERCISE


@EXERCISE.style("the formula")
def formula(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2)


@EXERCISE.style("second moment less squared mean")
def from_moments(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    second_q, second_k = var_q + mean_q**2, var_k + mean_k**2
    return float(d_k * (second_q * second_k - (mean_q * mean_k) ** 2))


@EXERCISE.style("component by component")
def component_by_component(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    total = 0.0
    for _ in range(d_k):
        total += var_q * var_k + var_q * mean_k * mean_k + var_k * mean_q * mean_q
    return total


@EXERCISE.style("the law of total variance, given k; np.float64")
def given_the_key(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    mean_of_variance = np.float64(var_q) * (var_k + mean_k**2)
    variance_of_mean = mean_q**2 * var_k
    return d_k * (mean_of_variance + variance_of_mean)


@EXERCISE.style("with arrays of components; a 0-d array")
def arrays_of_components(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    var_q, var_k, mean_q, mean_k = (np.full(d_k, float(x)) for x in (var_q, var_k, mean_q, mean_k))
    return np.asarray(np.sum(var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2))


@EXERCISE.style("standard deviations, combined as a root of squares")
def standard_deviations(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    s, t = math.sqrt(var_q), math.sqrt(var_k)
    return d_k * math.hypot(s * t, s * mean_k, t * mean_q) ** 2
