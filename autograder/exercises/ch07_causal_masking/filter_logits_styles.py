"""Right answers to `filter_logits`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch07_causal_masking.filter_logits import EXERCISE


@EXERCISE.style("places of the k largest; sums before each token compared with p")
def places(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        out = torch.ones_like(logits, dtype=torch.bool).scatter(-1, kept, False)
        logits = logits.masked_fill(out, -math.inf)
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.style("the least likely first, as in transformers' TopPLogitsWarper")
def least_likely_first(logits, top_k=None, top_p=None):
    if top_k is not None:
        top_k = min(top_k, logits.size(-1))
        values, indices = torch.topk(logits, top_k, dim=-1)
        logits = torch.full_like(logits, -float("inf")).scatter(-1, indices, values)
    if top_p is not None and top_p < 1.0:
        sorted_logits, sorted_indices = torch.sort(logits, descending=False, dim=-1)
        cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
        sorted_to_remove = cumulative_probs <= (1 - top_p)
        sorted_to_remove[..., -1:] = False
        to_remove = sorted_to_remove.scatter(-1, sorted_indices, sorted_to_remove)
        logits = logits.masked_fill(to_remove, -float("inf"))
    return logits


@EXERCISE.style("shifted by one, so that the token that crosses p stays")
def shifted_by_one(logits, top_k=None, top_p=None):
    values, order = torch.sort(logits, descending=True, dim=-1)
    out = torch.zeros_like(values, dtype=torch.bool)
    if top_k is not None:
        out[..., top_k:] = True
    if top_p is not None:
        p = values.masked_fill(out, -math.inf).double().softmax(dim=-1)
        over = p.cumsum(dim=-1) > top_p
        out[..., 1:] |= over[..., :-1]
    values = values.masked_fill(out, -math.inf)
    return torch.empty_like(values).scatter(-1, order, values)


@EXERCISE.style("ranks, by sorting twice")
def ranks(logits, top_k=None, top_p=None):
    rank = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
    if top_k is not None:
        logits = torch.where(rank < top_k, logits, torch.full_like(logits, -math.inf))
    if top_p is not None:
        likeliest_first = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
        number = 1 + (likeliest_first.cumsum(dim=-1) < top_p).sum(dim=-1, keepdim=True)
        logits = torch.where(rank < number, logits, torch.full_like(logits, -math.inf))
    return logits


@EXERCISE.style("row by row, in loops")
def row_by_row(logits, top_k=None, top_p=None):
    V = logits.shape[-1]
    rows = []
    for row in logits.reshape(-1, V):
        order = torch.argsort(row, descending=True)[: V if top_k is None else top_k]
        if top_p is not None:
            p = torch.softmax(row[order], dim=0)
            total, number = 0.0, 0
            while number < len(order) and total < top_p:
                total += float(p[number])
                number += 1
            order = order[:number]
        kept = torch.full_like(row, -math.inf)
        kept[order] = row[order]
        rows.append(kept)
    return torch.stack(rows).reshape(logits.shape)
