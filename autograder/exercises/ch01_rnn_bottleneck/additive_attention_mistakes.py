"""Mistakes that people make in `additive_attention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import numpy as np

from autograder.checking.edits import wrong
from autograder.exercises.ch01_rnn_bottleneck.additive_attention import EXERCISE
from autograder.exercises.ch01_rnn_bottleneck.additive_attention_styles import broadcasting

edited = partial(wrong, EXERCISE, broadcasting)

BY_EINSUM = {
    "[:, None, :]": "[:, None]",
    "-1e9": "-1e30",
    "(weights[..., None] * values).sum(axis=1)": 'np.einsum("bt,btd->bd", weights, values)',
}
"""The same right answer with a larger fill and a context by einsum."""

MASKED_ONCE = {
    "[:, None, :]": "[:, None]",
    "(weights[..., None] * values).sum(axis=1)": 'np.einsum("bt,btd->bd", weights, values)',
    "    if mask is not None:\n        weights = weights * mask\n": "",
}
"""The answer whose weights are not masked once more after softmax."""


edited(
    "no_tanh",
    "The tanh is missing. Without it the query adds the same number to every key's score, and softmax "
    "cancels it. Write np.tanh(...) @ v.",
    {
        **BY_EINSUM,
        "np.tanh((query @ W_q)[:, None] + keys @ W_k)": "(query @ W_q)[:, None] + keys @ W_k",
    },
)

edited(
    "dot_product",
    "You score by a dot product of the projections, as chapter 2 does. The additive score adds them, "
    "takes tanh, and then the product with v: np.tanh(...) @ v.",
    {
        **BY_EINSUM,
        "hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)\n    scores = hidden @ v": (
            'scores = np.einsum("ba,bta->bt", query @ W_q, keys @ W_k)'
        ),
    },
)

edited(
    "multiplied_inside",
    "You multiply the projections inside tanh. Additive attention adds them: query @ W_q + key @ W_k.",
    {**BY_EINSUM, "[:, None] + keys @ W_k": "[:, None] * (keys @ W_k)"},
)

edited(
    "tanh_of_each",
    "The query has no effect: it is left out, or it is outside the key's tanh, where its part is the same "
    "for all keys and softmax cancels it. Add both parts first, then take one tanh: np.tanh(q W_q + k "
    "W_k).",
    {
        **BY_EINSUM,
        "np.tanh((query @ W_q)[:, None] + keys @ W_k)": "np.tanh(query @ W_q)[:, None] + np.tanh(keys @ W_k)",
    },
)

edited(
    "tanh_of_the_score",
    "Your tanh is around the finished score. Put it around the hidden units, before the product with v: "
    "np.tanh(...) @ v.",
    {
        **BY_EINSUM,
        "np.tanh((query @ W_q)[:, None] + keys @ W_k)": "(query @ W_q)[:, None] + keys @ W_k",
        "hidden @ v": "np.tanh(hidden @ v)",
    },
)

edited(
    "v_left_out",
    "You add up the hidden units and never use v, the weight of each unit in the score. "
    "Write np.tanh(...) @ v.",
    {**BY_EINSUM, "hidden @ v": "hidden.sum(axis=-1)"},
)

edited(
    "sigmoid",
    "Your hidden units use the sigmoid. Additive attention uses tanh, which can be negative: "
    "np.tanh(...) @ v.",
    {
        **BY_EINSUM,
        "np.tanh((query @ W_q)[:, None] + keys @ W_k)": (
            "1 / (1 + np.exp(-((query @ W_q)[:, None] + keys @ W_k)))"
        ),
    },
)

edited(
    "root_of_d_a",
    "You divide the scores by the root of d_a, as dot products are scaled in chapter 2. Leave the scale "
    "out: tanh keeps the units small.",
    {**BY_EINSUM, "hidden @ v": "hidden @ v / np.sqrt(len(v))"},
    gravity="slip",
)

edited(
    "query_without_time_axis",
    "query @ W_q is (B, d_a) and keys @ W_k is (B, T, d_a), so numpy pairs B with T. Give the query a "
    "time axis of size 1: (query @ W_q)[:, None].",
    {**BY_EINSUM, "(query @ W_q)[:, None]": "query @ W_q"},
)

edited(
    "first_query_for_all",
    "You use the first query for the whole batch. Each sequence has its own: keep the batch axis and put "
    "the time axis after it, (query @ W_q)[:, None].",
    {**BY_EINSUM, "(query @ W_q)[:, None]": "query[0] @ W_q"},
)

edited(
    "weights_exchanged",
    "W_q and W_k are exchanged. Use W_q (d_q, d_a) for the query and W_k (d_k, d_a) for the keys.",
    {**BY_EINSUM, "query @ W_q": "query @ W_k", "keys @ W_k": "keys @ W_q"},
)

edited(
    "softmax_over_the_batch",
    "Your softmax runs over axis 0, the sequences of the batch. Each query shares its weight among its "
    "own keys: use the last axis.",
    {**BY_EINSUM, "max(axis=-1, keepdims=True)": "max(axis=0, keepdims=True)", "axis=-1": "axis=0"},
    gravity="useless",
)

edited(
    "one_sum_for_all",
    "You divide by the sum over the whole batch. The weights of *each* sequence sum to 1: e.sum(axis=-1, "
    "keepdims=True).",
    {**BY_EINSUM, "sum(axis=-1, keepdims=True)": "sum()"},
)

edited(
    "not_normalised",
    "Your weights do not sum to 1, so the context is not a mean of the values. Divide them by their sum, "
    "e.sum(axis=-1, keepdims=True).",
    {**BY_EINSUM, "e / e.sum(axis=-1, keepdims=True)": "e"},
    gravity="useless",
)

edited(
    "no_exponential",
    "You divide the scores by their sum. Scores can be negative and their sum near zero: take the "
    "exponential first, as softmax does.",
    {
        **BY_EINSUM,
        "scores, -1e30": "scores, 0.0",
        "    e = np.exp(scores - scores.max(axis=-1, keepdims=True))\n": "",
        "e / e.sum": "scores / scores.sum",
    },
    gravity="useless",
)

edited(
    "best_key_alone",
    "You give all weight to the best key, and the choice of a maximum has no gradient. Give every key "
    "its share by softmax.",
    {
        **BY_EINSUM,
        "np.exp(scores - scores.max(axis=-1, keepdims=True))": (
            "(scores == scores.max(axis=-1, keepdims=True)) * 1.0"
        ),
    },
    gravity="useless",
)

edited(
    "mask_inverted",
    "Your mask is inverted: you block the keys where it is True. True means may attend, so fill the scores "
    "where the mask is False.",
    {**BY_EINSUM, "scores, -1e30": "-1e30, scores", "weights * mask": "np.where(mask, 0.0, weights)"},
    gravity="useless",
)

edited(
    "mask_ignored",
    "Your mask changes nothing. Fill the scores with -inf (or -1e9) where it is False, before softmax.",
    {**MASKED_ONCE, "    if mask is not None:\n        scores = np.where(mask, scores, -1e9)\n": ""},
    gravity="useless",
)

edited(
    "mask_after_softmax",
    "You mask after softmax, so the forbidden keys have already taken their share and the rest sums to less "
    "than 1. Fill the scores before softmax.",
    {**BY_EINSUM, "    if mask is not None:\n        scores = np.where(mask, scores, -1e30)\n": ""},
)


@EXERCISE.misconception(
    "You mask the exponentials, not the scores. On paper that is right, but if a forbidden key scores far "
    "above the others, the others underflow to zero: fill the scores before softmax."
)
def renormalised_after_softmax(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return np.einsum("bt,btd->bd", weights, values), weights


edited(
    "filled_with_zero",
    "You set forbidden scores to 0 before softmax. exp(0) is 1, so they still get a share: fill with -inf "
    "(or -1e9), whose exponential is 0.",
    {**MASKED_ONCE, "np.where(mask, scores, -1e9)": "scores * mask"},
)

edited(
    "mask_added",
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a little. "
    "Put -inf where it is False: np.where(mask, scores, -np.inf).",
    {**MASKED_ONCE, "np.where(mask, scores, -1e9)": "scores + mask"},
)

edited(
    "padding_keys_zeroed",
    "Your code sets the caller's keys to 0 where the mask is False, and a key of zeros still gets a "
    "score. Leave the keys alone and fill the *scores* where the mask is False.",
    {
        **MASKED_ONCE,
        "hidden =": "if mask is not None:\n        keys[~mask] = 0\n    hidden =",
        "    if mask is not None:\n        scores = np.where(mask, scores, -1e9)\n": "",
    },
)

edited(
    "values_zeroed",
    "The values of forbidden keys count as zero, but their weights stay, so the others share less than 1. "
    "Fill the *scores* with -inf (or -1e9) where the mask is False.",
    {
        **MASKED_ONCE,
        "scores = np.where(mask, scores, -1e9)": "values = np.where(mask[..., None], values, 0.0)",
    },
)

edited(
    "first_mask_for_all",
    "You use the first sequence's mask for the whole batch. Each sequence has its own padding: use "
    "the mask as it is, (B, T), like the scores.",
    {**BY_EINSUM, "mask, scores": "mask[0], scores", "weights * mask": "weights * mask[0]"},
)

edited(
    "asks_if_mask",
    "Your code asks a whole array for one truth value, as `if mask:` does, and numpy raises an error. Ask "
    "whether there is a mask: `if mask is not None:`.",
    {**BY_EINSUM, "if mask is not None:\n        scores": "if mask:\n        scores"},
)

edited(
    "fill_too_small",
    "You fill forbidden scores with a number such as -100. If the allowed scores are even lower, the "
    "forbidden keys dominate the sum: fill with -inf or -1e9.",
    {**BY_EINSUM, "scores, -1e30": "scores, -100.0"},
)

edited(
    "nan_rows",
    "The weights of a query that may attend to nothing are NaN. Such a row is 0/0, or np.divide(..., "
    "where=...) without `out` never writes it. Put zeros there, with np.where on mask.any(axis=-1, "
    "keepdims=True).",
    {**MASKED_ONCE, "scores, -1e9": "scores, -np.inf"},
)

edited(
    "uniform_rows",
    "Softmax makes a row of equal scores uniform: a query that may attend to nothing sees all the padding. "
    "Set such rows of the weights to zero.",
    MASKED_ONCE,
)


@EXERCISE.misconception(
    "exp overflows for scores beyond 700 (88 in float32), and large entries of v make such scores. Subtract "
    "each sequence's largest score first: the weights stay the same."
)
def no_maximum(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores)
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return np.einsum("bt,btd->bd", weights, values), weights


edited(
    "global_maximum",
    "You subtract the largest score of the whole batch. A sequence far below it underflows to 0/0. "
    "Subtract each sequence's own maximum: axis=-1 with keepdims=True.",
    {**BY_EINSUM, "max(axis=-1, keepdims=True)": "max()"},
)

edited(
    "keys_averaged",
    "You average the keys. Keys decide the weights: average the values.",
    {**BY_EINSUM, "weights, values": "weights, keys"},
)

edited(
    "weights_first",
    "You return the weights first. The order is context, then weights: `return context, weights`.",
    {
        **BY_EINSUM,
        'np.einsum("bt,btd->bd", weights, values), weights': (
            'weights, np.einsum("bt,btd->bd", weights, values)'
        ),
    },
    gravity="slip",
)

edited(
    "context_alone",
    "You return the context alone. Return both: `return context, weights`.",
    {**BY_EINSUM, '("bt,btd->bd", weights, values), weights': '("bt,btd->bd", weights, values)'},
    gravity="slip",
)

edited(
    "scores_for_weights",
    "The second result is your scores. Return the weights, which softmax makes of the scores.",
    {**BY_EINSUM, '("bt,btd->bd", weights, values), weights': '("bt,btd->bd", weights, values), scores'},
    gravity="slip",
)

edited(
    "batch_as_a_matrix",
    "`weights @ values` takes the whole batch of weights for one matrix and gives (B, B, d_v). Give each "
    "sequence its own row: (weights[:, None] @ values)[:, 0], or einsum.",
    {**BY_EINSUM, 'np.einsum("bt,btd->bd", weights, values)': "weights @ values"},
)

edited(
    "not_summed",
    "You return every value times its weight and do not add them up. Sum them over the keys: .sum(axis=1).",
    {**BY_EINSUM, 'np.einsum("bt,btd->bd", weights, values)': "weights[..., None] * values"},
    gravity="slip",
)

edited(
    "mean_of_the_weighted",
    "You average the values after they are weighted, which divides by T once more. The weights sum to 1 "
    "already: sum over the keys, .sum(axis=1).",
    {**BY_EINSUM, 'np.einsum("bt,btd->bd", weights, values)': "(weights[..., None] * values).mean(axis=1)"},
    gravity="slip",
)

edited(
    "context_with_a_time_axis",
    "Your context is (B, 1, d_v): the axis that the weights were given for the matrix product is still "
    "there. Drop it: (weights[:, None] @ values)[:, 0].",
    {**BY_EINSUM, 'np.einsum("bt,btd->bd", weights, values)': "weights[:, None] @ values"},
    gravity="slip",
)

edited(
    "values_changed_in_place",
    "Your code writes into the caller's values, as `values *= ...` does. Write `weights[..., None] * "
    "values`, which makes a new array.",
    {
        **BY_EINSUM,
        'return np.einsum("bt,btd->bd", weights, values)': (
            "values *= weights[..., None]\n    return values.sum(axis=1)"
        ),
    },
)


@EXERCISE.misconception(
    "Your code sets empty rows of the caller's mask to True, as `mask |= ...` does. Write `mask = mask | "
    "empty`, which makes a new one."
)
def empty_rows_opened_in_place(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    empty = False
    if mask is not None:
        empty = ~mask.any(axis=-1, keepdims=True)
        mask |= empty
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    weights = np.where(empty, 0, weights)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 to about eight digits only. With the maximum "
    "subtracted the sum is at least 1 and needs no protection: divide by the sum alone, and set forbidden "
    "weights to 0 afterwards."
)
def epsilon_in_the_sum(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / (e.sum(axis=-1, keepdims=True) + 1e-8)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You mask after softmax and write -inf into the weights, so the context is infinite or NaN. Fill the "
    "*scores* with -inf where the mask is False, before softmax."
)
def infinity_after_softmax(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask, weights, -np.inf)
    return np.einsum("bt,btd->bd", weights, values), weights
