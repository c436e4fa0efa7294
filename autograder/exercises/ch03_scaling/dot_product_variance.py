"""ch03_scaling/dot_product_variance: how far dot products spread, derived."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import scaling


def number(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number with two decimals."""
    return round(float(rng.uniform(low, high)), 2)


def zero_means(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("unit variances, d_k = 64", (64, 1.0, 1.0))
    yield Case("one component", (1, number(rng, 1.5, 3), number(rng, 3.5, 5)))
    yield Case("other variances", (5, number(rng, 1.5, 3), number(rng, 3.5, 5)))
    yield Case("small variances", (12, number(rng, 0.02, 0.4), number(rng, 0.5, 0.9)))
    yield Case("integer variances", (7, 2, 5))
    yield Case("a key that never varies", (3, number(rng, 1.5, 3), 0.0))
    yield Case("variances above and below 1", (6, number(rng, 0.2, 0.8), number(rng, 1.5, 3)))
    yield Case("4,096 components", (4096, number(rng, 0.2, 0.8), number(rng, 1.5, 3)))


def with_means(rng: np.random.Generator) -> Iterator[Case]:
    def means(mean_q: float, mean_k: float) -> dict[str, float]:
        return {"mean_q": mean_q, "mean_k": mean_k}

    variances = number(rng, 1.5, 3), number(rng, 3.5, 5)
    yield Case("a query with a mean", (4, *variances), {"mean_q": number(rng, 0.5, 3)})
    yield Case("a key with a mean", (6, *variances), {"mean_k": number(rng, 0.5, 3)})
    both = means(number(rng, 0.5, 1.4), number(rng, 1.6, 3))
    yield Case("both with means", (5, *variances), both)
    yield Case("means by position", (9, *variances, *both.values()))
    yield Case("a negative mean", (8, *variances), means(-number(rng, 1.6, 3), number(rng, 0.5, 1.4)))
    yield Case("a key that is always the same", (3, variances[0], 0.0), {"mean_k": number(rng, 0.5, 3)})


def _got(trial: Trial) -> tuple[float, float]:
    return float(np.asarray(trial.value)), float(trial.expected)


def not_negative(trial: Trial) -> str | None:
    got, _ = _got(trial)
    return f"your variance is {got:.4g}; a variance is never negative" if got < 0 else None


def exact(trial: Trial) -> str | None:
    got, right = _got(trial)
    if got == round(got) != right and abs(got - right) < 1:
        return f"{got:g} is a whole number, but {right:.6g} is right; return the fraction too, without int()"
    if got == right or not abs(got - right) < 0.1 * abs(right):
        return None
    return (
        f"{got:.8g} is near {right:.8g}, which is right, but not equal: a term is missing or counted a wrong "
        "number of times; if you estimate it from samples, derive a formula instead"
    )


def grows_with_d_k(trial: Trial) -> str | None:
    d_k, *rest = trial.case.args
    doubled = float(trial.call(Case("doubled", (2 * d_k, *rest), trial.case.kwargs)).value)
    got, _ = _got(trial)
    if abs(doubled - 2 * got) < 1e-6 * max(1, abs(got)):
        return None
    return (
        f"from d_k = {d_k} to {2 * d_k} your variance goes from {got:.4g} to {doubled:.4g}; the variances of "
        "independent products add, so it should double"
    )


def symmetric(trial: Trial) -> str | None:
    d_k, var_q, var_k, *means = trial.case.args
    mean_q, mean_k = means or (trial.case.kwargs.get(name, 0.0) for name in ("mean_q", "mean_k"))
    swapped = Case("q and k swapped", (d_k, var_k, var_q), {"mean_q": mean_k, "mean_k": mean_q})
    other, (got, _) = float(trial.call(swapped).value), _got(trial)
    if abs(other - got) < 1e-6 * max(1, abs(got)):
        return None
    return f"swapping q and k changes your variance from {got:.4g} to {other:.4g}; q . k = k . q"


def additions(trial: Trial) -> str | None:
    """Find wrong means: the variances alone come out right."""
    d_k, var_q, var_k, *_ = trial.case.args
    bare = float(trial.call(Case("without means", (d_k, var_q, var_k))).value)
    if abs(bare - d_k * var_q * var_k) > 1e-6:
        return None
    got, _ = _got(trial)
    return (
        f"at zero means you are right; with these means you add {got - bare:.4g}; for one product, "
        "Var(ab) = E[a^2] E[b^2] - E[a]^2 E[b]^2 with E[a^2] = var_q + mean_q^2"
    )


def by_hand(trial: Trial) -> str | None:
    """Show the variance of one component, and the sum over all."""
    d_k, var_q, var_k, *means = trial.case.args
    mean_q, mean_k = means or (trial.case.kwargs.get(name, 0.0) for name in ("mean_q", "mean_k"))
    got, right = _got(trial)
    if got == right:
        return None
    one = var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2
    return (
        f"each component adds var_q * var_k + var_q * mean_k^2 + var_k * mean_q^2 = {one:.6g}; d_k = {d_k} "
        f"of them make {right:.6g}; you return {got:.6g}"
    )


EXERCISE = Exercise(
    name="ch03_scaling/dot_product_variance",
    signature="dot_product_variance(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0)",
    goal="Return the exact variance of q . k for independent components with these variances and means.",
    section="The variance, one assumption at a time",
    minutes=20,
    difficulty="medium",
    reference=scaling.dot_product_variance,
    criteria=(
        Criterion("the variance at zero means", 1.5, zero_means),
        Criterion("the variance at any means", 1.5, with_means),
    ),
    properties=(
        Property("a variance is not negative", not_negative),
        *FIRST[:3],
        Property("the result is exact", exact),
        Property("variances of independent products add", grows_with_d_k),
        Property("q . k = k . q", symmetric),
        Property("the means add the right amount", additions),
        *LAST,
        Property("each component adds its variance", by_hand),
    ),
)
