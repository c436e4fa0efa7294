"""Right answers to `soft_lookup`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch02_qkv.soft_lookup import EXERCISE


@EXERCISE.style("scores, softmax, weighted sum")
def textbook(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


@EXERCISE.style("einsum, with softmax as a helper")
def einsum(query, keys, values, temperature):
    def softmax(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    if not temperature > 0:
        raise ValueError(f"expected a temperature above 0, got {temperature}")
    return np.einsum("n,nv->v", softmax(np.einsum("nd,d->n", keys, query) / temperature), values)


@EXERCISE.style("entry by entry, in plain Python, in float64")
def entry_by_entry(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = [float(np.dot(key, query)) / temperature for key in keys]
    best = max(scores)
    weights = [math.exp(s - best) for s in scores]
    result = np.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        result += weight * value
    return result / sum(weights)


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(query, keys, values, temperature):
    if temperature <= 0.0:
        raise ValueError("temperature must be positive")
    scores = np.float64(1) * keys @ query / temperature
    log_weights = scores - np.logaddexp.reduce(scores)
    return np.sum(np.exp(log_weights)[:, None] * values, axis=0)


@EXERCISE.style("the query cooled first, np.average")
def query_cooled(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = np.inner(keys, query / temperature)
    return np.average(values, axis=0, weights=np.exp(scores - np.amax(scores)))
