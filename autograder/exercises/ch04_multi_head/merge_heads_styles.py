"""Right answers to `merge_heads`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.merge_heads import EXERCISE


@EXERCISE.style("two axes exchanged, two joined")
def transpose_reshape(x):
    B, h, T, d_head = x.shape
    return x.transpose(1, 2).reshape(B, T, h * d_head)


@EXERCISE.style("permute, contiguous, view")
def permute_view(x):
    x = x.permute(0, 2, 1, 3).contiguous()
    return x.view(x.size(0), x.size(1), -1)


@EXERCISE.style("the heads concatenated along the width")
def concatenated(x):
    return torch.cat([x[:, i] for i in range(x.shape[1])], dim=-1)


@EXERCISE.style("movedim and flatten")
def flatten(x):
    return torch.movedim(x, 1, 2).flatten(start_dim=-2)


@EXERCISE.style("an einsum that only names the axes")
def einsum(x):
    return torch.einsum("bhtd->bthd", x).reshape(x.shape[0], x.shape[2], -1)


@EXERCISE.style("written into a new tensor, head by head")
def head_by_head(x):
    B, h, T, d_head = x.shape
    out = x.new_empty(B, T, h * d_head)
    for i in range(h):
        out[..., i * d_head : (i + 1) * d_head] = x[:, i]
    return out


@EXERCISE.style("token by token")
def token_by_token(x):
    return torch.stack([x[:, :, t].flatten(1) for t in range(x.shape[2])], dim=1)
