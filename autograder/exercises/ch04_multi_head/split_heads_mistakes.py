"""Mistakes that people make in `split_heads`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch04_multi_head.split_heads import EXERCISE


@EXERCISE.misconception(
    "Your heads mix tokens: a `view` straight to (B, h, T, d/h) cuts the numbers in the wrong places. "
    "Cut the channels first, (B, T, h, d/h), then exchange axes 1 and 2."
)
def view_without_transpose(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, num_heads, T, d // num_heads)


@EXERCISE.misconception(
    "You cut the channels and leave the heads behind the tokens: (B, T, h, d/h). Bring the heads in front "
    "of the tokens, .transpose(1, 2), since attention treats all axes in front of (T, d/h) alike."
)
def heads_behind_tokens(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, d // num_heads)


@EXERCISE.misconception(
    "Your head 0 takes every h-th channel, as a cut into (d/h, h) gives. Make each head a block of "
    "neighbours, head 0 the first d/h channels: cut into (h, d/h)."
)
def heads_interleaved(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, d // num_heads, num_heads).permute(0, 3, 1, 2)


@EXERCISE.misconception(
    "You get d/h heads of width h: x.split(n) and torch.split take the *size* of a piece, not the number of "
    "pieces. Use x.chunk(num_heads, dim=-1), or pieces of d // num_heads.",
    gravity="slip",
)
def split_by_size(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@EXERCISE.misconception(
    "You cut the sequence, not the channels. Cut the last axis: every head reads the whole sequence and a "
    "part of the channels."
)
def time_cut(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.tensor_split(num_heads, dim=1), dim=1)


@EXERCISE.misconception(
    "Your heads are in front of the batch: (h, B, T, d/h). Put them behind it: stack with dim=1.",
    gravity="slip",
)
def heads_before_batch(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.chunk(num_heads, dim=-1))


@EXERCISE.misconception(
    "You cut into (d/h, h) and exchange axes 1 and 3, which puts the tokens last. Cut into (h, d/h) and "
    "exchange axes 1 and 2, tokens and heads."
)
def wrong_axes_exchanged(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, d // num_heads, num_heads).transpose(1, 3)


@EXERCISE.misconception(
    "You fold the heads into the batch, (B*h, T, d/h). The products still work, but give the heads an axis "
    "of their own: (B, h, T, d/h).",
    gravity="slip",
)
def folded_into_batch(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, -1).transpose(1, 2).reshape(B * num_heads, T, d // num_heads)


@EXERCISE.misconception(
    "You give every head all d channels. Give each d/h channels of its own: heads share the width, so that "
    "h heads cost no more than one."
)
def all_channels_for_each(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack([x] * num_heads, dim=1)


@EXERCISE.misconception(
    "You return a list of heads. Return one tensor, since attention multiplies all heads at once: "
    "torch.stack(heads, dim=1).",
    gravity="slip",
)
def list_of_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return list(x.chunk(num_heads, dim=-1))


@EXERCISE.misconception(
    "You do not check that the heads divide the width, and `//` drops the channels that are left over. "
    "Raise a ValueError when d % num_heads is not 0."
)
def no_error(x, num_heads):
    d_head = x.shape[-1] // num_heads
    return torch.stack([x[..., i * d_head : (i + 1) * d_head] for i in range(num_heads)], dim=1)


@EXERCISE.misconception(
    "You leave the check to torch, which raises a RuntimeError about shapes. Check first: if d % "
    "num_heads: raise ValueError(...)."
)
def left_to_reshape(x, num_heads):
    B, T, d = x.shape
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`."
)
def asserted(x, num_heads):
    B, T, d = x.shape
    assert d % num_heads == 0, "the heads do not divide the width"
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "Your result is float32 and on the cpu, whatever x is, as torch.zeros makes it. Pass both on: "
    "torch.zeros(..., dtype=x.dtype, device=x.device), or x.new_zeros(...)."
)
def float32_on_the_cpu(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    d_head = d // num_heads
    out = torch.zeros(B, num_heads, T, d_head)
    for i in range(num_heads):
        out[:, i] = x[:, :, i * d_head : (i + 1) * d_head]
    return out


@EXERCISE.misconception(
    "You return float32 whatever comes in: float64 loses digits, bfloat16 doubles its memory. Leave the "
    "dtype of x as it is."
)
def made_float32(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.float().reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "No gradient flows back to x: the result is cut off from it, as by `.data` or `.detach()`, and the "
    "layer in front of the heads never learns. Work on x itself."
)
def cut_off(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.data.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "You change the caller's x, as a method that ends in an underscore does (`unsqueeze_`). Use the method "
    "without the underscore."
)
def changed_in_place(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    x.unsqueeze_(1)
    return torch.cat(x.chunk(num_heads, dim=-1), dim=1)


@EXERCISE.misconception(
    "You fold the heads into the tokens, (B, h*T, d/h). Give the heads an axis of their own: (B, h, T, d/h)."
)
def folded_into_tokens(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, -1).transpose(1, 2).reshape(B, num_heads * T, d // num_heads)


@EXERCISE.misconception(
    "Your heads come last to first. Keep their order: head 0 has the first d/h channels.", gravity="slip"
)
def last_head_first(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, -1).transpose(1, 2).flip(1)
