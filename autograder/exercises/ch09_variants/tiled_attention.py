"""ch09_variants/tiled_attention: the same numbers without the T x T matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import CAUSAL, IN_FLOAT32, ROUGH, levelled, qkv
from autograder.exercises.ch09_variants.weighing import (
    nothing_from_the_future,
    softmax_of_scores,
    something_from,
    sum_to_one,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import (
    FIRST,
    LAST,
    as_close,
    differentiated,
    elsewhere,
    index,
    near,
    on_any_device,
)
from autograder.exercises.library import ATTENTION
from tfcore.attention import attention, merge

MOST_BLOCKS = 9
"""Room for one block of scores at every step of a softmax, and for the output; all blocks are 15 or more."""


def tiled_attention(q, k, v, block_size, causal=False):
    """The reference: `tfcore`'s attention to one block of keys after another, merged."""
    position = torch.arange(q.shape[2], device=q.device)
    parts = (
        attention(q, *block, causal=causal, q_pos=position, k_pos=k_pos, backend="tiled", return_lse=True)
        for *block, k_pos in zip(
            k.split(block_size, dim=2), v.split(block_size, dim=2), position.split(block_size), strict=True
        )
    )
    return functools.reduce(lambda so_far, part: merge(*so_far, *part), parts)[0]


