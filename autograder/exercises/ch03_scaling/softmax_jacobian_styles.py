"""Right answers to `softmax_jacobian`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.softmax_jacobian import EXERCISE


@EXERCISE.style("p_i times (delta_ij - p_j)")
def formula(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


@EXERCISE.style("diagonal less outer product, einsum")
def einsum(p):
    n = p.shape[-1]
    return np.einsum("...i,ij->...ij", p, np.eye(n)) - np.einsum("...i,...j->...ij", p, p)


@EXERCISE.style("entry by entry, in loops")
def entry_by_entry(p):
    n = p.shape[-1]
    J = np.empty((*p.shape, n))
    for place in np.ndindex(p.shape[:-1]):
        row = p[place]
        for i in range(n):
            for j in range(n):
                J[(*place, i, j)] = row[i] * (1 - row[i]) if i == j else -row[i] * row[j]
    return J


@EXERCISE.style("np.diag and np.outer, row by row")
def row_by_row(p):
    n = p.shape[-1]
    rows = p.reshape(-1, n)
    return np.stack([np.diag(row) - np.outer(row, row) for row in rows]).reshape(*p.shape, n)


@EXERCISE.style("the diagonal written into the outer product")
def diagonal_written(p):
    J = -(p[..., None] @ p[..., None, :])
    i = np.arange(p.shape[-1])
    J[..., i, i] += p
    return J


@EXERCISE.style("as a product of matrices, diag(p) (I - 1 p^T)")
def product_of_matrices(p):
    n = p.shape[-1]
    diagonal = np.zeros((*p.shape, n))
    diagonal.reshape(-1, n * n)[:, :: n + 1] = p.reshape(-1, n)
    return diagonal @ (np.identity(n) - np.ones((n, 1)) @ p[..., None, :])
