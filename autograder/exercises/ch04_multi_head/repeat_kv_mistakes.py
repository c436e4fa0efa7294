"""Mistakes that people make in `repeat_kv`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.repeat_kv import EXERCISE


@EXERCISE.misconception(
    "You repeat the whole row of heads, 0, 1, 0, 1, as `repeat`, `tile` and `cat` do. Put the copies side "
    "by side, 0, 0, 1, 1, as repeat_interleave does: neighbouring query heads share a key head."
)
def tiled(x, num_groups):
    return x.repeat(1, num_groups, 1, 1)


@EXERCISE.misconception(
    "You repeat the tokens, axis 2. Repeat whole heads, axis 1; the number of tokens stays."
)
def tokens_repeated(x, num_groups):
    return x.repeat_interleave(num_groups, dim=2)


@EXERCISE.misconception(
    "You repeat the channels, the last axis. Repeat whole heads, axis 1; their width stays."
)
def channels_repeated(x, num_groups):
    return x.repeat_interleave(num_groups, dim=-1)


@EXERCISE.misconception(
    "You repeat the sequences of the batch, axis 0. Repeat the heads, axis 1 of (B, h_kv, T, d)."
)
def sequences_repeated(x, num_groups):
    return x.repeat_interleave(num_groups, dim=0)


@EXERCISE.misconception(
    "You flatten the tensor and repeat every number, as repeat_interleave does without `dim`. Say which "
    "axis: dim=1.",
    gravity="slip",
)
def flattened(x, num_groups):
    return x.repeat_interleave(num_groups)


@EXERCISE.misconception(
    "You leave the copies on an axis of their own, (B, h_kv, g, T, d). Join it with the heads: .flatten(1, "
    "2).",
    gravity="slip",
)
def left_apart(x, num_groups):
    return torch.stack([x] * num_groups, dim=2)


@EXERCISE.misconception(
    "Your new axis is behind the tokens, so that the reshape mixes copies with tokens. Put it right "
    "behind the heads: x[:, :, None], expand, then join axes 1 and 2."
)
def axis_behind_tokens(x, num_groups):
    B, h_kv, T, d = x.shape
    return x[:, :, :, None].expand(B, h_kv, T, num_groups, d).reshape(B, h_kv * num_groups, T, d)


@EXERCISE.misconception(
    "You treat num_groups as the number of heads that should come out. Make that many copies of each head: "
    "h_kv * num_groups heads come out."
)
def total_for_copies(x, num_groups):
    return x.repeat_interleave(max(1, num_groups // x.shape[1]), dim=1)


@EXERCISE.misconception(
    "You return each head num_groups + 1 times, one too many. Return it num_groups times.",
    gravity="slip",
)
def one_too_many(x, num_groups):
    return x.repeat_interleave(num_groups + 1, dim=1)


@EXERCISE.misconception(
    "You copy the first head for all. Copy every head of x: each has query heads of its own."
)
def first_head_for_all(x, num_groups):
    return x[:, :1].repeat_interleave(x.shape[1] * num_groups, dim=1)


@EXERCISE.misconception(
    "You divide the copies by their number. Copy each head as it is: every query head reads a full key and "
    "a full value."
)
def shared_out(x, num_groups):
    return x.repeat_interleave(num_groups, dim=1) / num_groups


@EXERCISE.misconception(
    "Your result is float32 and on the cpu, whatever x is, as torch.zeros makes it. Pass both on: "
    "torch.zeros(..., dtype=x.dtype, device=x.device), or x.new_zeros(...)."
)
def float32_on_the_cpu(x, num_groups):
    B, h_kv, T, d = x.shape
    out = torch.zeros(B, h_kv * num_groups, T, d)
    for i in range(h_kv * num_groups):
        out[:, i] = x[:, i // num_groups]
    return out


@EXERCISE.misconception(
    "You return float32 whatever comes in: float64 loses digits, bfloat16 doubles its memory. Leave the "
    "dtype of x as it is."
)
def made_float32(x, num_groups):
    return x.float().repeat_interleave(num_groups, dim=1)


@EXERCISE.misconception(
    "Only the first copy is tied to x, and the others are cut off. Let the gradient of every copy flow back: "
    "the gradients of the query heads of a group add up in their shared head."
)
def copies_cut_off(x, num_groups):
    copies = [x.detach()] * (num_groups - 1)
    return torch.stack([x, *copies], dim=2).flatten(1, 2)


@EXERCISE.misconception(
    "You change the caller's x, as a method that ends in an underscore does (`unsqueeze_`). Use the method "
    "without the underscore."
)
def changed_in_place(x, num_groups):
    return torch.cat([x.unsqueeze_(2)] * num_groups, dim=2).flatten(1, 2)


@EXERCISE.misconception(
    "No gradient flows back to x: the result is cut off from it, as by `.detach()` or `.data`, and keys and "
    "values never learn. Work on x itself."
)
def cut_off(x, num_groups):
    return x.detach().repeat_interleave(num_groups, dim=1)


@EXERCISE.misconception(
    "`view` cannot join axes whose numbers are stored in another order, as after expand. Use .reshape or "
    ".flatten.",
    gravity="slip",
)
def view_after_expand(x, num_groups):
    B, h_kv, T, d = x.shape
    return x[:, :, None].expand(B, h_kv, num_groups, T, d).view(B, h_kv * num_groups, T, d)
