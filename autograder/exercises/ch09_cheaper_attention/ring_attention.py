"""ch09_cheaper_attention/ring_attention: a sequence in shards; keys and values go round a ring of ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_cheaper_attention.drawing import CAUSAL, levelled, qkv
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, on_any_device
from autograder.exercises.library import ATTENTION
from autograder.exercises.weighing import (
    IN_FLOAT32,
    ROUGH,
    joined,
    nothing_from_the_future,
    softmax_of_scores,
    something_from,
    sum_to_one,
)
from tfcore import ring


def ring_attention(q_shards, k_shards, v_shards, causal=False):
    """Compute the reference answer: `tfcore`'s ring, its shards as a tuple of results."""
    return tuple(ring.ring_attention(q_shards, k_shards, v_shards, causal))


def shards(lengths: list[int], whole: tuple[Tensor, ...]) -> tuple[list[Tensor], ...]:
    """Cut queries, keys and values into shards of these lengths."""
    return tuple(list(x.split(lengths, dim=2)) for x in whole)


def drawn(
    rng: np.random.Generator, lengths: list[int], B: int = 1, h: int = 2, d: int = 3, **more: torch.dtype
) -> tuple[list[Tensor], ...]:
    """Draw shards of these lengths with moderate scores."""
    return shards(lengths, qkv(rng, B, h, sum(lengths), d, **more))


def attending(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("shards of 2 and 1 tokens", drawn(rng, [2, 1]))
    yield Case("two shards of 3 tokens", drawn(rng, [3, 3], B=2, h=1, d=4))
    B, h, d = sizes(rng, (2, 3), (2, 4), (5, 7))
    lengths = [int(n) for n in rng.permutation([1, 2, 3, 4])]
    yield Case(f"shards of {told(lengths)} tokens, B = {B}, h = {h}, d = {d}", drawn(rng, lengths, B, h, d))
    yield Case("one shard: plain attention", drawn(rng, [5], h=3, d=4))
    yield Case("five shards of 2 tokens", drawn(rng, [2] * 5))
    q, k, v = drawn(rng, [3, 2, 4], B=2, h=3, d=5)
    yield Case("shards that are not contiguous", tuple([strided(x) for x in part] for part in (q, k, v)))


def causal(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("shards of 2 and 1 tokens", drawn(rng, [2, 1]), CAUSAL)
    yield Case("two shards of 3 tokens", drawn(rng, [3, 3], B=2, h=1, d=4), CAUSAL)
    lengths = [int(n) for n in rng.permutation([1, 2, 4])]
    yield Case(f"shards of {told(lengths)} tokens", drawn(rng, lengths, h=3, d=5), CAUSAL)
    yield Case("shards of 3, 1, 2 and 5 tokens", drawn(rng, [3, 1, 2, 5], B=2, h=3, d=4), CAUSAL)
    yield Case("one shard", drawn(rng, [4], h=3, d=2), CAUSAL)


def large(rng: np.random.Generator) -> Iterator[Case]:
    rising = np.arange(6) * np.full((6, 1), 2e3)
    yield Case("scores around 10,000", shards([2, 3], levelled(rng, np.full((5, 5), 1e4))))
    yield Case("scores around -10,000", shards([3, 1], levelled(rng, np.full((4, 4), -1e4))))
    yield Case("scores that rise by 2,000 from token to token", shards([2, 3, 1], levelled(rng, rising)))
    yield Case("scores that fall by 2,000 from token to token", shards([1, 3, 2], levelled(rng, -rising)))
    far = np.where(np.arange(5)[:, None] % 2, -1e4, 1e4) * np.ones((5, 5))
    yield Case("scores of 10,000 in one row, of -10,000 in the next", shards([2, 3], levelled(rng, far)))
    ahead = np.arange(6) > np.arange(6)[:, None]
    later = levelled(rng, np.where(ahead, 1e4, 0.0))
    yield Case("causal, later tokens score 10,000", shards([2, 3, 1], later), CAUSAL)
    yield Case("causal, scores around -10,000", shards([3, 2], levelled(rng, np.full((5, 5), -1e4))), CAUSAL)


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, [2, 3], dtype=torch.float64))
    yield Case("float64, causal", drawn(rng, [2, 1, 3], h=3, d=4, dtype=torch.float64), CAUSAL)
    yield Case("bfloat16", drawn(rng, [3, 2], B=2, h=3, d=4, dtype=torch.bfloat16))
    yield Case("bfloat16, causal", drawn(rng, [1, 2, 2], dtype=torch.bfloat16), CAUSAL)


