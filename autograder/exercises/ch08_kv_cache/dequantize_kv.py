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
    """Compute the reference answer."""
    return cache.dequantize_kv(q, scale)


def steps(
    rng: np.random.Generator, B: int, h: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Draw whole numbers (B, h, T, d), both ends among them, and a step for each channel (B, h, 1, d)."""
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
    """Name the number that multiplies the scale, where it is not q."""
    q, scale = (numbers(x).astype(np.float64) for x in trial.case.args)
    got = numbers(trial.value).astype(np.float64)
    wrong = ~np.isclose(got, q * scale, rtol=1e-2, atol=1e-6)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    b, h, _, c = place
    step = scale[b, h, 0, c]
    return (
        f"at {list(place)} q is {int(q[place])}, and channel {c} has steps of {step:.4g}: the product is "
        f"{q[place] * step:.4g}; yours is {got[place]:.4g}"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/dequantize_kv",
    signature="dequantize_kv(q, scale)",
    goal="Turn whole numbers and the steps of their channels back into keys or values.",
    section="Rounding to 8 bits",
    minutes=5,
    difficulty="easy",
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
