"""Right answers to `project_qkv`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.project_qkv import EXERCISE


@EXERCISE.style("three matrix products")
def matmul(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.style("einsum")
def einsum(x, W_q, W_k, W_v):
    return tuple(np.einsum("...td,de->...te", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.style("one product with the joined weights, then split into a list")
def joined_then_split(x, W_q, W_k, W_v):
    d_k = W_q.shape[1]
    joined = np.matmul(x, np.hstack((W_q, W_k, W_v)))
    return np.split(joined, [d_k, 2 * d_k], axis=-1)


@EXERCISE.style("np.dot")
def dot(x, W_q, W_k, W_v):
    return np.dot(x, W_q), np.dot(x, W_k), np.dot(x, W_v)


@EXERCISE.style("token by token, in loops, in float64")
def token_by_token(x, W_q, W_k, W_v):
    def project(W):
        rows = x.reshape(-1, x.shape[-1])
        result = np.zeros((len(rows), W.shape[1]))
        for t, row in enumerate(rows):
            for j in range(W.shape[1]):
                result[t, j] = sum(row[i] * W[i, j] for i in range(len(row)))
        return result.reshape(*x.shape[:-1], W.shape[1])

    return project(W_q), project(W_k), project(W_v)


@EXERCISE.style("tensordot")
def tensordot(x, W_q, W_k, W_v):
    def project(W):
        return np.tensordot(x, W, axes=([-1], [0]))

    return project(W_q), project(W_k), project(W_v)


@EXERCISE.style("columns, transposed back")
def columns_transposed_back(x, W_q, W_k, W_v):
    columns = x.swapaxes(-1, -2)
    return tuple((W.T @ columns).swapaxes(-1, -2) for W in (W_q, W_k, W_v))
