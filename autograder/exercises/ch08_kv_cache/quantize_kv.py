"""ch08_kv_cache/quantize_kv: keys or values in 8 bits, each channel in steps of its own size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.exercise import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST
from tfcore import cache

WIDEST = 127
SCALE_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 2e-2}
NEAR_A_TIE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 1e-2}
"""How near to the middle between two steps either of them is right."""


def quantize_kv(x):
    """The reference."""
    return cache.quantize_kv(x)


def channels(
    rng: np.random.Generator, B: int, h: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Keys whose channels differ a hundredfold in size, each with its largest number of either sign."""
    x = tensor(rng, B, h, T, d, dtype=torch.float64)
    size = torch.from_numpy(10 ** rng.uniform(-1, 1, size=(B, h, 1, d)))
    x = x / x.abs().amax(dim=2, keepdim=True)
    return (x * size).to(dtype)


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one head, 3 tokens of 2 channels", (channels(rng, 4, 1, 3, 2),))
    B, h, T, d = sizes(rng, (2, 3), (2, 5), (6, 9), (10, 14))
    yield Case(f"B = {B}, {h} heads, T = {T}, d = {d}", (channels(rng, B, h, T, d),))
    yield Case("60 tokens", (channels(rng, 2, 1, 60, 5),))
    yield Case("a single token", (channels(rng, 2, 3, 1, 4),))
    yield Case("a tensor that is not contiguous", (strided(channels(rng, 3, 2, 5, 4)),))


def zeros(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("nothing but zeros", (torch.zeros(1, 2, 3, 4),))
    x = channels(rng, 2, 3, 5, 4)
    x[:, :, :, rng.integers(4)] = 0
    yield Case("one channel of zeros", (x,))


def dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (channels(rng, 2, 3, 5, 4, dtype=torch.float64),))
    steps = rng.integers(-126, 127, size=(2, 3, 5, 4))
    steps[:, :, rng.integers(5)] = 127  # with a power of two for the scale, nothing has to be rounded
    x = torch.from_numpy(steps * 2.0 ** rng.integers(-6, 3, size=(2, 3, 1, 4)))
    yield Case("bfloat16", (x.to(torch.bfloat16),))


def awkward(rng: np.random.Generator) -> Tensor:
    """Keys in bfloat16 with a channel in which the largest number by its scale comes out above 127.4."""
    while True:
        x = channels(rng, 2, 3, 5, 4, dtype=torch.bfloat16)
        largest = x.abs().amax(dim=2)
        if (largest / (largest / WIDEST) > WIDEST).any():
            return x


