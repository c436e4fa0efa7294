"""Right answers to `rms_norm`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch06_blocks.rms_norm import EXERCISE


@EXERCISE.style("times the reciprocal root")
def rsqrt(x, weight, eps=1e-6):
    return weight * x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


@EXERCISE.style("in float32 and back, as Llama does")
def in_float32(x, weight, eps=1e-6):
    hidden = x.to(torch.float32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + eps)
    return weight * hidden.to(x.dtype)


@EXERCISE.style("the squares summed by einsum")
def einsum(x, weight, eps=1e-6):
    mean_square = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    return x / (mean_square + eps).sqrt()[..., None] * weight


@EXERCISE.style("torch's norm, squared again")
def by_the_norm(x, weight, eps=1e-6):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return weight * (x / (length**2 / x.size(-1) + eps) ** 0.5)


@EXERCISE.style("token by token, in a loop")
def token_by_token(x, weight, eps=1e-6):
    rows = [t / (t.square().mean() + eps).sqrt() for t in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape_as(x) * weight
