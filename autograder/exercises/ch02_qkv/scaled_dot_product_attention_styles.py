"""Right answers to `scaled_dot_product_attention`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch02_qkv.scaled_dot_product_attention import EXERCISE


@EXERCISE.style("-inf where forbidden, empty rows by nan_to_num")
def infinite_fill(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = np.nan_to_num(e / e.sum(axis=-1, keepdims=True))
    return weights @ value, weights


@EXERCISE.style("-1e9 where forbidden, then the mask once more")
def large_negative_fill(query, key, value, mask=None):
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.style("a bias of -1e9 added, empty rows by np.where, returned as a list")
def additive_bias(query, key, value, mask=None):
    scores = np.einsum("...qd,...kd->...qk", query * query.shape[-1] ** -0.5, key)
    if mask is not None:
        scores = scores + (1.0 - mask) * -1e9
    e = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    weights = e / np.einsum("...k->...", e)[..., None]
    if mask is not None:
        weights = np.where(mask.any(axis=-1)[..., None], weights, 0.0)
    return [np.einsum("...qk,...kv->...qv", weights, value), weights]


@EXERCISE.style("query by query and key by key, in loops, in float64")
def query_by_query(query, key, value, mask=None):
    lead, T_q, T_k = query.shape[:-2], query.shape[-2], key.shape[-2]
    allowed = np.broadcast_to(True if mask is None else mask, (*lead, T_q, T_k))
    output = np.zeros((*lead, T_q, value.shape[-1]))
    weights = np.zeros((*lead, T_q, T_k))
    for b in np.ndindex(*lead):
        for i in range(T_q):
            keys = [j for j in range(T_k) if allowed[(*b, i, j)]]
            scores = [float(query[(*b, i)] @ key[(*b, j)]) / math.sqrt(query.shape[-1]) for j in keys]
            total = sum(math.exp(s - max(scores)) for s in scores)
            for j, s in zip(keys, scores, strict=True):
                weights[(*b, i, j)] = math.exp(s - max(scores)) / total
                output[(*b, i)] += weights[(*b, i, j)] * value[(*b, j)]
    return output, weights


@EXERCISE.style("boolean indexing, through the log-sum-exp, in float64")
def log_sum_exp(query, key, value, mask=None):
    scores = np.sum(query[..., :, None, :].astype(float) * key[..., None, :, :], axis=-1)
    scores /= np.sqrt(query.shape[-1])
    if mask is not None:
        scores[~np.broadcast_to(mask, scores.shape)] = -np.inf
    lse = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    lse[np.isneginf(lse)] = 0
    weights = np.exp(scores - lse)
    return weights @ value, weights


@EXERCISE.style("a masked array")
def masked_array(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    scores = np.ma.array(scores, mask=~allowed)
    e = np.ma.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (e / e.sum(axis=-1, keepdims=True)).filled(0)
    return weights @ value, weights


@EXERCISE.style("the sum divided out at the end, as in flash attention")
def normalised_at_the_end(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        e = np.where(mask, e, 0)
    total = e.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return (e @ value) / total, e / total
