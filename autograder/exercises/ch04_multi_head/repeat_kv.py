"""ch04_multi_head/repeat_kv: one head of keys for several heads of queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device, whence
from tfcore.layers import heads


def shared(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads, 3 copies of each", (tensor(rng, 1, 2, 4, 5), 3))
    B, h_kv, T, d, groups = sizes(rng, (2, 4), (2, 4), (5, 8), (6, 9), (2, 5))
    yield Case(f"B = {B}, {h_kv} heads, {groups} copies of each", (tensor(rng, B, h_kv, T, d), groups))
    yield Case("one head for all", (tensor(rng, 3, 1, 5, 2), 4))
    yield Case("one copy of each", (tensor(rng, 2, 3, 4, 5), 1))
    yield Case("a single token", (tensor(rng, 2, 4, 1, 3), 2))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 3, 2, 5, 4)), 6))


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (tensor(rng, 2, 3, 5, 4, dtype=torch.float64), 2))
    yield Case("bfloat16", (tensor(rng, 3, 2, 4, 5, dtype=torch.bfloat16), 6))


def heads_come_from(trial: Trial) -> str | None:
    """Query head i reads from head i // num_groups: which one does it read from instead?"""
    x, num_groups = numbers(trial.case.args[0]), trial.case.args[1]
    if not numbers(trial.value).any():
        return "every number of the result is 0; copy the heads of x"
    for i, head in enumerate(np.moveaxis(numbers(trial.value), 1, 0)):
        copied = [j for j in range(x.shape[1]) if np.array_equal(head, x[:, j])]
        if copied and copied[0] != i // num_groups:
            return (
                f"head {i} of the result is a copy of head {copied[0]}; with {num_groups} copies of each, "
                f"side by side, it should be one of head {i // num_groups}"
            )
    return None


def comes_from(trial: Trial) -> str | None:
    """Every number of the result is a number of x: where from, if not from where it should be?"""
    return whence(trial.value, trial.expected, trial.case.args[0], ("sequence", "head", "token", "channel"))


EXERCISE = Exercise(
    name="ch04_multi_head/repeat_kv",
    signature="repeat_kv(x, num_groups)",
    goal="Copy each head of keys or values for the query heads that share it, copies side by side.",
    section="Groups: side by side, or tiled",
    reference=heads.repeat_kv,
    criteria=(
        Criterion("each head num_groups times, copies side by side", 1, shared),
        Criterion("the dtype of x is kept", 0.25, other_dtypes),
        Criterion("works on any device", 0.25, elsewhere(shared), test=on_any_device),
        Criterion("gradients of all copies flow back to x", 0.25, differentiated(shared)),
        Criterion("x is left as it was", 0.25, shared, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("query head i reads from head i // num_groups", heads_come_from),
        Property("each number comes from its place", comes_from),
        *LAST,
    ),
    forbidden=("transformers.models.llama.modeling_llama.repeat_kv",),
)


@EXERCISE.misconception(
    "You lay the whole row of heads down again, 0, 1, 0, 1, as `repeat`, `tile` and `cat` do. Put the "
    "copies side by side, 0, 0, 1, 1, as repeat_interleave does: neighbouring query heads share a key head."
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
    "Your new axis stands behind the tokens, so that joining it to the heads tears them apart. Put it right "
    "behind the heads: x[:, :, None], expand, then join axes 1 and 2."
)
def axis_behind_tokens(x, num_groups):
    B, h_kv, T, d = x.shape
    return x[:, :, :, None].expand(B, h_kv, T, num_groups, d).reshape(B, h_kv * num_groups, T, d)


@EXERCISE.misconception(
    "You take num_groups for the number of heads that should come out. Make that many copies of each head: "
    "h_kv * num_groups heads come out."
)
def total_for_copies(x, num_groups):
    return x.repeat_interleave(max(1, num_groups // x.shape[1]), dim=1)


@EXERCISE.misconception(
    "You put num_groups copies behind the head itself, one too many. With the head there are num_groups.",
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
    "Only the first copy is tied to x, the others are cut off. Let the gradient of every copy flow back: "
    "what the query heads of a group want of their shared head adds up."
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
    "`view` cannot join axes whose numbers do not lie in memory in that order, as after expand. Use .reshape "
    "or .flatten.",
    gravity="slip",
)
def view_after_expand(x, num_groups):
    B, h_kv, T, d = x.shape
    return x[:, :, None].expand(B, h_kv, num_groups, T, d).view(B, h_kv * num_groups, T, d)


@EXERCISE.style("repeat_interleave")
def repeat_interleave(x, num_groups):
    return x.repeat_interleave(num_groups, dim=1)


@EXERCISE.style("an axis put in, expanded and joined, as in Llama")
def expanded(x, num_groups):
    B, h_kv, T, d = x.shape
    x = x[:, :, None, :, :].expand(B, h_kv, num_groups, T, d)
    return x.reshape(B, h_kv * num_groups, T, d)


@EXERCISE.style("stacked behind the heads, then joined")
def stacked(x, num_groups):
    return torch.stack([x] * num_groups, dim=2).flatten(1, 2)


@EXERCISE.style("a list of heads in two loops")
def looped(x, num_groups):
    heads = []
    for i in range(x.shape[1]):
        for _ in range(num_groups):
            heads.append(x[:, i])
    return torch.stack(heads, dim=1)


@EXERCISE.style("looked up by the number of the head")
def looked_up(x, num_groups):
    return x[:, torch.arange(x.shape[1] * num_groups, device=x.device) // num_groups]


@EXERCISE.style("an axis repeated")
def repeated(x, num_groups):
    return x.unsqueeze(2).repeat(1, 1, num_groups, 1, 1).view(x.size(0), -1, x.size(2), x.size(3))


@EXERCISE.style("an einsum with ones")
def einsum(x, num_groups):
    ones = torch.ones(num_groups, dtype=x.dtype, device=x.device)
    return torch.einsum("bhtd,g->bhgtd", x, ones).flatten(1, 2)
