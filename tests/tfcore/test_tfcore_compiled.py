"""Compiled steps against the model itself: the same logits, one program, caches that keep what is theirs."""

from __future__ import annotations

import gc
import shutil
import weakref
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from decoding_models import EACH_POSITION, POSITIONS, V, config, decoder, draw_tokens, left_padding

from tfcore.attention import attention
from tfcore.cache import Cache, GrowingCache
from tfcore.config import (
    AttentionConfig,
    BlockConfig,
    LatentAttentionConfig,
    ModelConfig,
    PositionConfig,
    QKNorm,
)
from tfcore.generate import CompiledDecoder, beam_search, generate
from tfcore.generate.compiled import KEPT, PACKED
from tfcore.interventions import ablate, record
from tfcore.models import Decoder
from tfcore.testing import raise_weights

pytestmark = pytest.mark.slow  # each traces a model, most several

B, T, N = 3, 5, 7
EXPERTS = {"num_experts": 5, "top_k": 2, "activation": "silu", "gated": True, "ffn_bias": False}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")


@pytest.fixture(autouse=True)
def _no_program_of_before():
    torch.compiler.reset()


either_step = pytest.mark.parametrize("static", [False, True], ids=["packed", "recorded"])


def traced(model, static):
    """The program as torch traces it, whole, but run without a compiler."""
    return CompiledDecoder(model, static, backend="eager")


@either_step
@pytest.mark.parametrize(
    ("position", "padded"),
    [*((position, True) for position in POSITIONS), ("rope", False), ("alibi", False)],
)
def test_each_step_gives_the_logits_of_the_model(position, padded, static):
    """Without padding at two kinds of positions only, with two layers; most other tests here pad nothing."""
    model, tokens = decoder(position, layers=1 if padded else 2), draw_tokens(B, T + N)
    compiled = traced(model, static)
    padding = left_padding([T, 2, 4], T) if padded else None
    ours, theirs = compiled.new_cache(B, 13), model.new_cache(B, T + N)
    for begin, end in [(0, T), *((t, t + 1) for t in range(T, T + N))]:
        beside = {"padding": padding} if begin == 0 else {}
        expected = model(tokens[:, begin:end], theirs, **beside)
        torch.testing.assert_close(compiled(tokens[:, begin:end], ours, **beside), expected)
        assert ours.length == end


USUAL = BlockConfig(AttentionConfig(24, 6, num_kv_heads=3), d_ff=20, norm="rms")
NEWER = {
    "caps, sinks, norms of q and k, a gate": USUAL.with_attention(
        softcap=1.5, sinks=True, qk_norm=QKNorm(), gated=True
    ),
    "sandwich": replace(USUAL, norm_place="sandwich", norm="rms_plus_one"),
    "parallel": replace(USUAL, parallel="one norm"),
    "latent": replace(
        USUAL, attention=LatentAttentionConfig(24, 3, d_latent=10, d_nope=6, d_rope=4, d_value=7)
    ),
}


@either_step
@pytest.mark.parametrize("block", NEWER.values(), ids=NEWER)
def test_newer_parts_are_compiled_too(block, static):
    capped = ModelConfig(V, 1, block, PositionConfig("rope"), logit_softcap=4.0)
    model, tokens = raise_weights(Decoder(capped)).eval(), draw_tokens(B, T + N)
    backend, programs = counting()
    compiled = CompiledDecoder(model, static, backend=backend)
    ours, theirs = compiled.new_cache(B, T + N), model.new_cache(B, T + N)
    for begin, end in [(0, T), *((t, t + 1) for t in range(T, T + N))]:
        expected = model(tokens[:, begin:end], theirs)
        torch.testing.assert_close(compiled(tokens[:, begin:end], ours), expected, atol=1e-4, rtol=1e-4)
    assert len(programs) == 1


def mixed(**changes):
    """A model whose second block differs from the first."""
    alike = decoder().config
    return Decoder(replace(alike, blocks=(alike.block, replace(alike.block, **changes))))


def counting():
    """A backend that compiles nothing, and the list of what it was given."""
    programs = []

    def count(graph, inputs):
        programs.append(graph)
        return graph

    return count, programs


def programs_after(static, *texts):
    """Count the programs after each text, given by its number of sequences, its length and its padding."""
    backend, programs = counting()
    compiled, counts = CompiledDecoder(decoder(layers=1), static, backend=backend), []
    for seed, (batch, length, padding) in enumerate(texts):
        generate(compiled, draw_tokens(batch, T, seed), length - T, padding=padding)
        counts.append(len(programs))
    return counts


