"""Right answers to `rnn_forward`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.rnn_forward import EXERCISE


@EXERCISE.style("a list of states, stacked on the time axis")
def list_of_states(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.style("written into an array of zeros, in float64")
def array_of_zeros(x, h0, W_xh, W_hh, b_h):
    B, T, _ = x.shape
    h = np.zeros((B, T, len(b_h)))
    for t in range(T):
        before = h0 if t == 0 else h[:, t - 1]
        h[:, t] = np.tanh(x[:, t] @ W_xh + before @ W_hh + b_h)
    return h


@EXERCISE.style("all tokens projected first, then the recurrence alone")
def tokens_first(x, h0, W_xh, W_hh, b_h):
    from_tokens = x @ W_xh + b_h
    states = [h0]
    for one in np.moveaxis(from_tokens, 1, 0):
        states.append(np.tanh(one + states[-1] @ W_hh))
    return np.stack(states[1:], axis=1)


@EXERCISE.style("token and state side by side, one matrix")
def one_matrix(x, h0, W_xh, W_hh, b_h):
    W = np.vstack([W_xh, W_hh, b_h])
    ones = np.ones((len(x), 1))
    h = h0
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(np.hstack([x[:, t], h, ones]) @ W)
        states.append(h[:, None, :])
    return np.concatenate(states, axis=1)


@EXERCISE.style("einsum, and a tanh from the sigmoid")
def einsum(x, h0, W_xh, W_hh, b_h):
    states, h = [], h0
    for t in range(x.shape[1]):
        a = np.einsum("bi,ij->bj", x[:, t], W_xh) + np.einsum("bi,ij->bj", h, W_hh) + b_h
        h = 2 / (1 + np.exp(-2 * a)) - 1
        states.append(h)
    return np.array(states).transpose(1, 0, 2)


@EXERCISE.style("unit by unit, in plain Python")
def unit_by_unit(x, h0, W_xh, W_hh, b_h):
    B, T, d_in = x.shape
    d_h = h0.shape[1]
    h = np.zeros((B, T, d_h))
    for b in range(B):
        before = [float(number) for number in h0[b]]
        for t in range(T):
            now = []
            for j in range(d_h):
                a = float(b_h[j])
                a += sum(float(x[b, t, i]) * float(W_xh[i, j]) for i in range(d_in))
                a += sum(before[i] * float(W_hh[i, j]) for i in range(d_h))
                now.append(math.tanh(a))
            h[b, t] = before = now
    return h


@EXERCISE.style("sequence by sequence, by a recursion over the tokens")
def recursion(x, h0, W_xh, W_hh, b_h):
    def read(tokens, state):
        if len(tokens) == 0:
            return []
        state = np.tanh(tokens[0] @ W_xh + state @ W_hh + b_h)
        return [state, *read(tokens[1:], state)]

    return np.array([read(one, state) for one, state in zip(x, h0, strict=True)])
