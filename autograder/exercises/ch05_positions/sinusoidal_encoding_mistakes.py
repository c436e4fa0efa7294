"""Mistakes that people make in `sinusoidal_encoding`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch05_positions.sinusoidal_encoding import EXERCISE


@EXERCISE.misconception(
    "Your exponents are i/d_model, so all pairs but the first turn too fast. Pair i has the exponent "
    "2i/d_model: take np.arange(0, d_model, 2) / d_model.",
    gravity="slip",
)
def i_for_2i(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    i = np.arange(d_model // 2)
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (i / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Each of your channels has a frequency of its own. Give channels 2i and 2i+1 the same one, with the "
    "exponent 2i/d_model: they are the sine and the cosine of one angle."
)
def a_frequency_for_each_channel(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(d_model) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return pe


@EXERCISE.misconception(
    "Your sines all come first and your cosines after them. Let them alternate: sines on channels 0, "
    "2, 4, ..., cosines on channels 1, 3, 5, ...",
    gravity="slip",
)
def sines_and_cosines_in_halves(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@EXERCISE.misconception(
    "Your sines and cosines are exchanged. Put the sine on even channels and the cosine on odd ones, so "
    "that position 0 is 0, 1, 0, 1.",
    gravity="slip",
)
def sine_and_cosine_exchanged(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.cos(angles), np.sin(angles)
    return pe


@EXERCISE.misconception(
    "Your first row is the row of position 1. Count positions from 0, where all angles are 0: "
    "np.arange(max_seq_len).",
    gravity="slip",
)
def positions_from_1(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    positions = np.arange(1, max_seq_len + 1)
    angles = positions[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Your base is 1,000. Use 10,000, so that in wide models the slowest pair takes tens of thousands of "
    "positions for a turn.",
    gravity="slip",
)
def base_of_1000(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 1000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "You return a table for an odd d_model. A frequency takes two channels, and one would be left over: "
    "raise a ValueError."
)
def no_error_for_odd(max_seq_len, d_model):
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2] = np.sin(angles)
    pe[:, 1::2] = np.cos(angles)[:, : d_model // 2]
    return pe


@EXERCISE.misconception(
    "An odd d_model gives an AssertionError, which Python drops when it runs with -O. For a caller's "
    "mistake write `raise ValueError(...)`."
)
def assert_for_raise(max_seq_len, d_model):
    assert d_model % 2 == 0, "d_model must be even"
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Your exponents run from 0 to exactly 1, i / (d_model/2 - 1), as in some libraries. Use 2i/d_model, "
    "which ends just below 1.",
    gravity="slip",
)
def exponents_up_to_1(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    exponents = np.arange(d_model // 2) / max(d_model // 2 - 1, 1)
    angles = np.arange(max_seq_len)[:, None] / 10000**exponents
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Your later pairs turn faster and faster: their angles grow with 10000^(2i/d_model). Divide the "
    "position by this power, so that later pairs turn more slowly."
)
def multiplied_by_the_power(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] * 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Your exponents are 4i/d_model, which counts the 2 twice. Use 2i/d_model: np.arange(0, d_model, 2) "
    "holds 2i already, so divide it by d_model.",
    gravity="slip",
)
def the_2_counted_twice(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / (d_model // 2))
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "All your pairs turn alike, as if every exponent were 0. Use the exponents 2i/d_model, and divide "
    "with `/`: `//` drops the fraction."
)
def whole_number_division(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) // d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Your positions are divided by max_seq_len, so the same position has another vector in a longer "
    "text. Use the position itself: the distance of two tokens must mean the same everywhere."
)
def positions_as_fractions(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    positions = np.arange(max_seq_len) / max_seq_len
    angles = positions[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Both channels of each pair hold the sine. Put the cosine on the odd channel: the two together are "
    "a point on a circle, and a rotation turns it."
)
def sines_only(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.repeat(np.sin(angles), 2, axis=1)


@EXERCISE.misconception(
    "Your table is transposed: its shape is (d_model, max_seq_len). Let each row be a position: "
    "(max_seq_len, d_model).",
    gravity="slip",
)
def on_its_side(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len) / 10000 ** (np.arange(0, d_model, 2) / d_model)[:, None]
    pe = np.zeros((d_model, max_seq_len))
    pe[0::2], pe[1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Far positions get the vectors of their neighbours, as if they were counted in float16, which "
    "cannot tell 4,097 from 4,098. Keep positions and angles in float32 or float64."
)
def positions_in_half_precision(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    positions = np.arange(max_seq_len).astype(np.float16)
    angles = positions[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.misconception(
    "Only position 0 is right, and the rest is 0. Either your table holds whole numbers, which drops every "
    "fraction: fill an array of floats, such as np.zeros((max_seq_len, d_model)). Or only one row is filled: "
    "take `return` out of the loop.",
    gravity="useless",
)
def table_of_integers(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model), dtype=int)
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe
