"""Mistakes that people make in `filter_logits`, each with the hint for its author."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from autograder.exercises.ch07_causal_masking.filter_logits import EXERCISE


@EXERCISE.misconception(
    "The token that crosses p is removed, and the tokens before it do not make up p yet. Remove a token if "
    "the sum *before* it has reached p: cumsum minus its own probability.",
    gravity="slip",
)
def crossing_token_dropped(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) > top_p
        out[..., 0] = False
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "If the likeliest token alone has more than p, nothing is left, and softmax of a row of -inf is NaN. "
    "Compare the sum *before* each token with p: it is 0 for the first, so the first stays.",
    gravity="slip",
)
def no_token_left(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) > top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "One token too many stays: the one after the token that crosses p. Remove a token if the sum of the "
    "tokens before it has reached p.",
    gravity="slip",
)
def one_too_many(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = F.pad(p.cumsum(dim=-1), (2, 0))[..., :-2] >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "If logits are equal, more than k stay, as when each is compared with the k-th largest value. Keep the "
    "k *places* that topk returns as indices."
)
def ties_stay(logits, top_k=None, top_p=None):
    if top_k is not None:
        smallest = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < smallest, -math.inf)
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "The caller's logits are changed by top_k. Make a new tensor: masked_fill, without an underscore at the "
    "end, instead of `logits[...] = `."
)
def changed_in_place(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits[torch.ones_like(logits, dtype=torch.bool).scatter(-1, kept, False)] = -math.inf
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "The probabilities are added up in the order of the vocabulary. Sort them first, likeliest first: top_p "
    "keeps the likeliest tokens that make up p."
)
def not_sorted(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p = logits.softmax(dim=-1)
        logits = logits.masked_fill(p.cumsum(dim=-1) - p >= top_p, -math.inf)
    return logits


@EXERCISE.misconception(
    "With top_p the likeliest tokens are removed, since the least likely come first in the sum. Sort with "
    "descending=True.",
    gravity="useless",
)
def sorted_upwards(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "The decision about the *sorted* tokens is applied to the unsorted logits. Bring it back to the tokens' "
    "places first: `scatter` with the order that sort returned."
)
def not_scattered_back(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
        logits = logits.masked_fill(p.cumsum(dim=-1) - p >= top_p, -math.inf)
    return logits


@EXERCISE.misconception(
    "The logits come back sorted, so that the columns are no longer the tokens. Put each back in its place: "
    "`scatter` with the order that sort returned."
)
def returned_sorted(logits, top_k=None, top_p=None):
    values = logits.sort(dim=-1, descending=True).values
    if top_k is not None:
        values = values.masked_fill(torch.arange(values.shape[-1], device=values.device) >= top_k, -math.inf)
    if top_p is not None and top_p < 1:
        p = values.softmax(dim=-1)
        values = values.masked_fill(p.cumsum(dim=-1) - p >= top_p, -math.inf)
    return values


@EXERCISE.misconception(
    "top_p is applied before top_k. Apply top_k first, then top_p among the remaining tokens: without the "
    "others, the shares of the k grow, and fewer of them make up p."
)
def top_p_first(logits, top_k=None, top_p=None):
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    return logits


@EXERCISE.misconception(
    "top_p has no effect where top_k is given, as with `elif`. Both may be given: write `if` twice."
)
def one_or_the_other(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    elif top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "Removed tokens hold 0. A logit of 0 may even be the largest: write -inf, which softmax "
    "turns into a probability of 0.",
    gravity="useless",
)
def removed_to_zero(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.zeros_like(logits).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), 0.0)
    return logits


@EXERCISE.misconception(
    "You return probabilities. Return logits: kept logits unchanged, the others -inf. The caller takes the "
    "softmax.",
    gravity="slip",
)
def probabilities_for_logits(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits.softmax(dim=-1)


@EXERCISE.misconception(
    "Each single probability is compared with p. Add up the likeliest until their sum reaches p."
)
def each_compared_with_p(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p = logits.softmax(dim=-1)
        logits = logits.masked_fill(p < top_p, -math.inf)
    return logits


@EXERCISE.misconception("You add up logits. p is a share of the total probability: take the softmax first.")
def logits_added_up(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        values, order = logits.sort(dim=-1, descending=True)
        out = values.cumsum(dim=-1) - values >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "k + 1 tokens stay, as when the sorted value at index k is the limit: it comes *after* the k largest. "
    "Take index k - 1, or the last of topk(k).",
    gravity="slip",
)
def one_more_than_k(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(min(top_k + 1, logits.shape[-1]), dim=-1).indices
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept, logits.gather(-1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "k tokens of the whole batch stay. Keep k of each row: topk along the last axis, dim=-1."
)
def k_of_the_whole_batch(logits, top_k=None, top_p=None):
    if top_k is not None:
        smallest = logits.flatten().topk(top_k).values[-1]
        logits = logits.masked_fill(logits < smallest, -math.inf)
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        out = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "Only logits of the shape (B, V) come out right, as with dim=1. The vocabulary is the last axis: write "
    "dim=-1, which is right for any number of axes before it."
)
def second_axis(logits, top_k=None, top_p=None):
    if top_k is not None:
        kept = logits.topk(top_k, dim=1).indices
        logits = torch.full_like(logits, -math.inf).scatter(1, kept, logits.gather(1, kept))
    if top_p is not None and top_p < 1:
        p, order = logits.softmax(dim=1).sort(dim=1, descending=True)
        out = p.cumsum(dim=1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(out).scatter(1, order, out), -math.inf)
    return logits


@EXERCISE.misconception(
    "The unlikeliest tokens stay, for top_k and top_p alike, since the smallest come first. Sort with "
    "descending=True.",
    gravity="useless",
)
def sorted_ascending(logits, top_k=None, top_p=None):
    in_order, order = logits.sort(dim=-1)
    out = torch.zeros_like(in_order, dtype=torch.bool)
    if top_k is not None:
        out[..., top_k:] = True
    if top_p is not None and top_p < 1:
        p = in_order.masked_fill(out, -math.inf).softmax(dim=-1)
        out = out | (p.cumsum(dim=-1) - p >= top_p)
    return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -math.inf)


@EXERCISE.misconception(
    "The caller's logits are changed. Make a new tensor: masked_fill, and not `masked_fill_` with the "
    "underscore or `logits[...] = `."
)
def filled_in_place(logits, top_k=None, top_p=None):
    in_order, order = logits.sort(dim=-1, descending=True)
    out = torch.zeros_like(in_order, dtype=torch.bool)
    if top_k is not None:
        out[..., top_k:] = True
    if top_p is not None and top_p < 1:
        p = in_order.masked_fill(out, -math.inf).softmax(dim=-1)
        out = out | (p.cumsum(dim=-1) - p >= top_p)
    return logits.masked_fill_(torch.zeros_like(out).scatter(-1, order, out), -math.inf)
