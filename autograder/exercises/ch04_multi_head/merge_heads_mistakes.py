"""Mistakes that people make in `merge_heads`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.merge_heads import EXERCISE


@EXERCISE.misconception(
    "Your tokens mix: a reshape straight to (B, T, d) joins numbers that are neighbours in memory, and "
    "these belong to different tokens of one head. Exchange axes 1 and 2 first, then join the last two."
)
def reshape_without_transpose(x):
    B, h, T, d_head = x.shape
    return x.reshape(B, T, h * d_head)


@EXERCISE.misconception(
    "`view` cannot join axes whose numbers are stored in another order, as after a transpose. Use .reshape "
    "or .flatten, or .contiguous() in between.",
    gravity="slip",
)
def view_after_transpose(x):
    B, h, T, d_head = x.shape
    return x.transpose(1, 2).view(B, T, h * d_head)


@EXERCISE.misconception(
    "You interleave the heads: channel 0 of every head, then channel 1 of every head. Keep the "
    "channels of a head next to each other: bring the axes into the order (B, T, h, d/h)."
)
def heads_interleaved(x):
    B, h, T, d_head = x.shape
    return x.permute(0, 2, 3, 1).reshape(B, T, h * d_head)


@EXERCISE.misconception(
    "You exchange axes 1 and 3, so that the channels are where the tokens should be. Exchange axes 1 and 2."
)
def wrong_axes_exchanged(x):
    B, h, T, d_head = x.shape
    return x.transpose(1, 3).reshape(B, T, h * d_head)


@EXERCISE.misconception(
    "You exchange the axes and leave the heads apart: (B, T, h, d/h). Join the last two: .flatten(2)."
)
def left_apart(x):
    return x.transpose(1, 2)


@EXERCISE.misconception(
    "You join the heads along the time axis, (B, h*T, d/h). Put them side by side in the width: concatenate "
    "along the last axis."
)
def joined_in_time(x):
    return torch.cat(x.unbind(dim=1), dim=1)


@EXERCISE.misconception(
    "You add the heads up, so that they can no longer be told apart. Put them side by side, and leave the "
    "mixing to W_o."
)
def added_up(x):
    return x.sum(dim=1)


@EXERCISE.misconception("You return head 0 alone. Give each token the channels of all h heads.")
def first_head_alone(x):
    return x[:, 0]


@EXERCISE.misconception(
    "You join the batch into the width as well. Keep sequences apart: the result has the shape (B, T, d)."
)
def batch_joined(x):
    B, h, T, d_head = x.shape
    return x.permute(2, 0, 1, 3).reshape(T, B * h * d_head)


@EXERCISE.misconception(
    "You join the heads last to first. Keep their order: head 0 has the first d/h channels.",
    gravity="slip",
)
def reversed_heads(x):
    return torch.cat([x[:, i] for i in reversed(range(x.shape[1]))], dim=-1)


@EXERCISE.misconception(
    "Your result is float32 and on the cpu, whatever x is, as torch.zeros makes it. Pass both on: "
    "torch.zeros(..., dtype=x.dtype, device=x.device), or x.new_zeros(...)."
)
def float32_on_the_cpu(x):
    B, h, T, d_head = x.shape
    out = torch.zeros(B, T, h * d_head)
    for i in range(h):
        out[:, :, i * d_head : (i + 1) * d_head] = x[:, i]
    return out


@EXERCISE.misconception(
    "You return float32 whatever comes in: float64 loses digits, bfloat16 doubles its memory. Leave the "
    "dtype of x as it is."
)
def made_float32(x):
    return x.float().transpose(1, 2).flatten(2)


@EXERCISE.misconception(
    "No gradient flows back to x: the result is cut off from it, as by `.detach()` or `.data`, and the "
    "heads never learn. Work on x itself."
)
def cut_off(x):
    return x.detach().transpose(1, 2).flatten(2)


@EXERCISE.misconception(
    "You change the caller's x, as a method that ends in an underscore does (`transpose_`). Use the method "
    "without the underscore."
)
def changed_in_place(x):
    return x.transpose_(1, 2).flatten(2)


@EXERCISE.misconception(
    "You take the mean over the heads, so that they can no longer be told apart. Put them side by side, and "
    "leave the mixing to W_o."
)
def averaged(x):
    return x.mean(dim=1)
