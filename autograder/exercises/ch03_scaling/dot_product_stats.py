"""ch03_scaling/dot_product_stats: how far dot products spread, measured.

What is right is a distribution, so most criteria look at the results of many generators at once. The tests
allow for more than chance does: together they reject a right answer less than once in a million examinations
(`tests/exercises/test_statistics.py` measures it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from autograder.exercise import Case, Criterion, Exercise, Measure, Outcome, Seed, Trial
from autograder.values import as_array, describe
from tfcore import scaling

Array = np.ndarray

MANY = 12
"""Generators behind a case of the first criterion."""

SIGMAS = 9.0
"""How many standard errors the average may be off; a normal one strays so far once in 1e18."""


SWING = 3.0
"""How many times as widely as chance has it the variances may scatter from generator to generator."""


def over_generators(count: int) -> Measure:
    """Calls with `count` generators; the value is an array (count, 2) of means and variances."""

    def measure(call: Callable[[Case], Outcome], case: Case) -> Outcome:
        d_k, num_samples, first = case.args
        rows = []
        for i in range(count):
            outcome = call(Case(case.says, (d_k, num_samples, Seed(first.value + i))))
            if outcome.error or outcome.forbidden or not is_pair(outcome.value):
                return outcome
            rows.append([float(as_array(number)) for number in outcome.value])  # type: ignore[arg-type]
        return Outcome(np.array(rows))

    return measure


def same_generator_twice(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls twice with the same generator; the value is an array (2, 2) of means and variances."""
    outcomes = [call(case) for _ in range(2)]
    for outcome in outcomes:
        if outcome.error or outcome.forbidden or not is_pair(outcome.value):
            return outcome
    return Outcome(np.array([[float(number) for number in o.value] for o in outcomes]))


def is_pair(value: object) -> bool:
    """Whether it is two numbers."""
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        return False
    return all((array := as_array(number)) is not None and array.shape == () for number in value)


def standard_errors(d_k: int, num_samples: int) -> Array:
    """Those of the mean and of the variance of `num_samples` dot products.

    E[(q . k)^4] = 3 E|q|^4 = 3 d_k (d_k + 2), so the variance of the sample variance is
    (3 d_k (d_k + 2) - d_k^2) / num_samples.
    """
    return np.sqrt(np.array([d_k, 2 * d_k**2 + 6 * d_k]) / num_samples)


def _no_pair(value: object) -> str:
    return f"expected two numbers, the mean and the variance; got {describe(value)}"


def tells_mean_and_variance(trial: Trial) -> str | None:
    if not is_table(trial.value):
        return _no_pair(trial.value)
    d_k, num_samples, _ = trial.case.args
    right, errors, got = np.array([0.0, d_k]), standard_errors(d_k, num_samples), trial.value
    if not np.isfinite(got).all():
        return f"a mean or a variance is {got[~np.isfinite(got)][0]}"
    average, scatter = got.mean(axis=0), got.std(axis=0)
    if scatter[1] > SWING * errors[1] and d_k / 4 < average[1] < 2 * d_k:
        return (
            f"from one generator to the next your variance swings between {got[:, 1].min():.3g} and "
            f"{got[:, 1].max():.3g}; {num_samples} independent samples would mostly keep it within "
            f"{2 * errors[1]:.2g} of {d_k}"
        )
    for name, found, wanted, error in zip(("mean", "variance"), average, right, errors, strict=True):
        if not abs(found - wanted) < SIGMAS * error / np.sqrt(len(got)):
            return f"your {name} is about {found:.4g}; that of q . k is {wanted:g}"
    return None


def tells_fresh_pairs(trial: Trial) -> str | None:
    """Whether means scatter as those of `num_samples` independent dot products do: the sum of their squares,
    in standard errors, is chi-squared with as many degrees of freedom as generators.
    """
    if not is_table(trial.value):
        return _no_pair(trial.value)
    d_k, num_samples, _ = trial.case.args
    means, right = trial.value[:, 0], standard_errors(d_k, num_samples)[0]
    scatter = float(np.mean((means / right) ** 2))
    if 0.2 < scatter < 4 or (_constant(means) and 0 < scatter < 16):
        return None  # one result for all generators is another criterion's business
    return (
        f"with {num_samples} samples of d_k = {d_k} your means scatter by {means.std():.2g} around 0; "
        f"those of {num_samples} independent dot products scatter by {right:.2g}"
    )


def tells_the_same(trial: Trial) -> str | None:
    if not is_table(trial.value):
        return _no_pair(trial.value)
    one, other = trial.value
    if np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True):
        return None
    return (
        f"two calls with the same generator give means {one[0]:.4g} and {other[0]:.4g}; draw every random "
        "number from rng"
    )


