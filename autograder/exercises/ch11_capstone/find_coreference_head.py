"""ch11_capstone/find_coreference_head: which head tells a model what "it" means.

The models are tables with planted costs of silencing each head, and with misleading signs, such as a head
that attends to the noun and does nothing with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device, repeatable

Array = np.ndarray
STATES = 97
LIKELY = -0.5
"""The referent's log-probability while no head is silenced, unless a case sets another."""


@dataclass(frozen=True)
class Text:
    """A sentence up to the word that names the referent, and its planted numbers.

    Attributes:
        tokens: the ids, without the answer.
        place: index of the referent among them.
        whole: the referent's log-probability with all heads.
        costs: the loss of log-probability without each head, (L, H).
        lifts: the rise of every logit without a head, (L, H); no probability changes.
        looks: the weight of each head from the last place to the referent, (L, H).
        others: the logits of the other tokens, (V,).
    """

    tokens: tuple[int, ...]
    place: int
    whole: float
    costs: Tensor
    lifts: Tensor
    looks: Tensor
    others: Tensor

    @property
    def referent(self) -> int:
        return self.tokens[self.place]

    @cached_property
    def rest(self) -> Tensor:
        """Return the logarithm of the sum of the other tokens' exponentials."""
        return self.others.index_fill(0, torch.tensor(self.referent), -torch.inf).logsumexp(0)

    def logits(self, silenced: list[tuple[int, int]]) -> Tensor:
        """Return the logits for the next token, (V,)."""
        said = self.whole - sum(float(self.costs[head]) for head in silenced)
        said = min(said, -1e-3)
        logits = self.others.clone()
        logits[self.referent] = self.rest + said - float(np.log(-np.expm1(said)))
        return logits + sum(float(self.lifts[head]) for head in silenced)


