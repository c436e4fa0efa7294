"""Decoding without a cache, and a model of bigrams, to compare generation with."""

from __future__ import annotations

import torch

B, T, N = 2, 5, 8


def naive(model, prompt, n, choose=lambda logits: logits.argmax(-1), context_len=None):
    """Read everything anew for each token."""
    tokens = prompt
    for _ in range(n):
        seen = tokens if context_len is None else tokens[:, -context_len:]
        tokens = torch.cat([tokens, choose(model(seen)[:, -1]).unsqueeze(1)], dim=1)
    return tokens


def uncached(model):
    return lambda tokens, **options: model(tokens, **options)


def tables(vocab_size, seed=0, dtype=torch.float64):
    """Return a model of bigrams: logits that depend on the last token alone."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(vocab_size, vocab_size, generator=generator, dtype=dtype)
    return logits, lambda tokens: logits[tokens]
