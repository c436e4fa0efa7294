"""Mistakes that people make in `swiglu_hidden_size`, each with the hint for its author."""

from __future__ import annotations

import math

from autograder.exercises.ch06_blocks.swiglu_hidden_size import EXERCISE


@EXERCISE.misconception(
    "You keep 4 d_model. Take 8 d_model / 3: the gate adds a third matrix, so each may have two thirds of "
    "that width."
)
def four_times(d_model, multiple_of=1):
    return math.ceil(4 * d_model / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You take 2 d_model, as if the gate doubled the weights. There were two matrices, and now there are "
    "three: take 2/3 of 4 d_model."
)
def twice(d_model, multiple_of=1):
    return math.ceil(2 * d_model / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round *down* to the multiple. Round up, as published models do: the width must not fall short of 8 "
    "d_model // 3.",
    gravity="slip",
)
def down_to_the_multiple(d_model, multiple_of=1):
    return 8 * d_model // 3 // multiple_of * multiple_of


@EXERCISE.misconception(
    "You round to the *nearest* multiple, which may be too small. Go up to the next one: (hidden + "
    "multiple_of - 1) // multiple_of * multiple_of.",
    gravity="slip",
)
def to_the_nearest_multiple(d_model, multiple_of=1):
    return round(8 * d_model // 3 / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You add one more multiple to a size that is a multiple already. Return such a size as it is.",
    gravity="slip",
)
def one_multiple_too_many(d_model, multiple_of=1):
    hidden = 8 * d_model // 3
    return (hidden // multiple_of + 1) * multiple_of


@EXERCISE.misconception("multiple_of changes nothing. Round up to the next multiple of it at the end.")
def multiple_ignored(d_model, multiple_of=1):
    return 8 * d_model // 3


@EXERCISE.misconception(
    "You round 8 d_model / 3 up. Round it down first, as int() does; round up only to the multiple.",
    gravity="slip",
)
def rounded_up_first(d_model, multiple_of=1):
    hidden = math.ceil(8 * d_model / 3)
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round 8 d_model / 3 to the nearest whole number. Round it down: floor(8 d_model / 3).",
    gravity="slip",
)
def rounded_first(d_model, multiple_of=1):
    hidden = round(8 * d_model / 3)
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round d_model / 3 down and then multiply, which loses up to 5 channels. Multiply first: 8 * d_model "
    "// 3.",
    gravity="slip",
)
def divided_first(d_model, multiple_of=1):
    hidden = d_model // 3 * 8
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You take two thirds of d_model. Take two thirds of the usual *inner* width, 4 d_model."
)
def two_thirds_of_d_model(d_model, multiple_of=1):
    hidden = 2 * d_model // 3
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round up to a multiple of 256 although the caller did not ask for one. Write multiple_of=1 as the "
    "default.",
    gravity="slip",
)
def multiples_of_256_by_default(d_model, multiple_of=256):
    return math.ceil(8 * d_model // 3 / multiple_of) * multiple_of
