"""ch01_rnn_bottleneck/rnn_forward: a sentence read into a state, token by token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from autograder.exercises.library import RECURRENT
from tfcore import bottleneck

Array = np.ndarray


def drawn(rng: np.random.Generator, B: int, T: int, d_in: int, d_h: int) -> tuple[Array, ...]:
    """Draw x (B, T, d_in), h0 (B, d_h), W_xh, W_hh and b_h; states stay unsaturated and forget slowly."""
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
    """Return how far each state (B, T) moves when the argument number `which` is changed at `place`."""
    args = [np.array(a) for a in trial.case.args]
    args[which][place] += 0.5
    moved = np.asarray(trial.call(Case("one thing changed", tuple(args))).value)
    return np.abs(moved - np.asarray(trial.value)).max(axis=-1)


def _saturated(trial: Trial) -> bool:
    """Return whether states are pinned to 1 and -1, so that they need not move."""
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
        return "changing token 0 leaves state 0 as it was; state 0 is the state after token 0"
    if moves[1] > 1e-9:
        return None
    return (
        "changing token 0 moves state 0 and leaves state 1 as it was; state 1 is made from state 0, so it "
        "has to move too"
    )


def begins_with_h0(trial: Trial) -> str | None:
    if _saturated(trial) or _moves(trial, 1, (slice(None),))[0, 0] > 1e-9:
        return None
    return "another h0 gives the same state 0; h0 is the state before the first token: add h0 @ W_hh"


def sequences_are_apart(trial: Trial) -> str | None:
    if len(trial.case.args[0]) < 2:
        return None
    moves = _moves(trial, 0, (0,))[1:]
    if moves.max() < 1e-9:
        return None
    return (
        f"changing sequence 0 alone moves a state of another sequence by {moves.max():.3g}; the sequences of "
        "a batch do not affect each other"
    )


def one_step(trial: Trial) -> str | None:
    """Find the first wrong step, computed from the student's state before it."""
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
    minutes=20,
    difficulty="easy",
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
        Property("step 0 starts from h0", begins_with_h0),
        Property("sequences do not mix", sequences_are_apart),
        *LAST,
        Property("each step is tanh of a sum", one_step),
    ),
    forbidden=(*RECURRENT, "torch.nn.RNN", "torch.nn.RNNCell", "torch.nn.GRU", "torch.nn.LSTM"),
)
