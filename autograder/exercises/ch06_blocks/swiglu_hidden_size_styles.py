"""Right answers to `swiglu_hidden_size`, each in a style of its own."""

from __future__ import annotations

import math

from autograder.exercises.ch06_blocks.swiglu_hidden_size import EXERCISE


@EXERCISE.style("whole numbers throughout")
def whole_numbers(d_model, multiple_of=1):
    hidden = 8 * d_model // 3
    return (hidden + multiple_of - 1) // multiple_of * multiple_of


@EXERCISE.style("as Llama's code has it: two thirds of 4 d_model, then int()")
def as_in_llama(d_model, multiple_of=1):
    hidden = 4 * d_model
    hidden = int(2 * hidden / 3)
    return multiple_of * ((hidden + multiple_of - 1) // multiple_of)


@EXERCISE.style("math.floor and math.ceil")
def floor_and_ceil(d_model, multiple_of=1):
    return math.ceil(math.floor(8 * d_model / 3) / multiple_of) * multiple_of


@EXERCISE.style("counting up to the next multiple")
def counting_up(d_model, multiple_of=1):
    hidden = d_model * 8 // 3
    while hidden % multiple_of:
        hidden += 1
    return hidden


@EXERCISE.style("minus the floor of minus")
def negative_floor(d_model, multiple_of=1):
    return -(-(8 * d_model // 3) // multiple_of) * multiple_of
