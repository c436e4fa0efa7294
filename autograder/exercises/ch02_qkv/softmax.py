"""ch02_qkv/softmax: scores to weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.exercise import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one row of 4 scores", (rng.normal(size=4),))
    yield Case("3 rows of 5 scores", (rng.normal(size=(3, 5)),))
    yield Case("a batch of shape (2, 3, 7)", (2 * rng.normal(size=(2, 3, 7)),))
    yield Case("rows of a single score", (rng.normal(size=(3, 1)),))
    yield Case("float32 scores", (rng.normal(size=(4, 6)).astype(np.float32),))


def other_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("the columns of a (3, 5) array", (rng.normal(size=(3, 5)),), {"axis": 0})
    yield Case("the middle axis of (2, 7, 3)", (rng.normal(size=(2, 7, 3)),), {"axis": 1})
    yield Case("axis=-2 of (4, 5, 6)", (rng.normal(size=(4, 5, 6)),), {"axis": -2})
    yield Case("axis 0 of a strided array", (strided(rng.normal(size=(5, 2, 3))),), {"axis": 0})


def large(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("scores around 10,000", (1e4 + rng.normal(size=(3, 5)),))
    yield Case("scores around -10,000", (rng.normal(size=(2, 6)) - 1e4,))
    yield Case("rows far apart", (rng.normal(size=(3, 4)) + np.array([[-1e4], [0.0], [1e4]]),))
    spread = [1e4 * (rng.permutation(7) / 3 - 1) for _ in range(2)]
    yield Case("scores spread over 20,000", (np.array(spread) + rng.normal(size=(2, 7)),))
    yield Case("float32, around 10,000", ((1e4 + rng.normal(size=(3, 8))).astype(np.float32),))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("6 scores to nine digits", (rng.normal(size=6),))
    yield Case("the columns of a (4, 7) array to nine digits", (rng.normal(size=(4, 7)),), {"axis": 0})


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from other_axes(rng)
    yield from large(rng)


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
        *FIRST,
        Property("weights are not negative", positive),
        Property("a constant added to a row changes nothing", shift_invariant),
        Property("weights sum to 1", sums_to_one),
        Property("weights stand as the exponentials do", proportions),
        *LAST,
    ),
    forbidden=SOFTMAX,
)


@EXERCISE.misconception(
    "exp overflows for large scores, and is 0 for all of a very negative row: subtract each row's maximum "
    "first. The weights do not change, since the factor exp(-max) cancels."
)
def no_maximum(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the maximum of the whole array. A row that lies far below it underflows to 0/0: subtract "
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
    "Without keepdims=True the sum loses its axis, and dividing by it fails or pairs the wrong numbers."
)
def keepdims_forgotten(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis)


@EXERCISE.misconception("You divide by the sum over the whole array. Each row must sum to 1 by itself.")
def one_sum_for_all(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum()


@EXERCISE.misconception("You divide the scores by their sum. Softmax takes the exponential of each first.")
def no_exponential(x, axis=-1):
    return x / x.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "The exponentials are never divided by their sum, so they are no weights yet: divide by the sum along "
    "`axis`."
)
def not_normalised(x, axis=-1):
    return np.exp(x - x.max(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You add 1e-8 to the sum. With the maximum subtracted the sum is at least 1 and needs no protection, and "
    "with the 1e-8 the weights sum to 1 in seven digits only. Divide by the sum alone."
)
def epsilon_in_the_sum(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-8)


@EXERCISE.misconception(
    "`x -= ...` writes into the caller's array. Write `x = x - ...`, which makes a new one."
)
def changed_in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception("You return the logarithm of the weights. Take exp of it, or leave the log out.")
def log_of_softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@EXERCISE.misconception(
    "You put all weight on the largest score. Softmax is soft: every score gets a share, and gradients flow."
)
def hard_maximum(x, axis=-1):
    return (x == x.max(axis=axis, keepdims=True)) * 1.0


@EXERCISE.misconception(
    "You apply the sigmoid to each score by itself. The weights of a row must share one unit: divide each "
    "exp by the sum of the row's."
)
def sigmoid(x, axis=-1):
    return 0.5 * (1 + np.tanh(x / 2))


@EXERCISE.misconception(
    "Where an axis is asked for, `x -= ...` writes into the caller's array. Write `x = x - ...` there too."
)
def changed_in_place_on_other_axes(x, axis=-1):
    if axis == -1:
        x = x - x.max(axis=axis, keepdims=True)
    else:
        x -= x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the smallest score, which makes the others larger still, and exp overflows. Subtract the "
    "largest: then no exponent is above 0."
)
def minimum_subtracted(x, axis=-1):
    e = np.exp(x - x.min(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You subtract the mean. A score far above the mean still overflows: subtract the largest, so that no "
    "exponent is above 0."
)
def mean_subtracted(x, axis=-1):
    e = np.exp(x - x.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 0, the columns of a matrix. Use the `axis` that was passed, the last one "
    "unless the caller says otherwise."
)
def always_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


@EXERCISE.misconception(
    "You always normalise axis 1, which a single row does not have. Use the `axis` that was passed: -1, the "
    "last one, unless the caller says otherwise."
)
def always_axis_1(x, axis=-1):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along the last axis and your sum along `axis`. What is subtracted cancels only if it "
    "is the same for all scores that share a sum: x.max(axis=axis, keepdims=True)."
)
def maximum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along axis 0 and your sum along `axis`. What is subtracted cancels only if it is the "
    "same for all scores that share a sum: x.max(axis=axis, keepdims=True)."
)
def maximum_of_axis_0(x, axis=-1):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "Your maximum runs along `axis`, but your sum along the last axis. The weights must sum to 1 along "
    "`axis`: e.sum(axis=axis, keepdims=True)."
)
def sum_of_last_axis(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


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