def even_blocks(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in blocks of 2", (*qkv(rng, 1, 3, 4, 5), 2))
    B, h, d = sizes(rng, (2, 3), (2, 5), (6, 9))
    yield Case(f"12 tokens in blocks of 4, B = {B}, h = {h}, d = {d}", (*qkv(rng, B, h, 12, d), 4))
    yield Case("one block that holds all 5 tokens", (*qkv(rng, 2, 3, 5, 4), 5))
    yield Case("heads of width 1", (*qkv(rng, 2, 3, 6, 1), 3))
    yield Case("10 blocks of 2", (*qkv(rng, 1, 2, 20, 3), 2))
    yield Case("tensors that are not contiguous", (*map(strided, qkv(rng, 3, 2, 9, 5)), 3))


def any_block(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a single token in a block of 2", (*qkv(rng, 2, 3, 1, 4), 2))
    yield Case("5 tokens in blocks of 2", (*qkv(rng, 1, 3, 5, 2), 2))
    yield Case("3 tokens, block_size = 8", (*qkv(rng, 2, 1, 3, 5), 8))
    yield Case("7 tokens in blocks of 3, causal", (*qkv(rng, 1, 2, 7, 5), 3), CAUSAL)
    yield Case("4 tokens in blocks of 1", (*qkv(rng, 1, 2, 4, 3), 1))
    T = int(rng.choice([10, 11, 13]))
    yield Case(f"{T} tokens in blocks of 4", (*qkv(rng, 2, 3, T, 6), 4))


def causal(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in blocks of 2", (*qkv(rng, 1, 3, 4, 5), 2), CAUSAL)
    yield Case("6 tokens in blocks of 3", (*qkv(rng, 2, 4, 6, 3), 3), CAUSAL)
    T = int(rng.choice([9, 10, 11]))
    yield Case(f"{T} tokens in blocks of 4", (*qkv(rng, 2, 3, T, 5), 4), CAUSAL)
    yield Case("blocks of 1", (*qkv(rng, 3, 2, 5, 4), 1), CAUSAL)
    yield Case("one block for all", (*qkv(rng, 2, 1, 5, 3), 9), CAUSAL)


def large(rng: np.random.Generator) -> Iterator[Case]:
    ahead = np.arange(6) - np.arange(6)[:, None]
    yield Case("scores around 10,000", (*levelled(rng, np.full((5, 5), 1e4)), 2))
    yield Case("scores around -10,000", (*levelled(rng, np.full((5, 5), -1e4)), 2))
    yield Case(
        "scores that rise by 2,000 from key to key", (*levelled(rng, np.arange(6) * np.full((6, 1), 2e3)), 2)
    )
    yield Case(
        "scores that fall by 2,000 from key to key", (*levelled(rng, np.arange(6) * np.full((6, 1), -2e3)), 4)
    )
    spread = 1e4 * np.array([rng.permutation(7) for _ in range(7)])
    yield Case("scores spread over 60,000", (*levelled(rng, spread), 3))
    far = np.where(np.arange(6)[:, None] % 2, -1e4, 1e4) * np.ones((6, 6))
    yield Case("scores of 10,000 in one row, of -10,000 in the next", (*levelled(rng, far), 2))
    future = np.where(ahead > 0, 1e4, 0.0)
    yield Case("causal, later keys score 10,000", (*levelled(rng, future), 3), CAUSAL)
    yield Case("causal, scores around -10,000", (*levelled(rng, np.full((6, 6), -1e4)), 4), CAUSAL)


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (*qkv(rng, 1, 2, 7, 3, dtype=torch.float64), 3))
    yield Case("float64, causal", (*qkv(rng, 2, 3, 5, 4, dtype=torch.float64), 2), CAUSAL)
    yield Case("bfloat16", (*qkv(rng, 2, 3, 6, 4, dtype=torch.bfloat16), 4))
    yield Case("bfloat16, causal", (*qkv(rng, 1, 2, 5, 3, dtype=torch.bfloat16), 2), CAUSAL)


def soft(rng: np.random.Generator) -> Iterator[Case]:
    """One case of each kind, for criteria beside the numbers."""
    yield Case("5 tokens in blocks of 3", (*qkv(rng, 1, 2, 5, 4), 3))
    yield Case("7 tokens in blocks of 3, causal", (*qkv(rng, 1, 2, 7, 4, dtype=torch.float64), 3), CAUSAL)


def steep(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    rising = np.arange(5) * np.full((5, 1), 1e3)
    yield Case("scores that rise by 1,000 from key to key", (*levelled(rng, rising, torch.float64), 2))


def long(rng: np.random.Generator) -> Iterator[Case]:
    """Metered with a mask too, whose positions are as easily made T x T as the scores."""
    T = 6 * int(rng.integers(15, 18))
    q, k, v = qkv(rng, 1, 2, T, 4, dtype=torch.float64)
    yield Case(f"{T} tokens in blocks of 6", (q, k, v, 6), metered=True)
    yield Case(f"{T} tokens in blocks of 6, causal", (q, k, v, 6), CAUSAL, metered=True)


def never_the_whole(trial: Trial) -> str | None:
    """No tensor is much larger than a block of scores for every query, and few of them are held at once."""
    if unseen := too_little(trial):
        return unseen
    q, _, _, block_size = trial.case.args
    B, h, T, d = q.shape
    cost = trial.outcome.cost
    if cost["largest"] > 2 * B * h * T * max(block_size, d):
        shape = tuple(int(n) for n in cost["largest_shape"])
        return (
            f"your largest tensor has the shape {shape}, {cost['largest']:,} numbers; T * block_size is only "
            f"{T * block_size:,} a head"
        )
    block = B * h * T * max(block_size, d) * q.element_size()
    if cost["peak_bytes"] > MOST_BLOCKS * block:
        return (
            f"no tensor is large, but {cost['peak_bytes']:,} bytes are held at once; one block of scores "
            f"takes {block:,}. Let go of a block before you make the next"
        )
    return None


def any_block_size(trial: Trial) -> str | None:
    """How the keys are cut into blocks does not matter."""
    *given, block_size = trial.case.args
    T = given[0].shape[2]
    whole = trial.call(replace(trial.case, args=(*given, T))).value
    one, other = numbers(trial.value), numbers(whole)
    wrong = ~np.isclose(one, other, rtol=1e-3, atol=1e-3)
    if not wrong.any():
        return None
    return (
        f"with block_size = {block_size} your output is {one[wrong][0]:.4g}{index(wrong)}, with all {T} in "
        f"one block it is {other[wrong][0]:.4g}; how the tokens are cut must not show"
    )


def each_block_alone(trial: Trial) -> str | None:
    """Where one block is right, the way from one block to the next is at fault."""
    *given, block_size = trial.case.args
    first = tuple(x[:, :, :block_size].clone() for x in given)
    if first[0].shape[2] == given[0].shape[2]:
        return None
    alone = trial.call(replace(trial.case, args=(*first, block_size))).value
    right = attention(*(x.double() for x in first), **trial.case.kwargs, backend="explicit")
    if not near(numbers(alone), numbers(right)):
        return None
    return (
        f"the first {block_size} tokens by themselves, one block, come out right; the mistake is in the step "
        "from one block to the next"
    )


EXERCISE = Exercise(
    name="ch09_variants/tiled_attention",
    signature="tiled_attention(q, k, v, block_size, causal=False)",
    goal="Compute softmax(Q K^T / sqrt(d)) V block by block, without ever making a T x T matrix.",
    section="A softmax in pieces",
    reference=tiled_attention,
    same=as_close,
    criteria=(
        Criterion("the numbers of attention, over blocks that divide T", 1, even_blocks),
        Criterion("any block size: a ragged last block, blocks of 1, one above T", 0.5, any_block),
        Criterion("causal: no token sees a later one", 1, causal),
        Criterion("never a T x T matrix: memory for T * block_size", 0.5, long, "cost", never_the_whole),
        Criterion("scores as large as 10,000", 0.25, large),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach q, k and v", 0.25, differentiated(steep), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.125, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.125, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("weights sum to 1", sum_to_one(2)),
        Property("nothing comes from the future", nothing_from_the_future(2)),
        Property("every token that may be seen has a share", something_from(2, tiled_attention)),
        Property("weights are in proportion to the exponentials of scaled scores", softmax_of_scores),
        *LAST,
        Property("the size of a block does not show", any_block_size),
        Property("one block or the step to the next", each_block_alone),
    ),
    forbidden=ATTENTION,
)


@EXERCISE.misconception(
    "What you have so far is not rescaled. When the maximum rises from m to m', multiply the running "
    "sum and the running output by exp(m - m'): both were divided by e^m.",
    gravity="useless",
)
def not_rescaled(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - peak)
        total = total + p.sum(-1, keepdim=True)
        out = out + p @ v[:, :, block]
    return out / total


@EXERCISE.misconception(
    "You rescale the running sum but not the running output. Multiply both by exp(old - new): both were "
    "made with the old maximum."
)
def output_not_rescaled(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        p = torch.exp(scores - new_peak)
        total = total * torch.exp(peak - new_peak) + p.sum(-1, keepdim=True)
        out = out + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You rescale by exp(new - old). Multiply by exp(old - new), which is at most 1: the old numbers "
    "were divided by e^old and should be divided by e^new."
)
def rescaled_the_wrong_way(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -1e30)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        factor = torch.exp(new_peak - peak) if j else 0
        p = torch.exp(scores - new_peak)
        total = total * factor + p.sum(-1, keepdim=True)
        out = out * factor + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You add up a softmax of each block, so that the weights of a query sum to the number of blocks. "
    "Add the numerators and the sums of all blocks instead, and divide at the end."
)
def softmax_of_each_block(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    out = torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -1e9)
        out = out + torch.softmax(scores, dim=-1) @ v[:, :, block]
    return out


@EXERCISE.misconception(
    "You average the attention of the blocks, as if all blocks weighed the same. Weigh each block by "
    "the sum of exponentials of its scores: keep that sum for each block."
)
def mean_over_blocks(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    parts = []
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -1e9)
        parts.append(torch.softmax(scores, dim=-1) @ v[:, :, block])
    return sum(parts) / len(parts)


@EXERCISE.misconception(
    "Each of your blocks of queries looks only at the keys of the same block. Let every query meet "
    "every block of keys: two loops, or all queries against one block of keys at a time.",
    gravity="useless",
)
def own_block_only(q, k, v, block_size, causal=False):
    outputs = []
    for q_block, k_block, v_block in zip(*(x.split(block_size, dim=2) for x in (q, k, v)), strict=True):
        scores = q_block @ k_block.mT / q.shape[-1] ** 0.5
        if causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(future, -torch.inf)
        outputs.append(torch.softmax(scores, dim=-1) @ v_block)
    return torch.cat(outputs, dim=2)


@EXERCISE.misconception(
    "A last block that is not full is lost, as with T // block_size. Step with range(0, T, block_size): "
    "a slice that ends beyond T is simply shorter.",
    gravity="slip",
)
def last_block_lost(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for i in range(q.shape[2] // block_size):
        block = slice(i * block_size, (i + 1) * block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Where the last block is not full, keys of zeros take part: their score is 0, not minus infinity. "
    "Let the last block be shorter, or mask what you have added."
)
def padded_with_zeros(q, k, v, block_size, causal=False):
    T = q.shape[2]
    missing = -T % block_size
    k, v = (F.pad(x, (0, 0, 0, missing)) for x in (k, v))
    position = torch.arange(T + missing, device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, T, block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:T, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your numbers are right, but you make all T x T scores at once, which is what tiling avoids. Take "
    "the keys block by block, and keep for each query a running maximum, a running sum and a running "
    "output."
)
def full_matrix(q, k, v, block_size, causal=False):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    return torch.softmax(scores, dim=-1) @ v


@EXERCISE.misconception(
    "Your scores come in blocks, but your causal mask is a T x T matrix. Make it for one block at a "
    "time, from the positions of its queries and its keys."
)
def full_mask(q, k, v, block_size, causal=False):
    T = q.shape[2]
    mask = torch.ones(T, T, dtype=torch.bool, device=q.device).tril()
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, T, block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(~mask[:, block], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your blocks pile up: together they are the T x T matrix again. Use a block at once for the running "
    "sums, and let go of it."
)
def all_blocks_kept(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    scores = [q @ k_block.mT / q.shape[-1] ** 0.5 for k_block in k.split(block_size, dim=2)]
    if causal:
        pairs = zip(scores, position.split(block_size), strict=True)
        scores = [s.masked_fill(cols > position[:, None], -torch.inf) for s, cols in pairs]
    peak = torch.stack([s.amax(-1) for s in scores]).amax(0)[..., None]
    weights = [torch.exp(s - peak) for s in scores]
    total = sum(p.sum(-1, keepdim=True) for p in weights)
    return sum(p @ v_block for p, v_block in zip(weights, v.split(block_size, dim=2), strict=True)) / total


@EXERCISE.misconception(
    "Your blocks have a size of their own. Use `block_size`: the caller knows how much memory there is."
)
def block_size_ignored(q, k, v, block_size, causal=False):
    block_size = 64
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You are causal from block to block only: inside its own block a token sees later tokens. Compare "
    "the positions of the tokens, not the numbers of their blocks.",
    gravity="useless",
)
def causal_by_block(q, k, v, block_size, causal=False):
    number = torch.arange(q.shape[2], device=q.device) // block_size
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(number[block] > number[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your triangle starts again in every block: key 0 of a block is taken for token 0. Positions go on "
    "from block to block: compare j + the place in the block with the query's position.",
    gravity="useless",
)
def triangle_in_each_block(q, k, v, block_size, causal=False):
    T = q.shape[2]
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, T, block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            lower = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
            scores = scores.masked_fill(~lower, -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "`causal` makes no difference. When it is True, mask the scores of keys whose position is after the "
    "query's, before you take the maximum of the block.",
    gravity="useless",
)
def causal_ignored(q, k, v, block_size, causal=False):
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for k_block, v_block in zip(k.split(block_size, dim=2), v.split(block_size, dim=2), strict=True):
        scores = q @ k_block.mT / q.shape[-1] ** 0.5
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v_block
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your default of `causal` is True. Write causal=False in the first line of the function.",
    gravity="slip",
)
def causal_by_default(q, k, v, block_size, causal=True):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your mask is turned round: each token sees itself and what comes after. Forbid a key when its "
    "position is *greater* than the query's.",
    gravity="useless",
)
def sees_the_future(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -1e30)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] < position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your running maximum counts keys that are masked: one with a large score pushes all that may be "
    "seen down to exp(-10000) = 0, and 0/0 is left. Mask the scores first, then take the maximum."
)
def maximum_before_the_mask(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        if causal:
            p = p * (position[block] <= position[:, None])
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "No maximum is subtracted: exp overflows where a score is large, and inf/inf is left. Keep a "
    "running maximum for each query, and rescale the sums when it rises."
)
def no_maximum(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    total, out = torch.zeros_like(q[..., :1]), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        p = torch.exp(q @ k[:, :, block].mT / q.shape[-1] ** 0.5)
        if causal:
            p = p * (position[block] <= position[:, None])
        total = total + p.sum(-1, keepdim=True)
        out = out + p @ v[:, :, block]
    return out / total


@EXERCISE.misconception(
    "Your running maximum does not start low enough: where all scores are far below its start, every "
    "exponential is 0, and 0/0 is left. Start at minus infinity, or at -1e30."
)
def maximum_starts_at_zero(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.zeros_like(q[..., :1])
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "One maximum for all rows, heads and sequences leaves 0/0 in a row that is far below it: every "
    "exponential there is 0. Subtract for each query the maximum of its own scores: scores.amax(-1, "
    "keepdim=True)."
)
def one_maximum_for_all(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -1e30)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.max())
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You rescale the running output but not the running sum. Multiply both by exp(old - new): both were "
    "made with the old maximum."
)
def sum_not_rescaled(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your new maximum forgets the old one: if a later block has smaller scores, exp(old - new) is above "
    "1 and can overflow. Take the larger of the maximum so far and that of the block."
)
def maximum_of_the_block(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -1e30)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -1e9)
        new_peak = scores.amax(-1, keepdim=True)
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your forbidden scores are 0, and e^0 = 1 is an ordinary weight. Fill them with minus infinity.",
    gravity="useless",
)
def filled_with_zero(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], 0.0)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your scores are not scaled. Divide q . k by sqrt(d): tiling changes the order of the sums, not the "
    "formula.",
    gravity="slip",
)
def no_scale(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You divide by the running sum after each block, and add the next one to what is already "
    "normalised. Keep the numerator, and divide once, after the last block."
)
def divided_in_the_loop(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = (out * old + p @ v[:, :, block]) / total
        peak = new_peak
    return out


@EXERCISE.misconception(
    "An operation in place, such as `scores -= ...`, writes over numbers that autograd needs, and "
    "backward fails. Write scores = scores - ..., which makes a new tensor."
)
def scores_changed_in_place(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        scores -= new_peak
        old, p = torch.exp(peak - new_peak), torch.exp(scores)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "No gradient reaches q, k and v, as under torch.no_grad(). Leave it out: it is for measuring, not "
    "for a layer."
)
def without_gradients(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    with torch.no_grad():
        for j in range(0, q.shape[2], block_size):
            block = slice(j, j + block_size)
            scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            total = total * old + p.sum(-1, keepdim=True)
            out = out * old + p @ v[:, :, block]
            peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Some of your tensors are float32 on the cpu, whatever comes in. Use zeros_like(q), or pass "
    "dtype=q.dtype, device=q.device to torch.zeros and torch.full."
)
def float32_on_the_cpu(q, k, v, block_size, causal=False):
    B, h, T, d = q.shape
    position = torch.arange(T)
    peak = torch.full((B, h, T, 1), -torch.inf)
    total, out = torch.zeros(B, h, T, 1), torch.zeros(B, h, T, d)
    for j in range(0, T, block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / d**0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak).to(v.dtype)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "Your positions or your mask are on the cpu and cannot meet what comes from a graphics card. Write "
    "torch.arange(T, device=q.device)."
)
def positions_on_the_cpu(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2])
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.misconception(
    "You write into the caller's queries, as `q /= sqrt(d)` does. Write q = q / sqrt(d), which makes a "
    "new tensor."
)
def queries_changed_in_place(q, k, v, block_size, causal=False):
    q /= q.shape[-1] ** 0.5
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.style("all queries, one block of keys after another, with a running maximum")
def running_maximum(q, k, v, block_size, causal=False):
    position = torch.arange(q.shape[2], device=q.device)
    peak = torch.full_like(q[..., :1], -torch.inf)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
        total = total * old + p.sum(-1, keepdim=True)
        out = out * old + p @ v[:, :, block]
        peak = new_peak
    return out / total


