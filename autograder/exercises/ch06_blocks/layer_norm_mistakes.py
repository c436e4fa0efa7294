"""Mistakes that people make in `layer_norm`, each with the hint for its author."""

from __future__ import annotations

import numpy as np
import torch

from autograder.exercises.ch06_blocks.layer_norm import EXERCISE


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
    "You norm each channel over axis 0, the batch, as BatchNorm does: then a token depends on other tokens. "
    "Take mean and variance of each token, over dim=-1.",
    gravity="useless",
)
def over_the_batch(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=0, keepdim=True)
    variance = x.var(dim=0, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You norm along axis 1, which is the last axis of a matrix but the tokens of a batch (B, T, d). Count "
    "from the end: dim=-1 is the axis of the channels, however many axes are in front.",
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
    "The mean, or the variance, has lost its last axis: (B, T) does not broadcast with x, (B, T, d), or "
    "pairs with the wrong axis. Write keepdim=True for both."
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
    "mean square of x - mean."
)
def rms_norm_with_bias(x, weight, bias, eps=1e-5):
    mean_square = x.pow(2).mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight + bias


@EXERCISE.misconception(
    "You divide by the variance, so that doubling the spread changes the result. Divide by its root, the "
    "standard deviation."
)
def no_root(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + eps) * weight + bias


@EXERCISE.misconception(
    "You leave eps out, so a token whose channels are all alike gives 0/0. Add eps to the variance, under "
    "the root."
)
def no_eps(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance) * weight + bias


@EXERCISE.misconception(
    "Another `eps` changes nothing: you always use 1e-5. Use the argument; models choose it (BERT 1e-12, "
    "GPT-2 1e-5)."
)
def eps_ignored(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


@EXERCISE.misconception(
    "A large mean costs digits: E[x^2] - E[x]^2 is the variance on paper, but around 3,000 both "
    "terms are near 9,000,000, where float32 holds no fractions. Square x - mean instead."
)
def difference_of_squares(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.pow(2).mean(dim=-1, keepdim=True) - mean.pow(2)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You apply weight and bias first and norm the result, which removes their effect. Apply them after the "
    "norm."
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
    "The values are right, but no gradient passes through mean and variance. They depend on x: compute them "
    "without no_grad, detach or item."
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
    "You return float32 whatever comes in. Computing in float32 is wise, but go back at the end with "
    ".to(x.dtype)."
)
def left_in_float32(x, weight, bias, eps=1e-5):
    z = x.float()
    z = (z - z.mean(dim=-1, keepdim=True)) / torch.sqrt(z.var(dim=-1, keepdim=True, unbiased=False) + eps)
    return z * weight.float() + bias.float()


@EXERCISE.misconception(
    "The values are right, but no gradient passes through the variance. It depends on x: compute it without "
    "no_grad, detach or item."
)
def variance_without_gradient(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False).detach()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "The values are right, but no gradient passes through the mean. It depends on x: compute it without "
    "no_grad, detach or item."
)
def mean_without_gradient(x, weight, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True).detach()
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@EXERCISE.misconception(
    "You norm along axis 2, which is the last axis of a batch (B, T, d) only. Count from the end: dim=-1 "
    "is the axis of the channels, however many axes are in front.",
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
    "`view` cannot join axes of an x whose numbers are stored in another order. Take the mean along "
    "dim=-1, which keeps all axes, or use reshape.",
    gravity="slip",
)
def view_of_what_came(x, weight, bias, eps=1e-5):
    rows = x.view(-1, x.shape[-1])
    rows = rows - rows.mean(dim=-1, keepdim=True)
    variance = rows.square().mean(dim=-1, keepdim=True)
    return (rows / torch.sqrt(variance + eps) * weight + bias).view(x.shape)


@EXERCISE.misconception(
    "Your default for eps is 1e-6, as in rms_norm. Write eps=1e-5, the default of layer_norm."
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
