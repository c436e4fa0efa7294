"""Our models and layers against transformers and torch.nn, at weights where faults show."""

from __future__ import annotations

import dataclasses
import re

import pytest
import tiny_checkpoints as tiny
import torch
import transformers
from tiny_checkpoints import TOLERANCE, T, batch, checkpoint, distance, our_output, their_output
from torch import nn

from tfcore.config import AttentionConfig, BlockConfig
from tfcore.io import from_pretrained
from tfcore.layers import DecoderBlock, MultiHeadAttention, TransformerBlock, make_norm, rms_norm
from tfcore.positions import alibi_slopes, apply_rope, inverse_frequencies, sinusoids, t5_relative_bucket
from tfcore.positions.rotary import Rotation
from tfcore.routing import RouterConfig
from tfcore.testing import Mutant, raise_weights

NAMES = list(tiny.SPECS)
CACHED = [name for name, spec in tiny.SPECS.items() if spec.kind != "encoder"]
PADDED = [name for name, spec in tiny.SPECS.items() if spec.kind in ("decoder", "encoder", "seq2seq")]
LEFT_PADDED = [name for name, spec in tiny.SPECS.items() if spec.kind == "decoder"]
BY_LENGTH = (
    "llama-dynamic",
    "llama-longrope",
    "phi3-longrope",
)  # the rotations of a text depend on how it is cut
CHUNKS = [6, 1, 1, 4, 1]


# --- whole models


@pytest.mark.parametrize("name", NAMES)
def test_output(name):
    c = checkpoint(name)
    x = batch(c.kind)
    assert distance(our_output(c.ours, c.kind, x), their_output(c.theirs, c.kind, x)) < TOLERANCE


@pytest.mark.parametrize("name", PADDED)
def test_padding(name):
    c = checkpoint(name)
    x = batch(c.kind, padded=True)
    theirs = their_output(c.theirs, c.kind, x)
    assert distance(our_output(c.ours, c.kind, x), theirs, where=x.padding) < TOLERANCE
    unpadded = dataclasses.replace(x, padding=None, source_padding=None)
    assert distance(our_output(c.ours, c.kind, unpadded), theirs, where=x.padding) > 0.01  # it matters


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [[1] * 13, CHUNKS], ids=["steps", "chunks"])
@pytest.mark.parametrize("name", CACHED)
def test_cached(name, chunks):
    c = checkpoint(name)
    x = batch(c.kind)
    ours = tiny.our_output_in_chunks(c.ours, c.kind, x, chunks, None)
    whole = their_output(c.theirs, c.kind, x)
    theirs = tiny.their_output_in_chunks(name, x, chunks) if name in BY_LENGTH else whole
    assert distance(ours, theirs) < TOLERANCE
    assert name not in BY_LENGTH or distance(ours, whole) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("cache_kind", ["growing", "preallocated"])
@pytest.mark.parametrize("name", LEFT_PADDED)
def test_cached_and_padded(name, cache_kind):
    c = checkpoint(name)
    x = batch(c.kind, padded=True)
    ours = tiny.our_output_in_chunks(c.ours, c.kind, x, CHUNKS, cache_kind)
    by_length = name in BY_LENGTH
    theirs = tiny.their_output_in_chunks(name, x, CHUNKS) if by_length else their_output(c.theirs, c.kind, x)
    assert distance(ours, theirs, where=x.padding) < TOLERANCE


