"""ch07_causal_masking/next_token_loss: how surprised the model is by each next token, on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.cage.tensors import is_tensor, strided
from autograder.checking.comparison import differs, tolerance_for
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from tfcore import losses


def text(rng: np.random.Generator, B: int, T: int, V: int, lowest: int = 0) -> Tensor:
    """Draw tokens (B, T), all of them below V."""
    return torch.from_numpy(rng.integers(lowest, V, size=(B, T)))


def drawn(rng: np.random.Generator, B: int, T: int, V: int, dtype: torch.dtype = torch.float32) -> tuple:
    return 1.5 * tensor(rng, B, T, V, dtype=dtype), text(rng, B, T, V)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one sequence of 3 tokens, V = 4", drawn(rng, 1, 3, 4))
    B, T, V = sizes(rng, (2, 4), (5, 7), (8, 12))
    yield Case(f"B = {B}, T = {T}, V = {V}", drawn(rng, B, T, V))
    yield Case("bfloat16", drawn(rng, B, 5, 7, torch.bfloat16))
    logits, tokens = drawn(rng, 3, 4, 6)
    yield Case("tensors that are not contiguous", (strided(logits), strided(tokens)))
    yield Case("60 tokens", drawn(rng, 2, 60, 9))


def ignored(rng: np.random.Generator) -> Iterator[Case]:
    logits, tokens = drawn(rng, 1, 4, 5)
    tokens[0, 2] = -100
    yield Case("one token is -100", (logits, tokens))
    yield Case("one token is predicted", drawn(rng, 1, 2, 5))
    logits, tokens = drawn(rng, 3, 5, 7)
    alone = torch.full_like(tokens, -100)
    alone[1, 3] = tokens[1, 3]
    yield Case("all but one are -100", (logits, alone))
    logits, tokens = drawn(rng, 2, 5, 6)
    tokens[0, 0] = tokens[0, 3] = -100
    yield Case("-100 at the first token, which nobody predicts, and at another", (logits, tokens))
    B, T, V = sizes(rng, (3, 4), (6, 8), (9, 12))
    logits, _ = drawn(rng, B, T, V)
    tokens = text(rng, B, T, V, lowest=1)
    for row, length in enumerate(rng.permutation(np.arange(2, T))[: B - 1]):
        tokens[row, length:] = 0
    yield Case("padded with ignore_index=0, by name", (logits, tokens), {"ignore_index": 0})
    padded = tokens.clone()
    padded[padded == 0] = -100
    yield Case("padded with -100", (logits, padded))
    yield Case("ignore_index=-1, which is not among the tokens", (logits, tokens), {"ignore_index": -1})


def nothing(rng: np.random.Generator) -> Iterator[Case]:
    logits, tokens = drawn(rng, 1, 3, 4)
    yield Case("every token is -100", (logits, torch.full_like(tokens, -100)))
    yield Case("sequences of a single token", drawn(rng, 2, 1, 5))
    logits, _ = drawn(rng, 2, 5, 4, torch.float64)
    tokens = torch.full((2, 5), 3)
    tokens[0, 0] = 1
    yield Case("all but the first are ignore_index=3", (logits, tokens), {"ignore_index": 3})


def large(rng: np.random.Generator) -> Iterator[Case]:
    logits, tokens = drawn(rng, 1, 4, 5, torch.float64)
    yield Case("small logits in float64", (logits, tokens))
    yield Case("logits around 10,000", (logits + 1e4, tokens))
    yield Case("logits around -10,000", (logits - 1e4, tokens))
    apart = 1e4 * torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None]
    yield Case("10,000 at one place, -10,000 at the next", (logits + apart, tokens))
    logits, tokens = drawn(rng, 2, 4, 6)
    levels = torch.from_numpy(rng.permuted(np.tile(np.linspace(-1e4, 1e4, 6), (2, 4, 1)), axis=-1))
    yield Case("float32, spread over 20,000", (logits + levels.float(), tokens))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from ignored(rng)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    yield from nothing(rng)


def what_comes_back(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Call once, and return the gradient of the logits."""
    outcome = call(case)
    if outcome.error or outcome.forbidden:
        return outcome
    return Outcome(next(iter(outcome.value.values())))


