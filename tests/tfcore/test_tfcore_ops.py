"""Chapter 2's mathematics against exact sums in Python numbers, and its properties on random arguments."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from attention_oracle import case, make_inputs, numbers, oracle
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfcore.ops import (
    attention_scores,
    project_qkv,
    scaled_dot_product_attention,
    soft_lookup,
    softmax,
)

pytestmark = pytest.mark.filterwarnings("error")
rng = np.random.default_rng(0)


@pytest.mark.slow
def test_the_numpy_rooms_do_not_load_torch():
    code = "import sys, tfcore.ops, tfcore.scaling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- softmax


def softmax_by_hand(row):
    peak = max(row)
    exp = [math.exp(x - peak) for x in row]
    total = math.fsum(exp)
    return [e / total for e in exp]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_softmax_along_every_axis(axis):
    x = rng.standard_normal((2, 3, 5)) * 3
    got = np.moveaxis(softmax(x, axis=axis), axis, -1)
    for index in np.ndindex(got.shape[:-1]):
        want = softmax_by_hand(np.moveaxis(x, axis, -1)[index].tolist())
        np.testing.assert_allclose(got[index], want, rtol=1e-14)


def test_softmax_of_large_scores_and_of_rows_far_apart():
    x = np.array([[1e4, 1e4 + 1, 1e4 - 1], [-1e4, -1e4 - 1, -1e4 + 1], [0.0, 1e4, -1e4]])
    want = [softmax_by_hand([0, 1, -1]), softmax_by_hand([0, -1, 1]), [0, 1, 0]]
    np.testing.assert_allclose(softmax(x), want, rtol=1e-14, atol=0)


def test_softmax_with_minus_infinity():
    x = np.array([[0.0, -np.inf, 0.0], [-np.inf] * 3])
    assert softmax(x).tolist() == [[0.5, 0, 0.5], [0, 0, 0]]


def test_softmax_of_no_scores():
    assert softmax(np.zeros((2, 0, 3)), axis=1).shape == (2, 0, 3)
    output, weights = scaled_dot_product_attention(np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 4)))
    assert output.tolist() == [[0] * 4] * 2
    assert weights.shape == (2, 0)


def test_softmax_does_not_hide_nan():
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax(np.array([[0.0, np.nan], [0.0, 0.0]]))).tolist() == [
            [True, True],
            [False, False],
        ]


def test_softmax_of_a_long_row():
    x = rng.standard_normal(100_003)
    np.testing.assert_allclose(softmax(x), softmax_by_hand(x.tolist()), rtol=1e-12)


@pytest.mark.parametrize(
    ("given_type", "want"), [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)]
)
def test_types_are_kept(given_type, want):
    x = np.array([[1, 2], [3, 5]], dtype=given_type)
    assert softmax(x).dtype == want
    assert attention_scores(x, x).dtype == want
    mask = np.array([[True, False], [True, True]])
    assert [a.dtype for a in scaled_dot_product_attention(x, x, x, mask)][1] == want
    if given_type is not int:
        assert {a.dtype for a in project_qkv(x, x, x, x)} == {np.dtype(want)}
        assert soft_lookup(x[0], x, x, 0.5).dtype == want


rows = hnp.arrays(np.float64, st.integers(1, 9), elements=st.floats(-50, 50))


@given(rows, st.floats(-1e4, 1e4))
def test_softmax_ignores_a_shift(x, shift):
    np.testing.assert_allclose(softmax(x + shift), softmax(x), rtol=1e-10)


@given(rows)
def test_softmax_is_a_distribution_that_keeps_the_order(x):
    p = softmax(x)
    assert np.all(p > 0)
    assert math.isclose(math.fsum(p), 1, rel_tol=1e-14)
    order = np.argsort(x, kind="stable")
    assert np.all(np.diff(p[order]) >= 0)
    np.testing.assert_allclose(np.log(p) - np.log(p[0]), x - x[0], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-9, 9))
)
def test_softmax_takes_each_row_by_itself(x):
    for index in np.ndindex(x.shape[:-1]):
        np.testing.assert_allclose(softmax(x)[index], softmax(x[index]), rtol=1e-14)


# --- projections, scores, attention


def test_project_qkv_by_hand():
    x = rng.standard_normal((2, 3, 5, 4))
    weights = [rng.standard_normal((4, d)) for d in (7, 7, 6)]
    for got, W in zip(project_qkv(x, *weights), weights, strict=True):
        assert got.shape == (2, 3, 5, W.shape[1])
        for b, h, t, c in np.ndindex(got.shape):
            want = math.fsum(x[b, h, t, i] * W[i, c] for i in range(4))
            assert got[b, h, t, c] == pytest.approx(want, abs=1e-14)


def test_scores_by_hand():
    query, key = rng.standard_normal((2, 5, 8)), rng.standard_normal((3, 2, 7, 8))
    scores = attention_scores(query, key)
    assert scores.shape == (3, 2, 5, 7)
    for a, b, i, j in np.ndindex(scores.shape):
        want = math.fsum(query[b, i] * key[a, b, j]) / 8**0.5
        assert scores[a, b, i, j] == pytest.approx(want, abs=1e-14)


def test_three_tokens_on_paper():
    """The worked example of the course: d_k = 2, and every number follows from e^(1/sqrt 2)."""
    tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    output, weights = scaled_dot_product_attention(tokens, tokens, tokens)
    e = math.exp(0.5**0.5)
    want = np.array([[e, 1, e], [1, e, e], [e, e, e * e]]) / np.array(
        [[2 * e + 1], [2 * e + 1], [2 * e + e * e]]
    )
    np.testing.assert_allclose(weights, want, rtol=1e-14)
    np.testing.assert_allclose(output, want @ tokens, rtol=1e-14)


GRID = [
    case("", T_q=1),
    case("", B=1, H=1, H_kv=1, T_q=1, T_k=1, d_k=1, d_v=1),
    case("", mask="qk"),
    case("", mask="-qk", empty_rows=True),
    case("", mask="BHqk", empty_rows=True),
    case("", mask="B--k"),
    case("", mask="B-q-", empty_rows=True),
    case("", B=1, H=2, H_kv=2, T_q=3, T_k=1025),
]


@pytest.mark.parametrize("given_type", [np.float64, np.float32])
@pytest.mark.parametrize("case", GRID)
def test_attention_matches_the_oracle(case, given_type):
    inputs = make_inputs(case)
    q, k, v = (numbers(inputs[name]).astype(given_type) for name in "qkv")
    mask = numbers(inputs["mask"]) if "mask" in inputs else None
    before = [x.copy() for x in (q, k, v)]
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    want, want_weights, _ = oracle(inputs)
    tolerance = 1e-14 if given_type == np.float64 else 2e-6
    np.testing.assert_allclose(output, want, rtol=0, atol=tolerance * np.abs(want).max())
    np.testing.assert_allclose(weights, want_weights, rtol=0, atol=tolerance)
    assert output.dtype == weights.dtype == given_type
    for x, y in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_two_axes_are_enough_and_leading_axes_broadcast():
    q, k, v = rng.standard_normal((5, 8)), rng.standard_normal((2, 7, 8)), rng.standard_normal((2, 7, 3))
    output, weights = scaled_dot_product_attention(q, k, v)
    assert (output.shape, weights.shape) == ((2, 5, 3), (2, 5, 7))
    alone, _ = scaled_dot_product_attention(q, k[1], v[1])
    np.testing.assert_allclose(output[1], alone, rtol=1e-13)


def test_arrays_that_are_not_contiguous():
    q, k, v = (rng.standard_normal((d, t)).T for d, t in ((8, 5), (8, 7), (3, 7)))
    got, _ = scaled_dot_product_attention(q, k, v)
    want, _ = scaled_dot_product_attention(q.copy(), k.copy(), v.copy())
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_scores_of_ten_thousand():
    q, k = np.array([[100.0, 1.0]]), np.array([[100.0, 0.0], [100.0, 1.0], [100.0, 2.0]])
    _, weights = scaled_dot_product_attention(q * 2**0.5, k, np.eye(3))
    np.testing.assert_allclose(weights[0], softmax_by_hand([0, 1, 2]), rtol=1e-10)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_garbage_that_nobody_may_attend_to_changes_nothing(garbage):
    q, k, v = rng.standard_normal((2, 5, 8)), rng.standard_normal((2, 7, 8)), rng.standard_normal((2, 7, 3))
    seen = np.ones((2, 1, 7), dtype=bool)
    seen[0, :, 2] = seen[1, :, 6] = False
    want = scaled_dot_product_attention(q, k, v, seen)
    dirty_k, dirty_v = (np.where(seen.swapaxes(-1, -2), x, garbage) for x in (k, v))
    for got, clean in zip(scaled_dot_product_attention(q, dirty_k, dirty_v, seen), want, strict=True):
        np.testing.assert_array_equal(got, clean)


def test_an_empty_row_gives_zeros_without_a_warning():
    x = rng.standard_normal((3, 4))
    mask = np.array([[True, True, False], [False, False, False], [True, True, True]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output, weights = scaled_dot_product_attention(x, x, x, mask)
    assert not output[1].any()
    assert not weights[1].any()
    np.testing.assert_allclose(weights.sum(-1), [1, 0, 1])


# --- properties of attention


@st.composite
def attention_arguments(draw):
    T_q, T_k, d_k, d_v = (draw(st.integers(1, 5)) for _ in range(4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    mask = rng.random((T_q, T_k)) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    spread = draw(st.sampled_from([0.1, 1.0, 5.0]))
    return (
        *(rng.standard_normal(shape) * spread for shape in ((T_q, d_k), (T_k, d_k), (T_k, d_v))),
        mask,
        rng,
    )


@given(attention_arguments())
def test_shuffled_queries_give_shuffled_outputs(arguments):
    q, k, v, mask, rng = arguments
    order = rng.permutation(len(q))
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    shuffled, shuffled_weights = scaled_dot_product_attention(q[order], k, v, mask[order])
    np.testing.assert_allclose(shuffled, output[order], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(shuffled_weights, weights[order], rtol=1e-10, atol=1e-12)


@given(attention_arguments())
def test_keys_shuffled_with_their_values_change_nothing(arguments):
    q, k, v, mask, rng = arguments
    order = rng.permutation(len(k))
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    shuffled, shuffled_weights = scaled_dot_product_attention(q, k[order], v[order], mask[:, order])
    np.testing.assert_allclose(shuffled, output, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(shuffled_weights, weights[:, order], rtol=1e-10, atol=1e-12)


@given(attention_arguments())
def test_outputs_are_convex_combinations_of_the_values_that_are_seen(arguments):
    q, k, v, mask, _ = arguments
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert np.all(weights >= 0)
    assert np.all(weights[~mask] == 0)
    np.testing.assert_allclose(weights.sum(-1), mask.any(-1), atol=1e-13)
    for row, seen in zip(output, mask, strict=True):
        if seen.any():
            assert np.all(row >= v[seen].min(axis=0) - 1e-12)
            assert np.all(row <= v[seen].max(axis=0) + 1e-12)


@given(attention_arguments())
def test_a_vector_added_to_every_key_changes_nothing(arguments):
    q, k, v, mask, rng = arguments
    output, _ = scaled_dot_product_attention(q, k, v, mask)
    moved, _ = scaled_dot_product_attention(q, k + rng.standard_normal(k.shape[1]), v, mask)
    np.testing.assert_allclose(moved, output, rtol=1e-9, atol=1e-11)


# --- soft lookup


def test_soft_lookup_by_hand():
    query, keys, values = rng.standard_normal(4), rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    for temperature in (0.1, 1.0, 7.0):
        weights = softmax_by_hand([math.fsum(k * query) / temperature for k in keys])
        want = [math.fsum(w * value[c] for w, value in zip(weights, values, strict=True)) for c in range(3)]
        np.testing.assert_allclose(
            soft_lookup(query, keys, values, temperature), want, rtol=1e-12, atol=1e-14
        )


def test_soft_lookup_at_its_limits():
    query, keys, values = rng.standard_normal(4), rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    best = values[np.argmax([math.fsum(k * query) for k in keys])]
    np.testing.assert_allclose(soft_lookup(query, keys, values, 1e-4), best, rtol=1e-12)
    np.testing.assert_allclose(soft_lookup(query, keys, values, 1e12), values.mean(axis=0), rtol=1e-10)


# --- arguments that do not fit

a = np.ones((3, 4))
BAD = {
    "temperature 0": (lambda: soft_lookup(a[0], a, a, 0.0), "temperature above 0, got 0.0; for the best"),
    "negative temperature": (lambda: soft_lookup(a[0], a, a, -1), "temperature above 0, got -1"),
    "temperature NaN": (lambda: soft_lookup(a[0], a, a, math.nan), "temperature above 0, got nan"),
    "two queries": (lambda: soft_lookup(a, a, a, 1), "query (d,) and keys (n, d), got (3, 4) and (3, 4)"),
    "lookup width": (
        lambda: soft_lookup(a[0, 1:], a, a, 1),
        "query (d,) and keys (n, d), got (3,) and (3, 4)",
    ),
    "lookup values": (
        lambda: soft_lookup(a[0], a, a[1:], 1),
        "values (n, d_v) with one row per key, got (2, 4)",
    ),
    "W_k transposed": (lambda: project_qkv(a, a.T, a, a.T), "W_k (d_model, d), got x (3, 4) and W_k (3, 4)"),
    "W_v vector": (lambda: project_qkv(a, a.T, a.T, a[0]), "W_v (d_model, d), got x (3, 4) and W_v (4,)"),
    "width": (lambda: attention_scores(a, a[:, 1:]), "same width d_k, got (3, 4) and (3, 3)"),
    "one axis": (
        lambda: attention_scores(a[0], a),
        "query (..., T_q, d_k) and key (..., T_k, d_k), got (4,)",
    ),
    "batch": (
        lambda: attention_scores(np.ones((2, 3, 4)), np.ones((5, 3, 4))),
        "that broadcast, got (2,) and (5,)",
    ),
    "values": (lambda: scaled_dot_product_attention(a, a, a[1:]), "one value per key"),
    "value batch": (
        lambda: scaled_dot_product_attention(a, np.ones((2, 3, 4)), np.ones((5, 3, 4))),
        "key and value that broadcast, got (2,) and (5,)",
    ),
    "float mask": (lambda: scaled_dot_product_attention(a, a, a, np.ones((3, 3))), "a boolean mask"),
    "mask shape": (
        lambda: scaled_dot_product_attention(a, a, a, np.ones((3, 4), dtype=bool)),
        "broadcasts to (..., T_q, T_k) = (3, 3), got (3, 4)",
    ),
    "mask with more axes": (
        lambda: scaled_dot_product_attention(a, a, a, np.ones((2, 3, 3), dtype=bool)),
        "broadcasts to (..., T_q, T_k) = (3, 3), got (2, 3, 3)",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_soft_lookup_at_the_least_temperature():
    keys, values = np.eye(3), np.arange(6.0).reshape(3, 2)
    assert soft_lookup(np.array([100.0, 300.0, 200.0]), keys, values, temperature=1e-307).tolist() == [2, 3]
