"""Mistakes that people make in `scaled_dot_product_attention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import numpy as np

from autograder.checking.edits import wrong
from autograder.exercises.ch02_qkv.scaled_dot_product_attention import EXERCISE
from autograder.exercises.ch02_qkv.scaled_dot_product_attention_styles import infinite_fill

edited = partial(wrong, EXERCISE, infinite_fill)

NO_NAN = {
    "    e = np.exp(scores - scores.max(axis=-1, keepdims=True))": (
        "    peak = scores.max(axis=-1, keepdims=True)\n"
        "    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))"
    ),
    "np.nan_to_num(e / e.sum(axis=-1, keepdims=True))": (
        "e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)"
    ),
}
"""Another right answer, in which an empty row is never divided by zero."""

NAN_ROWS = {"np.nan_to_num(e / e.sum(axis=-1, keepdims=True))": "e / e.sum(axis=-1, keepdims=True)"}
"""An empty row is divided by zero, and nothing replaces the result."""


edited(
    "no_scale",
    "You do not scale the scores. They spread like sqrt(d_k), so softmax gives one key nearly all of the "
    "weight. Divide by sqrt(d_k) before softmax.",
    {**NO_NAN, "(key, -1, -2) / np.sqrt(query.shape[-1])": "(key, -1, -2)"},
)

edited(
    "d_k_not_its_root",
    "You divide by d_k itself, which makes all weights nearly equal. A dot product spreads like the root of "
    "d_k: divide by sqrt(d_k).",
    {**NO_NAN, "np.sqrt(query.shape[-1])": "query.shape[-1]"},
    gravity="slip",
)

edited(
    "root_of_d_v",
    "You divide by the root of d_v, the width of the values, which have no part in the scores. The dot "
    "product sums d_k terms: divide by np.sqrt(query.shape[-1]).",
    {**NO_NAN, "query.shape": "value.shape"},
)

edited(
    "root_of_d_model",
    "You divide by the root of d_model, the width of all heads together. Each head sums only its own d_k "
    "products: divide by np.sqrt(query.shape[-1]).",
    {
        **NO_NAN,
        "query.shape[-1]": "d_model",
        "scores = query @ np.swapaxes": (
            "num_heads = query.shape[-3] if query.ndim > 3 else 1\n"
            "    d_model = num_heads * query.shape[-1]\n"
            "    scores = query @ np.swapaxes"
        ),
    },
)

edited(
    "root_of_T",
    "You divide by the root of T, the number of keys. The scale has nothing to do with the length of the "
    "sequence: divide by np.sqrt(query.shape[-1]).",
    {**NO_NAN, "query.shape[-1]": "key.shape[-2]"},
)

edited(
    "softmax_over_queries",
    "You take softmax over the queries, so columns sum to 1. Each query shares its attention among the "
    "keys: use the last axis.",
    {**NO_NAN, "max(axis=-1, keepdims=True)": "max(axis=-2, keepdims=True)", "axis=-1": "axis=-2"},
    gravity="useless",
)

edited(
    "mask_inverted",
    "Your mask is inverted: you block the keys where it is True. True means may attend, so fill the scores "
    "where the mask is False.",
    {**NO_NAN, "scores, -np.inf": "-np.inf, scores"},
    gravity="useless",
)

edited(
    "mask_ignored",
    "Your mask changes nothing. Fill the scores with -inf where it is False, before softmax.",
    {**NAN_ROWS, "    if mask is not None:\n        scores = np.where(mask, scores, -np.inf)\n": ""},
    gravity="useless",
)


@EXERCISE.misconception(
    "You mask after softmax, so the forbidden keys have already taken their share and the rest sums to "
    "less than 1. Fill the scores with -inf before softmax."
)
def mask_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.misconception(
    "You mask the exponentials, not the scores. On paper that is right, but if a forbidden key scores far "
    "above the others, the others underflow to zero: fill the scores before softmax."
)
def renormalised_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        weights = weights * mask
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


edited(
    "filled_with_zero",
    "You set forbidden scores to 0 before softmax. exp(0) is 1, so they still get a share: fill with -inf "
    "(or -1e9), whose exponential is 0.",
    {**NAN_ROWS, "scores, -np.inf": "scores, 0.0"},
)

edited(
    "mask_added",
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a "
    "little. Put -inf where it is False: np.where(mask, scores, -np.inf).",
    {**NAN_ROWS, "np.where(mask, scores, -np.inf)": "scores + mask"},
)

edited(
    "asks_if_mask",
    "Your code asks a whole array for one truth value, as `if mask:` does, and numpy raises an error. Ask "
    "whether there is a mask: `if mask is not None:`.",
    {**NO_NAN, "mask is not None": "mask"},
)

edited(
    "mask_as_index",
    "A mask as an index, such as scores[~mask], needs the full shape of the scores; a mask that heads or "
    "queries share has fewer axes, or axes of size 1. Write np.where(mask, scores, -np.inf), which "
    "broadcasts.",
    {**NO_NAN, "scores = np.where(mask, scores, -np.inf)": "scores[~mask] = -np.inf"},
)

edited(
    "fill_too_small",
    "You fill forbidden scores with a number such as -100. If the allowed scores are even lower, the "
    "forbidden keys win: fill with -inf or -1e9.",
    {
        **NAN_ROWS,
        "-np.inf": "-100.0",
        "return": (
            "if mask is not None:\n"
            "        weights = np.where(np.any(mask, axis=-1, keepdims=True), weights, 0)\n"
            "    return"
        ),
    },
)

edited(
    "nan_rows",
    "The weights of a query that may attend to nothing are NaN. Such a row is 0/0, or np.divide(..., "
    "where=...) without `out` never writes it. Put zeros there, with np.where on mask.any(axis=-1, "
    "keepdims=True).",
    NAN_ROWS,
)

edited(
    "uniform_rows",
    "Softmax makes a row of equal scores uniform: a query that may attend to nothing sees everything. Set "
    "such rows of the weights to zero.",
    {**NAN_ROWS, "-np.inf": "-1e9"},
)


@EXERCISE.misconception(
    "exp overflows for scores beyond 700 (88 in float32). Subtract each row's maximum first: the weights "
    "stay the same."
)
def no_maximum(query, key, value, mask=None):
    e = np.exp(query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]))
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You subtract the largest score of all queries. A query far below it underflows to zeros. Subtract each "
    "row's own maximum: axis=-1 with keepdims=True."
)
def global_maximum(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - np.max(scores, initial=-1e9))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ value, weights


edited(
    "two_axes_only",
    "`key.T` reverses all axes, which is right for a matrix only. With a batch or heads in front, swap "
    "the last two axes: np.swapaxes(key, -1, -2).",
    {**NO_NAN, "np.swapaxes(key, -1, -2)": "key.T"},
)

edited(
    "weights_first",
    "You return the weights first. The order is output, then weights: `return output, weights`.",
    {**NO_NAN, "weights @ value, weights": "weights, weights @ value"},
    gravity="slip",
)

edited(
    "output_alone",
    "You return the output alone. Return both: `return output, weights`.",
    {**NO_NAN, "value, weights": "value"},
    gravity="slip",
)

edited(
    "scores_for_weights",
    "The second result is your scores. Return the weights, which softmax makes of the scores.",
    {**NO_NAN, "value, weights": "value, scores"},
    gravity="slip",
)

edited(
    "keys_averaged",
    "You average the keys. Average the values: weights @ value.",
    {**NO_NAN, "value, weights": "key, weights"},
)


@EXERCISE.misconception(
    "Your weights do not sum to 1, so the output is not a mean of the values. Divide them by "
    "weights.sum(axis=-1, keepdims=True).",
    gravity="useless",
)
def not_normalised(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    return weights @ value, weights


edited(
    "scaled_in_place",
    "Your code divides the caller's own query, as `query /= ...` does. Divide the scores, or write `query "
    "= query / ...`.",
    {
        **NO_NAN,
        "scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])": (
            "query /= np.sqrt(query.shape[-1])\n    scores = query @ np.swapaxes(key, -1, -2)"
        ),
    },
)

edited(
    "fill_of_minus_100000",
    "You fill forbidden scores with a number such as -1e5. If the allowed scores are even lower, every "
    "exponential of an allowed key is 0: fill with -inf or -1e9.",
    {
        **NAN_ROWS,
        "-np.inf": "-1e5",
        "return": "if mask is not None:\n        weights = weights * mask\n    return",
    },
)

edited(
    "empty_rows_opened_in_place",
    "Your code sets empty rows of the caller's mask to True, as `mask |= ...` does. Write `mask = mask | "
    "empty`, which makes a new one.",
    {
        "if mask is not None:": "empty = False\n    if mask is not None:",
        "scores = np.where": (
            "empty = ~mask.any(axis=-1, keepdims=True)\n        mask |= empty\n        scores = np.where"
        ),
        "np.nan_to_num(e": "np.where(empty, 0, e",
    },
)

edited(
    "epsilon_in_the_sum",
    "You add 1e-8 to the sum, so the weights sum to 1 to about eight digits only. With the maximum "
    "subtracted the sum is at least 1 and needs no protection: divide by the sum alone, and set forbidden "
    "weights to 0 afterwards.",
    {
        **NAN_ROWS,
        "-np.inf": "-1e30",
        "e.sum(axis=-1, keepdims=True)": (
            "(e.sum(axis=-1, keepdims=True) + 1e-8)\n"
            "    if mask is not None:\n"
            "        weights = weights * mask"
        ),
    },
)


@EXERCISE.misconception(
    "You mask after softmax and write -inf into the weights, so the output is infinite or NaN. Fill the "
    "*scores* with -inf where the mask is False, before softmax."
)
def infinity_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask, weights, -np.inf)
    return weights @ value, weights


edited(
    "softmax_over_axis_1",
    "You take softmax over axis 1. With a batch in front those are the queries, or the heads. The keys "
    "are always the last axis: axis=-1.",
    {**NO_NAN, "max(axis=-1, keepdims=True)": "max(axis=1, keepdims=True)", "axis=-1": "axis=1"},
)

edited(
    "softmax_over_axis_2",
    "You take softmax over axis 2, which is right for one leading axis only. The keys are always the last "
    "axis: axis=-1.",
    {**NO_NAN, "max(axis=-1, keepdims=True)": "max(axis=2, keepdims=True)", "axis=-1": "axis=2"},
)

edited(
    "width_from_axis_1",
    "You take d_k from axis 1 of the query. With a batch in front that is another axis. The width is "
    "always the last axis: query.shape[-1].",
    {**NO_NAN, "shape[-1]": "shape[1]"},
)

edited(
    "unpacks_two_sizes",
    "You unpack a shape into two sizes, so there must be two axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes.",
    {
        **NO_NAN,
        "query.shape[-1]": "_d_k",
        "scores = query @ np.swapaxes": "_T_q, _d_k = query.shape\n    scores = query @ np.swapaxes",
    },
)

edited(
    "transposed_as_two_axes",
    "You transpose with an order of two axes, such as (1, 0), so the key must have two. np.swapaxes(key, "
    "-1, -2) fits any number of axes.",
    {**NO_NAN, "swapaxes(key, -1, -2)": "transpose(key, (1, 0))"},
)

edited(
    "einsum_of_two_axes",
    "Your einsum names two axes of query and key, so both must have two. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes.",
    {**NO_NAN, "query @ np.swapaxes(key, -1, -2)": 'np.einsum("qd,kd->qk", query, key)'},
)

edited(
    "unpacks_three_sizes",
    "You unpack a shape into three sizes, so there must be three axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes.",
    {
        **NO_NAN,
        "query.shape[-1]": "_d_k",
        "scores = query @ np.swapaxes": "_B, _T_q, _d_k = query.shape\n    scores = query @ np.swapaxes",
    },
)

edited(
    "transposed_as_three_axes",
    "You transpose with an order of three axes, such as (0, 2, 1), so the key must have three. "
    "np.swapaxes(key, -1, -2) fits any number of axes.",
    {**NO_NAN, "swapaxes(key, -1, -2)": "transpose(key, (0, 2, 1))"},
)

edited(
    "einsum_of_three_axes",
    "Your einsum names three axes of query and key, so both must have three. Let it begin with an "
    "ellipsis, '...qd,...kd->...qk', which fits any number of leading axes.",
    {**NO_NAN, "query @ np.swapaxes(key, -1, -2)": 'np.einsum("bqd,bkd->bqk", query, key)'},
)

edited(
    "unpacks_four_sizes",
    "You unpack a shape into four sizes, so there must be four axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes.",
    {
        **NO_NAN,
        "query.shape[-1]": "_d_k",
        "scores = query @ np.swapaxes": "_B, _h, _T_q, _d_k = query.shape\n    scores = query @ np.swapaxes",
    },
)

edited(
    "transposed_as_four_axes",
    "You transpose with an order of four axes, such as (0, 1, 3, 2), so the key must have four. "
    "np.swapaxes(key, -1, -2) fits any number of axes.",
    {**NO_NAN, "swapaxes(key, -1, -2)": "transpose(key, (0, 1, 3, 2))"},
)

edited(
    "einsum_of_four_axes",
    "Your einsum names four axes of query and key, so both must have four. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes.",
    {**NO_NAN, "query @ np.swapaxes(key, -1, -2)": 'np.einsum("bhqd,bhkd->bhqk", query, key)'},
)

edited(
    "axes_1_and_2_swapped",
    "You swap axes 1 and 2 of the key, which is right for one leading axis only. Count from the end: "
    "np.swapaxes(key, -1, -2) fits any number of axes.",
    {**NO_NAN, "key, -1, -2": "key, 1, 2"},
)
