"""ch03_scaling/dot_product_stats: how far dot products spread, measured.

A right answer is a distribution, so most criteria look at the results of many generators at once. The tests
allow for more than chance does: together they reject a right answer less than once in a million examinations
(`tests/exercises/test_exercises_statistics.py` measures it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder.checking.comparison import as_array, describe
from autograder.checking.declaration import Case, Criterion, Exercise, Measure, Outcome, Seed, Trial
from tfcore import scaling

Array = np.ndarray
MANY = 12
"""The number of generators of the first criterion."""
SIGMAS = 9.0
"""How many standard errors the average may be off; a normal distribution is so far off once in 1e18."""
SWING = 3.0
"""The allowed spread of the variances between generators, as a multiple of the spread by chance."""
MOST = 600
"""The number of generators of the second criterion: enough to tell half of the samples from all of them."""
LARGE = 50
"""From this number of samples on, two generators give similar variances."""
MOST_SCATTER = 2.0
"""The allowed spread of these variances, as a multiple of chance; with one k for 60 samples it is 3."""
PAIRS = 200
"""The number of generators of the last criterion: with 2 samples a right variance is below the squared mean
in at least 39 of 100 calls, whatever its ddof; that none of 200 calls has one happens once in 1e40."""
LOG_PRODUCT = -(np.euler_gamma + math.log(2))
"""The mean of ln |q k| for standard normal numbers q and k; it is half of that for one number."""
LOG_SIGMAS = 6.0
"""How many standard errors that mean may be off; the standard deviation of ln |q k| is pi / 2."""


@dataclass(frozen=True)
class NoPair:
    """Take the place of a result that is not two numbers."""

    value: Any


def over_generators(count: int) -> Measure:
    """Return a measure with `count` generators; its value is a (count, 2) array of means and variances."""

    def measure(call: Callable[[Case], Outcome], case: Case) -> Outcome:
        d_k, num_samples, first = case.args
        seeds = range(first.value, first.value + count)
        asked = forgiving(call) if num_samples == 1 else call
        return table(asked, [Case(case.says, (d_k, num_samples, Seed(seed))) for seed in seeds])

    return measure


def forgiving(call: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    """Return a call that gives NaN for mean and variance where a variance over n - 1 = 0 raises an error."""

    def forgiven(case: Case) -> Outcome:
        outcome = call(case)
        nothing_to_divide_by = outcome.error in ("ZeroDivisionError", "ValueError")  # statistics.variance
        return replace(outcome, error=None, value=(np.nan, np.nan)) if nothing_to_divide_by else outcome

    return forgiven


def same_generator_twice(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Call twice with the same generator; the value is an array (2, 2) of means and variances."""
    return table(call, [case, case])


def table(call: Callable[[Case], Outcome], cases: list[Case]) -> Outcome:
    """Return the means and variances of several calls, or the first result that was not such a pair."""
    rows = []
    for case in cases:
        outcome = call(case)
        if outcome.error or outcome.forbidden:
            return outcome
        pair = numbers(outcome.value)
        if pair is None:
            return Outcome(NoPair(outcome.value))
        rows.append(pair)
    return Outcome(np.array(rows))


def numbers(value: Any) -> list[float] | None:
    """Return the two numbers of a value, or None."""
    listed = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
    parts = list(value) if listed else []
    found = [float(part) for one in parts if (part := as_array(one)) is not None and not part.shape]
    return found if len(found) == len(parts) == 2 else None


def standard_errors(d_k: int, num_samples: int) -> Array:
    """Return the standard errors of the mean and of the variance of `num_samples` dot products.

    E[(q . k)^4] = 3 E|q|^4 = 3 d_k (d_k + 2), so the variance of the sample variance is
    (3 d_k (d_k + 2) - d_k^2) / num_samples.
    """
    return np.sqrt(np.array([d_k, 2 * d_k**2 + 6 * d_k]) / num_samples)


def of_pairs(test: Callable[[Trial], str | None]) -> Callable[[Trial], str | None]:
    """Make a test of a table into a test of results that may not be pairs."""

    def told(trial: Trial) -> str | None:
        if isinstance(trial.value, NoPair):
            return f"expected two numbers, the mean and the variance; got {describe(trial.value.value)}"
        return test(trial)

    return told