def test_segments_of_bert():
    c, x = checkpoint("bert"), batch("encoder")
    segments = torch.randint(2, x.tokens.shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        theirs = c.theirs(x.tokens, token_type_ids=segments).last_hidden_state
        assert distance(c.ours(x.tokens, segments=segments), theirs) < TOLERANCE
        assert distance(c.ours(x.tokens), theirs) > 0.01


def test_window_and_its_cache_agree_beyond_the_window():
    c, x = checkpoint("mistral"), batch("decoder")
    sliding = tiny.our_output_in_chunks(c.ours, c.kind, x, [2, 7, 1, 1, 1, 1], "sliding")
    assert distance(sliding, their_output(c.theirs, c.kind, x)) < TOLERANCE


# --- generation, token for token


@torch.no_grad()
def greedy(step, prompt, num_new):
    tokens = [prompt]
    for _ in range(num_new):
        tokens.append(step(tokens[-1])[:, -1].argmax(dim=-1, keepdim=True))
    return torch.cat(tokens, dim=1)


def their_greedy(model, **inputs):
    model.generation_config.eos_token_id = None
    return model.generate(**inputs, do_sample=False, max_new_tokens=14, pad_token_id=0, use_cache=False)


def test_greedy_gpt2():
    c, x = checkpoint("gpt2"), batch("decoder")
    cache = c.ours.new_cache(len(x.tokens))
    ours = greedy(lambda tokens: c.ours(tokens, cache), x.tokens, 14)
    assert torch.equal(
        ours, their_greedy(c.theirs, input_ids=x.tokens, attention_mask=torch.ones_like(x.tokens))
    )


def test_greedy_gpt2_padded_on_the_left():
    c, x = checkpoint("gpt2"), batch("decoder", padded=True)
    cache = c.ours.new_cache(len(x.tokens))
    masks = iter([x.padding] + [None] * 14)
    ours = greedy(lambda tokens: c.ours(tokens, cache, padding=next(masks)), x.tokens, 14)
    theirs = their_greedy(c.theirs, input_ids=x.tokens, attention_mask=x.padding.long())
    assert torch.equal(ours, theirs)
    assert len(ours[:, T:].unique()) > 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "t5-v1.1"])
def test_greedy_t5(name):
    c, x = checkpoint(name), batch("seq2seq", padded=True)
    memory = c.ours.memory(c.ours.encode(x.source, x.source_padding))
    cache = c.ours.new_cache(len(x.source))
    start = torch.zeros(len(x.source), 1, dtype=torch.long)
    ours = greedy(lambda tokens: c.ours.decode(tokens, memory, x.source_padding, cache=cache), start, 14)
    theirs = their_greedy(
        c.theirs, input_ids=x.source, attention_mask=x.source_padding.long(), decoder_start_token_id=0
    )
    assert torch.equal(ours, theirs)
    assert len(ours.unique()) > 8


# --- none of this is blind: one thing wrong, and the outputs differ


def misread(path, value):
    """Let one field of our configuration come out of config.json wrong."""

    def replaced(config, names):
        if not names:
            return value
        if isinstance(config, tuple):  # the blocks
            return tuple(replaced(one, names) for one in config)
        return dataclasses.replace(config, **{names[0]: replaced(getattr(config, names[0]), names[1:])})

    return Mutant(
        f"{path} = {value}",
        "tfcore.io.family:Family.config",
        lambda right: lambda self, json: replaced(right(self, json), path.split(".")),
    )


def exchanged(one, other):
    """Let two tensors of one shape be read for each other."""
    names = {one: other, other: one}

    def rename(name):
        return re.sub(f"{re.escape(one)}|{re.escape(other)}", lambda found: names[found[0]], name)

    return Mutant(
        f"{one} for {other}",
        "tfcore.io.files:Weights.read",
        lambda right: lambda self, name: right(self, rename(name)),
    )


