"""Mistakes that people make in `dequantize_kv`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.dequantize_kv import EXERCISE


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
    "Your result is 127 times too small: the scale is the size of a step already. Return q * scale, and do "
    "not divide by 127.",
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