def test_a_recorded_step_is_one_program_for_each_shape_of_cache():
    padding = left_padding([T, 2, 4], T)
    texts = (B, T + N, None), (B, T + N, padding), (B, T + N, None), (B, T + N + 1, None), (1, T + N, None)
    assert programs_after(True, *texts) == [1, 1, 1, 2, 3]


def test_a_packed_step_is_one_program_for_all_lengths_and_soon_for_all_numbers_of_sequences():
    padding = left_padding([T, 2, 4], T)
    numbers = [(batch, T + N, None) for batch in (B, B + 1, B + 2, B)]
    lengths = [(B, T + N + 1, None), (B, T + 2, None)]
    others = (1, T + N, None), (1, T + 2, None), (B, T + N, padding), (B, T + 2, padding)
    assert programs_after(False, *numbers, *lengths, *others) == [1, 2, 2, 2, 2, 2, 3, 3, 4, 4]


def test_recorded_texts_of_two_shapes_take_turns_without_compiling_anew():
    backend, programs = counting()
    model = decoder(layers=1)
    compiled = CompiledDecoder(model, static=True, backend=backend)
    texts = [draw_tokens(batch, T + N) for batch in (1, B)]
    caches = [compiled.new_cache(len(text), T + N) for text in texts]
    for text, cache in zip(texts, caches, strict=True):
        compiled(text[:, :T], cache)
    for t in range(T, T + N):
        for text, cache in zip(texts, caches, strict=True):
            logits = compiled(text[:, t : t + 1], cache)
            torch.testing.assert_close(logits[:, 0], model(text[:, : t + 1])[:, -1])
    assert len(programs) == 2


@either_step
def test_programs_neither_add_up_to_a_limit_nor_outlive_their_use(static):
    model = raise_weights(Decoder(config(layers=1))).eval()
    compiled, copies = traced(model, static), []
    with torch._dynamo.config.patch(accumulated_recompile_limit=2):
        for n in range(5):
            raise_weights(model, seed=n)
            generate(compiled, draw_tokens(B, T), 4 + n)
            copies.append(
                weakref.ref(compiled._recorded._programs[0][0] if static else compiled._packed._copy)
            )
    gc.collect()
    assert sum(copy() is not None for copy in copies) <= (KEPT if static else 1)


@pytest.mark.parametrize(
    ("num_queries", "kv_heads", "kernel"), [(1, 6, "explicit"), (1, 3, "fused"), (5, 6, "fused")]
)
def test_a_compiler_is_given_one_query_as_a_formula(num_queries, kv_heads, kernel):
    q, k = torch.randn(B, 6, num_queries, 4), torch.randn(B, kv_heads, 7, 4)
    called = []

    def note(graph, inputs):
        called.extend(node.target for node in graph.graph.nodes)
        return graph

    output = torch.compile(attention, backend=note, fullgraph=True, dynamic=True)(q, k, k, causal=True)
    torch.testing.assert_close(output, attention(q, k, k, causal=True))
    assert (F.scaled_dot_product_attention in called) == (kernel == "fused")


@either_step
def test_generation_and_beams_write_what_they_write_with_the_model(static):
    model, prompt = decoder("learned", layers=1), draw_tokens(B, T)
    compiled = traced(model, static)
    assert torch.equal(generate(compiled, prompt, N), generate(model, prompt, N))
    drawn = [
        generate(each, prompt, N, temperature=0.8, top_k=9, generator=torch.Generator().manual_seed(1))
        for each in (compiled, model)
    ]
    assert torch.equal(*drawn)
    found, expected = (beam_search(each, prompt[:1], 4, N) for each in (compiled, model))
    torch.testing.assert_close(found, expected)


@either_step
def test_texts_that_take_turns_keep_their_caches(static):
    model = decoder()
    compiled, texts = traced(model, static), [draw_tokens(B, T + N, seed) for seed in (1, 2)]
    caches = [compiled.new_cache(B, T + N) for _ in texts]
    alone = [model(text) for text in texts]
    for text, cache in zip(texts, caches, strict=True):
        compiled(text[:, :T], cache)
    for t in range(T, T + N):
        for text, cache, expected in zip(texts, caches, alone, strict=True):
            torch.testing.assert_close(compiled(text[:, t : t + 1], cache)[:, 0], expected[:, t])
    caches[0].truncate(T)
    again = compiled(texts[0][:, T : T + 1], caches[0])
    torch.testing.assert_close(again[:, 0], alone[0][:, T])


