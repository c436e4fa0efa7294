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
    plain,
    shifts,
    tokens,
    tokens_are_apart,
    weighs,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, on_any_device
from autograder.exercises.library import NORMS
from tfcore.layers import norms


def drawn(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """x, weight and bias."""
    x = tokens(rng, *shape, spread=spread, dtype=dtype)
    return x, gains(rng, shape[-1], dtype), shifts(rng, shape[-1], dtype)


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one token of 4 channels", drawn(rng, 4))
    yield Case("3 tokens of 5 channels", drawn(rng, 3, 5))
    yield Case("a batch of shape (2, 3, 6)", drawn(rng, 2, 3, 6))
    B, T, d = sizes(rng, (2, 9), (2, 9), (4, 9))
    yield Case("a batch of any size", drawn(rng, B, T, d))
    yield Case("a single token in each sequence", drawn(rng, 3, 1, 7))
    yield Case("four axes", drawn(rng, 2, 3, 4, 5))
    yield Case("300 channels", drawn(rng, 2, 300))
    x, weight, bias = drawn(rng, 4, 3, 8)
    yield Case("a tensor that is not contiguous", (strided(x), weight, bias))
    x, weight, bias = drawn(rng, 2, 5, 3, 6)
    yield Case("four axes, not contiguous", (strided(x), weight, bias))


def faint(rng: np.random.Generator) -> Iterator[Case]:
    """Tokens whose variance is not much larger than eps, or smaller."""
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
    if abs(got - right) < 1e-3 * right:
        return None
    return (
        f"before weight and bias, {called(place)} has the variance {got:.4g}; with sqrt(variance + eps) "
        f"below the line it is {right:.4g}"
    )


def keeps_its_digits(trial: Trial) -> str | None:
    """Tokens that come out right with their mean taken off first, and wrong with it."""
    x, *rest = trial.case.args
    centred = x - x.mean(dim=-1, keepdim=True)
    again = trial.call(Case("centred", (centred, *rest), trial.case.kwargs)).value
    if float(x.mean(dim=-1).abs().max()) < 1000 or not np.allclose(
        again.double(), trial.expected.double(), atol=2e-3
    ):
        return None
    return (
        "taken off by hand first, the mean does no harm, and left to your code it does: a difference of two "
        "large numbers, such as E[x^2] - E[x]^2, loses the digits that count"
    )


def weight_and_bias(trial: Trial) -> str | None:
    """Right but for what is done with the weight and the bias."""
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
    goal="Bring the channels of each token to mean 0 and variance 1, then give each its own weight and bias.",
    section="Two norms",
    reference=norms.layer_norm,
    criteria=(
        Criterion("each token by itself: mean 0, variance 1, weight, bias", 1, ordinary, tolerance=1e-3),
        Criterion("eps is added to the variance, under the root", 0.5, faint),
        Criterion("a mean as large as 3,000 costs no digits", 0.25, far_off, tolerance=2e-2),
        Criterion("float64 and bfloat16 come back as they came", 0.25, other_types, tolerance=0.1),
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


@EXERCISE.misconception(
    "You add eps outside the root. Add it to the variance, sqrt(variance + eps), where it also keeps the "
    "gradient finite if the variance is 0."
)
def eps_outside_the_root(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / (torch.sqrt(variance) + eps) * weight + bias


@EXERCISE.misconception(
    "Your variance is divided by d - 1, as torch's var does by default. Divide by d: x.var(dim=-1, "
    "keepdim=True, correction=0).",
    gravity="slip",
)
def unbiased_variance(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "Your standard deviation is divided by d - 1, and eps is added outside the root. Take the variance with "
    "correction=0, add eps, then take the root.",
    gravity="slip",
)
def unbiased_std(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    std = x.std(dim=-1, keepdim=True)
    return (x - mean) / (std + eps) * weight + bias


@EXERCISE.misconception(
    "You norm each channel over axis 0, the batch, as BatchNorm does: a token depends on its neighbours. "
    "Take mean and variance of each token, over dim=-1.",
    gravity="useless",
)
def over_the_batch(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=0, keepdim=True)
    variance = x.var(dim=0, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You norm along axis 1, which is the last axis of a matrix but the tokens of a batch (B, T, d). Count "
    "from the end: dim=-1 is the channels whatever stands in front.",
    gravity="useless",
)
def over_axis_1(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=1, keepdim=True)
    variance = x.var(dim=1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You take one mean and one variance of the whole tensor. Give each token its own: dim=-1, keepdim=True.",
    gravity="useless",
)
def over_everything(x, weight, bias, eps=1e-5):
    variance = x.var(unbiased=False)
    return (x - x.mean()) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You norm a whole sequence at once, over tokens and channels. Take mean and variance of each token "
    "alone: dim=-1.",
    gravity="useless",
)
def over_the_sequence(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=(-2, -1), keepdim=True)
    variance = x.var(dim=(-2, -1), keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "The mean, or the variance, has lost its last axis: (B, T) cannot meet x, (B, T, d), or meets the wrong "
    "axis. Write keepdim=True for both."
)
def keepdim_forgotten(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1)
    variance = x.var(dim=-1, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You divide by the standard deviation and leave the mean where it is. Subtract it: (x - mean) / "
    "sqrt(variance + eps)."
)
def mean_left_in(x, weight, bias, eps=1e-5):
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return x / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You subtract the mean, but divide by the root mean square of the *uncentred* x. The variance is the "
    "mean square of x - mean."
)
def mean_square_for_variance(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    mean_square = x.pow(2).mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(mean_square + eps) * weight + bias


@EXERCISE.misconception(
    "You norm as RMSNorm does: nothing is subtracted. Subtract the mean first, and take the variance, the "
    "mean square of what is left."
)
def rms_norm_with_bias(x, weight, bias, eps=1e-5):
    mean_square = x.pow(2).mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight + bias


@EXERCISE.misconception(
    "You divide by the variance, so that twice the spread gives another result. Divide by its root, the "
    "standard deviation."
)
def no_root(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + eps) * weight + bias


@EXERCISE.misconception(
    "You leave eps out, so a token whose channels are all alike is 0/0. Add eps to the variance, under the "
    "root."
)
def no_eps(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance) * weight + bias


@EXERCISE.misconception(
    "Another `eps` changes nothing: the result is that of 1e-5. Use the argument; models choose it (BERT "
    "1e-12, GPT-2 1e-5)."
)
def eps_ignored(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


@EXERCISE.misconception(
    "A large mean costs you the digits: E[x^2] - E[x]^2 is the variance on paper, but around 3,000 both "
    "terms are near 9,000,000, and float32 cannot hold a difference of 1. Square x - mean instead."
)
def difference_of_squares(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.pow(2).mean(dim=-1, keepdim=True) - mean.pow(2)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You apply weight and bias first and norm what comes out, which takes their effect away again. Apply "
    "them after the norm."
)
def weight_and_bias_first(x, weight, bias, eps=1e-5):
    x = x * weight + bias
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps)


@EXERCISE.misconception("You leave the weight out. Multiply each channel by its weight after the norm.")
def weight_left_out(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) + bias


@EXERCISE.misconception("You leave the bias out. Add it at the very end, channel by channel.")
def bias_left_out(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight


@EXERCISE.misconception(
    "You add the bias before the weight multiplies, so the weight scales the bias too. Multiply by the "
    "weight first, then add the bias.",
    gravity="slip",
)
def bias_before_weight(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return ((x - mean) / torch.sqrt(variance + eps) + bias) * weight


@EXERCISE.misconception(
    "The values are right, and no gradient passes through mean and variance. They depend on x: compute them "
    "without no_grad, detach and item."
)
def statistics_without_gradient(x, weight, bias, eps=1e-5):
    with torch.no_grad():
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You write into the caller's tensor, as `x -= mean` does. Write x = x - mean, which makes a new one."
)
def changed_in_place(x, weight, bias, eps=1e-5):
    x -= x.mean(dim=-1, keepdim=True)
    variance = x.pow(2).mean(dim=-1, keepdim=True)
    return x / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "Your result is float32 and on the cpu, whatever x is, as torch.zeros(x.shape) makes it. Use "
    "torch.zeros_like(x), or no loop at all, so that dtype and device are kept."
)
def filled_into_zeros(x, weight, bias, eps=1e-5):
    y = torch.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        token = x[place]
        y[place] = (token - token.mean()) / torch.sqrt(token.var(unbiased=False) + eps) * weight + bias
    return y


@EXERCISE.misconception(
    "You return float32 whatever comes in. To compute in float32 is wise; go back at the end with "
    ".to(x.dtype)."
)
def left_in_float32(x, weight, bias, eps=1e-5):
    z = x.float()
    z = (z - z.mean(dim=-1, keepdim=True)) / torch.sqrt(z.var(dim=-1, keepdim=True, unbiased=False) + eps)
    return z * weight.float() + bias.float()


@EXERCISE.misconception(
    "The values are right, and no gradient passes through the variance. It depends on x: compute it without "
    "no_grad, detach and item."
)
def variance_without_gradient(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False).detach()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "The values are right, and no gradient passes through the mean. It depends on x: compute it without "
    "no_grad, detach and item."
)
def mean_without_gradient(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True).detach()
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You norm along axis 2, which is the last axis of a batch (B, T, d) only. Count from the end: dim=-1 is "
    "the channels whatever stands in front.",
    gravity="slip",
)
def over_axis_2(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=2, keepdim=True)
    variance = x.var(dim=2, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so x must have three axes. With dim=-1 and keepdim=True no sizes "
    "are needed; the width is x.shape[-1].",
    gravity="slip",
)
def unpacks_three_sizes(x, weight, bias, eps=1e-5):
    _B, _T, d = x.shape
    centred = x - x.sum(dim=-1, keepdim=True) / d
    variance = centred.square().sum(dim=-1, keepdim=True) / d
    return centred / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "`view` cannot join axes of an x whose numbers do not lie in memory in their order. Take the mean along "
    "dim=-1, which keeps all axes, or use reshape.",
    gravity="slip",
)
def view_of_what_came(x, weight, bias, eps=1e-5):
    rows = x.view(-1, x.shape[-1])
    rows = rows - rows.mean(dim=-1, keepdim=True)
    variance = rows.square().mean(dim=-1, keepdim=True)
    return (rows / torch.sqrt(variance + eps) * weight + bias).view(x.shape)


