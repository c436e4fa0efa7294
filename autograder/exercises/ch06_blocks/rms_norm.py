"""ch06_blocks/rms_norm: every token brought to a root mean square of 1, and nothing subtracted."""

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
    tokens,
    tokens_are_apart,
    weighs,
)
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.library import NORMS
from tfcore.layers import norms


def drawn(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Draw x and weight."""
    return tokens(rng, *shape, spread=spread, dtype=dtype), gains(rng, shape[-1], dtype)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield from in_any_shape(rng, drawn)
    x, weight = drawn(rng, 3, 8)
    yield Case("channels around 3,000", (x + 3000, weight))
    x, weight = drawn(rng, 4, 3, 7)
    yield Case("a tensor that is not contiguous", (strided(x), weight))
    x, weight = drawn(rng, 2, 5, 3, 6)
    yield Case("four axes, not contiguous", (strided(x), weight))


def faint(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with tokens whose mean square is not much larger than eps, or smaller."""
    yield Case("eps = 0.5", drawn(rng, 3, 4), {"eps": 0.5})
    yield Case("a spread near 0.001", drawn(rng, 2, 5, spread=1e-3))
    yield Case("a spread near 0.001, eps = 1e-12", drawn(rng, 4, 6, spread=1e-3), {"eps": 1e-12})
    _, weight = drawn(rng, 8)
    yield Case("a token of zeros", (torch.zeros(8), weight))
    yield Case("tokens of a single channel", drawn(rng, 3, 1))
    yield Case("a batch, eps = 0.1", drawn(rng, 2, 3, 7), {"eps": 0.1})


def other_types(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 3, 4, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 3, 6, dtype=torch.bfloat16))


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from faint(rng)


def only_multiplied(trial: Trial) -> str | None:
    """Check that a token's result, before the weight, is x times one number."""
    place = first_wrong_token(trial)
    if place is None:
        return None
    x, got = trial.case.args[0][place].double(), plain(trial)[place]
    if not bool(x.any()):
        return None
    factor = float((got * x).sum() / (x * x).sum())
    off = (got - factor * x).abs()
    if len(x) < 2 or float(off.max()) < 1e-3 * float(got.abs().max()):
        return None
    i = int(off.argmax())
    found = f"is x times {float(got[i] / x[i]):.3g}" if x[i] else f"was 0 and is {float(got[i]):.3g}"
    return (
        f"before the weight, {called(place)} should be x times one number; channel {i} {found}, on average "
        f"it is x times {factor:.3g}"
    )


def mean_square_is_one(trial: Trial) -> str | None:
    place = first_wrong_token(trial)
    if place is None:
        return None
    square = float(trial.case.args[0][place].double().square().mean())
    right, got = square / (square + eps(trial, 1e-6)), float(plain(trial)[place].square().mean())
    if abs(got - right) < 1e-3 * right:
        return None
    return (
        f"before the weight, {called(place)} has the mean square {got:.4g}; with 1/sqrt(mean square + eps) "
        f"as the factor it is {right:.4g}"
    )


EXERCISE = Exercise(
    name="ch06_blocks/rms_norm",
    signature="rms_norm(x, weight, eps=1e-06)",
    goal="Bring the root mean square of each token to 1, then give each channel its weight.",
    section="Two norms",
    minutes=10,
    difficulty="easy",
    reference=norms.rms_norm,
    criteria=(
        Criterion(
            "each token by itself: root mean square 1, then the weight", 0.75, ordinary, tolerance=1e-3
        ),
        Criterion("eps is added to the mean square, under the root", 0.25, faint),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, other_types, tolerance=0.1),
        Criterion("gradients reach x and weight", 0.25, differentiated(everything), tolerance=1e-3),
        Criterion("works on any device", 0.25, elsewhere(ordinary), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("eps has its default", partial(default_eps, default=1e-6)),
        *FIRST,
        Property("tokens do not see each other", tokens_are_apart),
        Property("nothing is subtracted", only_multiplied),
        Property("the mean square is 1", mean_square_is_one),
        *LAST,
    ),
    forbidden=(*NORMS, "torch.nn.RMSNorm", "torch.nn.functional.normalize", "torch.cosine_similarity"),
    domain=weighs,
)