@pytest.mark.parametrize(("static", "factor"), [(False, 1), (True, 2)], ids=["packed", "recorded"])
def test_changed_weights_are_seen_by_the_next_text_and_recorded_ones_at_once(static, factor):
    model, tokens = raise_weights(Decoder(config(layers=1))).eval(), draw_tokens(B, T)
    compiled = traced(model, static)

    caches = [compiled.new_cache(B, T) for _ in range(2)]
    compiled(tokens[:, :2], caches[0])
    before = compiled(tokens[:, 2:3], caches[0])
    kept = before.clone()
    with torch.no_grad():
        for scale_or_shift in model.stack.final_norm.parameters():
            scale_or_shift.mul_(2)
    caches[0].truncate(2)
    torch.testing.assert_close(compiled(tokens[:, 2:3], caches[0]), factor * kept)
    compiled(tokens[:, :2], caches[1])
    torch.testing.assert_close(compiled(tokens[:, 2:3], caches[1]), 2 * kept)
    assert torch.equal(before, kept)


@either_step
def test_changed_weights_are_seen_where_the_model_itself_has_read_the_prompt(static):
    model, tokens = raise_weights(Decoder(config(layers=1))).eval(), draw_tokens(B, T)
    compiled = traced(model, static)
    generate(compiled, tokens, N)
    raise_weights(model, seed=5)
    cache = model.new_cache(B, T + N)
    with torch.inference_mode():
        model(tokens[:, :-1], cache)
    assert torch.equal(generate(compiled, tokens, N, cache=cache), generate(model, tokens, N))


def last_logits(compiled, tokens):
    """Read a text anew, its last token alone."""
    cache = compiled.new_cache(*tokens.shape)
    compiled(tokens[:, :-1], cache)
    return compiled(tokens[:, -1:], cache)


@either_step
def test_another_mode_is_seen(static):
    model, tokens = raise_weights(Decoder(config(layers=1, dropout=0.5))).eval(), draw_tokens(B, T)
    compiled = traced(model, static)
    assert torch.equal(last_logits(compiled, tokens), last_logits(compiled, tokens))
    model.train()
    assert not torch.equal(last_logits(compiled, tokens), last_logits(compiled, tokens))


def fewer_turns(model):
    model.stack.positions.omega = model.stack.positions.omega * 0.7


def own_forward(model):
    model.head.forward = lambda x: model.head.linear(3 * x)


CHANGES = {
    "scale": lambda model: setattr(model.stack.blocks[0].attention, "scale", 2.0),
    "epsilon": lambda model: setattr(model.stack.final_norm, "eps", 0.5),
    "frequencies": fewer_turns,
    "forward": own_forward,
}


@either_step
@pytest.mark.parametrize("change", CHANGES)
@torch.inference_mode()
def test_what_changes_beside_the_weights_is_seen_by_the_next_text(change, static):
    model, tokens = raise_weights(Decoder(config(layers=1))).eval(), draw_tokens(B, T)
    compiled = traced(model, static)
    before = last_logits(compiled, tokens)
    CHANGES[change](model)
    after = last_logits(compiled, tokens)
    assert (after - before).abs().max() > 1e-2
    torch.testing.assert_close(after, model(tokens)[:, -1:], rtol=0, atol=1e-4)


@either_step
@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_model_that_is_looked_into_runs_as_it_is(compiled_before, static):
    model, prompt = decoder(), draw_tokens(B, T)
    compiled = traced(model, static)
    if compiled_before:
        generate(compiled, prompt, N)
    with ablate(model, (1, 2)):
        silenced = generate(model, prompt, N)
        assert torch.equal(generate(compiled, prompt, N), silenced)
    whole = generate(model, prompt, N)
    assert not torch.equal(whole, silenced)
    assert torch.equal(generate(compiled, prompt, N), whole)
    with record(model, "blocks.1.attention.weights") as seen:
        generate(compiled, prompt, N)
    assert seen["blocks.1.attention.weights"].shape == (B, 6, 1, T + N - 1)
    assert torch.equal(generate(compiled, prompt, N), whole)


