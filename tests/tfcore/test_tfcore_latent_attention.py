"""Latent attention: both of its forms, what its cache holds, and what it costs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tfcore.cache import make_cache
from tfcore.config import BlockConfig, LatentAttentionConfig, ModelConfig, PositionConfig
from tfcore.generate import generate
from tfcore.layers import DecoderBlock, LatentAttention, absorbed_scores
from tfcore.models import Decoder
from tfcore.positions import Order
from tfcore.positions.rotary import Rotation, inverse_frequencies
from tfcore.testing import AllocationMeter, OperationCounter, raise_weights

B, T, D_MODEL = 2, 9, 24
CONFIG = LatentAttentionConfig(
    d_model=D_MODEL, num_heads=3, d_latent=10, d_nope=6, d_rope=4, d_value=7, d_query=11, bias=True
)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(config=CONFIG):
    return raise_weights(LatentAttention(config)).double()


def turn(begin, end):
    return Order(rotation=Rotation(torch.arange(begin, end), inverse_frequencies(4), dtype=torch.float64))


def by_loops(layer, x, allowed):
    """Follow the paper, one query, head and key at a time."""
    c, rotate = layer.config, turn(0, x.shape[1]).rotation
    output = torch.zeros(*x.shape[:2], c.num_heads * c.d_value, dtype=x.dtype)
    queries = x if c.d_query is None else layer.norm_q(layer.W_dq(x))
    both = layer.W_dkv(x)
    latent, k_rope = layer.norm_kv(both[..., : c.d_latent]), rotate(both[..., c.d_latent :])
    W_uq = layer.W_uq.weight.view(c.num_heads, c.width, -1)
    W_ukv = layer.W_ukv.weight.view(c.num_heads, c.d_nope + c.d_value, -1)
    for b in range(x.shape[0]):
        for h in range(c.num_heads):
            q = queries[b] @ W_uq[h].T
            q_rope = rotate(q[:, c.d_nope :])
            for i in range(x.shape[1]):
                seen = [j for j in range(x.shape[1]) if allowed[b, i, j]]
                scores = torch.stack(
                    [
                        q[i, : c.d_nope] @ (W_ukv[h, : c.d_nope] @ latent[b, j]) + q_rope[i] @ k_rope[b, j]
                        for j in seen
                    ]
                )
                weights = (scores / (c.d_nope + c.d_rope) ** 0.5).softmax(dim=0)
                value = sum(
                    w * (W_ukv[h, c.d_nope :] @ latent[b, j]) for w, j in zip(weights, seen, strict=True)
                )
                output[b, i, h * c.d_value : (h + 1) * c.d_value] = value
    return layer.W_o(output)


@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, d_query=None, bias=False)])
def test_both_forms_are_the_papers(config, absorbed):
    layer, x = make(config), draw(B, T, D_MODEL)
    real = torch.ones(B, T, dtype=torch.bool)
    real[1, :3] = False
    allowed = torch.ones(T, T, dtype=torch.bool).tril() & (real[:, None, :] | torch.eye(T, dtype=torch.bool))
    ours = layer(x, allowed[:, None], causal=True, order=turn(0, T), absorbed=absorbed)
    torch.testing.assert_close(ours, by_loops(layer, x, allowed))


def test_both_forms_have_one_gradient():
    layer, x = make(), draw(B, T, D_MODEL)
    found = []
    for absorbed in (False, True):
        layer.zero_grad()
        layer(x, causal=True, order=turn(0, T), absorbed=absorbed).square().sum().backward()
        found.append({name: p.grad.clone() for name, p in layer.named_parameters()})
    for name, gradient in found[0].items():
        assert gradient.abs().max() > 0.01, name
        torch.testing.assert_close(gradient, found[1][name])


@pytest.mark.parametrize("kind", ["growing", "preallocated"])
@pytest.mark.parametrize("absorbed", [None, False, True])
def test_a_cache_changes_nothing(kind, absorbed):
    layer, x = make(), draw(B, T, D_MODEL)
    whole = layer(x, causal=True, order=turn(0, T))
    cache = make_cache([CONFIG], B, T, kind, torch.float64).layers[0]
    pieces = [
        layer(x[:, a:b], causal=True, order=turn(a, b), cache=cache, absorbed=absorbed)
        for a, b in ((0, 5), (5, 6), (6, 8), (8, 9))
    ]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)


def test_the_cache_holds_the_short_vector_and_one_rotated_key():
    cache = make_cache([CONFIG] * 2, B, max_len=T)
    assert cache.num_bytes() == 2 * B * T * (CONFIG.d_latent + CONFIG.d_rope) * 4
    assert CONFIG.d_latent + CONFIG.d_rope < CONFIG.num_heads * (CONFIG.width + CONFIG.d_value) / 3


def test_absorbed_steps_never_make_the_keys():
    layer = make()
    operations = {}
    for absorbed in (False, True):
        for length in (20, 220):
            cache = make_cache([CONFIG], 1, length + 1, None, torch.float64)
            with torch.no_grad():
                layer(draw(1, length, D_MODEL), causal=True, cache=cache.layers[0])
                with OperationCounter() as counter:
                    layer(draw(1, 1, D_MODEL), causal=True, cache=cache.layers[0], absorbed=absorbed)
            operations[absorbed, length] = counter.products
    per_token = {a: (operations[a, 220] - operations[a, 20]) / 200 for a in (False, True)}
    c = CONFIG
    assert per_token[True] == 2 * c.num_heads * (c.d_latent + c.d_rope + c.d_latent)
    make_keys = 2 * c.num_heads * (c.d_nope + c.d_value) * c.d_latent
    assert per_token[False] == make_keys + 2 * c.num_heads * (c.width + c.d_value)


def scores_of(T_q, T_k, h=3, d_nope=6, d_rope=4, d_latent=10):
    """Draw the arguments of absorbed_scores."""
    return (
        draw(B, h, T_q, d_nope),
        draw(B, h, T_q, d_rope, seed=1),
        draw(B, T_k, d_latent, seed=2),
        draw(B, T_k, d_rope, seed=3),
        draw(h, d_nope, d_latent, seed=4),
    )


@pytest.mark.parametrize("widths", [(6, 4, 10), (5, 8, 3), (7, 2, 7), (1, 1, 1)], ids=str)
def test_absorbed_scores_are_those_of_the_keys(widths):
    q_nope, q_rope, c_kv, k_rope, W_uk = given = scores_of(5, 9, 3, *widths)
    keys = torch.einsum("hdc,btc->bhtd", W_uk, c_kv)
    whole = torch.cat([keys, k_rope[:, None].expand(-1, 3, -1, -1)], dim=-1)
    expected = torch.cat([q_nope, q_rope], dim=-1) @ whole.mT / (widths[0] + widths[1]) ** 0.5
    torch.testing.assert_close(absorbed_scores(*given), expected)


def test_absorbed_scores_are_those_of_the_layer():
    layer, x = make(dataclasses.replace(CONFIG, d_query=None, bias=False)), draw(B, T, D_MODEL)
    c = layer.config
    q_nope, q_rope = layer.W_uq(x).unflatten(-1, (c.num_heads, c.width)).transpose(1, 2).split([6, 4], dim=-1)
    latent, k_rope = layer.W_dkv(x).split([c.d_latent, c.d_rope], dim=-1)
    W_uk, W_uv = layer.W_ukv.weight.unflatten(0, (c.num_heads, -1)).split([c.d_nope, c.d_value], dim=1)
    latent = layer.norm_kv(latent)
    weights = absorbed_scores(q_nope, q_rope, latent, k_rope, W_uk).softmax(dim=-1)
    heads = torch.einsum("bhqt,btc,hdc->bqhd", weights, latent, W_uv)
    torch.testing.assert_close(layer.W_o(heads.flatten(2)), layer(x))


def test_absorbed_scores_make_no_keys():
    T_k, h, d_nope = 500, 3, 6
    with AllocationMeter() as meter, OperationCounter() as counter:
        absorbed_scores(*scores_of(1, T_k))
    assert meter.largest_elements == B * T_k * (10 + 4), "cache and rotated keys, side by side"
    assert counter.products == 2 * B * h * (d_nope * 10 + T_k * (10 + 4))


def test_a_decoder_generates_with_it():
    block = BlockConfig(CONFIG, d_ff=40, norm="rms")
    config = ModelConfig(31, 2, block, PositionConfig("rope"))
    model, prompt = raise_weights(Decoder(config)).double().eval(), torch.tensor([[3, 1, 4], [1, 5, 9]])
    tokens = prompt
    for _ in range(6):
        tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(generate(model, prompt, 6), tokens)
    assert model.stack.positions.d_rotary == CONFIG.d_rope


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"expected an even d_rope, got 3"):
        dataclasses.replace(CONFIG, d_rope=3)
    with pytest.raises(ValueError, match=r"expected d_latent as a whole number of 1 or more, got 0"):
        dataclasses.replace(CONFIG, d_latent=0)
    with pytest.raises(ValueError, match=r"one width for a quantized cache, got 10 and 4"):
        make_cache([CONFIG], B, kind="quantized")
    with pytest.raises(ValueError, match=r"expected usual attention, got LatentAttentionConfig"):
        DecoderBlock(BlockConfig(CONFIG, d_ff=40))


@pytest.mark.parametrize("kind", ["t5", "alibi", "shaw"])
def test_positions_that_it_does_not_read_are_refused(kind):
    block = BlockConfig(CONFIG, d_ff=40)
    with pytest.raises(ValueError, match=f"positions with latent attention, got {kind}; use rope"):
        ModelConfig(31, 2, block, PositionConfig(kind, max_len=16))
