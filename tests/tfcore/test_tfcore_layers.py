"""Layers, positions and models: gradients, properties, what they refuse. Other files hold them to peers."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcore.cache import make_cache
from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.interventions import ablate, attention_maps
from tfcore.layers import (
    DecoderBlock,
    FeedForward,
    MultiHeadAttention,
    TransformerBlock,
    layer_norm,
    merge_heads,
    rms_norm,
    split_heads,
    swiglu,
    swiglu_hidden_size,
)
from tfcore.models import Classifier, Decoder, Encoder, EncoderDecoder, MemoryDecoder, Tagger
from tfcore.positions import apply_rope, sinusoids
from tfcore.positions.absolute import look_up
from tfcore.positions.alibi import alibi_slopes
from tfcore.positions.relative import t5_relative_bucket
from tfcore.positions.rotary import inverse_frequencies
from tfcore.sinusoids import shift_matrix, sinusoidal_encoding
from tfcore.testing import find_leaks, raise_weights

B, T, T_MEMORY, D_MODEL, HEADS, KV_HEADS, D_HEAD, D_FF, VOCAB = 2, 5, 7, 12, 4, 2, 6, 10, 23
KINDS = ["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]
ATTENTION = AttentionConfig(D_MODEL, HEADS, KV_HEADS, D_HEAD)
BLOCK = BlockConfig(ATTENTION, D_FF)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def text(batch: int = B, length: int = T, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def raised(module: nn.Module) -> nn.Module:
    return raise_weights(module).double().eval()


def model_of(kind: str = "rope", layers: int = 1, block: BlockConfig = BLOCK, **fields) -> ModelConfig:
    return ModelConfig(VOCAB, layers, block, PositionConfig(kind, max_len=16), **fields)


def gradients_are_right(module: nn.Module, *inputs: torch.Tensor, **named) -> bool:
    """Compare the gradients of all inputs and all parameters with finite differences."""
    names = [name for name, _ in module.named_parameters()]
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    parameters = [p.detach().clone().requires_grad_() for p in module.parameters()]

    def run(*flat: torch.Tensor) -> torch.Tensor:
        weights = dict(zip(names, flat[len(leaves) :], strict=True))
        return torch.func.functional_call(module, weights, flat[: len(leaves)], named)

    return torch.autograd.gradcheck(run, (*leaves, *parameters), fast_mode=True)


# --- gradients


def test_gradients_of_attention():
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[0, :, 2] = False
    layer = raised(MultiHeadAttention(ATTENTION))
    assert gradients_are_right(layer, draw(B, T, D_MODEL), mask=mask, causal=True)


def test_gradients_of_cross_attention():
    layer = raised(MultiHeadAttention(ATTENTION))
    assert gradients_are_right(layer, draw(B, T, D_MODEL), draw(B, T_MEMORY, D_MODEL, seed=1))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
def test_gradients_of_the_feed_forward_network(activation, gated):
    config = dataclasses.replace(BLOCK, activation=activation, gated=gated)
    assert gradients_are_right(raised(FeedForward(config)), draw(B, T, D_MODEL))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_gradients_of_blocks(place, norm):
    config = dataclasses.replace(BLOCK, norm=norm, norm_place=place)
    assert gradients_are_right(raised(TransformerBlock(config)), draw(B, T, D_MODEL), causal=True)
    memory = draw(B, T_MEMORY, D_MODEL, seed=1)
    assert gradients_are_right(raised(DecoderBlock(config)), draw(B, T, D_MODEL), memory, causal=True)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_decoder(kind):
    model, tokens = raised(Decoder(model_of(kind))), text()
    names = [name for name, _ in model.named_parameters()]
    parameters = tuple(p.detach().clone().requires_grad_() for p in model.parameters())

    def run(*flat: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, dict(zip(names, flat, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, parameters, fast_mode=True)


def test_gradients_of_norms_and_swiglu():
    x, weight, bias = (y.requires_grad_() for y in (draw(3, 6), draw(6, seed=1), draw(6, seed=2)))
    assert torch.autograd.gradcheck(layer_norm, (x, weight, bias))
    assert torch.autograd.gradcheck(rms_norm, (x, weight))
    weights = [draw(6, 5, seed=3), draw(6, 5, seed=4), draw(5, 6, seed=5)]
    assert torch.autograd.gradcheck(swiglu, (x, *(w.requires_grad_() for w in weights)))


# --- formulas and the modules that models use


def test_norms_are_torchs():
    x, weight, bias = 3 + 2 * draw(2, 3, 7), draw(7, seed=1), draw(7, seed=2)
    torch.testing.assert_close(layer_norm(x, weight, bias, 0.1), F.layer_norm(x, (7,), weight, bias, 0.1))
    torch.testing.assert_close(rms_norm(x, weight, 0.1), F.rms_norm(x, (7,), weight, 0.1))


def test_swiglu_is_the_gated_network():
    config = dataclasses.replace(BLOCK, activation="silu", gated=True, ffn_bias=False)
    layer, x = raised(FeedForward(config)), draw(B, T, D_MODEL)
    weights = (layer.W_gate.weight.mT, layer.W_up.weight.mT, layer.W_down.weight.mT)
    torch.testing.assert_close(layer(x), swiglu(x, *weights))


@pytest.mark.parametrize("d_model", [1, 2, 3, 64, 100, 4096])
@pytest.mark.parametrize("multiple", [1, 7, 256])
def test_a_gated_network_has_as_many_weights_as_an_ungated_one(d_model, multiple):
    hidden = swiglu_hidden_size(d_model, multiple)
    assert hidden % multiple == 0
    assert hidden - multiple < 8 * d_model / 3 < hidden + 1


def test_heads_are_slices_of_the_channels_in_order():
    x = draw(B, T, 12)
    heads = split_heads(x, 3)
    for h in range(3):
        assert torch.equal(heads[:, h], x[..., 4 * h : 4 * h + 4])
    assert torch.equal(merge_heads(heads), x)


def test_attention_is_equivariant_and_the_encoder_without_positions_too():
    """Permute the tokens, and the outputs are permuted alike: nothing is invariant."""
    order = torch.tensor([3, 0, 4, 2, 1])
    layer, x = raised(MultiHeadAttention(ATTENTION)), draw(B, T, D_MODEL)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
    model, tokens = raised(Encoder(model_of("none", layers=2))), text()
    torch.testing.assert_close(model(tokens[:, order]), model(tokens)[:, order])
    ordered = raised(Encoder(model_of("learned", layers=2)))
    assert (ordered(tokens[:, order]) - ordered(tokens)[:, order]).abs().max() > 0.1


def test_a_memory_may_be_projected_once():
    layer, x, memory = raised(MultiHeadAttention(ATTENTION)), draw(B, T, D_MODEL), draw(B, T_MEMORY, D_MODEL)
    assert torch.equal(layer(x, layer.keys_and_values(memory)), layer(x, memory))


# --- positions


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("shift", [1, 17, 4_000])
def test_scores_of_turned_vectors_see_the_offset_alone(shift, layout):
    q, k, positions = draw(T, 8), draw(T, 8, seed=1), torch.arange(T)

    def scores(start: int) -> torch.Tensor:
        return (
            apply_rope(q, positions + start, layout=layout)
            @ apply_rope(k, positions + start, layout=layout).mT
        )

    torch.testing.assert_close(scores(shift), scores(0), rtol=0, atol=1e-9)
    assert (scores(0) - q @ k.mT).abs().max() > 0.1


def test_a_turn_keeps_lengths_and_position_0_is_no_turn():
    x = draw(2, T, 8)
    torch.testing.assert_close(apply_rope(x, torch.arange(T)).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(apply_rope(x, torch.zeros(T, dtype=torch.long)), x)


def test_part_of_a_head_may_be_turned():
    config = dataclasses.replace(PositionConfig("rope"), d_rotary=4)
    model = raised(Decoder(ModelConfig(VOCAB, 1, BLOCK, config)))
    rotation = model.stack.positions.relate(torch.arange(T), torch.arange(T), dtype=torch.float64).rotation
    x = draw(1, HEADS, T, D_HEAD)
    assert torch.equal(rotation(x)[..., 4:], x[..., 4:])
    torch.testing.assert_close(rotation(x)[..., :4], apply_rope(x[..., :4], torch.arange(T)))


@pytest.mark.parametrize("k", [-3, 0, 1, 11])
def test_one_matrix_shifts_every_sinusoid(k):
    pe = sinusoidal_encoding(30, 10)
    matrix = shift_matrix(k, 10)
    positions = np.arange(5, 15)
    np.testing.assert_allclose(pe[positions] @ matrix.T, pe[positions + k], atol=1e-12)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(10), atol=1e-12)


def test_torchs_sinusoids_are_numpys():
    ours = sinusoids(torch.arange(40), 10)
    np.testing.assert_allclose(ours, sinusoidal_encoding(40, 10), atol=1e-6)
    half = sinusoids(torch.arange(40), 10, layout="half")
    assert torch.equal(torch.cat([ours[:, 0::2], ours[:, 1::2]], dim=1), half)


# --- models


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_sees_no_future_and_an_encoder_does(kind):
    decoder, encoder = raised(Decoder(model_of(kind))), raised(Encoder(model_of(kind)))
    tokens = text(1)[0]
    assert find_leaks(decoder, tokens, VOCAB) == set()
    assert len(find_leaks(encoder, tokens, VOCAB)) == T * (T - 1) // 2


def test_an_encoder_decoder_sees_the_whole_source_and_no_future_of_the_target():
    model = raised(EncoderDecoder(EncoderDecoderConfig(model_of("t5"), model_of("t5"))))
    source, target = text(1, T_MEMORY, seed=1), text(1)
    assert find_leaks(lambda tokens: model(source, tokens), target[0], VOCAB) == set()
    before = model(source, target)
    for j in range(T_MEMORY):
        changed = source.clone()
        changed[0, j] = (changed[0, j] + 1) % VOCAB
        assert ((model(changed, target) - before).abs().amax(dim=-1) > 1e-6).all()


def test_padding_of_a_source_changes_nothing():
    model = raised(EncoderDecoder(EncoderDecoderConfig(model_of("learned"), model_of("learned"))))
    source, target = text(1, T_MEMORY, seed=1), text(1)
    padded = torch.cat([source, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    padding = torch.arange(T_MEMORY + 3)[None] < T_MEMORY
    torch.testing.assert_close(model(padded, target, padding), model(source, target))


@pytest.mark.parametrize(
    "head", [lambda e: Classifier(e, 3), lambda e: Tagger(e, 4)], ids=["classify", "tag"]
)
def test_heads_do_not_see_padding(head):
    model, tokens = raised(head(Encoder(model_of("learned")))), text()
    padded = torch.cat([tokens, torch.zeros(B, 2, dtype=torch.long)], dim=1)
    padding = (torch.arange(T + 2) < T).expand(B, -1)
    output = model(padded, padding)
    torch.testing.assert_close(output if output.ndim == 2 else output[:, :T], model(tokens))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_models_keep_their_type(dtype):
    for kind in KINDS:
        model = raise_weights(Decoder(model_of(kind))).to(dtype)
        assert model(text()).dtype == dtype


def test_dropout_draws_only_in_training():
    model = raise_weights(Decoder(model_of(block=dataclasses.replace(BLOCK, dropout=0.5))))
    assert torch.equal(model.eval()(text()), model(text()))
    assert not torch.equal(model.train()(text()), model(text()))


def test_a_rotation_may_be_slowed_down_by_a_dictionary():
    scaling = {"rope_type": "linear", "factor": 2.0}
    config = PositionConfig("rope", rope_scaling=scaling)
    assert config == PositionConfig("rope", rope_scaling=tuple(sorted(scaling.items())))
    assert hash(config)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("learned", {"rope_scaling": {"rope_type": "yarn"}}),  # which learned positions do not look at
        ("learned", {"num_buckets": 1, "max_distance": 1}),
        ("rope", {"rope_scaling": {}}),
        ("rope", {"rope_scaling": {"rope_type": "default"}}),
        ("t5", {"max_distance": 12}),  # far enough for an encoder
        ("t5", {"num_buckets": 2}),  # enough for a decoder
    ],
)
def test_positions_are_not_refused_for_what_they_do_not_use(kind, fields):
    assert PositionConfig(kind, **fields).kind == kind


@pytest.mark.slow
def test_importing_tfcore_loads_no_torch():
    code = "import sys, tfcore, tfcore.sinusoids, tfcore.ops; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what is refused


def both_sides() -> EncoderDecoder:
    return EncoderDecoder(EncoderDecoderConfig(model_of(), model_of()))


def buckets_of(**fields: int) -> EncoderDecoderConfig:
    stack = dataclasses.replace(model_of(), positions=PositionConfig("t5", **fields))
    return EncoderDecoderConfig(stack, stack)


def rotary_of(d_rotary: int) -> Decoder:
    return Decoder(dataclasses.replace(model_of(), positions=PositionConfig("rope", d_rotary=d_rotary)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionConfig(12, num_heads=5), r"divide d_model, got d_model 12 and 5"),
        (lambda: AttentionConfig(12, num_heads=4, num_kv_heads=3), r"divide the query heads, got 3 and 4"),
        (lambda: AttentionConfig(12, num_heads=0), r"num_heads .*got 0"),
        (lambda: AttentionConfig(12, num_heads=4, window=0), r"window .*got 0"),
        (lambda: dataclasses.replace(BLOCK, activation="swish"), r"relu, gelu, gelu_tanh, silu, got 'swish'"),
        (lambda: dataclasses.replace(BLOCK, norm_place="mid"), r"pre, post, sandwich, output, got 'mid'"),
        (lambda: dataclasses.replace(BLOCK, dropout=1.0), r"dropout .*got 1.0"),
        (lambda: dataclasses.replace(BLOCK, num_experts=3, top_k=4), r"at most 3 experts, got 4"),
        (lambda: dataclasses.replace(BLOCK, norm_eps=-1e-5), r"norm_eps of 0 or more, got -1e-05"),
        (lambda: dataclasses.replace(BLOCK, norm_eps=math.nan), r"norm_eps of 0 or more, got nan"),
        (lambda: dataclasses.replace(ATTENTION, scale=math.nan), r"a finite scale, got nan"),
        (lambda: model_of(num_segments=-1), r"num_segments of 0 or more, got -1"),
        (lambda: PositionConfig("rope", base=0.0), r"base above 0, got 0.0"),
        (lambda: PositionConfig("relative"), r"none, sinusoidal.*got 'relative'"),
        (lambda: PositionConfig("t5", max_distance=8), r"got num_buckets 32 and max_distance 8"),
        (lambda: PositionConfig("t5", num_buckets=1), r"got num_buckets 1 and"),
        (lambda: buckets_of(max_distance=16), r"got num_buckets 32 and max_distance 16"),
        (lambda: buckets_of(num_buckets=3), r"got num_buckets 3 and max_distance 128"),
        (lambda: AttentionConfig(True, num_heads=1), r"d_model as a whole number of 1 or more, got True"),
        (lambda: ModelConfig(VOCAB, 1, BLOCK, "rope"), r"positions of type PositionConfig, got 'rope'"),
        (lambda: model_of(block=ATTENTION), r"block of type BlockConfig, got AttentionConfig\("),
        (lambda: BlockConfig(12, d_ff=48), r"attention of type AttentionConfig or .*, got 12"),
        (lambda: EncoderDecoderConfig(model_of(), None), r"decoder of type ModelConfig, got None"),
        (lambda: Decoder(model_of())(text().float()), r"int64 or int32 .*float32"),
        (lambda: Decoder(model_of())(text()[0]), r"\(B, T\).*\(5,\)"),
        (lambda: Decoder(model_of())(text() + VOCAB), rf"from 0 to {VOCAB - 1}, got"),
        (lambda: Decoder(model_of("learned"))(text(1, 17)), r"below 16.*got 0 to 16"),
        (lambda: Decoder(model_of())(text(), padding=torch.ones(B, T)), r"boolean padding .*float32"),
        (lambda: Decoder(model_of())(text(), padding=torch.ones(B, 3).bool()), r"\(2, 5\).*\(2, 3\)"),
        (lambda: Encoder(model_of())(text(), segments=text() * 0), r"knows some, got \(2, 5\) and 0"),
        (lambda: MemoryDecoder(model_of(layers=3))(text(), None), r"each of the 3 blocks .*got 0"),
        (lambda: both_sides().decode(text(), draw(B, 3, D_MODEL)), r"each of the 1 blocks .*one tensor"),
        (lambda: both_sides().decode(text(), [draw(B, 3, D_MODEL)] * 2), r"each of the 1 blocks .*got 2"),
        (
            lambda: MemoryDecoder(model_of())(text(), draw(B, 3, D_MODEL).float(), torch.ones(B, 1).bool()),
            r"memory_padding of shape \(2, 3\).*\(2, 1\)",
        ),
        (lambda: Decoder(model_of(block=BLOCK))(text(), make_cache([ATTENTION] * 2, B)), r"1 layers, got 2"),
        (lambda: rotary_of(100), r"d_rotary of at most .*got 100"),
        (lambda: attention_maps(both_sides(), text(), text()), r"one stack, got an EncoderDecoder"),
        (lambda: dataclasses.replace(BLOCK, num_experts=3), r"experts with activation 'silu'.*got .*'gelu'"),
        (lambda: apply_rope(draw(2, 2, T, 6), torch.zeros(2, T).long()), r"positions\[:, None\]"),
        (lambda: apply_rope(draw(T, 6), torch.arange(T), layout="halves"), r"interleaved, got 'halves'"),
        (lambda: sinusoids(torch.arange(T), 6, layout="halves"), r"interleaved, got 'halves'"),
        (lambda: look_up(torch.eye(3), torch.tensor([-1])), r"positions.*-1"),
        (lambda: sinusoidal_encoding(4, 5), r"even d_model .*got 5"),
        (lambda: swiglu_hidden_size(0), r"sizes of 1 or more, got d_model 0"),
        (lambda: swiglu_hidden_size(8, multiple_of=0), r"sizes of 1 or more, .* multiple_of 0"),
        (lambda: alibi_slopes(0), r"at least one head, got 0"),
        (lambda: t5_relative_bucket(torch.arange(3), num_buckets=2), r"more buckets .*num_buckets 2"),
        (lambda: t5_relative_bucket(torch.arange(3), num_buckets=8, max_distance=2), r"max_distance 2"),
        (lambda: inverse_frequencies(6, scaling={"rope_type": "ntk"}), r"longrope, llama3, got 'ntk'"),
        (lambda: apply_rope(draw(3, 5), torch.arange(3)), r"even number of channels to turn, got 5"),
        (lambda: split_heads(draw(1, 2, 7), 3), r"divides the width, got 3 heads and \(1, 2, 7\)"),
        (
            lambda: EncoderDecoderConfig(
                model_of(), dataclasses.replace(model_of(), vocab_size=VOCAB + 1)
            ),
            r"one vocab_size .*23 and 24",
        ),
        (lambda: attention_maps(nn.Linear(2, 3), draw(2)), r"attention layers, got Linear"),
        (
            lambda: ablate(Decoder(model_of()), (0, HEADS)).__enter__(),
            r"head below 4, got layer 0, head 4",
        ),
        (
            lambda: MultiHeadAttention(ATTENTION)(
                draw(B, T, D_MODEL).float(), mask=torch.ones(B, 1, 1, T)
            ),
            r"boolean mask.*float32",
        ),
        (
            lambda: DecoderBlock(BlockConfig(ATTENTION, 9, norm_place="sandwich")),
            r"'pre', 'post' or 'output' .* got 'sandwich'",
        ),
        (
            lambda: DecoderBlock(BlockConfig(ATTENTION, 9, parallel="one norm")),
            r"no parallel .* 'one norm'; the others are not built",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