@either_step
def test_gaps_are_refused_as_by_the_model(static):
    model, tokens = decoder("alibi", layers=1), draw_tokens(B, T)
    compiled, gap = traced(model, static), torch.ones(B, T - 1, dtype=torch.bool)
    gap[1, -1] = False
    for run in (model, compiled):
        cache = compiled.new_cache(B, T)
        run(tokens[:, :-1], cache, padding=gap)
        with pytest.raises(ValueError, match="no padding between real tokens"):
            run(tokens[:, -1:], cache)
    cache = compiled.new_cache(B, T)
    compiled(tokens[:, :2], cache)
    with pytest.raises(ValueError, match="no padding between real tokens"):
        compiled(tokens[:, 2:4], cache, padding=torch.tensor([[False, True]] * B))
    torch.testing.assert_close(compiled(tokens[:, 2:3], cache)[:, 0], model(tokens)[:, 2])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda c: traced(decoder(window=3), None).new_cache(B, 9),
            "window of at least 9.*preallocated and 3",
        ),
        (
            lambda c: traced(Decoder(decoder().config.with_windows([None, 3])), None).new_cache(B, 9),
            "window of at least 9.*preallocated and 3",
        ),
        (lambda c: traced(decoder(**EXPERTS), None), "the same for every token, got one with 5 experts"),
        (lambda c: traced(mixed(**EXPERTS), None), "the same for every token, got one with 5 experts"),
        (lambda c: c(draw_tokens(B, 1) + V, c.new_cache(B, 9)), "expected token ids from 0 to 22"),
        (lambda c: c(draw_tokens(B, 1), Cache([GrowingCache()] * 2)), "a KVCache for each.*got GrowingCache"),
        (lambda c: generate(c, draw_tokens(B, 38), 4), "expected positions below 40"),
    ],
)
@either_step
def test_what_does_not_fit_is_told(call, says, static):
    with pytest.raises(ValueError, match=says):
        call(traced(decoder("learned"), static))


@either_step
def test_a_step_without_room_is_refused_and_changes_nothing(static):
    model, tokens = decoder(), draw_tokens(B, T)
    compiled = traced(model, static)
    cache = compiled.new_cache(B, T)
    compiled(tokens[:, :-1], cache)
    compiled(tokens[:, -1:], cache)
    kept = cache.layers[1].keys.clone()
    with pytest.raises(ValueError, match=f"at most {T} tokens"):
        compiled(tokens[:, -1:], cache)
    cache.truncate(2)
    with pytest.raises(ValueError, match=f"the {B} sequences that this cache has begun, got 1"):
        compiled(tokens[:1, -1:], cache)
    assert torch.equal(cache.layers[1].keys, kept)
    assert cache.length == 2


@either_step
def test_a_step_that_cannot_be_compiled_changes_nothing(static):
    def broken(graph, inputs):
        raise RuntimeError("there is no compiler")

    model, tokens = decoder(), draw_tokens(B, T)
    compiled = CompiledDecoder(model, static, backend=broken)
    cache = compiled.new_cache(B, T)
    compiled(tokens[:, :2], cache)
    with pytest.raises(RuntimeError, match="there is no compiler"):
        compiled(tokens[:, 2:3], cache)
    assert [layer.length for layer in cache.layers] == [2, 2]
    torch.testing.assert_close(model(tokens[:, 2:3], cache)[:, 0], model(tokens)[:, 2])


def same_widths() -> ModelConfig:
    """A model with three shapes of matrices, since the compiler tries several programs for each."""
    usual = config(layers=1)
    return replace(usual, block=replace(usual.block, d_ff=24))


@needs_compiler
@either_step
def test_compiled_for_a_cpu(static, monkeypatch):
    model, prompt = raise_weights(Decoder(same_widths())).eval(), draw_tokens(B, T)
    padding = left_padding([T, 2, 4], T)
    compiled, before = CompiledDecoder(model, static), None
    for _ in range(2):  # the second time with other weights
        expected = generate(model, prompt, N, padding=padding)
        assert torch.equal(generate(compiled, prompt, N, padding=padding), expected)
        assert before is None or not torch.equal(before, expected)
        before = expected
        raise_weights(model, seed=1)
        monkeypatch.setitem(PACKED, "max_autotune", False)  # the products have been tried, for half a minute


@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_what_positions_are_worked_out_from_outlives_a_model_without_weights(position):
    model, tokens = raise_weights(Decoder(config(position))), draw_tokens(B, T)
    expected, weights = model(tokens), model.state_dict()
    empty = Decoder(config(position)).to("meta").to_empty(device="cpu")
    empty.load_state_dict(weights)
    assert torch.equal(empty(tokens), expected)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("position", EACH_POSITION)
def test_recorded_as_a_cuda_graph(position):
    model = raise_weights(Decoder(config(position))).cuda().eval()
    fixed = [x for x in vars(model.stack.positions).values() if isinstance(x, torch.Tensor)]
    assert all(x.is_cuda for x in fixed)  # or every step would wait for a copy
    compiled = CompiledDecoder(model)
    for seed in range(3):
        prompt = draw_tokens(B, T, seed).cuda()
        assert torch.equal(generate(compiled, prompt, N), generate(model, prompt, N))
