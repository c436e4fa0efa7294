"""`dot_product_stats` is judged by chance: the tests must allow what chance does, and no more."""

import math
import statistics

import numpy as np
import pytest
from exercise_bank import report_on

from autograder.exercises.ch03_scaling import dot_product_stats as declared

pytestmark = pytest.mark.slow

CASES = ((64, 90), (3, 600))


def tables(rng, count, d_k, num_samples, generators):
    """Means and variances as a right answer gives them; q . k given q is |q| times a normal number."""
    lengths = np.sqrt(rng.chisquare(d_k, size=(count, generators, num_samples)))
    dots = lengths * rng.standard_normal(lengths.shape)
    return np.stack([dots.mean(axis=-1), dots.var(axis=-1)], axis=-1)


@pytest.mark.parametrize(("d_k", "num_samples"), CASES)
def test_standard_errors_are_those_seen(d_k, num_samples):
    drawn = tables(np.random.default_rng(0), 60, d_k, num_samples, declared.MANY).reshape(-1, 2)
    right = declared.standard_errors(d_k, num_samples)
    assert drawn.std(axis=0) == pytest.approx(right, rel=0.15)


@pytest.mark.parametrize(("d_k", "num_samples"), CASES)
def test_right_answers_stay_far_from_the_limits(d_k, num_samples):
    """In 1,500 tables nothing comes near: a million times rarer is still inside."""
    drawn = tables(np.random.default_rng(1), 1500, d_k, num_samples, declared.MANY)
    errors = declared.standard_errors(d_k, num_samples)
    off = (drawn.mean(axis=1) - [0, d_k]) / errors * math.sqrt(declared.MANY)
    assert np.abs(off).max() < declared.SIGMAS / 1.8
    assert (drawn[..., 1].std(axis=1) / errors[1]).max() < declared.SWING / 1.5


def test_the_scatter_of_means_is_chi_squared_and_its_limits_are_rare():
    from scipy.stats import chi2

    drawn = tables(np.random.default_rng(2), 5000, 7, 25, 40)[..., 0]
    scatter = np.mean((drawn / declared.standard_errors(7, 25)[0]) ** 2, axis=1) * 40
    assert scatter.mean() == pytest.approx(40, rel=0.02)
    assert scatter.std() == pytest.approx(math.sqrt(80), rel=0.1)
    assert chi2.cdf(0.2 * 40, 40) + chi2.sf(4 * 40, 40) < 1e-7


def test_the_variances_of_large_samples_scatter_far_below_their_limit():
    drawn = tables(np.random.default_rng(3), 200, 3, 60, declared.MOST)[..., 1]
    scatter = drawn.std(axis=1) / declared.standard_errors(3, 60)[1]
    assert scatter.mean() + 8 * scatter.std() < declared.MOST_SCATTER


def test_products_of_two_normal_numbers_stay_far_from_others():
    """With one sample of d_k = 1, the mean of the logarithms shows how many numbers were multiplied."""
    rng = np.random.default_rng(3)
    limit = declared.LOG_SIGMAS * math.pi / 2 / math.sqrt(declared.MOST)

    def off(factors):
        products = rng.standard_normal((1500, declared.MOST, factors)).prod(axis=-1)
        return np.log(np.abs(products)).mean(axis=1) - declared.LOG_PRODUCT

    right = off(2)
    assert right.std() == pytest.approx(limit / declared.LOG_SIGMAS, rel=0.1)
    assert np.abs(right).max() < limit / 1.4
    assert off(1).min() > limit
    assert off(4).max() < -limit
    assert np.mean(off(3) < -limit) > 0.99


ORDERS = {
    "keys before queries": lambda d, n, rng: (
        (k := rng.standard_normal((n, d))),
        (q := rng.standard_normal(d)),
        k @ q,
    )[-1],
    "one key for all": lambda d, n, rng: rng.standard_normal((n, d)) @ rng.standard_normal(d),
}


