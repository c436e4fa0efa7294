"""Mistakes that people make in `absorbed_scores`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch09_cheaper_attention.absorbed_scores import EXERCISE
from autograder.exercises.ch09_cheaper_attention.absorbed_scores_styles import (
    head_by_head,
    heads_as_rows,
    side_by_side,
    two_einsums,
)

edited = partial(wrong, EXERCISE, side_by_side)
in_einsums = partial(wrong, EXERCISE, two_einsums)


@EXERCISE.misconception(
    "You make the keys of all heads, W_uk @ c for every token of the cache. Multiply the queries by W_uk "
    "first, q_nope @ W_uk, and the result by c_kv."
)
def keys_expanded(q_nope, q_rope, c_kv, k_rope, W_uk):
    k_nope = torch.einsum("hdc,btc->bhtd", W_uk, c_kv)
    k = torch.cat([k_nope, k_rope[:, None].expand(-1, k_nope.shape[1], -1, -1)], dim=-1)
    q = torch.cat([q_nope, q_rope], dim=-1)
    return q @ k.mT / q.shape[-1] ** 0.5


@EXERCISE.misconception(
    "You make the keys of one head after another. That saves memory but no arithmetic: each token still "
    "goes through W_uk. Multiply the queries of the head by W_uk[i], and then by c_kv."
)
def keys_head_by_head(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    heads = []
    for i in range(W_uk.shape[0]):
        k_nope = c_kv @ W_uk[i].T
        heads.append(q_nope[:, i] @ k_nope.mT + q_rope[:, i] @ k_rope.mT)
    return torch.stack(heads, dim=1) / width**0.5


edited(
    "scaled_by_d_nope",
    "You divide by sqrt(d_nope). The rotary part belongs to the key too: divide by sqrt(d_nope + d_rope).",
    {"q_nope.shape[-1] + q_rope.shape[-1]": "q_nope.shape[-1]"},
    gravity="slip",
)

edited(
    "scaled_by_d_rope",
    "You divide by sqrt(d_rope), the width of the rotary part alone. Divide by sqrt(d_nope + d_rope).",
    {"q_nope.shape[-1] + q_rope.shape[-1]": "q_rope.shape[-1]"},
    gravity="slip",
)

edited(
    "scaled_by_the_absorbed_width",
    "You divide by sqrt(d_latent + d_rope), the width of the absorbed query. Absorbing must not change the "
    "scores: divide by the root of the width that the key has, sqrt(d_nope + d_rope).",
    {"q_nope.shape[-1] + q_rope.shape[-1]": "c_kv.shape[-1] + k_rope.shape[-1]"},
    gravity="slip",
)

edited(
    "scaled_by_d_latent",
    "You divide by sqrt(d_latent). The scale belongs to the key, which is d_nope + d_rope wide: divide by "
    "sqrt(d_nope + d_rope).",
    {"q_nope.shape[-1] + q_rope.shape[-1]": "c_kv.shape[-1]"},
    gravity="slip",
)

edited(
    "no_scale",
    "Your scores are not scaled. Divide them by sqrt(d_nope + d_rope).",
    {" / math.sqrt(width)": "", "    width = q_nope.shape[-1] + q_rope.shape[-1]\n": ""},
    gravity="slip",
)

edited(
    "no_root",
    "You divide by d_nope + d_rope itself. Divide by its square root.",
    {"math.sqrt(width)": "width"},
    gravity="slip",
)

edited(
    "multiplied_by_the_root",
    "You multiply by sqrt(d_nope + d_rope). Divide by it.",
    {"/ math.sqrt(width)": "* math.sqrt(width)"},
    gravity="slip",
)

edited(
    "scaled_twice",
    "You divide twice: the queries and then the scores. Divide once, by sqrt(d_nope + d_rope).",
    {"q_nope @ W_uk, q_rope": "q_nope @ W_uk / math.sqrt(width), q_rope / math.sqrt(width)"},
    gravity="slip",
)


@EXERCISE.misconception(
    "You divide each part by the root of its own width. The key is both parts together: add them first, and "
    "divide the sum by sqrt(d_nope + d_rope).",
    gravity="slip",
)
def each_part_by_its_own_width(q_nope, q_rope, c_kv, k_rope, W_uk):
    from_latent = torch.einsum("bhqd,hdc,btc->bhqt", q_nope, W_uk, c_kv) / q_nope.shape[-1] ** 0.5
    rotary = torch.einsum("bhqr,btr->bhqt", q_rope, k_rope) / q_rope.shape[-1] ** 0.5
    return from_latent + rotary


@EXERCISE.misconception(
    "You do not divide the rotary part. Add both parts first, and divide their sum by sqrt(d_nope + d_rope)."
)
def rotary_part_not_scaled(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    q_latent = torch.einsum("bhqd,hdc->bhqc", q_nope, W_uk)
    scores = torch.einsum("bhqc,btc->bhqt", q_latent, c_kv) / width**0.5
    return scores + torch.einsum("bhqr,btr->bhqt", q_rope, k_rope)


@EXERCISE.misconception(
    "The rotary part, which carries the positions, is missing. Add q_rope . k_rope before you divide."
)
def rotary_part_left_out(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    q_latent = torch.einsum("bhqd,hdc->bhqc", q_nope, W_uk)
    return torch.einsum("bhqc,btc->bhqt", q_latent, c_kv) / width**0.5


@EXERCISE.misconception(
    "The part from c_kv is missing: your scores come from the rotary part alone. Add "
    "(q_nope @ W_uk) . c_kv before you divide.",
    gravity="useless",
)
def rotary_part_alone(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    return torch.einsum("bhqr,btr->bhqt", q_rope, k_rope) / width**0.5


@EXERCISE.misconception(
    "You multiply the rotary part of the queries by W_uk as well. W_uk makes only the part of the key that "
    "is not rotated: multiply q_nope by it, and put q_rope beside the result.",
    gravity="useless",
)
def rotary_part_absorbed(q_nope, q_rope, c_kv, k_rope, W_uk):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    q = torch.cat([q_nope, q_rope], dim=-1) @ W_uk
    return q @ c_kv[:, None].mT / width**0.5


edited(
    "W_uk_transposed",
    "You multiply by the transpose of W_uk. The key is W_uk @ c, so a query as a row is multiplied from the "
    "right by W_uk itself: q_nope @ W_uk. No error is raised if d_nope = d_latent.",
    {"q_nope @ W_uk": "q_nope @ W_uk.mT"},
)

in_einsums(
    "transposed_in_einsum",
    "Your einsum names the axes of W_uk the wrong way round: W_uk is (h, d_nope, d_latent). Write "
    "'bhqd,hdc->bhqc'. No error is raised if d_nope = d_latent.",
    {"bhqd,hdc->bhqc": "bhqd,hcd->bhqc"},
)

edited(
    "parts_in_another_order",
    "Your queries have their two parts in another order than the cache, so q_rope multiplies c_kv. Pair "
    "q_nope @ W_uk with c_kv, and q_rope with k_rope.",
    {"[q_nope @ W_uk, q_rope]": "[q_rope, q_nope @ W_uk]"},
    gravity="useless",
)

edited(
    "first_head_for_all",
    "All heads use the matrix of head 0. Each head has its own: q_nope @ W_uk multiplies head i by W_uk[i].",
    {"q_nope @ W_uk": "q_nope @ W_uk[0]"},
)

in_einsums(
    "matrices_of_all_heads_added",
    "Each head uses the sum of all matrices. Give the head one letter in both inputs, 'bhqd,hdc->bhqc', so "
    "that head i meets W_uk[i].",
    {"bhqd,hdc->bhqc": "bhqd,gdc->bhqc"},
)

in_einsums(
    "queries_of_all_heads_added",
    "Every head has the same scores from c_kv: your einsum adds the queries of all heads. Keep the letter of "
    "the head in its result: 'bhqd,hdc->bhqc'.",
    {
        '"bhqd,hdc->bhqc"': '"bhqd,hdc->bqc"',
        '"bhqc,btc->bhqt"': '"bqc,btc->bqt"',
        "q_latent, c_kv)": "q_latent, c_kv)[:, None]",
    },
)

wrong(
    EXERCISE,
    heads_as_rows,
    "heads_and_queries_mixed",
    "Heads and queries change places: the rows of the product are in the order (h, T_q), and you read them "
    "as (T_q, h). Reshape to (B, h, T_q, T_k).",
    {
        ".reshape(B, h, T_q, -1)": ".reshape(B, T_q, h, -1).transpose(1, 2)",
    },
    gravity="useless",
)

edited(
    "softmax_applied",
    "You return weights. Return the scores: the mask and the softmax come later.",
    {"return q @ k.mT / math.sqrt(width)": "return torch.softmax(q @ k.mT / math.sqrt(width), dim=-1)"},
)

edited(
    "keys_before_queries",
    "Your scores are (B, h, T_k, T_q). Put the queries first: (B, h, T_q, T_k).",
    {"q @ k.mT": "k @ q.mT"},
    gravity="slip",
)

wrong(
    EXERCISE,
    head_by_head,
    "heads_before_texts",
    "Your scores are (h, B, T_q, T_k). Stack the heads on axis 1: torch.stack(heads, dim=1).",
    {"dim=1": "dim=0"},
    gravity="slip",
)

edited(
    "first_text_for_all",
    "All texts are scored against the cache of text 0. Keep the axis of the batch: c_kv[:, None] is "
    "(B, 1, T_k, d_latent).",
    {"dim=-1)[:, None]": "dim=-1)[:1, None]"},
)

edited(
    "causal_already",
    "You mask tokens that come later. Return the scores of all tokens in the cache: the mask comes later.",
    {
        "return q @ k.mT / math.sqrt(width)": (
            "return (q @ k.mT / math.sqrt(width)).tril(k.shape[2] - q.shape[2])"
        ),
    },
)

edited(
    "always_float32",
    "You return float32, whatever comes in. Return the scores in the dtype of the queries.",
    {
        "torch.cat([q_nope @ W_uk, q_rope], dim=-1)": "torch.cat([q_nope @ W_uk, q_rope], dim=-1).float()",
        "k = torch.cat([c_kv, k_rope], dim=-1)": "k = torch.cat([c_kv, k_rope], dim=-1).float()",
    },
    gravity="slip",
)

edited(
    "cache_detached",
    "No gradient reaches c_kv and k_rope: you detach them. They come from a layer that is trained; leave out "
    "detach().",
    {"k = torch.cat([c_kv, k_rope], dim=-1)": "k = torch.cat([c_kv, k_rope], dim=-1).detach()"},
    gravity="slip",
)


@EXERCISE.misconception(
    "No gradient flows: you compute under no_grad. Leave it out: the layer is trained with these scores."
)
def without_gradients(q_nope, q_rope, c_kv, k_rope, W_uk):
    with torch.no_grad():
        q = torch.cat([q_nope @ W_uk, q_rope], dim=-1)
        k = torch.cat([c_kv, k_rope], dim=-1)[:, None]
        return q @ k.mT / (q_nope.shape[-1] + q_rope.shape[-1]) ** 0.5


@EXERCISE.misconception(
    "You scale the caller's queries in place, as `q_nope /= ...` does. Write q_nope / ..., which makes a new "
    "tensor."
)
def queries_scaled_in_place(q_nope, q_rope, c_kv, k_rope, W_uk):
    root = (q_nope.shape[-1] + q_rope.shape[-1]) ** 0.5
    q_nope, q_rope = q_nope.detach(), q_rope.detach()
    q_nope /= root
    q_rope /= root
    return q_nope @ W_uk @ c_kv[:, None].mT + q_rope @ k_rope[:, None].mT


@EXERCISE.misconception(
    "You make the tensor of the scores on the cpu, wherever the queries are. Write q_nope.new_zeros(...), "
    "which has their device and dtype.",
    gravity="slip",
)
def scores_on_the_cpu(q_nope, q_rope, c_kv, k_rope, W_uk):
    B, h, T_q, d_nope = q_nope.shape
    scores = torch.zeros(B, h, T_q, c_kv.shape[1], dtype=q_nope.dtype)
    for i in range(h):
        scores[:, i] = q_nope[:, i] @ W_uk[i] @ c_kv.mT + q_rope[:, i] @ k_rope.mT
    return scores / (d_nope + q_rope.shape[-1]) ** 0.5


@EXERCISE.misconception(
    "You divide by sqrt(d_nope) + sqrt(d_rope). Add the widths first: sqrt(d_nope + d_rope).",
    gravity="slip",
)
def roots_added(q_nope, q_rope, c_kv, k_rope, W_uk):
    scores = q_nope @ W_uk @ c_kv[:, None].mT + q_rope @ k_rope[:, None].mT
    return scores / (q_nope.shape[-1] ** 0.5 + q_rope.shape[-1] ** 0.5)
