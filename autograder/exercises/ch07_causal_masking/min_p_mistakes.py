"""Mistakes that people make in `min_p`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch07_causal_masking.min_p import EXERCISE


@EXERCISE.misconception("Your threshold is min_p itself. Multiply it by the largest probability of the row.")
def absolute(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p < min_p, -math.inf)


@EXERCISE.misconception(
    "You compare logits with min_p times the largest logit. min_p is a share of a probability: take the "
    "softmax first, or compare with the largest logit plus ln min_p."
)
def share_of_the_logit(logits, min_p):
    return logits.masked_fill(logits < min_p * logits.amax(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "You subtract min_p from the largest logit. To multiply a probability by a factor, add the factor's "
    "logarithm to the logit: add ln min_p, which is negative."
)
def minus_the_share(logits, min_p):
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) - min_p, -math.inf)


@EXERCISE.misconception(
    "Your logarithm has the base 10. The softmax has the base e: use math.log.",
    gravity="slip",
)
def base_ten(logits, min_p):
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log10(min_p), -math.inf)


@EXERCISE.misconception(
    "Your logarithm has the base 2. The softmax has the base e: use math.log.",
    gravity="slip",
)
def base_two(logits, min_p):
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log2(min_p), -math.inf)


@EXERCISE.misconception(
    "You remove likely tokens and keep unlikely ones. Remove the tokens below the threshold and keep the "
    "others.",
    gravity="useless",
)
def inverted(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p >= min_p * p.amax(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "With min_p = 1 nothing stays: you remove tokens that equal the threshold. The likeliest token reaches "
    "it exactly; remove only tokens below it.",
    gravity="slip",
)
def removes_the_likeliest(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p <= min_p * p.amax(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "You take one largest probability for all rows. Each row has its own: max(dim=-1, keepdim=True)."
)
def one_maximum_for_all(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p < min_p * p.max(), -math.inf)


@EXERCISE.misconception(
    "Your softmax runs over the rows of the batch. The tokens are on the last axis: dim=-1."
)
def over_the_batch(logits, min_p):
    p = logits.double().softmax(dim=0)
    return logits.masked_fill(p < min_p * p.amax(dim=0, keepdim=True), -math.inf)


@EXERCISE.misconception("You return probabilities. Return the logits, with -inf for tokens that are removed.")
def returns_probabilities(logits, min_p):
    p = logits.softmax(dim=-1)
    return p.masked_fill(p < min_p * p.amax(dim=-1, keepdim=True), 0.0)


@EXERCISE.misconception(
    "A token that is removed gets 0 in place of -inf, and a softmax would give it weight again. Write -inf."
)
def zero_for_minus_infinity(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p < min_p * p.amax(dim=-1, keepdim=True), 0.0)


@EXERCISE.misconception(
    "A token that is removed gets -1e9 in place of -inf. Write -inf: float('-inf') or -torch.inf.",
    gravity="slip",
)
def a_large_number(logits, min_p):
    p = logits.double().softmax(dim=-1)
    out = p < min_p * p.amax(dim=-1, keepdim=True)
    return logits.float().masked_fill(out, -1e9).to(logits.dtype)


@EXERCISE.misconception(
    "Your exp overflows for large logits, and inf / inf is NaN. Take torch.softmax, or subtract the largest "
    "logit first.",
    gravity="slip",
)
def overflows(logits, min_p):
    p = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
    return logits.masked_fill(~(p >= min_p * p.amax(dim=-1, keepdim=True)), -math.inf)


@EXERCISE.misconception(
    "You keep the likeliest tokens until they hold the share min_p: that is top-p. Min-p compares each "
    "token with the likeliest alone."
)
def top_p(logits, min_p):
    p, order = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    out = p.cumsum(dim=-1) - p >= min_p
    return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)


@EXERCISE.misconception(
    "You compare with the mean probability of the row, not with the largest. Use amax(dim=-1, keepdim=True)."
)
def share_of_the_mean(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p < min_p * p.mean(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "You write -inf into the tensor that you were given. Make a new one: masked_fill, without the "
    "underscore.",
    gravity="slip",
)
def in_place(logits, min_p):
    p = logits.detach().double().softmax(dim=-1)
    return logits.masked_fill_(p < min_p * p.amax(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "You renormalise the logits that stay: you return logarithms of probabilities that sum to 1. Return the "
    "logits as they were.",
    gravity="slip",
)
def renormalised(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.masked_fill(p < min_p * p.amax(dim=-1, keepdim=True), -math.inf).log_softmax(dim=-1)


@EXERCISE.misconception(
    "Your code works only with (B, V). Logits may have any leading axes, or none: count axes from the end.",
    gravity="slip",
)
def two_axes_alone(logits, min_p):
    p = logits.double().softmax(dim=1)
    return logits.masked_fill(p < min_p * p.amax(dim=1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "The gradient is lost: you make a new tensor of plain numbers. Use masked_fill or torch.where on the "
    "logits.",
    gravity="slip",
)
def without_gradient(logits, min_p):
    p = logits.double().softmax(dim=-1)
    return logits.detach().masked_fill(p < min_p * p.amax(dim=-1, keepdim=True), -math.inf)


@EXERCISE.misconception(
    "You return float64, whatever comes in. You may compare in float64, but return the logits in their "
    "dtype.",
    gravity="slip",
)
def always_float64(logits, min_p):
    wide = logits.double()
    p = wide.softmax(dim=-1)
    return wide.masked_fill(p < min_p * p.amax(dim=-1, keepdim=True), -math.inf)
