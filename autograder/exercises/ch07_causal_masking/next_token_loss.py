"""ch07_causal_masking/next_token_loss: how surprised the model is by each next token, on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.cage.tensors import is_tensor, strided
from autograder.checking.comparison import differs, tolerance_for
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from tfcore import losses


def text(rng: np.random.Generator, B: int, T: int, V: int, lowest: int = 0) -> Tensor:
    """Tokens (B, T), all of them below V."""
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
    yield Case("the first token is -100, which nobody predicts, and another", (logits, tokens))
    B, T, V = sizes(rng, (3, 4), (6, 8), (9, 12))
    logits, _ = drawn(rng, B, T, V)
    tokens = text(rng, B, T, V, lowest=1)
    for row, length in enumerate(rng.permutation(np.arange(2, T))[: B - 1]):
        tokens[row, length:] = 0
    yield Case("padded with ignore_index=0, by name", (logits, tokens), {"ignore_index": 0})
    padded = tokens.clone()
    padded[padded == 0] = -100
    yield Case("padded with -100", (logits, padded))
    yield Case("ignore_index=-1, of which there is none", (logits, tokens), {"ignore_index": -1})


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
    yield Case("soft logits in float64", (logits, tokens))
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


def whether_any_comes_back(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Calls once, and says of the gradient at the logits whether there is one: zeros are, none is not."""
    outcome = call(case)
    if outcome.error or outcome.forbidden:
        return outcome
    return Outcome(all(is_tensor(gradient) for gradient in outcome.value.values()))


def zeros_come_back(trial: Trial) -> str | None:
    if trial.value:
        return None
    return (
        "the 0 that you return was not made of the logits: `.backward()` fails on it, or brings them no "
        "gradient. Return a 0 through which gradients flow, such as `logits.sum() * 0`"
    )


def precise_enough(got: Any, expected: Any, case: Case) -> bool:
    """A loss may come in float32, whatever the type of the logits, or in a wider type than theirs."""
    if not is_tensor(got) or not got.is_floating_point():
        return False
    if got.element_size() < min(4, expected.element_size()):
        return False
    narrower = min(got.dtype, expected.dtype, key=lambda dtype: dtype.itemsize)
    tolerance = tolerance_for((case.args[0].to(narrower),))
    return differs(got.double(), expected.double(), tolerance) is None


def tokens_in_the_vocabulary(case: Case) -> bool:
    """Whether there is something to predict, and each token has a logit or is to be ignored."""
    logits, tokens = case.args
    ignored_or_below = (tokens == case.kwargs.get("ignore_index", -100)) | (tokens < logits.shape[-1])
    return tokens.shape[1] > 1 and bool(ignored_or_below.all())


MOST_PLACES = 12
"""At so many places it is tried whether the logits count."""


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
    """Neither the first token nor the last position's logits are part of any prediction."""
    logits, tokens = trial.case.args
    moved, first = logits.clone(), tokens.clone()
    moved[:, -1] += torch.linspace(0, 3, logits.shape[-1]).to(logits)
    first[:, 0] = (first[:, 0].clamp(min=0) + 1) % logits.shape[-1]
    before = float(trial.value)
    if abs(_called(trial, moved, tokens) - before) > 1e-3 * max(1, abs(before)):
        return (
            "your loss changes with the logits at the last position; they are about a token beyond the text, "
            "which nobody can check"
        )
    if abs(_called(trial, logits, first) - before) > 1e-3 * max(1, abs(before)):
        return "your loss changes with the first token of a sequence; nothing comes before it to predict it"
    return None


