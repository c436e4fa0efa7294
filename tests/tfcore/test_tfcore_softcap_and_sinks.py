"""Soft caps and sinks: attention against its formula, in values, gradients, and what interventions see."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import tfcore.attention.tiled
from tfcore.attention import attention
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.interventions import record
from tfcore.models import Decoder
from tfcore.testing import raise_weights

B, H, H_KV, T_Q, T_K, D_K, D_V = 2, 6, 3, 5, 11, 8, 10
CAP = 1.7


def draw(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def arguments():
    q, k, v = draw(B, H, T_Q, D_K, seed=0), draw(B, H_KV, T_K, D_K, seed=1), draw(B, H_KV, T_K, D_V, seed=2)
    mask = draw(B, 1, T_Q, T_K, seed=3) > -0.5
    mask[1, 0, 2] = False  # a query that sees nothing
    return {"q": q, "k": k, "v": v, "bias": draw(1, H, T_Q, T_K, seed=4), "mask": mask}


def by_formula(q, k, v, bias, mask, softcap=None, sinks=None):
    """Follow the definition: the sink is one more column of scores, whose value is 0."""
    groups = H // H_KV
    k, v = (torch.stack([x[:, h // groups] for h in range(H)], dim=1) for x in (k, v))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.9
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = torch.where(mask, scores + bias, -math.inf)
    column = torch.full((H,), -math.inf, dtype=q.dtype) if sinks is None else sinks
    scores = torch.cat([scores, column.view(1, H, 1, 1).expand(B, H, T_Q, 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)[..., :-1]
    return weights @ v, weights, torch.logsumexp(scores, dim=-1)


@pytest.fixture(params=["explicit", "tiled", "tiled by 4"])
def backend(request, monkeypatch):
    if request.param == "tiled by 4":
        monkeypatch.setattr(tfcore.attention.tiled, "BLOCK", 4)
    return request.param.split()[0]


EXTRAS = [
    {"softcap": CAP},
    {"sinks": draw(H, seed=5)},
    {"softcap": CAP, "sinks": draw(H, seed=5)},
]
each_extra = pytest.mark.parametrize("extra", EXTRAS, ids=["softcap", "sinks", "both"])


@each_extra
def test_output_and_lse(backend, extra):
    given = arguments()
    output, lse = attention(**given, **extra, scale=0.9, backend=backend, return_lse=True)
    expected, weights, expected_lse = by_formula(**given, **extra)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(lse, expected_lse)
    if backend == "explicit":
        _, ours = attention(**given, **extra, scale=0.9, backend=backend, return_weights=True)
        torch.testing.assert_close(ours, weights)
    without = by_formula(**given)[0]
    assert (expected - without).abs().max() > 0.1  # the case can tell


@each_extra
def test_gradients(backend, extra):
    given = arguments()
    del given["mask"]  # a row that sees nothing has no gradient in the formula
    names = ["q", "k", "v", "bias"]
    everything = torch.ones(B, 1, T_Q, T_K, dtype=torch.bool)
    found = []
    for compute in (
        lambda **x: attention(**x, scale=0.9, backend=backend),
        lambda **x: by_formula(**x, mask=everything)[0],
    ):
        leaves = {
            name: x.clone().requires_grad_() for name, x in {**given, **extra}.items() if torch.is_tensor(x)
        }
        output = compute(**{**given, **extra, **leaves})
        output.backward(draw(B, H, T_Q, D_V, seed=6))
        found.append({name: x.grad for name, x in leaves.items()})
    assert set(names) <= set(found[0])
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name])


def test_a_sink_leaves_a_query_that_sees_nothing_at_zero_with_finite_gradients():
    given = arguments()
    sinks = draw(H, seed=5).requires_grad_()
    q = given.pop("q").requires_grad_()
    for backend in ("explicit", "tiled"):
        output = attention(q, **given, sinks=sinks, backend=backend)
        assert (output[1, :, 2] == 0).all()
        gradients = torch.autograd.grad(output.square().sum(), (q, sinks))
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (gradients[0][1, :, 2] == 0).all()


def test_a_backend_that_cannot_is_refused_and_auto_finds_another():
    given = arguments()
    with pytest.raises(
        ValueError, match=r"expected a backend that caps scores, got 'fused'.*tiled or explicit"
    ):
        attention(**given, softcap=CAP, backend="fused")
    with pytest.raises(ValueError, match=r"expected a backend that returns the lse, got 'fused'"):
        attention(**given, sinks=draw(H, seed=5), backend="fused")
    with pytest.raises(ValueError, match=r"expected a sink's score for each of 6 query heads"):
        attention(**given, sinks=draw(H_KV, seed=5))
    with pytest.raises(ValueError, match=r"expected a softcap above 0, got 0.0"):
        attention(**given, softcap=0.0)
    extra = {"softcap": CAP, "sinks": draw(H, seed=5)}
    torch.testing.assert_close(attention(**given, **extra, scale=0.9), by_formula(**given, **extra)[0])


def test_half_precision_keeps_its_type():
    given = {name: x.bfloat16() if name in "qkv" else x for name, x in arguments().items()}
    output, lse = attention(**given, sinks=draw(H, seed=5).bfloat16(), softcap=CAP, return_lse=True)
    assert (output.dtype, lse.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(("softcap", "sinks"), list(itertools.product([None, CAP], [False, True])))
def test_interventions_see_the_weights_that_attention_used(softcap, sinks):
    attention_config = AttentionConfig(d_model=24, num_heads=6, num_kv_heads=3, softcap=softcap, sinks=sinks)
    block = BlockConfig(attention_config, d_ff=40)
    config = ModelConfig(31, 2, block, PositionConfig("rope"))
    model = raise_weights(Decoder(config)).double()
    tokens = torch.randint(31, (2, 7), generator=torch.Generator().manual_seed(0))
    plain = model(tokens)
    with record(model, "blocks.1.attention.*") as seen:
        torch.testing.assert_close(model(tokens), plain)
    weights, values = (seen[f"blocks.1.attention.{name}"] for name in ("weights", "values"))
    heads = weights @ values.repeat_interleave(2, dim=1)
    torch.testing.assert_close(seen["blocks.1.attention.heads"], heads)
    total = weights.sum(dim=-1)
    if sinks:
        assert total.max() < 1
        assert total.min() < 0.9
    else:
        torch.testing.assert_close(total, torch.ones_like(total))
    if softcap is not None:
        scores = seen["blocks.1.attention.scores"]
        assert scores[scores.isfinite()].abs().max() <= CAP


def test_a_sink_of_minus_infinity_changes_nothing_in_a_row_that_sees_nothing():
    both = arguments()
    plain = attention(**both)
    for backend in ("explicit", "tiled"):
        sinks = torch.full((H,), -math.inf, dtype=torch.float64)
        assert torch.allclose(attention(**both, sinks=sinks, backend=backend), plain, atol=1e-12)


@pytest.mark.parametrize("softcap", [math.inf, math.nan, 0.0])
def test_a_cap_must_cap(softcap):
    with pytest.raises(ValueError, match="softcap"):
        attention(**arguments(), softcap=softcap)


@pytest.mark.parametrize("bias", [-1e9, 1e5])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_finite_bias_stays_finite_in_a_narrow_type(bias, dtype):
    """A row that is pushed down as a whole is a row like any other, in every backend."""
    q, k, v = (draw(1, 2, n, 8, seed=n).to(dtype) for n in (1, 3, 3))
    added = torch.full((1, 1, 1, 3), bias)
    means = v.double().mean(dim=2, keepdim=True)
    for backend in ("auto", "explicit", "tiled"):
        output = attention(q * 0, k, v, bias=added, backend=backend)
        assert torch.allclose(output.double(), means, atol=0.02), backend
