"""ch09_cheaper_attention/sliding_window_mask: each token sees itself and a few before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import masks


def sliding_window_mask(seq_len, window):
    """Compute the reference answer: `tfcore`'s mask of as many keys as queries."""
    return masks.sliding_window_mask(seq_len, window)


def inside(rng: np.random.Generator) -> Iterator[Case]:
    """Draw a window of at least 2 and shorter than the sequence."""
    yield Case("5 tokens, a window of 3", (5, 3))
    yield Case("4 tokens, a window of 2", (4, 2))
    T, window = int(rng.integers(9, 15)), int(rng.integers(4, 8))
    yield Case(f"{T} tokens, a window of {window}", (T, window))
    yield Case("7 tokens, a window of 6", (7, 6))
    T = int(rng.integers(40, 60))
    yield Case(f"{T} tokens, a window of 5", (T, 5))
    yield Case("300 tokens, a window of 280", (300, 280))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a single token", (1, 1))
    yield Case("a single token, a window of 3", (1, 3))
    yield Case("a window of 1: each token sees itself", (4, 1))
    yield Case("a window as long as the sequence", (5, 5))
    T = int(rng.integers(3, 8))
    yield Case(f"{T} tokens, a window of {3 * T}", (T, 3 * T))


def sees_itself(trial: Trial) -> str | None:
    if trial.value.diagonal().all():
        return None
    i = int((~trial.value.diagonal()).nonzero()[0])
    return f"token {i} does not see itself: entry [{i}, {i}] is False, and True means may attend"


def not_the_future(trial: Trial) -> str | None:
    later = trial.value.triu(1).nonzero()
    if not len(later):
        return None
    i, j = later[0].tolist()
    return f"token {i} sees token {j}, which comes after it: entry [{i}, {j}] is True"


def as_many_as_the_window(trial: Trial) -> str | None:
    seq_len, window = trial.case.args
    counts = trial.value.sum(dim=1)
    wanted = torch.arange(1, seq_len + 1).clamp(max=window)
    if torch.equal(counts, wanted):
        return None
    i = int((counts != wanted).nonzero()[0])
    return (
        f"token {i} sees {int(counts[i])} tokens; with a window of {window} it sees "
        f"{int(wanted[i])}: itself and {int(wanted[i]) - 1} before it"
    )


EXERCISE = Exercise(
    name="ch09_cheaper_attention/sliding_window_mask",
    signature="sliding_window_mask(seq_len, window)",
    goal="Let each token see itself and the window - 1 tokens before it: boolean, (T, T), True = may attend.",
    section="A window, and a ring",
    minutes=8,
    difficulty="easy",
    reference=sliding_window_mask,
    criteria=(
        Criterion("each token sees itself and window - 1 tokens before it", 0.5, inside),
        Criterion("a window of 1, and windows longer than the sequence", 0.5, extremes),
    ),
    properties=(
        *FIRST,
        Property("a token sees itself", sees_itself),
        Property("a token does not see the future", not_the_future),
        Property("a token sees as many as the window holds", as_many_as_the_window),
        *LAST,
    ),
)
