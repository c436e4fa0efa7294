"""ch07_causal_masking/generate: choose a token, append it, read it, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Outcome, Property, Seed, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device
from tfcore import generate as generation

ROWS = 101
"""Rows of a model's table; a prime, so that any other token seen means another row."""
CLEAR = 1.15
"""The factor by which a token leads in a draw that no rounding decides."""


def generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    """Compute the reference answer, without the arguments that the notebook leaves out."""
    return generation.generate(model, prompt, max_new_tokens, temperature, generator, context_len)


@dataclass(frozen=True)
class HashedModel:
    """Map tokens (B, T) to logits (B, T, V); all tokens up to a place pick the row of that place.

    A token that is left out, added or moved picks another row.

    Attributes:
        table: the rows, (ROWS, V).
        steps: the number of rows that a token moves on, at each position, (most,).
    """

    table: Tensor
    steps: Tensor

    serves = ("__call__",)

    def __call__(self, tokens: Tensor) -> Tensor:
        most, vocab_size = len(self.steps), self.table.shape[1]
        if tokens.is_floating_point():
            raise TypeError(f"tokens are whole numbers; got {tokens.dtype}")
        if tokens.ndim != 2:
            raise ValueError(f"expected tokens of shape (B, T), got shape {tuple(tokens.shape)}")
        if tokens.shape[1] > most:
            raise IndexError(f"the model has positions for {most} tokens, and was given {tokens.shape[1]}")
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
            raise IndexError(f"the vocabulary has the tokens 0 to {vocab_size - 1}, and none beyond")
        rows = ((tokens + 1) * self.steps[: tokens.shape[1]]).cumsum(dim=1) % ROWS
        return self.table[rows]


def lent(rng: np.random.Generator, V: int, most: int = 64, dtype: torch.dtype = torch.float32) -> Lent:
    """Make a model of V tokens that reads at most `most` tokens."""
    logits = 1.5 * rng.normal(size=(ROWS, V))
    if dtype is torch.bfloat16:  # which would make some of the largest logits equal
        logits[np.arange(ROWS), logits.argmax(axis=1)] += 0.5
    table = torch.from_numpy(logits).to(dtype)
    model = HashedModel(table, torch.from_numpy(rng.integers(1, ROWS, size=most)))
    return Lent(f"a model of {V} tokens", lambda: model)


def prompts(rng: np.random.Generator, B: int, T: int, V: int) -> Tensor:
    return torch.from_numpy(rng.integers(V, size=(B, T)))


def seed(rng: np.random.Generator) -> Seed:
    return Seed(int(rng.integers(1, 2**31)), "torch")


def clear_seed(rng: np.random.Generator, model: Lent, prompt: Tensor, count: int, temperature: float) -> Seed:
    """Find a generator that draws the same tokens from a softmax in bfloat16 and in float64."""
    while True:
        found = seed(rng)
        generator, tokens, clear = torch.Generator().manual_seed(found.value), prompt, True
        for _ in range(count):
            p = (model.make()(tokens)[:, -1].double() / temperature).softmax(dim=-1)
            shares = p / torch.empty_like(p).exponential_(1, generator=generator)  # the largest is drawn
            best = shares.topk(2, dim=-1)
            clear &= bool((best.values[:, 0] > CLEAR * best.values[:, 1]).all())
            tokens = torch.cat([tokens, best.indices[:, :1]], dim=1)
        if clear:
            return found


