"""Mistakes that people make in `project_qkv`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch02_qkv.project_qkv import EXERCISE


@EXERCISE.misconception(
    "You return the key first. The order is query, key, value, as in the signature: write `return q, k, v`.",
    gravity="slip",
)
def key_before_query(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_q, x @ W_v


@EXERCISE.misconception(
    "You return the value before the key. The order is query, key, value.",
    gravity="slip",
)
def value_before_key(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k


@EXERCISE.misconception(
    "You transpose the weights. They are (d_model, d): a row vector of width d_model times W is already a "
    "row vector of width d, so write x @ W. In torch, nn.Linear stores its weight the other way round."
)
def weights_transposed(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


@EXERCISE.misconception(
    "You put the weights on the left. The tokens are rows, (..., T, d_model), so they go on the left: x @ W."
)
def weights_on_the_left(x, W_q, W_k, W_v):
    return W_q @ x, W_k @ x, W_v @ x


@EXERCISE.misconception("`*` multiplies element by element. A projection is a matrix product: x @ W.")
def elementwise(x, W_q, W_k, W_v):
    return x * W_q, x * W_k, x * W_v


@EXERCISE.misconception(
    "You use W_q for all three. Query, key and value have weights of their own: write x @ W_q, x @ W_k, x "
    "@ W_v.",
    gravity="useless",
)
def one_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_q


@EXERCISE.misconception(
    "Your key is made with W_q, so it equals the query and W_k is never used. Use x @ W_k."
)
def key_is_query(x, W_q, W_k, W_v):
    query = x @ W_q
    return query, query, x @ W_v


@EXERCISE.misconception("You return the tokens themselves as values. Project them too: x @ W_v.")
def tokens_as_values(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x


@EXERCISE.misconception(
    "You divide the query by sqrt(d_k) here. The scale belongs to the scores, in the next exercise: scaling "
    "twice makes the weights too equal. Return x @ W_q."
)
def scaled_already(x, W_q, W_k, W_v):
    return x @ W_q / np.sqrt(W_q.shape[1]), x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your results hold one token per column, (..., d, T). Multiply from the other side, x @ W, so that each "
    "token stays a row: (..., T, d)."
)
def tokens_as_columns(x, W_q, W_k, W_v):
    columns = np.swapaxes(x, -1, -2)
    return W_q.T @ columns, W_k.T @ columns, W_v.T @ columns


@EXERCISE.misconception(
    "You return the three side by side in one array. Return three arrays: `return q, k, v`."
)
def one_joined_array(x, W_q, W_k, W_v):
    return x @ np.concatenate([W_q, W_k, W_v], axis=1)


@EXERCISE.misconception(
    "You flatten all leading axes into one and do not restore them. `x @ W` needs no reshape: it works on "
    "the last axis and keeps the others."
)
def batch_flattened(x, W_q, W_k, W_v):
    rows = x.reshape(-1, x.shape[-1])
    return rows @ W_q, rows @ W_k, rows @ W_v


@EXERCISE.misconception(
    "You project only the first sequence of a batch. Leave the leading axes alone: `x @ W` projects every "
    "sequence."
)
def first_of_the_batch(x, W_q, W_k, W_v):
    while x.ndim > 2:
        x = x[0]
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your code subtracts a mean, and it changes the caller's tokens, as `x -= ...` does. Use x as it is: "
    "x @ W."
)
def centred_in_place(x, W_q, W_k, W_v):
    x -= x.mean(axis=-1, keepdims=True)
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Query and value have changed places: you return value, key, query. The order is query, key, value.",
    gravity="slip",
)
def value_first_query_last(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_q


@EXERCISE.misconception(
    "You return the value first, then query and key. The order is query, key, value.",
    gravity="slip",
)
def value_before_query_and_key(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_q, x @ W_k


@EXERCISE.misconception(
    "You return key and value before the query. The order is query, key, value.",
    gravity="slip",
)
def query_last(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_v, x @ W_q


@EXERCISE.misconception(
    "Your value is made with W_k, so it equals the key and W_v is never used. Use x @ W_v."
)
def value_is_key(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_k


@EXERCISE.misconception(
    "Your value is made with W_q, so it equals the query and W_v is never used. Use x @ W_v."
)
def value_is_query(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_q


@EXERCISE.misconception(
    "Your key is made with W_v, so it equals the value and W_k is never used. Use x @ W_k."
)
def key_is_value(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_v


@EXERCISE.misconception(
    "Your query is made with W_k, so it equals the key and W_q is never used. Use x @ W_q."
)
def query_is_key(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your query is made with W_v, so it equals the value and W_q is never used. Use x @ W_q."
)
def query_is_value(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You use W_k for all three. Query and value have weights of their own: x @ W_q, x @ W_k, x @ W_v.",
    gravity="useless",
)
def key_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_k, x @ W_k


@EXERCISE.misconception(
    "You use W_v for all three. Query and key have weights of their own: x @ W_q, x @ W_k, x @ W_v.",
    gravity="useless",
)
def value_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_v, x @ W_v


@EXERCISE.misconception(
    "You make the key from the query and the value from the key. Each of the three is a projection of the "
    "tokens themselves: write x @ W_k, not q @ W_k."
)
def chained(x, W_q, W_k, W_v):
    q = x @ W_q
    k = q @ W_k
    return q, k, k @ W_v


@EXERCISE.misconception(
    "Your einsum names two axes of x, so it takes one sequence and no batch. Write x @ W, or let an einsum "
    "begin with an ellipsis: '...td,de->...te'."
)
def einsum_without_batch(x, W_q, W_k, W_v):
    return tuple(np.einsum("td,de->te", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.misconception(
    "Your einsum names three axes of x, so it takes one batch axis, no more and no fewer. Write x @ W, or "
    "let an einsum begin with an ellipsis: '...td,de->...te'."
)
def einsum_with_one_batch_axis(x, W_q, W_k, W_v):
    return tuple(np.einsum("btd,de->bte", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.misconception(
    "You unpack a shape into two sizes, so x must have two axes. `x @ W` fits any number of leading axes "
    "and needs no sizes; the width is x.shape[-1]."
)
def unpacks_two_sizes(x, W_q, W_k, W_v):
    _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so x must have three axes. `x @ W` fits any number of leading "
    "axes and needs no sizes; the width is x.shape[-1]."
)
def unpacks_three_sizes(x, W_q, W_k, W_v):
    _B, _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so x must have four axes. `x @ W` fits any number of leading "
    "axes and needs no sizes; the width is x.shape[-1]."
)
def unpacks_four_sizes(x, W_q, W_k, W_v):
    _B, _h, _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "`.T` reverses all axes of x, which is right for one sequence only. Write x @ W: it leaves the "
    "leading axes alone."
)
def all_axes_reversed(x, W_q, W_k, W_v):
    return (W_q.T @ x.T).T, (W_k.T @ x.T).T, (W_v.T @ x.T).T
