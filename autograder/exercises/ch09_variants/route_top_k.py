"""ch09_variants/route_top_k: which k experts a token visits, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from autograder.cage.tensors import is_tensor, numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import IN_FLOAT32, ROUGH
from autograder.exercises.ch09_variants.weighing import SLACK, slack
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import (
    FIRST,
    LAST,
    as_close,
    differentiated,
    elsewhere,
    near,
    not_softmax,
    on_any_device,
)
from tfcore import moe


def some_experts(rng: np.random.Generator) -> Iterator[Case]:
    """At least 2 experts for a token, and fewer than there are."""
    yield Case("2 of 4 experts, 3 tokens", (tensor(rng, 3, 4), 2))
    N, E, k = sizes(rng, (5, 9), (6, 10), (3, 5))
    yield Case(f"{k} of {E} experts, {N} tokens", (tensor(rng, N, E), k))
    yield Case("a single token", (tensor(rng, 1, 5), 3))
    yield Case("9 of 12 experts", (tensor(rng, 2, 12), 9))
    yield Case("2 of 60 experts", (tensor(rng, 4, 60), 2))
    yield Case("logits that are not contiguous", (strided(tensor(rng, 7, 5)), 3))
    yield Case("negative logits", (-3 - tensor(rng, 5, 6).abs(), 2))


def one_or_all(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("1 of 4 experts: all weight on the best", (tensor(rng, 3, 4), 1))
    yield Case("4 of 4 experts: softmax, sorted", (tensor(rng, 3, 4), 4))
    yield Case("a single expert", (tensor(rng, 5, 1), 1))
    yield Case("5 of 6 experts", (tensor(rng, 2, 6), 5))


def large(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("logits around 10,000", (1e4 + tensor(rng, 3, 5), 2))
    yield Case("logits around -10,000", (tensor(rng, 3, 5) - 1e4, 3))
    apart = 1e4 * (spaced(rng, 4, 6) < 2) + tensor(rng, 4, 6)
    yield Case("2 logits around 10,000, the others around 0", (apart, 2))
    levels = torch.tensor([[-1e4], [0.0], [1e4]])
    yield Case("tokens with logits far apart", (levels + tensor(rng, 3, 4), 2))


def spaced(rng: np.random.Generator, N: int, E: int) -> torch.Tensor:
    """Logits of which no two of a token are alike, whatever they are rounded to."""
    return torch.from_numpy(np.stack([rng.permutation(E) for _ in range(N)])).float()


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 4, 5, dtype=torch.float64), 2))
    yield Case("bfloat16", (spaced(rng, 3, 6).bfloat16() / 2, 2))
    yield Case("float16, 3 of 7", (spaced(rng, 5, 7).half() / 2, 3))
    yield Case("bfloat16, 3 of 5", (spaced(rng, 4, 5).bfloat16() / 4, 3))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 of 4 experts", (tensor(rng, 3, 4), 2))
    yield Case("3 of 7 experts, float64", (tensor(rng, 5, 7, dtype=torch.float64), 3))
    yield Case("1 of 3 experts", (tensor(rng, 2, 3), 1))


def the_best_are_chosen(trial: Trial) -> str | None:
    logits, k = numbers(trial.case.args[0]), trial.case.args[1]
    experts = numbers(trial.value[1])
    if experts.min() < 0 or experts.max() >= logits.shape[1] or experts.dtype.kind not in "iu":
        last = logits.shape[1] - 1
        return f"result 2 should hold numbers of experts, 0 to {last}; it starts with {experts.flat[0]}"
    for n, row in enumerate(experts):
        if len(set(row.tolist())) < k:
            return f"token {n} visits experts {row.tolist()}; a token visits {k} different ones"
        best = np.sort(logits[n])[::-1][:k]
        left_out = [e for e in np.argsort(-logits[n])[:k] if e not in row]
        if left_out:
            worse = min(row, key=lambda e: logits[n, e])
            return (
                f"token {n} visits expert {worse} with the logit {logits[n, worse]:.4g} and not expert "
                f"{left_out[0]}, whose logit is {logits[n, left_out[0]]:.4g}"
            )
        if not np.array_equal(logits[n, row], best):
            return f"token {n} visits the right experts, but not in order: largest logit first"
    return None


def weights_sum_to_one(trial: Trial) -> str | None:
    sums = numbers(trial.value[0]).sum(axis=-1)
    wrong = ~(np.abs(sums - 1) < slack(trial))
    if not wrong.any():
        return None
    n = int(np.flatnonzero(wrong)[0])
    return f"the weights of token {n} sum to {sums[n]:.4g}; those of the experts it visits sum to 1"


def softmax_of_the_chosen(trial: Trial) -> str | None:
    if slack(trial) > SLACK:
        return None
    weights, experts = numbers(trial.value[0]), numbers(trial.value[1])
    chosen = np.take_along_axis(numbers(trial.case.args[0]).astype(float), experts, axis=-1)
    return not_softmax(weights, chosen, "the chosen logits", 1.0)


def names_of_experts_do_not_matter(trial: Trial) -> str | None:
    logits, k = trial.case.args
    turned = trial.call(replace(trial.case, args=(logits.flip(-1), k))).value
    if near(numbers(turned[0]), numbers(trial.value[0])):
        return None
    return "numbering the experts the other way round changes the weights; only their numbers should change"


def with_any_integers(got: Any, expected: Any, case: Case) -> bool:
    """Plain closeness, where the numbers of the experts may have any dtype of whole numbers."""
    pairs = [list(value) if isinstance(value, tuple | list) else [] for value in (got, expected)]
    if all(len(pair) == 2 and is_tensor(pair[1]) and is_whole(pair[1]) for pair in pairs):
        got, expected = ((weights, experts.long()) for weights, experts in pairs)
    return as_close(got, expected, case)


def is_whole(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def no_ties(case: Case) -> bool:
    """No two logits of a token are alike, since any of several tied experts is a right choice."""
    logits = numbers(case.args[0])
    return all(len(set(row.tolist())) == len(row) for row in logits)


EXERCISE = Exercise(
    name="ch09_variants/route_top_k",
    signature="route_top_k(logits, k)",
    goal="Choose for each token the k experts with the largest logits, weighed by a softmax over those k.",
    section="Experts, and how to keep them busy",
    reference=moe.route_top_k,
    same=with_any_integers,
    criteria=(
        Criterion("the k best experts, the best first, and weights that sum to 1", 0.5, some_experts),
        Criterion("one expert, or all of them", 0.25, one_or_all),
        Criterion("logits as large as 10,000", 0.25, large),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach the logits of the chosen experts",
            0.25,
            differentiated(soft),
            tolerance=IN_FLOAT32,
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the logits are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the best experts are chosen, in order", the_best_are_chosen),
        Property("weights sum to 1", weights_sum_to_one),
        Property("weights are the softmax of the chosen logits", softmax_of_the_chosen),
        Property("names of experts do not matter", names_of_experts_do_not_matter),
        *LAST,
    ),
    domain=no_ties,
)


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
    "says that the router wants this expert.",
    gravity="useless",
)
def smallest(logits, k):
    best, experts = logits.topk(k, dim=-1, largest=False)
    return torch.softmax(best, dim=-1), experts


@EXERCISE.misconception(
    "You choose the right experts, and the best comes last. Put it first, as topk does, and argsort "
    "with descending=True.",
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
    "Your weights are logits divided by their sum, and negative where a logit is. Take the softmax of "
    "the chosen logits."
)
def logits_over_their_sum(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return best / best.sum(dim=-1, keepdim=True), experts


@EXERCISE.misconception(
    "Each chosen expert has the weight 1/k. Take the softmax of their logits: it says how much more the "
    "router wants one of them, and carries the gradient."
)
def equal_weights(logits, k):
    best, experts = logits.topk(k, dim=-1)
    return torch.full_like(best, 1 / k), experts


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
    "You return a weight for every expert, zeros included. Return the weights of the chosen alone, (N, "
    "k), in the order of their experts.",
    gravity="slip",
)
def weights_of_all(logits, k):
    best, experts = logits.topk(k, dim=-1)
    weights = torch.zeros_like(logits).scatter(-1, experts, torch.softmax(best, dim=-1))
    return weights, experts


@EXERCISE.misconception(
    "You choose two experts whatever k is. Choose `k` of them: the caller says how many a token visits."
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
    "with 0/0. Subtract each token's own largest, best[:, :1]."
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
    "A tensor that you make is on the cpu and cannot take what comes from a graphics card. Use "
    "zeros_like(...) or pass device=logits.device."
)
def made_on_the_cpu(logits, k):
    experts = torch.zeros(len(logits), k, dtype=torch.long)
    rest = logits.clone()
    for i in range(k):
        experts[:, i] = rest.argmax(dim=-1)
        rest = rest.masked_fill(F.one_hot(experts[:, i], logits.shape[-1]).bool(), -torch.inf)
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts


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