def certain_and_right(trial: Trial) -> str | None:
    """Logits that put everything on the next token make the loss 0."""
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
    """The logits before each token that counts, and no others, move the loss, as far as they differ."""
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
    reference=losses.next_token_loss,
    same=precise_enough,
    domain=tokens_in_the_vocabulary,
    criteria=(
        Criterion("the mean loss of each token given those before", 1.25, ordinary),
        Criterion("ignored tokens count neither above nor below the line", 0.5, ignored),
        Criterion("0 where there is nothing to predict", 0.25, nothing),
        Criterion(
            "gradients flow through that 0 as well",
            0.25,
            differentiated(nothing),
            measure=whether_any_comes_back,
            test=zeros_come_back,
        ),
        Criterion("as exact as the logits, be they as large as 10,000", 0.5, large),
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
        Property("the loss is a mean over what is predicted", divided_by_the_right_number),
        Property("ln V when all logits are equal", nobody_knows),
        Property("a constant added to all logits changes nothing", shift_invariant),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "The logits at t are compared with the token at t, which the model has just read. Compare them with the "
    "token at t + 1: drop the last logits and the first token.",
    gravity="useless",
)
def no_shift(logits, tokens, ignore_index=-100):
    total = F.cross_entropy(
        logits.flatten(0, 1), tokens.flatten(), ignore_index=ignore_index, reduction="sum"
    )
    return total / (tokens != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The logits at t + 1 are compared with the token at t, which comes before them. Pair logits[:, :-1] with "
    "tokens[:, 1:].",
    gravity="useless",
)
def shifted_backwards(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, 1:].flatten(0, 1), tokens[:, :-1].flatten()
    total = F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The last place of each sequence has to predict its *first* token, as after a `roll`. Cut instead of "
    "rolling: logits[:, :-1] and tokens[:, 1:]."
)
def rolled(logits, tokens, ignore_index=-100):
    targets = tokens.roll(-1, dims=1).flatten()
    total = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The sum is divided by the number of all targets, the ignored ones too, so padding makes the loss look "
    "small. Divide by how many targets are *not* ignored."
)
def mean_over_ignored_too(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets, ignore_index=ignore_index, reduction="sum")
    return total / max(1, targets.numel())


@EXERCISE.misconception(
    "Where every target is ignored, 0 is divided by 0, and one such batch turns all weights into NaN. Divide "
    "by at least 1: count.clamp(min=1)."
)
def zero_by_zero(logits, tokens, ignore_index=-100):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=ignore_index)


@EXERCISE.misconception(
    "-100 is ignored, whatever `ignore_index` is. Ignore the number that was passed: other texts are padded "
    "with other numbers."
)
def always_minus_100(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets, reduction="sum")
    return total / (targets != -100).sum().clamp(min=1)


