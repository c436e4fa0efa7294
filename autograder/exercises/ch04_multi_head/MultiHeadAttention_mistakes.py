"""Mistakes that people make in `MultiHeadAttention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import nn

from autograder.checking.edits import wrong
from autograder.exercises.ch04_multi_head.MultiHeadAttention import EXERCISE
from autograder.exercises.ch04_multi_head.MultiHeadAttention_styles import filled_and_zeroed, fused_kernel

edited_kernel = partial(wrong, EXERCISE, fused_kernel)
edited_fill = partial(wrong, EXERCISE, filled_and_zeroed)

edited_fill(
    "scale_missing",
    "You do not scale the scores. They spread like sqrt(d_head), so softmax picks one key: divide by the "
    "root of a head's width.",
    {" / math.sqrt(q.shape[-1])": ""},
    gravity="slip",
)

edited_fill(
    "scale_by_d_model",
    "You divide by the root of d_model. A head's dot product has only d_head = d_model / num_heads terms: "
    "divide by sqrt(q.shape[-1]), with q already split.",
    {"q.": "x."},
    gravity="slip",
)

edited_fill(
    "d_head_not_its_root",
    "Your scores are divided by d_head itself, or twice by its root, which makes all weights nearly equal. "
    "Divide once by sqrt(d_head); F.scaled_dot_product_attention does it for you.",
    {"math.sqrt(q.shape[-1])": "q.shape[-1]"},
    gravity="slip",
)

edited_fill(
    "root_of_T",
    "You divide by the root of the number of keys. Divide by sqrt(d_head), the last axis of q: the scale "
    "has nothing to do with the length of the sequence.",
    {"q.shape[-1": "k.shape[-2"},
    gravity="slip",
)

edited_kernel(
    "view_without_transpose",
    "Your heads mix tokens, as a view straight to (B, h, T, d_head) does, even where the shapes fit. Cut "
    "the channels first, (B, T, h, d_head), then exchange axes 1 and 2.",
    {
        (
            "q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2"
        ): (
            "B, T, d = x.shape\n"
            "        q = self.W_q(x).reshape(B, "
            "self.num_heads, T, -1)\n"
            "        k = self.W_k(memory).reshape(B, "
            "self.num_heads, memory.shape[1], -1)\n"
            "        v = self.W_v(memory).reshape(B, "
            "self.num_heads, memory.shape[1], -1"
        ),
        "transpose(1, 2).flatten(2": "reshape(B, T, d",
    },
)

edited_kernel(
    "merged_without_transpose",
    "You split the heads correctly and merge them wrongly: (B, h, T, d_head) reshaped to (B, T, d) "
    "mixes tokens with heads. Exchange axes 1 and 2 first.",
    {"transpose(1, 2).flatten(2": "reshape(x.shape"},
)

edited_kernel(
    "heads_interleaved",
    "Your head 0 takes every h-th channel, as a cut into (d_head, h) gives. Make each head a block of "
    "neighbours, in q, k and v and in what W_o gets: cut into (h, d_head).",
    {
        (
            "self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose("
        ): (
            "-1, self.num_heads)).permute(0, 3, 1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, "
            "(-1, self.num_heads)).permute(0, 3, 1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, "
            "(-1, self.num_heads)).permute(0, 3, "
        ),
        ".transpose(1, 2).": ".permute(0, 2, 3, 1).",
    },
    gravity="slip",
)

edited_kernel(
    "one_head",
    "One head of the full width does all the work, and num_heads changes nothing. Cut q, k and v into heads "
    "before the scores.",
    {
        (
            "unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2"
        ): (
            "unsqueeze(1)\n"
            "        k = self.W_k(memory).unsqueeze(1)\n"
            "        v = self.W_v(memory).unsqueeze(1"
        )
    },
    gravity="useless",
)

edited_fill(
    "attends_over_heads",
    "Each token's heads attend to each other, and no token sees another: the axis of the heads comes after "
    "the axis of the tokens. Bring the heads to axis 1 before q @ k.mT.",
    {
        (
            ".transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2"
        ): (
            "\n"
            "        k = self.W_k(memory).unflatten(-1, "
            "(self.num_heads, -1))\n"
            "        v = self.W_v(memory).unflatten(-1, "
            "(self.num_heads, -1)"
        ),
        "transpose(1, 2).": "",
    },
    gravity="useless",
)

edited_kernel(
    "no_W_o",
    "You leave out W_o, so the heads never mix. End with self.W_o(...), which mixes their results.",
    {"self.W_o(heads.transpose(1, 2).flatten(2)": "heads.transpose(1, 2).flatten(2"},
)

edited_kernel(
    "values_not_projected",
    "You use the tokens themselves as values. Project them too: self.W_v(memory).",
    {"self.W_v(memory)": "memory"},
)

edited_kernel(
    "key_is_query",
    "You make the keys with W_q, so that key and query of a token are equal, and W_k is never used. Use "
    "self.W_k(memory).",
    {"W_k(": "W_q("},
)

edited_kernel(
    "keys_for_values",
    "You average the keys, and W_v is never used. Average the values, self.W_v(memory); the keys only "
    "decide how much of each.",
    {
        (
            "v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, "
            "2)\n"
            "        heads = F.scaled_dot_product_attention(q, k, v"
        ): ("heads = F.scaled_dot_product_attention(q, k, k")
    },
)

edited_kernel(
    "keys_and_values_swapped",
    "Your keys come from W_v and your values from W_k. Both have the same shape, so nothing fails: exchange "
    "the names.",
    {
        ("W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_v"): (
            "W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_k"
        )
    },
    gravity="slip",
)

edited_kernel(
    "residual_added",
    "You add x to the result. Return what W_o gives; the residual connection belongs to the block around "
    "the layer (chapter 6).",
    {"return self.": "return x + self."},
    gravity="slip",
)

edited_fill(
    "output_and_weights",
    "You return the weights as well. Return one tensor, the output (B, T_q, d_model).",
    {"2))": "2)), weights"},
    gravity="slip",
)

edited_kernel(
    "memory_ignored",
    "`memory` has no effect: keys and values always come from x. If a memory is passed, make them from it.",
    {
        "        memory = x if memory is None else memory\n": "",
        ("memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_v(memory"): (
            "x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_v(x"
        ),
    },
)

edited_kernel(
    "all_from_memory",
    "You make the queries from the memory too, so that x has no effect. Make the queries from x, keys and "
    "values from the memory.",
    {
        ("\n        memory "): ("\n        x "),
        ("memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_v(memory"): (
            "x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n        v = self.W_v(x"
        ),
    },
)

edited_kernel(
    "x_and_memory_swapped",
    "Your queries come from the memory, keys and values from x. Exchange them: x asks, and there is one "
    "output for each token of x.",
    {
        (
            "x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory"
        ): (
            "memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        k = self.W_k(x).unflatten(-1, "
            "(self.num_heads, -1)).transpose(1, 2)\n"
            "        v = self.W_v(x"
        )
    },
    gravity="slip",
)

edited_fill(
    "keys_from_x",
    "Your keys come from x and your values from the memory. Make both from the memory: a key and its value "
    "belong to the same token.",
    {"W_k(memory).": "W_k(x)."},
)

edited_fill(
    "values_from_x",
    "Your keys come from the memory and your values from x. Make both from the memory: a key and its value "
    "belong to the same token.",
    {"W_v(memory).": "W_v(x)."},
)

edited_kernel(
    "asks_if_memory",
    "`memory or x` asks a whole tensor for one truth value, and torch raises an error. Write: x if memory "
    "is None else memory.",
    {"x if memory is None else memory": "memory or x"},
    gravity="slip",
)

edited_kernel(
    "mask_ignored",
    "The mask has no effect. Fill the scores with -inf where it is False, before softmax.",
    {", attn_mask=mask": ""},
    gravity="useless",
)

edited_fill(
    "mask_inverted",
    "Your queries attend where the mask is False. True means *may* attend: fill the scores where it is "
    "False, masked_fill(~mask, ...).",
    {"~": "", "* mask": "* ~mask"},
    gravity="useless",
)

edited_fill(
    "mask_after_softmax",
    "You mask after softmax, when the forbidden keys have already taken their share and the rest sums to "
    "less than 1. Fill the scores before softmax.",
    {("        if mask is not None:\n            scores = scores.masked_fill(~mask, -1e9)\n"): ""},
)

edited_fill(
    "renormalised_after_softmax",
    "You mask after softmax and divide again. On paper that is right, but if a forbidden key scores far "
    "above the others, the others underflow to zero. Fill the scores before softmax.",
    {
        ("        if mask is not None:\n            scores = scores.masked_fill(~mask, -1e9)\n"): "",
        ("\n        return"): (
            "\n"
            "            weights = weights / "
            "weights.sum(dim=-1, "
            "keepdim=True).clamp(min=1e-30)\n"
            "        return"
        ),
    },
)

edited_fill(
    "filled_with_zero",
    "You set forbidden scores to 0. exp(0) is 1, so they still get a share: fill with -inf, whose "
    "exponential is 0.",
    {"-1e9": "0.0", ("        if mask is not None:\n            weights = weights * mask\n"): ""},
    gravity="useless",
)

edited_fill(
    "fill_of_minus_10_000",
    "Forbidden keys win where the allowed scores are below your fill of -10,000. Fill with -inf or -1e9.",
    {"1e9": "10_000.0", "* mask": "* mask.any(dim=-1, keepdim=True)"},
)

edited_fill(
    "fill_of_minus_10_000_then_masked",
    "Where the allowed scores are below your fill of -10,000, the forbidden keys get all of "
    "the weight, and your mask after softmax leaves nothing. Fill with -inf or -1e9.",
    {"1e9": "10_000.0"},
)

edited_fill(
    "mask_added",
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a little. "
    "Fill with -inf where it is False.",
    {
        ".masked_fill(~mask, -1e9)": " + mask",
        ("        if mask is not None:\n            weights = weights * mask\n"): "",
    },
    gravity="useless",
)

edited_fill(
    "asks_if_mask",
    "`if mask:` asks a whole tensor for one truth value, and torch raises an error. Ask whether there is a "
    "mask: `if mask is not None:`.",
    {
        ("])\n        if mask is not None:"): ("])\n        if mask:"),
        ("1)\n        if mask is not None:"): ("1)\n        if mask:"),
    },
    gravity="slip",
)

edited_fill(
    "mask_as_index",
    "A mask that indexes the scores, as in scores[~mask], needs their full shape (B, h, T_q, T_k); a mask "
    "for all heads or sequences has fewer axes, or axes of size 1. Use masked_fill or torch.where, which "
    "broadcast.",
    {" = scores.masked_fill(~mask, -1e9)": "[~mask] = -1e9"},
    gravity="slip",
)

edited_fill(
    "head_axis_added",
    "Every mask gets one more axis, as by unsqueeze(1), which shifts the axes of a mask that already has one "
    "for the heads. Use the mask as it comes: it broadcasts to (B, h, T_q, T_k).",
    {("\n            scores"): ("\n            mask = mask.unsqueeze(1)\n            scores")},
    gravity="slip",
)

edited_kernel(
    "first_head_s_mask",
    "You use the mask of head 0 for all heads. A mask (B, h, T_q, T_k) has one for each head: let it "
    "broadcast as it is.",
    {
        ("\n        heads"): (
            "\n        if mask is not None and mask.ndim == 4:\n            mask = mask[:, :1]\n        heads"
        )
    },
)

edited_kernel(
    "first_mask_for_all",
    "You use the mask of sequence 0 for the whole batch. Each sequence has its own padding: let (B, 1, "
    "T_q, T_k) broadcast as it is.",
    {
        ("\n        heads"): (
            "\n        if mask is not None and mask.ndim == 4:\n            mask = mask[0]\n        heads"
        )
    },
)

edited_kernel(
    "mask_turned",
    "The last two axes of the mask are exchanged, so that it forbids queries instead of keys. Use it as it "
    "comes: its axes are those of the scores, (T_q, T_k).",
    {("\n        heads"): ("\n        if mask is not None:\n            mask = mask.mT\n        heads")},
)

edited_fill(
    "nan_rows",
    "A row that holds only -inf gives NaN in softmax, and W_o spreads it over the token. Where a query may "
    "attend to nothing, set its weights to zero.",
    {"1e9": "math.inf", ("        if mask is not None:\n            weights = weights * mask\n"): ""},
)

edited_fill(
    "uniform_rows",
    "A query that may attend to nothing sees everything: softmax makes a row of equal scores "
    "uniform. Set its weights to zero after softmax.",
    {("        if mask is not None:\n            weights = weights * mask\n"): ""},
)

edited_kernel(
    "zero_after_W_o",
    "You set the output of an empty row to zero, after W_o. Set the zeros before W_o, whose bias is "
    "added to every token.",
    {
        "return self.W_o(heads.transpose(1, 2).flatten(2)": (
            "output = self.W_o(heads.transpose(1, "
            "2).flatten(2))\n"
            "        if mask is None:\n"
            "            return output\n"
            "        seen = mask.expand(*q.shape[:3], "
            "k.shape[2]).any(dim=-1).any(dim=1)\n"
            "        return output * seen.unsqueeze(-1"
        )
    },
)

edited_fill(
    "empty_rows_opened_in_place",
    "You change the caller's own mask: its empty rows are True afterwards, as after `mask |= ...`. Write "
    "`mask = mask | empty`, which makes a new mask.",
    {
        "scores = scores.masked_fill(~mask, -1e9": (
            "empty = ~mask.any(dim=-1, keepdim=True)\n"
            "            mask |= empty\n"
            "            scores = "
            "scores.masked_fill(~mask, -math.inf"
        ),
        "* mask": "* ~empty",
    },
)

edited_fill(
    "keys_not_transposed",
    "You multiply q by k as it is. A score is the dot product of a query and a key: transpose the keys in "
    "their last two axes, q @ k.transpose(-2, -1).",
    {".mT": ""},
)

edited_fill(
    "softmax_over_queries",
    "You normalise over the queries. The weights of each query sum to 1 over the keys, the last axis of "
    "the scores: write dim=-1.",
    {"=-1)": "=-2)"},
    gravity="useless",
)

edited_fill(
    "softmax_over_heads",
    "Your weights sum to 1 over the heads, not over the keys: you normalise over axis 1 of four, which "
    "F.softmax takes without `dim`. Write dim=-1.",
    {"torch.softmax(scores, dim=-1": "F.softmax(scores"},
    gravity="useless",
)

edited_fill(
    "no_maximum",
    "exp overflows for scores beyond 88 in float32, 709 in float64. Use torch.softmax, or subtract each "
    "row's maximum first: the weights stay the same.",
    {
        (
            "if mask is not None:\n"
            "            scores = scores.masked_fill(~mask, -1e9)\n"
            "        weights = torch.softmax(scores, dim=-1"
        ): "weights = torch.exp(scores",
        ("\n        return"): (
            "\n        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)\n        return"
        ),
    },
)

edited_kernel(
    "no_error",
    "You do not check that the heads divide d_model. Raise a ValueError in __init__, where the mistake is "
    "made, before the first batch comes.",
    {
        (
            "        if d_model % num_heads:\n"
            '            raise ValueError(f"{num_heads} heads do not divide a width '
            'of {d_model}")\n'
        ): ""
    },
)

edited_kernel(
    "asserted",
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`.",
    {
        (
            "if d_model % num_heads:\n"
            '            raise ValueError(f"{num_heads} heads do not divide a width '
            'of {d_model}")'
        ): ('assert d_model % num_heads == 0, "the heads do not divide d_model"')
    },
)

edited_kernel(
    "bias_ignored",
    "The projections have biases even with bias=False. Pass the argument on: nn.Linear(d_model, d_model, "
    "bias=bias).",
    {", bias)": ")"},
)

edited_kernel(
    "one_fused_projection",
    "Some models store one matrix for q, k and v. Make four matrices here, with the given names, W_q, W_k, "
    "W_v and W_o, each an nn.Linear(d_model, d_model).",
    {
        ("W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4)"): (
            "W_qkv = nn.Linear(d_model, 3 * d_model, "
            "bias)\n"
            "        self.W_o = nn.Linear(d_model, "
            "d_model, bias"
        ),
        (
            "q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory"
        ): (
            "W_q, W_k, W_v = self.W_qkv.weight.chunk(3)\n"
            "        q = F.linear(x, W_q).unflatten(-1, "
            "(self.num_heads, -1)).transpose(1, 2)\n"
            "        k = F.linear(memory, "
            "W_k).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = F.linear(memory, W_v"
        ),
    },
)

edited_kernel(
    "in_a_list",
    "No parameter is found: layers in a plain Python list are invisible to nn.Module, and none is trained. "
    "Make each an attribute: self.W_q = nn.Linear(...).",
    {
        ("W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))"): (
            "projections = [nn.Linear(d_model, d_model, bias) for _ in range(4)]"
        ),
        (
            "q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self."
        ): (
            "W_q, W_k, W_v, W_o = self.projections\n"
            "        q = W_q(x).unflatten(-1, "
            "(self.num_heads, -1)).transpose(1, 2)\n"
            "        k = W_k(memory).unflatten(-1, "
            "(self.num_heads, -1)).transpose(1, 2)\n"
            "        v = "
        ),
        " self.W_o(": " W_o(",
    },
)


@EXERCISE.misconception(
    "Your W_q, W_k and W_v give a single head's width, which all heads would share. Make each d_model wide: "
    "h heads of d_head, side by side."
)
class wide_as_one_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        d_head = d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_head, bias) for _ in range(3))
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = (W.unsqueeze(1) for W in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.squeeze(1).repeat(1, 1, self.num_heads))


edited_fill(
    "float32_inside",
    "You leave the weights in float32. Softmax in float32 is good for precision, but the values have "
    "the dtype of x: cast the weights back with .to(v.dtype).",
    {"scores,": "scores.float(),"},
)

edited_kernel(
    "made_on_the_cpu",
    "A tensor is made on the cpu, whatever x is, as torch.zeros does. Pass the device on: torch.zeros(..., "
    "dtype=x.dtype, device=x.device), or x.new_zeros(...).",
    {
        "return self.W_o(heads.transpose(1, 2).flatten(2)": (
            "merged = torch.zeros(x.shape, dtype=x.dtype)\n"
            "        for i in range(self.num_heads):\n"
            "            merged[..., i * q.shape[-1] : (i "
            "+ 1) * q.shape[-1]] = heads[:, i]\n"
            "        return self.W_o(merged"
        )
    },
)

edited_fill(
    "weights_cut_off",
    "No gradient reaches W_q and W_k: the weights are cut off from the scores, as by `.detach()` or "
    "`.data`, and the heads never learn where to look. Work on the scores themselves.",
    {"=-1)": "=-1).detach()"},
)

edited_fill(
    "nan_gradients",
    "The output is right, but its gradient is NaN: you add -inf and replace the NaN after softmax, and the "
    "backward pass still meets it. Use masked_fill (or torch.where), which passes no gradient to filled "
    "scores.",
    {
        (
            "scores = scores.masked_fill(~mask, -1e9)\n"
            "        weights = torch.softmax(scores, dim=-1)\n"
            "        if mask is not None:\n"
            "            weights = weights * mask"
        ): (
            "allowed = torch.zeros(mask.shape, "
            "dtype=x.dtype, device=x.device)\n"
            "            scores = scores + "
            "allowed.masked_fill(~mask, -math.inf)\n"
            "        weights = torch.softmax(scores, "
            "dim=-1).nan_to_num(0.0)"
        )
    },
)

edited_fill(
    "no_softmax",
    "You use the scores as weights. Put them through softmax over the keys, so that the weights of a query "
    "are positive and sum to 1.",
    {
        (
            "scores = q @ k.mT / math.sqrt(q.shape[-1])\n"
            "        if mask is not None:\n"
            "            scores = scores.masked_fill(~mask, -1e9)\n"
            "        weights = torch.softmax(scores, dim=-1"
        ): "weights = q @ k.mT / math.sqrt(q.shape[-1]"
    },
    gravity="useless",
)

edited_kernel(
    "causal_unasked",
    "Without a mask no token sees a later one: you forbid the future although the caller did not ask for "
    "it. Where `mask` is None, leave the scores as they are; the caller passes a causal mask where one is "
    "wanted.",
    {
        ("\n        heads"): (
            "\n"
            "        if mask is None:\n"
            "            mask = torch.ones(q.shape[2], "
            "k.shape[2], dtype=torch.bool, "
            "device=x.device).tril()\n"
            "        heads"
        )
    },
)

edited_kernel(
    "view_of_what_came",
    "`view` cannot join axes of an x whose numbers are stored in another order. nn.Linear works on the "
    "last axis and keeps the others, so x needs no view; else use reshape.",
    {
        (
            "q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)\n"
            "        k = self.W_k(memory).unflatten(-1, (self.num_heads, "
            "-1)).transpose(1, 2)\n"
            "        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)"
        ): (
            "(B, T_q, d), T_k = x.shape, memory.shape[1]\n"
            "        q = self.W_q(x.view(B * T_q, "
            "d)).view(B, T_q, self.num_heads, "
            "-1).transpose(1, 2)\n"
            "        k = self.W_k(memory.view(B * T_k, "
            "d)).view(B, T_k, self.num_heads, "
            "-1).transpose(1, 2)\n"
            "        v = self.W_v(memory.view(B * T_k, "
            "d)).view(B, T_k, self.num_heads, -1"
        )
    },
    gravity="slip",
)

edited_fill(
    "mask_of_four_sizes",
    "You unpack a shape into four sizes, so the mask must have four axes. Let a mask broadcast as it is: "
    "(T_q, T_k) is one mask for all sequences and heads.",
    {("\n            scores"): ("\n            _B, _h, _T_q, _T_k = mask.shape\n            scores")},
    gravity="slip",
)

edited_kernel(
    "no_bias_by_default",
    "Your layer has no biases unless they are asked for. Write bias=True as the default.",
    {"True": "False"},
    gravity="slip",
)

edited_kernel(
    "value_is_query",
    "You make the values with W_q, and W_v is never used. Use self.W_v(memory).",
    {"W_v(": "W_q("},
)
