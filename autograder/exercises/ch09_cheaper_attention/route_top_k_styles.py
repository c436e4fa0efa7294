"""Right answers to `route_top_k`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch09_cheaper_attention.route_top_k import EXERCISE


@EXERCISE.style("topk of the logits, then softmax")
def topk_softmax(logits, k):
    best, experts = torch.topk(logits, k, dim=-1)
    return torch.softmax(best, dim=-1), experts


@EXERCISE.style("softmax over all, topk, divided by the sum")
def softmax_topk_divided(logits, k):
    p = torch.nn.functional.softmax(logits, dim=-1, dtype=torch.float64)
    weights, experts = torch.topk(p, k, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.to(logits.dtype), experts


@EXERCISE.style("argsort and gather")
def argsort_gather(logits, k):
    experts = torch.argsort(logits, dim=1, descending=True)[:, :k]
    chosen = torch.gather(logits, 1, experts)
    e = torch.exp(chosen - chosen[:, :1])
    return e / e.sum(1, keepdim=True), experts


@EXERCISE.style("all but the chosen at minus infinity, softmax over all")
def masked(logits, k):
    threshold = logits.topk(k, dim=-1).values[:, -1:]
    p = logits.masked_fill(logits < threshold, float("-inf")).softmax(dim=-1)
    return p.topk(k, dim=-1)


@EXERCISE.style("the best of what is left, k times")
def one_after_another(logits, k):
    rest, weights, experts = logits, [], []
    for _ in range(k):
        value, index = rest.max(dim=-1, keepdim=True)
        weights.append(value)
        experts.append(index)
        rest = rest.scatter(-1, index, -torch.inf)
    chosen = torch.cat(weights, dim=-1)
    return torch.exp(chosen - torch.logsumexp(chosen, dim=-1, keepdim=True)), torch.cat(experts, dim=-1)


@EXERCISE.style("token by token, sorted")
def token_by_token(logits, k):
    weights, experts = [], []
    for row in logits:
        values, order = torch.sort(row, descending=True)
        weights.append(torch.softmax(values[:k], 0))
        experts.append(order[:k])
    return torch.stack(weights), torch.stack(experts)
