"""Mistakes that people make in `sliding_window_mask`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch09_cheaper_attention.sliding_window_mask import EXERCISE


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
    "A token does not see itself in your mask. Let i - j start at 0: the window is the token and the window "
    "- 1 before it."
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
    "You return the numbers to add to the scores, 0 and minus infinity. Return the boolean mask: True = may "
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


@EXERCISE.misconception(
    "The first tokens see `window` tokens as well, and some of those come after them. Let them see fewer: "
    "nothing is before the first token."
)
def first_rows_filled(seq_len, window):
    j = torch.arange(seq_len)
    first = (j - window + 1).clamp(min=0)[:, None]
    return (j >= first) & (j < first + window)
