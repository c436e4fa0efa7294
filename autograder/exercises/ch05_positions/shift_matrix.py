"""ch05_positions/shift_matrix: one rotation moves the sinusoids of every position on by k."""

from __future__ import annotations

import math
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
    """The base, from the matrix of a single step."""
    step = trial.call(Case("one step", (1, trial.case.args[1]))).value
    if not near(step @ step.T, np.eye(len(step))):
        return None
    return another_base(np.arctan2(step.diagonal(1)[::2], step.diagonal()[::2]))


def moves_every_position(trial: Trial) -> str | None:
    """M @ PE[pos] against PE[pos + k], for the first position where they part."""
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
    reference=sinusoids.shift_matrix,
    criteria=(
        Criterion("M @ PE[pos] = PE[pos + k] for every pos", 2, forwards, tolerance=1e-4),
        Criterion("k = 0, and back by a negative k", 0.5, backwards, tolerance=1e-4),
        Criterion("shifts by thousands", 0.5, far, tolerance=2e-3),
    ),
    properties=(
        *FIRST,
        Property("no shift changes nothing", no_shift_is_no_change),
        Property("it moves the right way", not_backwards),
        Property("pairs of channels do not mix", pairs_stay_apart),
        Property("M keeps lengths", keeps_lengths),
        Property("the base is right", right_base),
        Property("M moves every position", moves_every_position),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "Your matrix is transposed: it turns the other way and moves *back* by k. Make (cos, sin) the row "
    "of the sine and (-sin, cos) the row of the cosine.",
    gravity="slip",
)
def transposed(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), -np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Both sines of each block have the same sign, so your matrix changes lengths and is not a rotation. "
    "Put a minus on the sine in the second row: cos(a + b) = cos a cos b - sin a sin b."
)
def no_minus(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "The minus of each block is at the cosine in its second row, which makes a mirror and no rotation. "
    "Put it at the sine of that row: (-sin, cos)."
)
def a_mirror(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), -np.cos(angle)
    return M


