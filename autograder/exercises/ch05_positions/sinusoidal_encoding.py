"""ch05_positions/sinusoidal_encoding: a vector of sines and cosines for each position."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, near
from tfcore import sinusoids

SINGLE = 1e-4
"""Angles in float32 are precise enough, and so are their sines, as long as the angles are small."""


def table(rng: np.random.Generator, positions: tuple[int, int], pairs: tuple[int, int]) -> Case:
    """A table whose two sizes are drawn, and differ."""
    while True:
        max_seq_len, half = sizes(rng, positions, pairs)
        if max_seq_len != 2 * half:
            return Case(f"{max_seq_len} positions, {2 * half} channels", (max_seq_len, 2 * half))


def short(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 positions, 2 channels", (3, 2))
    yield Case("3 positions, 4 channels", (3, 4))
    yield Case("7 positions, 4 channels", (7, 4))
    yield table(rng, (5, 9), (3, 6))
    yield Case("a single position", (1, 6))
    yield table(rng, (10, 16), (8, 15))
    yield table(rng, (20, 40), (25, 40))
    yield table(rng, (3, 9), (100, 200))


def long(rng: np.random.Generator) -> Iterator[Case]:
    yield table(rng, (500, 900), (2, 4))
    yield table(rng, (5001, 5200), (3, 5))


def odd(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 channels", (2, 3))
    yield Case("a single channel", (3, 1))
    n = 2 * int(rng.integers(3, 20)) + 1
    yield Case(f"{n} channels", (8, n))


def wide_enough(trial: Trial) -> str | None:
    if getattr(trial.value, "dtype", None) != np.float16:
        return None
    return "your table is float16, which holds three digits; make it float32 or float64"


def starts_at_zero(trial: Trial) -> str | None:
    first = trial.value[0]
    for channel, name in ((0, "sin 0 = 0"), (1, "cos 0 = 1")):
        if wrong := [float(x) for x in first[channel::2] if abs(x - channel) > 1e-3]:
            kind = "odd" if channel else "even"
            return f"position 0 holds {wrong[0]:.4g} on an {kind} channel; there it is {name}"
    return None


def depends_on_the_position_alone(trial: Trial) -> str | None:
    max_seq_len, d_model = trial.case.args
    longer = trial.call(Case("a longer table", (max_seq_len + 3, d_model))).value
    if np.shape(longer) != (max_seq_len + 3, d_model):
        return None
    if near(np.asarray(longer)[:max_seq_len], trial.value):
        return None
    return (
        f"with max_seq_len = {max_seq_len + 3} the first {max_seq_len} rows are others than with "
        f"{max_seq_len}; the vector of a position does not depend on how many more there are"
    )


def on_the_circle(trial: Trial) -> str | None:
    squares = trial.value[:, 0::2] ** 2 + trial.value[:, 1::2] ** 2
    wrong = np.argwhere(~(np.abs(squares - 1) < 1e-5))
    if not wrong.size:
        return None
    position, pair = (int(n) for n in wrong[0])
    return (
        f"at position {position} the squares of channels {2 * pair} and {2 * pair + 1} sum to "
        f"{squares[position, pair]:.6g}; the sine and the cosine of one angle give 1"
    )


def another_base(angles: np.ndarray) -> str | None:
    """Name the base of these frequencies; None if it is 10,000, or if they do not have a common base.

    Args:
        angles: the angle of each pair of channels after one position, the first pair first.
    """
    half, pair = len(angles), np.arange(1, len(angles))
    bases = angles[1:] ** (-half / pair)
    if half < 3 or abs(angles[0] - 1) > 1e-3 or not np.allclose(bases, bases.mean(), rtol=1e-3):
        return None
    base = float(np.median(bases))
    return (
        f"your frequencies are {base:.6g}^(-2i/d_model); the base is 10000" if abs(base - 1e4) > 0.5 else None
    )


def right_base(trial: Trial) -> str | None:
    return another_base(np.arctan2(trial.value[1, 0::2], trial.value[1, 1::2]))


def right_angles(trial: Trial) -> str | None:
    """The angle of each pair of channels at position 1."""
    _, d_model = trial.case.args
    sine, cosine = trial.value[1, 0::2], trial.value[1, 1::2]
    for pair, angle in enumerate(np.arctan2(sine, cosine)):
        right = 10_000 ** (-2 * pair / d_model)
        if abs(angle - right) > max(1e-4, 1e-3 * right):
            return (
                f"at position 1, channels {2 * pair} and {2 * pair + 1} are sine and cosine of {angle:.4g}; "
                f"the angle is 1 / 10000^({2 * pair}/{d_model}) = {right:.4g}"
            )
    return None


EXERCISE = Exercise(
    name="ch05_positions/sinusoidal_encoding",
    signature="sinusoidal_encoding(max_seq_len, d_model)",
    goal="Give each position a vector: sines on even channels, cosines on odd ones, from fast to slow.",
    section="Sinusoids: one matrix for a step",
    reference=sinusoids.sinusoidal_encoding,
    criteria=(
        Criterion("sin on even and cos on odd channels, from position 0", 2.5, short, tolerance=SINGLE),
        Criterion("tables of thousands of positions", 0.5, long, tolerance=20 * SINGLE),
        Criterion("a ValueError for an odd number of channels", 1, odd),
    ),
    properties=(
        Property("the table is wide enough", wide_enough),
        *FIRST,
        Property("position 0 holds zeros and ones", starts_at_zero),
        Property("a position's vector depends on the position alone", depends_on_the_position_alone),
        Property("a pair of channels is a point on the circle", on_the_circle),
        Property("the base is right", right_base),
        Property("the angles are right", right_angles),
        *LAST,
    ),
)


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
    "Your sines all come first and your cosines after them. Let them take turns: sines on channels 0, "
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
    "Your first row is that of position 1. Count positions from 0, where all angles are 0: "
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
    "Your base is 1,000. Use 10,000, so that the slowest pair takes tens of thousands of positions for "
    "a turn.",
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
    "An odd d_model gives an AssertionError, which Python drops when it runs with -O. Refuse what a "
    "caller got wrong with `raise ValueError(...)`."
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
    "a point on a circle, which a rotation moves on."
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
    "Your table holds whole numbers only: every sine and cosine has lost its fraction. Fill an array of "
    "floats, such as np.zeros((max_seq_len, d_model)).",
    gravity="useless",
)
def table_of_integers(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model), dtype=int)
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@EXERCISE.style("angles first, then every second column")
def every_second_column(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError(f"d_model must be even, not {d_model}")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2] = np.sin(angles)
    pe[:, 1::2] = np.cos(angles)
    return pe


@EXERCISE.style("number by number, in loops")
def in_loops(max_seq_len, d_model):
    if d_model % 2 == 1:
        raise ValueError
    pe = np.empty((max_seq_len, d_model))
    for pos in range(max_seq_len):
        for i in range(d_model // 2):
            pe[pos, 2 * i] = math.sin(pos / 10000 ** (2 * i / d_model))
            pe[pos, 2 * i + 1] = math.cos(pos / 10000 ** (2 * i / d_model))
    return pe


@EXERCISE.style("frequencies through the exponential, in float32")
def through_exp(max_seq_len, d_model):
    if d_model % 2 != 0:
        raise ValueError("an even number of channels, please")
    positions = np.arange(max_seq_len, dtype=np.float32)[:, None]
    div_term = np.exp(np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / d_model))
    pe = np.zeros((max_seq_len, d_model), dtype=np.float32)
    pe[:, 0::2] = np.sin(positions * div_term)
    pe[:, 1::2] = np.cos(positions * div_term)
    return pe


@EXERCISE.style("one angle for each channel, and np.where")
def chosen_by_where(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    channel = np.arange(d_model)
    angles = np.outer(np.arange(max_seq_len), 10000.0 ** (-(channel - channel % 2) / d_model))
    return np.where(channel % 2 == 0, np.sin(angles), np.cos(angles))


@EXERCISE.style("stacked and flattened")
def stacked(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = np.einsum("t,i->ti", np.arange(max_seq_len), 1e4 ** (-2 * np.arange(d_model // 2) / d_model))
    return np.dstack([np.sin(angles), np.cos(angles)]).reshape(max_seq_len, d_model)


@EXERCISE.style("a cosine is a sine a quarter turn ahead")
def quarter_turn(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    rates = np.repeat(np.power(10000, -np.arange(0, d_model, 2) / d_model), 2)
    phases = np.tile([0.0, np.pi / 2], d_model // 2)
    return np.sin(np.arange(max_seq_len)[:, None] * rates + phases)


@EXERCISE.style("real and imaginary parts of a complex exponential")
def complex_exponential(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    turned = np.ascontiguousarray(np.exp(1j * angles))
    return turned.view(np.float64).reshape(max_seq_len, -1, 2)[..., ::-1].reshape(max_seq_len, d_model)
