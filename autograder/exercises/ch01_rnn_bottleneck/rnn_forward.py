"""ch01_rnn_bottleneck/rnn_forward: a sentence read into a state, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from autograder.exercises.library import RECURRENT
from tfcore import bottleneck

Array = np.ndarray


def drawn(rng: np.random.Generator, B: int, T: int, d_in: int, d_h: int) -> tuple[Array, ...]:
    """x (B, T, d_in), h0 (B, d_h), W_xh, W_hh and b_h; the states stay unsaturated and forget slowly."""
    return (
        rng.normal(size=(B, T, d_in)),
        rng.uniform(-0.9, 0.9, size=(B, d_h)),
        0.7 * rng.normal(size=(d_in, d_h)) / np.sqrt(d_in),
        0.7 * rng.normal(size=(d_h, d_h)) / np.sqrt(d_h),
        0.4 * rng.normal(size=d_h),
    )


def float32(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a.astype(np.float32) for a in arrays)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 sequences of 3 tokens", drawn(rng, B=2, T=3, d_in=4, d_h=5))
    B, T, d_in, d_h = (int(n) for n in rng.permutation(np.arange(2, 9))[:4])
    yield Case("a batch of any size", drawn(rng, B, T, d_in, d_h))
    yield Case("tokens of a single number", drawn(rng, B=3, T=4, d_in=1, d_h=2))
    yield Case("float32", float32(drawn(rng, B=4, T=5, d_in=3, d_h=6)))
    yield Case("strided arrays", tuple(map(strided, drawn(rng, B=3, T=6, d_in=5, d_h=4))))
    yield Case("more units than numbers in a token", drawn(rng, B=4, T=3, d_in=2, d_h=7))


def lengths(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a single token", drawn(rng, B=2, T=1, d_in=3, d_h=4))
    yield Case("a single sequence", drawn(rng, B=1, T=4, d_in=2, d_h=3))
    yield Case("single numbers, float32", float32(drawn(rng, B=5, T=2, d_in=1, d_h=3)))
    yield Case("more sequences than tokens", drawn(rng, B=7, T=2, d_in=4, d_h=3))
    yield Case("60 tokens", drawn(rng, B=2, T=60, d_in=3, d_h=5))


def large(rng: np.random.Generator) -> Iterator[Case]:
    x, *rest = drawn(rng, B=2, T=4, d_in=3, d_h=5)
    yield Case("tokens as large as 10,000", (1e4 * x, *rest))
    x, *rest = float32(drawn(rng, B=3, T=5, d_in=4, d_h=2))
    yield Case("float32, as large as 10,000", (x * np.float32(1e4), *rest))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens to nine digits", drawn(rng, B=2, T=3, d_in=5, d_h=4))
    yield Case("6 tokens to nine digits", drawn(rng, B=3, T=6, d_in=2, d_h=5))


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from lengths(rng)
    yield from large(rng)


def between_minus_one_and_one(trial: Trial) -> str | None:
    h = np.asarray(trial.value)
    wrong = np.argwhere(np.abs(h) > 1 + 1e-6)
    if not wrong.size:
        return None
    place = [int(n) for n in wrong[0]]
    return f"a state is {h[tuple(place)]:.4g} at {place}; tanh keeps every state between -1 and 1"


def _moves(trial: Trial, which: int, place: tuple[int | slice, ...]) -> Array:
    """How far each state (B, T) moves when the argument number `which` is changed at `place`."""
    args = [np.array(a) for a in trial.case.args]
    args[which][place] += 0.5
    moved = np.asarray(trial.call(Case("one thing changed", tuple(args))).value)
    return np.abs(moved - np.asarray(trial.value)).max(axis=-1)


def _saturated(trial: Trial) -> bool:
    """Whether states are pinned to 1 and -1, so that they need not move."""
    return bool(np.abs(trial.case.args[0]).max() > 100)


def the_past_stays(trial: Trial) -> str | None:
    T = trial.case.args[0].shape[1]
    moves = _moves(trial, 0, (slice(None), T - 1))[0]
    early = np.flatnonzero(moves[:-1] > 1e-9)
    if not early.size:
        return None
    return (
        f"changing token {T - 1} alone moves state {early[0]} by {moves[early[0]]:.3g}; a state knows the "
        "tokens up to its own, none after it"
    )


def the_state_is_handed_on(trial: Trial) -> str | None:
    T = trial.case.args[0].shape[1]
    if T < 2 or _saturated(trial):
        return None
    moves = _moves(trial, 0, (slice(None), 0))[0]
    if moves[0] < 1e-9:
        return "changing token 0 leaves state 0 as it was; state 0 comes after token 0 is read"
    if moves[1] > 1e-9:
        return None
    return (
        "changing token 0 moves state 0 and leaves state 1 as it was; state 1 is made from state 0, so it "
        "has to move too"
    )


def begins_with_h0(trial: Trial) -> str | None:
    if _saturated(trial) or _moves(trial, 1, (slice(None),))[0, 0] > 1e-9:
        return None
    return "another h0 gives the same state 0; h0 is the state before the first token, W_hh carries it in"


def sequences_are_apart(trial: Trial) -> str | None:
    if len(trial.case.args[0]) < 2:
        return None
    moves = _moves(trial, 0, (0,))[1:]
    if moves.max() < 1e-9:
        return None
    return (
        f"changing sequence 0 alone moves a state of another sequence by {moves.max():.3g}; the sequences of "
        "a batch know nothing of each other"
    )


def one_step(trial: Trial) -> str | None:
    """The first step that is wrong, given the state before it as the student has it."""
    x, h0, W_xh, W_hh, b_h = (np.asarray(a, dtype=np.float64) for a in trial.case.args)
    h = np.asarray(trial.value)
    before = np.concatenate([h0[:, None], h[:, :-1]], axis=1)
    sums = x @ W_xh + before @ W_hh + b_h
    wrong = np.argwhere(~(np.abs(h - np.tanh(sums)) < 1e-4))
    if not wrong.size:
        return None
    t = wrong[:, 1].min()
    b, _, j = (int(n) for n in wrong[wrong[:, 1] == t][0])
    return (
        f"sequence {b}, state {t}, unit {j}: x_t W_xh + h_before W_hh + b_h is {sums[b, t, j]:.4g}, its tanh "
        f"{np.tanh(sums[b, t, j]):.4g}; you return {h[b, t, j]:.4g}"
    )


EXERCISE = Exercise(
    name="ch01_rnn_bottleneck/rnn_forward",
    signature="rnn_forward(x, h0, W_xh, W_hh, b_h)",
    goal="Read sequences token by token: h_t = tanh(x_t W_xh + h_(t-1) W_hh + b_h), and return every state.",
    section="A question and a failure",
    reference=bottleneck.rnn_forward,
    criteria=(
        Criterion("each state is made from its token and the state before", 1.75, ordinary, tolerance=3e-5),
        Criterion("one token or many, one sequence or many", 1, lengths, tolerance=3e-5),
        Criterion("tokens as large as 10,000", 0.5, large, tolerance=2e-3),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.5, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("tanh keeps states between -1 and 1", between_minus_one_and_one),
        Property("the past does not change", the_past_stays),
        Property("the state is passed on", the_state_is_handed_on),
        Property("h0 is where it begins", begins_with_h0),
        Property("sequences do not meet", sequences_are_apart),
        *LAST,
        Property("each step is tanh of a sum", one_step),
    ),
    forbidden=(*RECURRENT, "torch.nn.RNN", "torch.nn.RNNCell", "torch.nn.GRU", "torch.nn.LSTM"),
)


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
    "Every step starts again from h0, so no token reaches the next state. Pass on the state that the step "
    "before has made."
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
    "You use the transpose of W_hh. It is square, so nothing complains. A state is a row here: write h @ "
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
    "You make room in the shape of x, which is d_in wide. A state is d_h wide: write np.zeros((B, T, "
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
    "You pass on the sum before tanh and squash only what you return. The state itself is the tanh: pass "
    "that on."
)
def sum_handed_on(x, h0, W_xh, W_hh, b_h):
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
    "The states of one sequence end up in another, as `reshape` does with states of shape (T, B, d_h). "
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


@EXERCISE.misconception("`*` multiplies number by number. The matrix product is `@`: x[:, t] @ W_xh.")
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
    "You read a single sequence, and the batch is lost. Keep the batch in front of every step: use x[:, "
    "t] and the whole h0."
)
def one_sequence_only(x, h0, W_xh, W_hh, b_h):
    h, states = h0[0], []
    for t in range(x.shape[1]):
        h = np.tanh(x[0, t] @ W_xh + h @ W_hh + b_h)
        states.append(h)
    return np.array(states)


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
