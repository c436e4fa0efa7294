"""ch04_multi_head/merge_heads: the heads side by side again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def separate(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads of width 3", (tensor(rng, 1, 2, 4, 3),))
    B, h, T, d_head = sizes(rng, (2, 4), (2, 5), (5, 8), (3, 7))
    yield Case(f"B = {B}, T = {T}, {h} heads of width {d_head}", (tensor(rng, B, h, T, d_head),))
    yield Case("one head", (tensor(rng, 2, 1, 4, 5),))
    yield Case("heads of width 1", (tensor(rng, 2, 4, 5, 1),))
    yield Case("a single token", (tensor(rng, 2, 3, 1, 4),))
    yield Case("a long sequence, 6 heads", (tensor(rng, 2, 6, 50, 4),))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 3, 2, 5, 4)),))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 3, 5, 4, dtype=torch.float64),))
    yield Case("bfloat16", (tensor(rng, 3, 2, 4, 5, dtype=torch.bfloat16),))


def comes_from(trial: Trial) -> str | None:
    """Every number of the result is a number of x: where from, if not from where it should be?"""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "head", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/merge_heads",
    signature="merge_heads(x)",
    goal="Put the heads of each token side by side: (B, h, T, d/h) to (B, T, d), the inverse of split_heads.",
    section="The cut",
    reference=heads.merge_heads,
    same=as_close,
    criteria=(
        Criterion("each token gets the channels of all its heads, head by head", 1, separate),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(separate), test=on_any_device),
        Criterion("gradients flow back to x", 0.25, differentiated(separate)),
        Criterion("x is left as it was", 0.25, separate, observes="arguments"),
    ),
    properties=(*FIRST, Property("each number comes from its place", comes_from), *LAST),
)


@EXERCISE.misconception(
    "Your tokens mix: a reshape straight to (B, T, d) joins what lies side by side in memory, which are "
    "tokens of one head. Exchange axes 1 and 2 first, then join the last two."
)
def reshape_without_transpose(x):
    B, h, T, d_head = x.shape
    return x.reshape(B, T, h * d_head)


@EXERCISE.misconception(
    "`view` cannot join axes whose numbers do not lie in memory in that order, as after a transpose. Use "
    ".reshape or .flatten, or .contiguous() in between.",
    gravity="slip",
)
def view_after_transpose(x):
    B, h, T, d_head = x.shape
    return x.transpose(1, 2).view(B, T, h * d_head)


@EXERCISE.misconception(
    "You weave the heads together: channel 0 of every head, then channel 1 of every head. Keep a head's "
    "channels neighbours: bring the axes into the order (B, T, h, d/h)."
)
def heads_interleaved(x):
    B, h, T, d_head = x.shape
    return x.permute(0, 2, 3, 1).reshape(B, T, h * d_head)


@EXERCISE.misconception(
    "You exchange axes 1 and 3, so that the channels stand where the tokens should. Exchange axes 1 and 2."
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
    "You string the heads together in time, (B, h*T, d/h). Put them side by side in the width: concatenate "
    "along the last axis."
)
def joined_in_time(x):
    return torch.cat(x.unbind(dim=1), dim=1)


@EXERCISE.misconception(
    "You add the heads up, so that none of them can be read any more. Put them side by side, and leave the "
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
    "You take the mean over the heads, so that none of them can be read any more. Put them side by side, and "
    "leave the mixing to W_o."
)
def averaged(x):
    return x.mean(dim=1)


@EXERCISE.style("two axes exchanged, two joined")
def transpose_reshape(x):
    B, h, T, d_head = x.shape
    return x.transpose(1, 2).reshape(B, T, h * d_head)


@EXERCISE.style("permute, contiguous, view")
def permute_view(x):
    x = x.permute(0, 2, 1, 3).contiguous()
    return x.view(x.size(0), x.size(1), -1)


@EXERCISE.style("the heads concatenated along the width")
def concatenated(x):
    return torch.cat([x[:, i] for i in range(x.shape[1])], dim=-1)


@EXERCISE.style("movedim and flatten")
def flatten(x):
    return torch.movedim(x, 1, 2).flatten(start_dim=-2)


@EXERCISE.style("an einsum that only names the axes")
def einsum(x):
    return torch.einsum("bhtd->bthd", x).reshape(x.shape[0], x.shape[2], -1)


@EXERCISE.style("written into a new tensor, head by head")
def head_by_head(x):
    B, h, T, d_head = x.shape
    out = x.new_empty(B, T, h * d_head)
    for i in range(h):
        out[..., i * d_head : (i + 1) * d_head] = x[:, i]
    return out


@EXERCISE.style("token by token")
def token_by_token(x):
    return torch.stack([x[:, :, t].flatten(1) for t in range(x.shape[2])], dim=1)
