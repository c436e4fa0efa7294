"""Mistakes that people make in `ring_attention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch09_cheaper_attention.ring_attention import EXERCISE
from autograder.exercises.ch09_cheaper_attention.ring_attention_styles import (
    merged_as_in_the_formula,
    merged_from_nothing,
)

merged = partial(wrong, EXERCISE, merged_from_nothing)
edited = partial(wrong, EXERCISE, merged_as_in_the_formula)


@EXERCISE.misconception(
    "Each rank attends to its own shard only. Read the keys and values of every rank, one shard after "
    "another, and merge their results.",
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


merged(
    "outputs_moved_on",
    "Your outputs are shifted by one rank. The queries never move: return the output of q_shards[r] as "
    "out_shards[r].",
    {"return outputs": "return outputs[-1:] + outputs[:-1]"},
    gravity="slip",
)


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
    "You do not rescale the running sums of a rank. When a shard brings a larger maximum, multiply the "
    "running sum and the running output by exp(old - new): they were made with the old one.",
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


merged(
    "causal_by_default",
    "Your default of `causal` is True. Write causal=False in the first line of the function.",
    {"causal=False": "causal=True"},
    gravity="slip",
)


@EXERCISE.misconception(
    "In your code, every shard starts at token 0. Add the lengths of all shards before it: a token's "
    "position counts from the start of the whole sequence."
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
    "its own shard with the triangle.",
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
    "You mask the rank's own shard, but shards of later ranks still count. When causal is True, leave out "
    "every shard s > r for rank r: its tokens come later.",
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
    "When causal, you leave out the rank's own shard: a token sees none of its own rank, not even itself, "
    "and rank 0 sees nothing. Take the shards s <= r, and mask shard r with the triangle."
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


merged(
    "one_step_only",
    "The ring stops after one step: a rank sees its own shard and the shard of the rank before it. Go on "
    "until each rank has seen every shard, its own included.",
    {"range(len(q_shards))": "{r, max(r - 1, 0)}"},
)


merged(
    "own_shard_twice",
    "Each rank counts its own shard twice, as when it is merged before the loop and in it. Merge each "
    "shard once.",
    {"range(len(q_shards))": "[r, *range(len(q_shards))]"},
)


merged(
    "values_stay_at_home",
    "Your keys meet the values of another shard: the keys travel and the values stay at home. Let both "
    "travel together: k_shards[s] with v_shards[s].",
    {"v_shards[s]": "v_shards[r]"},
)


merged(
    "one_long_tensor",
    "You return one long tensor. Return a list with the outputs of each rank: out_shards[r] is as long "
    "as q_shards[r].",
    {"return outputs": "return torch.cat(outputs, dim=2)"},
    gravity="slip",
)


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


merged(
    "no_scale",
    "Your scores are not scaled. Divide q . k by sqrt(d): the ring changes who computes, not what.",
    {" / q.shape[-1] ** 0.5": ""},
    gravity="slip",
)


merged(
    "shards_detached",
    "No gradient reaches the shards of keys and values, as if they were detached. Leave out .detach(): the "
    "rank that made a shard learns from every query that reads it.",
    {"k_shards[s].mT": "k_shards[s].detach().mT", "v_shards[s]": "v_shards[s].detach()"},
)


merged(
    "float32_on_the_cpu",
    "Some of your tensors are float32 on the cpu, whatever comes in. Use zeros_like(q), or pass "
    "dtype=q.dtype, device=q.device to torch.zeros, torch.full and torch.arange.",
    {
        ", device=q_shards[0].device": "",
        "torch.zeros_like(q)": "torch.zeros(q.shape)",
        "torch.full_like(q[..., :1], -1e30)": "torch.full((*q.shape[:-1], 1), -1e30)",
        "exp(scores - both)": "exp(scores - both).to(q.dtype)",
    },
)


merged(
    "queries_changed_in_place",
    "You write into the caller's shards, as `q /= sqrt(d)` does. Write q = q / sqrt(d), which makes a "
    "new tensor.",
    {
        "        out, lse =": "        q /= q.shape[-1] ** 0.5\n        out, lse =",
        " / q.shape[-1] ** 0.5\n            if": "\n            if",
    },
)


edited(
    "parts_of_seen_shards_added",
    "You add up the attention to each shard, so that the weights of a query sum to the number of shards that "
    "it sees. Weigh each shard by the sum of exponentials of its scores: keep L beside the output.",
    {"torch.exp(lse - both) * out + torch.exp(lse_s - both) * out_s": "out + out_s"},
)

edited(
    "parts_halved_in_turn",
    "You take the mean of the output so far and the new one, whatever each of them weighs. Multiply them by "
    "exp(L_a - L) and exp(L_b - L) before you add.",
    {"torch.exp(lse - both) * out + torch.exp(lse_s - both) * out_s": "(out + out_s) / 2"},
)

edited(
    "shares_exchanged",
    "The two shares of the merge are exchanged: the part with the larger sum gets the smaller share. "
    "Multiply o_a by exp(L_a - L) and o_b by exp(L_b - L).",
    {
        "torch.exp(lse - both) * out + torch.exp(lse_s - both) * out_s": "torch.exp(lse_s - both) * out "
        "+ torch.exp(lse - both) * out_s"
    },
)

edited(
    "first_sum_kept",
    "The merged output is weighted as if it were the first shard alone. Replace L_a by L after each merge.",
    {"* out_s, both": "* out_s, lse"},
)

edited(
    "last_turn_left_out",
    "Each rank misses one shard: there is one turn too few. Let the shards come by as often as there are "
    "ranks, the rank's own shard included.",
    {"range(n):": "range(n - 1 or 1):"},
)

edited(
    "own_place_masked",
    "No token sees itself, so the first token of a shard sees nothing in its own shard, which gives NaN. "
    "Forbid a key only where its position is greater than the query's.",
    {"position[s] > position": "position[s] >= position"},
)

edited(
    "positions_restart",
    "In causal calls, your positions begin at 0 in each shard, so a token misses tokens of earlier "
    "shards. Add the lengths of all shards before.",
    {"position[s] > position[r][:, None]": "torch.ones_like(scores).triu(1).bool()"},
)

edited(
    "later_shards_kept",
    "A shard that is wholly in the future is not left out: all its scores are minus infinity, and so is "
    "their log-sum-exp, which gives inf - inf = NaN. Skip the shards of later ranks when causal.",
    {"causal and s > r": "False"},
)

edited(
    "earlier_shards_skipped",
    "When causal, you skip the shards of the earlier ranks and keep those of the later ranks. Skip the later "
    "ones: s > r.",
    {"causal and s > r": "causal and s < r"},
)

edited(
    "logarithm_of_the_sum",
    "The sum of the two exponentials leaves the range of floats: exp(10000) is infinite, and exp(-10000) "
    "is 0. Call torch.logaddexp(L_a, L_b), which subtracts the maximum.",
    {"torch.logaddexp(lse, lse_s)": "torch.log(torch.exp(lse) + torch.exp(lse_s))"},
)