FAULTS = [
    ("gpt2", misread("block.activation", "gelu")),
    ("gpt2", misread("block.norm_eps", 1e-5)),
    ("gpt2", misread("block.attention.scale", 24**-0.5)),
    ("gpt2", exchanged("ln_1", "ln_2")),
    ("llama", misread("positions.layout", "interleaved")),
    ("llama", misread("positions.base", 10_000.0)),
    ("llama", misread("positions.rope_scaling", None)),
    ("llama", misread("block.norm_eps", 1e-6)),
    ("llama", exchanged("k_proj", "v_proj")),
    ("llama", exchanged("gate_proj", "up_proj")),
    ("llama-biased", misread("positions.rope_scaling", None)),
    ("llama-yarn", misread("positions.rope_scaling", None)),
    ("llama-dynamic", misread("positions.rope_scaling", None)),
    ("llama-longrope", misread("positions.rope_scaling", None)),
    ("mistral", misread("block.attention.window", 4)),
    ("mistral", misread("block.attention.window", 6)),
    ("mixtral", misread("block.top_k", 2)),
    ("mixtral", exchanged("w1", "w3")),
    ("mixtral", exchanged("experts.0", "experts.4")),
    ("bloom", misread("block.activation", "gelu")),
    ("bloom", Mutant("slopes", "tfcore.positions.alibi:alibi_slopes", lambda f: lambda n: f(n) ** 0.5)),
    ("rwkv", misread("norm_eps", 1e-5)),
    ("rwkv", exchanged("time_mix_key", "time_mix_receptance")),
    ("mamba", misread("norm_eps", 1e-5)),
    ("mamba2", misread("norm_eps", 1e-5)),
    ("mamba2", misread("step_limit", (0.02, 1e9))),
    ("mamba2", misread("step_limit", (0.0, 0.3))),
    ("mamba2", exchanged("A_log", "dt_bias")),
    ("bert", misread("block.norm_eps", 1e-12)),
    ("bert", exchanged("attention.output.LayerNorm", "output.LayerNorm")),
    ("t5", misread("decoder.logit_scale", 1.0)),
    ("t5", misread("encoder.block.attention.scale", None)),
    ("t5", misread("decoder.positions.max_distance", 128)),
    ("t5-v1.1", misread("decoder.block.activation", "gelu")),
    ("t5-v1.1", exchanged("wi_0", "wi_1")),
    ("bart", misread("encoder.embedding_scale", 24**0.5)),
    ("bart", exchanged("encoder.embed_positions", "decoder.embed_positions")),
    ("marian", misread("encoder.positions.layout", "interleaved")),
    ("marian", misread("decoder.embedding_scale", 1.0)),
    ("whisper", misread("block.activation", "gelu_tanh")),
    ("whisper", exchanged("encoder_attn.", "self_attn.")),
    ("qwen2", misread("block.norm_eps", 1e-6)),
    ("qwen2-windows", misread("blocks", None)),
    ("qwen3", misread("block.attention.qk_norm.eps", 1e-6)),
    ("qwen3", exchanged("q_norm", "k_norm")),
    ("olmo2", misread("block.norm_place", "pre")),
    ("olmo2", exchanged("post_attention_layernorm", "post_feedforward_layernorm")),
    ("gemma", misread("block.norm", "rms")),
    ("gemma", misread("block.activation", "gelu")),
    ("gemma", misread("embedding_scale", 1.0)),
    ("gemma2", misread("blocks", None)),
    ("gemma2", misread("blocks.attention.softcap", None)),
    ("gemma2", misread("blocks.attention.scale", None)),
    ("gemma2", misread("logit_softcap", None)),
    ("gemma2", exchanged("post_attention_layernorm", "post_feedforward_layernorm")),
    ("gemma2", exchanged("input_layernorm", "pre_feedforward_layernorm")),
    ("gemma3", misread("window_positions", None)),
    ("gemma3", misread("positions.rope_scaling", None)),
    ("gemma3", misread("blocks.attention.qk_norm.kind", "rms")),
    ("deepseek_v2", misread("blocks.router.normalised", True)),
    ("deepseek_v2", misread("blocks.router.scale", 1.0)),
    ("deepseek_v2-groups", misread("blocks.router", RouterConfig(normalised=False))),
    ("deepseek_v2-groups", misread("blocks.attention.scale", None)),
    ("deepseek_v3", misread("positions.layout", "half")),
    ("deepseek_v3", misread("positions.rope_scaling", None)),
    ("deepseek_v3", misread("blocks.router.group_score", 1)),
    ("deepseek_v3", misread("blocks.router.score", "softmax")),
    ("deepseek_v3-half", misread("blocks.attention.norm_eps", 0.013)),
    ("qwen3_next", misread("blocks.router.normalised", True)),
    ("qwen3_next", misread("blocks.norm", "rms")),
    ("qwen3_next", misread("positions.d_rotary", None)),
    ("qwen3_next", exchanged("shared_expert.gate_proj", "shared_expert.up_proj")),
    ("gpt_oss", misread("blocks.expert_limit", 7.0)),
    ("gpt_oss", misread("blocks.attention.window", None)),
    ("gpt_neox", misread("positions.d_rotary", None)),
    ("gpt_neox", misread("block.parallel", None)),
    ("gpt_neox", exchanged("input_layernorm", "post_attention_layernorm")),
    ("gpt_neox-sequential", misread("block.parallel", "two norms")),
    ("phi", misread("positions.d_rotary", 2)),
    ("phi3", misread("block.attention.window", 4)),
    ("phi3", misread("block.attention.window", 6)),
    ("phi3", Mutant("up before gate", "tfcore.io.table:Row.together", lambda f: lambda *a: f(*a)[::-1])),
    ("stablelm", misread("positions.d_rotary", 4)),
    ("roberta", misread("block.norm_eps", 1e-12)),
    ("modernbert", misread("blocks.attention.window", 2)),
    ("modernbert", misread("window_positions", None)),
    (
        "modernbert",
        Mutant("up before gate", "tfcore.io.table:Row.together", lambda f: lambda *a: f(*a)[::-1]),
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}: {fault.name}" for name, fault in FAULTS])
def test_a_fault_shows(name, fault):
    c = checkpoint(name)
    x = batch(c.kind)
    with fault.applied():
        faulty = from_pretrained(c.folder)
    assert distance(our_output(faulty, c.kind, x), our_output(c.ours, c.kind, x)) > 2 * TOLERANCE


# --- layers


SIZES = {"d_model": 24, "num_heads": 3}
GENERATOR = torch.Generator().manual_seed(3)


def draw(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def copy_attention(theirs, ours):
    """Give our layer the weights of torch's."""
    with torch.no_grad():
        ours.W_qkv.weight.copy_(theirs.in_proj_weight)
        ours.W_qkv.bias.copy_(theirs.in_proj_bias)
        ours.W_o.load_state_dict(theirs.out_proj.state_dict())


def copy_block(theirs, ours):
    copy_attention(theirs.self_attn, ours.attention)
    pairs = [
        (theirs.norm1, ours.norm_attention),
        (theirs.linear1, ours.ffn.W_up),
        (theirs.linear2, ours.ffn.W_down),
    ]
    if hasattr(theirs, "multihead_attn"):
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        pairs += [(theirs.norm2, ours.norm_cross), (theirs.norm3, ours.norm_ffn)]
    else:
        pairs += [(theirs.norm2, ours.norm_ffn)]
    for one, other in pairs:
        other.load_state_dict(one.state_dict())


def test_attention_is_torchs_with_the_mask_turned_round():
    theirs = raise_weights(nn.MultiheadAttention(24, 3, batch_first=True))
    ours = MultiHeadAttention(AttentionConfig(**SIZES))
    copy_attention(theirs, ours)
    x, memory = draw(2, 5, 24), draw(2, 7, 24)
    may_attend = torch.rand(5, 7, generator=GENERATOR) < 0.6
    may_attend[:, 2] = True
    expected, _ = theirs(x, memory, memory, attn_mask=~may_attend)
    assert distance(ours(x, memory, may_attend), expected) < TOLERANCE
    assert distance(ours(x, memory, ~may_attend | (torch.arange(7) == 2)), expected) > 0.01

    real = torch.arange(7) < torch.tensor([[7], [4]])
    expected, _ = theirs(x, memory, memory, key_padding_mask=~real)
    assert distance(ours(x, memory, real[:, None, None, :]), expected) < TOLERANCE


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_blocks_are_torchs(norm_first, activation):
    options = {"dim_feedforward": 40, "dropout": 0.0, "activation": activation, "layer_norm_eps": 0.013}
    config = BlockConfig(
        AttentionConfig(**SIZES),
        d_ff=40,
        activation=activation,
        norm_eps=0.013,
        norm_place="pre" if norm_first else "post",
    )
    x, memory = draw(2, 5, 24), draw(2, 7, 24)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    theirs = raise_weights(
        nn.TransformerEncoderLayer(24, 3, batch_first=True, norm_first=norm_first, **options)
    )
    ours = TransformerBlock(config)
    copy_block(theirs, ours)
    assert distance(ours(x), theirs(x)) < TOLERANCE
    assert distance(ours(x, causal=True), theirs(x, src_mask=later)) < TOLERANCE

    theirs = raise_weights(
        nn.TransformerDecoderLayer(24, 3, batch_first=True, norm_first=norm_first, **options)
    )
    ours = DecoderBlock(config)
    copy_block(theirs, ours)
    real = torch.arange(7) < torch.tensor([[7], [4]])
    expected = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=~real)
    assert distance(ours(x, memory, None, real[:, None, None, :], causal=True), expected) < TOLERANCE


# --- positions


POSITIONS = torch.tensor([[0, 1, 2, 9, 40], [3, 4, 5, 6, 1000]])


def test_rope_in_halves_is_llamas():
    from transformers.models.llama import modeling_llama

    config = transformers.LlamaConfig(hidden_size=24, num_attention_heads=3, rope_theta=333.0)
    q, k = draw(2, 3, 5, 8), draw(2, 2, 5, 8)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(q, POSITIONS)
    theirs = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    for x, expected in zip((q, k), theirs, strict=True):
        ours = apply_rope(x, POSITIONS.unsqueeze(1), base=333.0)
        torch.testing.assert_close(ours, expected, atol=2e-4, rtol=0)  # float32 angles of 1000 in theirs


def test_interleaved_rope_is_gpt_js():
    from transformers.models.gptj import modeling_gptj

    x = draw(2, 5, 3, 8)  # GPT-J has heads after time
    table = modeling_gptj.create_sinusoidal_positions(1001, 6)
    sin, cos = torch.chunk(table[POSITIONS], 2, dim=-1)
    theirs = modeling_gptj.apply_rotary_pos_emb(x[..., :6], sin, cos).transpose(1, 2)
    x = x.transpose(1, 2)
    turn = Rotation(POSITIONS.unsqueeze(1), inverse_frequencies(6), "interleaved")
    torch.testing.assert_close(turn(x)[..., :6], theirs, atol=2e-4, rtol=0)
    torch.testing.assert_close(turn(x)[..., 6:], x[..., 6:])


@pytest.mark.parametrize("num_heads", [1, 2, 3, 8, 12, 16, 20])
def test_alibi_slopes_are_blooms(num_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    mask = torch.ones(1, 5)
    theirs = build_alibi_tensor(mask, num_heads, torch.float32).view(num_heads, 5)
    torch.testing.assert_close(alibi_slopes(num_heads)[:, None] * torch.arange(5), theirs)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (12, 9), (20, 77)])
def test_buckets_are_t5s(num_buckets, max_distance, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-300, 300)
    theirs = T5Attention._relative_position_bucket(distance, bidirectional, num_buckets, max_distance)
    assert torch.equal(t5_relative_bucket(distance, bidirectional, num_buckets, max_distance), theirs)


def test_sinusoids_in_halves_are_marians():
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(600, 24).create_weight()
    torch.testing.assert_close(sinusoids(torch.arange(600), 24, layout="half"), theirs, atol=5e-5, rtol=0)


def test_rms_norm_is_llamas():
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    theirs = raise_weights(LlamaRMSNorm(24, eps=0.013))
    config = BlockConfig(AttentionConfig(**SIZES), d_ff=40, norm="rms", norm_eps=0.013)
    module = make_norm(config)
    module.load_state_dict(theirs.state_dict())
    x = draw(2, 5, 24)
    for ours in (rms_norm(x, theirs.weight, eps=0.013), module(x)):
        assert distance(ours, theirs(x)) < 1e-6
