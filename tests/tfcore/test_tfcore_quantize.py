"""Weights in 8 bits: the error is bounded, ties stay tied, and torch's own kernel computes the same."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch
from decoding_models import POSITIONS, V, config, decoder, draw_tokens, encoder_decoder
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tfcore.generate import generate
from tfcore.mamba import Mamba, MambaConfig
from tfcore.mamba2 import Mamba2, Mamba2Config
from tfcore.models import Decoder
from tfcore.quantize import FEW, Int8Embedding, Int8Linear, Int8Matrix, quantize_absmax, quantize_weights
from tfcore.recurrent import AdditiveAttention
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import AllocationMeter, OperationCounter, raise_weights

IN, OUT, B, T = 30, 17, 3, 7


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def num_bytes(model):
    tensors = [*model.parameters(), *model.buffers()]
    return sum({x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors}.values())


# --- rounding


@given(st.lists(st.floats(-1e5, 1e5, width=32), min_size=6, max_size=6), st.sampled_from([0, 1, -1]))
def test_rounding_errs_by_half_a_step_at_most(numbers, dim):
    x = torch.tensor(numbers, dtype=torch.float64).view(2, 3)
    q, scale = quantize_absmax(x, dim)
    assert q.dtype == torch.int8
    assert torch.equal(scale, x.abs().max(dim, keepdim=True).values / 127)
    assert ((q * scale - x).abs() <= scale / 2 * (1 + 1e-12)).all()
    largest = x.abs() == x.abs().max(dim, keepdim=True).values
    assert (q.abs()[largest & (x != 0)] == 127).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rounding_in_other_types(dtype):
    x = draw(OUT, IN, dtype=dtype)
    x[3] = 0
    q, scale = quantize_absmax(x, 1)
    assert scale.dtype == dtype
    assert ((q.double() * scale.double() - x.double()).abs() <= scale.double() / 2 * (1 + 1e-6)).all()
    assert (q[3] == 0).all()
    assert (scale[3] == 0).all()


# --- layers


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_moves_no_farther_than_its_rounding_allows(bias):
    linear, x = nn.Linear(IN, OUT, bias=bias).double(), draw(B, T, IN)
    with torch.no_grad():
        linear.weight.mul_(draw(OUT, 1, seed=1).exp())  # rows of different sizes
    small = quantize_weights(linear)
    assert isinstance(small, Int8Linear)
    scale = linear.weight.detach().abs().amax(1) / 127
    assert ((small.weight - linear.weight).abs() <= scale[:, None] / 2 * (1 + 1e-12)).all()
    moved = (small(x) - linear(x)).abs()
    assert (moved <= x.abs().sum(-1, keepdim=True) * scale / 2 + 1e-12).all()
    assert moved.max() > 0
    torch.testing.assert_close(small(x), nn.functional.linear(x, small.weight, linear.bias))


def test_a_linear_layer_is_torchs():
    """Torch's kernel for 8-bit weights, which its quantisation tools call, takes what is stored here."""
    linear, x = nn.Linear(64, 32, bias=False), draw(5, 64, dtype=torch.float32)
    small = quantize_weights(linear)
    expected = torch.ops.aten._weight_int8pack_mm(x, small.matrix.rounded, small.matrix.scale.squeeze(1))
    got = small(x)
    assert got.dtype == torch.float32
    assert (got - expected).abs().max() <= 2e-6 * expected.abs().max()
    assert (got - expected).abs().max() < 0.1 * (got - linear(x)).abs().max()


@pytest.mark.parametrize("num_vectors", [1, 3, FEW, FEW + 1])
@pytest.mark.parametrize(
    "shape", [(64, 32), (32, 17), (96, 1), (IN, 32), (33, OUT)]
)  # the last two have no kernel
def test_vectors_in_bfloat16_are_multiplied_in_bfloat16(num_vectors, shape):
    linear, rows = nn.Linear(*shape).bfloat16(), draw(num_vectors, 3, shape[0], dtype=torch.bfloat16)
    small, x = quantize_weights(linear), rows[:, 1]
    assert not x.is_contiguous() or num_vectors == 1
    with torch.no_grad():
        got = small(x)
    expected = x.double() @ small.weight.double().T + linear.bias.double()
    assert got.dtype == torch.bfloat16
    bound = x.double().abs() @ small.weight.double().abs().T + linear.bias.double().abs()
    assert ((got.double() - expected).abs() <= 2**-7 * bound).all()


