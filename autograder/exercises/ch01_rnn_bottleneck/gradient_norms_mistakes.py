"""Mistakes that people make in `gradient_norms`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.gradient_norms import EXERCISE


@EXERCISE.misconception(
    "The factors are in the wrong order, and matrices do not commute. dh_T/dh_t is J_T J_(T-1) ... "
    "J_(t+1): multiply by each earlier J on the *right*, or by its transpose on the left."
)
def order_of_the_product(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = (1 - h[t + 1] ** 2)[:, None] * W_hh.T @ total
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You use 1 - h for the slope. With h = tanh(a) the slope of tanh is 1 - h**2: square the state."
)
def one_minus_h(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1]) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You return the Frobenius norm, which adds up all directions and is what np.linalg.norm(M) gives. The "
    "spectral norm is the strongest direction alone: write np.linalg.norm(M, ord=2).",
    gravity="slip",
)
def frobenius(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total)
    return norms


@EXERCISE.misconception(
    "You take the slope at h_t, where the step starts. The step from h_t to h_(t+1) has the slope of the "
    "tanh that made h_(t+1): 1 - h[t + 1] ** 2.",
    gravity="slip",
)
def slope_at_the_start(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "Your norms are in reverse order. norms[0] belongs to the first state, the furthest away, and the last "
    "norm is 1: return norms[::-1].",
    gravity="slip",
)
def in_reverse(h, W_hh):
    total, norms = np.eye(h.shape[1]), [1.0]
    for t in range(len(h) - 1, 0, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms.append(np.linalg.norm(total, ord=2))
    return np.array(norms)


@EXERCISE.misconception(
    "Your W_hh is not transposed. The state is a row, h @ W_hh, so unit j of the old state reaches unit i "
    "of the new one through W_hh[j, i]: J = diag(1 - h^2) W_hh^T."
)
def not_transposed(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply the columns of W_hh^T by the slopes; diag(1 - h^2) on the left multiplies rows. Write "
    "(1 - h**2)[:, None] * W_hh.T, or np.diag(1 - h**2) @ W_hh.T."
)
def columns_for_rows(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ ((1 - h[t + 1] ** 2) * W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply W_hh alone and leave out tanh. Each step also has tanh's slope, diag(1 - h^2), which is "
    "at most 1."
)
def no_slope(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You apply tanh to h once more. h holds states, which are tanh already: the slope is 1 - h**2."
)
def tanh_once_more(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - np.tanh(h[t + 1]) ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You return the norm of each step by itself. dh_T/dh_t is the product of all steps from t to the end."
)
def each_step_alone(h, W_hh):
    norms = np.ones(len(h))
    for t in range(len(h) - 1):
        norms[t] = np.linalg.norm(np.diag(1 - h[t + 1] ** 2) @ W_hh.T, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply the norms of the steps. That is only a bound, since one step's strongest direction need "
    "not be the next one's. Multiply the matrices, then take the norm."
)
def product_of_norms(h, W_hh):
    norms = np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        norms[t] = norms[t + 1] * np.linalg.norm(np.diag(1 - h[t + 1] ** 2) @ W_hh.T, ord=2)
    return norms


@EXERCISE.misconception(
    "You return powers of W_hh's norm, which are only a bound. Return the norm of the product, "
    "with the slopes of these states."
)
def powers_of_the_norm(h, W_hh):
    return np.linalg.norm(W_hh, ord=2) ** np.arange(len(h))[::-1]


@EXERCISE.misconception(
    "You take the largest eigenvalue. A matrix can stretch by more than that: take the largest *singular* "
    "value, np.linalg.norm(M, ord=2)."
)
def largest_eigenvalue(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.abs(np.linalg.eigvals(total)).max()
    return norms


@EXERCISE.misconception(
    "You return squared norms: the eigenvalues of M M^T are the squares of M's singular values. Take the "
    "square root.",
    gravity="slip",
)
def squared(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.eigvalsh(total @ total.T).max()
    return norms


@EXERCISE.misconception(
    "You are one step too far back: your last norm has a factor already. norms[T-1] belongs to dh_T/dh_T, "
    "which is the identity: its norm is 1.",
    gravity="slip",
)
def one_step_too_far(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 1, -1, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You follow the first state forward: dh_t/dh_1. Return the effect of each state on the *last* state, "
    "dh_T/dh_t."
)
def from_the_first_state(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(1, len(h)):
        total = np.diag(1 - h[t] ** 2) @ W_hh.T @ total
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You send back one gradient, the gradient of the sum of the last state's units. The spectral norm "
    "needs the strongest of all directions: keep the whole matrix."
)
def gradient_of_the_sum(h, W_hh):
    gradient, norms = np.ones(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        gradient = W_hh @ (gradient * (1 - h[t + 1] ** 2))
        norms[t] = np.linalg.norm(gradient)
    return norms


@EXERCISE.misconception(
    "You use the last state's slope at every step. The step into each state has the slope of that state: "
    "1 - h[t + 1] ** 2."
)
def one_slope_for_all(h, W_hh):
    step = np.diag(1 - h[-1] ** 2) @ W_hh.T
    return np.array([np.linalg.norm(np.linalg.matrix_power(step, n), 2) for n in range(len(h))][::-1])


@EXERCISE.misconception("You multiply the steps element by element: `*`. Use the matrix product, `@`.")
def number_by_number(h, W_hh):
    total, norms = np.ones(W_hh.shape), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total * (np.diag(1 - h[t + 1] ** 2) @ W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You keep norms from falling below a small number. A gradient that vanishes is the point: return it "
    "as small as it is."
)
def floor_under_the_norms(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = max(np.linalg.norm(total, ord=2), 1e-8)
    return norms


@EXERCISE.misconception(
    "Your code changes the caller's states, as `h *= h` does. Write 1 - h**2, which makes a new array."
)
def changed_in_place(h, W_hh):
    h *= h
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1]) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "Your norms begin one step back: you return T - 1 of them. Return T: dh_T/dh_T counts as well, with "
    "the norm 1.",
    gravity="slip",
)
def one_norm_too_few(h, W_hh):
    total, norms = np.eye(h.shape[1]), []
    for t in range(len(h) - 1, 0, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms.insert(0, np.linalg.norm(total, ord=2))
    return np.array(norms)


@EXERCISE.misconception(
    "Your last norm is NaN here: you never write it, and np.empty sets no value. dh_T/dh_T is the identity: "
    "set norms[-1] = 1.",
    gravity="slip",
)
def last_norm_never_written(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.empty(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms
