"""Chapter 3's mathematics against enumeration, finite differences and large samples."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcore.ops import softmax
from tfcore.scaling import (
    attention_entropy,
    dot_product_stats,
    dot_product_variance,
    scale_for_unit_variance,
    softmax_jacobian,
)

pytestmark = pytest.mark.filterwarnings("error")


# --- the dot product


@pytest.mark.slow
@pytest.mark.parametrize("d_k", [1, 3, 64, 257])
def test_measured_statistics_at_six_standard_errors(d_k):
    """Var(mean) = d/n; Var(q.k)^2 has fourth moment 3d^2 + 6d, so Var(variance) = (2d^2 + 6d)/n."""
    n = 20_000
    for seed in range(3):
        mean, variance = dot_product_stats(d_k, n, np.random.default_rng(seed))
        assert isinstance(mean, float)
        assert abs(mean) < 6 * math.sqrt(d_k / n)
        assert abs(variance - d_k) < 6 * math.sqrt((2 * d_k**2 + 6 * d_k) / n)
        assert mean != 0


def test_statistics_come_from_the_generator_and_from_nothing_else():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first = dot_product_stats(5, 100, np.random.default_rng(3))
    assert first == dot_product_stats(5, 100, np.random.default_rng(3))
    assert first != dot_product_stats(5, 100, np.random.default_rng(4))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("d_k", [1, 2, 3])
@pytest.mark.parametrize(("q", "k"), [((-1, 2), (0, 3)), ((-2, 2), (-1, 1)), ((1, 1), (4, 9))])
def test_variance_by_enumeration(d_k, q, k):
    """Components that take two values with equal chance: every one of the 4^d_k outcomes is counted."""
    dots = [
        sum(a * b for a, b in zip(qs, ks, strict=True))
        for qs in itertools.product(q, repeat=d_k)
        for ks in itertools.product(k, repeat=d_k)
    ]
    mean = sum(dots) / len(dots)
    want = sum((dot - mean) ** 2 for dot in dots) / len(dots)
    got = dot_product_variance(
        d_k, var_q=(q[1] - q[0]) ** 2 / 4, var_k=(k[1] - k[0]) ** 2 / 4, mean_q=sum(q) / 2, mean_k=sum(k) / 2
    )
    assert got == pytest.approx(want, abs=1e-12)


def test_variance_of_the_usual_case():
    assert [dot_product_variance(d, 1.0, 1.0) for d in (1, 64, 512)] == [1.0, 64.0, 512.0]
    assert isinstance(dot_product_variance(64, 1, 1), float)


@given(st.integers(1, 4096), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_scale_gives_unit_variance(d_k, var_q, var_k):
    scale = scale_for_unit_variance(d_k, var_q, var_k)
    assert scale > 0
    # Scaling q by s multiplies the variance of its components by s squared.
    assert dot_product_variance(d_k, scale**2 * var_q, var_k) == pytest.approx(1, rel=1e-12)


def test_the_scale_on_a_sample():
    rng = np.random.default_rng(0)
    q, k = rng.normal(0, 3, (50_000, 16)), rng.normal(0, 0.5, (50_000, 16))
    dots = np.array([float(a @ b) for a, b in zip(q, k, strict=True)])
    assert np.var(scale_for_unit_variance(16, var_q=9, var_k=0.25) * dots) == pytest.approx(1, abs=0.06)
    assert scale_for_unit_variance(64) == 1 / 8


# --- the Jacobian


@given(st.integers(1, 7), st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 3.0]))
def test_jacobian_matches_finite_differences(n, seed, spread):
    x = np.random.default_rng(seed).standard_normal(n) * spread
    h = 1e-5
    columns = [(softmax(x + h * e) - softmax(x - h * e)) / (2 * h) for e in np.eye(n)]
    np.testing.assert_allclose(softmax_jacobian(softmax(x)), np.stack(columns, axis=-1), atol=1e-9)


def test_jacobian_takes_any_leading_axes():
    p = softmax(np.random.default_rng(0).standard_normal((2, 3, 5)))
    before = p.copy()
    J = softmax_jacobian(p)
    assert J.shape == (2, 3, 5, 5)
    for a, b, i, j in np.ndindex(J.shape):
        assert J[a, b, i, j] == pytest.approx(p[a, b, i] * ((i == j) - p[a, b, j]), abs=1e-16)
    np.testing.assert_array_equal(p, before)
    assert softmax_jacobian(p.astype(np.float32)).dtype == np.float32


def test_jacobian_is_symmetric_sums_to_zero_and_vanishes_when_saturated():
    J = softmax_jacobian(softmax(np.random.default_rng(0).standard_normal((4, 6))))
    np.testing.assert_allclose(J, J.swapaxes(-1, -2), atol=1e-16)
    np.testing.assert_allclose(J.sum(-1), 0, atol=1e-15)
    assert not softmax_jacobian(np.array([0.0, 1.0, 0.0])).any()


# --- entropy


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_entropy_at_its_bounds(n):
    assert attention_entropy(np.full(n, 1 / n)) == pytest.approx(math.log(n), abs=1e-12)
    one_hot = np.eye(n)[0]
    assert attention_entropy(one_hot) == 0
    assert math.copysign(1, attention_entropy(one_hot)) == 1  # and not -0.0


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_entropy_by_hand(axis):
    p = np.random.default_rng(0).random((2, 3, 5))
    p[0, 0, 0] = p[1, 2, 3] = p[1, 2, 4] = 0
    p = p / p.sum(axis=axis, keepdims=True)
    got = attention_entropy(p, axis=axis)
    moved = np.moveaxis(p, axis, -1)
    for index in np.ndindex(got.shape):
        want = -math.fsum(x * math.log(x) for x in moved[index] if x > 0)
        assert got[index] == pytest.approx(want, abs=1e-14)


def test_entropy_of_tiny_weights_has_no_bias():
    p = np.array([1 - 1e-300, 1e-300])
    assert attention_entropy(p) == pytest.approx(1e-300 * 300 * math.log(10), rel=1e-12)


def test_entropy_of_an_empty_row_is_zero_and_nan_shows():
    assert attention_entropy(np.zeros(4)) == 0
    assert np.isnan(attention_entropy(np.array([np.nan, 0.5])))


def test_entropy_falls_as_the_scores_grow():
    x = np.random.default_rng(0).standard_normal(10)
    entropies = [float(attention_entropy(softmax(x * s))) for s in (0, 0.5, 1, 2, 8, 64)]
    assert entropies == sorted(entropies, reverse=True)
    assert entropies[0] == pytest.approx(math.log(10))


# --- arguments that do not fit

BAD = {
    "no component": (lambda: dot_product_stats(0, 10, np.random.default_rng(0)), "d_k of 1 or more, got 0"),
    "no sample": (
        lambda: dot_product_stats(3, 0, np.random.default_rng(0)),
        "num_samples of 1 or more, got 0",
    ),
    "negative variance": (lambda: dot_product_variance(3, -1.0, 1.0), "var_q of 0 or more, got -1.0"),
    "NaN variance": (lambda: dot_product_variance(3, 1.0, math.nan), "var_k of 0 or more, got nan"),
    "no d_k": (lambda: dot_product_variance(0, 1.0, 1.0), "d_k of 1 or more, got 0"),
    "variance 0": (lambda: scale_for_unit_variance(3, 0.0), "variances above 0, got var_q=0.0 and var_k=1.0"),
    "scores for weights": (
        lambda: attention_entropy(np.array([-1.0, 2.0])),
        "weights of 0 or more, got -1.0",
    ),
    "one number": (lambda: softmax_jacobian(np.array(1.0)), "p (..., n), got a single number"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
