"""Right answers to `repeat_kv`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.repeat_kv import EXERCISE


@EXERCISE.style("repeat_interleave")
def repeat_interleave(x, num_groups):
    return x.repeat_interleave(num_groups, dim=1)


@EXERCISE.style("an axis put in, expanded and joined, as in Llama")
def expanded(x, num_groups):
    B, h_kv, T, d = x.shape
    x = x[:, :, None, :, :].expand(B, h_kv, num_groups, T, d)
    return x.reshape(B, h_kv * num_groups, T, d)


@EXERCISE.style("stacked behind the heads, then joined")
def stacked(x, num_groups):
    return torch.stack([x] * num_groups, dim=2).flatten(1, 2)


@EXERCISE.style("a list of heads in two loops")
def looped(x, num_groups):
    heads = []
    for i in range(x.shape[1]):
        for _ in range(num_groups):
            heads.append(x[:, i])
    return torch.stack(heads, dim=1)


@EXERCISE.style("looked up by the number of the head")
def looked_up(x, num_groups):
    return x[:, torch.arange(x.shape[1] * num_groups, device=x.device) // num_groups]


@EXERCISE.style("an axis repeated")
def repeated(x, num_groups):
    return x.unsqueeze(2).repeat(1, 1, num_groups, 1, 1).view(x.size(0), -1, x.size(2), x.size(3))


@EXERCISE.style("an einsum with ones")
def einsum(x, num_groups):
    ones = torch.ones(num_groups, dtype=x.dtype, device=x.device)
    return torch.einsum("bhtd,g->bhgtd", x, ones).flatten(1, 2)
