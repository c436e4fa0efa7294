"""Right answers to `dequantize_kv`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.dequantize_kv import EXERCISE


@EXERCISE.style("the product; torch finds the dtype")
def product(q, scale):
    return q * scale


@EXERCISE.style("cast, then multiply")
def cast_first(q, scale):
    return torch.mul(q.to(scale.dtype), scale)


@EXERCISE.style("einsum without the axis of the tokens")
def einsum(q, scale):
    return torch.einsum("bhtd,bhd->bhtd", q.to(scale.dtype), scale.squeeze(2))


@EXERCISE.style("channel by channel")
def channel_by_channel(q, scale):
    return torch.stack([q[..., c] * scale[..., c] for c in range(q.shape[-1])], dim=-1)


@EXERCISE.style("the scale spread over the tokens")
def spread(q, scale):
    return q.type_as(scale) * scale.expand(-1, -1, q.shape[2], -1)
