"""ch07_causal_masking/generate: choose a token, append it, read it, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
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
"""By which factor a token leads in a draw that no rounding decides."""


def generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    """The reference, without the arguments that the notebook does not ask for."""
    return generation.generate(model, prompt, max_new_tokens, temperature, generator, context_len)


@dataclass(frozen=True)
class HashedModel:
    """Maps tokens (B, T) to logits (B, T, V), each row of them picked by all tokens up to there.

    Whatever is left out, added or moved among the tokens that it reads picks another row.

    Attributes:
        table: the rows, (ROWS, V).
        steps: by how many rows a token moves on, at each position, (most,).
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
    """A model of V tokens that reads at most so many."""
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
    """A generator whose draws come out alike, whether the softmax is taken in bfloat16 or in float64."""
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
    """A generator is passed too: at temperature 0 nobody asks it."""
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
    """Texts that grow longer than what the model can read."""
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
    """The model could read more than it is to."""
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
    """Calls that are made three times; see `same_and_other`."""
    V = int(rng.integers(12, 16))
    yield Case(
        "the same generator twice, then another", (lent(rng, V), prompts(rng, 4, 3, V), 7, 1.2, seed(rng))
    )


def the_same_again(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls twice with the same generator; texts that differ are drawn from another source."""
    first, again = call(case), call(case)
    if first.error or first.forbidden or differs(again.value, first.value, 0) is None:
        return first
    return Outcome(error="Unfit", message=ANOTHER_EACH_TIME)


ANOTHER_EACH_TIME = (
    "two calls with the same generator give other tokens; pass it on: torch.multinomial(p, 1, "
    "generator=generator)"
)


def same_and_other(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls twice with the same generator and once with another.

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
    return "another generator gives the very same tokens; draw with the one that is passed" if other else None


def without_generator(rng: np.random.Generator) -> Iterator[Case]:
    """Calls that are made twice; two right texts are the same once in 12^80 times."""
    model = HashedModel(torch.zeros(ROWS, 12), torch.ones(64, dtype=torch.long))
    guessing = Lent("a model to which all 12 tokens are alike", lambda: model)
    yield Case("no generator, twice", (guessing, prompts(rng, 4, 3, 12), 20), {"temperature": 1.0})


def another_text(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls twice, and says whether the texts differ."""
    first, second = call(case), call(case)
    if failed := next((o for o in (first, second) if o.error or o.forbidden), None):
        return failed
    return Outcome(differs(second.value, first.value, 0) is not None)


def draws_anew(trial: Trial) -> str | None:
    if trial.value:
        return None
    return (
        "two calls without a generator give the very same text; the draws are then torch's own, which go on "
        "from call to call: torch.multinomial(p, 1, generator=None)"
    )


def _options(trial: Trial) -> tuple[HashedModel, Tensor, int, float, Seed | None, int | None]:
    """The arguments in full, and the model itself."""
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
    """What the model was asked to read, against the text so far."""
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
    """Sequence and place of the first wrong token in time."""
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
"""What may be made of a temperature, in words and as a function."""


def drawn_at_the_right_temperature(trial: Trial) -> str | None:
    """Whether the draws are those of another temperature, here and at 1.7."""
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
        f"with this generator, one multinomial a step over softmax(logits / {temperature:g}) of the last "
        f"position, (B, V), draws token {int(trial.expected[b, t])} at place {t} of sequence {b}; yours is "
        f"{int(trial.value[b, t])}"
    )


def the_same_tokens(got: Any, expected: Any, case: Case) -> bool:
    """Tokens are the same or not. (A mistake that explains a failure must then explain the core as well.)"""
    return differs(got, expected, 0) is None


