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
"""Generators behind a case of the first criterion."""

SIGMAS = 9.0
"""How many standard errors the average may be off; a normal one strays so far once in 1e18."""

SWING = 3.0
"""How many times as widely as chance has it the variances may scatter from generator to generator."""

MOST = 600
"""Generators behind a case of the second criterion: enough to tell half of the samples from all of them."""

PAIRS = 200
"""Generators behind a case of the last criterion: with 2 samples a right variance is below the squared mean
in 39 of 100 at least, whatever its ddof, so that none of 200 is once in 1e40."""

LOG_PRODUCT = -(np.euler_gamma + math.log(2))
"""The mean of ln |q k| for standard normal numbers q and k; it is half of that for one number."""

LOG_SIGMAS = 6.0
"""How many standard errors that mean may be off; its standard deviation is pi / 2."""


@dataclass(frozen=True)
class NoPair:
    """Stands for a result that is not two numbers."""

    value: Any


def over_generators(count: int) -> Measure:
    """Calls with `count` generators; the value is an array (count, 2) of means and variances."""

    def measure(call: Callable[[Case], Outcome], case: Case) -> Outcome:
        d_k, num_samples, first = case.args
        seeds = range(first.value, first.value + count)
        asked = forgiving(call) if num_samples == 1 else call
        return table(asked, [Case(case.says, (d_k, num_samples, Seed(seed))) for seed in seeds])

    return measure


