"""Mistakes that people make in `combine_masks`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch07_causal_masking.combine_masks import EXERCISE


@EXERCISE.misconception(
    "A key is open if *one* of the masks allows it. Open it only if both do: `&`, not `|`.",
    gravity="useless",
)
def or_for_and(causal, padding):
    return causal | padding[:, None, None, :]


@EXERCISE.misconception(
    "The padding closes queries, the rows. It marks which *keys* are real: padding[:, None, None, :] puts it "
    "on the last axis."
)
def padding_on_queries(causal, padding):
    return causal & padding[:, None, :, None]


@EXERCISE.misconception(
    "The rows of padded queries are closed too. Mask only keys: the output of a padded query is not used, "
    "and an empty row makes a NaN more likely.",
    gravity="slip",
)
def queries_and_keys(causal, padding):
    rows = padding[:, None, -causal.shape[0] :, None]
    return causal & padding[:, None, None, :] & rows


@EXERCISE.misconception(
    "The mask has no axis for the heads. (B, T_q, T_k) against scores (B, h, T_q, T_k) pairs sequences with "
    "heads: make it (B, 1, T_q, T_k).",
    gravity="slip",
)
def no_axis_for_heads(causal, padding):
    return causal & padding[:, None, :]


@EXERCISE.misconception(
    "Padding is open and real tokens are closed. True already means a real token, one that may be attended "
    "to: use `padding` without `~`.",
    gravity="useless",
)
def padding_inverted(causal, padding):
    return causal & ~padding[:, None, None, :]


@EXERCISE.misconception(
    "Later keys are open and earlier ones are closed. True means *may attend* in both masks: use `causal` "
    "without `~`.",
    gravity="useless",
)
def causal_inverted(causal, padding):
    return ~causal & padding[:, None, None, :]


@EXERCISE.misconception(
    "The axis of size 1 is in the wrong place. Put the batch first, then the heads, (B, 1, T_q, T_k), as in "
    "the scores: padding[:, None, None, :].",
    gravity="slip",
)
def heads_before_batch(causal, padding):
    return (causal & padding[:, None, :])[None]


@EXERCISE.misconception(
    "The first sequence's padding closes keys in the whole batch. Each sequence has its own length: keep the "
    "batch axis, padding[:, None, None, :]."
)
def padding_of_the_first(causal, padding):
    return (causal & padding[0]).expand(len(padding), 1, *causal.shape)


@EXERCISE.misconception(
    "The caller's causal mask is changed, and what one sequence closes stays closed for the next. Make a new "
    "mask: causal & padding[:, None, None, :]."
)
def written_into_causal(causal, padding):
    combined = []
    for real in padding:
        causal[:, ~real] = False
        combined.append(causal.clone())
    return torch.stack(combined)[:, None]


@EXERCISE.misconception(
    "The caller's causal mask is changed, and all sequences share one mask, with the padding of all. Make a "
    "new mask: causal & padding[:, None, None, :]."
)
def one_mask_for_all(causal, padding):
    combined = []
    for real in padding:
        mask = causal
        mask[:, ~real] = False
        combined.append(mask)
    return torch.stack(combined)[:, None]


@EXERCISE.misconception(
    "A query without an open key sees its own key, so padding leaks into its output. Leave its row empty: "
    "attention turns it into zeros."
)
def empty_rows_opened(causal, padding):
    mask = causal & padding[:, None, None, :]
    T_q, T_k = causal.shape
    own = torch.eye(T_k, dtype=torch.bool, device=causal.device)[T_k - T_q :]
    return mask | (own & ~mask.any(dim=-1, keepdim=True))


@EXERCISE.misconception(
    "The mask holds numbers. Keep it boolean: `&` of two boolean masks stays boolean.",
    gravity="slip",
)
def numbers_for_booleans(causal, padding):
    return causal.float() * padding.float()[:, None, None, :]


@EXERCISE.misconception(
    "The mask holds the numbers to add to the scores, 0 and -inf. Return the decision itself, a boolean "
    "mask with True = may attend.",
    gravity="slip",
)
def added_to_scores(causal, padding):
    mask = causal & padding[:, None, None, :]
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf)


@EXERCISE.misconception(
    "The causal mask comes back as it was, once for each sequence. Let the padding close keys as well: `& "
    "padding[:, None, None, :]`."
)
def padding_ignored(causal, padding):
    return causal.expand(len(padding), 1, *causal.shape)


@EXERCISE.misconception(
    "(T_q, T_k) and (B, T_k) are combined as they are, so sequences of `padding` are paired with queries of "
    "`causal`. Give padding an axis for the heads and one for the queries: padding[:, None, None, :]."
)
def no_axes_put_in(causal, padding):
    return causal & padding
