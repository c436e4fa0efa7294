"""Right answers to `min_p`, each in a style of its own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from autograder.exercises.ch07_causal_masking.min_p import EXERCISE


@EXERCISE.style("probabilities, compared with a part of their largest")
def by_probabilities(logits, min_p):
    p = logits.double().softmax(dim=-1)
    out = p < min_p * p.amax(dim=-1, keepdim=True)
    return logits.masked_fill(out, -math.inf)


@EXERCISE.style("no softmax: logits, compared with the largest plus ln min_p")
def by_logits(logits, min_p):
    threshold = logits.max(dim=-1, keepdim=True).values + math.log(min_p)
    return torch.where(logits >= threshold, logits, torch.full_like(logits, float("-inf")))


@EXERCISE.style("the ratio itself")
def by_ratio(logits, min_p):
    ratio = torch.exp(logits.float() - logits.float().max(dim=-1, keepdim=True)[0])
    return logits.masked_fill(~(ratio >= min_p), float("-inf"))


@EXERCISE.style("log_softmax")
def by_log_softmax(logits, min_p):
    logp = F.log_softmax(logits.to(torch.float64), dim=-1)
    best, _ = logp.max(-1, keepdim=True)
    return logits.masked_fill(logp < best + math.log(min_p), -torch.inf)


@EXERCISE.style("row by row")
def row_by_row(logits, min_p):
    kept = []
    for row in logits.reshape(-1, logits.shape[-1]):
        p = torch.softmax(row.double(), dim=0)
        floor = min_p * max(p.tolist())
        gone = row.new_tensor(-math.inf)
        kept.append(torch.stack([z if q >= floor else gone for z, q in zip(row, p, strict=True)]))
    return torch.stack(kept).reshape(logits.shape)


@EXERCISE.style("a clone, written into")
def written_into(logits, min_p):
    result = logits.clone()
    p = logits.detach().double().softmax(-1)
    result[p < p.max(-1, keepdim=True).values * min_p] = -math.inf
    return result
