"""Mistakes that people make in `parameter_count`, each with the hint for its author."""

from __future__ import annotations

from autograder.exercises.ch04_multi_head.parameter_count import EXERCISE


@EXERCISE.misconception(
    "You leave W_o out. Count four projections: W_q, W_k, W_v, and W_o, which mixes the heads."
)
def W_o_left_out(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    matrices = d_model * d_model + 2 * d_model * d_kv
    return matrices + bias * (d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You multiply by the number of heads. Leave it out: the heads share the width, d_model / h for each, so "
    "that h heads cost as much as one."
)
def heads_multiplied_in(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    num_kv_heads = num_kv_heads or num_heads
    matrices = 2 * num_heads * d_model * d_model + 2 * num_kv_heads * d_model * d_model
    return matrices + bias * (2 * num_heads * d_model + 2 * num_kv_heads * d_model)


@EXERCISE.misconception(
    "You give each head W_q, W_k and W_v of the full width. Let each of them map d_model "
    "to d_model / h; all h together are one matrix of d_model x d_model."
)
def full_width_for_each_head(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    num_kv_heads = num_kv_heads or num_heads
    matrices = (num_heads + 2 * num_kv_heads) * d_model * d_model + d_model * d_model
    return matrices + bias * ((num_heads + 2 * num_kv_heads) * d_model + d_model)


@EXERCISE.misconception(
    "You count one head alone: a width of d_model / h. Count the projections of all h heads."
)
def one_head_alone(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_head = d_model // num_heads
    return 3 * d_model * d_head + d_head * d_model + bias * (3 * d_head + d_model)


@EXERCISE.misconception(
    "You never count the biases. With bias=True add one number for each channel that a projection gives."
)
def biases_forgotten(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv


@EXERCISE.misconception("You always count the biases. With bias=False count the four matrices alone.")
def biases_always(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + 2 * d_model + 2 * d_kv


@EXERCISE.misconception(
    "You count one number for each bias. A bias is a vector: count one number for each channel that the "
    "projection gives."
)
def biases_of_one_number(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + 4 * bias


@EXERCISE.misconception("You leave out the bias of W_o. Count the bias of each of the four projections.")
def no_bias_of_W_o(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    matrices = 2 * d_model * d_model + 2 * d_model * d_kv
    return matrices + bias * (d_model + 2 * d_kv)


@EXERCISE.misconception(
    "num_kv_heads changes nothing in your count. With fewer heads of keys and values, W_k and W_v give "
    "num_kv_heads * d_head channels, not d_model."
)
def kv_heads_ignored(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    return 4 * d_model * d_model + bias * 4 * d_model


@EXERCISE.misconception(
    "You shrink all four projections. Shrink W_k and W_v alone: W_q and W_o serve every query head."
)
def all_four_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 4 * d_model * d_kv + bias * (3 * d_kv + d_model)


@EXERCISE.misconception(
    "You shrink the keys and leave the values wide. Shrink both, since they are shared together: W_k and "
    "W_v give num_kv_heads * d_head channels."
)
def values_not_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 3 * d_model * d_model + d_model * d_kv + bias * (3 * d_model + d_kv)


@EXERCISE.misconception(
    "You shrink W_o as well. Leave it d_model x d_model: it gets the heads of the queries side by side, and "
    "there are as many of them as before."
)
def W_o_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return d_model * d_model + 3 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You shrink the matrices W_k and W_v and leave their biases wide. A bias has one number for each "
    "channel that is given: num_kv_heads * d_head."
)
def biases_not_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * 4 * d_model


@EXERCISE.misconception(
    "You divide d_model by num_kv_heads, which would be the width of a head if there were only so few "
    "heads. Keep the width d_model / num_heads, and count num_kv_heads such heads."
)
def divided_by_kv_heads(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model if num_kv_heads is None else d_model // num_kv_heads
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You treat None as one head. If num_kv_heads is left out, count as many heads as there are query heads.",
    gravity="slip",
)
def none_is_one(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or 1)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You do not check that the heads divide d_model. Raise a ValueError when d_model % num_heads is not 0: "
    "there is no such layer to count."
)
def no_error(d_model, num_heads, num_kv_heads=None, bias=True):
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`."
)
def asserted(d_model, num_heads, num_kv_heads=None, bias=True):
    assert d_model % num_heads == 0, "the heads do not divide d_model"
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You leave out the biases unless they are asked for. Write bias=True as the default.", gravity="slip"
)
def no_bias_by_default(d_model, num_heads, num_kv_heads=None, bias=False):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)
