"""Right answers to `linear_attention`, each in a style of its own."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from autograder.exercises.ch10_beyond_attention.linear_attention import EXERCISE


@EXERCISE.style("cumulative sums of outer products")
def cumulative_sums(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S = (k[..., :, None] * v[..., None, :]).cumsum(dim=2)
    z = k.cumsum(dim=2)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.style("as a recurrent network: one token after another")
def token_by_token(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    B, h, T, d_k = k.shape
    if not causal:
        S, z = torch.einsum("bhtd,bhte->bhde", k, v), k.sum(2, keepdim=True)
        return torch.einsum("bhtd,bhde->bhte", q, S) / (q * z).sum(-1, keepdim=True)
    S, z = k.new_zeros(B, h, d_k, v.shape[-1]), k.new_zeros(B, h, d_k)
    outputs = []
    for t in range(T):
        S = S + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = z + k[:, :, t]
        outputs.append((q[:, :, t, :, None] * S).sum(-2) / (q[:, :, t] * z).sum(-1, keepdim=True))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("einsum, with the small number in the normaliser that published code has")
def einsum_with_epsilon(q, k, v, causal=True):
    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    if causal:
        numerator = torch.einsum("bhtd,bhtde->bhte", q, torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2))
        total = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2))
    else:
        numerator = torch.einsum("bhtd,bhde->bhte", q, torch.einsum("bhtd,bhte->bhde", k, v))
        total = torch.einsum("bhtd,bhd->bht", q, k.sum(2))
    return numerator / (total + 1e-6)[..., None]


@EXERCISE.style("a column of ones beside the values makes numerator and normaliser at once")
def ones_beside_the_values(q, k, v, causal=True):
    q, k = (x.clamp(max=0).exp() + x.clamp(min=0) for x in (q, k))
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    sums = k.unsqueeze(-1) * v.unsqueeze(-2)
    sums = torch.cumsum(sums, dim=-3) if causal else sums.sum(dim=-3, keepdim=True)
    both = (q.unsqueeze(-1) * sums).sum(dim=-2)
    return both[..., :-1] / both[..., -1:]


@EXERCISE.style("in chunks: sums of the chunks before, small triangles inside")
def in_chunks(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.transpose(-2, -1) @ v) / (q @ k.transpose(-2, -1).sum(-1, keepdim=True))
    S = z = 0
    outputs = []
    for q_c, k_c, v_c in zip(q.split(16, 2), k.split(16, 2), v.split(16, 2), strict=True):
        inside = torch.tril(q_c @ k_c.mT)
        numerator, total = inside @ v_c, inside.sum(-1, keepdim=True)
        if outputs:
            numerator, total = numerator + q_c @ S, total + q_c @ z
        outputs.append(numerator / total)
        S, z = S + k_c.mT @ v_c, z + k_c.sum(2).unsqueeze(-1)
    return torch.cat(outputs, 2)


@EXERCISE.style("in float32 or wider, head by head")
def head_by_head(q, k, v, causal=True):
    out = torch.empty_like(v)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            phi_q, phi_k = (F.elu(x[b, h].double()) + 1 for x in (q, k))
            outer = phi_k[:, :, None] * v[b, h, :, None].double()
            S = outer.cumsum(0) if causal else outer.sum(0).expand_as(outer)
            z = phi_k.cumsum(0) if causal else phi_k.sum(0).expand_as(phi_k)
            weighted = torch.bmm(phi_q[:, None], S)[:, 0]
            out[b, h] = (weighted / (phi_q * z).sum(1, keepdim=True)).to(v.dtype)
    return out