@EXERCISE.misconception(
    "Ignored targets are looked up or counted like any other. Put a valid token in their place for the "
    "look-up and leave them out of the mean, or let F.cross_entropy do both."
)
def nothing_ignored(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    if targets.numel() == 0:
        return logits.sum() * 0
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    return -log_p.gather(-1, targets[..., None]).mean()


@EXERCISE.misconception(
    "Places are left out where the token that is *read* is ignored. Leave out those where the token that is "
    "*predicted* is: compare tokens[:, 1:] with ignore_index."
)
def ignored_where_read(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = (tokens[:, :-1] != ignore_index) & (targets >= 0)
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "Each sequence is averaged by itself, so a token of a short sequence weighs more than one of a long "
    "sequence. Add up over the whole batch, and divide once."
)
def mean_of_means(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0] * keep
    return (losses.sum(dim=1) / keep.sum(dim=1).clamp(min=1)).mean()


@EXERCISE.misconception(
    "You return the sum, which grows with the length of the text. Divide by the number of targets that are "
    "not ignored.",
    gravity="slip",
)
def sum_for_mean(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum")


@EXERCISE.misconception(
    "The sum is divided by the batch size alone, so that the loss grows with the length of the text. Divide "
    "by the number of targets that are not ignored.",
    gravity="slip",
)
def mean_over_the_batch(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum") / len(tokens)


@EXERCISE.misconception(
    "The loss is negative, as ln p is, and minimising it would make the right token ever less likely. Return "
    "-ln p."
)
def wrong_sign(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    picked = log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return (picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "The loss is the mean of the logits themselves. A logit is no log-probability before its row is "
    "normalised: take log_softmax over the vocabulary first."
)
def logits_for_log_probabilities(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    picked = logits[:, :-1].gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return -(picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "The logits are normalised over the places. The probabilities of all *tokens* at one place sum to 1: "
    "take log_softmax over the last axis."
)
def softmax_over_time(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=1)
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "Softmax is taken twice, once before the loss and once in it. F.cross_entropy makes log-probabilities of "
    "logits itself: leave the softmax before it out."
)
def softmax_twice(logits, tokens, ignore_index=-100):
    p, targets = F.softmax(logits[:, :-1], dim=-1).flatten(0, 1), tokens[:, 1:].flatten()
    total = F.cross_entropy(p, targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "A probability of e^-1000 has become 0 before its logarithm is taken, which is then -inf. Use "
    "log_softmax, which gets there directly."
)
def log_of_softmax(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.softmax(logits[:, :-1], dim=-1).log()
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "No loss gets above 21: a small number inside the logarithm hides how wrong a sure model is. Use "
    "log_softmax, which needs no such number."
)
def epsilon_in_the_logarithm(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = (F.softmax(logits[:, :-1], dim=-1) + 1e-9).log()
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "exp overflows for logits above 88 in float32. Use torch.logsumexp or log_softmax, which subtract the "
    "largest logit first."
)
def log_sum_exp_overflows(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1], tokens[:, 1:]
    keep = targets != ignore_index
    picked = ahead.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    losses = ahead.exp().sum(dim=-1).log() - picked
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "One largest logit is subtracted at all places. At a place far below it every exponential is 0, and its "
    "logarithm is minus infinity: subtract each place's own maximum, dim=-1 with keepdim=True."
)
def one_maximum_for_all(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1] - logits[:, :-1].max(), tokens[:, 1:]
    keep = targets != ignore_index
    picked = ahead.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    losses = ahead.exp().sum(dim=-1).log() - picked
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "The loss is cut off from the logits, as by `.item()`, `.detach()` or no_grad, so no gradient flows and "
    "nothing is learned. Return the tensor that was computed from them."
)
def cut_off_from_the_logits(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    total = F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum").item()
    return torch.tensor(total / max(1, int((targets != ignore_index).sum())), dtype=logits.dtype)


@EXERCISE.misconception(
    "Where nothing is predicted, the 0 is not made of the logits, and a training step fails there. Divide "
    "the sum, which is 0, by at least 1, or return logits.sum() * 0."
)
def fresh_zero(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    if not (targets != ignore_index).any():
        return torch.zeros((), dtype=logits.dtype, device=logits.device)
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index)


@EXERCISE.misconception(
    "The caller's tokens are overwritten, since tokens[:, 1:] is a view of them. Use masked_fill or clone, "
    "which make a new tensor."
)
def tokens_overwritten(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    targets[~keep] = 0
    losses = -F.log_softmax(logits[:, :-1], dim=-1).gather(-1, targets[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "F.cross_entropy takes axis 1 for the classes, and here it is the time. Make one long list of "
    "predictions: logits (N, V), tokens (N,), both by .flatten(0, 1).",
    gravity="slip",
)
def not_flattened(logits, tokens, ignore_index=-100):
    return F.cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index=ignore_index)


@EXERCISE.style("the sum by F.cross_entropy, over the count")
def sum_over_count(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    total = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), targets, ignore_index=ignore_index, reduction="sum"
    )
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.style("as GPT-2's loss is usually written, in float32, with a way out when nothing counts")
def as_for_gpt2(logits, tokens, ignore_index=-100):
    shift_logits = (
        logits[..., :-1, :].contiguous().float() if logits.dtype != torch.float64 else logits[:, :-1]
    )
    shift_labels = tokens[..., 1:].contiguous()
    if not (shift_labels != ignore_index).any():
        return logits.sum() * 0
    loss_fct = nn.CrossEntropyLoss(ignore_index=ignore_index)
    return loss_fct(shift_logits.reshape(-1, shift_logits.size(-1)), shift_labels.view(-1))


@EXERCISE.style("log_softmax and gather, with a mask")
def gathered(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = logits[:, :-1].log_softmax(dim=-1)
    picked = log_p.gather(-1, targets.masked_fill(~keep, 0).unsqueeze(-1)).squeeze(-1)
    return -(picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.style("log-sum-exp less the logit of the target, at the places that count")
def places_that_count(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    if not keep.any():
        return logits[:, :0].sum()
    rows, targets = logits[:, :-1][keep], targets[keep]
    return (torch.logsumexp(rows, dim=-1) - rows.gather(1, targets[:, None])[:, 0]).mean()


@EXERCISE.style("one-hot targets, einsum")
def one_hot(logits, tokens, ignore_index=-100):
    V = logits.shape[-1]
    targets = tokens[:, 1:]
    keep = (targets != ignore_index).to(logits.dtype)
    hot = F.one_hot(targets.masked_fill(targets == ignore_index, 0), V).to(logits.dtype)
    log_p = logits[:, :-1] - logits[:, :-1].logsumexp(dim=-1, keepdim=True)
    return -torch.einsum("btv,btv,bt->", log_p, hot, keep) / keep.sum().clamp(min=1)


@EXERCISE.style("token by token, in loops")
def token_by_token(logits, tokens, ignore_index=-100):
    total, count = logits.sum() * 0, 0
    B, T, _ = logits.shape
    for b in range(B):
        for t in range(T - 1):
            target = int(tokens[b, t + 1])
            if target != ignore_index:
                total = total - torch.log_softmax(logits[b, t], dim=0)[target]
                count += 1
    return total / max(count, 1)
