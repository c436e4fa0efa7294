"""Mistakes that people make in `attention_scores`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.attention_scores import EXERCISE


@EXERCISE.misconception(
    "You do not scale. A dot product of d_k components spreads like sqrt(d_k), and softmax would "
    "saturate: divide by sqrt(d_k)."
)
def no_scale(query, key):
    return query @ np.swapaxes(key, -1, -2)


@EXERCISE.misconception(
    "You divide by d_k itself, which makes the scores of long vectors nearly zero. The spread of a dot "
    "product grows like the root of d_k: divide by sqrt(d_k).",
    gravity="slip",
)
def d_k_not_its_root(query, key):
    return query @ np.swapaxes(key, -1, -2) / query.shape[-1]


@EXERCISE.misconception("You multiply by sqrt(d_k), so the scores spread like d_k. Divide by sqrt(d_k).")
def multiplied(query, key):
    return query @ np.swapaxes(key, -1, -2) * np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You divide by the root of the number of keys. The scale makes up for the width of the vectors, not "
    "for the length of the sequence: divide by np.sqrt(query.shape[-1]).",
    gravity="slip",
)
def root_of_number_of_keys(query, key):
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(key.shape[-2])


@EXERCISE.misconception(
    "You divide by the root of the number of queries. The scale makes up for the width of the vectors, "
    "not for the length of the sequence: divide by np.sqrt(query.shape[-1]).",
    gravity="slip",
)
def root_of_number_of_queries(query, key):
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-2])


@EXERCISE.misconception(
    "You divide by the root of d_model, the width of all heads together. The dot product of a head sums "
    "only its own d_k components: divide by np.sqrt(query.shape[-1]).",
    gravity="slip",
)
def root_of_d_model(query, key):
    num_heads = query.shape[-3] if query.ndim > 3 else 1
    d_model = num_heads * query.shape[-1]
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(d_model)


@EXERCISE.misconception(
    "You take d_k from axis 1 of the query. With a batch in front that is another axis. The width is "
    "always the last axis: query.shape[-1]."
)
def width_from_axis_1(query, key):
    d_k = query.shape[1]
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(d_k)


@EXERCISE.misconception(
    "`key.T` reverses all axes, the batch too, so it is right for a matrix only. Swap the last two axes: "
    "np.swapaxes(key, -1, -2)."
)
def all_axes_reversed(query, key):
    return query @ key.T / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You multiply query i with key i alone. Every query meets *every* key: write the matrix product query "
    "@ np.swapaxes(key, -1, -2).",
    gravity="useless",
)
def only_its_own_key(query, key):
    return (query * key).sum(axis=-1) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "Your keys are cut into other rows, as `reshape` does, and not transposed. Swap the last two axes: "
    "np.swapaxes(key, -1, -2)."
)
def reshaped_for_transposed(query, key):
    columns = key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])
    return query @ columns / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "Your rows belong to keys and your columns to queries. Put the query first, query @ np.swapaxes(key, "
    "-1, -2), so that row i holds the scores of query i: (..., T_q, T_k)."
)
def keys_in_rows(query, key):
    return key @ np.swapaxes(query, -1, -2) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You pair every sequence with every other, as np.dot does. Use `@` (or np.matmul), which pairs each "
    "sequence only with itself."
)
def every_batch_with_every_other(query, key):
    return np.dot(query, np.swapaxes(key, -1, -2)) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You divide each vector by its length: that is the cosine. The lengths matter in attention, since "
    "they make the weights sharp: divide the plain dot product by sqrt(d_k)."
)
def cosine(query, key):
    query = query / np.linalg.norm(query, axis=-1, keepdims=True)
    key = key / np.linalg.norm(key, axis=-1, keepdims=True)
    return query @ np.swapaxes(key, -1, -2)


@EXERCISE.misconception(
    "You apply softmax as well. Return the scores before it; softmax follows in the next exercise."
)
def weights_already(query, key):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@EXERCISE.misconception(
    "Your code divides the caller's own query, as `query /= ...` does. Write `query = query / ...`, or "
    "divide the scores."
)
def scaled_in_place(query, key):
    query /= np.sqrt(query.shape[-1])
    return query @ np.swapaxes(key, -1, -2)


@EXERCISE.misconception(
    "You take d_k from axis 0 of the query, which is the number of queries or of sequences. The width is "
    "always the last axis: query.shape[-1]."
)
def width_from_axis_0(query, key):
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[0])


@EXERCISE.misconception(
    "You take d_k from axis 1 of the key. With a batch in front that is the number of keys, or of heads. "
    "The width is always the last axis: key.shape[-1]."
)
def width_from_axis_1_of_key(query, key):
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(key.shape[1])


@EXERCISE.misconception(
    "The key is not transposed. Row i of the scores is query i with every key, so the keys must be "
    "columns: query @ np.swapaxes(key, -1, -2)."
)
def not_transposed(query, key):
    return query @ key / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "np.dot with `key.T` is right for two matrices only: with a batch, `.T` reverses all axes, and np.dot "
    "pairs every sequence with every other. Write query @ np.swapaxes(key, -1, -2)."
)
def np_dot_with_all_axes_reversed(query, key):
    return np.dot(query, key.T) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You swap axes 0 and 1 of the key. With a batch in front those are other axes. Count from the end: "
    "np.swapaxes(key, -1, -2)."
)
def axes_0_and_1_swapped(query, key):
    return query @ np.swapaxes(key, 0, 1) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You swap axes 1 and 2 of the key, which is right for one batch axis only. Count from the end: "
    "np.swapaxes(key, -1, -2) fits any number of leading axes."
)
def axes_1_and_2_swapped(query, key):
    return query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You transpose with an order of three axes, such as (0, 2, 1), so the key must have three. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_three_axes(query, key):
    return query @ np.transpose(key, (0, 2, 1)) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You transpose with an order of four axes, such as (0, 1, 3, 2), so the key must have four. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_four_axes(query, key):
    return query @ np.transpose(key, (0, 1, 3, 2)) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You transpose with an order of two axes, such as (1, 0), so the key must be a matrix. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_two_axes(query, key):
    return query @ np.transpose(key, (1, 0)) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You unpack a shape into two sizes, so there must be two axes. Take the width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_two_sizes(query, key):
    _T_q, _d_k = query.shape
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)


@EXERCISE.misconception(
    "Your einsum names two axes of query and key, so both must have two. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_two_axes(query, key):
    return np.einsum("qd,kd->qk", query, key) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so there must be three axes. Take the width from the "
    "end, query.shape[-1], which fits any number of leading axes."
)
def unpacks_three_sizes(query, key):
    _B, _T_q, _d_k = query.shape
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)


@EXERCISE.misconception(
    "Your einsum names three axes of query and key, so both must have three. Let it begin with an "
    "ellipsis, '...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_three_axes(query, key):
    return np.einsum("bqd,bkd->bqk", query, key) / np.sqrt(query.shape[-1])


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so there must be four axes. Take the width from the "
    "end, query.shape[-1], which fits any number of leading axes."
)
def unpacks_four_sizes(query, key):
    _B, _h, _T_q, _d_k = query.shape
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)


@EXERCISE.misconception(
    "Your einsum names four axes of query and key, so both must have four. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_four_axes(query, key):
    return np.einsum("bhqd,bhkd->bhqk", query, key) / np.sqrt(query.shape[-1])
