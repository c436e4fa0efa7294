"""ch04_multi_head/split_heads: from one wide row a token to h narrow ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
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
    section="The cut",
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
    "Your heads mix tokens: a `view` straight to (B, h, T, d/h) cuts the row of numbers elsewhere. Cut the "
    "channels first, (B, T, h, d/h), then exchange axes 1 and 2."
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
    "The heads stand in front of the batch: (h, B, T, d/h). Put them behind it: stack with dim=1.",
    gravity="slip",
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
    "You fold the heads into the batch, (B*h, T, d/h). That multiplies as well, but give the heads an axis "
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
    "You leave it to torch to complain, which raises a RuntimeError about shapes. Ask first: if d % "
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