def zeros_come_back(trial: Trial) -> str | None:
    """Check that there is a gradient, which a result of `NONE` is not, and that it is 0."""
    if not is_tensor(trial.value):
        return (
            "the 0 that you return was not computed from the logits: `.backward()` fails, or gives them no "
            "gradient. Return a 0 through which gradients flow, such as `logits.sum() * 0`"
        )
    if wrong := trial.value[trial.value != 0].tolist():
        return (
            f"where there is nothing to predict, the gradient of the logits is 0; yours has {wrong[0]:.4g}. "
            "Do not divide by the number of predicted tokens where it is 0"
        )
    return None


def precise_enough(got: Any, expected: Any, case: Case) -> bool:
    """Accept a loss in float32, or in a wider type than the logits."""
    if not is_tensor(got) or not got.is_floating_point():
        return False
    if got.element_size() < min(4, expected.element_size()):
        return False
    narrower = min(got.dtype, expected.dtype, key=lambda dtype: dtype.itemsize)
    tolerance = tolerance_for((case.args[0].to(narrower),))
    return differs(got.double(), expected.double(), tolerance) is None


def tokens_in_the_vocabulary(case: Case) -> bool:
    """Return whether there is a token to predict, and each token has a logit or is ignored."""
    logits, tokens = case.args
    ignored_or_below = (tokens == case.kwargs.get("ignore_index", -100)) | (tokens < logits.shape[-1])
    return tokens.shape[1] > 1 and bool(ignored_or_below.all())


MOST_PLACES = 12
"""The most places at which a law tests whether the logits count."""


def _called(trial: Trial, logits: Tensor, tokens: Tensor) -> float:
    return float(trial.call(Case("another call", (logits, tokens), trial.case.kwargs)).value)


def nobody_knows(trial: Trial) -> str | None:
    logits, tokens = trial.case.args
    V = logits.shape[-1]
    if not float(trial.expected):
        return None
    got = _called(trial, torch.zeros_like(logits), tokens)
    if abs(got - math.log(V)) < 0.02:
        return None
    return (
        f"with all {V} logits equal your loss is {got:.4g}; each token then has the probability 1/{V}, and "
        f"the loss is ln {V} = {math.log(V):.4g}"
    )


def what_is_read_does_not_count(trial: Trial) -> str | None:
    """Check that the first token and the logits of the last position are part of no prediction."""
    logits, tokens = trial.case.args
    moved, first = logits.clone(), tokens.clone()
    moved[:, -1] += torch.linspace(0, 3, logits.shape[-1]).to(logits)
    first[:, 0] = (first[:, 0].clamp(min=0) + 1) % logits.shape[-1]
    before = float(trial.value)
    if abs(_called(trial, moved, tokens) - before) > 1e-3 * max(1, abs(before)):
        return (
            "your loss changes with the logits at the last position; they predict a token beyond the text, "
            "which nobody can check"
        )
    if abs(_called(trial, logits, first) - before) > 1e-3 * max(1, abs(before)):
        return "your loss changes with the first token of a sequence; nothing comes before it to predict it"
    return None


def certain_and_right(trial: Trial) -> str | None:
    """Check that logits which give the next token all the probability make the loss 0."""
    logits, tokens = trial.case.args
    if logits.shape[1] < 2 or not float(trial.expected):
        return None
    after = tokens.roll(-1, dims=1).clamp(min=0)
    sure = 60 * F.one_hot(after, logits.shape[-1]).to(logits.dtype)
    got = _called(trial, sure, tokens)
    if abs(got) < 1e-2:
        return None
    return f"logits that put 60 on each *next* token, and 0 on the others, give a loss of {got:.4g}, not of 0"