def test_few_vectors_in_bfloat16_do_not_widen_the_matrix():
    small = quantize_weights(nn.Linear(96, 80).bfloat16())
    for num_vectors, is_wide in ((FEW, False), (FEW + 1, True)):
        x = draw(num_vectors, 96, dtype=torch.bfloat16)
        with torch.no_grad(), AllocationMeter() as memory:
            small(x)
        assert (memory.largest_elements == 80 * 96) is is_wide
        with torch.no_grad(), OperationCounter() as counter:
            small(x)
        assert counter.products == 2 * num_vectors * 96 * 80


def test_a_linear_layer_lets_gradients_reach_its_input():
    small = quantize_weights(nn.Linear(IN, OUT).double())
    assert torch.autograd.gradcheck(small, draw(B, IN).requires_grad_())


def test_an_embedding_gives_rows_of_the_matrix():
    embedding, tokens = nn.Embedding(V, 12).double(), draw_tokens(B, T)
    small = quantize_weights(embedding)
    assert isinstance(small, Int8Embedding)
    torch.testing.assert_close(small(tokens), small.weight[tokens], rtol=0, atol=0)
    scale = embedding.weight.abs().amax(1)[tokens].unsqueeze(-1) / 127
    assert ((small(tokens) - embedding(tokens)).abs() <= scale / 2 * (1 + 1e-12)).all()


# --- models


def rounded_by_hand(model):
    """Put the rounded weights into the model itself, as floating-point numbers; routers are left alone."""
    for name, module in model.named_modules():
        if type(module) in (nn.Linear, nn.Embedding) and not name.endswith("router"):
            w = module.weight.data
            scale = w.abs().amax(1, keepdim=True) / 127
            module.weight.data = (w / scale).round() * scale
    return model


@pytest.mark.parametrize("position", POSITIONS)
def test_a_model_computes_with_the_rounded_weights(position):
    model, tokens = decoder(position), draw_tokens(B, T)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    small = quantize_weights(model)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    by_hand = Decoder(model.config).double()
    by_hand.load_state_dict(before)
    torch.testing.assert_close(small(tokens), rounded_by_hand(by_hand)(tokens), rtol=0, atol=1e-9)


@pytest.mark.parametrize("position", POSITIONS)
def test_logits_stay_near(position):
    model, tokens = decoder(position), draw_tokens(B, 20)
    expected, got = model(tokens), quantize_weights(model)(tokens)
    error = ((got - expected).norm() / expected.norm()).item()
    assert 0 < error < 0.03
    agree = (got.argmax(-1) == expected.argmax(-1)).double().mean()
    assert agree > 0.9


def test_an_encoder_decoder_computes_with_the_rounded_weights():
    model, source, target = encoder_decoder(), draw_tokens(B, T), draw_tokens(B, 5, seed=1)
    small = quantize_weights(model)
    by_hand = type(model)(model.config).double()
    by_hand.load_state_dict(model.state_dict())
    expected = rounded_by_hand(by_hand)(source, target)
    torch.testing.assert_close(small(source, target), expected, rtol=0, atol=1e-9)
    assert small.encoder.embedding.matrix is small.decoder.embedding.matrix is small.head.linear.matrix


@pytest.mark.parametrize(
    ("kind", "config"),
    [(Mamba, MambaConfig), (Mamba2, functools.partial(Mamba2Config, d_head=6)), (RWKV, RWKVConfig)],
)
def test_recurrent_models_compute_with_the_rounded_weights(kind, config):
    model, tokens = raise_weights(kind(config(V, 12, 2))).double(), draw_tokens(B, T)
    small = quantize_weights(model)
    torch.testing.assert_close(small(tokens), rounded_by_hand(model)(tokens))