def forgiving(call: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    """The same call; where a variance over n - 1 = 0 raises an error, mean and variance are NaN."""

    def forgiven(case: Case) -> Outcome:
        outcome = call(case)
        nothing_to_divide_by = outcome.error in ("ZeroDivisionError", "ValueError")  # statistics.variance
        return replace(outcome, error=None, value=(np.nan, np.nan)) if nothing_to_divide_by else outcome

    return forgiven


def same_generator_twice(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls twice with the same generator; the value is an array (2, 2) of means and variances."""
    return table(call, [case, case])


def table(call: Callable[[Case], Outcome], cases: list[Case]) -> Outcome:
    """The means and variances of several calls, or what the first gave that was no such pair."""
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
    """The two numbers that a value is made of, if it is."""
    listed = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
    parts = list(value) if listed else []
    found = [float(part) for one in parts if (part := as_array(one)) is not None and not part.shape]
    return found if len(found) == len(parts) == 2 else None


def standard_errors(d_k: int, num_samples: int) -> Array:
    """Those of the mean and of the variance of `num_samples` dot products.

    E[(q . k)^4] = 3 E|q|^4 = 3 d_k (d_k + 2), so the variance of the sample variance is
    (3 d_k (d_k + 2) - d_k^2) / num_samples.
    """
    return np.sqrt(np.array([d_k, 2 * d_k**2 + 6 * d_k]) / num_samples)


def of_pairs(test: Callable[[Trial], str | None]) -> Callable[[Trial], str | None]:
    """A test of a table, for results that may be no pairs."""

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
    """Whether means scatter as those of `num_samples` independent dot products do: the sum of their squares,
    in standard errors, is chi-squared with as many degrees of freedom as generators. With d_k = 1 it is the
    shape of the distribution that is looked at.
    """
    d_k, num_samples, _ = trial.case.args
    means, right = trial.value[:, 0], standard_errors(d_k, num_samples)[0]
    scatter = float(np.mean((means / right) ** 2))
    if _constant(means) and 0 < scatter < 16:
        return None  # one result for all generators is another criterion's business
    if d_k == 1:
        return _tells_products(means)
    if 0.65 < scatter < 1.45:
        return None
    return (
        f"with {num_samples} samples of d_k = {d_k} your means scatter by {means.std():.2g} around 0; "
        f"the means of {num_samples} independent dot products scatter by {right:.2g}: draw num_samples new "
        "pairs, no more and no fewer"
    )


def _tells_products(means: Array) -> str | None:
    """Whether single samples of d_k = 1 are products of two normal numbers."""
    means = means[np.isfinite(means)]  # a variance over n - 1 = 0 may have raised an error
    if not len(means):
        return None
    if (means == 0).any():
        return "with one sample of d_k = 1 your mean is 0; draw as many pairs as num_samples says"
    if len(np.unique(np.round(means, 6))) < len(means) / 10:
        return (
            f"with d_k = 1 your q . k takes only a few values, such as {means[0]:.3g}; a product of two "
            "standard normal numbers can take any"
        )
    off = float(np.log(np.abs(means)).mean()) - LOG_PRODUCT
    if abs(off) < LOG_SIGMAS * math.pi / 2 / math.sqrt(len(means)):
        return None
    if off > 0:
        return (
            "with d_k = 1 your q . k is spread like a single normal number; the product of two has more near "
            "0 and more far out: draw q and k, both, from rng"
        )
    return (
        "with d_k = 1 your q . k has more near 0 and more far out than a product of two normal numbers: "
        "multiply one number of q with one of k, and no more"
    )


@of_pairs
def tells_around_the_mean(trial: Trial) -> str | None:
    """Whether the variance is taken around the mean, by one sample or two.

    E[x^2] is never below E[x]^2; with few samples it also comes near it.
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
    """Whether two candidates' results over several generators differ no more than by the draw.

    Equal are: whether the results vary at all, and, where there are enough of them, their averages within
    six standard errors and their spreads within a factor. A variance may have been divided by n or by n - 1,
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
    if _few(got) != _few(expected):
        return False
    counts = (d_k, n)  # of samples, and of what is taken for samples where the two are exchanged
    factors = [1.0, *((count - 1) / count for count in counts if count > 1)]
    return any(
        _same_spread(got, expected * [1.0, factor]) or _same_spread(got, expected / [1.0, factor])
        for factor in factors
    )


def _same_spread(got: Array, expected: Array) -> bool:
    errors = np.sqrt((got.var(axis=0) + expected.var(axis=0)) / (len(got) - 1))
    if (np.abs(got.mean(axis=0) - expected.mean(axis=0)) > 6 * errors + 1e-12).any():
        return False
    spreads = np.log((got.std(axis=0) + 1e-12) / (expected.std(axis=0) + 1e-12))
    return bool((np.abs(spreads) < np.log([4.0, 6.0])).all())


def _few(table: Array) -> bool:
    """Whether the means are so few different numbers that they can be no sums of normal ones."""
    return len(np.unique(np.round(table[:, 0], 6))) < len(table) / 10


def _constant(table: Array) -> bool:
    return bool(np.allclose(table, table[0], rtol=1e-9, atol=1e-12))


def generator(rng: np.random.Generator) -> Seed:
    return Seed(int(rng.integers(1 << 30)))


def large_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("90 samples of d_k = 64", (64, 90, generator(rng)))
    yield Case("600 samples of d_k = 3", (3, 600, generator(rng)))


def small_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("25 samples of d_k = 7", (7, 25, generator(rng)))
    yield Case("2 samples of d_k = 5", (5, 2, generator(rng)))
    yield Case("1 sample of d_k = 1", (1, 1, generator(rng)))


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


@EXERCISE.misconception(
    "You draw one query, or one key, for all samples. Then you measure how far dot products with *that* "
    "vector spread, |q|^2, which is another number for each query: draw a new q and k for every sample."
)
def one_query_for_all(d_k, num_samples, rng):
    q = rng.standard_normal(d_k)
    k = rng.standard_normal((num_samples, d_k))
    dots = k @ q
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your variance is 1 whatever d_k is: you have divided by sqrt(d_k) already. Measure q . k itself; its "
    "spread is the reason for the scale."
)
def scaled_already(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1) / np.sqrt(d_k)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You take the variance of the single products q_i k_i, which is 1. Add up the d_k products of each "
    "pair first: one dot product per sample."
)
def products_not_summed(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    return (q * k).mean(), (q * k).var()


@EXERCISE.misconception(
    "d_k and num_samples are exchanged: in what you draw, or in the axis that you sum along. One sample "
    "is one row of d_k numbers: sum along the row."
)
def sizes_swapped(d_k, num_samples, rng):
    q = rng.standard_normal((d_k, num_samples))
    k = rng.standard_normal((d_k, num_samples))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your key is the query itself, so you measure |q|^2, which is never negative and has mean d_k. Draw k "
    "apart from q."
)
def key_is_query(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    dots = (q * q).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You return the standard deviation. The variance is its square: dots.var().",
    gravity="slip",
)
def standard_deviation(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.std()


@EXERCISE.misconception(
    "You return the variance first. The order is mean, variance: `return dots.mean(), dots.var()`.",
    gravity="slip",
)
def variance_first(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.var(), dots.mean()


@EXERCISE.misconception(
    "You draw uniform numbers between 0 and 1, whose mean is 0.5. The components are standard normal: "
    "rng.standard_normal(...)."
)
def uniform_components(d_k, num_samples, rng):
    q = rng.random((num_samples, d_k))
    k = rng.random((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You compare every query with every key. That makes num_samples^2 dot products that share their vectors: "
    "pair row i of q with row i of k, (q * k).sum(axis=1)."
)
def every_pair(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = q @ k.T
    return dots.mean(), dots.var()


@EXERCISE.misconception("You always draw 500 samples, however many were asked for. Use num_samples.")
def always_500_samples(d_k, num_samples, rng):
    q = rng.standard_normal((500, d_k))
    k = rng.standard_normal((500, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You return the values of theory, 0 and d_k. Measure them here: draw the vectors, and see whether "
    "theory is right.",
    gravity="useless",
)
def theory_returned(d_k, num_samples, rng):
    return 0.0, float(d_k)


@EXERCISE.misconception(
    "Every caller gets the same sample, as a generator with a seed of your own gives it. Draw from the "
    "rng that is passed."
)
def seed_of_its_own(d_k, num_samples, rng):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "The same rng gives another result each time, as np.random.randn does: it draws from numpy's global "
    "state. Call the methods of the rng that is passed."
)
def global_state(d_k, num_samples, rng):
    q = np.random.randn(num_samples, d_k)
    k = np.random.randn(num_samples, d_k)
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "`randn` is a function of the old np.random. `rng` is a Generator: its method is "
    "rng.standard_normal(size), or rng.normal(size=size)."
)
def randn_of_the_generator(d_k, num_samples, rng):
    q = rng.randn(num_samples, d_k)
    k = rng.randn(num_samples, d_k)
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw components of +1 and -1. Mean and variance are the same, but the dot product of normal "
    "vectors can take any value: draw with rng.standard_normal(...)."
)
def plus_or_minus_one(d_k, num_samples, rng):
    q = rng.choice([-1.0, 1.0], size=(num_samples, d_k))
    k = rng.choice([-1.0, 1.0], size=(num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw the dot products themselves, with the variance d_k that you are to find. Draw q and k, and "
    "multiply them: then the variance is measured, not put in."
)
def dot_products_drawn(d_k, num_samples, rng):
    dots = rng.normal(0.0, np.sqrt(d_k), size=num_samples)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw only half of num_samples pairs. One sample is one dot product, and it takes a q *and* a k: "
    "draw num_samples of each."
)
def half_of_the_samples(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples // 2, d_k))
    k = rng.standard_normal((num_samples // 2, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your queries are the same in every call, as a generator with a fixed seed gives them, and only the "
    "keys are new. Draw both from the rng that is passed."
)
def queries_of_a_fixed_seed(d_k, num_samples, rng):
    q = np.random.default_rng(0).standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your variance is the mean of the squares. Subtract the mean before you square: dots.var(), or ((dots "
    "- dots.mean()) ** 2).mean().",
    gravity="slip",
)
def mean_not_subtracted(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), (dots**2).mean()


@EXERCISE.style("two matrices, multiplied and summed along the rows")
def rows(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.style("einsum, the variance with ddof=1, Python floats")
def unbiased(d_k, num_samples, rng):
    q, k = rng.normal(0.0, 1.0, size=(2, num_samples, d_k))
    dots = np.einsum("nd,nd->n", q, k)
    return float(np.mean(dots)), float(np.var(dots, ddof=1))


@EXERCISE.style("sample by sample, in a loop, keys first")
def sample_by_sample(d_k, num_samples, rng):
    dots = []
    for _ in range(num_samples):
        k = rng.standard_normal(d_k)
        q = rng.standard_normal(d_k)
        dots.append(q @ k)
    mean = sum(dots) / num_samples
    return mean, sum((dot - mean) ** 2 for dot in dots) / num_samples


@EXERCISE.style("pairs in columns, the variance as E[x^2] - E[x]^2, an array")
def columns(d_k, num_samples, rng):
    both = rng.standard_normal((d_k, num_samples, 2))
    dots = both.prod(axis=-1).sum(axis=0)
    return np.array([dots.mean(), (dots**2).mean() - dots.mean() ** 2])


@EXERCISE.style("in float32, component by component; 0-d arrays")
def component_by_component(d_k, num_samples, rng):
    dots = np.zeros(num_samples)
    for _ in range(d_k):
        q = rng.standard_normal(num_samples, dtype=np.float32)
        dots += q * rng.standard_normal(num_samples, dtype=np.float32)
    return np.asarray(dots.mean()), np.asarray(dots.var())


@EXERCISE.style("as a batch of 1x1 matrix products, np.cov")
def batched_matmul(d_k, num_samples, rng):
    q, k = (rng.normal(size=(num_samples, 1, d_k)) for _ in range(2))
    dots = (q @ np.swapaxes(k, -1, -2)).ravel()
    return np.average(dots), np.cov(dots)
