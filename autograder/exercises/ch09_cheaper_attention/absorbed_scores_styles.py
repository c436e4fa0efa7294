"""Right answers to `absorbed_scores`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch09_cheaper_attention.absorbed_scores import EXERCISE


@EXERCISE.style("queries and cache with both parts side by side, one product")
def side_by_side(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    q = torch.cat([q_nope @ W_uk, q_rope], dim=-1)
    k = torch.cat([c_kv, k_rope], dim=-1)[:, None]
    return q @ k.mT / math.sqrt(width)


@EXERCISE.style("one einsum for each part, added and scaled")
def two_einsums(q_nope, q_rope, c_kv, k_rope, W_uk):
    d_nope, d_rope = q_nope.size(-1), q_rope.size(-1)
    q_latent = torch.einsum("bhqd,hdc->bhqc", q_nope, W_uk)
    scores = torch.einsum("bhqc,btc->bhqt", q_latent, c_kv)
    scores = scores + torch.einsum("bhqr,btr->bhqt", q_rope, k_rope)
    return scores * (d_nope + d_rope) ** -0.5


@EXERCISE.style("the heads as rows of one product with the cache")
def heads_as_rows(q_nope, q_rope, c_kv, k_rope, W_uk):
    B, h, T_q, d_nope = q_nope.shape
    scale = (d_nope + q_rope.shape[3]) ** 0.5
    q_latent = torch.matmul(q_nope / scale, W_uk).reshape(B, h * T_q, -1)
    from_latent = torch.bmm(q_latent, c_kv.transpose(1, 2))
    rotary = torch.bmm((q_rope / scale).reshape(B, h * T_q, -1), k_rope.transpose(1, 2))
    return (from_latent + rotary).reshape(B, h, T_q, -1)


@EXERCISE.style("head by head, stacked at the end")
def head_by_head(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    heads = []
    for i in range(W_uk.shape[0]):
        q_latent = q_nope[:, i] @ W_uk[i]
        heads.append(q_latent @ c_kv.transpose(-1, -2) + q_rope[:, i] @ k_rope.transpose(-1, -2))
    return torch.stack(heads, dim=1) / width**0.5


@EXERCISE.style("text by text and head by head, written into the result")
def written_into_the_result(q_nope, q_rope, c_kv, k_rope, W_uk):
    B, h, T_q, d_nope = q_nope.shape
    scores = q_nope.new_zeros(B, h, T_q, c_kv.shape[1])
    for b in range(B):
        for i in range(h):
            absorbed = (W_uk[i].T @ q_nope[b, i].T).T
            scores[b, i] = absorbed @ c_kv[b].T + q_rope[b, i] @ k_rope[b].T
    return scores / math.sqrt(d_nope + q_rope.shape[-1])


@EXERCISE.style("products of numbers, summed over the last axis")
def products_summed(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    absorbed = (q_nope.unsqueeze(-1) * W_uk.unsqueeze(1)).sum(dim=-2)
    from_latent = (absorbed.unsqueeze(3) * c_kv[:, None, None]).sum(dim=-1)
    rotary = (q_rope.unsqueeze(3) * k_rope[:, None, None]).sum(dim=-1)
    return (from_latent + rotary) * width**-0.5
