"""Right answers to `tiled_attention`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch09_cheaper_attention.tiled_attention import EXERCISE


@EXERCISE.style("all queries, one block of keys after another, with a running maximum")
def running_maximum(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.style("tiles in two loops, as in flash attention; later tiles skipped when causal")
def two_loops(q, k, v, block_size, causal=False):
    B, h, T, d = q.shape
    outputs = []
    for i in range(0, T, block_size):
        q_i = q[:, :, i : i + block_size] / math.sqrt(d)
        n = q_i.shape[2]
        peak = q.new_full((B, h, n), float("-inf"))
        total, out = q.new_zeros(B, h, n), q.new_zeros(B, h, n, d)
        for j in range(0, i + 1 if causal else T, block_size):
            k_j, v_j = k[:, :, j : j + block_size], v[:, :, j : j + block_size]
            scores = torch.einsum("bhid,bhjd->bhij", q_i, k_j)
            if causal and i == j:
                later = torch.ones(n, n, device=q.device).triu(1).bool()
                scores = torch.where(later, float("-inf"), scores)
            new_peak = torch.max(peak, scores.max(dim=-1).values)
            old = torch.exp(peak - new_peak)
            p = torch.exp(scores - new_peak[..., None])
            total = old * total + p.sum(dim=-1)
            out = old[..., None] * out + torch.einsum("bhij,bhjd->bhid", p, v_j)
            peak = new_peak
        outputs.append(out / total[..., None])
    return torch.cat(outputs, dim=2)


@EXERCISE.style("strips of queries, each with an ordinary softmax over all keys")
def strips(q, k, v, block_size, causal=False):
    T = q.shape[2]
    outputs = []
    for i in range(0, T, block_size):
        scores = q[:, :, i : i + block_size] @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            rows = torch.arange(i, i + scores.shape[2], device=q.device)
            scores = scores.masked_fill(torch.arange(T, device=q.device) > rows[:, None], -1e9)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(outputs, 2)


@EXERCISE.style("parts merged by their log-sum-exp, in float32 or wider")
def merged_by_log_sum_exp(q, k, v, block_size, causal=False):
    dtype, T = q.dtype, q.shape[2]
    q, k, v = (x.double() for x in (q, k, v))
    position = torch.arange(T, device=q.device)
    out, lse = torch.zeros_like(q), q.new_full((*q.shape[:3], 1), -1e30)
    for k_j, v_j, cols in zip(*(x.split(block_size, -2) for x in (k, v, position[:, None])), strict=True):
        scores = q @ k_j.mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[:, None] < cols.T, -1e30)
        part = scores.logsumexp(-1, keepdim=True)
        both = torch.logaddexp(lse, part)
        out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_j
        lse = both
    return out.to(dtype)


@EXERCISE.style("two passes over the keys: first the maximum, then the sums")
def two_passes(q, k, v, block_size, causal=False):
    T = q.shape[2]
    rows = torch.arange(T, device=q.device)[:, None]

    def scores_of(j):
        scores = q @ k[:, :, j : j + block_size].mT / q.shape[-1] ** 0.5
        cols = torch.arange(j, j + scores.shape[-1], device=q.device)
        return scores.masked_fill(cols > rows, -torch.inf) if causal else scores

    peak = scores_of(0).amax(-1, keepdim=True)
    for j in range(block_size, T, block_size):
        peak = torch.maximum(peak, scores_of(j).amax(-1, keepdim=True))
    numerator = denominator = 0
    for j in range(0, T, block_size):
        p = torch.exp(scores_of(j) - peak)
        numerator = numerator + p @ v[:, :, j : j + block_size]
        denominator = denominator + p.sum(-1, keepdim=True)
    return numerator / denominator


@EXERCISE.style("the running output kept normalised, its share updated block by block")
def running_mean(q, k, v, block_size, causal=False):
    T, d = q.shape[2:]
    mean, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e9)
    for j in range(0, T, block_size):
        n = min(block_size, T - j)
        scores = torch.matmul(q, k.narrow(2, j, n).transpose(2, 3)) / math.sqrt(d)
        if causal:
            later = torch.arange(j, j + n, device=q.device)[None] > torch.arange(T, device=q.device)[:, None]
            scores = scores + torch.zeros_like(scores).masked_fill(later, -1e9)
        part = torch.logsumexp(scores, dim=-1, keepdim=True)
        share = torch.sigmoid(part - lse)
        mean = mean + share * (torch.softmax(scores, -1) @ v.narrow(2, j, n) - mean)
        lse = torch.logaddexp(lse, part)
    return mean


@EXERCISE.style("head by head and query block by query block, written into the result")
def written_into_the_result(q, k, v, block_size, causal=False):
    out = torch.empty_like(q)
    B, h, T, d = q.shape
    for b in range(B):
        for head in range(h):
            for start in range(0, T, block_size):
                stop = min(start + block_size, T)
                end = stop if causal else T
                scores = q[b, head, start:stop] @ k[b, head, :end].T / d**0.5
                if causal:
                    visible = torch.ones_like(scores).tril(diagonal=start).bool()
                    scores[~visible] = float("-inf")
                scores = scores - scores.max(dim=-1, keepdim=True).values
                weights = scores.exp()
                out[b, head, start:stop] = weights @ v[b, head, :end] / weights.sum(-1, keepdim=True)
    return out