@EXERCISE.style("tiles in two loops, as in flash attention; later tiles skipped when causal")
def two_loops(q, k, v, block_size, causal=False):
    B, h, T, d = q.shape
    outputs = []
    for i in range(0, T, block_size):
        q_i = q[:, :, i : i + block_size] / math.sqrt(d)
        n = q_i.shape[2]
        peak = q.new_full((B, h, n), float("-inf"))
        total, out = q.new_zeros(B, h, n), q.new_zeros(B, h, n, d)
        for j in range(0, i + 1 if causal else T, block_size):
            k_j, v_j = k[:, :, j : j + block_size], v[:, :, j : j + block_size]
            scores = torch.einsum("bhid,bhjd->bhij", q_i, k_j)
            if causal and i == j:
                later = torch.ones(n, n, device=q.device).triu(1).bool()
                scores = torch.where(later, float("-inf"), scores)
            new_peak = torch.max(peak, scores.max(dim=-1).values)
            old = torch.exp(peak - new_peak)
            p = torch.exp(scores - new_peak[..., None])
            total = old * total + p.sum(dim=-1)
            out = old[..., None] * out + torch.einsum("bhij,bhjd->bhid", p, v_j)
            peak = new_peak
        outputs.append(out / total[..., None])
    return torch.cat(outputs, dim=2)