@of_pairs
def tells_mean_and_variance(trial: Trial) -> str | None:
    d_k, num_samples, _ = trial.case.args
    right, errors, got = np.array([0.0, d_k]), standard_errors(d_k, num_samples), trial.value
    if not np.isfinite(got).all():
        return (
            f"a mean or a variance is {got[~np.isfinite(got)][0]}: your code divides by zero, or it reads "
            "memory that was never written (np.empty)"
        )
    if np.array_equal(got, np.tile(right, (len(got), 1))):
        return f"your mean is exactly 0 and your variance exactly {d_k}; no sample gives that: measure them"
    average, scatter = got.mean(axis=0), got.std(axis=0)
    if scatter[1] > SWING * errors[1] and d_k / 4 < average[1] < 2 * d_k:
        return (
            f"from one generator to the next your variance swings between {got[:, 1].min():.3g} and "
            f"{got[:, 1].max():.3g}; {num_samples} independent samples would mostly keep it within "
            f"{2 * errors[1]:.2g} of {d_k}"
        )
    for name, found, wanted, error in zip(("mean", "variance"), average, right, errors, strict=True):
        if not abs(found - wanted) < SIGMAS * error / np.sqrt(len(got)):
            return f"your {name} is about {found:.4g}; the {name} of q . k is {wanted:g}"
    return None


@of_pairs
def tells_fresh_pairs(trial: Trial) -> str | None:
    """Check that means scatter like means of `num_samples` independent dot products: the sum of squares,
    in standard errors, is chi-squared with as many degrees of freedom as generators. With d_k = 1 the
    shape of the distribution is tested.
    """
    d_k, num_samples, _ = trial.case.args
    means, right = trial.value[:, 0], standard_errors(d_k, num_samples)[0]
    scatter = float(np.mean((means / right) ** 2))
    if _constant(means) and 0 < scatter < 16:
        return None  # one result for all generators is another criterion's business
    if d_k == 1:
        return _tells_products(means)
    if 0.65 < scatter < 1.45:
        return _tells_all_fresh(trial)
    return (
        f"with {num_samples} samples of d_k = {d_k} your means scatter by {means.std():.2g} around 0; "
        f"the means of {num_samples} independent dot products scatter by {right:.2g}: draw num_samples new "
        "pairs, no more and no fewer"
    )


def _tells_all_fresh(trial: Trial) -> str | None:
    """Check that the variances scatter little: with one k for all samples they scatter as |k|^2 does.

    The means do not show it: with one k they scatter as much as with a new k for each sample.
    """
    d_k, num_samples, _ = trial.case.args
    variances, error = trial.value[:, 1], standard_errors(d_k, num_samples)[1]
    if num_samples < LARGE or not variances.std() > MOST_SCATTER * error:
        return None
    return (
        f"with {num_samples} samples of d_k = {d_k} your variances scatter by {variances.std():.2g} from "
        f"generator to generator; with new vectors for each sample they scatter by {error:.2g}: draw a new q "
        "and a new k for each sample"
    )


def _tells_products(means: Array) -> str | None:
    """Check that single samples of d_k = 1 are products of two normal numbers."""
    means = means[np.isfinite(means)]  # a variance over n - 1 = 0 may have raised an error
    if not len(means):
        return None
    if (means == 0).any():
        return "with one sample of d_k = 1 your mean is 0; draw num_samples pairs"
    if len(np.unique(np.round(means, 6))) < len(means) / 10:
        return (
            f"with d_k = 1 your q . k takes only a few values, such as {means[0]:.3g}; a product of two "
            "standard normal numbers can take any value"
        )
    off = float(np.log(np.abs(means)).mean()) - LOG_PRODUCT
    if abs(off) < LOG_SIGMAS * math.pi / 2 / math.sqrt(len(means)):
        return None
    if off > 0:
        return (
            "with d_k = 1 your q . k is spread like one normal number; the product of two is more often near "
            "0 or far from it: draw both q and k from rng"
        )
    return (
        "with d_k = 1 your q . k is more often near 0 or far out than a product of two normal numbers: "
        "multiply one number of q with one of k, and no more"
    )


@of_pairs
def tells_around_the_mean(trial: Trial) -> str | None:
    """Check that the variance is taken around the mean, by one sample or two.

    E[x^2] is never below E[x]^2; with few samples it also comes near E[x]^2.
    """
    d_k, num_samples, _ = trial.case.args
    table = trial.value[np.isfinite(trial.value).all(axis=1)]
    if not len(table) or _constant(table[:, 0]):
        return None  # one result for all generators is another criterion's business
    squares = np.maximum(table[:, 0] ** 2, 1e-300)
    ratios = table[:, 1] / squares
    if num_samples == 1 and np.allclose(ratios, 1):
        return (
            f"with one sample of d_k = {d_k} your variance is {table[0, 1]:.4g}, the square of your mean "
            f"{table[0, 0]:.4g}; around its own mean one sample has the variance 0: subtract the mean first"
        )
    if num_samples == 2 and ratios.min() > 1 - 1e-9 and ratios.min() < 3:
        return (
            f"with 2 samples of d_k = {d_k} your variance is never below your squared mean: it is the mean "
            "of the squares; a variance is taken around the mean, so subtract the mean first"
        )
    return None


@of_pairs
def tells_the_same(trial: Trial) -> str | None:
    one, other = trial.value
    if np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True):
        return None
    return (
        f"two calls with the same generator give means {one[0]:.4g} and {other[0]:.4g}; draw every random "
        "number from rng"
    )


