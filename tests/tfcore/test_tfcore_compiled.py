"""Compiled steps against the model itself: the same logits, one program, caches that keep what is theirs."""

from __future__ import annotations

import shutil

import pytest
import torch
from decoding_models import EACH_POSITION, V, config, decoder, draw_tokens, left_padding

from tfcore.cache import Cache, GrowingCache
from tfcore.generate import CompiledDecoder, beam_search, generate
from tfcore.models import Decoder
from tfcore.testing import raise_weights

B, T, N = 3, 5, 7
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")


@pytest.fixture(autouse=True)
def _no_program_of_before():
    torch.compiler.reset()


def traced(model):
    """The program as torch traces it, whole, but run without a compiler."""
    return CompiledDecoder(model, backend="eager")


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("position", EACH_POSITION)
def test_each_step_gives_the_logits_of_the_model(position, padded):
    model, tokens = decoder(position), draw_tokens(B, T + N)
    compiled = traced(model)
    padding = left_padding([T, 2, 4], T) if padded else None
    ours, theirs = compiled.new_cache(B, 13), model.new_cache(B, T + N)
    for begin, end in [(0, T), *((t, t + 1) for t in range(T, T + N))]:
        beside = {"padding": padding} if begin == 0 else {}
        expected = model(tokens[:, begin:end], theirs, **beside)
        torch.testing.assert_close(compiled(tokens[:, begin:end], ours, **beside), expected)
        assert ours.length == end


def test_there_is_one_program_for_all_steps_and_all_texts():
    programs = []

    def count(graph, inputs):
        programs.append(graph)
        return graph

    compiled = CompiledDecoder(decoder(), backend=count)
    for seed in range(3):
        prompt = draw_tokens(B, T, seed)
        padding = left_padding([T, 2, 4], T) if seed == 1 else None
        generate(compiled, prompt, N, padding=padding)
    assert len(programs) == 1
    generate(compiled, draw_tokens(B, T), N + 1)
    assert len(programs) == 2


def test_generation_and_beams_write_what_they_write_with_the_model():
    model, prompt = decoder("learned"), draw_tokens(B, T)
    compiled = traced(model)
    assert torch.equal(generate(compiled, prompt, N), generate(model, prompt, N))
    drawn = [
        generate(each, prompt, N, temperature=0.8, top_k=9, generator=torch.Generator().manual_seed(1))
        for each in (compiled, model)
    ]
    assert torch.equal(*drawn)
    found, expected = (beam_search(each, prompt[:1], 4, N) for each in (compiled, model))
    torch.testing.assert_close(found, expected)


def test_texts_that_take_turns_keep_their_caches():
    model = decoder()
    compiled, texts = traced(model), [draw_tokens(B, T + N, seed) for seed in (1, 2)]
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


def test_a_changed_weight_is_seen_and_logits_stay():
    model = raise_weights(Decoder(config())).eval()
    compiled, tokens = traced(model), draw_tokens(B, T)
    cache = compiled.new_cache(B, T)
    compiled(tokens[:, :2], cache)
    before = compiled(tokens[:, 2:3], cache)
    kept = before.clone()
    with torch.no_grad():
        for scale_or_shift in model.stack.final_norm.parameters():
            scale_or_shift.mul_(2)
    assert torch.equal(before, kept)
    cache.truncate(2)
    torch.testing.assert_close(compiled(tokens[:, 2:3], cache), 2 * kept)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c: traced(decoder(window=3)).new_cache(B, 9), "expected a window of at least 9.*got 3"),
        (lambda c: c(draw_tokens(B, 1) + V, c.new_cache(B, 9)), "expected token ids from 0 to 22"),
        (lambda c: c(draw_tokens(B, 1), Cache([GrowingCache()] * 2)), "a KVCache for each.*got GrowingCache"),
        (lambda c: generate(c, draw_tokens(B, 38), 4), "expected positions below 40"),
    ],
)
def test_what_does_not_fit_is_told(call, says):
    with pytest.raises(ValueError, match=says):
        call(traced(decoder("learned")))


def test_a_step_without_room_is_refused_and_changes_nothing():
    model, tokens = decoder(), draw_tokens(B, T)
    compiled = traced(model)
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


@pytest.mark.slow
@needs_compiler
def test_compiled_for_a_cpu():
    model, prompt = decoder("rope"), draw_tokens(B, T)
    padding = left_padding([T, 2, 4], T)
    found = generate(CompiledDecoder(model), prompt, N, padding=padding)
    assert torch.equal(found, generate(model, prompt, N, padding=padding))


@pytest.mark.gpu
@needs_cuda
def test_recorded_as_a_cuda_graph():
    model = raise_weights(Decoder(config("learned"))).cuda().eval()
    compiled = CompiledDecoder(model)
    for seed in range(3):
        prompt = draw_tokens(B, T, seed).cuda()
        assert torch.equal(generate(compiled, prompt, N), generate(model, prompt, N))
