"""ch05_positions/shift_matrix: one rotation moves the sinusoids of every position on by k."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch05_positions.sinusoidal_encoding import another_base
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, near
from tfcore import sinusoids


def shift(k: int, d_model: int) -> Case:
    return Case(f"k = {k}, {d_model} channels", (k, d_model))


def drawn(rng: np.random.Generator, shifts: tuple[int, int], pairs: tuple[int, int]) -> Case:
    k, half = sizes(rng, shifts, pairs)
    return shift(k, 2 * half)


def forwards(rng: np.random.Generator) -> Iterator[Case]:
    yield shift(1, 2)
    yield shift(1, 4)
    yield shift(3, 4)
    yield drawn(rng, (2, 9), (3, 6))
    yield drawn(rng, (10, 40), (8, 16))


def backwards(rng: np.random.Generator) -> Iterator[Case]:
    yield shift(0, 4)
    yield shift(-1, 4)
    yield drawn(rng, (-12, -2), (3, 6))


def far(rng: np.random.Generator) -> Iterator[Case]:
    yield drawn(rng, (500, 900), (3, 6))
    yield drawn(rng, (-5000, -4000), (5, 8))


def _shifted(trial: Trial, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the encoding of a position moved by the matrix, and the encoding that it should be."""
    k, d_model = trial.case.args
    start = max(0, -k)
    table = sinusoids.sinusoidal_encoding(start + position + abs(k) + 1, d_model)
    return trial.value @ table[start + position], table[start + position + k]


def no_shift_is_no_change(trial: Trial) -> str | None:
    k, d_model = trial.case.args
    if k or near(trial.value, np.eye(d_model)):
        return None
    return "for k = 0 nothing has to move: the matrix is the identity, and yours is not"


def not_backwards(trial: Trial) -> str | None:
    k, d_model = trial.case.args
    if not k or not near(trial.value, sinusoids.shift_matrix(-k, d_model)):
        return None
    return f"your matrix moves by {-k} where it should move by {k}: it turns the other way round"


def pairs_stay_apart(trial: Trial) -> str | None:
    i, j = np.indices(trial.value.shape)
    wrong = np.argwhere((i // 2 != j // 2) & (np.abs(trial.value) > 1e-6))
    if not wrong.size:
        return None
    i, j = (int(n) for n in wrong[0])
    return (
        f"M[{i}, {j}] is {trial.value[i, j]:.4g}; channels {i} and {j} belong to different frequencies and "
        "do not mix: expected 0"
    )


def keeps_lengths(trial: Trial) -> str | None:
    lengths = np.linalg.norm(trial.value, axis=0)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))
    if not wrong.size:
        return None
    return (
        f"column {wrong[0]} of M has length {lengths[wrong[0]]:.4g}; M only turns, so each of its columns "
        "has length 1"
    )


def right_base(trial: Trial) -> str | None:
    """Check the base, read off the matrix of a single step."""
    step = trial.call(Case("one step", (1, trial.case.args[1]))).value
    if not near(step @ step.T, np.eye(len(step))):
        return None
    return another_base(np.arctan2(step.diagonal(1)[::2], step.diagonal()[::2]))


def moves_every_position(trial: Trial) -> str | None:
    """Compare M @ PE[pos] with PE[pos + k] at the first position where they differ."""
    k, _ = trial.case.args
    for position in range(3):
        got, right = _shifted(trial, position)
        if (wrong := np.flatnonzero(~(np.abs(got - right) < 1e-3))).size:
            c, pos = int(wrong[0]), max(0, -k) + position
            before = " (position 0 comes out right)" if position else ""
            return (
                f"(M @ PE[{pos}])[{c}] is {got[c]:.4g}, and PE[{pos + k}][{c}] is {right[c]:.4g}; they "
                f"should be equal{before}"
            )
    return None


EXERCISE = Exercise(
    name="ch05_positions/shift_matrix",
    signature="shift_matrix(k, d_model)",
    goal="Return the one matrix M with M @ PE[pos] = PE[pos + k] for every position.",
    section="Sinusoids: one matrix for a step",
    minutes=15,
    difficulty="medium",
    reference=sinusoids.shift_matrix,
    criteria=(
        Criterion("M @ PE[pos] = PE[pos + k] for every pos", 2, forwards, tolerance=1e-4),
        Criterion("k = 0, and back by a negative k", 0.5, backwards, tolerance=1e-4),
        Criterion("shifts by thousands", 0.5, far, tolerance=2e-3),
    ),
    properties=(
        *FIRST[:3],
        Property("no shift changes nothing", no_shift_is_no_change),
        Property("M moves the right way", not_backwards),
        Property("pairs of channels do not mix", pairs_stay_apart),
        Property("M keeps lengths", keeps_lengths),
        Property("the base is right", right_base),
        Property("M moves every position", moves_every_position),
        *LAST,
    ),
)
