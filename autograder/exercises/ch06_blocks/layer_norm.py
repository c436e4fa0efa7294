"""ch06_blocks/layer_norm: every token brought to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch06_blocks.tokens import (
    called,
    default_eps,
    eps,
    first_wrong_token,
    gains,
    in_any_shape,
    plain,
    shifts,
    tokens,
    tokens_are_apart,
    weighs,
)
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, on_any_device
from autograder.exercises.library import NORMS
from tfcore.layers import norms


def drawn(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw x, weight and bias."""
    x = tokens(rng, *shape, spread=spread, dtype=dtype)
    return x, gains(rng, shape[-1], dtype), shifts(rng, shape[-1], dtype)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield from in_any_shape(rng, drawn)
    x, weight, bias = drawn(rng, 4, 3, 8)
    yield Case("a tensor that is not contiguous", (strided(x), weight, bias))
    x, weight, bias = drawn(rng, 2, 5, 3, 6)
    yield Case("four axes, not contiguous", (strided(x), weight, bias))


def faint(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with tokens whose variance is not much larger than eps, or smaller."""
    yield Case("eps = 0.5", drawn(rng, 3, 4), {"eps": 0.5})
    yield Case("a spread near 0.001", drawn(rng, 2, 5, spread=1e-3))
    yield Case("a spread near 0.001, eps = 1e-12", drawn(rng, 4, 6, spread=1e-3), {"eps": 1e-12})
    _, weight, bias = drawn(rng, 8)
    yield Case("a token whose channels are all 3", (torch.full((8,), 3.0), weight, bias))
    yield Case("tokens of a single channel", drawn(rng, 3, 1))
    yield Case("a batch, eps = 0.1", drawn(rng, 2, 3, 7), {"eps": 0.1})


def far_off(rng: np.random.Generator) -> Iterator[Case]:
    x, *rest = drawn(rng, 3, 5)
    yield Case("channels around 3,000", (x + 3000, *rest))
    x, *rest = drawn(rng, 2, 3, 8)
    yield Case("channels around -3,000", (x - 3000, *rest))


def other_types(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 3, 4, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 3, 6, dtype=torch.bfloat16))


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from faint(rng)


def mean_is_zero(trial: Trial) -> str | None:
    place = first_wrong_token(trial)
    if place is None:
        return None
    mean = float(plain(trial)[place].mean())
    if abs(mean) < 1e-3:
        return None
    return f"before weight and bias, {called(place)} has the mean {mean:.3g}; subtract its mean, then it is 0"


def variance_is_one(trial: Trial) -> str | None:
    place = first_wrong_token(trial)
    if place is None:
        return None
    variance = float(trial.case.args[0][place].double().var(correction=0))
    right, got = variance / (variance + eps(trial, 1e-5)), float(plain(trial)[place].var(correction=0))
    if abs(got - right) <= 1e-3 * right:
        return None
    return (
        f"before weight and bias, {called(place)} has the variance {got:.4g}; with 1/sqrt(variance + eps) "
        f"as the factor it is {right:.4g}"
    )


def keeps_its_digits(trial: Trial) -> str | None:
    """Find tokens that come out right if their mean is subtracted first, and wrong if it is not."""
    x, *rest = trial.case.args
    centred = x - x.mean(dim=-1, keepdim=True)
    again = trial.call(Case("centred", (centred, *rest), trial.case.kwargs)).value
    if float(x.mean(dim=-1).abs().max()) < 1000 or not np.allclose(
        again.double(), trial.expected.double(), atol=2e-3
    ):
        return None
    return (
        "with the mean subtracted before the call your result is right, without that it is wrong: a "
        "difference of two large numbers, such as E[x^2] - E[x]^2, loses the digits that count"
    )


def weight_and_bias(trial: Trial) -> str | None:
    """Find a result that is right but for the weight and the bias."""
    _, weight, bias = trial.case.args
    right = (trial.expected.double() - bias.double()) / weight.double()
    options = {
        "the weight alone is applied: add the bias": right * weight,
        "the bias alone is applied: multiply by the weight first": right + bias,
        "neither weight nor bias is applied: y = normed * weight + bias": right,
        "the bias is added before the weight multiplies; first the weight, then the bias": (right + bias)
        * weight,
        "the bias is subtracted; add it": right * weight - bias,
        "the normed token is divided by the weight; multiply by it": right / weight + bias,
        "the bias multiplies; add it": right * weight * bias,
        "weight and bias have changed places: multiply by the weight, then add the bias": right * bias
        + weight,
    }
    got = trial.value.double().numpy()
    return next((says for says, option in options.items() if near(got, option.numpy())), None)


EXERCISE = Exercise(
    name="ch06_blocks/layer_norm",
    signature="layer_norm(x, weight, bias, eps=1e-05)",
    goal="Bring each token's channels to mean 0 and variance 1, then give each channel its weight and bias.",
    section="Two norms",
    minutes=20,
    difficulty="medium",
    reference=norms.layer_norm,
    criteria=(
        Criterion("each token by itself: mean 0, variance 1, weight, bias", 1, ordinary, tolerance=1e-3),
        Criterion("eps is added to the variance, under the root", 0.5, faint),
        Criterion("a mean as large as 3,000 costs no digits", 0.25, far_off, tolerance=2e-2),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, other_types, tolerance=0.1),
        Criterion("gradients reach x, weight and bias", 0.5, differentiated(everything), tolerance=1e-3),
        Criterion("works on any device", 0.25, elsewhere(ordinary), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("eps has its default", partial(default_eps, default=1e-5)),
        *FIRST,
        Property("tokens do not see each other", tokens_are_apart),
        Property("weight and bias", weight_and_bias),
        Property("a large mean costs no digits", keeps_its_digits),
        Property("the mean is 0", mean_is_zero),
        Property("the variance is 1", variance_is_one),
        *LAST,
    ),
    forbidden=(*NORMS, "torch.nn.LayerNorm", "torch.nn.GroupNorm"),
    domain=weighs,
)
