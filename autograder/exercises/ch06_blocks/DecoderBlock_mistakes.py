"""Mistakes that people make in `DecoderBlock`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

from autograder.checking.edits import wrong
from autograder.exercises.ch06_blocks.DecoderBlock import EXERCISE
from autograder.exercises.ch06_blocks.DecoderBlock_styles import three_lines, what_is_added_is_collected

edited = partial(wrong, EXERCISE, three_lines)

edited(
    "queries_from_the_memory",
    "Queries come from the memory and keys from x. Exchange them, so that x asks and the memory answers: "
    "cross_attention(norm_cross(x), memory).",
    {"self.norm_cross(x), memory": "memory, self.norm_cross(x)"},
    gravity="slip",
)

edited(
    "memory_ignored",
    "cross_attention reads x a second time. Pass the memory as its second argument.",
    {"memory, memory_mask": "mask=memory_mask"},
)

edited(
    "memory_normed",
    "You norm the memory with norm_cross too. Pass the memory as it is: the encoder has normed it "
    "already, and norm_cross is for the queries.",
    {", memory, memory_mask": ", self.norm_cross(memory), memory_mask"},
    gravity="slip",
)

edited(
    "memory_normed_for_the_queries",
    "You norm the memory and not the stream. Apply norm_cross to the stream before cross_attention reads "
    "it, and pass the memory as it is.",
    {"self.norm_cross(x), memory": "x, self.norm_cross(memory)"},
)

edited(
    "cross_not_normed",
    "cross_attention reads the stream as it is. Make its queries from self.norm_cross(x).",
    {"self.norm_cross(x)": "x"},
)

edited(
    "masks_exchanged",
    "The two masks are exchanged. Pass self_mask to attention and memory_mask to cross_attention.",
    {
        ("self_mask)\n        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask"): (
            "memory_mask)\n        x = x + self.cross_attention(self.norm_cross(x), memory, self_mask"
        )
    },
    gravity="slip",
)

edited(
    "self_mask_ignored",
    "self_mask does not reach attention, so tokens see the later tokens that they should predict. Pass "
    "mask=self_mask.",
    {", mask=self_mask": ""},
    gravity="useless",
)

edited(
    "memory_mask_ignored",
    "memory_mask does not reach cross_attention, so the padding of the memory is read. Pass "
    "mask=memory_mask.",
    {", memory_mask)": ")"},
    gravity="slip",
)

edited(
    "self_mask_as_memory",
    "The second argument of attention is the memory, not the mask. Name it: mask=self_mask.",
    {"mask=self_mask": "self_mask"},
    gravity="slip",
)

edited(
    "self_attention_reads_the_memory",
    "`attention` reads the memory, as cross_attention does after it. Let the tokens of x attend to each "
    "other first: self.attention(normed, mask=self_mask).",
    {"mask=self_mask": "memory, self_mask"},
)

edited(
    "self_mask_for_both",
    "You pass self_mask to both attentions. Pass memory_mask to cross_attention, which looks at the memory.",
    {"memory_mask)": "self_mask)"},
    gravity="slip",
)

wrong(
    EXERCISE,
    what_is_added_is_collected,
    "cross_before_self",
    "The order is wrong: cross_attention comes before attention. Let x attend to itself first, then to the "
    "memory; then comes the ffn.",
    {
        (
            "added = [self.attention(self.norm_attention(x), None, self_mask)]\n"
            "        added += [self.cross_attention(self.norm_cross(x + added[0]), "
            "memory, memory_mask)]\n"
            "        added += [self.ffn(self.norm_ffn(x + added[0] + added[1]))]\n"
            "        return x + torch.stack(added).sum(dim=0"
        ): (
            "x = x + "
            "self.cross_attention(self.norm_cross(x), "
            "memory, memory_mask)\n"
            "        x = x + "
            "self.attention(self.norm_attention(x), "
            "mask=self_mask)\n"
            "        return x + self.ffn(self.norm_ffn(x)"
        )
    },
)

edited(
    "ffn_before_cross",
    "The ffn comes before cross_attention. Put it last, so that it can work on the result of "
    "cross_attention.",
    {
        (
            "cross_attention(self.norm_cross(x), memory, memory_mask)\n"
            "        return x + self.ffn(self.norm_ffn(x)"
        ): (
            "ffn(self.norm_ffn(x))\n"
            "        return x + "
            "self.cross_attention(self.norm_cross(x), "
            "memory, memory_mask"
        )
    },
)

edited(
    "cross_beside_self",
    "Both attentions read the input x. Make the queries to the memory from the stream after self-attention.",
    {
        ("x = x + self.attention(self.norm_attention(x), mask=self_mask)\n        x = x"): (
            "attended = self.attention(self.norm_attention(x), mask=self_mask)\n        x = x + attended"
        )
    },
)

edited(
    "one_attention_for_both",
    "You attend to the memory with `attention`, and cross_attention never learns. Use self.cross_attention "
    "for the memory.",
    {"cross_attention(": "attention("},
    gravity="slip",
)

edited(
    "one_norm_for_both",
    "Both attentions use norm_attention, and norm_cross never learns. Use self.norm_cross for "
    "cross_attention.",
    {"norm_cross(": "norm_attention("},
    gravity="slip",
)

edited(
    "norm_attention_before_the_ffn",
    "The ffn uses norm_attention, and norm_ffn never learns. Use self.norm_ffn for the ffn.",
    {"norm_ffn(": "norm_attention("},
    gravity="slip",
)

edited(
    "norm_cross_before_the_ffn",
    "The ffn uses norm_cross, and norm_ffn never learns. Use self.norm_ffn for the ffn.",
    {"norm_ffn(": "norm_cross("},
    gravity="slip",
)

edited(
    "norm_ffn_before_cross",
    "cross_attention uses norm_ffn, and norm_cross never learns. Use self.norm_cross for cross_attention.",
    {"norm_cross(": "norm_ffn("},
    gravity="slip",
)

edited(
    "norm_cross_before_attention",
    "`attention` uses norm_cross, and norm_attention never learns. Use self.norm_attention for attention.",
    {"norm_attention(": "norm_cross("},
    gravity="slip",
)

edited(
    "norm_ffn_before_attention",
    "`attention` uses norm_ffn, and norm_attention never learns. Use self.norm_attention for attention.",
    {"norm_attention(": "norm_ffn("},
    gravity="slip",
)

edited(
    "no_residual_around_cross",
    "The result of cross_attention replaces the stream. Add it: x = x + self.cross_attention(...).",
    {"= x + self.cross_attention": "= self.cross_attention"},
    gravity="slip",
)

edited(
    "no_residual_around_attention",
    "Self-attention replaces the stream. Add it: x = x + attention(norm_attention(x), mask=self_mask).",
    {"x = x + self.attention(": "x = self.attention("},
    gravity="slip",
)

edited(
    "no_residual_around_ffn",
    "The ffn replaces the stream. Add it: x + ffn(norm_ffn(x)).",
    {"return x + self.ffn(": "return self.ffn("},
    gravity="slip",
)

edited(
    "attentions_exchanged",
    "The two attentions are exchanged. Use self.attention for x itself, and self.cross_attention for the "
    "memory.",
    {
        "self.attention(self": "self.CROSS(self",
        "self.cross_attention(self": "self.attention(self",
        "CROSS": "cross_attention",
    },
    gravity="slip",
)

edited(
    "one_norm_everywhere",
    "All three sublayers use norm_attention; norm_cross and norm_ffn never learn. Give each sublayer its own "
    "norm.",
    {"self.norm_cross(x)": "self.norm_attention(x)", "self.norm_ffn(x)": "self.norm_attention(x)"},
    gravity="slip",
)

edited(
    "no_residual",
    "Each sublayer replaces the stream. Add its output to the stream instead: x + f(norm(x)).",
    {
        (
            "x + self.attention(self.norm_attention(x), mask=self_mask)\n"
            "        x = x + self.cross_attention(self.norm_cross(x), memory, "
            "memory_mask)\n"
            "        return x +"
        ): (
            "self.attention(self.norm_attention(x), "
            "mask=self_mask)\n"
            "        x = "
            "self.cross_attention(self.norm_cross(x), "
            "memory, memory_mask)\n"
            "        return"
        )
    },
    gravity="useless",
)

edited(
    "residual_from_the_normed",
    "You overwrite x with the normed x and add to that. Norm only the input of a sublayer: the stream itself "
    "is never normed here.",
    {
        (
            "x + self.attention(self.norm_attention(x), mask=self_mask)\n"
            "        x = x + self.cross_attention(self.norm_cross(x), memory, "
            "memory_mask)\n"
            "        return x + self.ffn(self.norm_ffn(x)"
        ): (
            "self.norm_attention(x)\n"
            "        x = x + self.attention(x, "
            "mask=self_mask)\n"
            "        x = self.norm_cross(x)\n"
            "        x = x + self.cross_attention(x, "
            "memory, memory_mask)\n"
            "        x = self.norm_ffn(x)\n"
            "        return x + self.ffn(x"
        )
    },
)

edited(
    "post_norm",
    "You norm after each sum, as the paper of 2017 does. Write this block pre-norm: x + f(norm(x)).",
    {
        (
            "x + self.attention(self.norm_attention(x), mask=self_mask)\n"
            "        x = x + self.cross_attention(self.norm_cross(x), memory, "
            "memory_mask)\n"
            "        return x + self.ffn(self.norm_ffn"
        ): (
            "self.norm_attention(x + self.attention(x, "
            "mask=self_mask))\n"
            "        x = self.norm_cross(x + "
            "self.cross_attention(x, memory, "
            "memory_mask))\n"
            "        return self.norm_ffn(x + self.ffn"
        )
    },
)

edited(
    "changed_in_place",
    "You write into the caller's tensor, as `x += ...` does, and autograd finds it changed. Write x = x + "
    "..., which makes a new one.",
    {
        ("= x + self.attention(self.norm_attention(x), mask=self_mask)\n        x = x +"): (
            "+= self.attention(self.norm_attention(x), mask=self_mask)\n        x +="
        )
    },
)

edited(
    "causal_unasked",
    "You forbid the future although the caller did not ask for it. Without a self_mask let every token of "
    "x see every other; the caller passes a causal mask where one is wanted.",
    {
        (":\n        x"): (
            ":\n"
            "        T = x.shape[1]\n"
            "        self_mask = torch.ones(T, T, "
            "dtype=torch.bool).tril() if self_mask is "
            "None else self_mask\n"
            "        x"
        )
    },
)

edited(
    "memory_appended",
    "You append the memory to the keys of self-attention, so that one softmax serves both. Let two "
    "attentions follow each other, each with its own softmax.",
    {
        (
            "x = x + self.attention(self.norm_attention(x), mask=self_mask)\n"
            "        x = x + self.cross_attention(self.norm_cross(x), memory, "
            "memory_mask"
        ): (
            "normed = self.norm_attention(x)\n"
            "        x = x + self.attention(normed, "
            "torch.cat([normed, memory], dim=1)"
        )
    },
)

edited(
    "self_mask_inverted",
    "You invert self_mask. True means may attend, here and in attention: pass it on as it is.",
    {(":\n        x"): (":\n        self_mask = None if self_mask is None else ~self_mask\n        x")},
    gravity="useless",
)

edited(
    "relu",
    "Your ffn uses ReLU, as the original transformer does. Use GELU here: nn.GELU().",
    {"GELU": "ReLU"},
    gravity="slip",
)

edited(
    "memory_mask_inverted",
    "You invert memory_mask. True means may attend, here and in attention: pass it on as it is.",
    {(":\n        x"): (":\n        memory_mask = None if memory_mask is None else ~memory_mask\n        x")},
    gravity="useless",
)

edited(
    "no_masks",
    "Neither mask reaches its attention. Pass mask=self_mask to attention and mask=memory_mask to "
    "cross_attention.",
    {
        (", mask=self_mask)\n        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask"): (
            ")\n        x = x + self.cross_attention(self.norm_cross(x), memory"
        )
    },
    gravity="useless",
)

edited(
    "norms_exchanged",
    "The norms of the two attentions are exchanged. Use norm_attention for attention and norm_cross for "
    "cross_attention.",
    {
        ("norm_attention(x), mask=self_mask)\n        x = x + self.cross_attention(self.norm_cross"): (
            "norm_cross(x), mask=self_mask)\n        x = x + self.cross_attention(self.norm_attention"
        )
    },
    gravity="slip",
)

edited(
    "attention_not_normed",
    "Self-attention reads x as it is. Let it read self.norm_attention(x).",
    {"self.norm_attention(x)": "x"},
)

edited(
    "ffn_not_normed",
    "The ffn reads the stream as it is. Let it read self.norm_ffn(x).",
    {"self.norm_ffn(x)": "x"},
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
    "Both attentions have one head, whatever num_heads is. Write MultiHeadAttention(d_model, num_heads).",
    {
        ("num_heads)\n        self.cross_attention = MultiHeadAttention(d_model, num_heads"): (
            "1)\n        self.cross_attention = MultiHeadAttention(d_model, 1"
        )
    },
    gravity="slip",
)

edited(
    "first_head_s_masks",
    "You use the masks of head 0 for all heads. A mask (B, h, T_q, T_k) has one for each head: pass it on as "
    "it is.",
    {
        (":\n        x"): (
            ":\n"
            "        if self_mask is not None and "
            "self_mask.ndim == 4:\n"
            "            self_mask = self_mask[:, :1]\n"
            "        if memory_mask is not None and "
            "memory_mask.ndim == 4:\n"
            "            memory_mask = memory_mask[:, :1]\n"
            "        x"
        )
    },
    gravity="slip",
)