class Model:
    """A language model that knows some texts; its logits for other texts are noise.

    Args:
        texts: the texts that it knows.
        noise: (STATES, V), its logits in all other places.
    """

    serves = ("__call__", "attention", "num_heads", "num_layers")

    def __init__(self, texts: list[Text], noise: Tensor) -> None:
        self.texts = {text.tokens: text for text in texts}
        self.noise = noise
        self.num_layers, self.num_heads = texts[0].costs.shape

    def __call__(self, tokens: Tensor, silenced: Any = ()) -> Tensor:
        self._check(tokens)
        heads = self._pairs(silenced)
        shift = sum(11 * (1 + layer * self.num_heads + head) for layer, head in heads)
        places = torch.arange(tokens.shape[1])
        logits = self.noise[(31 * tokens.cumsum(dim=1) + 7 * places + shift) % STATES]
        for row, text in enumerate(tokens.tolist()):
            for place in range(len(text)):
                if known := self.texts.get(tuple(text[: place + 1])):
                    logits[row, place] = known.logits(heads)
        return logits

    def attention(self, tokens: Tensor) -> Tensor:
        self._check(tokens)
        B, T = tokens.shape
        weights = torch.ones(T, T).tril().repeat(self.num_layers, B, self.num_heads, 1, 1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        for row, text in enumerate(tokens.tolist()):
            for place in range(T):
                if known := self.texts.get(tuple(text[: place + 1])):
                    weights[:, row, :, place, : place + 1] = (1 - known.looks[..., None]) / place
                    weights[:, row, :, place, known.place] = known.looks
        return weights

    def _check(self, tokens: Tensor) -> None:
        if not isinstance(tokens, Tensor) or tokens.ndim != 2 or not tokens.numel():
            form = f"shape {tuple(tokens.shape)}" if isinstance(tokens, Tensor) else type(tokens).__name__
            raise ValueError(f"the model reads token ids of shape (B, T), not {form}")
        if tokens.is_floating_point() or tokens.min() < 0 or tokens.max() >= self.noise.shape[1]:
            raise ValueError(f"the model reads token ids from 0 to {self.noise.shape[1] - 1}")

    def _pairs(self, silenced: Any) -> list[tuple[int, int]]:
        try:
            pairs = {(int(layer), int(head)) for layer, head in silenced}
        except (TypeError, ValueError):
            raise ValueError("`silenced` is a list of pairs, such as [(0, 2)]") from None
        for layer, head in pairs:
            if not (0 <= layer < self.num_layers and 0 <= head < self.num_heads):
                there = f"{self.num_layers} layers of {self.num_heads} heads"
                raise IndexError(f"there is no head {head} in layer {layer}: the model has {there}")
        return sorted(pairs)


def find_coreference_head(model, sentences):
    """Compute the reference answer: the mean fall of the referent's log-probability without each head."""

    def log_probability(*silenced: tuple[int, int]) -> float:
        found = [
            model(tokens[None], silenced)[0, -1].double().log_softmax(dim=-1)[referent]
            for tokens, referent in sentences
        ]
        return float(sum(found)) / len(found)

    whole = log_probability()
    costs = {
        (layer, head): whole - log_probability((layer, head))
        for layer in range(model.num_layers)
        for head in range(model.num_heads)
    }
    return max(costs, key=lambda pair: costs[pair])


@dataclass
class Plan:
    """A draft of a case: sentences whose heads have little effect, until a cost is planted."""

    rng: np.random.Generator
    layers: int
    heads: int
    lengths: list[int]

    def __post_init__(self) -> None:
        rng, shape = self.rng, (len(self.lengths), self.layers, self.heads)
        self.costs, self.lifts = rng.uniform(-0.1, 0.15, shape), rng.uniform(-0.05, 0.05, shape)
        self.looks = rng.uniform(0.05, 0.3, shape)
        self.whole = np.full(len(self.lengths), LIKELY)
        self.best, self.decoy = self._two_heads()

    def _two_heads(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the head to find, and one in another layer if there is one; each has layer != head."""
        every = [(i, j) for i in range(self.layers) for j in range(self.heads) if i != j or self.heads == 1]
        best = every[self.rng.integers(len(every))]
        others = [pair for pair in every if pair[0] != best[0]] or [pair for pair in every if pair != best]
        return best, others[self.rng.integers(len(others))] if others else (0, 0)

    def case(self, says: str) -> Case:
        rng = self.rng
        vocab_size = int(rng.integers(max(self.lengths) + 5, max(self.lengths) + 9))
        texts = []
        for i, length in enumerate(self.lengths):
            tokens = tuple(int(t) for t in rng.permutation(vocab_size)[:length])
            costs, lifts, looks = (torch.from_numpy(x[i]) for x in (self.costs, self.lifts, self.looks))
            place, others = int(rng.integers(length - 1)), torch.from_numpy(rng.normal(size=vocab_size))
            texts.append(Text(tokens, place, float(self.whole[i]), costs, lifts, looks, others))
        noise = torch.from_numpy(rng.normal(size=(STATES, vocab_size)))
        sentences = [(torch.tensor(text.tokens), text.referent) for text in texts]
        lent = Lent(f"a model of {self.layers} layers, {self.heads} heads", lambda: Model(texts, noise))
        return Case(says, (lent, sentences))


def plan(rng: np.random.Generator, num_sentences: int, at_once: bool = True) -> Plan:
    """Draw a plan of several sentences and heads; all sentences of one length, or each of its own."""
    layers, heads, length = sizes(rng, (2, 4), (3, 5), (6, 8))
    lengths = [length] * num_sentences if at_once else [length + i for i in rng.permutation(num_sentences)]
    return Plan(rng, layers, heads, lengths)


def plain(rng: np.random.Generator) -> Iterator[Case]:
    smallest = Plan(rng, 1, 2, [4])
    smallest.costs[:] = [[[-0.1, 0.2]]]  # the referent stays the likeliest: counting wrong answers finds none
    yield smallest.case("one layer, 2 heads, one sentence")
    for says, num_sentences, at_once in (
        ("one sentence", 1, True),
        ("3 sentences of one length", 3, True),
        ("4 sentences of different lengths", 4, False),
    ):
        drawn = plan(rng, num_sentences, at_once)
        drawn.costs[:, *drawn.best] = rng.uniform(0.8, 1.2, size=num_sentences)
        yield drawn.case(f"{drawn.layers} layers, {drawn.heads} heads, {says}")


def together(rng: np.random.Generator) -> Iterator[Case]:
    for says, loud in (
        ("in the first sentence another head costs more", 0),
        ("in the last sentence another head costs more", -1),
        ("in one sentence another head costs far more than any does elsewhere", 2),
    ):
        drawn = plan(rng, 5)
        drawn.costs[:, *drawn.best] = rng.uniform(0.9, 1.1, size=5)
        drawn.costs[loud, *drawn.best] = 0.2
        drawn.costs[loud, *drawn.decoy] = 2.6
        yield drawn.case(says)


def measured(rng: np.random.Generator) -> Iterator[Case]:
    drawn = plan(rng, 3)
    drawn.costs[:, *drawn.best] = 0.8
    drawn.lifts[:, *drawn.decoy] = -4.0
    yield drawn.case("another head lowers all logits alike")

    drawn = plan(rng, 2)
    drawn.whole[:] = [-0.02, -3.0]
    drawn.costs[:, *drawn.best] = [0.05, 1.9]
    drawn.costs[:, *drawn.decoy] = [0.8, 0.3]
    yield drawn.case("a likely referent and an unlikely one")

    drawn = plan(rng, 3)
    drawn.whole[:] = [-0.3, -0.3, -5.0]
    drawn.costs[:, *drawn.best] = [0.1, 0.1, 4.0]
    drawn.costs[:, *drawn.decoy] = [1.2, 1.2, 0.0]
    yield drawn.case("another head changes more answers")


def misleading(rng: np.random.Generator) -> Iterator[Case]:
    drawn = plan(rng, 2)
    drawn.costs[:, *drawn.best] = 0.7
    drawn.looks[:, *drawn.decoy] = 0.95
    yield drawn.case("another head looks at the referent")

    for says, whole, helps in (
        ("without another head the referent is a little likelier", -1.0, 0.4),
        ("without another head the referent is much likelier", -2.5, 1.6),
    ):
        drawn = plan(rng, 3)
        drawn.whole[:] = whole
        drawn.costs[:, *drawn.best] = 0.8
        drawn.costs[:, *drawn.decoy] = -helps
        yield drawn.case(says)

    drawn = plan(rng, 3)
    drawn.whole[:] = -1.5
    drawn.costs[:] = rng.uniform(-0.9, -0.5, drawn.costs.shape)
    drawn.costs[:, *drawn.best] = -0.1
    yield drawn.case("every head makes the referent less likely, one of them least")


def mean_costs(trial: Trial) -> Array:
    """Return the mean cost of silencing each head, (L, H)."""
    lent, sentences = trial.case.args
    texts = lent.make().texts
    return np.mean([texts[tuple(tokens.tolist())].costs.numpy() for tokens, _ in sentences], axis=0)


def is_a_head(trial: Trial) -> str | None:
    layers, heads = mean_costs(trial).shape
    layer, head = map(int, trial.value)
    if 0 <= layer < layers and 0 <= head < heads:
        return None
    return f"layer {layer} has no head {head}; there are {layers} layers of {heads} heads: give (layer, head)"


def asks_without_a_head(trial: Trial) -> str | None:
    """Check that the model is run with each of its heads silenced."""
    silenced = [args[1] for name, args in trial.outcome.asked if name == "__call__"]
    layers, heads = mean_costs(trial).shape
    if not any(silenced):
        return "you never run the model with a head silenced: model(tokens, silenced=[(layer, head)])"
    tried = {(int(layer), int(head)) for pairs in silenced for layer, head in pairs}
    missing = [(i, j) for i in range(layers) for j in range(heads) if (i, j) not in tried]
    if missing:
        return f"you never silence head {missing[0][1]} of layer {missing[0][0]}"
    return None


def costs_most(trial: Trial) -> str | None:
    costs, found, right = mean_costs(trial), *(tuple(map(int, x)) for x in (trial.value, trial.expected))
    if found == right:
        return None
    (layer, head), (other_layer, other_head) = found, right
    return (
        f"without head {head} of layer {layer}, which you found, the referent's log-probability falls by "
        f"{costs[found]:.2f} on average; without head {other_head} of layer {other_layer} it falls by "
        f"{costs[right]:.2f}"
    )


EXERCISE = Exercise(
    name="ch11_capstone/find_coreference_head",
    drawn_as="ch10_capstone/find_coreference_head",
    signature="find_coreference_head(model, sentences)",
    goal="Find the head whose silence costs the referent most log-probability: (layer, head).",
    section="Look, cut, patch",
    minutes=30,
    difficulty="medium",
    reference=find_coreference_head,
    criteria=(
        Criterion("the head whose silence costs most", 2, plain),
        Criterion("the mean over all sentences decides", 1, together),
        Criterion("the cost is the fall in the referent's log-probability", 1, measured),
        Criterion("a head that only looks at the noun, or hurts, is not chosen", 0.5, misleading),
        Criterion("works on any device", 0.25, elsewhere(plain), test=on_any_device),
        Criterion("the sentences are left as they were", 0.25, plain, observes="arguments"),
    ),
    properties=(
        Property("the head exists", is_a_head),
        Property("each head is silenced", asks_without_a_head),
        Property("the same call gives the same result", repeatable),
        Property("no other head costs more", costs_most),
    ),
)
