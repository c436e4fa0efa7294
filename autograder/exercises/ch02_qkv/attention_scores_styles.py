"""Right answers to `attention_scores`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch02_qkv.attention_scores import EXERCISE


@EXERCISE.style("matrix product, last two axes swapped")
def matmul(query, key):
    return query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])


@EXERCISE.style("einsum")
def einsum(query, key):
    return np.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5


@EXERCISE.style("the query scaled first")
def query_scaled_first(query, key):
    query = query / np.sqrt(np.float64(query.shape[-1]))
    axes = (*range(key.ndim - 2), key.ndim - 1, key.ndim - 2)
    return np.matmul(query, key.transpose(axes))


@EXERCISE.style("half of the scale on each side")
def half_on_each_side(query, key):
    root = query.shape[-1] ** 0.25
    return (query / root) @ np.moveaxis(key / root, -1, -2)


@EXERCISE.style("one pair at a time, in loops, in float64")
def pair_by_pair(query, key):
    d_k = query.shape[-1]
    scores = np.zeros((*query.shape[:-1], key.shape[-2]))
    for *lead, i in np.ndindex(query.shape[:-1]):
        for j in range(key.shape[-2]):
            pair = zip(query[(*lead, i)], key[(*lead, j)], strict=True)
            scores[(*lead, i, j)] = sum(a * b for a, b in pair) / d_k**0.5
    return scores


@EXERCISE.style("the products of all pairs, summed")
def broadcast_and_sum(query, key):
    products = query[..., :, None, :] * key[..., None, :, :]
    return products.sum(-1) / np.sqrt(query.shape[-1])


@EXERCISE.style("keys first, then transposed")
def transposed_at_the_end(query, key):
    return (key @ query.swapaxes(-2, -1)).swapaxes(-2, -1) / np.sqrt(key.shape[-1])
