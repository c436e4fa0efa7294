"""Right answers to `scale_for_unit_variance`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch03_scaling.scale_for_unit_variance import EXERCISE


@EXERCISE.style("one over the root")
def one_over_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * var_q * var_k)


@EXERCISE.style("a negative power, a Python float")
def negative_power(d_k, var_q=1.0, var_k=1.0):
    return float((d_k * var_q * var_k) ** -0.5)


@EXERCISE.style("root by root, with math")
def root_by_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / (math.sqrt(d_k) * math.sqrt(var_q) * math.sqrt(var_k))


@EXERCISE.style("through the logarithm; a 0-d array")
def through_the_logarithm(d_k, var_q=1.0, var_k=1.0):
    return np.asarray(np.exp(-0.5 * (np.log(d_k) + np.log(var_q) + np.log(var_k))))


@EXERCISE.style("one over the length of a vector")
def one_over_a_norm(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.linalg.norm(np.full(d_k, np.sqrt(var_q) * np.sqrt(var_k)))
