"""ch09_cheaper_attention/tiled_attention: the same numbers without the T x T matrix."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_cheaper_attention.drawing import CAUSAL, levelled, qkv
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
from autograder.exercises.weighing import (
    IN_FLOAT32,
    ROUGH,
    nothing_from_the_future,
    slack,
    softmax_of_scores,
    something_from,
    sum_to_one,
)
from tfcore.attention import attention, merge

MOST_BLOCKS = 9
"""The most blocks held at once: one for each step of a softmax, and the output; T has 15 blocks or more."""


def tiled_attention(q, k, v, block_size, causal=False):
    """Compute the reference answer: `tfcore`'s attention to one block of keys after another, merged."""
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
    """Yield one case of each kind, for the criteria on gradients, devices and inputs."""
    yield Case("5 tokens in blocks of 3", (*qkv(rng, 1, 2, 5, 4), 3))
    yield Case("7 tokens in blocks of 3, causal", (*qkv(rng, 1, 2, 7, 4, dtype=torch.float64), 3), CAUSAL)


def steep(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    rising = np.arange(5) * np.full((5, 1), 1e3)
    yield Case("scores that rise by 1,000 from key to key", (*levelled(rng, rising, torch.float64), 2))


def long(rng: np.random.Generator) -> Iterator[Case]:
    """Yield metered cases, also with a causal mask, which could be T x T like the scores."""
    T = 6 * int(rng.integers(15, 18))
    q, k, v = qkv(rng, 1, 2, T, 4, dtype=torch.float64)
    yield Case(f"{T} tokens in blocks of 6", (q, k, v, 6), metered=True)
    yield Case(f"{T} tokens in blocks of 6, causal", (q, k, v, 6), CAUSAL, metered=True)


def never_the_whole(trial: Trial) -> str | None:
    """Check that no tensor is much larger than a block of scores for all queries, and few exist at once."""
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
    """Check that the size of the blocks does not matter."""
    *given, block_size = trial.case.args
    T = given[0].shape[2]
    whole = trial.call(replace(trial.case, args=(*given, T))).value
    one, other = numbers(trial.value), numbers(whole)
    close = slack(trial)
    wrong = ~np.isclose(one, other, rtol=close, atol=close)
    if not wrong.any():
        return None
    return (
        f"with block_size = {block_size} your output is {one[wrong][0]:.4g}{index(wrong)}, with all {T} in "
        f"one block it is {other[wrong][0]:.4g}; how the tokens are cut must not matter"
    )


def each_block_alone(trial: Trial) -> str | None:
    """Find a wrong step from one block to the next: a single block is right."""
    *given, block_size = trial.case.args
    first = tuple(x[:, :, :block_size].clone() for x in given)
    if first[0].shape[2] == given[0].shape[2]:
        return None
    alone = trial.call(replace(trial.case, args=(*first, block_size))).value
    right = attention(*(x.double() for x in first), **trial.case.kwargs, backend="explicit")
    if not near(numbers(alone), numbers(right)):
        return None
    return (
        f"the first {block_size} tokens alone, in one block, come out right; the mistake is in the step "
        "from one block to the next"
    )


EXERCISE = Exercise(
    name="ch09_cheaper_attention/tiled_attention",
    signature="tiled_attention(q, k, v, block_size, causal=False)",
    goal="Compute softmax(Q K^T / sqrt(d)) V block by block, without ever making a T x T matrix.",
    section="A softmax in pieces",
    minutes=25,
    difficulty="hard",
    reference=tiled_attention,
    same=as_close,
    criteria=(
        Criterion("the numbers of attention, over blocks that divide T", 1, even_blocks),
        Criterion("any block size: a shorter last block, size 1, a size above T", 0.5, any_block),
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
        Property("the block size has no effect", any_block_size),
        Property("blocks are joined correctly", each_block_alone),
    ),
    forbidden=ATTENTION,
)
