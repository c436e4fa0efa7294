"""ch08_kv_cache/generate_cached: a text goes on, and every token of it is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Outcome, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device, repeatable
from tfcore.generate import generate

STATES = 97
MOST_TOKENS = 10_000


class Cache:
    """The memory of the model: the tokens of each sequence that it has read."""

    serves = ("length", "max_len")

    def __init__(self, batch: int, max_len: int) -> None:
        self.batch, self.max_len = batch, max_len
        self.tokens = torch.zeros(batch, 0, dtype=torch.long)

    @property
    def length(self) -> int:
        return self.tokens.shape[1]


class Model:
    """A language model whose logits depend on all tokens before and on their places.

    Args:
        table: (STATES, V), the logits in each state after a text.
    """

    serves = ("__call__", "new_cache")

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def new_cache(self, batch: int, max_len: int) -> Cache:
        return Cache(int(batch), int(max_len))

    def __call__(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        if not isinstance(tokens, Tensor) or tokens.ndim != 2 or not tokens.shape[1]:
            raise ValueError("the model reads token ids of shape (B, T), T of 1 or more")
        if tokens.numel() > MOST_TOKENS:
            raise ValueError(f"the model reads at most {MOST_TOKENS} tokens at once")
        seen = tokens[:, :0] if cache is None else cache.tokens
        if len(seen) != len(tokens):
            raise ValueError(f"the cache is made for a batch of {len(seen)}; {len(tokens)} sequences came")
        text = torch.cat([seen, tokens], dim=1)
        if cache is not None:
            if text.shape[1] > cache.max_len:
                raise ValueError(
                    f"the cache has room for {cache.max_len} tokens; {seen.shape[1]} are in it and "
                    f"{tokens.shape[1]} more came"
                )
            cache.tokens = text
        return self.table[states(text)[:, seen.shape[1] :]]


def states(text: Tensor) -> Tensor:
    """Return the state after each token (B, T): another token, order or place before it changes the state."""
    state = torch.zeros_like(text[:, 0])
    after = []
    for place, token in enumerate(text.unbind(1)):
        state = (31 * state + 7 * token + place + 1) % STATES
        after.append(state)
    return torch.stack(after, dim=1)


def generate_cached(model, prompt, max_new_tokens):
    """Compute the reference answer: `tfcore`'s loop, which uses a cache where the model has one."""
    return generate(model, prompt, max_new_tokens)


def story(rng: np.random.Generator, says: str, B: int, T: int, n: int, V: int) -> Case:
    """Make a case with a model of its own, whose logits are far apart, and a prompt (B, T)."""
    table = torch.from_numpy(rng.permuted(np.tile(np.linspace(-3, 3, V), (STATES, 1)), axis=1)).float()
    prompt = torch.from_numpy(rng.integers(V, size=(B, T)))
    return Case(says, (Lent(f"a model of {V} tokens", lambda: Model(table)), prompt, n))


def texts(rng: np.random.Generator) -> Iterator[Case]:
    yield story(rng, "a prompt of 2 tokens, 2 more", B=1, T=2, n=2, V=5)
    yield story(rng, "a single new token", B=1, T=3, n=1, V=7)
    yield story(rng, "prompts of a single token, 4 more", B=2, T=1, n=4, V=6)
    T, n, V = sizes(rng, (3, 6), (7, 10), (11, 15))
    yield story(rng, f"a prompt of {T} tokens, {n} more", 1, T, n, V)
    B, T, n, V = sizes(rng, (2, 3), (4, 6), (7, 9), (10, 14))
    yield story(rng, f"{B} prompts of {T} tokens, {n} more each", B, T, n, V)
    case = story(rng, "a prompt that is not contiguous", 2, 3, 4, 7)
    model, prompt, _ = case.args
    yield replace(case, args=(model, strided(prompt), 4))


def counted(rng: np.random.Generator) -> Iterator[Case]:
    yield story(rng, "a prompt of 4 tokens, 3 more", B=1, T=4, n=3, V=6)
    B, T, n, V = sizes(rng, (2, 3), (5, 8), (9, 12), (13, 16))
    yield story(rng, f"{B} prompts of {T} tokens, {n} more each", B, T, n, V)


def calls(outcome: Outcome) -> list[int]:
    """Count the tokens of each sequence that the model was given, call by call."""
    return [
        args[0].shape[1]
        for name, args in outcome.asked
        if name == "__call__" and isinstance(args[0], Tensor) and args[0].ndim == 2
    ]


