"""Mistakes that people make in `TransformerBlock`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

from autograder.checking.edits import wrong
from autograder.exercises.ch06_blocks.TransformerBlock import EXERCISE
from autograder.exercises.ch06_blocks.TransformerBlock_styles import one_expression, two_branches

edited = partial(wrong, EXERCISE, two_branches)

edited(
    "pre_and_post_exchanged",
    "Pre and post are exchanged. Pre-norm norms the input of a sublayer, x + f(norm(x)); post-norm "
    "norms the sum, norm(x + f(x)).",
    {'"pre":': '"post":'},
    gravity="slip",
)

wrong(
    EXERCISE,
    one_expression,
    "always_pre_norm",
    'Your block is pre-norm whatever `norm` is. Keep the argument, self.norm = norm, and for "post" norm '
    "the sum: norm(x + f(x)).",
    {
        (
            'if self.norm == "post":\n'
            "            h = self.norm_attention(self.attention(x, x, mask) + x)\n"
            "            return self.norm_ffn(self.ffn(h) + h)\n"
            "        return (h := x + self.attention(self.norm_attention(x), None, "
            "mask)) + self.ffn(self.norm_ffn(h"
        ): (
            "x = x + "
            "self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "        return x + self.ffn(self.norm_ffn(x"
        )
    },
)

edited(
    "always_post_norm",
    "Your block is post-norm whatever `norm` is. For pre-norm, the default, norm the input of a sublayer "
    "and leave the sum alone: x + f(norm(x)).",
    {
        (
            '        if self.norm == "pre":\n'
            "            x = x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
        ): ""
    },
)

edited(
    "no_residual",
    "Each sublayer replaces the stream. Add its output instead, x + f(norm(x)): this sum is the path on "
    "which gradients get through deep stacks.",
    {
        (
            "x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x + "
        ): (
            "self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "            return "
            "self.ffn(self.norm_ffn(x))\n"
            "        x = "
            "self.norm_attention(self.attention(x, "
            "mask=mask))\n"
            "        return self.norm_ffn("
        )
    },
    gravity="useless",
)

edited(
    "no_residual_around_attention",
    "The result of attention replaces x, so a token forgets itself. Add it: x = x + self.attention(...).",
    {"= x + self.": "= self.", "norm_attention(x + self.": "norm_attention(self."},
)

edited(
    "no_residual_around_ffn",
    "The result of the ffn replaces the stream, and what attention added is lost. Add it: x + self.ffn(...).",
    {"return x + self.": "return self.", "norm_ffn(x + self.": "norm_ffn(self."},
)

edited(
    "residual_from_the_normed",
    "You overwrite x with the normed x and add to that. Norm only the input of a sublayer: in a pre-norm "
    "block the stream itself is never normed.",
    {
        (
            "x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x)"
        ): (
            "self.norm_attention(x)\n"
            "            x = x + self.attention(x, "
            "mask=mask)\n"
            "            x = self.norm_ffn(x)\n"
            "            return x + self.ffn(x"
        )
    },
)

edited(
    "one_norm_for_both",
    "You use norm_attention twice, and norm_ffn never learns. Give each sublayer its own norm.",
    {"self.norm_ffn(x)": "self.norm_attention(x)", "self.norm_ffn(x ": "self.norm_attention(x "},
    gravity="slip",
)

edited(
    "one_module_under_two_names",
    "norm_ffn and norm_attention are one module, so they share one weight. Make two: nn.LayerNorm(d_model) "
    "for each.",
    {"norm_ffn = nn.LayerNorm(d_model)": "norm_ffn = self.norm_attention"},
)

edited(
    "norms_exchanged",
    "The two norms are exchanged. Use norm_attention for attention and norm_ffn for the ffn.",
    {
        (
            "norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn"
        ): (
            "norm_ffn(x), mask=mask)\n"
            "            return x + "
            "self.ffn(self.norm_attention(x))\n"
            "        x = self.norm_ffn(x + "
            "self.attention(x, mask=mask))\n"
            "        return self.norm_attention"
        )
    },
    gravity="slip",
)

edited(
    "attention_not_normed",
    "Attention reads x as it is. In a pre-norm block let it read self.norm_attention(x), or large tokens "
    "saturate its softmax.",
    {"self.norm_attention(x)": "x"},
)

edited(
    "ffn_not_normed",
    "The ffn reads the stream as it is. In a pre-norm block let it read self.norm_ffn(x).",
    {"self.norm_ffn(x)": "x"},
)

edited(
    "only_queries_normed",
    "Queries come from the normed x, keys and values from x itself. Pass the normed x alone; in "
    "self-attention it is the memory as well.",
    {"), mask=mask": "), x, mask=mask"},
)

edited(
    "ffn_beside_attention",
    "Both sublayers read x, side by side as in GPT-NeoX. Let the ffn read the stream after attention: "
    "compute x + attention first, then the ffn of this sum.",
    {
        (
            "x = x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x"
        ): (
            "attended = "
            "self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "            return x + attended + "
            "self.ffn(self.norm_ffn(x))\n"
            "        h = self.norm_attention(x + "
            "self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(h"
        )
    },
)

edited(
    "attention_lost",
    "The ffn reads the x that came in and is added to it, so nothing of attention is left. Keep the sum, h "
    "= x + attention; the ffn reads h and is added to h.",
    {
        (
            "x = x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x + self.ffn(x))"
        ): (
            "h = x + "
            "self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "            h = x + "
            "self.ffn(self.norm_ffn(x))\n"
            "            return h\n"
            "        h = self.norm_attention(x + "
            "self.attention(x, mask=mask))\n"
            "        h = self.norm_ffn(x + self.ffn(x))\n"
            "        return h"
        )
    },
)

edited(
    "ffn_added_to_the_old_x",
    "You add the ffn's output to the input x, so attention's output is left out of the sum. Add it to the "
    "stream after attention.",
    {
        (
            "x = x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x + self.ffn(x"
        ): (
            "h = x + "
            "self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "            return x + "
            "self.ffn(self.norm_ffn(h))\n"
            "        h = self.norm_attention(x + "
            "self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x + self.ffn(h"
        )
    },
)

edited(
    "pre_norm_that_ends_in_a_norm",
    'Attention is pre-norm and the ffn post-norm. With norm="pre" norm nothing after the last sum: x + '
    "self.ffn(self.norm_ffn(x)).",
    {"x + self.ffn(self.norm_ffn": "self.norm_ffn(x + self.ffn"},
)

edited(
    "norm_of_what_is_added",
    'For "post" you norm the result of the sublayer and then add. Norm the sum: norm(x + f(x)).',
    {
        ("self.norm_attention(x + self.attention(x, mask=mask))\n        return self.norm_ffn(x + "): (
            "x + self.norm_attention(self.attention(x, mask=mask))\n        return x + self.norm_ffn("
        )
    },
)

edited(
    "post_norm_beside_the_stream",
    'For "post" the ffn reads a normed sum but is added to the sum before the norm. Let the normed sum *be* '
    "the stream from there on.",
    {
        (
            "self.norm_attention(x + self.attention(x, mask=mask))\n"
            "        return self.norm_ffn(x + self.ffn(x"
        ): (
            "x + self.attention(x, mask=mask)\n"
            "        return self.norm_ffn(x + "
            "self.ffn(self.norm_attention(x)"
        )
    },
)

edited(
    "relu",
    "Your ffn uses ReLU, as the original transformer does. Use GELU here: nn.GELU().",
    {"GELU": "ReLU"},
    gravity="slip",
)

edited(
    "gelu_by_tanh",
    "You take the tanh approximation of GELU, as GPT-2 does: it is off by up to 0.0005. Write nn.GELU() "
    "without an argument, which is exact.",
    {
        "nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)": (
            "\n"
            "            nn.Linear(d_model, d_ff), "
            'nn.GELU(approximate="tanh"), nn.Linear(d_ff, '
            "d_model)\n"
            "        "
        )
    },
)

edited(
    "nothing_bends",
    "There is no activation between your two linear layers, so they are one linear layer in disguise. Put "
    "nn.GELU() between them; ffn.2 is then the second Linear.",
    {"GELU": "Identity"},
)

edited(
    "bends_at_the_end",
    "A second GELU at the end keeps every number that the ffn adds above -0.17. Let its last layer be "
    "linear.",
    {"d_model))": "d_model), nn.GELU())"},
)

edited(
    "mask_ignored",
    "The mask does not reach attention. Pass it on: self.attention(..., mask=mask).",
    {"), mask=mask)": "))", "x, mask=mask)": "x)"},
    gravity="useless",
)

edited(
    "mask_inverted",
    "You invert the mask. True means may attend, here and in attention: pass it on as it is.",
    {
        "), mask=mask)": "), mask=None if mask is None else ~mask)",
        "mask=mask))": "mask=None if mask is None else ~mask))",
    },
    gravity="useless",
)

edited(
    "mask_as_memory",
    "The second argument of attention is the memory, not the mask. Name it: self.attention(..., mask=mask).",
    {"), mask=mask)": "), mask)", "mask=mask))": "mask))"},
    gravity="slip",
)

edited(
    "causal_unasked",
    "You forbid the future although the caller did not ask for it. Without a mask let every token see "
    "every other; the caller passes a causal mask where one is wanted.",
    {
        ("\n        if"): (
            "\n"
            "        T = x.shape[1]\n"
            "        mask = torch.ones(T, T, "
            "dtype=torch.bool).tril() if mask is None "
            "else mask\n"
            "        if"
        )
    },
)

edited(
    "changed_in_place",
    "You write into the caller's tensor, as `x += ...` does, and autograd finds it changed. Write x = x + "
    "..., which makes a new one.",
    {
        (
            "= x + self.attention(self.norm_attention(x), mask=mask)\n"
            "            return x + self.ffn(self.norm_ffn(x))\n"
            "        x = self.norm_attention(x + self.attention(x, mask=mask)"
        ): (
            "+= self.attention(self.norm_attention(x), "
            "mask=mask)\n"
            "            x += self.ffn(self.norm_ffn(x))\n"
            "            return x\n"
            "        x += self.attention(x, mask=mask)\n"
            "        x = self.norm_attention(x"
        )
    },
)

edited(
    "four_times_as_wide",
    "Your ffn is 4 * d_model wide, whatever d_ff is. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    {"d_ff), nn.GELU(), nn.Linear(d_ff": "4 * d_model), nn.GELU(), nn.Linear(4 * d_model"},
    gravity="slip",
)

edited(
    "as_wide_as_the_stream",
    "Your ffn stays d_model wide, whatever d_ff is. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    {"d_ff), nn.GELU(), nn.Linear(d_ff": "d_model), nn.GELU(), nn.Linear(d_model"},
    gravity="slip",
)

edited(
    "one_head",
    "Your attention has one head, whatever num_heads is. Write MultiHeadAttention(d_model, num_heads).",
    {"num_heads)": "1)"},
    gravity="slip",
)

edited(
    "post_norm_by_default",
    'Your block is post-norm where `norm` is left out. Write norm="pre" as the default.',
    {'"pre")': '"post")'},
    gravity="slip",
)

edited(
    "first_head_s_mask",
    "You use the mask of head 0 for all heads. A mask (B, h, T, T) has one for each head: pass it on as it "
    "is.",
    {
        ("\n        if"): (
            "\n        if mask is not None and mask.ndim == 4:\n            mask = mask[:, :1]\n        if"
        )
    },
    gravity="slip",
)

edited(
    "head_axis_added",
    "Every mask gets one more axis, as by unsqueeze(1), which shifts the axes of a mask that already has one "
    "for the heads. Pass it on as it is: attention lets it broadcast.",
    {("\n        if"): ("\n        mask = None if mask is None else mask.unsqueeze(1)\n        if")},
    gravity="slip",
)
