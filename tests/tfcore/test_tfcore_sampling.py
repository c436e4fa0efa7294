"""Sampling: the draws, their exact distribution, and the filters, which are those of transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from decoding_models import (
    decoder,
    draw_tokens,
)
from hypothesis import given
from hypothesis import strategies as st
from naive_decoding import B, N, T, naive, tables
from scipy import stats

from tfcore.generate import (
    filter_logits,
    generate,
    min_p_filter,
    token_probabilities,
)
from tfcore.testing import AllocationMeter


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 9, "top_p": 0.8}], ids=str)
def test_sampling_draws_one_multinomial_per_step(options):
    model, prompt = decoder(), draw_tokens(B, T)
    generator = torch.Generator().manual_seed(5)

    def choose(logits):
        p = filter_logits(logits / 1.7, **options).softmax(-1)
        return torch.multinomial(p, 1, generator=generator).squeeze(1)

    expected = naive(model, prompt, N, choose)
    state = torch.get_rng_state()
    got = generate(model, prompt, N, 1.7, torch.Generator().manual_seed(5), **options)
    assert torch.equal(got, expected)
    assert torch.equal(torch.get_rng_state(), state), "drew from the global generator"


def exact_pairs(logits, start, temperature, top_k, top_p):
    """List the probability of each pair of tokens after ``start``, in numpy and by the definitions."""

    def row(z):
        z = z.numpy() / temperature
        order = np.argsort(-z)
        keep = order[: top_k or len(z)]
        p = np.zeros(len(z))
        p[keep] = np.exp(z[keep] - z.max())
        p /= p.sum()
        kept, mass = [], 0.0
        for token in keep:
            if mass < (top_p or 1.0):
                kept.append(token)
            mass += p[token]
        q = np.zeros(len(z))
        q[kept] = p[kept]
        return q / q.sum()

    first = row(logits[start])
    return np.array([first[a] * row(logits[a]) for a in range(len(first))]).ravel()


def rejects(counts, p):
    """Test counts against probabilities, at a false-alarm rate of 1e-7."""
    if counts[p == 0].sum() > 0:
        return True
    counts, p = counts[p > 0], p[p > 0]
    expected = p * counts.sum()
    rare = expected < 5  # pooled, since the chi-square law needs counts
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic > stats.chi2.isf(1e-7, len(counts) - 1)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.6, None, None), (1.5, 3, None), (1.0, None, 0.8), (1.3, 4, 0.75)],
)
def test_samples_have_the_distribution_they_should(temperature, top_k, top_p):
    logits, model = tables(5)
    generator = torch.Generator().manual_seed(0)
    prompt = torch.full((20_000, 1), 2)
    tokens = generate(model, prompt, 2, temperature, generator, top_k=top_k, top_p=top_p)
    counts = torch.bincount(tokens[:, 1] * 5 + tokens[:, 2], minlength=25).numpy()
    assert not rejects(counts, exact_pairs(logits, 2, temperature, top_k, top_p))
    for wrong in ((1 / temperature + 0.1, top_k, top_p), (temperature, 2, top_p), (temperature, top_k, 0.5)):
        assert rejects(counts, exact_pairs(logits, 2, *wrong)), "the test has no power"


@given(
    st.lists(st.integers(-12, 12), min_size=1, max_size=12, unique=True),
    st.none() | st.integers(1, 12),
    st.none() | st.floats(0.01, 1.0),
)
def test_filter_by_its_definition(numbers, top_k, top_p):
    z = torch.tensor(numbers, dtype=torch.float64) / 8
    top_k = None if top_k is None else min(top_k, len(z))
    got = filter_logits(z, top_k, top_p)
    order = sorted(range(len(z)), key=lambda i: -z[i])[:top_k]
    p = torch.tensor([z[i] for i in order], dtype=torch.float64).softmax(0).tolist()
    before = [math.fsum(p[:i]) for i in range(len(p))]
    if top_p is not None and min(abs(b - top_p) for b in before) < 1e-12:
        return  # a tie that rounding decides
    kept = {i for i, b in zip(order, before, strict=True) if top_p in (None, 1.0) or b < top_p}
    assert {i for i in range(len(z)) if got[i] > -math.inf} == kept
    assert order[0] in kept
    assert all(got[i] == z[i] for i in kept)


def test_filter_keeps_k_of_equals_the_first_at_least_and_its_input():
    z = torch.zeros(2, 3, 7)
    assert (filter_logits(z, top_k=4) == 0).sum(-1).eq(4).all()
    assert (filter_logits(z, top_p=1e-9) == 0).sum(-1).eq(1).all()
    assert torch.equal(z, torch.zeros(2, 3, 7))
    tiny = torch.tensor([0.0, -40.0, -80.0])
    assert torch.equal(filter_logits(tiny, top_p=1.0), tiny)
    assert filter_logits(tiny.bfloat16(), top_p=0.9).dtype == torch.bfloat16


def test_filter_takes_top_p_of_what_top_k_leaves():
    p = torch.tensor([0.2, 0.4, 0.1, 0.3])
    assert filter_logits(p.log(), 2, 0.55).softmax(-1).tolist() == [0, 1, 0, 0]
    assert filter_logits(p.log(), None, 0.55).exp().tolist() == pytest.approx([0, 0.4, 0, 0.3])


def test_filter_lets_gradients_flow():
    z = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: filter_logits(z, 4, 0.8).softmax(-1), z)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k from 1 to 7, got 0"),
        ({"top_k": 8}, "top_k from 1 to 7, got 8"),
        ({"top_p": 0.0}, "top_p above 0 and at most 1, got 0.0"),
        ({"top_p": 1.1}, "top_p above 0 and at most 1, got 1.1"),
    ],
)
def test_filter_rejects(options, message):
    with pytest.raises(ValueError, match=message):
        filter_logits(torch.zeros(7), **options)


@given(st.floats(0.05, 20))
def test_probabilities_at_any_temperature(temperature):
    z = torch.tensor([1000.0, 999.0, -1e4], dtype=torch.float64)
    expected = np.exp(np.array([0.0, -1.0, -11_000.0]) / temperature)
    got = token_probabilities(z, temperature)
    np.testing.assert_allclose(got, expected / expected.sum(), atol=1e-12)


@pytest.mark.parametrize("temperature", [1e-40, 5e-324])
def test_the_least_temperatures_take_the_likeliest(temperature):
    assert token_probabilities(torch.tensor([1.0, 3.0, 2.0]), temperature).tolist() == [0.0, 1.0, 0.0]


def test_probabilities_are_wide_and_cold_ones_certain():
    z = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.bfloat16)
    assert token_probabilities(z).dtype == torch.float32
    assert token_probabilities(z, 0.0).tolist() == [[0.0, 1.0, 0.0]]
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"finite temperature of 0 or more, got {wrong}"):
            token_probabilities(z, wrong)


def test_the_loop_allocates_little_beside_the_model():
    _, model = tables(5)
    with AllocationMeter() as meter:
        generate(model, torch.full((1, 1), 2), 400)
    assert meter.peak_bytes < 401 * 5 * 8 * 2 + 401 * 8 * 2  # logits of the text, the text


def test_sampling_filters_are_those_of_transformers():
    warpers = pytest.importorskip("transformers.generation.logits_process")
    z = torch.randn(20, 37, generator=torch.Generator().manual_seed(0))
    for k in (1, 5, 37):
        assert torch.equal(filter_logits(z, top_k=k), warpers.TopKLogitsWarper(k)(None, z))
    for p in (0.01, 0.3, 0.9):
        assert torch.equal(filter_logits(z, top_p=p), warpers.TopPLogitsWarper(p)(None, z))


@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_min_p_is_transformers(seed, share):
    from transformers import MinPLogitsWarper

    logits = 2 * torch.randn(3, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = MinPLogitsWarper(share)(None, logits)
    got = min_p_filter(logits, share)
    near = ((logits - logits.amax(-1, keepdim=True)).exp() / share - 1).abs() < 1e-9  # rounding decides
    assert torch.equal(torch.where(near, 0.0, got), torch.where(near, 0.0, expected))
    assert (got > -math.inf).any(dim=-1).all()


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(ValueError, match="expected a min_p above 0 and at most 1"):
        min_p_filter(torch.zeros(3), share)