def shift_invariant(trial: Trial) -> str | None:
    logits, tokens = trial.case.args
    change = abs(_called(trial, logits + 1, tokens) - float(trial.value))
    if change < 0.02 * max(1.0, abs(float(trial.value))):
        return None
    return f"adding 1 to every logit changes your loss by {change:.2g}; probabilities do not change"


def every_prediction_counts(trial: Trial) -> str | None:
    """Check that the logits before each counted token, and no others, move the loss."""
    logits, tokens = trial.case.args
    counts = tokens[:, 1:] != trial.case.kwargs.get("ignore_index", -100)
    before = float(trial.value)
    for b, t in (~counts).nonzero().tolist()[:MOST_PLACES]:
        moved = logits.clone()
        moved[b, t] *= -1
        if abs(_called(trial, moved, tokens) - before) > 1e-3 * max(1.0, abs(before)):
            place = f"place {t} of sequence {b}"
            return (
                f"your loss changes with the logits at {place}, though the token at {t + 1} is to be ignored"
            )
    for b, t in counts.nonzero().tolist()[:MOST_PLACES]:
        place = f"the logits at place {t} of sequence {b}"
        moved = logits.clone()
        moved[b, t, tokens[b, t + 1]] -= 5
        if _called(trial, moved, tokens) == before:
            return f"your loss does not change with {place}; they predict the token at {t + 1}, which counts"
        moved = logits.clone()
        moved[b, t] += 3
        if abs(_called(trial, moved, tokens) - before) > 0.05 * max(1.0, abs(before)):
            return f"adding 3 to all {place} changes your loss; each place is normalised by itself"
    return None


def every_sequence_counts(trial: Trial) -> str | None:
    logits, tokens = trial.case.args
    before, turned = float(trial.value), _called(trial, logits.flip(0), tokens.flip(0))
    if abs(turned - before) < 0.02 * max(1.0, abs(before)):
        return None
    return (
        f"with the sequences of the batch in reverse order your loss is {turned:.4g} instead of {before:.4g}"
    )


def divided_by_the_right_number(trial: Trial) -> str | None:
    tokens = trial.case.args[1]
    count = int((tokens[:, 1:] != trial.case.kwargs.get("ignore_index", -100)).sum())
    divisor = float(trial.expected) * count / float(trial.value)
    if not divisor > 0.5 or round(divisor) == count or abs(divisor - round(divisor)) > 1e-3:
        return None
    made = f"divided by {round(divisor)}" if divisor > 1.5 else "not divided by anything"
    return f"your loss is the right sum, {made}; tokens that are predicted and not ignored: {count}"


EXERCISE = Exercise(
    name="ch07_causal_masking/next_token_loss",
    signature="next_token_loss(logits, tokens, ignore_index=-100)",
    goal="Average -ln p(next token) over every token that is predicted from those before it.",
    section="The mean over what?",
    minutes=20,
    difficulty="medium",
    reference=losses.next_token_loss,
    same=precise_enough,
    domain=tokens_in_the_vocabulary,
    criteria=(
        Criterion("the mean loss of each token given those before", 1.25, ordinary),
        Criterion("ignored tokens count neither in the sum nor in N", 0.5, ignored),
        Criterion("0 where there is nothing to predict", 0.25, nothing),
        Criterion(
            "gradients flow even if nothing is predicted",
            0.25,
            differentiated(nothing),
            measure=what_comes_back,
            test=zeros_come_back,
        ),
        Criterion("exact for logits as large as 10,000", 0.5, large),
        Criterion("gradients reach the logits, and none is NaN", 0.75, differentiated(everything)),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("logits and tokens are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the last logits and the first token do not count", what_is_read_does_not_count),
        Property("every sequence counts", every_sequence_counts),
        Property("every prediction counts", every_prediction_counts),
        Property("a sure and right model has no loss", certain_and_right),
        Property("the loss is a mean over predicted tokens", divided_by_the_right_number),
        Property("ln V when all logits are equal", nobody_knows),
        Property("a constant added to all logits changes nothing", shift_invariant),
        *LAST,
    ),
)
