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
    """Find a wrong row that comes out right alone: other rows have changed it."""
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
    moved = trial.call(Case("shifted", (x + np.ones_like(x),), kwargs)).value
    change = np.max(np.abs(np.asarray(moved) - trial.value))
    if change < 1e-3:
        return None
    return f"adding 1 to every score moves a weight by {change:.2g}; it should change nothing"


EXERCISE = Exercise(
    name="ch02_qkv/softmax",
    signature="softmax(x, axis=-1)",
    goal="Turn scores of any size into positive weights that sum to 1 along `axis`.",
    section="The mathematics",
    minutes=15,
    difficulty="easy",
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
        Property("rows do not mix", a_row_alone_is_right),
        *FIRST,
        Property("weights are not negative", positive),
        Property("a constant added to a row changes nothing", shift_invariant),
        Property("weights sum to 1", sums_to_one),
        Property("weights are in proportion to the exponentials", proportions),
        *LAST,
    ),
    forbidden=SOFTMAX,
)
