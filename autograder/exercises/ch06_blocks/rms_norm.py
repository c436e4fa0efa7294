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
    x, weight = drawn(rng, 2, 5, 3, 6)
    yield Case("four axes, not contiguous", (strided(x), weight))


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
    section="Two norms",
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


@EXERCISE.misconception(
    "You subtract the mean, as LayerNorm does. Leave it in: divide x itself by its root mean square.",
    gravity="slip",
)
def mean_subtracted(x, weight, eps=1e-6):
    x = x - x.mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the standard deviation, which is measured from the mean. Measure from 0: divide by the "
    "root of the mean of x^2."
)
def standard_deviation(x, weight, eps=1e-6):
    return x / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + eps) * weight


@EXERCISE.misconception(
    "You add eps outside the root. Add it to the mean square, sqrt(mean square + eps), where it also keeps "
    "the gradient of a token of zeros finite."
)
def eps_outside_the_root(x, weight, eps=1e-6):
    rms = torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True))
    return x / (rms + eps) * weight


@EXERCISE.misconception(
    "You sum the squares and do not divide by d: the token's *length* becomes 1, and wide tokens get small "
    "channels. Take the mean of the squares.",
    gravity="slip",
)
def sum_for_mean(x, weight, eps=1e-6):
    return x / torch.sqrt(x.pow(2).sum(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the mean square, so that twice the token gives another result. Divide by its root."
)
def no_root(x, weight, eps=1e-6):
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the mean of the absolute values. Divide by the root mean square: the root of the mean of "
    "x^2."
)
def mean_of_absolute_values(x, weight, eps=1e-6):
    return x / (x.abs().mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide the sum of squares by d - 1. Nothing was estimated here: take the mean over all d channels.",
    gravity="slip",
)
def divided_by_d_minus_1(x, weight, eps=1e-6):
    mean_square = x.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
    return x / torch.sqrt(mean_square + eps) * weight


@EXERCISE.misconception(
    "You take the mean over axis 0, the batch: a token depends on its neighbours. Give each token its own: "
    "dim=-1, keepdim=True.",
    gravity="useless",
)
def over_the_batch(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=0, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You take the mean along axis 1, which is the last axis of a matrix but the tokens of a batch (B, T, "
    "d). Count from the end: dim=-1.",
    gravity="useless",
)
def over_axis_1(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You take one mean square of the whole tensor. Give each token its own: mean(dim=-1, keepdim=True).",
    gravity="useless",
)
def over_everything(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean() + eps) * weight


@EXERCISE.misconception(
    "The mean square has lost its last axis: (B, T) cannot meet x, (B, T, d), or meets the wrong axis of "
    "it. Write keepdim=True."
)
def keepdim_forgotten(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1) + eps) * weight


@EXERCISE.misconception("You leave eps out, so a token of zeros is 0/0. Add eps to the mean square.")
def no_eps(x, weight, eps=1e-6):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True)) * weight


@EXERCISE.misconception(
    "Another `eps` changes nothing: the result is that of 1e-6. Use the argument; models choose it (Llama 2 "
    "has 1e-5)."
)
def eps_ignored(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight


@EXERCISE.misconception(
    "You multiply by 1 + weight, as Gemma stores its weights. Multiply by the weight itself.",
    gravity="slip",
)
def one_plus_weight(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * (1 + weight)


@EXERCISE.misconception("You leave the weight out. Multiply each channel by its weight after the norm.")
def weight_left_out(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


@EXERCISE.misconception(
    "The values are right, and no gradient passes through the root mean square. It depends on x: compute it "
    "without no_grad, detach and item."
)
def rms_without_gradient(x, weight, eps=1e-6):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps).detach()
    return x * scale * weight


@EXERCISE.misconception(
    "You write into the caller's tensor, as `x *= ...` does. Write x = x * ..., which makes a new one."
)
def changed_in_place(x, weight, eps=1e-6):
    x *= torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return x * weight


@EXERCISE.misconception(
    "You return float32 whatever comes in. To compute in float32 is wise; go back at the end with "
    ".to(x.dtype)."
)
def left_in_float32(x, weight, eps=1e-6):
    z = x.float()
    return z * torch.rsqrt(z.pow(2).mean(dim=-1, keepdim=True) + eps) * weight.float()


@EXERCISE.misconception(
    "Your result is float32 and on the cpu, whatever x is, as torch.zeros(x.shape) makes it. Use "
    "torch.zeros_like(x), or no loop at all, so that dtype and device are kept."
)
def filled_into_zeros(x, weight, eps=1e-6):
    y = torch.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        y[place] = x[place] / torch.sqrt(x[place].pow(2).mean() + eps) * weight
    return y


@EXERCISE.misconception(
    "You take the mean along axis 2, which is the last axis of a batch (B, T, d) only. Count from the end: "
    "dim=-1 is the channels whatever stands in front.",
    gravity="slip",
)
def over_axis_2(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=2, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so x must have three axes. With dim=-1 and keepdim=True no sizes "
    "are needed; the width is x.shape[-1].",
    gravity="slip",
)
def unpacks_three_sizes(x, weight, eps=1e-6):
    _B, _T, d = x.shape
    return x * torch.rsqrt(x.pow(2).sum(dim=-1, keepdim=True) / d + eps) * weight


@EXERCISE.misconception(
    "`view` cannot join axes of an x whose numbers do not lie in memory in their order. Take the mean along "
    "dim=-1, which keeps all axes, or use reshape.",
    gravity="slip",
)
def view_of_what_came(x, weight, eps=1e-6):
    rows = x.view(-1, x.shape[-1])
    return (rows * torch.rsqrt(rows.pow(2).mean(dim=-1, keepdim=True) + eps) * weight).view(x.shape)


@EXERCISE.misconception(
    "Your default for eps is 1e-5, that of LayerNorm. Write eps=1e-6, the default of RMSNorm."
)
def default_of_layer_norm(x, weight, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the weight. Multiply each channel by its weight after the norm.", gravity="slip"
)
def divided_by_the_weight(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) / weight


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