@of_pairs
def tells_apart(trial: Trial) -> str | None:
    if not _constant(trial.value[:, 0]):
        return None
    return (
        f"other generators give the same mean {trial.value[0, 0]:.4g} again; draw from the rng that is passed"
    )


def same_distribution(got: Array, expected: Array, case: Case) -> bool:
    """Return whether two candidates' results over several generators differ no more than by chance.

    Both must vary, or neither. With enough results, their averages must be equal within six standard errors,
    and their spreads within a factor. A variance may have been divided by n or by n - 1,
    which makes 0 or NaN of a single number.
    """
    got, expected = (np.where(np.isnan(x) & [False, True], 0.0, x) for x in (got, expected))
    if not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return False
    d_k, n = case.args[:2]
    theory = np.array([0.0, d_k])
    if _constant(got) or _constant(expected):
        return _constant(got) == _constant(expected) and (
            np.array_equal(got[0], theory) == np.array_equal(expected[0], theory)
        )
    if len(got) < MANY:
        return True
    if _few(got) != _few(expected) or (n == 1 and not _same_logarithms(got[:, 0], expected[:, 0])):
        return False
    counts = (d_k, n)  # of components, and of samples, which an answer may exchange
    factors = [1.0, *((count - 1) / count for count in counts if count > 1)]
    return any(
        _same_spread(got, expected * [1.0, factor]) or _same_spread(got, expected / [1.0, factor])
        for factor in factors
    )


def _same_logarithms(got: Array, expected: Array) -> bool:
    """Tell products of different numbers of normal numbers apart, whose means and spreads may be equal."""
    one, other = (np.log(np.maximum(np.abs(x), 1e-300)).mean() for x in (got, expected))
    return bool(abs(one - other) < LOG_SIGMAS * math.pi / 2 * math.sqrt(2 / len(got)))


def _same_spread(got: Array, expected: Array) -> bool:
    errors = np.sqrt((got.var(axis=0) + expected.var(axis=0)) / (len(got) - 1))
    if (np.abs(got.mean(axis=0) - expected.mean(axis=0)) > 6 * errors + 1e-12).any():
        return False
    spreads = np.log((got.std(axis=0) + 1e-12) / (expected.std(axis=0) + 1e-12))
    return bool((np.abs(spreads) < np.log([4.0, 6.0])).all())


def _few(table: Array) -> bool:
    """Return whether the means have so few different numbers that they cannot be sums of normal numbers."""
    return len(np.unique(np.round(table[:, 0], 6))) < len(table) / 10


def _constant(table: Array) -> bool:
    return bool(np.allclose(table, table[0], rtol=1e-9, atol=1e-12))


def generator(rng: np.random.Generator) -> Seed:
    return Seed(int(rng.integers(1 << 30)))


def large_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("90 samples of d_k = 64", (64, 90, generator(rng)))
    yield Case("600 samples of d_k = 3", (3, 600, generator(rng)))


def small_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 samples of d_k = 5", (5, 2, generator(rng)))
    yield Case("1 sample of d_k = 1", (1, 1, generator(rng)))
    yield Case("60 samples of d_k = 3", (3, 60, generator(rng)))


def a_few(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("40 samples of d_k = 6", (6, 40, generator(rng)))
    yield Case("50 samples of d_k = 1", (1, 50, generator(rng)))


def one_or_two(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("1 sample of d_k = 4", (4, 1, generator(rng)))
    yield Case("2 samples of d_k = 3", (3, 2, generator(rng)))


EXERCISE = Exercise(
    name="ch03_scaling/dot_product_stats",
    signature="dot_product_stats(d_k, num_samples, rng)",
    goal="Measure the mean and the variance of q . k over many pairs of standard normal vectors.",
    section="The variance, one assumption at a time",
    minutes=20,
    difficulty="medium",
    reference=scaling.dot_product_stats,
    criteria=(
        Criterion(
            "a mean near 0 and a variance near d_k",
            1.5,
            large_samples,
            test=tells_mean_and_variance,
            measure=over_generators(MANY),
        ),
        Criterion(
            "num_samples pairs of normal vectors, new ones for each sample",
            1,
            small_samples,
            test=tells_fresh_pairs,
            measure=over_generators(MOST),
        ),
        Criterion(
            "the same generator gives the same result",
            0.5,
            a_few,
            test=tells_the_same,
            measure=same_generator_twice,
        ),
        Criterion(
            "another generator gives another result", 0.5, a_few, test=tells_apart, measure=over_generators(6)
        ),
        Criterion(
            "the variance is taken around the mean",
            0.5,
            one_or_two,
            test=tells_around_the_mean,
            measure=over_generators(PAIRS),
        ),
    ),
    same=same_distribution,
)
