"""ch06_blocks/rms_norm: every token brought to a root mean square of 1, and nothing subtracted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.exercise import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch06_blocks.tokens import (
    called,
    eps,
    first_wrong_token,
    gains,
    plain,
    tokens,
    tokens_are_apart,
    weighs,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.library import NORMS
from tfcore.layers import norms


def drawn(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """x and weight."""
    return tokens(rng, *shape, spread=spread, dtype=dtype), gains(rng, shape[-1], dtype)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one token of 4 channels", drawn(rng, 4))
    yield Case("3 tokens of 5 channels", drawn(rng, 3, 5))
    yield Case("a batch of shape (2, 3, 6)", drawn(rng, 2, 3, 6))
    B, T, d = sizes(rng, (2, 9), (2, 9), (4, 9))
    yield Case("a batch of any size", drawn(rng, B, T, d))
    yield Case("a single token in each sequence", drawn(rng, 3, 1, 7))
    yield Case("four axes", drawn(rng, 2, 3, 4, 5))
    yield Case("300 channels", drawn(rng, 2, 300))
    x, weight = drawn(rng, 3, 8)
    yield Case("channels around 3,000", (x + 3000, weight))
    x, weight = drawn(rng, 4, 3, 7)
    yield Case("a tensor that is not contiguous", (strided(x), weight))


def faint(rng: np.random.Generator) -> Iterator[Case]:
    """Tokens whose mean square is not much larger than eps, or smaller."""
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
    """Without its weight, a token is x times one number."""
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
        f"before the weight, {called(place)} has the mean square {got:.4g}; with sqrt(mean square + eps) "
        f"below the line it is {right:.4g}"
    )


EXERCISE = Exercise(
    name="ch06_blocks/rms_norm",
    signature="rms_norm(x, weight, eps=1e-06)",
    goal="Bring the root mean square of each token to 1, then give each channel its weight.",
    reference=norms.rms_norm,
    criteria=(
        Criterion(
            "each token by itself: root mean square 1, then the weight", 0.75, ordinary, tolerance=1e-3
        ),
        Criterion("eps is added to the mean square, under the root", 0.25, faint),
        Criterion("float64 and bfloat16 come back as they came", 0.25, other_types, tolerance=0.1),
        Criterion("gradients reach x and weight", 0.25, differentiated(everything), tolerance=1e-3),
        Criterion("works on any device", 0.25, elsewhere(ordinary), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("tokens do not see each other", tokens_are_apart),
        Property("nothing is subtracted", only_multiplied),
        Property("the mean square is 1", mean_square_is_one),
        *LAST,
    ),
    forbidden=(*NORMS, "torch.nn.RMSNorm", "torch.nn.functional.normalize", "torch.cosine_similarity"),
    domain=weighs,
)


@EXERCISE.misconception(
    "You subtract the mean, as LayerNorm does. RMSNorm leaves it in: divide x itself by its root mean square."
)
def mean_subtracted(x, weight, eps=1e-6):
    x = x - x.mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the standard deviation, which is measured from the mean. RMSNorm measures from 0: the "
    "root of the mean of x^2."
)
def standard_deviation(x, weight, eps=1e-6):
    return x / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + eps) * weight


@EXERCISE.misconception(
    "You add eps outside the root. It belongs to the mean square: sqrt(mean square + eps). There it also "
    "keeps the gradient of a token of zeros finite."
)
def eps_outside_the_root(x, weight, eps=1e-6):
    rms = torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True))
    return x / (rms + eps) * weight


@EXERCISE.misconception(
    "You sum the squares and do not divide by d. The token's *length* becomes 1, and wide tokens get small "
    "channels: take the mean of the squares."
)
def sum_for_mean(x, weight, eps=1e-6):
    return x / torch.sqrt(x.pow(2).sum(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the mean square. Twice the token must give the same result: divide by the root of it."
)
def no_root(x, weight, eps=1e-6):
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You take the mean of the absolute values. The root mean square is the root of the mean of x^2."
)
def mean_of_absolute_values(x, weight, eps=1e-6):
    return x / (x.abs().mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide the sum of squares by d - 1. Nothing was estimated here, so the mean is over all d channels."
)
def divided_by_d_minus_1(x, weight, eps=1e-6):
    mean_square = x.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
    return x / torch.sqrt(mean_square + eps) * weight


@EXERCISE.misconception(
    "You take the mean over axis 0, the batch: a token would depend on its neighbours. Each token has its "
    "own: dim=-1, keepdim=True."
)
def over_the_batch(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=0, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "dim=1 is the last axis of a matrix, but the tokens of a batch (B, T, d). Count from the end: dim=-1."
)
def over_axis_1(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You take one mean square of the whole tensor. Each token has its own: mean(dim=-1, keepdim=True)."
)
def over_everything(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean() + eps) * weight


@EXERCISE.misconception(
    "Without keepdim=True the mean square (B, T) cannot meet x (B, T, d), or meets the wrong axis of it."
)
def keepdim_forgotten(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1) + eps) * weight


@EXERCISE.misconception("You leave eps out. A token of zeros then is 0/0: add eps to the mean square.")
def no_eps(x, weight, eps=1e-6):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True)) * weight


@EXERCISE.misconception(
    "You write 1e-6 into the formula and ignore the argument `eps`. Models choose it (Llama 2 has 1e-5): use "
    "what was passed."
)
def eps_ignored(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight


@EXERCISE.misconception(
    "You multiply by 1 + weight. Gemma stores its weights so; here the weight itself multiplies."
)
def one_plus_weight(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * (1 + weight)


@EXERCISE.misconception("You leave the weight out. After the norm each channel is multiplied by its weight.")
def weight_left_out(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


@EXERCISE.misconception(
    "The root mean square is cut off from the gradient (no_grad, detach, item). It depends on x, and the "
    "gradient has to pass through it too."
)
def rms_without_gradient(x, weight, eps=1e-6):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps).detach()
    return x * scale * weight


@EXERCISE.misconception(
    "`x *= ...` writes into the caller's tensor. Write x = x * ..., which makes a new one."
)
def changed_in_place(x, weight, eps=1e-6):
    x *= torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return x * weight


@EXERCISE.misconception(
    "You compute in float32, which is wise, and forget to go back: end with .to(x.dtype), so that the result "
    "has the dtype of x."
)
def left_in_float32(x, weight, eps=1e-6):
    z = x.float()
    return z * torch.rsqrt(z.pow(2).mean(dim=-1, keepdim=True) + eps) * weight.float()


@EXERCISE.misconception(
    "torch.zeros(x.shape) is float32 and on the cpu, whatever x is. torch.zeros_like(x), or no loop at all, "
    "keeps dtype and device."
)
def filled_into_zeros(x, weight, eps=1e-6):
    y = torch.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        y[place] = x[place] / torch.sqrt(x[place].pow(2).mean() + eps) * weight
    return y


@EXERCISE.style("times the reciprocal root")
def rsqrt(x, weight, eps=1e-6):
    return weight * x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


@EXERCISE.style("in float32 and back, as Llama does")
def in_float32(x, weight, eps=1e-6):
    hidden = x.to(torch.float32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + eps)
    return weight * hidden.to(x.dtype)


@EXERCISE.style("the squares summed by einsum")
def einsum(x, weight, eps=1e-6):
    mean_square = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    return x / (mean_square + eps).sqrt()[..., None] * weight


@EXERCISE.style("torch's norm, squared again")
def by_the_norm(x, weight, eps=1e-6):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return weight * (x / (length**2 / x.size(-1) + eps) ** 0.5)


@EXERCISE.style("token by token, in a loop")
def token_by_token(x, weight, eps=1e-6):
    rows = [t / (t.square().mean() + eps).sqrt() for t in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape_as(x) * weight
