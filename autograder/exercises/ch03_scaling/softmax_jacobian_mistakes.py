"""Mistakes that people make in `softmax_jacobian`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.softmax_jacobian import EXERCISE


@EXERCISE.misconception(
    "You return the diagonal alone. Raising one score also lowers all other weights, since they share a "
    "sum: off the diagonal write -p_i p_j."
)
def diagonal_only(p):
    return np.eye(p.shape[-1]) * (p * (1 - p))[..., None, :]


@EXERCISE.misconception(
    "The sign is wrong. Raising a score raises its own weight: the diagonal is +p_i (1 - p_i), the rest is "
    "-p_i p_j.",
    gravity="slip",
)
def sign(p):
    return p[..., :, None] * (p[..., None, :] - np.eye(p.shape[-1]))


@EXERCISE.misconception("You return -p_i p_j everywhere. Add p_i on the diagonal: p_i (delta_ij - p_j).")
def no_identity(p):
    return -p[..., :, None] * p[..., None, :]


@EXERCISE.misconception("You add the outer product. Subtract it: when one weight grows the others shrink.")
def outer_added(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) + p[..., None, :])


@EXERCISE.misconception(
    "np.diag and np.outer do not support a batch: np.diag takes the diagonal of a matrix, and np.outer "
    "flattens. Use p[..., :, None] and p[..., None, :] with np.eye(n)."
)
def no_batch(p):
    return np.diag(p) - np.outer(p, p)


@EXERCISE.misconception(
    "`p @ p.T`, like np.dot(p, p), is one number for a row of weights: the sum of all p_i^2. Use the "
    "outer product, which has an entry for each pair: p[..., :, None] * p[..., None, :]."
)
def inner_product(p):
    return np.diag(p) - p @ p.T


@EXERCISE.misconception(
    "p.shape[0] is the number of rows when p is a batch. The identity belongs to the last axis: "
    "np.eye(p.shape[-1])."
)
def identity_of_the_first_axis(p):
    return p[..., :, None] * (np.eye(p.shape[0]) - p[..., None, :])


@EXERCISE.misconception(
    "You apply softmax to p. p is the result of softmax already, not the scores: use it as it is."
)
def softmax_once_more(p):
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


@EXERCISE.misconception(
    "You return delta_ij - p_j, the Jacobian of the *logarithm* of softmax. For softmax itself, multiply "
    "row i by p_i."
)
def of_the_logarithm(p):
    return np.eye(p.shape[-1]) - p[..., None, :] * np.ones(p.shape)[..., :, None]


@EXERCISE.misconception(
    "You return p (1 - p), one slope per weight, as for a sigmoid. Each weight depends on *every* score: "
    "return a matrix, (..., n, n).",
    gravity="useless",
)
def as_for_a_sigmoid(p):
    return p * (1 - p)


@EXERCISE.misconception(
    "You multiply p_i by (delta_ij - p_i). Subtract the weight of the score that moves, p_j."
)
def p_i_twice(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., :, None])


@EXERCISE.misconception("You put p_i itself on the diagonal. Subtract p_i p_i there as well: p_i (1 - p_i).")
def p_on_the_diagonal(p):
    J = -p[..., :, None] * p[..., None, :]
    i = np.arange(p.shape[-1])
    J[..., i, i] = p
    return J


@EXERCISE.misconception(
    "You use the first row of the batch for all rows. Keep the leading axes: p[..., :, None] and p[..., "
    "None, :]."
)
def first_row_for_all(p):
    row = p.reshape(-1, p.shape[-1])[0]
    return np.broadcast_to(np.diag(row) - np.outer(row, row), (*p.shape, p.shape[-1])).copy()


@EXERCISE.misconception(
    "Your code writes into the caller's weights, as `p *= ...` does. Write p = p * ..., or build J from p "
    "without assigning to it."
)
def changed_in_place(p):
    J = -p[..., :, None] * p[..., None, :]
    i = np.arange(p.shape[-1])
    p *= 1 - p
    J[..., i, i] = p
    return J


@EXERCISE.misconception(
    "`np.eye(n) * p` makes a diagonal of one row, not of a batch. Add an axis: np.eye(n) * p[..., None, :]."
)
def diagonal_of_one_row(p):
    return np.eye(p.shape[-1]) * p - p[..., :, None] * p[..., None, :]


@EXERCISE.misconception(
    "p[:, None] and p[None, :] count axes from the front, and so does np.eye(n) * p: right for one row only. "
    "Count from the end: p[..., :, None], p[..., None, :]."
)
def axes_from_the_front(p):
    return np.eye(p.shape[-1]) * p - p[:, None] * p[None, :]


@EXERCISE.misconception(
    "np.diag does not support a batch, and p[:, None] counts axes from the front. Use p[..., :, None] and "
    "p[..., None, :] with np.eye(n): they leave leading axes alone."
)
def diag_and_axes_from_the_front(p):
    return np.diag(p) - p[:, None] * p[None, :]


@EXERCISE.misconception(
    "p[:, None] puts the new axis after the first one, which is right for a single row only. Put it last, "
    "p[..., :, None], and write p[..., None, :] for the p_j in delta_ij - p_j."
)
def factored_axes_from_the_front(p):
    return p[:, None] * (np.eye(p.shape[-1]) - p[None, :])


@EXERCISE.misconception(
    "np.diagflat and np.outer flatten: a batch of rows becomes one long row. Use p[..., :, None] and "
    "p[..., None, :] with np.eye(n), which keep rows apart."
)
def flattened(p):
    return np.diagflat(p) - np.outer(p, p)


@EXERCISE.misconception(
    "Your loops run over len(p), the *first* axis, which is right for one row of weights only. Take n = "
    "p.shape[-1] and index from the end: p[..., i], p[..., j]."
)
def loops_over_the_first_axis(p):
    n = len(p)
    return np.array([[p[i] * ((i == j) - p[j]) for j in range(n)] for i in range(n)])


@EXERCISE.misconception(
    "Your J is (n, n), room for one row of weights. A batch needs (..., n, n): J = np.empty((*p.shape, n)), "
    "with J[..., i, j] from p[..., i] and p[..., j]."
)
def loops_into_one_matrix(p):
    n = p.shape[-1]
    J = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


@EXERCISE.misconception(
    "You handle only one row or a matrix of rows: with more leading axes a `row` is itself a matrix. Use "
    "p[..., :, None] and p[..., None, :]."
)
def rows_of_a_matrix_only(p):
    if p.ndim == 1:
        return np.diag(p) - np.outer(p, p)
    return np.array([np.diag(row) - np.outer(row, row) for row in p])


@EXERCISE.misconception(
    "Your einsum names one axis of p, so it takes a single row. Let it begin with an ellipsis, "
    "'...i,...j->...ij'; np.diag takes no batch either: use np.eye(n)."
)
def einsum_of_one_row(p):
    return np.diag(p) - np.einsum("i,j->ij", p, p)


@EXERCISE.misconception(
    "Your einsum names two axes of p, so it takes a matrix of rows, no more and no fewer. Let it begin "
    "with an ellipsis, '...i,...j->...ij'."
)
def einsum_of_a_matrix(p):
    return np.eye(p.shape[-1]) * p[..., None, :] - np.einsum("bi,bj->bij", p, p)


@EXERCISE.misconception(
    "You unpack p.shape into one size, so your code takes a single row. Take n = p.shape[-1], which fits "
    "any number of leading axes."
)
def unpacks_one_size(p):
    (n,) = p.shape
    return p[..., :, None] * (np.eye(n) - p[..., None, :])


@EXERCISE.misconception(
    "You unpack p.shape into two sizes, so your code takes a matrix only. Take n = p.shape[-1], which "
    "fits any number of leading axes."
)
def unpacks_two_sizes(p):
    _rows, n = p.shape
    return p[..., :, None] * (np.eye(n) - p[..., None, :])
