"""Right answers to `gradient_norms`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.gradient_norms import EXERCISE


@EXERCISE.style("back from the end, one factor more on the right at each step")
def back_from_the_end(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ ((1 - h[t + 1] ** 2)[:, None] * W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.style("each product from its beginning, forward")
def forward_for_each(h, W_hh):
    norms = []
    for t in range(len(h)):
        total = np.eye(h.shape[1])
        for s in range(t + 1, len(h)):
            total = np.diag(1 - h[s] ** 2) @ W_hh.T @ total
        norms.append(np.linalg.norm(total, 2))
    return np.array(norms)


@EXERCISE.style("states as rows: the transpose of everything")
def states_as_rows(h, W_hh):
    total = np.identity(h.shape[1])
    norms = [1.0]
    for state in h[:0:-1]:
        total = (W_hh * (1 - state**2)) @ total
        norms.append(np.linalg.svd(total, compute_uv=False)[0])
    return np.array(norms[::-1])


@EXERCISE.style("the root of the largest eigenvalue of M M^T")
def root_of_an_eigenvalue(h, W_hh):
    total = np.eye(len(W_hh))
    norms = np.empty(len(h))
    norms[-1] = 1
    for t in reversed(range(len(h) - 1)):
        total = np.einsum("ij,j,kj->ik", total, 1 - np.square(h[t + 1]), W_hh)
        norms[t] = np.sqrt(np.linalg.eigvalsh(total @ total.T)[-1])
    return norms


@EXERCISE.style("all Jacobians at once, then their products")
def all_jacobians_at_once(h, W_hh):
    h = np.asarray(h, dtype=np.float64)
    J = (1 - h**2)[:, :, None] * W_hh.T[None]
    products = [np.eye(h.shape[1])]
    for t in range(len(h) - 1, 0, -1):
        products.append(products[-1] @ J[t])
    return np.linalg.norm(np.stack(products[::-1]), ord=2, axis=(-2, -1))


@EXERCISE.style("a product that is scaled to 1 on the way, its size kept as a logarithm")
def in_logarithms(h, W_hh):
    total, size = np.eye(h.shape[1]), 0.0
    logs = np.zeros(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norm = np.linalg.norm(total, ord=2)
        if norm == 0:
            logs[: t + 1] = -np.inf
            break
        total, size = total / norm, size + np.log(norm)
        logs[t] = size
    return np.exp(logs)


@EXERCISE.style("a recursion over the states")
def recursion(h, W_hh):
    def felt(t):
        if t == len(h) - 1:
            return [np.eye(h.shape[1])]
        later = felt(t + 1)
        return [later[0] @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T, *later]

    return np.array([np.linalg.norm(M, ord=2) for M in felt(0)])
