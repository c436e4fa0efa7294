"""ch07_causal_masking/find_leaks: which outputs of a model depend on a later token.

The models are tables with planted leaks: none, from the next token, or in a single number. Every planted
leak moves some output by 1.4e-4 or more, for every other token there. Other changes move outputs by 9e-5 or
less, as rounding does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Property, Test, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device
from tfcore.testing import probes

Array = np.ndarray
Pairs = set[tuple[int, int]]


def find_leaks(model, tokens, vocab_size):
    """Compute the reference answer, at its tolerance of 1e-4."""
    return probes.find_leaks(model, tokens, vocab_size)


@dataclass(frozen=True)
class TableModel:
    """Map tokens (B, T) to logits (B, T, V) that add up the codes of the tokens that each position sees.

    Attributes:
        past: how strongly position i sees j, (T, T); zero for j > i.
        codes: the row that a token adds to the logits of the positions that see it, (V, V).
        leaks: the same for later positions, which should be hidden, (T, T); zero for j <= i.
        leaked: the row that a token adds to the logits of earlier positions, (V, V).
        around: the number that every logit begins with.
    """

    past: Tensor
    codes: Tensor
    leaks: Tensor
    leaked: Tensor
    around: float = 20.0

    serves = ("__call__",)

    def __call__(self, tokens: Tensor) -> Tensor:
        vocab_size = len(self.codes)
        if tokens.is_floating_point():
            raise TypeError(f"tokens are whole numbers; got {tokens.dtype}")
        if tokens.ndim != 2:
            raise ValueError(f"expected tokens of shape (1, T), got shape {tuple(tokens.shape)}")
        if tokens.shape[1] != len(self.past):
            raise ValueError(f"expected {len(self.past)} tokens, got {tokens.shape[1]}")
        if not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
            raise IndexError(f"the vocabulary has the tokens 0 to {vocab_size - 1}, and none beyond")
        seen = self.past @ self.codes[tokens.long()]
        peeked = self.leaks @ self.leaked[tokens.long()]
        return (self.around + seen + peeked).float()


def in_all_logits(rng: np.random.Generator, V: int) -> Array:
    """Draw the leaked row of each of V tokens, (V, V): any two differ in every logit, by 1 or more."""
    return (rng.permutation(V)[:, None] + 1.0) * (1 + rng.random(V)) * rng.choice([-1, 1], size=V)


def in_one_logit(rng: np.random.Generator, V: int) -> Array:
    """Draw rows that differ in a single logit, which is not the first."""
    leaked = np.zeros((V, V))
    leaked[:, rng.integers(1, V)] = rng.permutation(V)
    return leaked


def up_and_down(rng: np.random.Generator, V: int) -> Array:
    """Draw rows that differ in two logits: one falls by as much as the other rises."""
    leaked = np.zeros((V, V))
    up, down = rng.permutation(V)[:2]
    leaked[:, up] = rng.permutation(V)
    leaked[:, down] = -leaked[:, up]
    return leaked


def all_alike(rng: np.random.Generator, V: int) -> Array:
    """Draw rows that differ in all logits by the same number."""
    return np.repeat(rng.permutation(V)[:, None], V, axis=1).astype(float)


def tokens_for(rng: np.random.Generator, T: int, V: int) -> Tensor:
    """Draw tokens (T,) with the first and the last of the vocabulary among them, though not at the start."""
    tokens = rng.integers(V, size=T)
    if T > 2:
        tokens[1 + rng.permutation(T - 1)[:2]] = [0, V - 1]
    return torch.from_numpy(tokens)


def lent(
    rng: np.random.Generator,
    V: int,
    leaks: Array,
    leaked: Callable[[np.random.Generator, int], Array] = in_all_logits,
    around: float = 20.0,
) -> tuple[Lent, Tensor, int]:
    """Return a model of V tokens with planted leaks of this strength (T, T), tokens for it, and V."""
    T = len(leaks)
    tables = (
        np.tril(rng.normal(size=(T, T))),
        0.5 * rng.normal(size=(V, V)),
        np.triu(leaks, 1),
        leaked(rng, V),
    )
    past, codes, hidden, told = (torch.from_numpy(table.astype(float)) for table in tables)
    model = TableModel(past, codes, hidden, told, around)
    return Lent(f"a model of {T} tokens", lambda: model), tokens_for(rng, T, V), V


def plain(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a causal model, 3 tokens", lent(rng, 5, np.zeros((3, 3))))
    yield Case("a model that sees the next token", lent(rng, 6, 0.1 * np.eye(4, k=1)))
    T, V = sizes(rng, (5, 6), (7, 9))
    yield Case(f"a model without a mask, {T} tokens", lent(rng, V, 0.1 * np.ones((T, T))))
    some = rng.permuted(np.arange(T * T) % 2).reshape(T, T)
    some[0, T - 1] = some[T - 2, T - 1] = 1
    yield Case("some pairs leak", lent(rng, V, 0.1 * some))


def hidden(rng: np.random.Generator) -> Iterator[Case]:
    T, V = sizes(rng, (4, 5), (10, 14))
    one = np.zeros((T, T))
    one[0, T - 1] = 1.0
    yield Case("the last token leaks into the first output", lent(rng, V, one, in_one_logit))
    earlier = np.zeros((T, T))
    earlier[0, 1] = earlier[1, 2] = 1.0
    yield Case("the last token does not leak, earlier ones do", lent(rng, V, earlier))
    small = 5e-4 * np.ones((T, T))
    yield Case("every later token moves one logit a little", lent(rng, V, small, in_one_logit))
    over = 1.5e-4 * np.ones((T, T))
    yield Case("a leak of 1.5e-4 in one logit", lent(rng, V, over, in_one_logit, around=0.0))
    yield Case("a leak of 1.5e-4 in one logit of about 20", lent(rng, 2, over, in_one_logit))
    yield Case("one pair leaks 1e-3", lent(rng, 2, 1e-3 * np.eye(T, k=T - 1), in_one_logit))
    yield Case("one logit rises by as much as another falls", lent(rng, V, 0.1 * np.eye(T, k=1), up_and_down))
    yield Case("a leak moves all logits alike", lent(rng, V, 0.02 * np.eye(T, k=2), all_alike))
    yield Case("a vocabulary of 2 tokens", lent(rng, 2, np.eye(3, k=1)))


def none(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a single token", lent(rng, 4, np.zeros((1, 1))))
    T, V = sizes(rng, (5, 6), (8, 11))
    yield Case(f"a causal model, {T} tokens", lent(rng, V, np.zeros((T, T))))
    rounding = 1e-5 / V * np.ones((T, T))
    yield Case("a causal model that rounds differently each time", lent(rng, V, rounding))
    under = 0.8e-4 * np.ones((3, 3))
    yield Case("later tokens move one logit by 0.8e-4", lent(rng, 2, under, in_one_logit))
    yield Case("later tokens move a small logit by 0.8e-4", lent(rng, 2, under, in_one_logit, around=0.0))
    yield Case("the next token leaks, the rest is rounding", lent(rng, V, 0.2 * np.eye(T, k=1) + rounding))


def _pairs(value: Any) -> Pairs | None:
    """Return the value as pairs of plain numbers, or None."""
    try:
        return {(int(i), int(j)) for i, j in value}
    except (TypeError, ValueError):
        return None


def pairs_of_numbers(trial: Trial) -> str | None:
    if (found := _pairs(trial.value)) is None:
        member = next(iter(trial.value))
        return f"your set holds {member!r}; it should hold pairs of numbers (i, j), such as (0, 2)"
    if found == trial.expected:
        return (
            "your pairs hold tensors, which are never equal to each other in a set: use int(...) or .tolist()"
        )
    return None


def later_tokens_only(trial: Trial) -> str | None:
    wrong = sorted((i, j) for i, j in _pairs(trial.value) or () if j <= i)
    if not wrong:
        return None
    i, j = wrong[0]
    who = "its own token" if i == j else "an earlier token"
    return f"({i}, {j}) is not a leak: output {i} may depend on {who}; a leak (i, j) has j > i"


def repeatable(trial: Trial) -> str | None:
    if trial.call(trial.case).value == trial.value:
        return None
    return (
        "the same call gives other pairs each time. A token drawn at random may be equal to the token that "
        "it replaces"
    )


def _moved(trial: Trial, i: int, j: int) -> float:
    """Return how far the output at i moves with another token at j."""
    lent, tokens, vocab_size = trial.case.args
    model, other = lent.make(), tokens.clone()
    other[j] = (tokens[j] + 1) % vocab_size
    return float((model(other[None])[0, i] - model(tokens[None])[0, i]).abs().max())


def every_leak(trial: Trial) -> str | None:
    missing = sorted(trial.expected - (_pairs(trial.value) or set()))
    if not missing:
        return None
    i, j = missing[0]
    size = trial.case.args[2]
    return (
        f"({i}, {j}) is missing: with another token below {size} at {j}, the output at {i} moves by "
        f"{_moved(trial, i, j):.2g}; more than 1e-4 is a leak"
    )


def no_other(trial: Trial) -> str | None:
    extra = sorted((_pairs(trial.value) or set()) - trial.expected)
    if not extra:
        return None
    i, j = extra[0]
    moved = _moved(trial, i, j)
    why = f"by {moved:.0e}, which is rounding" if moved else "not at all"
    return f"({i}, {j}) is not a leak: with another token at {j} alone, the output at {i} moves {why}"


def _questions(trial: Trial) -> list[list[int]]:
    """Return the tokens that the model was called with, in order."""
    return [[int(n) for n in args[0].flatten()] for _, args in trial.outcome.asked]


def asked_about_every_token(trial: Trial) -> str | None:
    tokens = [int(n) for n in trial.case.args[1]]
    asked = _questions(trial)
    if any(len(one) != len(tokens) for one in asked):
        return None
    for j in range(1, len(tokens)):
        if not any(one[j] != tokens[j] for one in asked):
            return f"the model was never shown another token at {j}, so you cannot know whether it leaks"
    alone = [
        {j for j, (a, b) in enumerate(zip(one, tokens, strict=True)) if a != b}
        for one in asked
        if one != tokens
    ]
    if alone and min(map(len, alone)) > 1:
        return (
            f"you change {min(map(len, alone))} tokens or more at once; then you cannot tell which of them "
            "the output depends on"
        )
    return None


def of_sets(law: Test) -> Test:
    """Restrict a law to cases where a set of pairs is expected."""
    return lambda trial: law(trial) if isinstance(trial.expected, set) else None


def the_same_pairs(got: Any, expected: Any, case: Case) -> bool:
    """Compare pairs exactly, as the exercise's `same`: a mistake must then explain the core as well."""
    return differs(got, expected, 0) is None


EXERCISE = Exercise(
    name="ch07_causal_masking/find_leaks",
    signature="find_leaks(model, tokens, vocab_size)",
    goal="Find every pair (i, j) with j > i where another token at j moves the output at i.",
    section="Find the leak",
    minutes=20,
    difficulty="medium",
    reference=find_leaks,
    same=the_same_pairs,
    criteria=(
        Criterion("names exactly the pairs that leak", 1.25, plain),
        Criterion("small, single and far-off leaks are found too", 0.75, hidden),
        Criterion("rounding is not counted as a leak", 0.5, none),
        Criterion("works on any device", 0.25, elsewhere(plain), test=on_any_device),
        Criterion("the tokens are left as they were", 0.25, plain, observes="arguments"),
    ),
    properties=tuple(
        Property(says, of_sets(law))
        for says, law in (
            ("pairs of plain numbers", pairs_of_numbers),
            ("leaks come from later tokens", later_tokens_only),
            ("the same call gives the same pairs", repeatable),
            ("each token is changed, by itself", asked_about_every_token),
            ("every leak is found", every_leak),
            ("only leaks are reported", no_other),
        )
    ),
)
