"""Mistakes that people make in `scaled_dot_product_attention`, each with the sentence for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.scaled_dot_product_attention import EXERCISE


@EXERCISE.misconception(
    "You do not scale the scores. They spread like sqrt(d_k), so softmax picks one key and hardly learns. "
    "Divide by sqrt(d_k) before softmax."
)
def no_scale(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by d_k itself, which makes every key nearly equal. A dot product spreads like the root of "
    "d_k: divide by sqrt(d_k).",
    gravity="slip",
)
def d_k_not_its_root(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / query.shape[-1]
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of d_v, the width of the values, which have no part in the scores. The dot "
    "product sums d_k terms: divide by np.sqrt(query.shape[-1])."
)
def root_of_d_v(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(value.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of d_model, the width of all heads together. Each head sums only its own d_k "
    "products: divide by np.sqrt(query.shape[-1])."
)
def root_of_d_model(query, key, value, mask=None):
    num_heads = query.shape[-3] if query.ndim > 3 else 1
    d_model = num_heads * query.shape[-1]
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(d_model)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of T, the number of keys. The scale has nothing to do with the length of the "
    "sequence: divide by np.sqrt(query.shape[-1])."
)
def root_of_T(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(key.shape[-2])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take softmax over the queries, so columns sum to 1. Each query shares its attention among the "
    "keys: use the last axis.",
    gravity="useless",
)
def softmax_over_queries(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-2, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-2, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your mask is inverted: you block the keys where it is True. True means may attend, so keep those and "
    "fill where the mask is False.",
    gravity="useless",
)
def mask_inverted(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your mask changes nothing. Fill the scores with -inf where it is False, before softmax.",
    gravity="useless",
)
def mask_ignored(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


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
    "You mask after softmax and divide again. On paper that is right, but where a forbidden key scores "
    "far above the others they underflow to zero: fill the scores before softmax."
)
def renormalised_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        weights = weights * mask
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You set forbidden scores to 0 before softmax. exp(0) is 1, so they still get a share: fill with -inf "
    "(or -1e9), whose exponential is 0."
)
def filled_with_zero(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, 0.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a "
    "little. Put -inf where it is False: np.where(mask, scores, -np.inf)."
)
def mask_added(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your code asks a whole array for one truth value, as `if mask:` does, and numpy refuses. Ask whether "
    "there is one: `if mask is not None:`."
)
def asks_if_mask(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "A mask as an index, such as scores[~mask], needs the full shape; a mask for all heads or queries has "
    "axes of size 1 or fewer axes. Write np.where(mask, scores, -np.inf), which broadcasts."
)
def mask_as_index(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores[~mask] = -np.inf
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You fill forbidden scores with a number such as -100. Where the allowed scores are lower still, the "
    "forbidden keys win: fill with -inf or -1e9."
)
def fill_too_small(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -100.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(np.any(mask, axis=-1, keepdims=True), weights, 0)
    return weights @ value, weights


@EXERCISE.misconception(
    "The weights of a query that may attend to nothing are NaN. Such a row is 0/0, or np.divide(..., "
    "where=...) without `out` never writes it. Put zeros there, with np.where on mask.any(axis=-1, "
    "keepdims=True)."
)
def nan_rows(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "A row that is filled with the same number throughout becomes uniform: a query that may attend to "
    "nothing sees everything. Set such rows of the weights to zero."
)
def uniform_rows(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


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
    "You subtract the largest score of all queries. A query far below it underflows to 0/0. Subtract each "
    "row's own maximum: axis=-1 with keepdims=True."
)
def global_maximum(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - np.max(scores, initial=-1e9))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ value, weights


@EXERCISE.misconception(
    "`key.T` reverses all axes, which is right for a matrix only. With a batch or heads in front, swap "
    "the last two axes: np.swapaxes(key, -1, -2)."
)
def two_axes_only(query, key, value, mask=None):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You return the weights first. The order is output, then weights: `return output, weights`.",
    gravity="slip",
)
def weights_first(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights, weights @ value


@EXERCISE.misconception(
    "You return the output alone. Return both: `return output, weights`.",
    gravity="slip",
)
def output_alone(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value


@EXERCISE.misconception(
    "The second result is your scores. Return the weights, which softmax makes of the scores.",
    gravity="slip",
)
def scores_for_weights(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, scores


@EXERCISE.misconception("You average the keys. Average the values: weights @ value.")
def keys_averaged(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ key, weights


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


@EXERCISE.misconception(
    "Your code divides the caller's own query, as `query /= ...` does. Divide the scores, or write `query "
    "= query / ...`."
)
def scaled_in_place(query, key, value, mask=None):
    query /= np.sqrt(query.shape[-1])
    scores = query @ np.swapaxes(key, -1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You fill forbidden scores with a number such as -1e5. Where the allowed scores are lower still, "
    "every exponential of an allowed key is 0: fill with -inf or -1e9."
)
def fill_of_minus_100000(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e5)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.misconception(
    "Your code opens the empty rows of the caller's own mask, as `mask |= ...` does. Write `mask = mask | "
    "empty`, which makes a new one."
)
def empty_rows_opened_in_place(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    empty = False
    if mask is not None:
        empty = ~mask.any(axis=-1, keepdims=True)
        mask |= empty
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = np.where(empty, 0, e / e.sum(axis=-1, keepdims=True))
    return weights @ value, weights


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 in seven digits only. With the maximum subtracted "
    "the sum is at least 1 and needs no protection: divide by the sum alone, and set forbidden weights to "
    "0 afterwards."
)
def epsilon_in_the_sum(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / (e.sum(axis=-1, keepdims=True) + 1e-8)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


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


@EXERCISE.misconception(
    "You take softmax over axis 1. With a batch in front those are the queries, or the heads. The keys "
    "are always the last axis: axis=-1."
)
def softmax_over_axis_1(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take softmax over axis 2, which is right for one leading axis only. The keys are always the last "
    "axis: axis=-1."
)
def softmax_over_axis_2(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=2, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=2, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take d_k from axis 1 of the query. With a batch in front that is another axis. The width is "
    "always the last axis: query.shape[-1]."
)
def width_from_axis_1(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into two sizes, so there must be two axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_two_sizes(query, key, value, mask=None):
    _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of two axes, such as (1, 0), so the key must have two. np.swapaxes(key, "
    "-1, -2) fits any number of axes."
)
def transposed_as_two_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (1, 0)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names two axes of query and key, so both must have two. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_two_axes(query, key, value, mask=None):
    scores = np.einsum("qd,kd->qk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so there must be three axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_three_sizes(query, key, value, mask=None):
    _B, _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of three axes, such as (0, 2, 1), so the key must have three. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_three_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (0, 2, 1)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names three axes of query and key, so both must have three. Let it begin with an "
    "ellipsis, '...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_three_axes(query, key, value, mask=None):
    scores = np.einsum("bqd,bkd->bqk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so there must be four axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_four_sizes(query, key, value, mask=None):
    _B, _h, _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of four axes, such as (0, 1, 3, 2), so the key must have four. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_four_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (0, 1, 3, 2)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names four axes of query and key, so both must have four. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_four_axes(query, key, value, mask=None):
    scores = np.einsum("bhqd,bhkd->bhqk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You swap axes 1 and 2 of the key, which is right for one leading axis only. Count from the end: "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def axes_1_and_2_swapped(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights
