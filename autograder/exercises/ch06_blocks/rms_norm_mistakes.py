"""Mistakes that people make in `rms_norm`, each with the hint for its author."""

from __future__ import annotations

import numpy as np
import torch

from autograder.exercises.ch06_blocks.rms_norm import EXERCISE


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
    "You divide by the mean square, so that doubling a token changes the result. Divide by its root."
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
    "You divide the sum of squares by d - 1. Nothing is estimated here: take the mean over all d channels.",
    gravity="slip",
)
def divided_by_d_minus_1(x, weight, eps=1e-6):
    mean_square = x.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
    return x / torch.sqrt(mean_square + eps) * weight


@EXERCISE.misconception(
    "You take the mean over axis 0, the batch: then a token depends on other tokens. Give each token its "
    "own: dim=-1, keepdim=True.",
    gravity="useless",
)
def over_the_batch(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=0, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You take the mean along axis 1, the last axis in a matrix, but the token axis in a batch (B, T, "
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
    "The mean square has lost its last axis: (B, T) does not broadcast with x, (B, T, d), or pairs with the "
    "wrong axis of it. Write keepdim=True."
)
def keepdim_forgotten(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1) + eps) * weight


@EXERCISE.misconception("You leave eps out, so a token of zeros gives 0/0. Add eps to the mean square.")
def no_eps(x, weight, eps=1e-6):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True)) * weight


@EXERCISE.misconception(
    "Another `eps` changes nothing: you always use 1e-6. Use the argument; models choose it (Llama 2 has "
    "1e-5)."
)
def eps_ignored(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight


@EXERCISE.misconception(
    "You multiply by 1 + weight, as Gemma does. Multiply by the weight itself.",
    gravity="slip",
)
def one_plus_weight(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * (1 + weight)


@EXERCISE.misconception("You leave the weight out. Multiply each channel by its weight after the norm.")
def weight_left_out(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


@EXERCISE.misconception(
    "The values are right, but no gradient passes through the root mean square. It depends on x: compute it "
    "without no_grad, detach or item."
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
    "You return float32 whatever comes in. Computing in float32 is wise, but go back at the end with "
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
    "dim=-1 is the axis of the channels, however many axes are in front.",
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
    "`view` cannot join axes of an x whose numbers are stored in another order. Take the mean along "
    "dim=-1, which keeps all axes, or use reshape.",
    gravity="slip",
)
def view_of_what_came(x, weight, eps=1e-6):
    rows = x.view(-1, x.shape[-1])
    return (rows * torch.rsqrt(rows.pow(2).mean(dim=-1, keepdim=True) + eps) * weight).view(x.shape)


@EXERCISE.misconception(
    "Your default for eps is 1e-5, as in layer_norm. Write eps=1e-6, the default of rms_norm."
)
def default_of_layer_norm(x, weight, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@EXERCISE.misconception(
    "You divide by the weight. Multiply each channel by its weight after the norm.", gravity="slip"
)
def divided_by_the_weight(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) / weight
