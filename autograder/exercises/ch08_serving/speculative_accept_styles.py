"""Right answers to `speculative_accept`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_serving.speculative_accept import EXERCISE


@EXERCISE.style("guess by guess, with an early return")
def guess_by_guess(p_target, p_draft, draft_tokens, u):
    for i, x in enumerate(draft_tokens):
        if u[i] >= p_target[i, x] / p_draft[i, x]:
            rest = torch.clamp(p_target[i] - p_draft[i], min=0)
            return i, rest / rest.sum()
    return len(draft_tokens), p_target[-1]


@EXERCISE.style("gather, and a product that stays 0 after the first rejection")
def cumulative_product(p_target, p_draft, draft_tokens, u):
    n = draft_tokens.shape[0]
    guessed = draft_tokens[:, None]
    p, q = p_target[:n].gather(1, guessed)[:, 0], p_draft.gather(1, guessed)[:, 0]
    count = (u * q < p).long().cumprod(0).sum()
    if count == n:
        return count, p_target[count]
    rest = torch.relu(p_target[count] - p_draft[count])
    return count, rest / rest.sum(-1, keepdim=True)


@EXERCISE.style("a sum of rejections below 1, the draft padded with a row of zeros")
def padded_draft(p_target, p_draft, draft_tokens, u):
    n, V = p_draft.shape
    rows = torch.arange(n, device=p_target.device)
    rejected = ~(u < (p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]).clamp(max=1))
    count = (rejected.cumsum(dim=-1) < 1).sum()
    padded = torch.cat([p_draft, p_draft.new_zeros(1, V)])
    rest = (p_target[count] - padded[count]).clamp_min(0)
    return count, rest / rest.sum()


@EXERCISE.style("in logarithms, and the first rejection by nonzero")
def logarithms(p_target, p_draft, draft_tokens, u):
    n = len(u)
    i = torch.arange(n, device=u.device)
    log_ratio = torch.log(p_target[i, draft_tokens]) - torch.log(p_draft[i, draft_tokens])
    rejected = torch.nonzero(torch.log(u) >= log_ratio)
    if len(rejected) == 0:
        return n, p_target[n].clone()
    first = rejected[0].item()
    rest = torch.maximum(p_target[first], p_draft[first]) - p_draft[first]
    return first, rest / rest.sum()


@EXERCISE.style("plain numbers, in a while loop")
def plain_numbers(p_target, p_draft, draft_tokens, u):
    tokens, n = draft_tokens.tolist(), len(draft_tokens)
    i = 0
    while i < n and u[i].item() * p_draft[i, tokens[i]].item() < p_target[i, tokens[i]].item():
        i += 1
    if i == n:
        return i, p_target[i]
    left = [max(0.0, p - q) for p, q in zip(p_target[i].tolist(), p_draft[i].tolist(), strict=True)]
    total = sum(left)
    return i, p_target.new_tensor([x / total for x in left])
