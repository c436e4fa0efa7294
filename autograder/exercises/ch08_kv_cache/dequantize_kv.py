"""ch08_kv_cache/dequantize_kv: from steps back to numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device
from tfcore import cache


def dequantize_kv(q, scale):
    """The reference."""
    return cache.dequantize_kv(q, scale)


def steps(
    rng: np.random.Generator, B: int, h: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Whole numbers (B, h, T, d) with both ends among them, and a step for each channel (B, h, 1, d)."""
    q = rng.integers(-127, 128, size=(B, h, T, d))
    q[..., 0, :] = np.where(rng.random((B, h, d)) < 0.5, 127, -127)
    scale = 10 ** rng.uniform(-2, 1, size=(B, h, 1, d))
    return torch.from_numpy(q).to(torch.int8), torch.from_numpy(scale).to(dtype)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 sequences, 3 heads, 5 tokens of 4 channels", steps(rng, 2, 3, 5, 4))
    B, h, T, d = sizes(rng, (2, 3), (2, 5), (6, 9), (10, 14))
    yield Case(f"B = {B}, {h} heads, T = {T}, d = {d}", steps(rng, B, h, T, d))
    yield Case("a single token", steps(rng, 2, 3, 1, 4))
    q, scale = steps(rng, 3, 2, 5, 4)
    yield Case("tensors that are not contiguous", (strided(q), strided(scale)))
    q, scale = steps(rng, 2, 3, 5, 4)
    scale[..., rng.integers(4)] = 0
    yield Case("a channel with a scale of 0", (q, scale))


def dtypes(rng: np.random.Generator) -> Iterator[Case]:
    for name in ("float64", "bfloat16", "float16"):
        yield Case(f"a scale in {name}", steps(rng, 2, 3, 5, 4, dtype=getattr(torch, name)))


def quotient(trial: Trial) -> str | None:
    """What number multiplies the scale, where it is not q."""
    q, scale = (numbers(x).astype(np.float64) for x in trial.case.args)
    got = numbers(trial.value).astype(np.float64)
    wrong = ~np.isclose(got, q * scale, rtol=1e-2, atol=1e-6)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    b, h, _, c = place
    step = scale[b, h, 0, c]
    return (
        f"at {list(place)} q is {int(q[place])}, and channel {c} has steps of {step:.4g}: together "
        f"{q[place] * step:.4g}; yours is {got[place]:.4g}"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/dequantize_kv",
    signature="dequantize_kv(q, scale)",
    goal="Turn whole numbers and the steps of their channels back into keys or values.",
    section="Rounding to 8 bits",
    reference=dequantize_kv,
    same=as_close,
    criteria=(
        Criterion("each number times the step of its channel", 0.4, ordinary),
        Criterion("the dtype of the scale", 0.2, dtypes),
        Criterion("works on any device", 0.2, elsewhere(ordinary), test=on_any_device),
        Criterion("gradients reach the scale", 0.2, differentiated(ordinary)),
    ),
    properties=(*FIRST, Property("q times the step", quotient), *LAST),
    forbidden=("torch.*dequantize*",),
)


@EXERCISE.misconception(
    "You divide by the scale, which is the size of a step, while q counts steps. Multiply q by it.",
    gravity="slip",
)
def divided(q, scale):
    return q / scale


@EXERCISE.misconception(
    "You return the whole numbers as they are, but they count steps. Multiply them by the scale of the "
    "channel."
)
def scale_left_out(q, scale):
    return q.to(scale.dtype)


@EXERCISE.misconception(
    "Your result is 127 times too small, but the scale is the size of a step already. Return q * scale, and "
    "do not divide by 127.",
    gravity="slip",
)
def divided_by_127_again(q, scale):
    return q / 127 * scale


@EXERCISE.misconception(
    "Your result is int8, in which fractions are lost. Return it in the dtype of the scale."
)
def back_to_int8(q, scale):
    return (q * scale).to(q.dtype)


@EXERCISE.misconception(
    "The steps are cut off to whole numbers, as a cast of the *scale* to int8 does: 0.07 becomes 0. "
    "Multiply q by the scale as it is: int8 times float is a float."
)
def scale_to_int8(q, scale):
    return (q * scale.to(torch.int8)).to(scale.dtype)


@EXERCISE.misconception(
    "Your result is int8, made with steps that are cut off to whole numbers: 0.07 becomes 0. Multiply q by "
    "the scale as it is: int8 times float is a float."
)
def all_in_int8(q, scale):
    return q * scale.to(torch.int8)


@EXERCISE.misconception(
    "All channels get the scale of the first. Multiply by the whole scale, which broadcasts over the tokens: "
    "q * scale."
)
def first_scale_for_all(q, scale):
    return q * scale[..., :1]


@EXERCISE.misconception(
    "All channels get the mean of the scales. Multiply by the scale of each channel: q * scale broadcasts it "
    "over the tokens."
)
def mean_scale(q, scale):
    return q * scale.mean()


@EXERCISE.misconception(
    "Your result is always float32. Take the dtype from the scale: q.to(scale.dtype) * scale, or q * scale."
)
def always_float32(q, scale):
    return q.float() * scale.float()


@EXERCISE.misconception(
    "With a scale in half precision the result is float32, as `q.float() * scale` is. Take the dtype from "
    "the scale: q.to(scale.dtype) * scale, or q * scale."
)
def at_least_float32(q, scale):
    return q.float() * scale


@EXERCISE.misconception(
    "Your result is always float64. Take the dtype from the scale: q * scale.", gravity="slip"
)
def always_float64(q, scale):
    return q.double() * scale.double()


@EXERCISE.misconception(
    "torch cannot write a product with fractions into q, which is int8. Write q * scale, which makes a new "
    "tensor."
)
def into_int8(q, scale):
    q *= scale
    return q


@EXERCISE.misconception(
    "No gradient reaches the scale, and the inputs must be on the cpu: numpy has neither gradients nor "
    "devices. Stay with tensors: q * scale."
)
def through_numpy(q, scale):
    return torch.tensor(q.numpy() * scale.detach().float().numpy()).to(scale.dtype)


@EXERCISE.misconception(
    "No gradient reaches the scale, as after `detach` or under `torch.no_grad`. Leave both out: q * scale."
)
def cut_off_from_the_scale(q, scale):
    return q * scale.detach()


@EXERCISE.misconception(
    "Your result is on the cpu, wherever the scale is. Make new tensors on the device of the scale, with "
    "device=scale.device."
)
def left_on_the_cpu(q, scale):
    x = torch.zeros(q.shape, dtype=scale.dtype)
    x[:] = q * scale
    return x


@EXERCISE.style("the product; torch finds the dtype")
def product(q, scale):
    return q * scale


@EXERCISE.style("cast, then multiply")
def cast_first(q, scale):
    return torch.mul(q.to(scale.dtype), scale)


@EXERCISE.style("einsum without the axis of the tokens")
def einsum(q, scale):
    return torch.einsum("bhtd,bhd->bhtd", q.to(scale.dtype), scale.squeeze(2))


@EXERCISE.style("channel by channel")
def channel_by_channel(q, scale):
    return torch.stack([q[..., c] * scale[..., c] for c in range(q.shape[-1])], dim=-1)


@EXERCISE.style("the scale spread over the tokens")
def spread(q, scale):
    return q.type_as(scale) * scale.expand(-1, -1, q.shape[2], -1)
