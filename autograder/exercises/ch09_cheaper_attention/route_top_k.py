"""ch09_cheaper_attention/route_top_k: which k experts a token visits, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from autograder.cage.tensors import is_tensor, numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
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
from autograder.exercises.weighing import IN_FLOAT32, ROUGH, SLACK, slack
from tfcore import moe


def some_experts(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with at least 2 experts for a token, and fewer than all."""
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
    """Draw logits that differ from each other within a token, after any rounding."""
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
    return f"the weights of token {n} sum to {sums[n]:.4g}; the weights of its experts must sum to 1"


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
    """Compare by closeness; the numbers of the experts may have any dtype of whole numbers."""
    pairs = [list(value) if isinstance(value, tuple | list) else [] for value in (got, expected)]
    if all(len(pair) == 2 and is_tensor(pair[1]) and is_whole(pair[1]) for pair in pairs):
        got, expected = ((weights, experts.long()) for weights, experts in pairs)
    return as_close(got, expected, case)


def is_whole(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def no_ties(case: Case) -> bool:
    """Return whether all logits of a token differ, since any of several tied experts is a right choice."""
    logits = numbers(case.args[0])
    return all(len(set(row.tolist())) == len(row) for row in logits)


EXERCISE = Exercise(
    name="ch09_cheaper_attention/route_top_k",
    signature="route_top_k(logits, k)",
    goal="Choose for each token the k experts with the largest logits, weighted by a softmax over those k.",
    section="Experts, and how to keep them busy",
    minutes=8,
    difficulty="easy",
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
        Property("numbers of experts do not matter", names_of_experts_do_not_matter),
        *LAST,
    ),
    domain=no_ties,
)
