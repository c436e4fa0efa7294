"""Right answers to `sliding_window_mask`, each in a style of its own."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from autograder.exercises.ch09_cheaper_attention.sliding_window_mask import EXERCISE


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
