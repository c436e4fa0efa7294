"""Right answers to `causal_mask`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch07_causal_masking.causal_mask import EXERCISE


@EXERCISE.style("ones, and the lower triangle from the shifted diagonal")
def lower_triangle(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=k_len - q_len)


@EXERCISE.style("not the upper triangle")
def not_the_upper_triangle(q_len, k_len=None):
    if k_len is None:
        k_len = q_len
    return ~torch.triu(torch.ones((q_len, k_len), dtype=torch.bool), diagonal=1 + k_len - q_len)


@EXERCISE.style("positions compared")
def positions_compared(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    q_pos = torch.arange(k_len - q_len, k_len)
    return torch.arange(k_len)[None, :] <= q_pos[:, None]


@EXERCISE.style("the last rows of a square mask, as GPT-2 cuts them from a buffer")
def cut_from_a_square(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.tril(torch.ones(k_len, k_len)).bool()[k_len - q_len : k_len, :k_len]


@EXERCISE.style("minus infinity above the diagonal, zeros in front for the cache, then compared with 0")
def from_what_is_added(q_len, k_len=None):
    past = 0 if k_len is None else k_len - q_len
    added = torch.full((q_len, q_len), torch.finfo(torch.float32).min).triu(1)
    return torch.cat([torch.zeros(q_len, past), added], dim=1) == 0


@EXERCISE.style("entry by entry, in loops")
def entry_by_entry(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        for j in range(k_len):
            mask[i, j] = j <= i + k_len - q_len
    return mask
