"""Right answers to `layer_norm`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch06_blocks.layer_norm import EXERCISE


@EXERCISE.style("mean, variance, root")
def step_by_step(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + eps)
    return weight * normed + bias


@EXERCISE.style("torch's var_mean and rsqrt")
def var_mean(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), weight)


@EXERCISE.style("sums divided by d")
def by_sums(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    centred = x - x.sum(-1).unsqueeze(-1) / d
    return bias + weight * centred / (centred.square().sum(-1).unsqueeze(-1) / d + eps) ** 0.5


@EXERCISE.style("in float32, and back")
def in_float32(x, weight, bias, eps=1e-5):
    z = x.to(torch.float32)
    z = z - z.mean(-1, keepdim=True)
    z = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps)
    return weight * z.to(x.dtype) + bias


@EXERCISE.style("token by token, in a loop")
def token_by_token(x, weight, bias, eps=1e-5):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centred = token - token.mean()
        rows.append(centred / (centred.pow(2).mean() + eps).sqrt() * weight + bias)
    return torch.stack(rows).reshape(x.shape)


@EXERCISE.style("centred and summed by matrices")
def by_matrices(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    ones = torch.ones(d, d, dtype=x.dtype, device=x.device)
    centred = x - x @ ones / d
    variance = torch.einsum("...d,...d->...", centred, centred)[..., None] / d
    return centred / torch.sqrt(variance + eps) * weight + bias