def test_additive_attention_computes_with_the_rounded_weights():
    model, query, keys = raise_weights(AdditiveAttention(5, 6, 7)).double(), draw(B, 5), draw(B, T, 6)
    small = quantize_weights(model)
    torch.testing.assert_close(small(query, keys, keys), rounded_by_hand(model)(query, keys, keys))


def test_a_model_generates_with_its_cache():
    model, prompt = quantize_weights(decoder()), draw_tokens(B, T)
    expected = generate(lambda tokens: model(tokens), prompt, 8)
    assert torch.equal(generate(model, prompt, 8), expected)


def test_what_was_tied_stays_tied():
    tied = quantize_weights(decoder())
    assert tied.head.linear.matrix is tied.stack.embedding.matrix
    free = dataclasses.replace(config(), tied=False)
    small = quantize_weights(raise_weights(Decoder(free)))
    assert small.head.linear.matrix is not small.stack.embedding.matrix
    moved = tied.to(torch.float32)
    assert moved.head.linear.matrix is moved.stack.embedding.matrix
    assert moved(draw_tokens(B, T)).dtype == torch.float32


@pytest.mark.parametrize("tied", [True, False])
def test_bytes(tied):
    model = Decoder(dataclasses.replace(config(layers=3), tied=tied))
    matrices = {m.weight for m in model.modules() if type(m) in (nn.Linear, nn.Embedding)}
    saved = sum(4 * w.numel() - w.numel() - 4 * len(w) for w in matrices)  # an int8 each, a step per row
    assert len(matrices) == 3 * 4 + (1 if tied else 2)
    assert num_bytes(quantize_weights(model)) == num_bytes(model) - saved


def test_experts_and_their_router_stay():
    model, tokens = (
        decoder("rope", num_experts=4, top_k=2, activation="silu", gated=True, ffn_bias=False),
        draw_tokens(B, T),
    )
    small = quantize_weights(model)
    kept = {name for name, _ in small.named_parameters() if "ffn" in name and "norm" not in name}
    assert kept == {name for name, _ in model.named_parameters() if "ffn" in name and "norm" not in name}
    assert isinstance(small.stack.blocks[0].attention.W_qkv, Int8Linear)
    by_hand = Decoder(model.config).double()
    by_hand.load_state_dict(model.state_dict())
    torch.testing.assert_close(small(tokens), rounded_by_hand(by_hand)(tokens), rtol=0, atol=1e-9)


def test_a_subclass_is_left_alone():
    attention = nn.MultiheadAttention(12, 3)
    small = quantize_weights(nn.Sequential(attention))
    assert type(small[0].out_proj) is type(attention.out_proj)


def test_it_is_saved_and_loaded():
    small, other = quantize_weights(decoder()), quantize_weights(decoder(seed=1))
    other.load_state_dict(small.state_dict())
    tokens = draw_tokens(B, T)
    assert torch.equal(other(tokens), small(tokens))


def test_a_matrix_gives_its_numbers_back():
    matrix = Int8Matrix(torch.tensor([[1.27, -0.64], [0.0, 0.0]]))
    torch.testing.assert_close(matrix.weight, torch.tensor([[1.27, -0.64], [0.0, 0.0]]))


def test_float16_overflows_no_sooner_than_the_layer_itself():
    layer, x = nn.Linear(5, 3, bias=False).half(), torch.full((2, 5), 600.0, dtype=torch.float16)
    nn.init.constant_(layer.weight, 0.01)
    torch.testing.assert_close(quantize_weights(layer)(x), layer(x), rtol=0.02, atol=0)


def test_a_layer_in_two_places_stays_one_layer():
    layer = nn.Linear(6, 6)
    first, _, last = quantize_weights(nn.Sequential(layer, nn.ReLU(), layer))
    assert type(first) is Int8Linear
    assert last is first


def test_a_matrix_that_was_turned_over_serves_the_kernel():
    matrix = Int8Matrix(draw(IN, 32, dtype=torch.bfloat16).T)
    assert matrix.rounded.is_contiguous()
    x = draw(2, IN, dtype=torch.bfloat16)
    torch.testing.assert_close(Int8Linear(matrix, None)(x), x @ matrix.weight.T, rtol=0.02, atol=0.02)
