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
"""How near the middle between two steps a number must be, so that either step counts as right."""


def quantize_kv(x):
    """Compute the reference answer."""
    return cache.quantize_kv(x)


def channels(
    rng: np.random.Generator, B: int, h: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Draw keys whose channels differ a hundredfold in size, each with its largest number of either sign."""
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
    """Draw keys without rounding: whole numbers up to 127, times a power of two."""
    steps = rng.integers(-126, 127, size=(2, 3, 5, 4))
    steps[:, :, rng.integers(5)] = 127
    return torch.from_numpy(steps * 2.0 ** rng.integers(-6, 3, size=(2, 3, 1, 4))).to(dtype)


def dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (channels(rng, 2, 3, 5, 4, dtype=torch.float64),))
    yield Case("bfloat16", (whole_steps(rng, torch.bfloat16),))
    yield Case("float16", (whole_steps(rng, torch.float16),))


def awkward(rng: np.random.Generator) -> Tensor:
    """Draw keys in bfloat16 whose largest number, which is positive, is above 127 steps of its scale."""
    while True:
        x = channels(rng, 2, 3, 5, 4, dtype=torch.bfloat16)
        x = torch.where(x.abs() == x.abs().amax(dim=2, keepdim=True), x.abs(), x)
        largest = x.amax(dim=2)
        if (largest / (largest / WIDEST) > WIDEST).any():
            return x


def minute(rng: np.random.Generator) -> Tensor:
    """Draw keys in float16 so small that their scale has few digits: the lowest number becomes -128."""
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
    """Compare all but ties: a number between two steps may go either way, and zeros have any scale."""
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
    """Return the outcome of the call; report a scale of another shape before any wrong number."""
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
    """Check that the scale of a channel is its largest absolute value over the tokens, divided by 127."""
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
        f"channel {c} of head {h} holds {str(column)[1:-1]}{more}: the largest absolute value is "
        f"{largest[b, h, 0, c]:.4g}, so the scale is {largest[b, h, 0, c] / WIDEST:.4g}; yours is "
        f"{got[b, h, 0, c]:.4g}"
    )


def nearest_step(trial: Trial) -> str | None:
    """Check that each number goes to the nearest step."""
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
    minutes=10,
    difficulty="medium",
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
            "q stays from -127 to 127; no other value is cast to it",
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
        Property("q: int8; scale: dtype of x", of_the_form),
        Property("the scale of each channel", right_scale),
        Property("the nearest step", nearest_step),
        *FIRST,
    ),
    forbidden=("torch.*quantize_*",),
    same=same,
)
