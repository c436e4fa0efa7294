"""Mistakes that people make in `rnn_forward`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.rnn_forward import EXERCISE


@EXERCISE.misconception(
    "The tanh is missing. Without it the whole network is one linear map, and its state may grow without "
    "end: write h = np.tanh(...)."
)
def no_tanh(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = x[:, t] @ W_xh + h @ W_hh + b_h
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Every step starts again from h0, so no token reaches the next state. Pass on the state of the step "
    "before."
)
def h0_at_every_step(x, h0, W_xh, W_hh, b_h):
    states = []
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ W_xh + h0 @ W_hh + b_h))
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Your states are one step late: h0 comes first and the last state is missing. Store the state after "
    "the step, not before it."
)
def shifted_by_one(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        states.append(h)
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You return T + 1 states, h0 among them. Return only the states after each token, (B, T, d_h).",
    gravity="slip",
)
def h0_among_the_states(x, h0, W_xh, W_hh, b_h):
    states = [h0]
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ W_xh + states[-1] @ W_hh + b_h))
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You use the transpose of W_hh. It is square, so no error is raised. A state is a row here: write h @ "
    "W_hh."
)
def W_hh_transposed(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh.T + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Your code writes into the caller's h0, as `h = h0` followed by `h[:] = ...` does. Write `h = "
    "np.tanh(...)`, which makes a new array at each step."
)
def h0_changed_in_place(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h[:] = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h.copy())
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "All your states are the last one, as if the list held the same array T times. Write `h = "
    "np.tanh(...)`, a new array for each step."
)
def one_array_T_times(x, h0, W_xh, W_hh, b_h):
    h, states = h0.copy(), []
    for t in range(x.shape[1]):
        h[:] = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You start from zeros and never use h0. The first step reads h0: it is the state before the first token."
)
def h0_ignored(x, h0, W_xh, W_hh, b_h):
    h, states = np.zeros_like(h0), []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "The bias is missing. Add b_h inside the tanh; numpy adds it for every sequence of the batch.",
    gravity="slip",
)
def no_bias(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You put h0 in the place of state 0 and start at token 1, so token 0 is never read. Make state 0 from "
    "token 0 and h0."
)
def h0_for_state_0(x, h0, W_xh, W_hh, b_h):
    B, T, _ = x.shape
    h = np.zeros((B, T, len(b_h)))
    h[:, 0] = h0
    for t in range(1, T):
        h[:, t] = np.tanh(x[:, t] @ W_xh + h[:, t - 1] @ W_hh + b_h)
    return h


@EXERCISE.misconception(
    "Your array for the states is d_in wide, like x. A state is d_h wide: write np.zeros((B, T, "
    "d_h)), or collect the states in a list."
)
def room_like_the_tokens(x, h0, W_xh, W_hh, b_h):
    h = np.zeros_like(x)
    before = h0
    for t in range(x.shape[1]):
        before = np.tanh(x[:, t] @ W_xh + before @ W_hh + b_h)
        h[:, t] = before
    return h


@EXERCISE.misconception("You add the bias after tanh. Add it inside: tanh of the whole sum.")
def bias_outside(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh) + b_h
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Only the token goes through tanh; the state before is added outside. Take tanh of the whole sum: "
    "np.tanh(x_t @ W_xh + h @ W_hh + b_h)."
)
def state_outside(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + b_h) + h @ W_hh
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You pass on the sum before tanh and apply tanh only to the result. The state is the tanh itself: pass "
    "on the tanh."
)
def sum_passed_on(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = x[:, t] @ W_xh + h @ W_hh + b_h
        states.append(np.tanh(h))
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You use the sigmoid, so every state is between 0 and 1. Use np.tanh, which is between -1 and 1."
)
def sigmoid(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = 1 / (1 + np.exp(-(x[:, t] @ W_xh + h @ W_hh + b_h)))
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You add the old state to the new one, as a residual connection does. Here the state *is* the tanh: "
    "return it alone."
)
def residual(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = h + np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You read the sequence backwards, from the last token to the first. State t knows the tokens 0 to t: "
    "loop over range(T)."
)
def backwards(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in reversed(range(x.shape[1])):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.insert(0, h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You return the last state alone. Return the state after every token, (B, T, d_h): collect them in a "
    "list."
)
def last_state_alone(x, h0, W_xh, W_hh, b_h):
    h = h0
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
    return h


@EXERCISE.misconception(
    "Your result is (T, B, d_h), with time in front. The batch comes first: write np.stack(states, axis=1).",
    gravity="slip",
)
def time_in_front(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.array(states)


@EXERCISE.misconception(
    "The states of one sequence end up in another, as when you `reshape` states of shape (T, B, d_h). "
    "Put time on axis 1: np.stack(states, axis=1)."
)
def reshaped_for_transposed(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.array(states).reshape(x.shape[0], x.shape[1], -1)


@EXERCISE.misconception(
    "`x[t]` is sequence t, not token t: the batch is the first axis. Token t of every sequence is x[:, t]."
)
def sequence_for_token(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Your loop makes as many steps as there are sequences: len(x) is B. The number of tokens is x.shape[1]."
)
def a_step_for_each_sequence(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(len(x)):
        h = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You put the weights on the left, as for a column vector. Here each token and each state is a row, "
    "with the batch in front: write x[:, t] @ W_xh."
)
def weights_on_the_left(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(W_xh @ x[:, t] + W_hh @ h + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception("`*` multiplies element by element. The matrix product is `@`: x[:, t] @ W_xh.")
def number_by_number(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] * W_xh + h * W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception("You read token 0 at every step. Step t reads token t of each sequence: x[:, t].")
def first_token_at_every_step(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for _ in range(x.shape[1]):
        h = np.tanh(x[:, 0] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "Your own tanh divides infinity by infinity when the sum is large, since exp overflows. Use np.tanh."
)
def tanh_that_overflows(x, h0, W_xh, W_hh, b_h):
    h, states = h0, []
    for t in range(x.shape[1]):
        a = x[:, t] @ W_xh + h @ W_hh + b_h
        h = (np.exp(a) - np.exp(-a)) / (np.exp(a) + np.exp(-a))
        states.append(h)
    return np.stack(states, axis=1)


@EXERCISE.misconception(
    "You read a single sequence, and the batch is lost. Keep the batch axis at every step: use x[:, "
    "t] and the whole h0."
)
def one_sequence_only(x, h0, W_xh, W_hh, b_h):
    h, states = h0[0], []
    for t in range(x.shape[1]):
        h = np.tanh(x[0, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.array(states)