def tells_apart(trial: Trial) -> str | None:
    if not is_table(trial.value):
        return _no_pair(trial.value)
    if len(np.unique(trial.value[:, 0])) == len(trial.value):
        return None
    return (
        f"other generators give the same mean {trial.value[0, 0]:.4g} again; draw from the rng that is passed"
    )


def is_table(value: object) -> bool:
    """Whether the value is what the measures above make of results that are pairs."""
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == 2


def same_distribution(got: Array, expected: Array, case: Case) -> bool:
    """Whether two candidates' results over several generators differ no more than by the draw.

    Equal are: whether the results vary at all, and, where there are enough of them, their averages within
    six standard errors and their spreads within a factor.
    """
    if not (is_table(got) and is_table(expected)):
        return False
    if not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return False
    d_k = case.args[0]
    theory = np.array([0.0, d_k])
    if _constant(got) or _constant(expected):
        return _constant(got) == _constant(expected) and (
            np.array_equal(got[0], theory) == np.array_equal(expected[0], theory)
        )
    if len(got) < MANY:
        return True
    errors = np.sqrt((got.var(axis=0) + expected.var(axis=0)) / (len(got) - 1))
    if (np.abs(got.mean(axis=0) - expected.mean(axis=0)) > 6 * errors + 1e-12).any():
        return False
    spreads = np.log((got.std(axis=0) + 1e-12) / (expected.std(axis=0) + 1e-12))
    return bool((np.abs(spreads) < np.log([4.0, 6.0])).all())


def _constant(table: Array) -> bool:
    return bool(np.allclose(table, table[0], rtol=1e-9, atol=1e-12))


def generator(rng: np.random.Generator) -> Seed:
    return Seed(int(rng.integers(1 << 30)))


def large_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("90 samples of d_k = 64", (64, 90, generator(rng)))
    yield Case("600 samples of d_k = 3", (3, 600, generator(rng)))


def small_samples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("25 samples of d_k = 7", (7, 25, generator(rng)))


def a_few(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("40 samples of d_k = 6", (6, 40, generator(rng)))
    yield Case("50 samples of d_k = 1", (1, 50, generator(rng)))


EXERCISE = Exercise(
    name="ch03_scaling/dot_product_stats",
    signature="dot_product_stats(d_k, num_samples, rng)",
    goal="Measure the mean and the variance of q . k over many pairs of standard normal vectors.",
    reference=scaling.dot_product_stats,
    criteria=(
        Criterion(
            "a mean near 0 and a variance near d_k",
            2,
            large_samples,
            test=tells_mean_and_variance,
            measure=over_generators(MANY),
        ),
        Criterion(
            "num_samples pairs, each drawn afresh",
            1,
            small_samples,
            test=tells_fresh_pairs,
            measure=over_generators(40),
        ),
        Criterion(
            "the same generator gives the same result",
            0.5,
            a_few,
            test=tells_the_same,
            measure=same_generator_twice,
        ),
        Criterion(
            "another generator gives another result", 0.5, a_few, test=tells_apart, measure=over_generators(3)
        ),
    ),
    same=same_distribution,
)


@EXERCISE.misconception(
    "You draw one query and use it for all samples. Then you measure how far dot products with *that* query "
    "spread, |q|^2, which is another number for each query: draw a fresh q and k for every sample."
)
def one_query_for_all(d_k, num_samples, rng):
    q = rng.standard_normal(d_k)
    k = rng.standard_normal((num_samples, d_k))
    dots = k @ q
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your variance is 1 whatever d_k is: you have divided by sqrt(d_k) already. Measure q . k itself; the "
    "spread that you see is the reason for the scale."
)
def scaled_already(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1) / np.sqrt(d_k)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You take the variance of the single products q_i k_i, which is 1. Add up the d_k products of each pair "
    "first: one dot product per sample."
)
def products_not_summed(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    return (q * k).mean(), (q * k).var()


@EXERCISE.misconception(
    "d_k and num_samples are swapped: you draw d_k vectors of num_samples components. One sample is one row "
    "of d_k numbers; the sum runs along it."
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


@EXERCISE.misconception("You return the standard deviation. The variance is its square: dots.var().")
def standard_deviation(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.std()


@EXERCISE.misconception("You return the variance first. The order is mean, variance.")
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
    "You return what theory says, 0 and d_k. Here you measure it: draw the vectors and look whether theory "
    "holds."
)
def theory_returned(d_k, num_samples, rng):
    return 0.0, float(d_k)


@EXERCISE.misconception(
    "You make a generator with a fixed seed of your own, so every caller gets the same sample. Draw from the "
    "rng that is passed."
)
def seed_of_its_own(d_k, num_samples, rng):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "np.random.randn draws from numpy's global state, so nobody can repeat your result. Call the methods of "
    "the rng that is passed."
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
