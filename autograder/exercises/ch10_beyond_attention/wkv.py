"""ch10_beyond_attention/wkv: RWKV's attention, a weighted mean that fades with age."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.weighing import (
    IN_FLOAT32,
    ROUGH,
    nothing_from_the_future,
    out_of_proportion,
    slack,
    sum_to_one,
    weights_by_channel,
)
from tfcore import wkv as rwkv


def drawn(
    rng: np.random.Generator, B: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Draw w, u (d,) and k, v (B, T, d): decays well above 0, bonuses of either sign, moderate keys."""
    w = torch.from_numpy(rng.uniform(0.2, 1.5, size=d))
    return tuple(x.to(dtype) for x in (w, tensor(rng, d), tensor(rng, B, T, d), tensor(rng, B, T, d)))


def means(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens of width 2", drawn(rng, 1, 3, 2))
    B, T, d = sizes(rng, (2, 4), (5, 9), (3, 6))
    yield Case(f"B = {B}, T = {T}, d = {d}", drawn(rng, B, T, d))
    yield Case("a single token: its own value", drawn(rng, 2, 1, 3))
    yield Case("one channel", drawn(rng, 2, 4, 1))
    yield Case("25 tokens", drawn(rng, 1, 25, 3))
    w, u, k, v = map(strided, drawn(rng, 3, 5, 2))
    yield Case("tensors that are not contiguous", (w, u, k, v))


def large(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with keys of 1,000 and more, of one size or far apart, so that exp alone gives inf or 0."""
    for says, levels in (
        ("keys around 1,000", np.full(4, 1e3)),
        ("keys around -1,000", np.full(4, -1e3)),
        ("keys that rise by 500", 500.0 * np.arange(5)),
        ("keys that fall by 500", -500.0 * np.arange(5)),
        ("keys of 1,000 and -1,000 mixed", rng.permutation([1e3, -1e3, 1e3, -1e3, 0.0])),
    ):
        w, u, k, v = drawn(rng, 2, len(levels), 3, dtype=torch.float64)
        yield Case(says, (w, u, k + torch.from_numpy(levels)[:, None], v))
    w, u, k, v = drawn(rng, 2, 4, 3, dtype=torch.float64)
    w, u, k = ((64 * x).round() / 64 for x in (w, u, k))  # what float32 holds exactly, 100,000 away from 0
    yield Case("keys around -100,000", (w, u, k - 1e5, v))
    w, u, k, v = drawn(rng, 2, 4, 3)
    yield Case("float32, keys around 1,000", (w, u, k + 1e3, v))
    yield Case("a bonus of 1,000", (w, u + 1e3, k, v))
    yield Case("a bonus of -1,000", (w, u - 1e3, k, v))
    w, u, k, v = drawn(rng, 2, 7, 3, dtype=torch.float64)
    k[:, 0] += 1e3
    yield Case("one key of 1,000, which fades by 300 a step", (w + 300, u, k, v))


def long(rng: np.random.Generator) -> Iterator[Case]:
    w, u, k, v = drawn(rng, 1, 130, 2, dtype=torch.float64)
    yield Case("130 tokens, decays around 8", (8 + w, u, k, v))
    yield Case("130 tokens, decays around 0.001", (w / 1000, u, k, v))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 5, 3, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 4, 3, dtype=torch.bfloat16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens of width 2", drawn(rng, 1, 3, 2))
    yield Case("5 tokens, float64", drawn(rng, 2, 5, 3, dtype=torch.float64))


def soft_and_large(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    w, u, k, v = drawn(rng, 2, 4, 3, dtype=torch.float64)
    yield Case("keys that rise by 500", (w, u, k + 500 * torch.arange(4)[:, None], v))


def the_first_is_its_own_value(trial: Trial) -> str | None:
    got, value = numbers(trial.value)[:, 0], numbers(trial.case.args[3])[:, 0]
    close = slack(trial)
    wrong = ~np.isclose(got, value, rtol=close, atol=close)
    if not wrong.any():
        return None
    return (
        f"the first token sees itself alone, so out[:, 0] is v[:, 0]; yours is {got[wrong][0]:.4g} and not "
        f"{value[wrong][0]:.4g}"
    )


def as_the_formula_says(trial: Trial) -> str | None:
    w, u, k, _ = (numbers(x).astype(float) for x in trial.case.args)
    T = k.shape[1]
    t, i = np.arange(T)[:, None], np.arange(T)
    for channel, found in enumerate(weights_by_channel(trial, 3)):
        exponents = np.where(i < t, k[:, None, :, channel] - (t - 1 - i) * w[channel], -np.inf)
        exponents[:, i, i] = u[channel] + k[:, :, channel]
        right = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
        if said := out_of_proportion(found, right, "the formula", slack(trial)):
            return f"in channel {channel}, {said}"
    return None


EXERCISE = Exercise(
    name="ch10_beyond_attention/wkv",
    signature="wkv(w, u, k, v)",
    goal="Average the values so far, channel by channel, with weights exp(k) that fade by exp(-w) a step.",
    section="Moving the brackets",
    minutes=17,
    difficulty="hard",
    reference=rwkv.wkv,
    criteria=(
        Criterion("the mean of the values, weighted by key and age, with a bonus", 1, means),
        Criterion("stable: keys of 1,000 and more", 0.75, large, tolerance=IN_FLOAT32),
        Criterion("long sequences, decays large and small", 0.25, long, tolerance=IN_FLOAT32),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach w, u, k and v", 0.25, differentiated(soft_and_large), tolerance=IN_FLOAT32
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the first token gets its own value", the_first_is_its_own_value),
        Property("weights sum to 1", sum_to_one(3)),
        Property("nothing comes from the future", nothing_from_the_future(3, lambda trial: True)),
        Property("weights follow the formula", as_the_formula_says),
        *LAST,
    ),
)