def rooms(outcome: Outcome) -> list[int]:
    """Return the number of tokens that each cache was made for."""
    return [args[1] for name, args in outcome.asked if name == "new_cache"]


def reading(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return, instead of the text, the number of tokens read in each call."""
    outcome = call(case)
    return replace(outcome, value=calls(outcome))


def remembering(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return, instead of the text, the number of caches, and whether a single one fits the text."""
    outcome = call(case)
    _, prompt, n = case.args
    length, found = prompt.shape[1] + n, rooms(outcome)
    if len(found) != 1:
        return replace(outcome, value="several" if found else "none")
    fits = "too small" if found[0] < length - 1 else "too large" if found[0] > length else "fits"
    return replace(outcome, value=fits)


def sizes_of(trial: Trial) -> tuple[int, int, int]:
    _, prompt, n = trial.case.args
    return (*prompt.shape, n)


def reads_each_token_once(trial: Trial) -> str | None:
    _, T, n = sizes_of(trial)
    read = calls(trial.outcome)
    if sum(read) <= T + n:
        return None
    return (
        f"the model was given {sum(read)} tokens of a sequence, in calls of {_listed(read)}. The prompt has "
        f"{T}, and the last of the {n} new ones is not read: {T + n - 1} are enough"
    )


def reads_the_prompt_at_once(trial: Trial) -> str | None:
    _, T, n = sizes_of(trial)
    read = calls(trial.outcome)
    if len(read) <= n + 1:
        return None
    return (
        f"the model was called {len(read)} times, with {_listed(read)} tokens. One call for the {T} tokens "
        f"of the prompt and one for each new token but the last make {n}"
    )


def asks_for_fitting_room(trial: Trial) -> str | None:
    _, T, n = sizes_of(trial)
    found = rooms(trial.outcome)
    if trial.value == "none":
        return "you never call model.new_cache(batch, max_len): nothing is remembered"
    if trial.value == "several":
        return f"you make {len(found)} caches; one, made before the loop, remembers the whole text"
    if trial.value == "fits":
        return None
    return f"you ask for room for {found[0]} tokens; the prompt has {T} and {n} will come, so ask for {T + n}"


def _listed(read: list[int]) -> str:
    shown = [str(n) for n in read]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:5], "...", shown[-1]])


def keeps_the_prompt(trial: Trial) -> str | None:
    _, T, _ = sizes_of(trial)
    if torch.equal(trial.value[:, :T], trial.case.args[1]):
        return None
    return f"the first {T} tokens of your result are not the prompt"


def first_wrong_token(trial: Trial) -> str | None:
    """Find the first token where the texts differ, and the tokens that the model had been given by then."""
    _, T, _ = sizes_of(trial)
    wrong = numbers(trial.value) != numbers(trial.expected)
    if wrong.shape != trial.expected.shape or not wrong.any():
        return None
    place = int(np.flatnonzero(wrong.any(axis=0))[0])
    row = int(np.flatnonzero(wrong[:, place])[0])
    which = place - T + 1
    fed = calls(trial.outcome)[:which]
    read = "the whole prompt" if which == 1 else "all tokens before it, once each,"
    return (
        f"new token {which} of sequence {row} is {int(trial.value[row, place])}, where a model that has read "
        f"{read} predicts {int(trial.expected[row, place])}; yours comes after calls with these numbers of "
        f"tokens: {_listed(fed)}"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/generate_cached",
    signature="generate_cached(model, prompt, max_new_tokens)",
    goal="Continue a text greedily, so that the model reads no token twice.",
    section="Nothing old changes",
    minutes=20,
    difficulty="medium",
    reference=generate_cached,
    criteria=(
        Criterion("each token is the model's prediction after all earlier ones", 1.5, texts),
        Criterion("no token is read twice", 1, counted, measure=reading, test=reads_each_token_once),
        Criterion(
            "the prompt is read in one call", 0.5, counted, measure=reading, test=reads_the_prompt_at_once
        ),
        Criterion(
            "one cache, with room for the text", 0.5, counted, measure=remembering, test=asks_for_fitting_room
        ),
        Criterion("works on any device", 0.25, elsewhere(texts), test=on_any_device),
        Criterion("the prompt is left as it was", 0.25, texts, observes="arguments"),
    ),
    properties=(
        Property("the same call gives the same text", repeatable),
        Property("the prompt comes first", keeps_the_prompt),
        Property("each token follows from all before it", first_wrong_token),
    ),
)
