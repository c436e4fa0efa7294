"""Caches: a model with one computes what it computes without, however the text is cut."""

from __future__ import annotations

import pytest
import torch
from cache_cases import CACHES, GROUP, WINDOW, B, D, H, T, close, compositions, draw_pair, feed
from decoding_models import EACH_POSITION, POSITIONS, decoder, draw_tokens, encoder_decoder, left_padding
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcore.cache import (
    QuantizedCache,
    SlidingWindowCache,
    dequantize_kv,
    quantize_kv,
)

EXACT = [  # kind of cache, window of attention
    ("growing", None),
    ("growing", WINDOW),
    ("preallocated", None),
    ("preallocated", WINDOW),
    ("sliding", WINDOW),
    ("sliding", 1),
]


SWIGLU = {"activation": "silu", "gated": True, "ffn_bias": False}


# --- cached is uncached


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "window"), EXACT)
@pytest.mark.parametrize("position", EACH_POSITION)
@settings(max_examples=6)
@given(sizes=compositions(), lengths=st.none() | st.tuples(*[st.integers(1, T)] * B))
def test_every_chunking_gives_the_logits_of_the_whole(position, kind, window, sizes, lengths):
    model, tokens = decoder(position, window), draw_tokens(B, T)
    padding = None if lengths is None else left_padding(lengths, T)
    got = feed(model, tokens, sizes, model.new_cache(B, T, kind), padding)
    expected = model(tokens, padding=padding)
    real = slice(None) if padding is None else padding
    close(got[real], expected[real])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[T], [1] * T, [9, 4], [1, 9, 3]], ids=str)
def test_a_chunk_longer_than_the_window(sizes):
    model, tokens = decoder("alibi", WINDOW), draw_tokens(B, T)
    cache = model.new_cache(B)
    assert isinstance(cache.layers[0], SlidingWindowCache)
    close(feed(model, tokens, sizes, cache), model(tokens))
    assert cache.length == T


@pytest.mark.parametrize("sizes", [[1] * T, [5, 1, 7]], ids=str)
def test_experts_in_the_blocks(sizes):
    model, tokens = decoder("rope", num_experts=5, top_k=2, **SWIGLU), draw_tokens(B, T)
    close(feed(model, tokens, sizes, model.new_cache(B, T)), model(tokens))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["growing", "preallocated"])
@pytest.mark.parametrize("position", ["t5", "sinusoidal"])
@settings(max_examples=6)
@given(sizes=compositions())
def test_the_decoder_of_an_encoder_decoder(position, kind, sizes):
    model = encoder_decoder(position)
    source, target, padding = draw_tokens(B, 7), draw_tokens(B, T, seed=1), left_padding([7, 4], 7)
    memory = model.memory(model.encode(source, padding))
    cache = model.new_cache(B, T, kind)
    got = [model.decode(part, memory, padding, cache=cache) for part in target.split(sizes, dim=1)]
    close(torch.cat(got, dim=1), model(source, target, padding))


@pytest.mark.parametrize(("position", "window"), [("alibi", None), ("t5", None), ("shaw", None), ("rope", 3)])
def test_padding_inside_is_refused_where_distances_count(position, window):
    model, tokens = decoder(position, window), draw_tokens(B, T)
    cache = model.new_cache(B)
    model(tokens, cache, padding=left_padding([T, T - 2], T).flip(1))
    with pytest.raises(ValueError, match="no padding between real tokens"):
        model(tokens[:, :1], cache)
    assert cache.length == T


def test_padding_that_comes_late_or_on_the_right():
    model, tokens = decoder("rope"), draw_tokens(B, T)
    padding = torch.ones(B, T, dtype=torch.bool)
    padding[0, 8:10] = padding[1, -3:] = False
    cache = model.new_cache(B, T)
    got = torch.cat([model(tokens[:, :5], cache), model(tokens[:, 5:], cache, padding[:, 5:])], dim=1)
    close(got[padding], model(tokens, padding=padding)[padding])


# --- what a layer's cache gives back


@pytest.mark.parametrize("kind", ["growing", "preallocated", "sliding"])
@given(sizes=compositions())
def test_an_update_gives_back_the_visible_keys_in_order(kind, sizes):
    cache, (k, v) = CACHES[kind](), draw_pair()
    seen = 0
    for size in sizes:
        visible = cache.visible(size)
        keys, values = cache.update(k[:, :, seen : seen + size], v[:, :, seen : seen + size])
        seen += size
        assert cache.length == seen
        assert keys.shape == values.shape == (B, H, visible, D)
        assert visible >= (seen if kind != "sliding" else min(seen, WINDOW))
        assert torch.equal(keys, k[:, :, seen - visible : seen])
        assert torch.equal(values, v[:, :, seen - visible : seen])


def test_after_one_token_a_sliding_cache_gives_back_its_window():
    cache, (k, v) = CACHES["sliding"](), draw_pair()
    for t in range(T):
        keys, _ = cache.update(k[:, :, t : t + 1], v[:, :, t : t + 1])
        assert torch.equal(keys, k[:, :, max(0, t + 1 - WINDOW) : t + 1])


