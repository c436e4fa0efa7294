"""ch07_causal_masking/causal_mask: each query sees the keys up to its own, and no later one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import numbers
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from tfcore import masks


def causal_mask(q_len, k_len=None):
    """The reference, without the argument for a device."""
    return masks.causal_mask(q_len, k_len)


def square(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens", (3,))
    yield Case("a single token", (1,))
    T, long = sizes(rng, (4, 7), (12, 24))
    yield Case(f"{T} tokens", (T,))
    yield Case(f"{long} tokens", (long,))


def beside_a_cache(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries, 3 keys", (2, 3))
    q_len, k_len = sizes(rng, (3, 5), (7, 11))
    yield Case(f"{q_len} queries, {k_len} keys", (q_len, k_len))
    yield Case("one query, as in each step of a generation", (1, k_len))
    yield Case("as many keys as queries, said aloud", (q_len, q_len))
    yield Case(f"k_len={k_len + 20} by name", (q_len,), {"k_len": k_len + 20})


def _lengths(trial: Trial) -> tuple[int, int]:
    q_len, k_len = (*trial.case.args, trial.case.kwargs.get("k_len"))[:2]
    return q_len, q_len if k_len is None else k_len


def _told(trial: Trial, i: int, j: int) -> str:
    """Query i and key j in words, each with its place in the sequence."""
    q_len, k_len = _lengths(trial)
    place = f", token {k_len - q_len + i} of the sequence," if k_len != q_len else ""
    return f"query {i}{place} and key {j}"


def is_boolean(trial: Trial) -> str | None:
    if trial.value.dtype == torch.bool:
        return None
    return f"your mask holds numbers ({trial.value.dtype}); each entry should be True, may attend, or False"


def sees_nothing_later(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) != 0) & ~numbers(trial.expected)
    if not wrong.any():
        return None
    i, j = (int(n) for n in np.argwhere(wrong)[0])
    return f"{_told(trial, i, j)}: the mask says True, though the key comes later; no query sees its future"


def sees_all_before(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) == 0) & numbers(trial.expected)
    if not wrong.any():
        return None
    i, j = (int(n) for n in np.argwhere(wrong)[0])
    return f"{_told(trial, i, j)}: the mask says False, though the key is the query's own or an earlier one"


EXERCISE = Exercise(
    name="ch07_causal_masking/causal_mask",
    signature="causal_mask(q_len, k_len=None)",
    goal="Say for each query which keys it may see: its own and the earlier ones, never a later one.",
    section="Who can know what",
    reference=causal_mask,
    criteria=(
        Criterion("each token sees itself and what came before", 0.5, square),
        Criterion("with more keys than queries, the last query sees the last key", 0.5, beside_a_cache),
    ),
    properties=(
        Property("the mask is boolean", is_boolean),
        Property("no query sees its future", sees_nothing_later),
        Property("each query sees its past and itself", sees_all_before),
    ),
    forbidden=(
        "torch.nn.Transformer.generate_square_subsequent_mask",
        "torch.nn.attention.bias.causal_lower_right",
        "torch.nn.attention.bias.causal_upper_left",
    ),
)


@EXERCISE.misconception(
    "No query sees its own key, and the first query sees nothing at all. Keep the diagonal, j = i: what a "
    "token should predict is the next one."
)
def diagonal_excluded(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len - 1)


@EXERCISE.misconception(
    "Each query sees the later keys and not the earlier ones: the triangle is the upper one. Keep the lower "
    "one, `tril`, where the key comes no later than the query.",
    gravity="useless",
)
def upper_triangle(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len)


@EXERCISE.misconception(
    "The mask says True where a key is hidden. True means *may attend*: invert the mask with `~`.",
    gravity="useless",
)
def true_means_hidden(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).triu(k_len - q_len + 1)


@EXERCISE.misconception(
    "With more keys than queries the triangle starts in the top left corner, as if the queries were the "
    "first tokens. They are the last: move the diagonal by k_len - q_len."
)
def top_left(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril()


@EXERCISE.misconception(
    "With more keys than queries the diagonal moves the wrong way. Query i is at place i + (k_len - q_len): "
    "add k_len - q_len, not q_len - k_len.",
    gravity="slip",
)
def moved_the_wrong_way(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(q_len - k_len)


@EXERCISE.misconception(
    "The mask holds numbers, 1.0 and 0.0. Make it boolean, so that it can be inverted and indexed with: give "
    "`dtype=torch.bool`, or end with `.bool()`.",
    gravity="slip",
)
def numbers_for_booleans(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len).tril(k_len - q_len)


@EXERCISE.misconception(
    "The mask holds what is added to the scores, 0 and -inf. Return the decision itself, a boolean mask with "
    "True = may attend: end with `== 0`.",
    gravity="slip",
)
def added_to_scores(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return torch.full((q_len, k_len), -math.inf).triu(k_len - q_len + 1)


@EXERCISE.misconception(
    "The mask has no columns for the keys before the queries: `k_len` changes nothing. Give it a column for "
    "every key, those in a cache among them: (q_len, k_len)."
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
    "You return a list of lists, which neither broadcasts nor inverts. Make it a tensor: torch.tensor(rows).",
    gravity="slip",
)
def list_of_rows(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return [[j <= i + k_len - q_len for j in range(k_len)] for i in range(q_len)]


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
