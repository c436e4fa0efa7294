"""Right answers to `selective_scan`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch10_beyond_attention.selective_scan import EXERCISE


@EXERCISE.style("step by step")
def step_by_step(u, delta, A, B, C, D):
    h = torch.zeros_like(u[:, 0, :, None] * A)
    ys = []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t].unsqueeze(-1) * A)
        h = decay * h + (delta[:, t] * u[:, t]).unsqueeze(-1) * B[:, t].unsqueeze(1)
        ys.append((h * C[:, t].unsqueeze(1)).sum(dim=-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.style("decays and drives for all steps first, read by a matrix product")
def all_drives_first(u, delta, A, B, C, D):
    decay = torch.exp(torch.einsum("btd,dn->btdn", delta, A))
    drive = torch.einsum("btd,btn,btd->btdn", delta, B, u)
    h, states = u.new_zeros(u.shape[0], *A.shape), []
    for a, b in zip(decay.unbind(1), drive.unbind(1), strict=True):
        h = a * h + b
        states.append(h)
    y = (torch.stack(states, dim=1) @ C.unsqueeze(-1)).squeeze(-1)
    return y + u * D


@EXERCISE.style("without a state: every pair of steps, by differences of summed rates")
def every_pair(u, delta, A, B, C, D):
    so_far = (delta[..., None] * A).cumsum(1)
    gone = so_far[:, :, None] - so_far[:, None]
    later = torch.ones(u.shape[1], u.shape[1], device=u.device).triu(1).bool()
    kept = torch.exp(gone.masked_fill(later[None, :, :, None, None], -torch.inf))
    drive = (delta * u)[..., None] * B[:, :, None, :]
    return torch.einsum("btsdn,bsdn,btn->btd", kept, drive, C) + D * u


@EXERCISE.style("a parallel scan: distances doubled, pairs joined")
def doubled(u, delta, A, B, C, D):
    a, b = torch.exp(delta[..., None] * A), (delta * u)[..., None] * B[:, :, None]
    step, T = 1, u.shape[1]
    while step < T:
        b = torch.cat([b[:, :step], b[:, step:] + a[:, step:] * b[:, :-step]], dim=1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], dim=1)
        step *= 2
    return (b * C[:, :, None]).sum(-1) + D * u


@EXERCISE.style("in float32 or wider, written into the result")
def written_into_the_result(u, delta, A, B, C, D):
    dtype = u.dtype
    u, delta, A, B, C, D = (x.double() for x in (u, delta, A, B, C, D))
    y = torch.empty_like(u)
    h = torch.zeros(u.shape[0], u.shape[2], A.shape[1], dtype=u.dtype, device=u.device)
    for t in range(u.shape[1]):
        h = (delta[:, t, :, None] * A).exp() * h + delta[:, t, :, None] * B[:, t, None, :] * u[:, t, :, None]
        y[:, t] = torch.einsum("bdn,bn->bd", h, C[:, t]) + D * u[:, t]
    return y.to(dtype)


@EXERCISE.style("memory by memory")
def memory_by_memory(u, delta, A, B, C, D):
    y = u * D
    for n in range(A.shape[1]):
        h, read = 0, []
        for t in range(u.shape[1]):
            h = torch.exp(delta[:, t] * A[:, n]) * h + delta[:, t] * B[:, t, n, None] * u[:, t]
            read.append(C[:, t, n, None] * h)
        y = y + torch.stack(read, 1)
    return y