EXERCISE = Exercise(
    name="ch07_causal_masking/generate",
    signature="generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None)",
    goal="Go on with a text: choose the next token, append it, read the longer text, and again.",
    section="Drawing a token",
    reference=generate,
    same=the_same_tokens,
    criteria=(
        Criterion("at temperature 0, the likeliest token each time", 1, greedy),
        Criterion("above 0, a draw from softmax(logits / temperature)", 0.5, sampled, measure=the_same_again),
        Criterion(
            "every draw comes from the generator that is passed",
            0.25,
            drawn_from,
            measure=same_and_other,
            test=follows_the_generator,
        ),
        Criterion(
            "without one, another text each time",
            0.25,
            without_generator,
            measure=another_text,
            test=draws_anew,
        ),
        Criterion("the model reads the last context_len tokens at most", 0.5, long),
        Criterion("works on any device", 0.25, elsewhere(everything), test=on_any_device),
        Criterion("the prompt is left as it was", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("the result begins with the prompt", begins_with_the_prompt),
        Property("the model reads the text so far", model_was_shown_the_text),
        Property("the likeliest token at temperature 0", likeliest_at_0),
        Property("draws at the right temperature", drawn_at_the_right_temperature),
        Property("one multinomial a step", drawn_by_multinomial),
    ),
)


@EXERCISE.misconception(
    "At temperature 0 a token is drawn, as if the temperature were 1. As the temperature falls to 0 the "
    "likeliest token takes all: there, take the argmax."
)
def samples_at_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        p = torch.softmax(model(read)[:, -1] / (temperature or 1.0), dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
    return tokens


@EXERCISE.misconception(
    "At temperature 0 the logits are divided by 0, and softmax of inf and NaN is NaN. Take the argmax there, "
    "without dividing."
)
def divides_by_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        p = torch.softmax(model(read)[:, -1] / temperature, dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The likeliest token is taken at every temperature. Above 0, draw the next token: torch.multinomial(p, "
    "1, generator=generator)."
)
def always_greedy(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        chosen = model(read)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The logits of the *first* place are read, which are about the second token. Read those of the last "
    "place, about what comes after the text: logits[:, -1].",
    gravity="useless",
)
def first_position(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, 0]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Every step reads the prompt alone, so the model does not know what was chosen. Append the new token and "
    "read the longer text.",
    gravity="useless",
)
def reads_the_prompt_alone(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(prompt if context_len is None else prompt[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads its last token alone, so it has forgotten the text. Without a cache, let it read the "
    "whole text again at each step.",
    gravity="useless",
)
def reads_the_last_token_alone(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -1:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Two calls with the same generator give other tokens, so nobody can repeat a text. Pass the generator "
    "on: torch.multinomial(p, 1, generator=generator)."
)
def global_randomness(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            chosen = torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Every call draws the same, whatever generator it is given, as with a seed of its own. Draw with the "
    "generator that is passed, as it comes."
)
def generator_of_its_own(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens, generator = prompt, torch.Generator().manual_seed(0)
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Where no generator is passed, every text is the same, as with a seed of its own. Pass None on: "
    "torch.multinomial(p, 1, generator=None) draws from torch's own source."
)
def seeded_where_none_is_passed(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens, generator = prompt, generator or torch.Generator().manual_seed(0)
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The logits are multiplied by the temperature, so that a hot model gets sure of itself. Divide them by "
    "it: below 1 the likely tokens become likelier."
)
def temperature_multiplied(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits * temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The temperature has no effect, as when *probabilities* are divided by it: no proportion changes, and "
    "multinomial normalises. Divide the logits, before the softmax."
)
def temperature_after_softmax(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits, dim=-1) / temperature
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "multinomial gets logits, which can be negative and are no probabilities. Take the softmax first."
)
def draws_from_logits(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            chosen = torch.multinomial(logits / temperature, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The softmax runs over the batch. The probabilities of all tokens of *one* sequence sum to 1: dim=-1."
)
def softmax_over_the_batch(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=0)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads more than `context_len` tokens. One with learned positions has no row for a longer "
    "text: let it read the last ones alone, tokens[:, -context_len:]."
)
def context_not_cut(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads the *first* context_len tokens, so it never reads what it has just written. Let it read "
    "the last: tokens[:, -context_len:]."
)
def first_tokens_kept(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, :context_len])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The text itself is cut, and its beginning is missing from the result. Cut only what the model reads, "
    "and append to the whole."
)
def text_cut(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        tokens = tokens if context_len is None else tokens[:, -context_len:]
        logits = model(tokens)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "You return the new tokens alone. Return the whole text, the prompt in front: (B, T + n).",
    gravity="slip",
)
def new_tokens_alone(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens[:, prompt.shape[1] :]


@EXERCISE.misconception(
    "You stop when the whole text, with the prompt, has max_new_tokens tokens. Append max_new_tokens tokens: "
    "repeat the step so many times.",
    gravity="slip",
)
def length_of_the_whole(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    while tokens.shape[1] < max_new_tokens:
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The first sequence's token is appended to all. Let each sequence of the batch go on by itself: argmax "
    "and multinomial over (B, V)."
)
def first_sequence_for_all(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[0, -1]
        if temperature == 0:
            chosen = logits.argmax().reshape(1)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen.expand(len(tokens), 1)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The caller's prompt is overwritten: tokens[:, -context_len:] is a view of it, and must not be written "
    "into. Cut again from the whole text at each step."
)
def window_moved_in_place(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    window = prompt if context_len is None else prompt[:, -context_len:]
    for _ in range(max_new_tokens):
        logits = model(window)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
        if window.shape[1] != context_len:
            window = torch.cat([window, chosen], dim=1)
        else:
            window[:, :-1] = window[:, 1:].clone()
            window[:, -1:] = chosen
    return tokens


@EXERCISE.misconception(
    "A choice of the shape (B,) cannot be joined to (B, T). argmax drops the axis it runs over: keep it, "
    "argmax(dim=-1, keepdim=True).",
    gravity="slip",
)
def keepdim_forgotten(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.style("choose, append, read again")
def plain(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.style("as in nanoGPT, with the model in evaluation mode and without gradients")
def as_in_nanogpt(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    model.eval()
    idx = prompt.to(next(model.parameters()).device)
    with torch.no_grad():
        for _ in range(max_new_tokens):
            short = context_len is None or idx.size(1) <= context_len
            idx_cond = idx if short else idx[:, -context_len:]
            logits = model(idx_cond)[:, -1, :]
            if temperature > 0:
                probs = F.softmax(logits / temperature, dim=-1)
                idx_next = torch.multinomial(probs, num_samples=1, generator=generator)
            else:
                _, idx_next = torch.topk(logits, k=1, dim=-1)
            idx = torch.cat((idx, idx_next), dim=1)
    return idx


@EXERCISE.style("into a tensor that has room for all, from unnormalised weights in float64")
def room_for_all(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    B, T = prompt.shape
    tokens = torch.zeros(B, T + max_new_tokens, dtype=prompt.dtype, device=prompt.device)
    tokens[:, :T] = prompt
    for t in range(T, T + max_new_tokens):
        start = 0 if context_len is None else max(0, t - context_len)
        logits = model(tokens[:, start:t])[:, -1].double()
        if temperature == 0.0:
            tokens[:, t] = torch.max(logits, dim=-1).indices
        else:
            z = logits / temperature
            weights = torch.exp(z - z.max(dim=-1, keepdim=True).values)
            tokens[:, t] = torch.multinomial(weights, 1, generator=generator).squeeze(1)
    return tokens


@EXERCISE.style("a hair above 0 for 0, and exp of log_softmax")
def a_hair_above_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt.clone()
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -(context_len or tokens.shape[1]) :])[:, -1]
        p = torch.log_softmax(logits / max(temperature, 1e-6), dim=-1).exp()
        tokens = torch.hstack([tokens, torch.multinomial(p, 1, generator=generator)])
    return tokens


@EXERCISE.style("new tokens in a list, joined at the end")
def in_a_list(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    columns = list(prompt.unbind(dim=1))
    for _ in range(max_new_tokens):
        seen = columns if context_len is None else columns[-context_len:]
        logits = model(torch.stack(seen, dim=1))[:, -1, :]
        if not temperature:
            columns.append(logits.argsort(dim=-1, descending=True)[:, 0])
        else:
            p = (logits / temperature).softmax(dim=-1)
            columns.append(torch.multinomial(p, 1, generator=generator)[:, 0])
    return torch.stack(columns, dim=1)
