"""Mistakes that people make in `route_top_k`, each with the hint for its author."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from autograder.exercises.ch09_cheaper_attention.route_top_k import EXERCISE


@EXERCISE.misconception(
    "Your softmax runs over all experts, so that the weights of a token sum to less than 1. Take the "
    "softmax over the k chosen logits, or divide by the sum of the chosen.",
    gravity="slip",
)
def not_renormalised(logits, k):
    weights, experts = torch.softmax(logits, dim=-1).topk(k, dim=-1)
    return weights, experts


@EXERCISE.misconception(
    "Your weights are sigmoids, which look at each expert by itself and do not sum to 1. Take a softmax "
    "over the k chosen logits."
)
def sigmoid(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return torch.sigmoid(best), experts


@EXERCISE.misconception(
    "Your weights are sigmoids divided by their sum. Take a softmax over the k chosen logits: weights "
    "are in proportion to the exponentials of the logits.",
    gravity="slip",
)
def sigmoid_renormalised(logits, k):
    best, experts = logits.topk(k, dim=-1)
    weights = torch.sigmoid(best)
    return weights / weights.sum(dim=-1, keepdim=True), experts


@EXERCISE.misconception(
    "Your weights are a softmax of probabilities, which evens them out. Take one softmax only, of the "
    "chosen logits, or divide the chosen probabilities by their sum."
)
def softmax_twice(logits, k):
    p, experts = torch.softmax(logits, dim=-1).topk(k, dim=-1)
    return torch.softmax(p, dim=-1), experts


@EXERCISE.misconception(
    "You choose the k *smallest* logits. Choose the largest, as topk does by default: a large logit "
    "means that the router wants this expert.",
    gravity="useless",
)
def smallest(logits, k):
    best, experts = logits.topk(k, dim=-1, largest=False)
    return torch.softmax(best, dim=-1), experts


@EXERCISE.misconception(
    "You choose the right experts, but the best comes last. Put it first, as topk does, or argsort with "
    "descending=True.",
    gravity="slip",
)
def best_last(logits, k):
    experts = logits.argsort(dim=-1)[:, -k:]
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts


@EXERCISE.misconception(
    "Your chosen experts are in the order of their numbers. Order them by their weights, the largest first.",
    gravity="slip",
)
def by_number(logits, k):
    experts = logits.topk(k, dim=-1).indices.sort(dim=-1).values
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts


@EXERCISE.misconception(
    "Your two results are exchanged. Return the weights first, then the numbers of the experts.",
    gravity="slip",
)
def results_exchanged(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return experts, torch.softmax(best, dim=-1)


@EXERCISE.misconception(
    "You return the chosen logits as they are. Take their softmax: weights are above 0 and sum to 1."
)
def bare_logits(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return best, experts


@EXERCISE.misconception(
    "Your weights are logits divided by their sum, so some can be negative. Take the softmax of the chosen "
    "logits."
)
def logits_over_their_sum(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return best / best.sum(dim=-1, keepdim=True), experts


@EXERCISE.misconception(
    "Each chosen expert has the weight 1/k. Take the softmax of their logits: it shows how much more the "
    "router wants one of them, and carries the gradient."
)
def equal_weights(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return torch.full_like(best, 1 / k), experts


@EXERCISE.misconception(
    "You overwrite the logits while you choose, so that all chosen logits become the same number. Work on "
    "logits.clone()."
)
def chosen_logits_overwritten(logits, k):
    experts = []
    for _ in range(k):
        experts.append(logits.argmax(dim=-1, keepdim=True))
        logits.scatter_(-1, experts[-1], -1e9)
    experts = torch.cat(experts, dim=-1)
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts


@EXERCISE.misconception(
    "You choose along axis 0: for each expert the k best tokens. Choose along the last axis, for topk "
    "and softmax: each *token* chooses its experts.",
    gravity="useless",
)
def experts_choose(logits, k):
    best, tokens = logits.topk(min(k, len(logits)), dim=0)
    return torch.softmax(best, dim=0), tokens


@EXERCISE.misconception(
    "Your softmax runs over the tokens (dim=0). Take it along the last axis: the weights of one token "
    "sum to 1."
)
def softmax_over_tokens(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return torch.softmax(best, dim=0), experts


@EXERCISE.misconception(
    "You return a weight for every expert, zeros included. Return the weights of the chosen experts alone, "
    "(N, k), in the order of their experts.",
    gravity="slip",
)
def weights_of_all(logits, k):
    best, experts = logits.topk(k, dim=-1)
    weights = torch.zeros_like(logits).scatter(-1, experts, torch.softmax(best, dim=-1))
    return weights, experts


@EXERCISE.misconception(
    "You choose two experts whatever k is. Choose `k` of them: the caller decides how many a token visits."
)
def always_two(logits, k):
    best, experts = logits.topk(min(2, logits.shape[-1]), dim=-1)
    return torch.softmax(best, dim=-1), experts


@EXERCISE.misconception(
    "exp of a large logit is infinite, and inf/inf is NaN. Subtract each token's largest logit first, "
    "or call torch.softmax, which does."
)
def overflow(logits, k):
    best, experts = logits.topk(k, dim=-1)
    e = torch.exp(best)
    return e / e.sum(dim=-1, keepdim=True), experts


@EXERCISE.misconception(
    "You subtract the largest logit of all tokens, and a token whose logits are far below it is left "
    "with 0/0. Subtract each token's own largest logit, best[:, :1]."
)
def one_maximum_for_all(logits, k):
    best, experts = logits.topk(k, dim=-1)
    e = torch.exp(best - best.max())
    return e / e.sum(dim=-1, keepdim=True), experts


@EXERCISE.misconception(
    "No gradient reaches the logits, so that the router cannot learn. Leave out .detach() and "
    "torch.no_grad(): the weights are the only way by which a gradient gets there."
)
def router_detached(logits, k):
    best, experts = logits.detach().topk(k, dim=-1)
    return torch.softmax(best, dim=-1), experts


@EXERCISE.misconception(
    "You write into the caller's logits. Use masked_fill or clone(), which leave the input alone."
)
def logits_changed_in_place(logits, k):
    best, experts = logits.topk(k, dim=-1)
    logits[logits < best[:, -1:]] = -torch.inf
    return torch.softmax(logits, dim=-1).gather(-1, experts), experts


@EXERCISE.misconception(
    "Your weights are float32 whatever comes in. Return them in the dtype of the logits: .to(logits.dtype)."
)
def float32_weights(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return torch.softmax(best, dim=-1, dtype=torch.float32), experts


@EXERCISE.misconception(
    "A tensor that you make is on the cpu and cannot be combined with a tensor on a graphics card. Use "
    "zeros_like(...) or pass device=logits.device."
)
def made_on_the_cpu(logits, k):
    experts = torch.zeros(len(logits), k, dtype=torch.long)
    rest = logits.clone()
    for i in range(k):
        experts[:, i] = rest.argmax(dim=-1)
        rest = rest.masked_fill(F.one_hot(experts[:, i], logits.shape[-1]).bool(), -torch.inf)
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts


@EXERCISE.misconception(
    "Your weights are right, but the numbers of the experts start at 1. Count from 0, as topk does.",
    gravity="slip",
)
def counted_from_1(logits, k):
    best, where = torch.topk(logits, k, dim=-1)
    return torch.softmax(best, dim=-1), where + 1


@EXERCISE.misconception(
    "Your weights have the largest first, but the numbers of the experts are sorted by themselves, so "
    "weights and experts no longer match. Keep both in the order of the logits."
)
def experts_sorted_alone(logits, k):
    best, where = torch.topk(logits, k, dim=-1)
    return torch.softmax(best, dim=-1), where.sort(dim=-1).values


@EXERCISE.misconception(
    "The numbers of the experts are floats. Return them as integers, as topk gives them: they are indices.",
    gravity="slip",
)
def numbers_as_floats(logits, k):
    best, where = torch.topk(logits, k, dim=-1)
    return torch.softmax(best, dim=-1), where.to(logits.dtype)
