"""Mistakes that people make in `soft_lookup`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.soft_lookup import EXERCISE


@EXERCISE.misconception(
    "You multiply by the temperature, so a high temperature makes the choice sharp. A high temperature "
    "should blur it: divide the scores by the temperature.",
    gravity="slip",
)
def multiplied(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query * temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You return the best key's value alone. That is the limit of a very low temperature, and its choice "
    "has no gradient: weigh all values by softmax.",
    gravity="useless",
)
def hard_argmax(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    return values[np.argmax(keys @ query)]


@EXERCISE.misconception(
    "exp overflows, or underflows to 0/0, when the temperature is small. Subtract the largest score "
    "before exp: the weights stay the same."
)
def unstable(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    weights = np.exp(keys @ query / temperature)
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "Your weights do not sum to 1, so the result is not a mean of the values. Divide them by weights.sum().",
    gravity="useless",
)
def not_normalised(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    return np.exp(scores - scores.max()) @ values


@EXERCISE.misconception("You never use the temperature. Divide the scores by it before softmax.")
def temperature_ignored(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You divide the weights by the temperature, after softmax, so they sum to 1/temperature. Divide the "
    "scores, before softmax."
)
def temperature_after_softmax(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() / temperature @ values


@EXERCISE.misconception(
    "You also divide by sqrt(d), as attention does. Divide by the temperature alone: here it is the whole "
    "scale.",
    gravity="slip",
)
def root_of_d_as_well(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / np.sqrt(len(query)) / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You weigh by score over the sum of scores. Scores can be negative and their sum zero: take the "
    "exponential first, as softmax does.",
    gravity="useless",
)
def no_exponential(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    return scores / scores.sum() @ values


@EXERCISE.misconception(
    "You return the blend of the keys. Keys decide the weights: blend the values, weights @ values."
)
def keys_blended(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ keys


@EXERCISE.misconception(
    "You return the weights. Return the sum of the values, each times its weight: weights @ values.",
    gravity="slip",
)
def weights_returned(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@EXERCISE.misconception(
    "A temperature of zero or below goes through, and the result means nothing. Refuse it: "
    "`if temperature <= 0: raise ValueError(...)`."
)
def no_error(query, keys, values, temperature):
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You refuse only zero. A negative temperature would prefer the worst key: refuse all that are zero or "
    "below, `if temperature <= 0:`.",
    gravity="slip",
)
def only_zero_refused(query, keys, values, temperature):
    if temperature == 0:
        raise ValueError("temperature must not be zero")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "`assert` raises an AssertionError, and python -O removes it. For a caller's mistake write `raise "
    "ValueError(...)`.",
    gravity="slip",
)
def asserted(query, keys, values, temperature):
    assert temperature > 0, "temperature must be positive"
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "Your code writes into the caller's arrays, as `keys /= ...` or `values *= ...` does. Make new "
    "arrays, such as keys / temperature."
)
def changed_in_place(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    values *= (weights / weights.sum())[:, None]
    return values.sum(axis=0)


@EXERCISE.misconception(
    "You sum the values times exp(score) and never divide by the sum of the exponentials. Subtract the "
    "largest score, and divide by weights.sum().",
    gravity="useless",
)
def bare_exponentials(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    return np.exp(keys @ query / temperature) @ values


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 to about eight digits only. With the maximum "
    "subtracted the sum is at least 1 and needs no protection: divide by the sum alone."
)
def epsilon_in_the_sum(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("the temperature must be positive")
    scores = keys @ query / temperature
    e = np.exp(scores - scores.max())
    return e / (e.sum() + 1e-8) @ values


@EXERCISE.misconception(
    "You refuse only negative temperatures. A temperature of zero divides by zero: refuse it too, `if "
    "temperature <= 0:`.",
    gravity="slip",
)
def only_negative_refused(query, keys, values, temperature):
    if temperature < 0:
        raise ValueError("temperature must not be negative")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values
