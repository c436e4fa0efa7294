"""What a cache costs: the bytes that it copies and holds, and the work of a step."""

from __future__ import annotations

import itertools

import pytest
import torch
from cache_cases import CACHES, WINDOW, B, D, H, T, draw_pair
from decoding_models import POSITIONS, decoder, draw_tokens

from tfcore.cache import (
    GrowingCache,
    KVCache,
    QuantizedCache,
    SlidingWindowCache,
)
from tfcore.testing import AllocationMeter, OperationCounter


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