@EXERCISE.style("strips of queries, each with an ordinary softmax over all keys")
def strips(q, k, v, block_size, causal=False):
    T = q.shape[2]
    outputs = []
    for i in range(0, T, block_size):
        scores = q[:, :, i : i + block_size] @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            rows = torch.arange(i, i + scores.shape[2], device=q.device)
            scores = scores.masked_fill(torch.arange(T, device=q.device) > rows[:, None], -1e9)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(outputs, 2)


@EXERCISE.style("parts merged by their log-sum-exp, in float32 or wider")
def merged_by_log_sum_exp(q, k, v, block_size, causal=False):
    dtype, T = q.dtype, q.shape[2]
    q, k, v = (x.double() for x in (q, k, v))
    position = torch.arange(T, device=q.device)
    out, lse = torch.zeros_like(q), q.new_full((*q.shape[:3], 1), -1e30)
    for k_j, v_j, cols in zip(*(x.split(block_size, -2) for x in (k, v, position[:, None])), strict=True):
        scores = q @ k_j.mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[:, None] < cols.T, -1e30)
        part = scores.logsumexp(-1, keepdim=True)
        both = torch.logaddexp(lse, part)
        out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_j
        lse = both
    return out.to(dtype)


@EXERCISE.style("two passes over the keys: first the maximum, then the sums")
def two_passes(q, k, v, block_size, causal=False):
    T = q.shape[2]
    rows = torch.arange(T, device=q.device)[:, None]

    def scores_of(j):
        scores = q @ k[:, :, j : j + block_size].mT / q.shape[-1] ** 0.5
        cols = torch.arange(j, j + scores.shape[-1], device=q.device)
        return scores.masked_fill(cols > rows, -torch.inf) if causal else scores

    peak = scores_of(0).amax(-1, keepdim=True)
    for j in range(block_size, T, block_size):
        peak = torch.maximum(peak, scores_of(j).amax(-1, keepdim=True))
    numerator = denominator = 0
    for j in range(0, T, block_size):
        p = torch.exp(scores_of(j) - peak)
        numerator = numerator + p @ v[:, :, j : j + block_size]
        denominator = denominator + p.sum(-1, keepdim=True)
    return numerator / denominator


