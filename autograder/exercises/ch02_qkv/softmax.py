"""ch02_qkv/softmax: scores to weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one row of 4 scores", (rng.normal(size=4),))
    yield Case("3 rows of 5 scores", (rng.normal(size=(3, 5)),))
    yield Case("a batch of shape (2, 3, 7)", (2 * rng.normal(size=(2, 3, 7)),))
    yield Case("rows of a single score", (rng.normal(size=(3, 1)),))
    yield Case("four axes, one of size 1", (rng.normal(size=(2, 6, 1, 4)),))
    yield Case("float32 scores", (rng.normal(size=(4, 6)).astype(np.float32),))


def other_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("the columns of a (3, 5) array", (rng.normal(size=(3, 5)),), {"axis": 0})
    yield Case("axis=0 of one row", (rng.normal(size=4),), {"axis": 0})
    yield Case("the middle axis of (2, 7, 3)", (rng.normal(size=(2, 7, 3)),), {"axis": 1})
    yield Case("axis=-2 of (4, 5, 6)", (rng.normal(size=(4, 5, 6)),), {"axis": -2})
    yield Case(
        "axis=-3 of (6, 1, 4), float32", (rng.normal(size=(6, 1, 4)).astype(np.float32),), {"axis": -3}
    )
    yield Case("an axis of size 1", (rng.normal(size=(3, 1, 5)),), {"axis": 1})
    yield Case("axis 0 of a strided array", (strided(rng.normal(size=(5, 2, 3))),), {"axis": 0})


def large(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("scores around 10,000", (1e4 + rng.normal(size=(3, 5)),))
    yield Case("scores around -10,000", (rng.normal(size=(2, 6)) - 1e4,))
    yield Case("rows far apart", (rng.normal(size=(3, 4)) + np.array([[-1e4], [0.0], [1e4]]),))
    spread = [1e4 * (rng.permutation(7) / 3 - 1) for _ in range(2)]
    yield Case("scores spread over 20,000", (np.array(spread) + rng.normal(size=(2, 7)),))
    yield Case("float32, around 10,000", ((1e4 + rng.normal(size=(3, 8))).astype(np.float32),))
    yield Case(
        "whole numbers around 10,000", (10_000 + rng.permuted(np.arange(-4, 6).reshape(2, 5), axis=1),)
    )


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("6 scores to nine digits", (rng.normal(size=6),))
    yield Case("the columns of a (4, 7) array to nine digits", (rng.normal(size=(4, 7)),), {"axis": 0})


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from other_axes(rng)
    yield from large(rng)


def _axis(trial: Trial) -> int:
    """Return the axis of a trial, counted from the end."""
    axis: int = trial.case.kwargs.get("axis", -1)
    return axis if axis < 0 else axis - trial.case.args[0].ndim


def the_axis_that_was_passed(trial: Trial) -> str | None:
    weights, axis = np.asarray(trial.value), trial.case.kwargs.get("axis", -1)
    if np.allclose(weights.sum(axis=axis), 1, atol=1e-4):
        return None
    for other in range(weights.ndim):
        if weights.shape[other] > 1 and np.allclose(weights.sum(axis=other), 1, atol=1e-4):
            named = other if axis >= 0 else other - weights.ndim
            return f"your weights sum to 1 along axis {named}; they should do so along axis {axis}"
    return None


def a_row_alone_is_right(trial: Trial) -> str | None:
    """Where a wrong row comes out right by itself, the other rows have reached it."""
    x, axis = trial.case.args[0], _axis(trial)
    if x.ndim < 2:
        return None
    got, right = (np.moveaxis(np.asarray(a), axis, -1) for a in (trial.value, trial.expected))
    wrong = np.argwhere(~np.isclose(got, right, rtol=1e-3, atol=1e-6).all(axis=-1))
    place = [slice(int(n), int(n) + 1) for n in wrong[0]]
    place.insert(x.ndim + axis, slice(None))
    part = tuple(place)
    alone = np.asarray(trial.call(Case("one row alone", (x[part].copy(),), trial.case.kwargs)).value)
    if not np.allclose(alone, trial.expected[part], rtol=1e-3, atol=1e-6):
        return None
    return (
        f"row {[int(n) for n in wrong[0]]} comes out right by itself and wrong among the others. Take the "
        "maximum and the sum of each row by itself: along `axis`, with keepdims=True"
    )


def sums_to_one(trial: Trial) -> str | None:
    axis = trial.case.kwargs.get("axis", -1)
    sums = np.asarray(trial.value).sum(axis=axis).ravel()
    wrong = np.flatnonzero(~(np.abs(sums - 1) < 1e-4))
    if not wrong.size:
        return None
    return f"row {wrong[0]} along axis {axis} sums to {sums[wrong[0]]:.6g}; weights sum to 1"


def nothing_added(trial: Trial) -> str | None:
    x, axis = trial.case.args[0], trial.case.kwargs.get("axis", -1)
    total = np.exp(x - x.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True)
    return added_to_the_sum(trial.value, trial.expected, total)


def proportions(trial: Trial) -> str | None:
    x, axis = trial.case.args[0], trial.case.kwargs.get("axis", -1)
    return not_softmax(np.moveaxis(trial.value, axis, -1), np.moveaxis(x, axis, -1), "the scores", 1.0)


def positive(trial: Trial) -> str | None:
    least = np.min(trial.value)
    return f"a weight is {least:.3g}; weights are never negative, since exp is not" if least < 0 else None


def shift_invariant(trial: Trial) -> str | None:
    (x,), kwargs = trial.case.args, trial.case.kwargs
    moved = trial.call(Case("shifted", (x + 1.0,), kwargs)).value
    change = np.max(np.abs(np.asarray(moved) - trial.value))
    if change < 1e-3:
        return None
    return f"adding 1 to every score moves a weight by {change:.2g}; it should change nothing"


EXERCISE = Exercise(
    name="ch02_qkv/softmax",
    signature="softmax(x, axis=-1)",
    goal="Turn scores into weights: positive, summing to 1 along `axis`, for scores of any size.",
    section="The mathematics",
    reference=ops.softmax,
    criteria=(
        Criterion("weights along the last axis", 1, ordinary, tolerance=3e-5),
        Criterion("any axis that is asked for", 0.5, other_axes, tolerance=3e-5),
        Criterion("scores as large as 10,000", 0.75, large, tolerance=2e-3),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the input is left as it was", 0.5, everything, observes="arguments"),
    ),
    properties=(
        Property("nothing is added to the sum", nothing_added),
        Property("weights sum to 1 along the axis that was passed", the_axis_that_was_passed),
        Property("rows do not meet", a_row_alone_is_right),
        *FIRST,
        Property("weights are not negative", positive),
        Property("a constant added to a row changes nothing", shift_invariant),
        Property("weights sum to 1", sums_to_one),
        Property("weights are in proportion to the exponentials", proportions),
        *LAST,
    ),
    forbidden=SOFTMAX,
)


@EXERCISE.misconception(
    "exp overflows for large scores, and is 0 for all of a very negative row. Subtract each row's maximum "
    "first: the weights do not change, since the factor exp(-max) cancels."
)
def no_maximum(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the maximum of the whole array. A row that is far below it underflows to 0/0. Subtract "
    "each row's own maximum, x.max(axis=axis, keepdims=True)."
)
def global_maximum(x, axis=-1):
    e = np.exp(x - x.max())
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception("You always normalise the last axis. Use the `axis` that was passed.")
def axis_ignored(x, axis=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@EXERCISE.misconception(
    "A maximum or a sum along `axis` loses that axis, so numpy pairs it with the wrong numbers or with "
    "none. Write keepdims=True in both: e.sum(axis=axis, keepdims=True)."
)
def keepdims_forgotten(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis)


@EXERCISE.misconception(
    "You divide by the sum over the whole array. Each row must sum to 1 by itself: e.sum(axis=axis, "
    "keepdims=True).",
    gravity="useless",
)
def one_sum_for_all(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum()


@EXERCISE.misconception(
    "You divide the scores by their sum. Take the exponential of each score first.",
    gravity="useless",
)
def no_exponential(x, axis=-1):
    return x / x.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You return exponentials that do not sum to 1. Divide them by their sum along `axis`.",
    gravity="useless",
)
def not_normalised(x, axis=-1):
    return np.exp(x - x.max(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 in seven digits only. With the maximum subtracted "
    "the sum is at least 1 and needs no protection: divide by the sum alone."
)
def epsilon_in_the_sum(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-8)


@EXERCISE.misconception(
    "Your code writes into the caller's array, as `x -= ...` does. Write `x = x - ...`, which makes a new "
    "one."
)
def changed_in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You return the logarithm of the weights. Return the weights: take exp of it, or leave the log out."
)
def log_of_softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You put all weight on the largest score. Softmax is soft: every score gets a share, and gradients flow.",
    gravity="useless",
)
def hard_maximum(x, axis=-1):
    return (x == x.max(axis=axis, keepdims=True)) * 1.0


@EXERCISE.misconception(
    "You apply the sigmoid to each score by itself, so a row does not sum to 1. Divide each exponential "
    "by the sum of its row.",
    gravity="useless",
)
def sigmoid(x, axis=-1):
    return 0.5 * (1 + np.tanh(x / 2))


@EXERCISE.misconception(
    "When another axis is passed, your code writes into the caller's array, as `x -= ...` does. Write `x "
    "= x - ...` there too."
)
def changed_in_place_on_other_axes(x, axis=-1):
    if axis == -1:
        x = x - x.max(axis=axis, keepdims=True)
    else:
        x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the smallest score, which makes the others larger still, and exp overflows. Subtract "
    "the largest score: then no exponent is above 0."
)
def minimum_subtracted(x, axis=-1):
    e = np.exp(x - x.min(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the mean. A score far above the mean still overflows. Subtract the largest score, so "
    "that no exponent is above 0."
)
def mean_subtracted(x, axis=-1):
    e = np.exp(x - x.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 0. Use the `axis` that was passed, the last one unless the caller says "
    "otherwise."
)
def always_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 1. Use the `axis` that was passed, the last one unless the caller says "
    "otherwise."
)
def always_axis_1(x, axis=-1):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along the last axis and your sum along `axis`. A number that is subtracted cancels "
    "only if all scores of a sum share it: write x.max(axis=axis, keepdims=True)."
)
def maximum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along axis 0 and your sum along `axis`. A number that is subtracted cancels only "
    "if all scores of a sum share it: write x.max(axis=axis, keepdims=True)."
)
def maximum_of_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along `axis`, but your sum runs along the last axis. The weights must sum to 1 "
    "along `axis`: write e.sum(axis=axis, keepdims=True)."
)
def sum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@EXERCISE.misconception(
    "You normalise axis 0 when no axis is passed. The default is the last axis: write `def softmax(x, "
    "axis=-1)`.",
    gravity="slip",
)
def default_axis_0(x, axis=0):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Whole scores give whole weights: the room for your result has the dtype of x. Make it with "
    "np.zeros(x.shape), which holds fractions.",
    gravity="slip",
)
def room_of_whole_numbers(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    weights = np.zeros_like(x)
    weights[...] = e / e.sum(axis=axis, keepdims=True)
    return weights


@EXERCISE.misconception(
    "You unpack x.shape into two sizes, so your code takes a matrix only. x has any number of axes: use "
    "`axis` with keepdims=True, and no sizes."
)
def unpacks_two_sizes(x, axis=-1):
    _rows, _columns = x.shape
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You handle a row and a matrix of rows, no more: with further axes a `row` is a matrix itself. Use "
    "`axis` with keepdims=True, which fits any number of axes."
)
def rows_of_a_matrix_only(x, axis=-1):
    def one_row(row):
        e = np.exp(row - row.max())
        return e / e.sum()

    if x.ndim == 1:
        return one_row(x)
    rows = x if axis in (-1, x.ndim - 1) else np.swapaxes(x, axis, -1)
    weights = np.array([one_row(row) for row in rows])
    return weights if axis in (-1, x.ndim - 1) else np.swapaxes(weights, axis, -1)


@EXERCISE.style("subtract the maximum, exponentiate, normalise")
def textbook(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(x, axis=-1):
    m = np.max(x, axis=axis, keepdims=True)
    lse = m + np.log(np.sum(np.exp(x - m), axis=axis, keepdims=True))
    return np.exp(x - lse)


@EXERCISE.style("each row by itself, in a loop")
def row_by_row(x, axis=-1):
    def one_row(row):
        e = np.exp(row - max(row))
        return e / sum(e)

    return np.apply_along_axis(one_row, axis, x)


@EXERCISE.style("the axis moved to the end, and back")
def moved_axis(x, axis=-1):
    y = np.moveaxis(np.array(x, dtype=np.float64), axis, -1)
    y -= y.max(axis=-1)[..., None]
    np.exp(y, out=y)
    y /= y.sum(axis=-1)[..., None]
    return np.moveaxis(y, -1, axis)


@EXERCISE.style("one over the sum of exponentials of differences")
def pairwise_differences(x, axis=-1):
    y = np.moveaxis(x, axis, -1)
    differences = y[..., None, :] - y[..., :, None]
    with np.errstate(over="ignore"):
        return np.moveaxis(1 / np.exp(differences).sum(axis=-1), -1, axis)
