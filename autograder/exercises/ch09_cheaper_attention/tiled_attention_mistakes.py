"""Mistakes that people make in `tiled_attention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F

from autograder.checking.edits import wrong
from autograder.exercises.ch09_cheaper_attention.tiled_attention import EXERCISE
from autograder.exercises.ch09_cheaper_attention.tiled_attention_styles import running_maximum

edited = partial(wrong, EXERCISE, running_maximum)


@EXERCISE.misconception(
    "You do not rescale the running sums. When the maximum rises from m to m', multiply the running sum "
    "and the running output by exp(m - m'): both were divided by e^m.",
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


edited(
    "output_not_rescaled",
    "You rescale the running sum but not the running output. Multiply both by exp(old - new): both were "
    "made with the old maximum.",
    {
        "old, p = torch.exp(peak - new_peak), torch": "p = torch",
        "old + p.sum": "torch.exp(peak - new_peak) + p.sum",
        "out * old + p": "out + p",
    },
)

edited(
    "rescaled_the_wrong_way",
    "You rescale by exp(new - old). Multiply by exp(old - new), which is at most 1: the old numbers "
    "were divided by e^old and should be divided by e^new.",
    {
        "[..., :1], -torch.inf": "[..., :1], -1e30",
        "old, p = torch.exp(peak - new_peak), torch": (
            "factor = torch.exp(new_peak - peak) if j else 0\n        p = torch"
        ),
        "total * old": "total * factor",
        "out * old": "out * factor",
    },
)


@EXERCISE.misconception(
    "You add up a softmax of each block, so that the weights of a query sum to the number of blocks. "
    "Add the numerators and the denominators of all blocks instead, and divide at the end."
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


edited(
    "last_block_lost",
    "A last block that is not full is lost, as with T // block_size. Step with range(0, T, block_size): "
    "a slice that ends beyond T is simply shorter.",
    {
        "j in range(0, q.shape[2], block_size)": "i in range(q.shape[2] // block_size)",
        "j, j + block_size": "i * block_size, (i + 1) * block_size",
    },
    gravity="slip",
)


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


edited(
    "full_mask",
    "Your scores come in blocks, but your causal mask is a T x T matrix. Make it for one block at a "
    "time, from the positions of its queries and its keys.",
    {
        "position = torch.arange(q.shape[2], device=q.device)": (
            "T = q.shape[2]\n    mask = torch.ones(T, T, dtype=torch.bool, device=q.device).tril()"
        ),
        "0, q.shape[2]": "0, T",
        "position[block] > position[:, None]": "~mask[:, block]",
    },
)


@EXERCISE.misconception(
    "Your blocks pile up: together they are the T x T matrix again. Add each block to the running sums at "
    "once, and do not keep it."
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


edited(
    "block_size_ignored",
    "Your blocks have a size of their own. Use `block_size`: the caller knows how much memory there is.",
    {"position =": "block_size = 64\n    position ="},
)

edited(
    "causal_by_block",
    "You are causal from block to block only: inside its own block a token sees later tokens. Compare "
    "the positions of the tokens, not the numbers of their blocks.",
    {
        "position = torch.arange(q.shape[2], device=q.device)": (
            "number = torch.arange(q.shape[2], device=q.device) // block_size"
        ),
        "position[block] > position": "number[block] > number",
    },
    gravity="useless",
)

edited(
    "triangle_in_each_block",
    "Your triangle starts again in every block: key 0 of a block is taken for token 0. Positions go on "
    "from block to block: compare j + the place in the block with the query's position.",
    {
        "position = torch.arange(q.shape[2], device=q.device)": "T = q.shape[2]",
        "0, q.shape[2]": "0, T",
        "position[block] > position[:, None]": "~lower",
        "scores = scores.masked_fill": (
            "lower = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()\n"
            "            scores = scores.masked_fill"
        ),
    },
    gravity="useless",
)


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


edited(
    "causal_by_default",
    "Your default of `causal` is True. Write causal=False in the first line of the function.",
    {"causal=False": "causal=True"},
    gravity="slip",
)

edited(
    "sees_the_future",
    "Your mask is the wrong way round: each token sees itself and what comes after. Forbid a key when its "
    "position is *greater* than the query's.",
    {"[..., :1], -torch.inf": "[..., :1], -1e30", "[block] >": "[block] <"},
    gravity="useless",
)

edited(
    "maximum_before_the_mask",
    "Your running maximum counts masked keys: one with a large score pushes all visible keys down to "
    "exp(-10000) = 0, and 0/0 is left. Mask the scores first, then take the maximum.",
    {
        (
            "        if causal:\n"
            "            scores = scores.masked_fill(position[block] > position[:, None], -torch.inf)\n"
        ): "",
        "total =": "if causal:\n            p = p * (position[block] <= position[:, None])\n        total =",
    },
)


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


edited(
    "maximum_starts_at_zero",
    "Your running maximum does not start low enough: where all scores are far below its start, every "
    "exponential is 0, and 0/0 is left. Start at minus infinity, or at -1e30.",
    {"full_like(q[..., :1], -torch.inf)": "zeros_like(q[..., :1])"},
)

edited(
    "one_maximum_for_all",
    "One maximum for all rows, heads and sequences leaves 0/0 in a row that is far below it: every "
    "exponential there is 0. Subtract for each query the maximum of its own scores: scores.amax(-1, "
    "keepdim=True).",
    {"[..., :1], -torch.inf": "[..., :1], -1e30", "amax(-1, keepdim=True)": "max()"},
)

edited(
    "sum_not_rescaled",
    "You rescale the running output but not the running sum. Multiply both by exp(old - new): both were "
    "made with the old maximum.",
    {"total * old + p": "total + p"},
)

edited(
    "maximum_of_the_block",
    "Your new maximum forgets the old one: if a later block has smaller scores, exp(old - new) is above "
    "1 and can overflow. Take the larger of the maximum so far and that of the block.",
    {
        "[..., :1], -torch.inf": "[..., :1], -1e30",
        "-torch.inf": "-1e9",
        "torch.maximum(peak, scores.amax(-1, keepdim=True))": "scores.amax(-1, keepdim=True)",
    },
)

edited(
    "filled_with_zero",
    "Your forbidden scores are 0, and e^0 = 1 is an ordinary weight. Fill them with minus infinity.",
    {"[:, None], -torch.inf": "[:, None], 0.0"},
    gravity="useless",
)

edited(
    "no_scale",
    "Your scores are not scaled. Divide q . k by sqrt(d): tiling changes the order of the sums, not the "
    "formula.",
    {" / q.shape[-1] ** 0.5": ""},
    gravity="slip",
)

edited(
    "divided_in_the_loop",
    "You divide by the running sum after each block, and add the next one to what is already "
    "normalised. Keep the numerator, and divide once, after the last block.",
    {"out * old + p @ v[:, :, block]": "(out * old + p @ v[:, :, block]) / total", "out / total": "out"},
)

edited(
    "scores_changed_in_place",
    "An operation in place, such as `scores -= ...`, writes over numbers that autograd needs, and "
    "backward fails. Write scores = scores - ..., which makes a new tensor.",
    {"scores - new_peak": "scores", "old, p =": "scores -= new_peak\n        old, p ="},
)


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


edited(
    "positions_on_the_cpu",
    "Your positions or your mask are on the cpu and cannot be combined with tensors on a graphics card. "
    "Write torch.arange(T, device=q.device).",
    {", device=q.device": ""},
)

edited(
    "queries_changed_in_place",
    "You write into the caller's queries, as `q /= sqrt(d)` does. Write q = q / sqrt(d), which makes a "
    "new tensor.",
    {"position =": "q /= q.shape[-1] ** 0.5\n    position =", "mT / q.shape[-1] ** 0.5": "mT"},
)


edited(
    "maximum_never_replaced",
    "Only the last block is left: the running maximum is still the value from the start, so that the "
    "factor of the old sums is 0. Replace it by the new maximum at the end of each block.",
    {"        peak = new_peak\n": ""},
)

edited(
    "maximum_never_replaced_from_1e30",
    "Only the last block that a query sees is left: the running maximum is still the value from the start, "
    "such as -1e30. Replace it by the new maximum at the end of each block.",
    {
        "        peak = new_peak\n": "",
        "torch.full_like(q[..., :1], -torch.inf)": "torch.full_like(q[..., :1], -1e30)",
    },
)

edited(
    "never_divided",
    "You return the sum of e^(s - m) v without dividing it. Divide by the running sum of e^(s - m) after the "
    "last block.",
    {"return out / total": "return out"},
)

edited(
    "divided_in_the_loop_and_after",
    "You divide by the running sum after each block, and the next block rescales what was divided already. "
    "Divide once, after the last block.",
    {"        peak = new_peak\n": "        peak, out = new_peak, out / total\n"},
)

edited(
    "scaled_by_d",
    "Your scores are divided by d. Divide them by its root, sqrt(d).",
    {"q.shape[-1] ** 0.5": "q.shape[-1]"},
    gravity="slip",
)

edited(
    "own_place_masked",
    "No token sees itself, so the first token sees nothing, and its output is 0/0. Forbid a key only "
    "where its position is greater than the query's.",
    {"position[block] > position": "position[block] >= position"},
)

edited(
    "filled_with_minus_10000",
    "Your forbidden scores are -10000, but allowed scores can be lower. Fill them with minus infinity.",
    {"position[:, None], -torch.inf)": "position[:, None], -1e4)"},
)