@EXERCISE.style("the running output kept normalised, its share updated block by block")
def running_mean(q, k, v, block_size, causal=False):
    T, d = q.shape[2:]
    mean, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e9)
    for j in range(0, T, block_size):
        n = min(block_size, T - j)
        scores = torch.matmul(q, k.narrow(2, j, n).transpose(2, 3)) / math.sqrt(d)
        if causal:
            later = torch.arange(j, j + n, device=q.device)[None] > torch.arange(T, device=q.device)[:, None]
            scores = scores + torch.zeros_like(scores).masked_fill(later, -1e9)
        part = torch.logsumexp(scores, dim=-1, keepdim=True)
        share = torch.sigmoid(part - lse)
        mean = mean + share * (torch.softmax(scores, -1) @ v.narrow(2, j, n) - mean)
        lse = torch.logaddexp(lse, part)
    return mean


@EXERCISE.style("head by head and query block by query block, written into the result")
def written_into_the_result(q, k, v, block_size, causal=False):
    out = torch.empty_like(q)
    B, h, T, d = q.shape
    for b in range(B):
        for head in range(h):
            for start in range(0, T, block_size):
                stop = min(start + block_size, T)
                end = stop if causal else T
                scores = q[b, head, start:stop] @ k[b, head, :end].T / d**0.5
                if causal:
                    visible = torch.ones_like(scores).tril(diagonal=start).bool()
                    scores[~visible] = float("-inf")
                scores = scores - scores.max(dim=-1, keepdim=True).values
                weights = scores.exp()
                out[b, head, start:stop] = weights @ v[b, head, :end] / weights.sum(-1, keepdim=True)
    return out
