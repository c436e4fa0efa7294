"""Mistakes that people make in `dot_product_variance`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.dot_product_variance import EXERCISE


@EXERCISE.misconception(
    "You ignore the means. A component of q that is not centred passes on the spread of k: add var_q * "
    "mean_k^2 + var_k * mean_q^2 for each component."
)
def means_ignored(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * var_q * var_k


@EXERCISE.misconception(
    "You square d_k. The d_k products are independent, so their variances add: multiply by d_k, not by d_k^2."
)
def d_k_squared(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k**2 * (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2)


@EXERCISE.misconception(
    "You square the variances as if they were standard deviations. var_q is sigma^2 already: use it as it is."
)
def variances_squared(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q**2 * var_k**2 + var_q**2 * mean_k**2 + var_k**2 * mean_q**2)


@EXERCISE.misconception(
    "You return the standard deviation. Return the variance: leave out the square root.",
    gravity="slip",
)
def standard_deviation(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return np.sqrt(d_k * (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2))


@EXERCISE.misconception(
    "You return the variance of one product q_i k_i. The dot product adds d_k of them: multiply by d_k.",
    gravity="slip",
)
def one_component(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2


@EXERCISE.misconception(
    "You add var_q and var_k, which gives the variance of a sum. For a product of centred, independent "
    "factors the variances multiply: var_q * var_k."
)
def variances_added(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q + var_k + var_q * mean_k**2 + var_k * mean_q**2)


@EXERCISE.misconception(
    "You return E[(q_i k_i)^2], summed. A variance subtracts the squared mean: subtract mean_q^2 * "
    "mean_k^2 for each component."
)
def second_moment(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q + mean_q**2) * (var_k + mean_k**2)


@EXERCISE.misconception(
    "You multiply only the first term by d_k. The squared mean is subtracted for every component too: "
    "multiply the whole difference by d_k."
)
def squared_mean_taken_off_once(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q + mean_q**2) * (var_k + mean_k**2) - mean_q**2 * mean_k**2


@EXERCISE.misconception(
    "The cross terms have their means exchanged: the mean of k scales the spread of q. Write var_q * "
    "mean_k^2 + var_k * mean_q^2."
)
def means_swapped(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q * var_k + var_q * mean_q**2 + var_k * mean_k**2)


@EXERCISE.misconception(
    "You do not square the means. A factor c multiplies a variance by c^2: var_q * mean_k**2 + var_k * "
    "mean_q**2."
)
def means_not_squared(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q * var_k + var_q * mean_k + var_k * mean_q)


@EXERCISE.misconception(
    "You multiply the two squared means. Each mean goes with the *other* vector's variance: "
    "var_q * mean_k^2 + var_k * mean_q^2."
)
def means_multiplied(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * (var_q * var_k + mean_q**2 * mean_k**2)


@EXERCISE.misconception(
    "You multiply only the variance term by d_k. The terms with the means belong to every component too: "
    "multiply the whole sum by d_k."
)
def means_counted_once(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2


@EXERCISE.misconception(
    "You divide by d_k. Each of the d_k products adds its variance: multiply by d_k. The scale of "
    "attention comes later."
)
def divided_by_d_k(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2) / d_k


@EXERCISE.misconception(
    "You take roots: sqrt(var) is the standard deviation, but in a product of centred, independent "
    "factors the variances multiply. Use var_q and var_k as they are."
)
def deviations_for_variances(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    s, t = np.sqrt(var_q), np.sqrt(var_k)
    return d_k * (s * t + s * mean_k**2 + t * mean_q**2)


@EXERCISE.misconception(
    "You cut off the fraction, as int() does. A variance is a real number: return it with its fraction.",
    gravity="slip",
)
def truncated(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return int(d_k * (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2))
