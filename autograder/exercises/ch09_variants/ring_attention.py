"""ch09_variants/ring_attention: a sequence in shards, whose keys and values go round a ring of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import CAUSAL, IN_FLOAT32, ROUGH, levelled, qkv
from autograder.exercises.ch09_variants.weighing import (
    joined,
    nothing_from_the_future,
    softmax_of_scores,
    something_from,
    sum_to_one,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, on_any_device
from autograder.exercises.library import ATTENTION
from tfcore import ring


def ring_attention(q_shards, k_shards, v_shards, causal=False):
    """The reference: `tfcore`'s ring, its shards as a tuple of results."""
    return tuple(ring.ring_attention(q_shards, k_shards, v_shards, causal))


def shards(lengths: list[int], whole: tuple[Tensor, ...]) -> tuple[list[Tensor], ...]:
    """Queries, keys and values, cut into shards of these lengths."""
    return tuple(list(x.split(lengths, dim=2)) for x in whole)


def drawn(
    rng: np.random.Generator, lengths: list[int], B: int = 1, h: int = 2, d: int = 3, **more: torch.dtype
) -> tuple[list[Tensor], ...]:
    """Shards of these lengths with soft scores."""
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
    """One case of each kind, for criteria beside the numbers."""
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
    """Each rank reads each shard once; it holds one beside its own, and there are no T x T scores."""
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
            f"{room:,}, and one shard is there at a time"
        )
    return None


def shards_of_the_queries(trial: Trial) -> str | None:
    """Each output belongs to the queries of its place."""
    lengths = [q.shape[2] for q in trial.case.args[0]]
    for r, output in enumerate(trial.value):
        for other in range(len(lengths)):
            if other != r and near(numbers(output), numbers(trial.expected[other])):
                return f"output {r} belongs to rank {other}; let out_shards[{r}] belong to q_shards[{r}]"
    return None


def any_cut(trial: Trial) -> str | None:
    """The places of the cuts do not matter."""
    whole = [[torch.cat(part, dim=2)] for part in trial.case.args]
    alone = trial.call(Case("one shard", tuple(whole), trial.case.kwargs)).value
    if not near(joined(alone), joined(trial.expected)):
        return None
    return (
        "all tokens in one shard come out right; the mistake is in how the parts of several are put together"
    )


EXERCISE = Exercise(
    name="ch09_variants/ring_attention",
    signature="ring_attention(q_shards, k_shards, v_shards, causal=False)",
    goal="Attend over a sequence in shards: each rank sees the keys and values of one other rank at a time.",
    section="A window, and a ring",
    reference=ring_attention,
    criteria=(
        Criterion("every query attends to the tokens of all shards", 0.875, attending),
        Criterion("causal: positions count in the whole sequence", 0.875, causal),
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
        Property("the cut into shards does not show", any_cut),
    ),
    forbidden=ATTENTION,
)


