"""ch09_variants/sliding_window_mask: each token sees itself and a few before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional as F

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import masks


def sliding_window_mask(seq_len, window):
    """The reference: `tfcore`'s mask of as many keys as queries."""
    return masks.sliding_window_mask(seq_len, window)


def inside(rng: np.random.Generator) -> Iterator[Case]:
    """A window of at least 2 and shorter than the sequence."""
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
    name="ch09_variants/sliding_window_mask",
    signature="sliding_window_mask(seq_len, window)",
    goal="Let each token see itself and the window - 1 tokens before it: boolean, (T, T), True = may attend.",
    section="A window, and a ring",
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


@EXERCISE.misconception(
    "Your window is one token too long. Let a window of 3 be the token itself and 2 before it: i - j < "
    "window.",
    gravity="slip",
)
def one_too_many(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j <= i) & (i - j <= window)


@EXERCISE.misconception(
    "Your window is one token too short. Let i - j go up to window - 1: the token itself counts as one "
    "of the window.",
    gravity="slip",
)
def one_too_few(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j <= i) & (i - j < window - 1)


@EXERCISE.misconception(
    "Your window reaches as far ahead as back. Make it causal: a token sees nothing that comes after it.",
    gravity="useless",
)
def not_causal(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (i - j).abs() < window


@EXERCISE.misconception(
    "Your token is in the middle of its window, half before and half after it. Make it causal: the "
    "whole window is before the token and ends with it.",
    gravity="useless",
)
def centred(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (i - j).abs() <= window // 2


@EXERCISE.misconception(
    "A token does not see itself in your mask. Allow i - j = 0: the token is the last of its own window."
)
def not_itself(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j < i) & (i - j <= window)


@EXERCISE.misconception(
    "Rows and columns of your mask are exchanged, so that each token sees itself and what comes after "
    "it. Let rows be queries and columns keys.",
    gravity="useless",
)
def transposed(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (i <= j) & (j - i < window)


@EXERCISE.misconception(
    "Your mask is True where attending is forbidden. Return True where a token may attend.",
    gravity="useless",
)
def inverted(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j > i) | (i - j >= window)


@EXERCISE.misconception(
    "Your mask has no window: every token sees all before it. Also forbid keys that are `window` steps "
    "back or more."
)
def only_causal(seq_len, window):
    return torch.ones(seq_len, seq_len, dtype=torch.bool).tril()


@EXERCISE.misconception(
    "Your sequence is cut into blocks of `window` tokens, and each token sees only its own block. "
    "Compare the distance i - j with the window: a sliding window moves with the token."
)
def blocks(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j <= i) & (i // window == j // window)


@EXERCISE.misconception(
    "Your window stays at the start of the sequence: column j is open or closed for all. Compare i - j, "
    "not j alone: the window moves with the query."
)
def window_that_stays(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    return (j <= i) & (j < window)


@EXERCISE.misconception(
    "Your mask holds numbers. Make it boolean, so that `~mask` and masked_fill work: dtype=torch.bool, "
    "or `.bool()` at the end.",
    gravity="slip",
)
def numbers_for_booleans(seq_len, window):
    ones = torch.ones(seq_len, seq_len)
    return torch.tril(ones) - torch.tril(ones, -window)


@EXERCISE.misconception(
    "You return what is added to the scores, 0 and minus infinity. Return the boolean mask: True = may "
    "attend."
)
def additive(seq_len, window):
    i, j = torch.arange(seq_len)[:, None], torch.arange(seq_len)
    allowed = (j <= i) & (i - j < window)
    return torch.zeros(seq_len, seq_len).masked_fill(~allowed, -torch.inf)


@EXERCISE.misconception(
    "The first tokens see nothing: a negative start counts from the end, and mask[0, -2:1] is empty. "
    "Start the window of the first tokens at max(0, i - window + 1)."
)
def negative_start(seq_len, window):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for i in range(seq_len):
        mask[i, i - window + 1 : i + 1] = True
    return mask


@EXERCISE.style("distances between positions")
def distances(seq_len, window):
    i = torch.arange(seq_len)[:, None]
    j = torch.arange(seq_len)[None, :]
    return (i >= j) & (i - j < window)


@EXERCISE.style("a triangle less a triangle")
def triangles(seq_len, window):
    ones = torch.ones(seq_len, seq_len, dtype=torch.bool)
    return torch.tril(ones) & ~torch.tril(ones, diagonal=-window)


@EXERCISE.style("a band: the lower triangle of an upper one")
def band(seq_len, window):
    return torch.ones(seq_len, seq_len).triu(1 - window).tril().bool()


@EXERCISE.style("row by row, by slices")
def rows(seq_len, window):
    mask = torch.full((seq_len, seq_len), False)
    for i in range(seq_len):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


@EXERCISE.style("a list of lists")
def lists(seq_len, window):
    return torch.tensor([[0 <= i - j < window for j in range(seq_len)] for i in range(seq_len)])


@EXERCISE.style("in numpy")
def in_numpy(seq_len, window):
    i, j = np.indices((seq_len, seq_len))
    return torch.from_numpy(np.logical_and(j <= i, j > i - window))


@EXERCISE.style("every row a window of one long row")
def unfolded(seq_len, window):
    row = F.pad(torch.ones(min(window, seq_len)), (seq_len, seq_len)) > 0
    start = seq_len + min(window, seq_len) - 1
    return torch.stack([row[start - i : start - i + seq_len] for i in range(seq_len)])
