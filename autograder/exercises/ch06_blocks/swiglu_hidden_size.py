"""ch06_blocks/swiglu_hidden_size: how wide a gated network may be for the same number of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import LAST
from tfcore.layers import feed_forward


def any_width(rng: np.random.Generator) -> Iterator[Case]:
    """Every remainder by 3, since what is left of the division is at stake."""
    for d_model in (6, 7, 8):
        yield Case(f"d_model = {d_model}", (d_model,))
    for remainder in range(3):
        d_model = 3 * int(rng.integers(40, 400)) + remainder
        yield Case(f"d_model = {d_model}", (d_model,))
    yield Case("the width of GPT-2, 768", (768,))
    yield Case("the width of Llama 7B, 4096", (4096,))


def multiples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("d_model = 6, a multiple of 5", (6, 5))
    yield Case("d_model = 6, a multiple of 4: it is one already", (6,), {"multiple_of": 4})
    yield Case("d_model = 4, a multiple of 5: it is one, once cut down", (4, 5))
    yield Case("d_model = 3, a multiple of 256", (3, 256))
    d_model, multiple_of = int(rng.integers(100, 999)), int(rng.integers(10, 40))
    yield Case(f"d_model = {d_model}, a multiple of {multiple_of}", (d_model, multiple_of))
    hidden = 8 * (3 * int(rng.integers(20, 200))) // 3
    yield Case(f"a hidden size of {hidden}, a multiple of 8", (3 * hidden // 8, 8))
    yield Case("Llama 7B: d_model = 4096, a multiple of 256", (4096, 256))
    yield Case("Llama 13B: d_model = 5120, a multiple of 256", (5120,), {"multiple_of": 256})


def _asked(trial: Trial) -> tuple[int, int, float]:
    """d_model, multiple_of and the answer."""
    d_model, *rest = trial.case.args
    return d_model, rest[0] if rest else trial.case.kwargs.get("multiple_of", 1), float(trial.value)


def is_a_multiple(trial: Trial) -> str | None:
    _, multiple_of, got = _asked(trial)
    if got % multiple_of == 0:
        return None
    return f"{got:g} is no multiple of {multiple_of}"


def three_matrices_weigh_as_two(trial: Trial) -> str | None:
    d_model, multiple_of, got = _asked(trial)
    room = 8 * d_model // 3
    if room <= got < room + multiple_of:
        return None
    return (
        f"three matrices of {d_model} x {got:g} hold {3 * d_model * got:,.0f} weights; the ungated network "
        f"holds 2 * {d_model} * {4 * d_model} = {8 * d_model**2:,}, which leaves room for {room}, then up to "
        f"a multiple of {multiple_of}"
    )


EXERCISE = Exercise(
    name="ch06_blocks/swiglu_hidden_size",
    signature="swiglu_hidden_size(d_model, multiple_of=1)",
    goal="Choose d_ff so that three matrices hold what two of width 4 d_model held, as a multiple.",
    section="The feed-forward network, and where 8/3 comes from",
    reference=feed_forward.swiglu_hidden_size,
    criteria=(
        Criterion("8 d_model / 3, rounded down", 0.5, any_width),
        Criterion("then up to a multiple", 0.5, multiples),
    ),
    properties=(
        Property("a multiple", is_a_multiple),
        Property("as many weights as before", three_matrices_weigh_as_two),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "You keep 4 d_model. Take 8 d_model / 3: the gate adds a third matrix, so each may have two thirds of "
    "that width."
)
def four_times(d_model, multiple_of=1):
    return math.ceil(4 * d_model / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You take 2 d_model, as if the gate doubled the weights. There were two matrices and now are three: "
    "take 2/3 of 4 d_model."
)
def twice(d_model, multiple_of=1):
    return math.ceil(2 * d_model / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round *down* to the multiple. Round up, as published models do: the width must not fall short of 8 "
    "d_model / 3.",
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
    "You add one more multiple to a size that is one already. Return such a size as it is.",
    gravity="slip",
)
def one_multiple_too_many(d_model, multiple_of=1):
    hidden = 8 * d_model // 3
    return (hidden // multiple_of + 1) * multiple_of


@EXERCISE.misconception("multiple_of changes nothing. Go up to the next multiple of it at the end.")
def multiple_ignored(d_model, multiple_of=1):
    return 8 * d_model // 3


@EXERCISE.misconception(
    "You round 8 d_model / 3 up. Cut it down to a whole number first, as int() does; only the step to the "
    "multiple goes up.",
    gravity="slip",
)
def rounded_up_first(d_model, multiple_of=1):
    hidden = math.ceil(8 * d_model / 3)
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You round 8 d_model / 3 to the nearest whole number. Cut it down: floor(8 d_model / 3).",
    gravity="slip",
)
def rounded_first(d_model, multiple_of=1):
    hidden = round(8 * d_model / 3)
    return math.ceil(hidden / multiple_of) * multiple_of


@EXERCISE.misconception(
    "You cut d_model / 3 down and then multiply, which loses up to 5 channels. Multiply first: 8 * d_model "
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
    "You go up to a multiple of 256 where nobody asked for one. Write multiple_of=1 as the default.",
    gravity="slip",
)
def multiples_of_256_by_default(d_model, multiple_of=256):
    return math.ceil(8 * d_model // 3 / multiple_of) * multiple_of


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
