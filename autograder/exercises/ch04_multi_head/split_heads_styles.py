"""Right answers to `split_heads`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.split_heads import EXERCISE


@EXERCISE.style("cut the last axis, then exchange two axes")
def reshape_transpose(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.style("view and permute")
def view_permute(x, num_heads):
    d_head, rest = divmod(x.size(-1), num_heads)
    if rest != 0:
        raise ValueError("num_heads must divide d")
    return x.view(*x.shape[:2], num_heads, d_head).permute(0, 2, 1, 3).contiguous()


@EXERCISE.style("slices, stacked")
def slices(x, num_heads):
    d_head = x.shape[-1] // num_heads
    if d_head * num_heads != x.shape[-1]:
        raise ValueError("num_heads must divide d")
    return torch.stack([x[..., i * d_head : (i + 1) * d_head] for i in range(num_heads)], dim=1)


@EXERCISE.style("chunks, joined along an axis of their own")
def chunks(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d")
    return torch.cat([piece.unsqueeze(1) for piece in torch.chunk(x, num_heads, dim=2)], dim=1)


@EXERCISE.style("unflatten and movedim")
def unflatten(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("num_heads must divide d")
    return torch.movedim(x.unflatten(-1, (num_heads, -1)), 2, 1)


@EXERCISE.style("an einsum that only names the axes")
def einsum(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError("num_heads must divide d")
    return torch.einsum("bthd->bhtd", x.reshape(B, T, num_heads, -1))


@EXERCISE.style("written into a new tensor, head by head")
def head_by_head(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError("num_heads must divide d")
    d_head = d // num_heads
    out = torch.empty(B, num_heads, T, d_head, dtype=x.dtype, device=x.device)
    for head in range(num_heads):
        for i in range(d_head):
            out[:, head, :, i] = x[:, :, head * d_head + i]
    return out


@EXERCISE.style("channels looked up by their number")
def looked_up(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d")
    channel = torch.arange(x.shape[-1], device=x.device).view(num_heads, -1)
    return x[:, :, channel].swapaxes(1, 2)