def every(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    yield from zeros(rng)


def hard_to_cast(rng: np.random.Generator) -> Iterator[Case]:
    for case in zeros(rng):
        yield Case(case.says, case.args, probe="casts")
    yield Case("keys in bfloat16", (awkward(rng),), probe="casts")


def same(got: Any, expected: Any, case: Case) -> bool:
    """Alike but for ties: a number half way between two steps may go either way, and zeros have any scale."""
    if case.probe != "call" or not (isinstance(got, tuple | list) and len(got) == len(expected) == 2):
        return False
    x, (q, scale), (right_q, right_scale) = case.args[0], got, expected
    used = x.abs().amax(dim=2, keepdim=True) > 0
    fits = q.shape == right_q.shape == x.shape and scale.shape == right_scale.shape == used.shape
    if not fits or q.dtype != right_q.dtype or scale.dtype != right_scale.dtype:
        return False
    scale, right_scale = scale.double(), right_scale.double()
    off = (scale - right_scale).abs() > SCALE_TOLERANCE[x.dtype] * right_scale.abs()
    if (off & used).any() or not scale.isfinite().all():
        return False
    steps = x.double() / torch.where(used & (right_scale != 0), right_scale, 1)
    from_tie = (steps - steps.floor() - 0.5).abs()
    gap = (q.double() - right_q.double()).abs()
    return bool(((gap == 0) | ((gap == 1) & (from_tie < NEAR_A_TIE[x.dtype]))).all())


def with_a_scale_for_each_channel(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """The call's outcome; a scale of another shape says more than the numbers that come of it."""
    outcome, x = call(case), case.args[0]
    wanted = (*x.shape[:2], 1, x.shape[3])
    if not (isinstance(outcome.value, tuple | list) and len(outcome.value) == 2):
        return outcome
    got = tuple(getattr(outcome.value[1], "shape", wanted))
    if got == wanted:
        return outcome
    said = f"your scale has shape {got}; each channel of each head has one, over all tokens: {wanted}"
    return Outcome(error="Unfit", message=said, arguments=outcome.arguments)


def of_the_form(trial: Trial) -> str | None:
    q, scale = trial.value
    if str(q.dtype) != "torch.int8":
        return f"q is {q.dtype}; whole numbers from -127 to 127 fit torch.int8, a byte each"
    x = trial.case.args[0]
    if scale.dtype != x.dtype:
        return f"the scale is {scale.dtype}, the numbers came as {x.dtype}; keep the dtype"
    return None


def first_channel(trial: Trial, wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def right_scale(trial: Trial) -> str | None:
    """The scale of a channel is its largest absolute value over the tokens, by 127."""
    x, (_, scale) = numbers(trial.case.args[0]).astype(np.float64), trial.value
    largest = np.abs(x).max(axis=2, keepdims=True)
    got = numbers(scale).astype(np.float64)
    if np.isnan(got).any():
        return "a scale is NaN"
    wrong = (np.abs(got - largest / WIDEST) > 1e-2 * largest / WIDEST) & (largest > 0)
    if not wrong.any():
        return None
    b, h, _, c = first_channel(trial, wrong)
    column = np.round(x[b, h, :5, c], 3).tolist()
    more = ", ..." if x.shape[2] > 5 else ""
    return (
        f"channel {c} of head {h} holds {str(column)[1:-1]}{more}: the largest without its sign is "
        f"{largest[b, h, 0, c]:.4g}, so the scale is {largest[b, h, 0, c] / WIDEST:.4g}; yours is "
        f"{got[b, h, 0, c]:.4g}"
    )


def nearest_step(trial: Trial) -> str | None:
    """Each number goes to the nearest step."""
    x, (q, _) = numbers(trial.case.args[0]).astype(np.float64), trial.value
    largest = np.abs(x).max(axis=2, keepdims=True)
    steps = np.where(largest > 0, x / np.where(largest > 0, largest, 1) * WIDEST, 0)
    wrong = np.abs(numbers(q) - steps) > 0.501
    if not wrong.any():
        return None
    place = first_channel(trial, wrong)
    return (
        f"at {list(place)} stands {x[place]:.4g}, which is {steps[place]:.2f} steps; the nearest whole "
        f"number is {round(steps[place])}, yours is {int(numbers(q)[place])}"
    )


def casts_are_defined(trial: Trial) -> str | None:
    if not trial.value:
        return None
    if trial.value.startswith("nan"):
        cure = "A channel of zeros has scale 0: divide by something else there (torch.where)"
    else:
        cure = "Rounded in half precision, 127 steps become 128: clamp to -127 ... 127"
    return f"{trial.value}, which has no room for it, and what comes out is chance. {cure}"


EXERCISE = Exercise(
    name="ch08_kv_cache/quantize_kv",
    signature="quantize_kv(x)",
    goal="Round each channel to whole numbers from -127 to 127, in steps of a size that fits the channel.",
    reference=quantize_kv,
    criteria=(
        Criterion(
            "each number to the nearest step of its channel", 1, soft, measure=with_a_scale_for_each_channel
        ),
        Criterion("a channel of zeros stays zeros", 0.25, zeros),
        Criterion("nothing undefined is cast to int8", 0.25, hard_to_cast, test=casts_are_defined),
        Criterion("int8 for q, the dtype of x for the scale", 0.25, dtypes),
        Criterion("the input is left as it was", 0.25, every, observes="arguments"),
    ),
    properties=(
        Property("q is int8, the scale as x", of_the_form),
        Property("the scale of each channel", right_scale),
        Property("the nearest step", nearest_step),
        *FIRST,
    ),
    forbidden=("torch.*quantize_*",),
    same=same,
)


@EXERCISE.misconception(
    "One scale serves all channels, so the largest of them sets the step and small channels become zeros. "
    "Take the maximum over the tokens alone: amax(dim=2, keepdim=True)."
)
def one_scale_for_all(x):
    scale = x.abs().max() / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You take the maximum over the channels: one scale for each token. Channels are what differs in size in "
    "keys; take it over the tokens, dim=2."
)
def one_scale_for_each_token(x):
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "All channels of a head share a scale: your maximum runs over tokens *and* channels. Take it over the "
    "tokens alone, dim=2."
)
def one_scale_for_each_head(x):
    scale = x.abs().amax(dim=(2, 3), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Heads and sequences share their scales: your maximum runs over more than the tokens. Each head of each "
    "sequence has scales of its own, (B, h, 1, d)."
)
def one_scale_for_all_heads(x):
    scale = x.abs().amax(dim=(0, 1, 2), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "int8 ends at 127. With max / 128 as the step, the largest number becomes 128, which wraps round to "
    "-128: divide by 127."
)
def divided_by_128(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "int8 ends at 127. With max / 128 as the step, the largest number becomes 128, and your clamp makes it "
    "smaller than it was: divide by 127."
)
def divided_by_128_and_clamped(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "`.to(torch.int8)` cuts the fraction off: 3.9 becomes 3, and the error twice as large. Round first, with "
    "torch.round."
)
def truncated(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception("You round down. The nearest step may lie above: torch.round, not torch.floor.")
def rounded_down(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).floor().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You take the largest number, sign included. A channel may reach further below zero: x.abs().amax(...)."
)
def signed_maximum(x):
    scale = x.amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "A channel of zeros has scale 0, and 0/0 is NaN, whose cast to int8 is undefined. Divide by something "
    "else there: torch.where(scale == 0, 1, scale)."
)
def divided_by_zero(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "In half precision x / scale comes out as 127.5 now and then, rounds to 128 and wraps round to -128. "
    "Clamp to -127 ... 127 before the cast, or divide in float32."
)
def wraps_in_half_precision(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    safe = torch.where(scale == 0, 1.0, scale)
    return (x / safe).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Two things that int8 cannot hold are cast to it: NaN, from 0/0 in a channel of zeros, and in half "
    "precision 128, where 127.5 is rounded. Divide by 1 where the scale is 0, and clamp to -127 ... 127."
)
def nothing_guarded(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "You guard against zeros by a small number that is added to the scale, which bends all other channels. "
    "Use torch.where, or clamp(min=1e-12): they change nothing where there is something."
)
def epsilon_added(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127 + 1e-3
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You return the largest number as the scale, not the size of a step: divide it by 127."
)
def maximum_for_scale(x):
    largest = x.abs().amax(dim=2, keepdim=True)
    safe = torch.where(largest == 0, 1.0, largest)
    return (x / safe * 127).round().clamp(-127, 127).to(torch.int8), largest


