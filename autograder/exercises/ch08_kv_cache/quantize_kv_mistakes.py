"""Mistakes that people make in `quantize_kv`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.quantize_kv import EXERCISE


@EXERCISE.misconception(
    "One scale serves all channels, so the largest channel sets the step and small channels may become "
    "zeros. Take the maximum over the tokens alone: amax(dim=2, keepdim=True)."
)
def one_scale_for_all(x):
    scale = x.abs().max() / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You have one scale for each token, from the maximum over the channels, but the channels of the keys "
    "differ in size. Take the maximum over the tokens, dim=2."
)
def one_scale_for_each_token(x):
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "All channels of a head share a scale, the maximum over tokens *and* channels. Take it over the tokens "
    "alone, dim=2."
)
def one_scale_for_each_head(x):
    scale = x.abs().amax(dim=(2, 3), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Heads and sequences share their scales. Take the maximum over the tokens alone, dim=2, so that the "
    "scale has shape (B, h, 1, d)."
)
def one_scale_for_all_heads(x):
    scale = x.abs().amax(dim=(0, 1, 2), keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your step is max / 128, so the largest number becomes 128, which int8 turns into -128. Divide the "
    "maximum by 127.",
    gravity="slip",
)
def divided_by_128(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Your step is max / 128, so the largest number is 128 steps, and 127 is all that int8 can hold. Divide "
    "the maximum by 127.",
    gravity="slip",
)
def divided_by_128_and_clamped(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 128
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your numbers are cut off towards 0, as a cast to int8 does: 3.9 becomes 3, and the largest error "
    "doubles. Round first, with torch.round.",
    gravity="slip",
)
def truncated(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You round down, but the nearest step may be above. Write torch.round, not torch.floor.", gravity="slip"
)
def rounded_down(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).floor().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You take the largest number with its sign, but a channel may reach further below zero. Write "
    "x.abs().amax(dim=2, keepdim=True)."
)
def signed_maximum(x):
    scale = x.amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "A channel of zeros has the scale 0, and 0/0 is NaN, whose cast to int8 is undefined. Divide by "
    "something else there: torch.where(scale == 0, 1, scale)."
)
def divided_by_zero(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "In half precision x / scale comes out as 127.5 now and then, is rounded to 128, and int8 turns that "
    "into -128. Clamp to -127 ... 127 before the cast."
)
def wraps_in_half_precision(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    safe = torch.where(scale == 0, 1.0, scale)
    return (x / safe).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Two things that int8 cannot hold are cast to it: NaN, from 0/0 in a channel of zeros, and 128, in half "
    "precision. Divide by 1 where the scale is 0, and clamp to -127 ... 127."
)
def nothing_guarded(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return (x / scale).round().to(torch.int8), scale


@EXERCISE.misconception(
    "Something is added to every scale, which makes all channels slightly wrong. Change only scales that are "
    "0: torch.where(scale == 0, 1, scale)."
)
def epsilon_added(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127 + 1e-3
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your scale is the largest number of the channel, not the size of a step. Divide it by 127.",
    gravity="slip",
)
def maximum_for_scale(x):
    largest = x.abs().amax(dim=2, keepdim=True)
    safe = torch.where(largest == 0, 1.0, largest)
    return (x / safe * 127).round().clamp(-127, 127).to(torch.int8), largest


@EXERCISE.misconception(
    "Your scale is upside down: 127 / max is the number of steps in a unit. Return the size of a step, "
    "max / 127.",
    gravity="slip",
)
def inverted_scale(x):
    scale = 127 / x.abs().amax(dim=2, keepdim=True).clamp(min=1e-12)
    return (x * scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q holds whole numbers in the dtype of x, which take as much memory as before. Cast them: "
    ".to(torch.int8).",
    gravity="slip",
)
def never_cast(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127), scale


@EXERCISE.misconception(
    "Your scale has lost the axis of the tokens, so the division fails or pairs the wrong numbers. Keep it, "
    "with keepdim=True: the scale has shape (B, h, 1, d).",
    gravity="slip",
)
def keepdim_forgotten(x):
    scale = x.abs().amax(dim=2) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your scale is always float32. Return it in the dtype of x, so that numbers restored with it have that "
    "dtype too."
)
def scale_in_float32(x):
    x = x.float()
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You stretch each channel from its smallest to its largest number, which moves the zero and needs a "
    "second number to undo. Take steps of max |x| / 127, so that 0 stays 0."
)
def from_minimum_to_maximum(x):
    low, high = x.amin(dim=2, keepdim=True), x.amax(dim=2, keepdim=True)
    scale = (high - low) / 254
    scale = torch.where(scale == 0, 1.0, scale)
    return ((x - low) / scale - 127).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "You write into the caller's keys, as `x /= scale` does. Write x / scale, which makes a new tensor."
)
def changed_in_place(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    scale = torch.where(scale == 0, 1.0, scale)
    x /= scale
    return x.round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q holds -128: in half precision the scale is rounded too, and x / scale comes out below -127.5. "
    "Clamp at both ends, to -127 ... 127.",
    gravity="slip",
)
def lower_end_open(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    return torch.nan_to_num(x.float() / scale.float(), nan=0.0).round().clamp(max=127).char(), scale


@EXERCISE.misconception(
    "In float16 a channel of zeros still gives NaN: a lower bound such as 1e-12 is 0 there. Divide by "
    "torch.where(scale == 0, 1, scale)."
)
def guard_too_small_for_float16(x):
    scale = (x.abs().amax(dim=2, keepdim=True) / 127).clamp(min=1e-12)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


@EXERCISE.misconception(
    "Your q is on the cpu, wherever x is. Make new tensors on the device of x, with device=x.device.",
    gravity="slip",
)
def left_on_the_cpu(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    q = torch.zeros(x.shape, dtype=torch.int8, device="cpu")
    q[:] = (x / torch.where(scale == 0, 1.0, scale)).round().clamp(-127, 127)
    return q, scale


@EXERCISE.misconception("You return the scale first. Return q, then the scale.", gravity="slip")
def results_swapped(x):
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    step = torch.where(scale == 0, 1.0, scale)
    return scale, (x / step).round().clamp(-127, 127).to(torch.int8)
