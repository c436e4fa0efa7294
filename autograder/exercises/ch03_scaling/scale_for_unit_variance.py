"""ch03_scaling/scale_for_unit_variance: the factor that undoes the spread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST
from tfcore import scaling


def unit_variances(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("d_k = 64", (64,))
    yield Case("d_k = 1", (1,))
    yield Case("a drawn d_k", (int(rng.integers(5, 50)),))
    yield Case("d_k = 4,096", (4096,))
    yield Case("unit variances, given", (12, 1.0, 1.0))


def other_variances(rng: np.random.Generator) -> Iterator[Case]:
    def number(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 2)

    yield Case("a wide query", (16, number(2, 5)))
    yield Case("a wide key", (9,), {"var_k": number(2, 5)})
    yield Case("both wide", (7, number(1.5, 2.5), number(3, 5)))
    yield Case("both narrow", (20, number(0.02, 0.2), number(0.3, 0.8)))
    yield Case("a single component", (1, number(1.5, 2.5), number(0.3, 0.8)))
    yield Case("integer variances", (8, 3, 5))


def leaves_unit_variance(trial: Trial) -> str | None:
    d_k, var_q, var_k = (*trial.case.args, 1.0, 1.0)[:3]
    var_k = trial.case.kwargs.get("var_k", var_k)
    got = float(np.asarray(trial.value))
    if got <= 0:
        return f"your factor is {got:.4g}; it should be positive"
    return (
        f"scaled by your {got:.4g}, q . k has the variance s^2 * {d_k} * {var_q:g} * {var_k:g} = "
        f"{got**2 * d_k * var_q * var_k:.4g}; it should be 1"
    )


EXERCISE = Exercise(
    name="ch03_scaling/scale_for_unit_variance",
    signature="scale_for_unit_variance(d_k, var_q=1.0, var_k=1.0)",
    goal="Return the factor s that gives s * (q . k) variance 1, for components of mean zero.",
    section="The variance, one assumption at a time",
    minutes=5,
    difficulty="easy",
    reference=scaling.scale_for_unit_variance,
    criteria=(
        Criterion("the factor for unit variances", 1, unit_variances),
        Criterion("the factor for any variances", 1, other_variances),
    ),
    properties=(*FIRST, Property("the scaled variance is 1", leaves_unit_variance)),
)
