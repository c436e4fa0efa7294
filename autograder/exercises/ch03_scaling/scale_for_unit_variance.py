"""ch03_scaling/scale_for_unit_variance: the factor that undoes the spread."""

from __future__ import annotations

import math
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
        f"{got**2 * d_k * var_q * var_k:.4g}; it should have 1"
    )


EXERCISE = Exercise(
    name="ch03_scaling/scale_for_unit_variance",
    signature="scale_for_unit_variance(d_k, var_q=1.0, var_k=1.0)",
    goal="Return the factor s that gives s * (q . k) variance 1, for components of mean zero.",
    section="The variance, one assumption at a time",
    reference=scaling.scale_for_unit_variance,
    criteria=(
        Criterion("the factor for unit variances", 1, unit_variances),
        Criterion("the factor for any variances", 1, other_variances),
    ),
    properties=(*FIRST, Property("the scaled variance is 1", leaves_unit_variance)),
)


@EXERCISE.misconception(
    "You divide by d_k, the variance. A factor s changes the variance by s^2, so take the root: "
    "1/sqrt(d_k * var_q * var_k).",
    gravity="slip",
)
def no_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / (d_k * var_q * var_k)


@EXERCISE.misconception(
    "You return the standard deviation of q . k. The factor that makes it 1 is one over it: 1/sqrt(d_k * "
    "var_q * var_k).",
    gravity="slip",
)
def inverted(d_k, var_q=1.0, var_k=1.0):
    return np.sqrt(d_k * var_q * var_k)


@EXERCISE.misconception(
    "1/sqrt(d_k) is right for unit variances only. Wider components spread the dot product more: put "
    "var_q and var_k under the root too."
)
def variances_ignored(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k)


@EXERCISE.misconception(
    "You take the variances for standard deviations. Put them under the root: 1/sqrt(d_k * var_q * var_k)."
)
def sigma_for_variance(d_k, var_q=1.0, var_k=1.0):
    return 1 / (np.sqrt(d_k) * var_q * var_k)


@EXERCISE.misconception(
    "You take a root of the variances twice. Put them under the one root beside d_k: 1/sqrt(d_k * var_q * "
    "var_k)."
)
def root_twice(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * np.sqrt(var_q * var_k))


@EXERCISE.misconception(
    "You add the variances. For a product of independent factors they multiply: put d_k * var_q * var_k "
    "under the root."
)
def variances_averaged(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * (var_q + var_k) / 2)


@EXERCISE.misconception(
    "You use var_q for both. The variance of q . k is d_k * var_q * var_k: write 1/sqrt(d_k * var_q * var_k)."
)
def query_variance_only(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * var_q**2)


@EXERCISE.misconception(
    "You return the factor for q and for k each. Return the factor for their dot product, its square: the "
    "root, not the fourth root."
)
def fourth_root(d_k, var_q=1.0, var_k=1.0):
    return (d_k * var_q * var_k) ** -0.25


@EXERCISE.misconception(
    "The variances are in the numerator. A wider query needs a *smaller* factor: 1/sqrt(d_k * var_q * var_k)."
)
def variances_on_top(d_k, var_q=1.0, var_k=1.0):
    return np.sqrt(var_q * var_k / d_k)


@EXERCISE.style("one over the root")
def one_over_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.sqrt(d_k * var_q * var_k)


@EXERCISE.style("a negative power, a Python float")
def negative_power(d_k, var_q=1.0, var_k=1.0):
    return float((d_k * var_q * var_k) ** -0.5)


@EXERCISE.style("root by root, with math")
def root_by_root(d_k, var_q=1.0, var_k=1.0):
    return 1 / (math.sqrt(d_k) * math.sqrt(var_q) * math.sqrt(var_k))


@EXERCISE.style("through the logarithm; a 0-d array")
def through_the_logarithm(d_k, var_q=1.0, var_k=1.0):
    return np.asarray(np.exp(-0.5 * (np.log(d_k) + np.log(var_q) + np.log(var_k))))


@EXERCISE.style("one over the length of a vector")
def one_over_a_norm(d_k, var_q=1.0, var_k=1.0):
    return 1 / np.linalg.norm(np.full(d_k, np.sqrt(var_q) * np.sqrt(var_k)))