@EXERCISE.misconception(
    "Your scale is upside down: 127 / max says how many steps a unit has. Asked for is the size of a step, "
    "max / 127."
)
def inverted_scale(x):
    scale = 127 / x.abs().amax(dim=2, keepdim=True).clamp(min=1e-12)
    return (x * scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q holds whole numbers as floats, which take as much memory as before. Cast them: .to(torch.int8)."
)
def never_cast(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127), scale


@EXERCISE.misconception(
    "Without keepdim=True the scale loses the axis of the tokens, and the division fails or pairs the wrong "
    "numbers. The scale is (B, h, 1, d)."
)
def keepdim_forgotten(x):
    scale = x.abs().amax(dim=2) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your scale is always float32. It has the dtype of x, so that what is restored from it has too."
)
def scale_in_float32(x):
    x = x.float()
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You stretch each channel from its smallest to its largest number, which moves the zero and would take a "
    "second number to undo. Asked for are steps alone: max |x| / 127, and 0 stays 0."
)
def from_minimum_to_maximum(x):
    low, high = x.amin(dim=2, keepdim=True), x.amax(dim=2, keepdim=True)
    scale = (high - low) / 254
    scale = torch.where(scale == 0, 1.0, scale)
    return ((x - low) / scale - 127).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "`x /= scale` writes into the caller's keys. Write x / scale, which makes a new tensor."
)
def changed_in_place(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    x /= scale
    return x.round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.style("a step of 1 where the channel is zero")
def where(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    step = torch.where(scale == 0, torch.ones_like(scale), scale)
    return torch.round(x / step).clamp(-127, 127).to(torch.int8), scale


@EXERCISE.style("a smallest step, clamped before and after")
def clamped(x):
    scale = (x.abs().max(dim=-2, keepdim=True).values / 127).clamp(min=torch.finfo(x.dtype).tiny)
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


@EXERCISE.style("NaN put right before the cast")
def nan_to_num(x):
    largest = torch.maximum(x.amax(dim=2, keepdim=True), -x.amin(dim=2, keepdim=True))
    scale = largest / 127
    return torch.nan_to_num(x.float() / scale.float(), nan=0.0).round().clamp(max=127).char(), scale


@EXERCISE.style("half a step added, then cut off")
def half_a_step(x):
    scale = torch.linalg.vector_norm(x, ord=float("inf"), dim=2, keepdim=True) / 127
    steps = x / torch.where(scale > 0, scale, 1)
    return torch.trunc(steps + 0.5 * torch.sign(steps)).clip(-127, 127).to(torch.int8), scale


@EXERCISE.style("channel by channel, in loops")
def channel_by_channel(x):
    B, h, _, d = x.shape
    q = torch.zeros(x.shape, dtype=torch.int8, device=x.device)
    scale = x.new_ones(B, h, 1, d)
    for b in range(B):
        for i in range(h):
            for c in range(d):
                column = x[b, i, :, c]
                if column.any():
                    scale[b, i, 0, c] = column.abs().max() / 127
                    q[b, i, :, c] = (column / column.abs().max() * 127).round()
    return q, scale