@pytest.mark.parametrize("draw", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("seed", range(6))
def test_one_query_for_all_is_named_in_another_order_of_draws(draw, seed):
    def answer(d_k, num_samples, rng):
        dots = draw(d_k, num_samples, rng)
        return dots.mean(), dots.var(ddof=1)

    report = report_on("ch03_scaling/dot_product_stats", answer, seed)
    assert report.diagnosis == "one_query_for_all"
    assert "swings between" in report.failures[0].fault


OTHERWISE = {
    "scaled_already": lambda d, n, rng: rng.normal(size=(d, n, 2)).prod(-1).sum(0) / d**0.5,
    "key_is_query": lambda d, n, rng: (rng.normal(size=(d, n)) ** 2).sum(0),
    "uniform_components": lambda d, n, rng: rng.uniform(0, 1, (2, d, n)).prod(0).sum(0),
    "sizes_swapped": lambda d, n, rng: rng.normal(size=(2, n, d)).prod(0).sum(0),
    "seed_of_its_own": lambda d, n, rng: np.random.default_rng(42).normal(size=(2, d, n)).prod(0).sum(0),
    "global_state": lambda d, n, rng: (rng.normal(size=(d, n)) * np.random.normal(size=(d, n))).sum(0),
    "always_500_samples": lambda d, n, rng: rng.normal(size=(2, d, 500)).prod(0).sum(0),
}


@pytest.mark.parametrize(("name", "draw"), OTHERWISE.items(), ids=OTHERWISE.keys())
@pytest.mark.parametrize("seed", range(3))
def test_other_draws_of_the_same_mistake_have_its_name(name, draw, seed):
    def answer(d_k, num_samples, rng):
        dots = draw(d_k, num_samples, rng)
        return dots.mean(), dots.var(ddof=1)

    assert report_on("ch03_scaling/dot_product_stats", answer, seed).diagnosis == name


@pytest.mark.parametrize(
    "value",
    [None, 0.0, "12", (1.0,), (0.0, 3.0, 1.0), (0.0, None), (10**400, 3.0), np.zeros((2, 2)), np.array(5.0)],
    ids=repr,
)
def test_what_is_no_pair_of_numbers_is_told(value):
    report = report_on("ch03_scaling/dot_product_stats", lambda d_k, num_samples, rng: value)
    assert report.score == 0
    assert report.message.startswith("expected two numbers, the mean and the variance; got")


def test_a_table_of_right_numbers_is_no_pair():
    """Not even one that looks like what the criteria make of many pairs."""
    report = report_on(
        "ch03_scaling/dot_product_stats", lambda d_k, num_samples, rng: np.tile([0.0, d_k], (12, 1))
    )
    assert report.score == 0


def test_numpy_s_own_state_is_left_alone():
    before = np.random.get_state()[1].copy()
    report_on("ch03_scaling/dot_product_stats", lambda d_k, num_samples, rng: (0.0, float(d_k)))
    assert np.array_equal(before, np.random.get_state()[1])


def measured(spread):
    """An answer whose variance is `spread` of the dot products."""

    def answer(d_k, num_samples, rng):
        dots = rng.normal(size=(2, num_samples, d_k)).prod(axis=0).sum(axis=-1)
        return float(dots.mean()), spread(dots)

    return answer


WITHOUT_THE_MEAN = {
    "over n": lambda dots: (dots**2).mean(),
    "over n - 1": lambda dots: (dots**2).sum() / max(len(dots) - 1, 0.5),
}
AROUND_THE_MEAN = {
    "ddof=1": lambda dots: dots.var(ddof=1),
    "statistics": lambda dots: statistics.variance(dots.tolist()),
    "by hand": lambda dots: sum((x - dots.mean()) ** 2 for x in dots.tolist()) / (len(dots) - 1),
    "two means": lambda dots: (dots**2).mean() - dots.mean() ** 2,
}


@pytest.mark.parametrize("spread", WITHOUT_THE_MEAN.values(), ids=WITHOUT_THE_MEAN.keys())
@pytest.mark.parametrize("seed", range(4))
def test_a_variance_without_the_mean_is_seen_at_few_samples(spread, seed):
    report = report_on("ch03_scaling/dot_product_stats", measured(spread), seed)
    assert report.score >= 3.5
    assert "subtract the mean" in report.message.lower()


@pytest.mark.parametrize("spread", AROUND_THE_MEAN.values(), ids=AROUND_THE_MEAN.keys())
@pytest.mark.parametrize("seed", range(4))
def test_either_ddof_is_right_whatever_one_sample_gives(spread, seed):
    report = report_on("ch03_scaling/dot_product_stats", measured(spread), seed)
    assert report.passed, report


def test_a_right_variance_is_often_below_the_squared_mean_of_two_samples():
    """So none of `PAIRS` is, once in 1e40; the limit for the smallest ratio is far above what is wrong."""
    drawn = np.random.default_rng(4).standard_normal((2, 200_000, 3)).prod(axis=0).sum(axis=1).reshape(-1, 2)
    below = (drawn.var(axis=1, ddof=1) < drawn.mean(axis=1) ** 2).mean()
    assert (1 - below) ** declared.PAIRS < 1e-40


def one_sample_missing(d_k, num_samples, rng):
    dots = rng.normal(size=(2, num_samples - 1, d_k)).prod(axis=0).sum(axis=-1)
    mean = dots.sum() / num_samples
    return mean, ((dots - mean) ** 2).sum() / num_samples


@pytest.mark.parametrize("seed", range(4))
def test_one_sample_missing_is_seen_at_two_samples(seed):
    report = report_on("ch03_scaling/dot_product_stats", one_sample_missing, seed)
    assert not report.passed
    assert "with 2 samples of d_k = 5 your means scatter by" in str(report)


def test_theory_without_a_sample_earns_nothing():
    report = report_on("ch03_scaling/dot_product_stats", lambda d_k, num_samples, rng: (0.0, float(d_k)))
    assert report.diagnosis == "theory_returned"
    assert report.score == 0


@pytest.mark.parametrize("factors", [1, 4])
def test_products_of_more_or_fewer_numbers_are_seen(factors):
    def answer(d_k, num_samples, rng):
        dots = rng.normal(size=(factors, num_samples, d_k)).prod(axis=0).sum(axis=-1)
        return dots.mean(), dots.var()

    report = report_on("ch03_scaling/dot_product_stats", answer)
    assert report.score <= 3
    assert "with d_k = 1 your q . k" in str(report)