@EXERCISE.misconception(
    "You turn all pairs by the same angle k. Turn pair i by k / 10000^(2i/d_model): each pair has its "
    "own frequency."
)
def one_frequency_for_all(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        M[i, i], M[i, i + 1] = np.cos(k), np.sin(k)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(k), np.cos(k)
    return M


@EXERCISE.misconception(
    "Your frequencies are 10000^(-i/d_model). Use the exponent -2i/d_model for pair i, as in the encoding.",
    gravity="slip",
)
def i_for_2i(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (i / d_model)
        M[2 * i, 2 * i], M[2 * i, 2 * i + 1] = np.cos(angle), np.sin(angle)
        M[2 * i + 1, 2 * i], M[2 * i + 1, 2 * i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Your later pairs turn faster and faster: their angles are k times 10000^(2i/d_model). Divide k by "
    "this power, as in the encoding."
)
def multiplied_by_the_power(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k * 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Your pairs are channels i and i + d_model/2. In this encoding the sine and the cosine of one "
    "frequency are neighbours, 2i and 2i + 1: put the blocks along the diagonal.",
    gravity="slip",
)
def sines_and_cosines_in_halves(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    C, S = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[C, S], [-S, C]])


@EXERCISE.misconception(
    "Your matrix moves *channels* to other places, as np.eye(d_model, k=k) does. Move the position "
    "instead: turn each pair of channels by k times its frequency.",
    gravity="useless",
)
def moves_channels(k, d_model):
    return np.eye(d_model, k=k)


@EXERCISE.misconception(
    "You scale each channel by cos(k w) and leave out the other channel of its pair. Write both into "
    "each row: sin(a + b) = sin a cos b + cos a sin b needs the cosine of a as well."
)
def cosines_on_the_diagonal(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.diag(np.repeat(np.cos(angles), 2))


@EXERCISE.misconception(
    "Your matrix takes position 0 to position k, and no other position to where it belongs. Make one "
    "that does not depend on the position: use the addition formulas for sin(a + b) and cos(a + b)."
)
def right_for_position_0_only(k, d_model):
    rates = 10000 ** (-np.arange(0, d_model, 2) / d_model)
    start, end = np.zeros(d_model), np.zeros(d_model)
    start[1::2] = 1
    end[0::2], end[1::2] = np.sin(k * rates), np.cos(k * rates)
    return np.outer(end, start) / (start @ start)


@EXERCISE.misconception(
    "For a negative k nothing moves, as in a loop over range(k), which is then empty. Put k into the "
    "angle, or step back with the transposed matrix."
)
def a_loop_of_k_steps(k, d_model):
    step = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = 1 / 10000 ** (i / d_model)
        step[i, i], step[i, i + 1] = np.cos(angle), np.sin(angle)
        step[i + 1, i], step[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    M = np.eye(d_model)
    for _ in range(k):
        M = step @ M
    return M


@EXERCISE.misconception(
    "For a negative k your matrix moves on by |k|. Keep the sign of k and it moves back: sin(-a) = "
    "-sin(a) does the rest."
)
def sign_of_k_dropped(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = abs(k) / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "You return the 2 x 2 blocks as a stack, (d_model/2, 2, 2). Put them along the diagonal of one "
    "matrix of zeros, (d_model, d_model)."
)
def blocks_not_assembled(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.array([[cos, sin], [-sin, cos]]).transpose(2, 0, 1)


@EXERCISE.misconception(
    "Your blocks fill the whole matrix, so that every pair mixes with every other. Put block i at rows "
    "and columns 2i and 2i + 1, and zeros everywhere else."
)
def blocks_everywhere(k, d_model):
    M = np.zeros((d_model, d_model))
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    M[0::2, 0::2], M[0::2, 1::2] = np.cos(angles), np.sin(angles)
    M[1::2, 0::2], M[1::2, 1::2] = -np.sin(angles), np.cos(angles)
    return M


@EXERCISE.misconception(
    "Sine and cosine are exchanged: for k = 0 your matrix turns by a quarter. Put the cosine on the "
    "diagonal.",
    gravity="slip",
)
def sine_and_cosine_exchanged(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.sin(angle), np.cos(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.cos(angle), np.sin(angle)
    return M


@EXERCISE.style("block by block along the diagonal")
def block_by_block(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    return M


@EXERCISE.style("every second row and column")
def every_second(k, d_model):
    angles = k * 10000 ** (-np.arange(0, d_model, 2) / d_model)
    M = np.zeros((d_model, d_model))
    M[0::2, 0::2] = M[1::2, 1::2] = np.diag(np.cos(angles))
    M[0::2, 1::2] = np.diag(np.sin(angles))
    M[1::2, 0::2] = -np.diag(np.sin(angles))
    return M


@EXERCISE.style("three diagonals")
def three_diagonals(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    beside = np.zeros(d_model)
    beside[0::2] = np.sin(angles)
    beside = beside[:-1]
    return np.diag(np.repeat(np.cos(angles), 2)) + np.diag(beside, 1) - np.diag(beside, -1)


@EXERCISE.style("read off the encoding of position k")
def from_the_encoding(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe_k = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    M = np.zeros((d_model, d_model))
    for i, (sin, cos) in enumerate(pe_k):
        M[2 * i, 2 * i : 2 * i + 2] = cos, sin
        M[2 * i + 1, 2 * i : 2 * i + 2] = -sin, cos
    return M


@EXERCISE.style("a power of the matrix of one step")
def power_of_one_step(k, d_model):
    step = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = 10000.0 ** (-i / d_model)
        step[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return np.linalg.matrix_power(step, k)


@EXERCISE.style("blocks spread by einsum")
def spread_by_einsum(k, d_model):
    angles = k / 10000 ** (2 * np.arange(d_model // 2) / d_model)
    blocks = np.array([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]])
    return np.einsum("abi,ij->iajb", blocks, np.eye(d_model // 2)).reshape(d_model, d_model)


@EXERCISE.style("solved from encodings far apart")
def solved(k, d_model):
    rates = 10000 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.arange(0, 120_000, 401)[:, None] * rates
    moved = angles + k * rates
    before = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    after = np.concatenate([np.sin(moved), np.cos(moved)], axis=1)
    halves = np.linalg.lstsq(before, after, rcond=None)[0].T
    order = np.argsort(np.r_[np.arange(0, d_model, 2), np.arange(1, d_model, 2)])
    return halves[np.ix_(order, order)]
