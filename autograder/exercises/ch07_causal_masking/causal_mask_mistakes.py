"""Mistakes that people make in `causal_mask`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch07_causal_masking.causal_mask import EXERCISE


@EXERCISE.misconception(
    "No query sees its own key, and the first token sees nothing at all. Keep the diagonal, j = i: a token "
    "predicts the next token, not itself."
)
def diagonal_excluded(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len - 1)


@EXERCISE.misconception(
    "Each query sees the later keys and not the earlier ones: you keep the upper triangle. Keep the lower "
    "one, `tril`, where the key comes no later than the query.",
    gravity="useless",
)
def upper_triangle(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len)


@EXERCISE.misconception(
    "The mask is True where a key is hidden. True means *may attend*: invert the mask with `~`.",
    gravity="useless",
)
def true_means_hidden(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len + 1)


@EXERCISE.misconception(
    "With more keys than queries, the triangle starts in the top left corner, as if the queries were the "
    "first tokens. They are the last: move the diagonal by k_len - q_len."
)
def top_left(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril()


@EXERCISE.misconception(
    "With more keys than queries, the diagonal moves the wrong way. Query i is at place i + (k_len - q_len): "
    "add k_len - q_len, not q_len - k_len.",
    gravity="slip",
)
def moved_the_wrong_way(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(q_len - k_len)


@EXERCISE.misconception(
    "The mask holds numbers, 1.0 and 0.0. Make it boolean, so that you can invert it with ~ and index with "
    "it: pass `dtype=torch.bool`, or end with `.bool()`.",
    gravity="slip",
)
def numbers_for_booleans(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len).tril(k_len - q_len)


@EXERCISE.misconception(
    "The mask holds the numbers to add to the scores, 0 and -inf. Return the decision itself, a boolean "
    "mask with True = may attend: end with `== 0`.",
    gravity="slip",
)
def added_to_scores(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.full((q_len, k_len), -math.inf).triu(k_len - q_len + 1)


@EXERCISE.misconception(
    "The mask has no columns for the keys before the queries: `k_len` changes nothing. Give it a column for "
    "every key, including those in a cache: (q_len, k_len)."
)
def k_len_ignored(q_len, k_len=None):
    return torch.ones(q_len, q_len, dtype=torch.bool).tril()


@EXERCISE.misconception(
    "Rows and columns are exchanged: the mask is (k_len, q_len). Make queries the rows and keys the columns, "
    "as in the table of scores."
)
def keys_in_rows(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(k_len, q_len, dtype=torch.bool).tril()


@EXERCISE.misconception(
    "The mask is open one key too far: each token sees the next one, which it should predict. Open key j if "
    "j <= i + (k_len - q_len), and no later one.",
    gravity="useless",
)
def sees_the_next(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len + 1)


@EXERCISE.misconception(
    "Each query sees its own key alone. Open the earlier keys as well: j <= i, not j == i."
)
def itself_only(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.arange(q_len)[:, None] + (k_len - q_len) == torch.arange(k_len)[None, :]


@EXERCISE.misconception(
    "You return a list of lists, which cannot be broadcast or inverted. Make it a tensor: "
    "torch.tensor(rows).",
    gravity="slip",
)
def list_of_rows(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return [[j <= i + k_len - q_len for j in range(k_len)] for i in range(q_len)]
