"""Right answers to `swiglu`, each in a style of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch06_blocks.swiglu import EXERCISE


@EXERCISE.style("F.silu")
def functional(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.style("z times sigmoid(z)")
def by_hand(x, W_g, W_u, W_d):
    gate = torch.matmul(x, W_g)
    up = torch.matmul(x, W_u)
    return torch.matmul(gate * torch.sigmoid(gate) * up, W_d)


@EXERCISE.style("einsum")
def einsum(x, W_g, W_u, W_d):
    gate = torch.einsum("...d,df->...f", x, W_g)
    up = torch.einsum("...d,df->...f", x, W_u)
    return torch.einsum("...f,fd->...d", gate * gate.sigmoid() * up, W_d)


@EXERCISE.style("F.linear with the weights turned, as Llama's MLP")
def linear_layers(x, W_g, W_u, W_d):
    return F.linear(nn.SiLU()(F.linear(x, W_g.T)) * F.linear(x, W_u.T), W_d.T)


@EXERCISE.style("both projections in one product, then cut apart")
def one_product(x, W_g, W_u, W_d):
    gate, up = (x @ torch.cat([W_g, W_u], dim=1)).chunk(2, dim=-1)
    return (up * F.silu(gate)) @ W_d


@EXERCISE.style("inner channel by inner channel, in a loop")
def channel_by_channel(x, W_g, W_u, W_d):
    y = 0
    for j in range(W_g.shape[1]):
        gate = (x * W_g[:, j]).sum(-1, keepdim=True)
        up = (x * W_u[:, j]).sum(-1, keepdim=True)
        y = y + gate * torch.sigmoid(gate) * up * W_d[j]
    return y
