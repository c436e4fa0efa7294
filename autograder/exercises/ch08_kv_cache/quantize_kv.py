"""ch08_kv_cache/quantize_kv: keys or values in 8 bits, each channel in steps of its own size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, elsewhere, on_any_device
from tfcore import cache

WIDEST = 127
SCALE_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
NEAR_A_TIE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 1e-2}
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
    x = channels(rng, 2, 3, 6, 5)
    x[:, :, rng.integers(6)] = 0
    yield Case("a token of zeros among others", (x,))
    yield Case("a single token", (channels(rng, 2, 3, 1, 4),))
    yield Case("a tensor that is not contiguous", (strided(channels(rng, 3, 2, 5, 4)),))


def zeros(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("nothing but zeros", (torch.zeros(1, 2, 3, 4),))
    x = channels(rng, 2, 3, 5, 4)
    x[:, :, :, rng.integers(4)] = 0
    yield Case("one channel of zeros", (x,))
    half = whole_steps(rng, torch.float16)
    half[:, :, :, rng.integers(4)] = 0
    yield Case("one channel of zeros in float16", (half,))


def whole_steps(rng: np.random.Generator, dtype: torch.dtype) -> Tensor:
    """Keys of which nothing has to be rounded: whole numbers up to 127, times a power of two."""
    steps = rng.integers(-126, 127, size=(2, 3, 5, 4))
    steps[:, :, rng.integers(5)] = 127
    return torch.from_numpy(steps * 2.0 ** rng.integers(-6, 3, size=(2, 3, 1, 4))).to(dtype)


def dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (channels(rng, 2, 3, 5, 4, dtype=torch.float64),))
    yield Case("bfloat16", (whole_steps(rng, torch.bfloat16),))
    yield Case("float16", (whole_steps(rng, torch.float16),))


def awkward(rng: np.random.Generator) -> Tensor:
    """Keys in bfloat16 whose largest number, which is positive, comes out above 127 steps by its scale."""
    while True:
        x = channels(rng, 2, 3, 5, 4, dtype=torch.bfloat16)
        x = torch.where(x.abs() == x.abs().amax(dim=2, keepdim=True), x.abs(), x)
        largest = x.amax(dim=2)
        if (largest / (largest / WIDEST) > WIDEST).any():
            return x


def minute(rng: np.random.Generator) -> Tensor:
    """Keys in float16 so small that a scale has few digits: by it the lowest comes out as -128."""
    while True:
        x = (5e-4 * channels(rng, 2, 3, 5, 4)).half()
        scale = (x.abs().amax(dim=2, keepdim=True) / WIDEST).double()
        x = torch.where(x.double() / scale > WIDEST + 0.5, -x, x)
        if -WIDEST - 1.4 < (x.double() / scale).min() < -WIDEST - 0.6:
            return x


def every(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    yield from zeros(rng)


def hard_to_cast(rng: np.random.Generator) -> Iterator[Case]:
    for case in zeros(rng):
        yield Case(case.says, case.args, probe="casts")
    yield Case("keys in bfloat16", (awkward(rng),), probe="casts")
    yield Case("keys in bfloat16, the largest below 0", (-awkward(rng),))
    yield Case("very small keys in float16, the largest below 0", (minute(rng),))
    yield Case("very small keys in float16", (-minute(rng),), probe="casts")


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
    if case.probe != "call":
        return outcome
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
    tolerance = SCALE_TOLERANCE[trial.case.args[0].dtype]
    wrong = (np.abs(got - largest / WIDEST) > tolerance * largest / WIDEST) & (largest > 0)
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
        f"at {list(place)} x is {x[place]:.4g}, which is {steps[place]:.2f} steps; the nearest whole "
        f"number is {round(steps[place])}, yours is {int(numbers(q)[place])}"
    )


def stays_in_range(trial: Trial) -> str | None:
    """Check that whole numbers stay from -127 to 127, and that all numbers cast to them fit."""
    if trial.case.probe == "call":
        lowest = int(trial.value[0].min())
        if lowest >= -WIDEST:
            return None
        return (
            f"q holds {lowest}. The scale is the largest absolute value / 127, and in half precision it is "
            "rounded too: clamp x / scale to -127 ... 127, at both ends"
        )
    if not trial.value:
        return None
    if trial.value.startswith("nan"):
        cure = "A channel of zeros has the scale 0: divide by something else there (torch.where)"
    else:
        cure = "In half precision 127 steps can become 128: clamp to -127 ... 127"
    return f"{trial.value}, which has no room for it, and the result is undefined. {cure}"


EXERCISE = Exercise(
    name="ch08_kv_cache/quantize_kv",
    signature="quantize_kv(x)",
    goal="Round each channel to whole numbers from -127 to 127, in steps of a size that fits the channel.",
    section="Rounding to 8 bits",
    reference=quantize_kv,
    criteria=(
        Criterion(
            "each number to the nearest step of its channel",
            0.75,
            soft,
            measure=with_a_scale_for_each_channel,
        ),
        Criterion("a channel of zeros stays zeros", 0.25, zeros, measure=with_a_scale_for_each_channel),
        Criterion(
            "q stays from -127 to 127, and nothing undefined is cast to it",
            0.25,
            hard_to_cast,
            test=stays_in_range,
        ),
        Criterion(
            "int8 for q, the dtype of x for the scale", 0.25, dtypes, measure=with_a_scale_for_each_channel
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
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
    "One scale serves all channels, so the largest channel sets the step and small channels become zeros. "
    "Take the maximum over the tokens alone: amax(dim=2, keepdim=True)."
)
def one_scale_for_all(x):
    scale = x.abs().max() / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You have one scale for each token, from the maximum over the channels, but it is the channels of keys "
    "that differ in size. Take the maximum over the tokens, dim=2."
)
def one_scale_for_each_token(x):
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "All channels of a head share a scale, the maximum over tokens *and* channels. Take it over the tokens "
    "alone, dim=2."
)
def one_scale_for_each_head(x):
    scale = x.abs().amax(dim=(2, 3), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Heads and sequences share their scales. Take the maximum over the tokens alone, dim=2, so that the "
    "scale has shape (B, h, 1, d)."
)
def one_scale_for_all_heads(x):
    scale = x.abs().amax(dim=(0, 1, 2), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your step is max / 128, so the largest number becomes 128, which int8 turns into -128. Divide the "
    "maximum by 127.",
    gravity="slip",
)
def divided_by_128(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Your step is max / 128, so the largest number is 128 steps, and 127 is all that int8 can hold. Divide "
    "the maximum by 127.",
    gravity="slip",
)
def divided_by_128_and_clamped(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your numbers are cut off towards 0, as a cast to int8 does: 3.9 becomes 3, and errors are twice as "
    "large. Round first, with torch.round.",
    gravity="slip",
)
def truncated(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You round down, but the nearest step may be above. Write torch.round, not torch.floor.", gravity="slip"
)
def rounded_down(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).floor().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You take the largest number with its sign, but a channel may reach further below zero. Write "
    "x.abs().amax(dim=2, keepdim=True)."
)
def signed_maximum(x):
    scale = x.amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "A channel of zeros has the scale 0, and 0/0 is NaN, whose cast to int8 is undefined. Divide by "
    "something else there: torch.where(scale == 0, 1, scale)."
)
def divided_by_zero(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "In half precision x / scale comes out as 127.5 now and then, is rounded to 128, and int8 turns that "
    "into -128. Clamp to -127 ... 127 before the cast."
)
def wraps_in_half_precision(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    safe = torch.where(scale == 0, 1.0, scale)
    return (x / safe).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Two things that int8 cannot hold are cast to it: NaN, from 0/0 in a channel of zeros, and in half "
    "precision 128. Divide by 1 where the scale is 0, and clamp to -127 ... 127."
)
def nothing_guarded(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Something is added to every scale, which makes all channels wrong by a little. Change only scales that "
    "are 0: torch.where(scale == 0, 1, scale)."
)
def epsilon_added(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127 + 1e-3
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your scale is the largest number of the channel, not the size of a step. Divide it by 127.",
    gravity="slip",
)
def maximum_for_scale(x):
    largest = x.abs().amax(dim=2, keepdim=True)
    safe = torch.where(largest == 0, 1.0, largest)
    return (x / safe * 127).round().clamp(-127, 127).to(torch.int8), largest


@EXERCISE.misconception(
    "Your scale is upside down: 127 / max is the number of steps in a unit. Return the size of a step, "
    "max / 127.",
    gravity="slip",
)
def inverted_scale(x):
    scale = 127 / x.abs().amax(dim=2, keepdim=True).clamp(min=1e-12)
    return (x * scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q holds whole numbers in the dtype of x, which take as much memory as before. Cast them: "
    ".to(torch.int8).",
    gravity="slip",
)
def never_cast(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127), scale


@EXERCISE.misconception(
    "Your scale has lost the axis of the tokens, so the division fails or pairs the wrong numbers. Keep it, "
    "with keepdim=True: the scale has shape (B, h, 1, d).",
    gravity="slip",
)
def keepdim_forgotten(x):
    scale = x.abs().amax(dim=2) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your scale is always float32. Return it in the dtype of x, so that numbers restored with it have that "
    "dtype too."
)
def scale_in_float32(x):
    x = x.float()
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You stretch each channel from its smallest to its largest number, which moves the zero and needs a "
    "second number to undo. Take steps of max |x| / 127, so that 0 stays 0."
)
def from_minimum_to_maximum(x):
    low, high = x.amin(dim=2, keepdim=True), x.amax(dim=2, keepdim=True)
    scale = (high - low) / 254
    scale = torch.where(scale == 0, 1.0, scale)
    return ((x - low) / scale - 127).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You write into the caller's keys, as `x /= scale` does. Write x / scale, which makes a new tensor."
)
def changed_in_place(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    x /= scale
    return x.round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q holds -128: in half precision the scale is rounded too, and x / scale comes out below -127.5. "
    "Clamp at both ends, to -127 ... 127.",
    gravity="slip",
)
def lower_end_open(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return torch.nan_to_num(x.float() / scale.float(), nan=0.0).round().clamp(max=127).char(), scale


@EXERCISE.misconception(
    "In float16 a channel of zeros still gives NaN: a smallest scale such as 1e-12 is 0 there. Take "
    "torch.finfo(x.dtype).tiny, or torch.where(scale == 0, 1, scale)."
)
def guard_too_small_for_float16(x):
    scale = (x.abs().amax(dim=2, keepdim=True) / 127).clamp(min=1e-12)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q is on the cpu, wherever x is. Make new tensors on the device of x, with device=x.device.",
    gravity="slip",
)
def left_on_the_cpu(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    q = torch.zeros(x.shape, dtype=torch.int8, device="cpu")
    q[:] = (x / torch.where(scale == 0, 1.0, scale)).round().clamp(-127, 127)
    return q, scale


@EXERCISE.misconception("You return the scale first. Return q, then the scale.", gravity="slip")
def results_swapped(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    step = torch.where(scale == 0, 1.0, scale)
    return scale, (x / step).round().clamp(-127, 127).to(torch.int8)


@EXERCISE.style("a step of 1 where the channel is zero")
def where(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    step = torch.where(scale == 0, torch.ones_like(scale), scale)
    return torch.round(x / step).clamp(-127, 127).to(torch.int8), scale


@EXERCISE.style("a smallest step, clamped before and after")
def clamped(x):
    scale = (x.abs().max(dim=-2, keepdim=True).values / 127).clamp(min=torch.finfo(x.dtype).tiny)
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


@EXERCISE.style("NaN put right before the cast, both ends clamped")
def nan_to_num(x):
    largest = torch.maximum(x.amax(dim=2, keepdim=True), -x.amin(dim=2, keepdim=True))
    scale = largest / 127
    return torch.nan_to_num(x.float() / scale.float(), nan=0.0).round().clamp(-127, 127).char(), scale


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
