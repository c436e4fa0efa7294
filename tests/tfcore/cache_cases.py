"""Sizes, kinds of cache and ways to cut a text, for the tests of caches."""

from __future__ import annotations

import itertools

import torch
from hypothesis import strategies as st

from tfcore.cache import (
    GrowingCache,
    KVCache,
    QuantizedCache,
    SlidingWindowCache,
)

B, H, D, T, WINDOW, GROUP = 2, 3, 5, 13, 4, 3
CACHES = {
    "growing": GrowingCache,
    "preallocated": lambda: KVCache(B, H, T + 2, D, torch.float64),
    "sliding": lambda: SlidingWindowCache(B, H, WINDOW, D, torch.float64),
    "quantized": lambda: QuantizedCache(GROUP),
}


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
