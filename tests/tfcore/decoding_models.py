"""Tiny models for the tests of decoding: every position method, grouped heads, windows; one that counts."""

from __future__ import annotations

import functools

import pytest
import torch

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.models import Decoder, EncoderDecoder
from tfcore.testing import raise_weights

V = 23
POSITIONS = ["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]
EACH_POSITION = [
    pytest.param(name, marks=() if name in ("learned", "t5", "rope") else pytest.mark.slow)
    for name in POSITIONS
]


def config(kind="rope", window=None, layers=2, **block):
    attention = AttentionConfig(d_model=24, num_heads=6, num_kv_heads=3, window=window)
    positions = PositionConfig(kind, max_len=40, num_buckets=8, max_distance=9)
    return ModelConfig(V, layers, BlockConfig(attention, d_ff=20, **block), positions)


@functools.cache
def decoder(kind="rope", window=None, layers=2, seed=0, **block):
    """Return a decoder in float64, with weights that show every part."""
    model = raise_weights(Decoder(config(kind, window, layers, **block)), seed=seed)
    return model.double().eval().requires_grad_(False)


@functools.cache
def encoder_decoder(kind="t5"):
    model = raise_weights(EncoderDecoder(EncoderDecoderConfig(config(kind, layers=1), config(kind))))
    return model.double().eval().requires_grad_(False)


def draw_tokens(batch, length, seed=0, vocab_size=V):
    return torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def left_padding(lengths, length):
    return torch.arange(length) >= length - torch.tensor(lengths).unsqueeze(1)


class Counted:
    """A model that notes how many tokens each call reads."""

    def __init__(self, model):
        self.model, self.read = model, []
        if hasattr(model, "new_cache"):
            self.new_cache = model.new_cache

    def __call__(self, tokens, *args, **kwargs):
        self.read.append(tokens.shape[1])
        return self.model(tokens, *args, **kwargs)
