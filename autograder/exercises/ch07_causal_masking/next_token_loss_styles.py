"""Right answers to `next_token_loss`, each in a style of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch07_causal_masking.next_token_loss import EXERCISE


@EXERCISE.style("the sum by F.cross_entropy, over the count")
def sum_over_count(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    total = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), targets, ignore_index=ignore_index, reduction="sum"
    )
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.style("as GPT-2's loss is usually written, in float32, with a way out when nothing counts")
def as_for_gpt2(logits, tokens, ignore_index=-100):
    shift_logits = (
        logits[..., :-1, :].contiguous().float() if logits.dtype != torch.float64 else logits[:, :-1]
    )
    shift_labels = tokens[..., 1:].contiguous()
    if not (shift_labels != ignore_index).any():
        return logits.sum() * 0
    loss_fct = nn.CrossEntropyLoss(ignore_index=ignore_index)
    return loss_fct(shift_logits.reshape(-1, shift_logits.size(-1)), shift_labels.view(-1))


@EXERCISE.style("log_softmax and gather, with a mask")
def gathered(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = logits[:, :-1].log_softmax(dim=-1)
    picked = log_p.gather(-1, targets.masked_fill(~keep, 0).unsqueeze(-1)).squeeze(-1)
    return -(picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.style("log-sum-exp less the logit of the target, at the places that count")
def places_that_count(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    if not keep.any():
        return logits[:, :0].sum()
    rows, targets = logits[:, :-1][keep], targets[keep]
    return (torch.logsumexp(rows, dim=-1) - rows.gather(1, targets[:, None])[:, 0]).mean()


@EXERCISE.style("one-hot targets, einsum")
def one_hot(logits, tokens, ignore_index=-100):
    V = logits.shape[-1]
    targets = tokens[:, 1:]
    keep = (targets != ignore_index).to(logits.dtype)
    hot = F.one_hot(targets.masked_fill(targets == ignore_index, 0), V).to(logits.dtype)
    log_p = logits[:, :-1] - logits[:, :-1].logsumexp(dim=-1, keepdim=True)
    return -torch.einsum("btv,btv,bt->", log_p, hot, keep) / keep.sum().clamp(min=1)


@EXERCISE.style("token by token, in loops")
def token_by_token(logits, tokens, ignore_index=-100):
    total, count = logits.sum() * 0, 0
    B, T, _ = logits.shape
    for b in range(B):
        for t in range(T - 1):
            target = int(tokens[b, t + 1])
            if target != ignore_index:
                total = total - torch.log_softmax(logits[b, t], dim=0)[target]
                count += 1
    return total / max(count, 1)
