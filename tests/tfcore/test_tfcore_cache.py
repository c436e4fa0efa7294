"""Caches: a model with one computes what it computes without, however the text is cut, and at what cost."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from decoding_models import EACH_POSITION, POSITIONS, V, decoder, draw_tokens, encoder_decoder, left_padding
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcore.cache import (
    Cache,
    GrowingCache,
    KVCache,
    QuantizedCache,
    SlidingWindowCache,
    dequantize_kv,
    make_cache,
    quantize_kv,
)
from tfcore.config import AttentionConfig
from tfcore.testing import AllocationMeter, OperationCounter

B, H, D, T, WINDOW, GROUP = 2, 3, 5, 13, 4, 3
CACHES = {
    "growing": GrowingCache,
    "preallocated": lambda: KVCache(B, H, T + 2, D, torch.float64),
    "sliding": lambda: SlidingWindowCache(B, H, WINDOW, D, torch.float64),
    "quantized": lambda: QuantizedCache(GROUP),
}
EXACT = [  # kind of cache, window of attention
    ("growing", None),
    ("growing", WINDOW),
    ("preallocated", None),
    ("preallocated", WINDOW),
    ("sliding", WINDOW),
    ("sliding", 1),
]


SWIGLU = {"activation": "silu", "gated": True, "ffn_bias": False}


@st.composite
def compositions(draw, total=T):
    """Cut a text into chunks."""
    cuts = draw(st.sets(st.integers(1, total - 1)))
    ends = [0, *sorted(cuts), total]
    return [b - a for a, b in itertools.pairwise(ends)]


def draw_pair(length=T, seed=0, batch=B):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, batch, H, length, D, generator=generator, dtype=torch.float64).unbind()


def close(got, expected, atol=1e-11):
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def feed(model, tokens, sizes, cache, padding=None):
    """Read a text in chunks; give back the logits of all of it."""
    parts, noted = tokens.split(sizes, dim=1), [None] * len(sizes)
    if padding is not None:
        noted = padding.split(sizes, dim=1)
    return torch.cat([model(x, cache, p) for x, p in zip(parts, noted, strict=True)], dim=1)


# --- cached is uncached


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


# --- what fails leaves the cache as it was


def snapshot(cache):
    return copy.deepcopy([vars(layer) for layer in cache.layers])


def equal(a, b):
    return all(
        torch.equal(x[name], y[name]) if isinstance(x[name], torch.Tensor) else x[name] == y[name]
        for x, y in zip(a, b, strict=True)
        for name in x
    )


def overflow(model, cache):
    with pytest.raises(ValueError, match=r"at most 9 tokens, .* got 11 \(7 are in it, 4 came\)"):
        model(draw_tokens(B, 4), cache)


def overflow_with_padding(model, cache):
    with pytest.raises(ValueError, match="at most 9 tokens"):
        model(draw_tokens(B, 4), cache, left_padding([1, 3], 4))


def another_batch(model, cache):
    with pytest.raises(ValueError, match="the 2 sequences that this cache has begun, got 3"):
        model(draw_tokens(3, 1), cache, left_padding([1, 0, 1], 1))


def unknown_token(model, cache):
    with pytest.raises(ValueError, match="token ids"):
        model(torch.full((B, 1), V), cache)


FAILURES = [overflow, overflow_with_padding, another_batch, unknown_token]


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("lengths", [None, (7, 3)])
def test_a_call_that_fails_changes_nothing(fail, lengths):
    model, tokens = decoder("rope"), draw_tokens(B, 9)
    padding = None if lengths is None else left_padding([length + 2 for length in lengths], 9)
    cache = model.new_cache(B, 9)
    model(tokens[:, :7], cache, None if padding is None else padding[:, :7])
    before = snapshot(cache)
    fail(model, cache)
    assert equal(snapshot(cache), before)
    got = model(tokens[:, 7:], cache)
    close(got, model(tokens, padding=padding)[:, 7:])


def test_a_first_call_that_fails_changes_nothing():
    model, tokens = decoder("rope"), draw_tokens(B, 9)
    cache = model.new_cache(B, 9)
    with pytest.raises(ValueError, match=r"made for, got \(3, 3, 4\)"):
        model(draw_tokens(3, 4), cache, left_padding([1, 2, 4], 4))
    close(feed(model, tokens, [4, 5], cache), model(tokens))


def test_a_call_that_fails_behind_the_table_changes_nothing():
    model, tokens = decoder("learned"), draw_tokens(B, 40)
    for first in (0, 5):
        cache = model.new_cache(B, 50)
        if first:
            model(tokens[:, :first], cache)
        with pytest.raises(ValueError, match="positions below 40"):
            model(draw_tokens(B, 41), cache, left_padding([41, 41], 41))
        close(feed(model, tokens[:, first:], [2, 38 - first], cache), model(tokens)[:, first:])


def test_a_layer_without_room_says_so_and_stays():
    cache, (k, v) = CACHES["preallocated"](), draw_pair()
    cache.update(k, v)
    before = snapshot(Cache([cache]))
    with pytest.raises(ValueError, match=r"at most 15 tokens, .* got 16 \(13 are in it, 3 came\)"):
        cache.update(k[:, :, :3], v[:, :, :3])
    assert equal(snapshot(Cache([cache])), before)
    assert cache.update(k[:, :, :2], v[:, :, :2])[0].shape[2] == 15


def test_no_layer_writes_if_another_has_no_room():
    layers = [KVCache(B, 3, room, 4, torch.float64) for room in (9, 7)]
    cache, model = Cache(layers), decoder("rope")
    model(draw_tokens(B, 6), cache)
    with pytest.raises(ValueError, match="at most 7 tokens"):
        model(draw_tokens(B, 2), cache)
    assert [layer.length for layer in layers] == [6, 6]


def test_layers_that_a_call_left_unequal_are_noticed():
    model, tokens = decoder("rope"), draw_tokens(B, T)
    cache = model.new_cache(B, T)
    model(tokens[:, :4], cache)
    cache.layers[0].update(*torch.zeros(2, B, 3, 2, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"lengths \[6, 4\].*truncate\(4\)"):
        model(tokens[:, 4:5], cache)
    cache.truncate(4)
    close(model(tokens[:, 4:], cache), model(tokens)[:, 4:])


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize(
    "wrong",
    {
        "values of another length": lambda k, v: (k, v[:, :, :-1]),
        "three axes": lambda k, v: (k[0], v[0]),
        "another batch": lambda k, v: (k[:1], v[:1]),
        "another number of heads": lambda k, v: (k[:, :1], v[:, :1]),
        "another width": lambda k, v: (k[..., :2], v[..., :2]),
        "another type": lambda k, v: (k.float(), v.float()),
    }.items(),
    ids=lambda wrong: wrong[0],
)
def test_keys_that_do_not_fit(kind, wrong):
    cache, (k, v) = CACHES[kind](), draw_pair(length=2)
    cache.update(k, v)
    before = snapshot(Cache([cache]))
    with pytest.raises(ValueError, match="expected keys and values of"):
        cache.update(*wrong[1](k, v))
    assert equal(snapshot(Cache([cache])), before)


def test_bad_arguments():
    config = AttentionConfig(d_model=12, num_heads=3)
    with pytest.raises(ValueError, match="growing, preallocated, sliding, quantized, got 'static'"):
        make_cache(config, 2, B, kind="static")
    with pytest.raises(ValueError, match="expected max_len"):
        make_cache(config, 2, B, kind="preallocated")
    with pytest.raises(ValueError, match="expected window"):
        make_cache(config, 2, B, kind="sliding")
    with pytest.raises(ValueError, match="window of 1 or more, got 0"):
        SlidingWindowCache(B, H, 0, D)
    with pytest.raises(ValueError, match="group of 1 token or more, got 0"):
        QuantizedCache(0)


@pytest.mark.parametrize(
    ("window", "max_len", "kind"),
    [
        (None, None, GrowingCache),
        (None, 9, KVCache),
        (4, None, SlidingWindowCache),
        (4, 9, SlidingWindowCache),
        (9, 9, KVCache),
    ],
)
def test_the_kind_that_suits(window, max_len, kind):
    config = AttentionConfig(d_model=12, num_heads=3, window=window)
    assert {type(layer) for layer in make_cache(config, 2, B, max_len).layers} == {kind}


# --- cost


def test_a_preallocated_cache_copies_nothing():
    cache, (k, v) = CACHES["preallocated"](), draw_pair()
    room = cache.keys.data_ptr(), cache.values.data_ptr()
    with AllocationMeter() as meter:
        for t in range(T):
            keys, values = cache.update(k[:, :, t : t + 1], v[:, :, t : t + 1])
    assert meter.peak_bytes == 0
    assert (keys.data_ptr(), values.data_ptr()) == room


def test_a_growing_cache_copies_all_at_each_step():
    cache, (k, v) = CACHES["growing"](), draw_pair()
    with AllocationMeter() as meter:
        for t in range(T):
            cache.update(k[:, :, t : t + 1], v[:, :, t : t + 1])
    assert meter.largest_elements == B * H * T * D


def test_a_sliding_cache_copies_a_window_once_per_window():
    cache, (k, v) = SlidingWindowCache(B, H, 50, D, torch.float64), draw_pair(length=400)
    cache.update(k[:, :, :100], v[:, :, :100])
    meters = []
    for t in range(100, 400):
        with AllocationMeter() as meter:
            cache.update(k[:, :, t : t + 1], v[:, :, t : t + 1])
        meters.append(meter.largest_elements)
    assert set(meters) == {0, B * H * 50 * D}
    assert sum(x > 0 for x in meters) == 300 // 50


def test_memory_of_a_sliding_cache_is_constant():
    model, tokens = decoder("rope", WINDOW), draw_tokens(B, 60)
    cache = model.new_cache(B)
    expected = 2 * 2 * B * 3 * 2 * WINDOW * 4 * 8  # layers, K and V, batch, heads, room, width, float64
    for part in tokens.split([1, 30, 1, 1, 5, 1, 9, 12], dim=1):
        model(part, cache)
        assert cache.num_bytes() == expected


def test_bytes():
    k, v = (x.float() for x in draw_pair(length=96))
    growing, preallocated, quantized = GrowingCache(), KVCache(B, H, 100, D), QuantizedCache()
    projection = torch.cat([k, k, v], dim=-1)  # what a fused projection makes: k and v are views of it
    growing.update(projection[..., D : 2 * D], projection[..., 2 * D :])
    assert growing.num_bytes() == 2 * B * H * 96 * D * 4
    preallocated.update(k, v)
    assert preallocated.num_bytes() == 2 * B * H * 100 * D * 4
    quantized.update(k, v)
    assert quantized.num_bytes() == 2 * B * H * D * (96 + 96 // 32 * 4)


def count_steps(model, kind, steps):
    cache, counts = model.new_cache(1, steps, kind), []
    for t in range(steps):
        with torch.inference_mode(), OperationCounter() as counter:
            model(draw_tokens(1, 1, seed=t), cache)
        counts.append(counter)
    return counts


@pytest.mark.parametrize("position", POSITIONS)
def test_the_work_of_a_step_grows_linearly_and_through_attention_alone(position):
    counts = count_steps(decoder(position), "preallocated", steps=12)[1:]
    attention = [c.products - sum(c.by_operator[name] for name in ("mm", "addmm", "bmm")) for c in counts]
    growth = {b - a for a, b in itertools.pairwise(attention)}
    assert growth == {2 * 2 * 6 * 2 * 4}  # layers, multiply and add, heads, scores and values, width
    total = {b.total - a.total for a, b in itertools.pairwise(counts)}
    assert len(total) == 1, "a step's work is no linear function of the length"
    assert len({c.by_operator["addmm"] for c in counts}) == 1


def test_the_work_of_a_step_is_constant_in_a_window():
    counts = count_steps(decoder("rope", WINDOW), "sliding", steps=20)[WINDOW:]
    assert len({c.products for c in counts}) == 1
