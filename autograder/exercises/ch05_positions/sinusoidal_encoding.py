"""ch05_positions/sinusoidal_encoding: a vector of sines and cosines for each position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, near
from tfcore import sinusoids

SINGLE = 1e-4
"""Angles in float32 are precise enough, and so are their sines, as long as the angles are small."""


def table(rng: np.random.Generator, positions: tuple[int, int], pairs: tuple[int, int]) -> Case:
    """Draw the two sizes of a table, which differ."""
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
            return f"position 0 holds {wrong[0]:.4g} on an {kind} channel; it should be {name}"
    return None


def depends_on_the_position_alone(trial: Trial) -> str | None:
    max_seq_len, d_model = trial.case.args
    longer = trial.call(Case("a longer table", (max_seq_len + 3, d_model))).value
    if np.shape(longer) != (max_seq_len + 3, d_model):
        return None
    if near(np.asarray(longer)[:max_seq_len], trial.value):
        return None
    return (
        f"with max_seq_len = {max_seq_len + 3} the first {max_seq_len} rows differ from those with "
        f"{max_seq_len}; the vector of a position must not depend on how many positions follow"
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
    """Check the angle of each pair of channels at position 1."""
    _, d_model = trial.case.args
    sine, cosine = trial.value[1, 0::2], trial.value[1, 1::2]
    for pair, angle in enumerate(np.arctan2(sine, cosine)):
        right = 10_000 ** (-2 * pair / d_model)
        if abs(angle - right) > max(1e-4, 1e-3 * right):
            return (
                f"at position 1, channels {2 * pair} and {2 * pair + 1} are sine and cosine of {angle:.4g}; "
                f"the angle should be 1 / 10000^({2 * pair}/{d_model}) = {right:.4g}"
            )
    return None


EXERCISE = Exercise(
    name="ch05_positions/sinusoidal_encoding",
    signature="sinusoidal_encoding(max_seq_len, d_model)",
    goal="Give each position a vector: sines on even channels, cosines on odd ones, from fast to slow.",
    section="Sinusoids: one matrix for a step",
    minutes=15,
    difficulty="easy",
    reference=sinusoids.sinusoidal_encoding,
    criteria=(
        Criterion("sin on even and cos on odd channels, from position 0", 2.5, short, tolerance=SINGLE),
        Criterion("tables of thousands of positions", 0.5, long, tolerance=20 * SINGLE),
        Criterion("a ValueError for an odd number of channels", 1, odd),
    ),
    properties=(
        Property("the table is wide enough", wide_enough),
        *FIRST[:3],
        Property("position 0 holds zeros and ones", starts_at_zero),
        Property("a position's vector depends on the position alone", depends_on_the_position_alone),
        Property("a pair of channels is a point on the circle", on_the_circle),
        Property("the base is right", right_base),
        Property("the angles are right", right_angles),
        *LAST,
    ),
)
