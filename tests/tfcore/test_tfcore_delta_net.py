"""Layers of gated delta rules in a decoder: their state, padding, and what they refuse."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from tfcore.cache import make_cache
from tfcore.config import AttentionConfig, BlockConfig, DeltaNetConfig, ModelConfig, PositionConfig
from tfcore.delta_rule import gated_delta_rule_step
from tfcore.generate import CompiledDecoder, beam_search, generate
from tfcore.interventions import direct_effect
from tfcore.layers import GatedDeltaNet, MultiHeadAttention
from tfcore.models import Decoder
from tfcore.testing import raise_weights

B, T, D_MODEL = 2, 9, 24
CONFIG = DeltaNetConfig(D_MODEL, num_key_heads=2, num_value_heads=4, d_key=5, d_value=7, d_conv=3)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make():
    return raise_weights(GatedDeltaNet(CONFIG)).double()


def hybrid(**changes):
    """Two layers of delta rules around one of attention."""
    attention = BlockConfig(AttentionConfig(D_MODEL, 3), d_ff=40, norm="rms")
    delta = dataclasses.replace(attention, attention=CONFIG)
    config = ModelConfig(
        31, 3, attention, PositionConfig("rope"), blocks=(delta, attention, delta), **changes
    )
    return raise_weights(Decoder(config)).double().eval()


def by_loops(layer, x):
    """One token and one head at a time, with a convolution written out."""
    c, outputs = layer.config, torch.zeros_like(x)
    inputs, z = layer.W_qkvz(x).split([c.channels, c.num_value_heads * c.d_value], dim=-1)
    ba = layer.W_ba(x)
    for b in range(len(x)):
        memories = [torch.zeros(1, 1, c.d_value, c.d_key, dtype=x.dtype) for _ in range(c.num_value_heads)]
        for t in range(x.shape[1]):
            mixed = torch.zeros(c.channels, dtype=x.dtype)
            for back in range(c.d_conv):
                if t - back >= 0:
                    mixed = mixed + layer.conv.weight[:, 0, c.d_conv - 1 - back] * inputs[b, t - back]
            mixed, heads = F.silu(mixed), []
            keys = c.num_key_heads * c.d_key
            for h in range(c.num_value_heads):
                shared = h // (c.num_value_heads // c.num_key_heads)
                part = slice(shared * c.d_key, (shared + 1) * c.d_key)
                q, k = mixed[:keys][part], mixed[keys : 2 * keys][part]
                q, k = (y / (y.square().sum() + 1e-6).sqrt() for y in (q, k))
                v = mixed[2 * keys :][h * c.d_value : (h + 1) * c.d_value]
                beta = 1 / (1 + torch.exp(-ba[b, t, h]))
                log_decay = -layer.A_log[h].exp() * F.softplus(
                    ba[b, t, c.num_value_heads + h] + layer.b_alpha[h]
                )
                step = (y.view(1, 1, -1) for y in (q / c.d_key**0.5, k, v))
                o, memories[h] = gated_delta_rule_step(
                    *step, beta.view(1, 1), log_decay.view(1, 1), memories[h]
                )
                gate = F.silu(z[b, t, h * c.d_value : (h + 1) * c.d_value])
                heads.append(layer.norm(o.flatten()) * gate)
            outputs[b, t] = layer.W_o(torch.cat(heads))
    return outputs


def test_the_layer_is_a_recurrence():
    layer, x = make(), draw(B, T, D_MODEL)
    torch.testing.assert_close(layer(x), by_loops(layer, x))


@pytest.mark.parametrize("cuts", [[1] * T, [5, 1, 3], [2, 7]])
def test_a_state_changes_nothing(cuts):
    layer, x = make(), draw(B, T, D_MODEL)
    cache = make_cache([CONFIG], B).layers[0]
    pieces = [layer(piece, cache=cache) for piece in x.split(cuts, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), layer(x))
    assert cache.length == T


def test_the_state_does_not_grow():
    layer, sizes = make(), []
    cache = make_cache([CONFIG], B).layers[0]
    for length in (1, 8, 300):
        layer(draw(B, length, D_MODEL), cache=cache)
        sizes.append(cache.num_bytes())
    c = CONFIG
    assert sizes == [B * (c.channels * (c.d_conv - 1) + c.num_value_heads * c.d_value * c.d_key) * 8] * 3


def test_padding_on_the_left_leaves_no_trace():
    model, tokens = hybrid(), torch.randint(31, (2, 8), generator=torch.Generator().manual_seed(0))
    padding = torch.ones(2, 8, dtype=torch.bool)
    padding[1, :3] = False
    cache = model.new_cache(2, 8)
    alone = model(tokens[1:, 3:])
    torch.testing.assert_close(model(tokens, padding=padding)[1:, 3:], alone)
    cut = [
        model(x, cache, padding=p)
        for x, p in zip(tokens.split([5, 1, 2], 1), padding.split([5, 1, 2], 1), strict=True)
    ]
    torch.testing.assert_close(torch.cat(cut, dim=1)[1:, 3:], alone)


def test_nan_in_padding_on_the_left_leaves_no_trace():
    layer, x = make(), draw(2, 7, D_MODEL)
    real = torch.arange(7) >= torch.tensor([[0], [3]])
    clean = layer(x, real[:, None, None])
    dirty = layer(x.masked_fill(~real[..., None], torch.nan), real[:, None, None])
    torch.testing.assert_close(dirty[real], clean[real])


def test_parts_of_a_hybrids_logit_are_refused():
    tokens = torch.tensor([[3, 1, 4]])
    with pytest.raises(ValueError, match="pre-norm blocks of attention"):
        direct_effect(hybrid(), tokens, tokens[:, 0])


def test_a_hybrid_generates_and_searches():
    model, prompt = hybrid(), torch.tensor([[3, 1, 4], [1, 5, 9]])
    tokens = prompt
    for _ in range(6):
        tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(generate(model, prompt, 6), tokens)
    texts, scores = beam_search(model, prompt, beams=3, max_new_tokens=4)
    for text, score in zip(texts.flatten(0, 1), scores.flatten(), strict=True):
        logits = model(text[None, :-1])[0, 2:].log_softmax(dim=-1)
        torch.testing.assert_close(logits.gather(1, text[3:, None]).sum() / 4, score)


def test_gradients_reach_every_parameter():
    model = hybrid()
    model(torch.arange(12).view(2, 6)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_gate_of_attention_multiplies_each_channel():
    plain = AttentionConfig(D_MODEL, 3, bias=False)
    gated = raise_weights(MultiHeadAttention(dataclasses.replace(plain, gated=True))).double()
    ungated = MultiHeadAttention(plain).double()
    x = draw(B, T, D_MODEL)
    ungated.load_state_dict({k: v for k, v in gated.state_dict().items() if "gate" not in k})
    heads = []
    for layer in (gated, ungated):
        layer.W_o.register_forward_pre_hook(lambda module, inputs: heads.append(inputs[0]))
        layer(x, causal=True)
    torch.testing.assert_close(heads[0], heads[1] / (1 + torch.exp(-x @ gated.W_gate.weight.T)))


def test_what_is_refused():
    layer, x = make(), draw(B, T, D_MODEL)
    with pytest.raises(ValueError, match=r"expected a causal call"):
        layer(x, causal=False)
    with pytest.raises(ValueError, match=r"expected a causal call, and a mask"):
        layer(x, mask=torch.ones(B, 1, T, T, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"key heads that divide the value heads, got 3 and 4"):
        DeltaNetConfig(D_MODEL, 3, 4, 5, 7)
    cache = make_cache([CONFIG], B).layers[0]
    layer(x, cache=cache)
    with pytest.raises(ValueError, match=r"a cache that can go back to 4 tokens, got a state after 9"):
        cache.truncate(4)
    with pytest.raises(TypeError, match=r"a layer that keeps a state"):
        cache.update(x, x)
    cache.truncate(0)
    torch.testing.assert_close(layer(x, cache=cache), layer(x))


def test_padding_between_real_tokens_is_refused():
    """It would fade the state; before the text it leaves no trace."""
    model, tokens = hybrid(), torch.arange(8).reshape(1, 8)
    real = torch.tensor([[True, True, False, True, True, True, True, True]])
    with pytest.raises(ValueError, match="no padding between real tokens"):
        model(tokens, padding=real)
    left = torch.tensor([[False, False, True, True, True, True, True, True]])
    alone = model(tokens[:, 2:])
    assert torch.allclose(model(tokens, padding=left)[:, 2:], alone, atol=1e-9)


def test_compiled_steps_are_refused():
    with pytest.raises(ValueError, match="got gated delta rules; generate with the model itself"):
        CompiledDecoder(hybrid(), backend="eager")