def greedy(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases at temperature 0, also with a generator, which is not used."""
    yield Case("a prompt of 2 tokens, 3 new ones", (lent(rng, 7), prompts(rng, 1, 2, 7), 3, 0.0, seed(rng)))
    B, T, n, V = sizes(rng, (2, 3), (4, 5), (6, 7), (11, 14))
    some = (lent(rng, V), prompts(rng, B, T, V))
    yield Case(f"B = {B}, a prompt of {T} tokens, {n} new ones", (*some, n), {"generator": seed(rng)})
    yield Case("one new token", (*some, 1, 0.0, seed(rng)))
    yield Case("a prompt of 1 token", (lent(rng, V), prompts(rng, B, 1, V), n, 0.0, seed(rng)))
    narrow = lent(rng, V, dtype=torch.bfloat16)
    yield Case("logits in bfloat16", (narrow, prompts(rng, B, T, V), n, 0.0, seed(rng)))
    yield Case("a prompt that is not contiguous", (lent(rng, V), strided(some[1]), n, 0.0, seed(rng)))


def sampled(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("temperature 0.7", (lent(rng, 6), prompts(rng, 1, 3, 6), 7, 0.7, seed(rng)))
    B, T, n, V = sizes(rng, (2, 4), (5, 6), (7, 8), (11, 14))
    some = (lent(rng, V), prompts(rng, B, T, V), n)
    yield Case(f"B = {B}, temperature 1.6", some, {"temperature": 1.6, "generator": seed(rng)})
    yield Case(f"B = {B}, temperature 1", some, {"temperature": 1.0, "generator": seed(rng)})
    wide = (lent(rng, V, dtype=torch.float64), prompts(rng, B, 1, V), n, 0.4, seed(rng))
    yield Case("logits in float64, temperature 0.4", wide)
    yield Case("temperature 0.001", (lent(rng, V), prompts(rng, B, T, V), n, 0.001, seed(rng)))
    narrow = (lent(rng, V, dtype=torch.bfloat16), prompts(rng, 2, 3, V), 4, 0.8)
    yield Case("logits in bfloat16, temperature 0.8", (*narrow, clear_seed(rng, *narrow)))
    read = {"temperature": 0.9, "generator": seed(rng), "context_len": 3}
    yield Case("temperature 0.9, context_len=3", (lent(rng, V, most=3), prompts(rng, B, T, V), n), read)


def long(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with texts that grow longer than the model can read."""
    yield Case(
        "context_len=3, a prompt of 2 tokens",
        (lent(rng, 7, most=3), prompts(rng, 1, 2, 7), 4, 0.0, seed(rng)),
        {"context_len": 3},
    )
    B, context, T, n, V = sizes(rng, (2, 3), (4, 5), (6, 7), (8, 9), (11, 14))
    case = (lent(rng, V, most=context), prompts(rng, B, T, V), n, 0.0, seed(rng))
    yield Case(f"context_len={context}, a prompt of {T} tokens", case, {"context_len": context})
    yield from roomy(rng)


def roomy(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with a model that could read more than `context_len` tokens."""
    B, context, T, n, V = sizes(rng, (2, 3), (4, 5), (6, 7), (8, 9), (11, 14))
    case = (lent(rng, V), prompts(rng, B, T, V), n, 0.0, seed(rng))
    yield Case(f"context_len={context} for a model that could read more", case, {"context_len": context})
    yield Case(f"context_len={T + n + 10}, which is never reached", case, {"context_len": T + n + 10})
    yield Case("no context_len", case)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from greedy(rng)
    yield from roomy(rng)
    yield from sampled(rng)


def drawn_from(rng: np.random.Generator) -> Iterator[Case]:
    """Yield calls that are made three times; see `same_and_other`."""
    V = int(rng.integers(12, 16))
    yield Case(
        "the same generator twice, then another", (lent(rng, V), prompts(rng, 4, 3, V), 7, 1.2, seed(rng))
    )


def the_same_again(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Call twice with the same generator; texts that differ are drawn from another source."""
    first, again = call(case), call(case)
    if first.error or first.forbidden or differs(again.value, first.value, 0) is None:
        return first
    return Outcome(error="Unfit", message=ANOTHER_EACH_TIME)


ANOTHER_EACH_TIME = (
    "two calls with the same generator give different tokens; pass it on: torch.multinomial(p, 1, "
    "generator=generator)"
)


def same_and_other(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Call twice with the same generator and once with another.

    Returns:
        Whether the first two gave the same tokens, and whether the third did.
    """
    model, prompt, count, temperature, generator = case.args
    other = replace(case, args=(model, prompt, count, temperature, Seed(generator.value + 1, "torch")))
    outcomes = [call(case), call(case), call(other)]
    if failed := next((o for o in outcomes if o.error or o.forbidden), None):
        return failed
    first, again, third = (o.value for o in outcomes)
    return Outcome((differs(again, first, 0) is None, differs(third, first, 0) is None))


def follows_the_generator(trial: Trial) -> str | None:
    again, other = trial.value
    if not again:
        return ANOTHER_EACH_TIME
    return "another generator gives the very same tokens; draw with the generator passed" if other else None


def without_generator(rng: np.random.Generator) -> Iterator[Case]:
    """Yield calls that are made twice; two right texts are the same once in 12^80 times."""
    model = HashedModel(torch.zeros(ROWS, 12), torch.ones(64, dtype=torch.long))
    guessing = Lent("a model to which all 12 tokens are alike", lambda: model)
    yield Case("no generator, twice", (guessing, prompts(rng, 4, 3, 12), 20), {"temperature": 1.0})


def another_text(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Call twice, and return whether the texts differ."""
    first, second = call(case), call(case)
    if failed := next((o for o in (first, second) if o.error or o.forbidden), None):
        return failed
    return Outcome(differs(second.value, first.value, 0) is not None)


def draws_anew(trial: Trial) -> str | None:
    if trial.value:
        return None
    return (
        "two calls without a generator give the same text; draw from torch's own generator, which goes on "
        "from call to call: torch.multinomial(p, 1, generator=None)"
    )


def _options(trial: Trial) -> tuple[HashedModel, Tensor, int, float, Seed | None, int | None]:
    """Return the arguments in full, and the model itself."""
    names = ("model", "prompt", "max_new_tokens", "temperature", "generator", "context_len")
    given: dict[str, Any] = dict(zip(names, trial.case.args, strict=False)) | trial.case.kwargs
    model, prompt, count = (given[name] for name in names[:3])
    temperature, generator, context_len = (given.get(name) for name in names[3:])
    return model.make(), prompt, count, temperature or 0.0, generator, context_len


def begins_with_the_prompt(trial: Trial) -> str | None:
    _, prompt, *_ = _options(trial)
    start = trial.value[:, : prompt.shape[1]]
    if torch.equal(start.long(), prompt):
        return None
    return (
        f"the result begins with {start[0].tolist()}; it should begin with the prompt, {prompt[0].tolist()}, "
        "and go on with the new tokens"
    )


def model_was_shown_the_text(trial: Trial) -> str | None:
    """Compare the tokens that the model was called with and the text so far."""
    _, prompt, count, _, _, context_len = _options(trial)
    if len(trial.outcome.asked) != count:
        return None
    for step, (_, args) in enumerate(trial.outcome.asked):
        shown = args[0]
        text = trial.value[:, : prompt.shape[1] + step]
        wanted = text if context_len is None else text[:, -context_len:]
        if shown.ndim == 2 and shown.tolist() != wanted.tolist():
            which = "the text so far" if context_len is None else f"the last {context_len} tokens of the text"
            return (
                f"for new token {step} the model was shown {shown[0].tolist()}; it should read "
                f"{wanted[0].tolist()}, {which}"
            )
    return None


def _first_wrong(trial: Trial) -> tuple[int, int] | None:
    """Return sequence and place of the first wrong token in time."""
    wrong = (trial.value != trial.expected).T.nonzero()
    return (int(wrong[0, 1]), int(wrong[0, 0])) if len(wrong) else None


def likeliest_at_0(trial: Trial) -> str | None:
    model, _, _, temperature, _, context_len = _options(trial)
    place = _first_wrong(trial)
    if temperature or place is None:
        return None
    b, t = place
    read = trial.expected[:, :t] if context_len is None else trial.expected[:, :t][:, -context_len:]
    logits = model(read)[b, -1]
    got, best = int(trial.value[b, t]), int(logits.argmax())
    logit = f", whose logit is {logits[got]:.3g}" if 0 <= got < len(logits) else ""
    return (
        f"sequence {b} goes on with {got}{logit}; at temperature 0 the largest logit of the last position "
        f"wins, token {best} with {logits[best]:.3g}"
    )


TEMPERATURES: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("1: the temperature has no effect", lambda t: 1.0),
    ("1/temperature: divide the logits by it, do not multiply", lambda t: 1 / t),
    ("0: the likeliest token each time", lambda t: 0.0),
    ("temperature squared: it is applied twice", lambda t: t * t),
)
"""Mistakes with a temperature, each in words and as a function."""


def drawn_at_the_right_temperature(trial: Trial) -> str | None:
    """Find draws at another temperature, here and at 1.7."""
    model, prompt, count, temperature, generator, context_len = _options(trial)
    if not temperature or generator is None or _first_wrong(trial) is None:
        return None
    warm = trial.call(Case("warm", (trial.case.args[0], prompt, 12, 1.7, generator, context_len))).value
    for says, other in TEMPERATURES:
        one, two = (torch.Generator().manual_seed(generator.value) for _ in range(2))
        here = generate(model, prompt, count, other(temperature), one, context_len)
        if torch.equal(here, trial.value) and torch.equal(
            generate(model, prompt, 12, other(1.7), two, context_len), warm
        ):
            return f"these are the tokens for a temperature of {says}"
    return None


def drawn_by_multinomial(trial: Trial) -> str | None:
    _, _, _, temperature, generator, _ = _options(trial)
    place = _first_wrong(trial)
    if not temperature or generator is None or place is None:
        return None
    b, t = place
    return (
        f"with this generator, one multinomial per step over softmax(logits / {temperature:g}) of the last "
        f"position, (B, V), draws token {int(trial.expected[b, t])} at place {t} of sequence {b}; yours is "
        f"{int(trial.value[b, t])}"
    )


def the_same_tokens(got: Any, expected: Any, case: Case) -> bool:
    """Compare tokens exactly, as the exercise's `same`: a mistake must then explain the core as well."""
    return differs(got, expected, 0) is None


EXERCISE = Exercise(
    name="ch07_causal_masking/generate",
    signature="generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None)",
    goal="Continue a text: choose the next token, append it, read the longer text, and repeat.",
    section="Drawing a token",
    minutes=20,
    difficulty="medium",
    reference=generate,
    same=the_same_tokens,
    criteria=(
        Criterion("at temperature 0, the likeliest token each time", 1, greedy),
        Criterion(
            "above temperature 0, a draw from softmax(logits / temperature)",
            0.5,
            sampled,
            measure=the_same_again,
        ),
        Criterion(
            "every draw comes from the generator that is passed",
            0.25,
            drawn_from,
            measure=same_and_other,
            test=follows_the_generator,
        ),
        Criterion(
            "without a generator, another text each time",
            0.25,
            without_generator,
            measure=another_text,
            test=draws_anew,
        ),
        Criterion("the model reads at most the last context_len tokens", 0.5, long),
        Criterion("works on any device", 0.25, elsewhere(everything), test=on_any_device),
        Criterion("the prompt is left as it was", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("the result begins with the prompt", begins_with_the_prompt),
        Property("the model reads the text so far", model_was_shown_the_text),
        Property("the likeliest token at temperature 0", likeliest_at_0),
        Property("draws at the right temperature", drawn_at_the_right_temperature),
        Property("one multinomial per step", drawn_by_multinomial),
    ),
)