@EXERCISE.misconception(
    "Your default for eps is 1e-6, that of RMSNorm. Write eps=1e-5, the default of LayerNorm."
)
def default_of_rms_norm(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "The normed token has the wrong sign: you subtract the token from its mean. Subtract the mean from the "
    "token: x - mean.",
    gravity="slip",
)
def subtracted_from_the_mean(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (mean - x) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.style("mean, variance, root")
def step_by_step(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + eps)
    return weight * normed + bias


@EXERCISE.style("torch's var_mean and rsqrt")
def var_mean(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), weight)


@EXERCISE.style("sums divided by d")
def by_sums(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    centred = x - x.sum(-1).unsqueeze(-1) / d
    return bias + weight * centred / (centred.square().sum(-1).unsqueeze(-1) / d + eps) ** 0.5


@EXERCISE.style("in float32, and back")
def in_float32(x, weight, bias, eps=1e-5):
    z = x.to(torch.float32)
    z = z - z.mean(-1, keepdim=True)
    z = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps)
    return weight * z.to(x.dtype) + bias


@EXERCISE.style("token by token, in a loop")
def token_by_token(x, weight, bias, eps=1e-5):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centred = token - token.mean()
        rows.append(centred / (centred.pow(2).mean() + eps).sqrt() * weight + bias)
    return torch.stack(rows).reshape(x.shape)


@EXERCISE.style("centred and summed by matrices")
def by_matrices(x, weight, bias, eps=1e-5):
    d = x.shape[-1]
    ones = torch.ones(d, d, dtype=x.dtype, device=x.device)
    centred = x - x @ ones / d
    variance = torch.einsum("...d,...d->...", centred, centred)[..., None] / d
    return centred / torch.sqrt(variance + eps) * weight + bias