@pytest.mark.slow
@given(sizes=compositions())
def test_a_quantized_cache_rounds_whole_groups_after_they_were_seen(sizes):
    cache, (k, v) = QuantizedCache(GROUP), draw_pair()
    seen = 0
    for size in sizes:
        rounded = seen // GROUP * GROUP
        got = cache.update(k[:, :, seen : seen + size], v[:, :, seen : seen + size])
        seen += size
        for x, x_got in zip((k, v), got, strict=True):
            assert x_got.shape == (B, H, seen, D)
            assert torch.equal(x_got[:, :, rounded:], x[:, :, rounded:seen])
            for group in range(0, rounded, GROUP):
                part = x[:, :, group : group + GROUP]
                step = part.abs().max(dim=2, keepdim=True).values / 127
                assert ((x_got[:, :, group : group + GROUP] - part).abs() <= step / 2 + 1e-15).all()
    assert cache.length == T
    assert cache.rounded.shape == (B, 2 * H, T // GROUP, GROUP, D)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_quantized_cache_is_exact_for_one_chunk_and_near_for_all(position):
    model, tokens = decoder(position), draw_tokens(B, 39)
    expected = model(tokens)
    close(model(tokens, model.new_cache(B, kind="quantized")), expected)
    errors = {}
    for sizes in ([1] * 39, [33, 6], [7] * 5 + [4]):
        got = feed(model, tokens, sizes, model.new_cache(B, kind="quantized"))
        errors[len(sizes)] = ((got - expected).norm() / expected.norm()).item()
    assert max(errors.values()) < 0.03, errors
    assert min(errors.values()) > 0, "nothing was rounded"


# --- rounding


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9))
def test_rounding_errs_by_half_a_step_at_most(numbers):
    x = torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)
    q, scale = quantize_kv(x)
    assert q.dtype == torch.int8
    assert q.abs().max() <= 127
    assert scale.shape == (1, 1, 1, 1)
    close(scale.squeeze(), x.abs().max() / 127, atol=0)
    assert ((dequantize_kv(q, scale) - x).abs() <= scale / 2 * (1 + 1e-12)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_rounding_keeps_the_type_and_zeros(dtype):
    x = torch.linspace(-3, 3, 2 * 3 * 7 * 5).view(2, 3, 7, 5).to(dtype)
    x[:, 1] = 0
    q, scale = quantize_kv(x)
    back = dequantize_kv(q, scale)
    assert back.dtype == scale.dtype == dtype
    assert torch.equal(back[:, 1], x[:, 1])
    exact = q.double() * scale.double()
    assert ((exact - x.double()).abs() <= scale.double() / 2 * (1 + 1e-6)).all()


def test_each_channel_has_a_step_of_its_own():
    x = torch.tensor([1.0, 1000.0]).expand(1, 1, 4, 2)
    assert torch.equal(dequantize_kv(*quantize_kv(x)), x)


# --- going back, and moving rows about


@pytest.mark.parametrize("kind", ["growing", "preallocated", "quantized"])
@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("padded", [False, True])
def test_truncate_forgets_what_came_after(kind, length, padded):
    model, tokens = decoder("rope"), draw_tokens(B, T)
    padding = left_padding([T, 6], T) if padded else torch.ones(B, T, dtype=torch.bool)
    cache = model.new_cache(B, T, kind)
    if length:
        model(tokens[:, :length], cache, padding[:, :length] if padded else None)
    model(draw_tokens(B, 5, seed=9), cache, left_padding([2, 5], 5) if padded else None)
    cache.truncate(length)
    assert cache.length == length
    got = model(tokens[:, length:], cache, padding[:, length:])
    real = padding[:, length:]
    close(got[real], model(tokens, padding=padding)[:, length:][real])


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [1], [1, 0, 1, 1, 0]], ids=str)
@pytest.mark.parametrize("lengths", [None, (T, 5)])
def test_reorder_makes_rows_copies_of_others(kind, rows, lengths):
    window = WINDOW if kind == "sliding" else None
    model, tokens, more = decoder("rope", window), draw_tokens(B, T), draw_tokens(len(rows), 6, seed=2)
    padding = None if lengths is None else left_padding(lengths, T)
    cache, expected = model.new_cache(B, T + 6, kind), model.new_cache(len(rows), T + 6, kind)
    model(tokens, cache, padding)
    cache.reorder(torch.tensor(rows))
    model(tokens[rows], expected, None if padding is None else padding[rows])
    close(feed(model, more, [1, 5], cache), feed(model, more, [1, 5], expected))


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [1], [1, 0, 1, 1, 0]], ids=str)
def test_reorder_takes_the_rounded_groups_along(rows):
    cache, expected, (k, v) = QuantizedCache(GROUP), QuantizedCache(GROUP), draw_pair()
    cache.update(k, v)
    cache.reorder(torch.tensor(rows))
    expected.update(k[rows], v[rows])
    more = draw_pair(2, seed=1, batch=len(rows))
    for got, wanted in zip(cache.update(*more), expected.update(*more), strict=True):
        assert got.shape == (len(rows), H, T + 2, D)
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("kind", CACHES)
def test_an_empty_cache_goes_back_to_nothing_only(kind):
    cache = CACHES[kind]()
    cache.truncate(0)
    assert cache.length == 0
    with pytest.raises(ValueError, match="from 0 to 0, what the cache has seen, got 1"):
        cache.truncate(1)


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("length", [-1, T + 1])
def test_truncate_rejects_lengths_that_were_not_seen(kind, length):
    cache = CACHES[kind]()
    cache.update(*draw_pair())
    with pytest.raises(ValueError, match=f"from 0 to {T}, what the cache has seen, got {length}"):
        cache.truncate(length)
    cache.truncate(T)
    assert cache.length == T


def test_caches_that_cannot_go_back_say_so():
    sliding, quantized = CACHES["sliding"](), CACHES["quantized"]()
    for cache in (sliding, quantized):
        cache.update(*draw_pair())
    with pytest.raises(ValueError, match="go back to 12 tokens, got one that keeps the last 4 of 13"):
        sliding.truncate(12)
    with pytest.raises(ValueError, match="go back to 11 tokens, got one that has rounded the first 12"):
        quantized.truncate(11)
    assert sliding.length == quantized.length == T