@EXERCISE.misconception(
    "Each rank attends to its own shard only. Let the keys and values of every rank come by, one shard "
    "after another, and merge what each of them gives.",
    gravity="useless",
)
def own_shard_only(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for q, k, v in zip(q_shards, k_shards, v_shards, strict=True):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
    return outputs


@EXERCISE.misconception(
    "Your outputs are moved on by one rank. The queries never move: return the output of q_shards[r] as "
    "out_shards[r].",
    gravity="slip",
)
def outputs_moved_on(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs[-1:] + outputs[:-1]


@EXERCISE.misconception(
    "Your numbers are right, but you put all shards together, and the sequence is too long for one "
    "rank. Take one shard of keys and values at a time and merge."
)
def concatenated(q_shards, k_shards, v_shards, causal=False):
    k, v = torch.cat(k_shards, dim=2), torch.cat(v_shards, dim=2)
    outputs, start = [], 0
    for q in q_shards:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if causal:
            rows = start + torch.arange(q.shape[2], device=q.device)
            scores = scores.masked_fill(torch.arange(k.shape[2], device=q.device) > rows[:, None], -torch.inf)
        outputs.append(torch.softmax(scores, dim=-1) @ v)
        start += q.shape[2]
    return outputs


@EXERCISE.misconception(
    "You add up the attention to each shard, so that the weights of a query sum to the number of "
    "shards. Weigh each shard by the sum of exponentials of its scores: keep that sum too."
)
def parts_added(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        out = torch.zeros_like(q)
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -1e9)
            out = out + torch.softmax(scores, dim=-1) @ v
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "You take the mean over the shards, as if each weighed the same. Weigh each by the sum of "
    "exponentials of its scores: a shard that the query likes counts for more."
)
def parts_averaged(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        parts = []
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -1e9)
            parts.append(torch.softmax(scores, dim=-1) @ v)
        outputs.append(torch.stack(parts).mean(0))
    return outputs


@EXERCISE.misconception(
    "What a rank has so far is not rescaled. When a shard brings a larger maximum, multiply the running "
    "sum and the running output by exp(old - new): they were made with the old one.",
    gravity="useless",
)
def not_rescaled(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        peak, total, out = -torch.inf * torch.ones_like(q[..., :1]), 0, 0
        for step in range(len(q_shards)):
            s = r - step
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -torch.inf)
            peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            p = torch.exp(scores - peak)
            total, out = total + p.sum(-1, keepdim=True), out + p @ v_shards[s]
        outputs.append(out / total)
    return outputs


@EXERCISE.misconception(
    "You weigh the parts by the maxima of their scores. Weigh them by the log-sum-exp of their scores: "
    "the share of a part is its *sum* of exponentials."
)
def merged_by_maxima(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        parts, peaks = [], []
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -1e9)
            parts.append(torch.softmax(scores, dim=-1) @ v)
            peaks.append(scores.amax(-1, keepdim=True))
        outputs.append((torch.softmax(torch.stack(peaks), dim=0) * torch.stack(parts)).sum(0))
    return outputs


@EXERCISE.misconception(
    "`causal` makes no difference. When it is True, leave out the shards of later ranks, and inside its "
    "own shard let a token see only itself and what came before.",
    gravity="useless",
)
def causal_ignored(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for step in range(len(q_shards)):
            s = r - step
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Your default of `causal` is True. Write causal=False in the first line of the function.",
    gravity="slip",
)
def causal_by_default(q_shards, k_shards, v_shards, causal=True):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Every shard seems to start at token 0. Add the lengths of all shards before it: a token's position "
    "counts from the start of the whole sequence."
)
def positions_inside_the_shard(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for step in range(len(q_shards)):
            s = r - step
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Your shards start at rank * length, as if all were as long as this one. Lengths differ: start a "
    "shard after the sum of the lengths of all shards before it.",
    gravity="slip",
)
def shards_of_one_length(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        rows = r * q.shape[2] + torch.arange(q.shape[2], device=q.device)
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for step in range(len(q_shards)):
            s = (r - step) % len(q_shards)
            k, v = k_shards[s], v_shards[s]
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                cols = s * k.shape[2] + torch.arange(k.shape[2], device=q.device)
                scores = scores.masked_fill(cols > rows[:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Shards of later ranks are left out, but inside its own shard a token still sees later tokens. Mask "
    "the own shard with the triangle.",
    gravity="useless",
)
def own_shard_open(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(r + 1 if causal else len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "The own shard is masked, but shards of later ranks still count. When it is causal, leave out every "
    "shard s > r for rank r: its tokens come later.",
    gravity="useless",
)
def later_shards_open(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s, (k, v) in enumerate(zip(k_shards, v_shards, strict=True)):
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal and s == r:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Causal, you leave the own shard out: a token sees none of its own rank, not even itself, and rank "
    "0 sees nothing. Take the shards s <= r, the own one with the triangle."
)
def earlier_shards_only(q_shards, k_shards, v_shards, causal=False):
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(r if causal else len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "The ring stops after one step: a rank sees its own shard and that of the rank before it. Make as "
    "many turns as there are ranks, the own shard included."
)
def one_step_only(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in {r, max(r - 1, 0)}:
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Each rank counts its own shard twice, as when it is merged before the loop and in it. Merge each "
    "shard once."
)
def own_shard_twice(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in [r, *range(len(q_shards))]:
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Your keys meet the values of another shard: the keys travel and the values stay at home. Let both "
    "travel together: k_shards[s] with v_shards[s]."
)
def values_stay_at_home(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[r]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "You return one long tensor. Return a list with the outputs of each rank: out_shards[r] is as long "
    "as q_shards[r].",
    gravity="slip",
)
def one_long_tensor(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return torch.cat(outputs, dim=2)


@EXERCISE.misconception(
    "The shards go round twice, as when the maximum is found first and the sums after it. Do it in one "
    "round: keep a running maximum and rescale."
)
def two_rounds(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):

        def scores_of(s, r=r, q=q):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            return scores.masked_fill(position[s] > position[r][:, None], -1e30) if causal else scores

        ranks = range(len(q_shards))
        peak = torch.stack([scores_of(s).amax(-1) for s in ranks]).amax(0)[..., None]
        out = total = 0
        for s in ranks:
            p = torch.exp(scores_of(s) - peak)
            out, total = out + p @ v_shards[s], total + p.sum(-1, keepdim=True)
        outputs.append(out / total)
    return outputs


@EXERCISE.misconception(
    "No maximum is subtracted: exp overflows where a score is large, and inf/inf is left. Keep a "
    "running maximum, or merge by the log-sum-exp of each shard."
)
def no_maximum(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        total = out = 0
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            p = torch.exp(q @ k.mT / q.shape[-1] ** 0.5)
            if causal:
                p = p * (cols <= rows[:, None])
            total, out = total + p.sum(-1, keepdim=True), out + p @ v
        outputs.append(out / total)
    return outputs


@EXERCISE.misconception(
    "One maximum for all rows of a shard leaves 0/0 in a row that is far below it: every exponential "
    "there is 0. Subtract for each query the maximum of its own scores: scores.amax(-1, keepdim=True)."
)
def one_maximum_for_all(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        peak, out = torch.full_like(q[..., :1], -1e30), torch.zeros_like(q)
        total = torch.zeros_like(peak)
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -torch.inf)
            new_peak = torch.maximum(peak, scores.max())
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            total, out, peak = old * total + p.sum(-1, keepdim=True), old * out + p @ v, new_peak
        outputs.append(out / total)
    return outputs


@EXERCISE.misconception(
    "Your scores are not scaled. Divide q . k by sqrt(d): the ring changes who computes, not what.",
    gravity="slip",
)
def no_scale(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "No gradient reaches the shards of keys and values, as if they were detached. Leave out .detach(): "
    "what a query takes from a shard is learned by the rank that made it."
)
def shards_detached(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            k, v = k_shards[s].detach(), v_shards[s].detach()
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "Some of your tensors are float32 on the cpu, whatever comes in. Use zeros_like(q), or pass "
    "dtype=q.dtype, device=q.device to torch.zeros, torch.full and torch.arange."
)
def float32_on_the_cpu(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths)).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        out, lse = torch.zeros(q.shape), torch.full((*q.shape[:-1], 1), -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both).to(q.dtype) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.misconception(
    "You write into the caller's shards, as `q /= sqrt(d)` does. Write q = q / sqrt(d), which makes a "
    "new tensor."
)
def queries_changed_in_place(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for r, q in enumerate(q_shards):
        q /= q.shape[-1] ** 0.5
        out, lse = torch.zeros_like(q), torch.full_like(q[..., :1], -1e30)
        for s in range(len(q_shards)):
            scores = q @ k_shards[s].mT
            if causal:
                scores = scores.masked_fill(position[s] > position[r][:, None], -1e30)
            both = torch.logaddexp(lse, scores.logsumexp(-1, keepdim=True))
            out = torch.exp(lse - both) * out + torch.exp(scores - both) @ v_shards[s]
            lse = both
        outputs.append(out)
    return outputs


@EXERCISE.style("rank by rank, the own shard first, with a running maximum")
def running_maximum(q_shards, k_shards, v_shards, causal=False):
    n = len(q_shards)
    starts = [sum(q.shape[2] for q in q_shards[:r]) for r in range(n)]
    outputs = []
    for r, q in enumerate(q_shards):
        peak = torch.full_like(q[..., :1], -torch.inf)
        total, out = torch.zeros_like(peak), torch.zeros_like(q)
        for step in range(n):
            s = (r - step) % n
            k, v = k_shards[s], v_shards[s]
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            if causal:
                rows = starts[r] + torch.arange(q.shape[2], device=q.device)
                cols = starts[s] + torch.arange(k.shape[2], device=q.device)
                scores = scores.masked_fill(cols > rows[:, None], -torch.inf)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            total = total * old + p.sum(-1, keepdim=True)
            out = out * old + p @ v
            peak = new_peak
        outputs.append(out / total)
    return outputs


@EXERCISE.style("all ranks at once, their shards handed on at every step; later shards skipped when causal")
def handed_on(q_shards, k_shards, v_shards, causal=False):
    n = len(q_shards)
    held = [(s, k_shards[s], v_shards[s]) for s in range(n)]
    out = [torch.zeros_like(q) for q in q_shards]
    lse = [q.new_full((*q.shape[:-1], 1), -1e30) for q in q_shards]
    for _ in range(n):
        for r, q in enumerate(q_shards):
            s, k, v = held[r]
            if causal and s > r:
                continue
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
            if causal and s == r:
                later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(later, -1e30)
            both = torch.logaddexp(lse[r], scores.logsumexp(-1, keepdim=True))
            out[r] = torch.exp(lse[r] - both) * out[r] + torch.exp(scores - both) @ v
            lse[r] = both
        held = held[-1:] + held[:-1]
    return out


@EXERCISE.style("shard by shard: each visits all ranks before the next sets out")
def shard_by_shard(q_shards, k_shards, v_shards, causal=False):
    dtype = q_shards[0].dtype
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    state = [(torch.full_like(q[..., :1], -1e30).double(), 0.0, 0.0) for q in q_shards]
    for k, v, cols in zip(k_shards, v_shards, position, strict=True):
        for r, (q, rows) in enumerate(zip(q_shards, position, strict=True)):
            peak, total, out = state[r]
            scores = (q.double() @ k.double().mT) / q.shape[-1] ** 0.5
            if causal:
                scores = torch.where(cols[None, :] <= rows[:, None], scores, -1e30)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            state[r] = new_peak, old * total + p.sum(-1, keepdim=True), old * out + p @ v.double()
    return [(out / total).to(dtype) for _, total, out in state]


@EXERCISE.style("the parts of all shards, weighted by a softmax of their log-sum-exps")
def softmax_over_the_parts(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)
    outputs = []
    for q, rows in zip(q_shards, position, strict=True):
        parts, lse = [], []
        for k, v, cols in zip(k_shards, v_shards, position, strict=True):
            scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            if causal:
                scores = scores.masked_fill(cols > rows[:, None], -1e9)
            lse.append(torch.logsumexp(scores, dim=-1))
            parts.append(torch.softmax(scores, dim=-1) @ v)
        shares = torch.softmax(torch.stack(lse), dim=0)
        outputs.append((shares[..., None] * torch.stack(parts)).sum(dim=0))
    return outputs


@EXERCISE.style("one round for the keys, whose scores are kept, and one for the values")
def scores_kept(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    outputs = []
    for r, q in enumerate(q_shards):
        scores = torch.cat([q @ k.mT for k in k_shards], dim=-1) / q.shape[-1] ** 0.5
        if causal:
            later = torch.ones_like(scores).triu(1 + sum(lengths[:r])).bool()
            scores = scores.masked_fill(later, float("-inf"))
        weights = torch.softmax(scores, dim=-1).split(lengths, dim=-1)
        outputs.append(sum(w @ v for w, v in zip(weights, v_shards, strict=True)))
    return tuple(outputs)


@EXERCISE.style("merged two by two, by a recursion over the shards still to come")
def merged_two_by_two(q_shards, k_shards, v_shards, causal=False):
    lengths = [q.shape[2] for q in q_shards]
    position = torch.arange(sum(lengths), device=q_shards[0].device).split(lengths)

    def attend(r, s):
        scores = q_shards[r] @ k_shards[s].mT / q_shards[r].shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(position[r][:, None] < position[s], -1e9)
        if s == len(k_shards) - 1:
            return torch.softmax(scores, -1) @ v_shards[s], scores.logsumexp(-1, keepdim=True)
        here = torch.softmax(scores, -1) @ v_shards[s]
        rest, lse_rest = attend(r, s + 1)
        lse = scores.logsumexp(-1, keepdim=True)
        share = torch.sigmoid(lse - lse_rest)
        return share * here + (1 - share) * rest, torch.logaddexp(lse, lse_rest)

    return [attend(r, 0)[0] for r in range(len(q_shards))]