def soft(rng: np.random.Generator) -> Iterator[Case]:
    """Yield one case of each kind, for the criteria on gradients, devices and inputs."""
    yield Case("shards of 2 and 1 tokens", drawn(rng, [2, 1]))
    yield Case("shards of 1, 3 and 2 tokens, causal", drawn(rng, [1, 3, 2], dtype=torch.float64), CAUSAL)


def watched(rng: np.random.Generator) -> Iterator[Case]:
    lengths = [int(n) for n in rng.permutation([4, 5, 6])]
    given = drawn(rng, lengths, d=3)
    yield Case(f"shards of {told(lengths)} tokens", given, probe="visits")
    yield Case(f"shards of {told(lengths)} tokens, causal", given, CAUSAL, probe="visits")


def told(lengths: list[int]) -> str:
    return f"{', '.join(map(str, lengths[:-1]))} and {lengths[-1]}"


def one_shard_at_a_time(trial: Trial) -> str | None:
    """Check that each rank reads each shard once, holds one beside its own, and makes no T x T scores."""
    q_shards, k_shards, _ = trial.case.args
    ranks, T = len(q_shards), sum(q.shape[2] for q in q_shards)
    seen, names = trial.value, ("q_shards", "k_shards", "v_shards")
    for name, visits, together in zip(names, seen["visits"], seen["together"], strict=True):
        if name == "q_shards":
            continue
        if together > 2:
            return f"{together} of the {name} are put together; a rank holds its own and one more"
        if max(visits) > ranks:
            busiest = visits.index(max(visits))
            return (
                f"{ranks} ranks read {name}[{busiest}] {max(visits)} times; each rank reads each shard once"
            )
    B, h, _, d = q_shards[0].shape
    room = B * h * T * max(d, *(k.shape[2] for k in k_shards))
    if seen["largest"] > 1.5 * room:
        return (
            f"your largest tensor has {seen['largest']:,} numbers; all queries against one shard make "
            f"{room:,}, and a rank needs one shard at a time"
        )
    return None


def shards_of_the_queries(trial: Trial) -> str | None:
    """Check that each output belongs to the queries of its place."""
    lengths = [q.shape[2] for q in trial.case.args[0]]
    for r, output in enumerate(trial.value):
        for other in range(len(lengths)):
            if other != r and near(numbers(output), numbers(trial.expected[other])):
                return f"output {r} belongs to rank {other}; let out_shards[{r}] belong to q_shards[{r}]"
    return None


def any_cut(trial: Trial) -> str | None:
    """Check that the places of the cuts do not matter."""
    whole = [[torch.cat(part, dim=2)] for part in trial.case.args]
    alone = trial.call(Case("one shard", tuple(whole), trial.case.kwargs)).value
    if not near(joined(alone), joined(trial.expected)):
        return None
    return "all tokens in one shard come out right; the mistake is in how several shards are merged"


EXERCISE = Exercise(
    name="ch09_cheaper_attention/ring_attention",
    signature="ring_attention(q_shards, k_shards, v_shards, causal=False)",
    goal="Attend over a sequence in shards: each rank sees the keys and values of one other rank at a time.",
    section="A window, and a ring",
    minutes=20,
    difficulty="hard",
    reference=ring_attention,
    criteria=(
        Criterion("every query attends to the tokens of all shards", 0.875, attending),
        Criterion("causal: positions are counted in the whole sequence", 0.875, causal),
        Criterion(
            "each rank reads each shard once, one at a time", 0.25, watched, "cost", one_shard_at_a_time
        ),
        Criterion("scores as large as 10,000", 0.25, large),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach every shard", 0.25, differentiated(soft), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.125, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.125, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("each rank has its own queries", shards_of_the_queries),
        Property("weights sum to 1", sum_to_one(2)),
        Property("nothing comes from the future", nothing_from_the_future(2)),
        Property("every token that may be seen has a share", something_from(2, ring_attention)),
        Property("weights are in proportion to the exponentials of scaled scores", softmax_of_scores),
        *LAST,
        Property("sharding has no effect", any_cut),
    ),
    forbidden=ATTENTION,
)
