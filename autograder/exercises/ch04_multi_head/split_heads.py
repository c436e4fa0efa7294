"""ch04_multi_head/split_heads: from one wide row a token to h narrow ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.exercise import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads of width 3", (tensor(rng, 1, 4, 6), 2))
    B, T, h, d_head = sizes(rng, (2, 4), (5, 7), (2, 4), (3, 6))
    yield Case(f"B = {B}, T = {T}, {h} heads of width {d_head}", (tensor(rng, B, T, h * d_head), h))
    yield Case("one head", (tensor(rng, 2, 3, 5), 1))
    yield Case("heads of width 1", (tensor(rng, 2, 5, 4), 4))
    yield Case("a single token", (tensor(rng, 3, 1, 8), 2))
    yield Case("a long sequence, 6 heads", (tensor(rng, 2, 50, 24), 6))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 2, 7, 9)), 3))


def not_dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 heads for a width of 8", (tensor(rng, 2, 5, 8), 3))
    yield Case("more heads than channels", (tensor(rng, 2, 3, 4), 8))
    h = int(rng.integers(3, 7))
    yield Case("one channel too many", (tensor(rng, 2, 1, 3 * h + 1), h))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 5, 12, dtype=torch.float64), 3))
    yield Case("bfloat16", (tensor(rng, 3, 4, 10, dtype=torch.bfloat16), 2))


def comes_from(trial: Trial) -> str | None:
    """Every number of the result is a number of x: where from, if not from where it should be?"""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/split_heads",
    signature="split_heads(x, num_heads)",
    goal="Cut each token's d channels into h heads of width d/h: (B, T, d) to (B, h, T, d/h).",
    reference=heads.split_heads,
    same=as_close,
    criteria=(
        Criterion("each head gets its own channels of every token", 1.5, dividing),
        Criterion("a ValueError when the heads do not divide the width", 0.5, not_dividing),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(dividing), test=on_any_device),
        Criterion("gradients flow back to x", 0.25, differentiated(dividing)),
        Criterion("x is left as it was", 0.25, dividing, observes="arguments"),
    ),
    properties=(*FIRST, Property("each number comes from its place", comes_from), *LAST),
)


@EXERCISE.misconception(
    "`view` straight to (B, h, T, d/h) cuts the row of numbers elsewhere and mixes tokens with heads. Cut "
    "the channels first, (B, T, h, d/h), then exchange axes 1 and 2."
)
def view_without_transpose(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, num_heads, T, d // num_heads)


@EXERCISE.misconception(
    "You cut the channels and leave the heads behind the tokens: (B, T, h, d/h). Attention treats all axes "
    "in front of (T, d/h) alike, so the heads must stand there: .transpose(1, 2)."
)
def heads_behind_tokens(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, d // num_heads)


@EXERCISE.misconception(
    "Your head 0 takes every h-th channel: the view cuts into (d/h, h). A head is a block of neighbours, "
    "head 0 the first d/h channels: cut into (h, d/h)."
)
def heads_interleaved(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, d // num_heads, num_heads).permute(0, 3, 1, 2)


@EXERCISE.misconception(
    "`x.split(n)` and `torch.split` take the *size* of a piece, not the number of pieces. You get d/h heads "
    "of width h; use x.chunk(num_heads, dim=-1), or pieces of d // num_heads."
)
def split_by_size(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@EXERCISE.misconception(
    "You cut the sequence, not the channels. Every head reads the whole sequence; what it gets a part of is "
    "the last axis."
)
def time_cut(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.tensor_split(num_heads, dim=1), dim=1)


@EXERCISE.misconception(
    "The heads stand in front of the batch: (h, B, T, d/h). They belong behind it; stack with dim=1."
)
def heads_before_batch(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack(x.chunk(num_heads, dim=-1))


@EXERCISE.misconception(
    "You exchange axes 1 and 3, which puts the tokens last. Exchange axes 1 and 2, heads and tokens, and "
    "leave the width of a head last."
)
def wrong_axes_exchanged(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, d // num_heads, num_heads).transpose(1, 3)


@EXERCISE.misconception(
    "You fold the heads into the batch, (B*h, T, d/h). That multiplies as well, but the exercise asks for an "
    "axis of their own: (B, h, T, d/h)."
)
def folded_into_batch(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, -1).transpose(1, 2).reshape(B * num_heads, T, d // num_heads)


@EXERCISE.misconception(
    "You give every head all d channels. Heads share the width: each gets d/h channels of its own, so that h "
    "heads cost no more than one."
)
def all_channels_for_each(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return torch.stack([x] * num_heads, dim=1)


@EXERCISE.misconception(
    "You return a list of heads. Attention multiplies all heads at once, so they are one tensor: "
    "torch.stack(heads, dim=1)."
)
def list_of_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    return list(x.chunk(num_heads, dim=-1))


@EXERCISE.misconception(
    "You do not check that the heads divide the width, and `//` drops the channels that are left over. Raise "
    "a ValueError when d % num_heads is not 0."
)
def no_error(x, num_heads):
    d_head = x.shape[-1] // num_heads
    return torch.stack([x[..., i * d_head : (i + 1) * d_head] for i in range(num_heads)], dim=1)


@EXERCISE.misconception(
    "You leave it to `reshape` to complain, which raises a RuntimeError about shapes. Ask first: if d % "
    "num_heads: raise ValueError(...)."
)
def left_to_reshape(x, num_heads):
    B, T, d = x.shape
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "`assert` raises an AssertionError, and python -O leaves it out altogether. For a wrong argument write "
    "`raise ValueError(...)`."
)
def asserted(x, num_heads):
    B, T, d = x.shape
    assert d % num_heads == 0, "the heads do not divide the width"
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "torch.zeros makes float32 on the cpu, whatever x is. Hand both on: torch.zeros(..., dtype=x.dtype, "
    "device=x.device), or x.new_zeros(...)."
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
    "`.float()` turns whatever comes into float32: float64 loses digits, bfloat16 doubles its memory. Leave "
    "the dtype of x alone."
)
def made_float32(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.float().reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "`.data` (like `.detach()`) cuts the result off from x: no gradient flows back, and the layer in front "
    "of the heads never learns. Work on x itself."
)
def cut_off(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.data.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.misconception(
    "A method that ends in an underscore, such as `unsqueeze_`, changes the caller's x. Use the one without "
    "the underscore."
)
def changed_in_place(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    x.unsqueeze_(1)
    return torch.cat(x.chunk(num_heads, dim=-1), dim=1)


@EXERCISE.style("cut the last axis, then exchange two axes")
def reshape_transpose(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {d}")
    return x.reshape(B, T, num_heads, d // num_heads).transpose(1, 2)


@EXERCISE.style("view and permute")
def view_permute(x, num_heads):
    d_head, rest = divmod(x.size(-1), num_heads)
    if rest != 0:
        raise ValueError("num_heads must divide d")
    return x.view(*x.shape[:2], num_heads, d_head).permute(0, 2, 1, 3).contiguous()


@EXERCISE.style("slices, stacked")
def slices(x, num_heads):
    d_head = x.shape[-1] // num_heads
    if d_head * num_heads != x.shape[-1]:
        raise ValueError("num_heads must divide d")
    return torch.stack([x[..., i * d_head : (i + 1) * d_head] for i in range(num_heads)], dim=1)


@EXERCISE.style("chunks, joined along an axis of their own")
def chunks(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d")
    return torch.cat([piece.unsqueeze(1) for piece in torch.chunk(x, num_heads, dim=2)], dim=1)


@EXERCISE.style("unflatten and movedim")
def unflatten(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("num_heads must divide d")
    return torch.movedim(x.unflatten(-1, (num_heads, -1)), 2, 1)


@EXERCISE.style("an einsum that only names the axes")
def einsum(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError("num_heads must divide d")
    return torch.einsum("bthd->bhtd", x.reshape(B, T, num_heads, -1))


@EXERCISE.style("written into a new tensor, head by head")
def head_by_head(x, num_heads):
    B, T, d = x.shape
    if d % num_heads:
        raise ValueError("num_heads must divide d")
    d_head = d // num_heads
    out = torch.empty(B, num_heads, T, d_head, dtype=x.dtype, device=x.device)
    for head in range(num_heads):
        for i in range(d_head):
            out[:, head, :, i] = x[:, :, head * d_head + i]
    return out


@EXERCISE.style("channels looked up by their number")
def looked_up(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d")
    channel = torch.arange(x.shape[-1], device=x.device).view(num_heads, -1)
    return x[:, :, channel].swapaxes(1, 2)
