"""Right answers to `apply_rope`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.apply_rope import EXERCISE


@EXERCISE.style("both halves turned, then joined")
def halves(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.style("angles for all channels, and rotate_half")
def rotate_half(x, positions, base=10000.0):
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(positions.float(), rates).repeat(1, 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    rotated = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), dim=-1)
    return x * cos + rotated * sin


@EXERCISE.style("complex numbers times e^(i angle)")
def complex_numbers(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    omega = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.einsum("t,i->ti", positions.float(), omega)
    wide = torch.promote_types(x.dtype, torch.float32)
    z = torch.complex(x[..., :half].to(wide), x[..., half:].to(wide))
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1).type_as(x)


@EXERCISE.style("pair by pair, in a loop")
def pair_by_pair(x, positions, base=10000.0):
    d = x.shape[-1]
    turned = torch.empty_like(x)
    for i in range(d // 2):
        angle = positions.to(torch.float64) * base ** (-2 * i / d)
        a, b = x[..., i], x[..., i + d // 2]
        turned[..., i] = a * torch.cos(angle) - b * torch.sin(angle)
        turned[..., i + d // 2] = a * torch.sin(angle) + b * torch.cos(angle)
    return turned


@EXERCISE.style("one rotation matrix per position")
def rotation_matrices(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = torch.exp(-math.log(base) * torch.arange(0, d, 2, device=x.device) / d)
    angles = positions.unsqueeze(-1) * omega
    C, S = torch.diag_embed(angles.cos()), torch.diag_embed(angles.sin())
    R = torch.cat([torch.cat([C, -S], dim=-1), torch.cat([S, C], dim=-1)], dim=-2)
    return torch.einsum("tij,...tj->...ti", R, x.float()).to(x.dtype)


@EXERCISE.style("reshaped to pairs, in float32, back to the dtype of x")
def reshaped_to_pairs(x, positions, base=10000.0):
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(positions.float(), rates)
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().reshape(*x.shape[:-1], 2, d // 2).unbind(dim=-2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-2).flatten(-2).type_as(x)


@EXERCISE.style("a signed angle, and the halves rolled")
def halves_rolled(x, positions, base=10000.0):
    d = x.shape[-1]
    channel = torch.arange(d, device=x.device) % (d // 2)
    angles = positions[..., None] * torch.pow(base, -2 * channel / d)
    sin = torch.where(torch.arange(d, device=x.device) < d // 2, -angles.sin(), angles.sin())
    return (x * angles.cos() + x.roll(d // 2, dims=-1) * sin).to(x.dtype)
