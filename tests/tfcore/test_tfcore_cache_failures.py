"""A call that a cache refuses leaves the cache as it was and says what does not fit."""

from __future__ import annotations

import copy

import pytest
import torch
from cache_cases import CACHES, B, D, H, T, close, draw_pair, feed
from decoding_models import V, decoder, draw_tokens, left_padding

from tfcore.cache import (
    Cache,
    GrowingCache,
    KVCache,
    QuantizedCache,
    SlidingWindowCache,
    make_cache,
)
from tfcore.cache.paged import PagedCache
from tfcore.cache.state import StateLayer
from tfcore.config import AttentionConfig


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


@pytest.mark.parametrize(
    "make", [lambda: SlidingWindowCache(B, 3, 5, 4), lambda: QuantizedCache(group=2), StateLayer]
)
def test_no_layer_goes_back_if_another_cannot(make):
    first, last, keys = GrowingCache(), make(), torch.zeros(B, 3, 6, 4)
    cache = Cache([first, last])
    for layer in cache.layers:
        layer.put(None, None, 6) if isinstance(layer, StateLayer) else layer.update(keys, keys)
    with pytest.raises(ValueError, match="expected a cache that can go back to 3 tokens"):
        cache.truncate(3)
    assert [layer.length for layer in cache.layers] == [6, 6]
    assert cache.layers == [first, last]
    assert first.update(keys, keys)[0].shape[2] == 12


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
        make_cache([config] * 2, B, kind="static")
    with pytest.raises(ValueError, match="expected max_len"):
        make_cache([config] * 2, B, kind="preallocated")
    with pytest.raises(ValueError, match="expected window"):
        make_cache([config] * 2, B, kind="sliding")
    for batch, max_len in ((-1, 4), (1, -4), (-1, None)):
        with pytest.raises(ValueError, match=f"of 0 or more, got {batch} and {max_len}"):
            make_cache([config] * 2, batch, max_len)
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
    assert {type(layer) for layer in make_cache([config] * 2, B, max_len).layers} == {kind}


@pytest.mark.parametrize("bad", ["width", "one", "type"])
@pytest.mark.parametrize("name", ["sliding", "quantized", "paged"])
def test_values_that_do_not_fit_change_nothing(name, bad):
    k = torch.ones(1, 2, 3, 4)
    v = {"width": torch.ones(1, 2, 3, 5), "one": torch.ones(1, 2, 3, 1), "type": k.double()}[bad]
    cache = {
        "sliding": SlidingWindowCache(1, 2, 5, 4),
        "quantized": QuantizedCache(3),
        "paged": PagedCache(4, 2, 2, 4),
    }[name]
    before = copy.deepcopy(vars(cache))
    with pytest.raises(ValueError, match="expected keys and values of"):
        cache.append("a", k[0], v[0]) if name == "paged" else cache.update(k, v)
    assert str(vars(cache)) == str(before)
