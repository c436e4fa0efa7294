"""Right answers to `additive_attention`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.additive_attention import EXERCISE


@EXERCISE.style("broadcasting, -1e9 where forbidden, then the mask once more")
def broadcasting(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None, :] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return (weights[..., None] * values).sum(axis=1), weights


@EXERCISE.style("-inf where forbidden, empty rows by nan_to_num; matmul")
def infinite_fill(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh(np.expand_dims(query @ W_q, 1) + keys @ W_k) @ v
    if mask is not None:
        scores[~mask] = -np.inf
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = np.nan_to_num(e / e.sum(axis=1, keepdims=True))
    return np.matmul(weights[:, None, :], values)[:, 0], weights


@EXERCISE.style("einsum, a bias of -1e9 added, returned as a list")
def einsum(query, keys, values, W_q, W_k, v, mask=None):
    sums = np.einsum("bi,ia->ba", query, W_q)[:, None] + np.einsum("bti,ia->bta", keys, W_k)
    scores = np.einsum("bta,a->bt", np.tanh(sums), v)
    if mask is not None:
        scores = scores + (1.0 - mask) * -1e9
    e = np.exp(scores - np.amax(scores, axis=-1)[:, None])
    weights = e / np.einsum("bt->b", e)[:, None]
    if mask is not None:
        weights = np.where(mask.any(axis=-1)[:, None], weights, 0.0)
    return [np.einsum("bt,btv->bv", weights, values), weights]


@EXERCISE.style("sequence by sequence and key by key, in loops")
def key_by_key(query, keys, values, W_q, W_k, v, mask=None):
    B, T, _ = keys.shape
    context, weights = np.zeros((B, values.shape[2])), np.zeros((B, T))
    for b in range(B):
        allowed = [t for t in range(T) if mask is None or mask[b, t]]
        scores = [float(np.dot(v, np.tanh(query[b] @ W_q + keys[b, t] @ W_k))) for t in allowed]
        total = sum(math.exp(s - max(scores)) for s in scores)
        for t, s in zip(allowed, scores, strict=True):
            weights[b, t] = math.exp(s - max(scores)) / total
            context[b] += weights[b, t] * values[b, t]
    return context, weights


@EXERCISE.style("query and key side by side, one matrix")
def side_by_side(query, keys, values, W_q, W_k, v, mask=None):
    T = keys.shape[1]
    pairs = np.concatenate([np.repeat(query[:, None], T, axis=1), keys], axis=-1)
    scores = (np.tanh(pairs @ np.vstack([W_q, W_k])) * v).sum(-1)
    allowed = np.ones(scores.shape, bool) if mask is None else mask
    peak = np.max(np.where(allowed, scores, -np.inf), axis=-1, keepdims=True, initial=-1e30)
    e = np.exp(np.where(allowed, scores - peak, -np.inf))
    weights = e / np.where(allowed.any(-1, keepdims=True), e.sum(-1, keepdims=True), 1)
    return np.einsum("bt,btv->bv", weights, values), weights


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q).reshape(len(query), 1, -1) + keys @ W_k) @ v
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    lse = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(lse), lse, 0))
    return np.squeeze(weights[:, None] @ values, 1), weights


@EXERCISE.style("sequence by sequence, only the keys that are allowed; the sum divided out at the end")
def allowed_keys_only(query, keys, values, W_q, W_k, v, mask=None):
    contexts, rows = [], []
    for b in range(len(query)):
        allowed = np.ones(len(keys[b]), bool) if mask is None else mask[b]
        row, context = np.zeros(len(keys[b])), np.zeros(values.shape[-1])
        if allowed.any():
            scores = np.tanh(keys[b][allowed] @ W_k + query[b] @ W_q) @ v
            e = np.exp(scores - scores.max())
            row[allowed] = e / e.sum()
            context = e @ values[b][allowed] / e.sum()
        contexts.append(context)
        rows.append(row)
    return np.array(contexts), np.array(rows)
