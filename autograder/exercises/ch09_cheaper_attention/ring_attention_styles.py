"""Right answers to `ring_attention`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch09_cheaper_attention.ring_attention import EXERCISE


@EXERCISE.style("rank by rank, its own shard first, with a running maximum")
def running_maximum(q_shards, k_shards, v_shards, causal=False):
    n = len(q_shards)
    starts = [sum(q.shape[2] for q in q_shards[:r]) for r in range(n)]
    outputs = []
    for r, q in enumerate(q_shards):
        peak = torch.full_like(q[..., :1], -torch.inf)
        total, out = torch.zeros_like(peak), torch.zeros_like(q)
        for step in range(n):
            s = (r - step) % n
            k, v = k_shards[s], v_shards[s]
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            if causal:
                rows = starts[r] + torch.arange(q.shape[2], device=q.device)
                cols = starts[s] + torch.arange(k.shape[2], device=q.device)
                scores = scores.masked_fill(cols > rows[:, None], -torch.inf)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            total = total * old + p.sum(-1, keepdim=True)
            out = out * old + p @ v
            peak = new_peak
        outputs.append(out / total)
    return outputs


@EXERCISE.style("all ranks at once, their shards passed on at every step; later shards skipped when causal")
def handed_on(q_shards, k_shards, v_shards, causal=False):
    n = len(q_shards)
    held = [(s, k_shards[s], v_shards[s]) for s in range(n)]
    out = [torch.zeros_like(q) for q in q_shards]
    lse = [q.new_full((*q.shape[:-1], 1), -1e30) for q in q_shards]
    for _ in range(n):
        for r, q in enumerate(q_shards):
            s, k, v = held[r]
            if causal and s > r:
                continue
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
            if causal and s == r:
                later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(later, -1e30)
            both = torch.logaddexp(lse[r], scores.logsumexp(-1, keepdim=True))
            out[r] = torch.exp(lse[r] - both) * out[r] + torch.exp(scores - both) @ v
            lse[r] = both
        held = held[-1:] + held[:-1]
    return out


@EXERCISE.style("shard by shard: each visits all ranks before the next sets out")
def shard_by_shard(q_shards, k_shards, v_shards, causal=False):
    dtype = q_shards[0].dtype
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    state = [(torch.full_like(q[..., :1], -1e30).double(), 0.0, 0.0) for q in q_shards]
    for k, v, cols in zip(k_shards, v_shards, position, strict=True):
        for r, (q, rows) in enumerate(zip(q_shards, position, strict=True)):
            peak, total, out = state[r]
            scores = (q.double() @ k.double().mT) / q.shape[-1] ** 0.5
            if causal:
                scores = torch.where(cols[None, :] <= rows[:, None], scores, -1e30)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            state[r] = new_peak, old * total + p.sum(-1, keepdim=True), old * out + p @ v.double()
    return [(out / total).to(dtype) for _, total, out in state]


@EXERCISE.style("the parts of all shards, weighted by a softmax of their log-sum-exps")
def softmax_over_the_parts(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        parts, lse = [], []
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -1e9)
            lse.append(torch.logsumexp(scores, dim=-1))
            parts.append(torch.softmax(scores, dim=-1) @ v)
        shares = torch.softmax(torch.stack(lse), dim=0)
        outputs.append((shares[..., None] * torch.stack(parts)).sum(dim=0))
    return outputs


@EXERCISE.style("one round for the keys, whose scores are kept, and one for the values")
def scores_kept(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    outputs = []
    for r, q in enumerate(q_shards):
        scores = torch.cat([q @ k.mT for k in k_shards], dim=-1) / q.shape[-1] ** 0.5
        if causal:
            later = torch.ones_like(scores).triu(1 + sum(lengths[:r])).bool()
            scores = scores.masked_fill(later, float("-inf"))
        weights = torch.softmax(scores, dim=-1).split(lengths, dim=-1)
        outputs.append(sum(w @ v for w, v in zip(weights, v_shards, strict=True)))
    return tuple(outputs)


@EXERCISE.style("merged two by two, by a recursion over the shards still to come")
def merged_two_by_two(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)

    def attend(r, s):
        scores = q_shards[r] @ k_shards[s].mT / q_shards[r].shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[r][:, None] < position[s], -1e9)
        if s == len(k_shards) - 1:
            return torch.softmax(scores, -1) @ v_shards[s], scores.logsumexp(-1, keepdim=True)
        here = torch.softmax(scores, -1) @ v_shards[s]
        rest, lse_rest = attend(r, s + 1)
        lse = scores.logsumexp(-1, keepdim=True)
        share = torch.sigmoid(lse - lse_rest)
        return share * here + (1 - share) * rest, torch.logaddexp(lse, lse_rest)

    return [attend(r, 0)[0] for r in range(len(q_shards))]


@EXERCISE.style("rank by rank, later shards skipped, merged as in the formula with L")
def merged_as_in_the_formula(q_shards, k_shards, v_shards, causal=False):
    n, lengths = len(q_shards), [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out = lse = None
        for step in range(n):
            s = (r - step) % n
            if causal and s > r:
                continue
            scores = q @ k_shards[s].mT / math.sqrt(q.shape[-1])
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -torch.inf)
            lse_s = torch.logsumexp(scores, dim=-1, keepdim=True)
            out_s = torch.exp(scores - lse_s) @ v_shards[s]
            if out is None:
                out, lse = out_s, lse_s
                continue
            both = torch.logaddexp(lse, lse_s)
            out, lse = torch.exp(lse - both) * out + torch.exp(lse_s - both) * out_s, both
        outputs.append(out)
    return outputs


@EXERCISE.style("merged from nothing, by the log-sum-exp of what came before and of each shard")
def merged_from_nothing(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs
