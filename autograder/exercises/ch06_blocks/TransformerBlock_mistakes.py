"""Mistakes that people make in `TransformerBlock`, each with the sentence for its author."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercises.ch06_blocks.given import MultiHeadAttention
from autograder.exercises.ch06_blocks.TransformerBlock import EXERCISE


@EXERCISE.misconception(
    "You have pre and post exchanged. Pre-norm norms what a sublayer reads, x + f(norm(x)); post-norm norms "
    "the sum, norm(x + f(x)).",
    gravity="slip",
)
class pre_and_post_exchanged(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "post":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    'Your block is pre-norm whatever `norm` says. Keep the argument, self.norm = norm, and for "post" norm '
    "the sum: norm(x + f(x))."
)
class always_pre_norm(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_attention(x), mask=mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Your block is post-norm whatever `norm` says. For pre-norm, the default, norm what a sublayer reads "
    "and leave the sum alone: x + f(norm(x))."
)
class always_post_norm(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Each sublayer replaces what came in. Add it instead, x + f(norm(x)): that sum is the path on which "
    "gradients get through deep stacks.",
    gravity="useless",
)
class no_residual(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = self.attention(self.norm_attention(x), mask=mask)
            return self.ffn(self.norm_ffn(x))
        x = self.norm_attention(self.attention(x, mask=mask))
        return self.norm_ffn(self.ffn(x))


@EXERCISE.misconception(
    "The result of attention replaces x, so a token forgets itself. Add it: x = x + self.attention(...)."
)
class no_residual_around_attention(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "The result of the ffn replaces the stream, and what attention brought is lost. Add it: x + "
    "self.ffn(...)."
)
class no_residual_around_ffn(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(self.ffn(x))


@EXERCISE.misconception(
    "You overwrite x by its norm and add to that. Norm only what a sublayer reads: in a pre-norm block the "
    "stream itself is never normed."
)
class residual_from_the_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = self.norm_attention(x)
            x = x + self.attention(x, mask=mask)
            x = self.norm_ffn(x)
            return x + self.ffn(x)
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You use norm_attention twice, and norm_ffn never learns. Give each sublayer its own norm."
)
class one_norm_for_both(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_attention(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_attention(x + self.ffn(x))


@EXERCISE.misconception(
    "norm_ffn and norm_attention are one module, so they share one weight. Make two: nn.LayerNorm(d_model) "
    "for each."
)
class one_module_under_two_names(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = self.norm_attention
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "The two norms are exchanged. Use norm_attention for attention and norm_ffn for the ffn.",
    gravity="slip",
)
class norms_exchanged(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_ffn(x), mask=mask)
            return x + self.ffn(self.norm_attention(x))
        x = self.norm_ffn(x + self.attention(x, mask=mask))
        return self.norm_attention(x + self.ffn(x))


@EXERCISE.misconception(
    "Attention reads x as it is. In a pre-norm block let it read self.norm_attention(x), or large tokens "
    "saturate its softmax."
)
class attention_not_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(x, mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "The ffn reads the stream as it is. In a pre-norm block let it read self.norm_ffn(x)."
)
class ffn_not_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(x)
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Queries come from the normed x, keys and values from x itself. Pass the normed x alone; for attention "
    "to itself it is the memory as well."
)
class only_queries_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), x, mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Both sublayers read x, side by side as in GPT-NeoX. Let the ffn read what attention has left: x + "
    "attention first, then the ffn of that."
)
class ffn_beside_attention(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            attended = self.attention(self.norm_attention(x), mask=mask)
            return x + attended + self.ffn(self.norm_ffn(x))
        h = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(h + self.ffn(x))


@EXERCISE.misconception(
    "The ffn reads the x that came in and is added to it, so nothing of attention is left. Keep the sum, h "
    "= x + attention; the ffn reads h and is added to h."
)
class attention_lost(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            h = x + self.attention(self.norm_attention(x), mask=mask)
            h = x + self.ffn(self.norm_ffn(x))
            return h
        h = self.norm_attention(x + self.attention(x, mask=mask))
        h = self.norm_ffn(x + self.ffn(x))
        return h


@EXERCISE.misconception(
    "You add the ffn to the x that came in, and what attention brought is lost on the way. Add it to the "
    "stream after attention."
)
class ffn_added_to_the_old_x(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            h = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(h))
        h = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(h))


@EXERCISE.misconception(
    'Attention is pre-norm and the ffn post-norm. With norm="pre" norm nothing after the last sum: x + '
    "self.ffn(self.norm_ffn(x))."
)
class pre_norm_that_ends_in_a_norm(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return self.norm_ffn(x + self.ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    'For "post" you norm the result of the sublayer and then add. Norm the sum: norm(x + f(x)).'
)
class norm_of_what_is_added(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = x + self.norm_attention(self.attention(x, mask=mask))
        return x + self.norm_ffn(self.ffn(x))


@EXERCISE.misconception(
    'For "post" the ffn reads a normed sum but is added to the sum before the norm. Let the normed sum *be* '
    "the stream from there on."
)
class post_norm_beside_the_stream(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = x + self.attention(x, mask=mask)
        return self.norm_ffn(x + self.ffn(self.norm_attention(x)))


@EXERCISE.misconception(
    "Your ffn uses ReLU, as the original transformer does. Here GELU is asked: nn.GELU().",
    gravity="slip",
)
class relu(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You take the tanh approximation of GELU, as GPT-2 does: it is off by up to 0.0005. Write nn.GELU() "
    "without an argument, which is exact."
)
class gelu_by_tanh(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(approximate="tanh"), nn.Linear(d_ff, d_model)
        )

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "No activation stands between your two linear layers, so they are one linear layer in disguise. Put "
    "nn.GELU() between them; ffn.2 is then the second Linear."
)
class nothing_bends(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.Identity(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "A second GELU at the end keeps what the ffn adds above -0.17. Let its last layer be linear."
)
class bends_at_the_end(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model), nn.GELU())

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "The mask does not reach attention. Pass it on: self.attention(..., mask=mask).",
    gravity="useless",
)
class mask_ignored(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x))
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You invert the mask. True means may attend, here and in attention: pass it on as it is.",
    gravity="useless",
)
class mask_inverted(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=None if mask is None else ~mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=None if mask is None else ~mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "The second argument of attention is the memory, not the mask. Name it: self.attention(..., mask=mask).",
    gravity="slip",
)
class mask_as_memory(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You forbid the future though nobody asked. Without a mask let every token see every other; the caller "
    "passes a causal mask where one is wanted."
)
class causal_unasked(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You write into the caller's tensor, as `x += ...` does, and autograd finds it changed. Write x = x + "
    "..., which makes a new one."
)
class changed_in_place(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x += self.attention(self.norm_attention(x), mask=mask)
            x += self.ffn(self.norm_ffn(x))
            return x
        x += self.attention(x, mask=mask)
        x = self.norm_attention(x)
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Your ffn is 4 * d_model wide, whatever d_ff says. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    gravity="slip",
)
class four_times_as_wide(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Your ffn stays d_model wide, whatever d_ff says. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    gravity="slip",
)
class as_wide_as_the_stream(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_model), nn.GELU(), nn.Linear(d_model, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Your attention has one head, whatever num_heads says. Write MultiHeadAttention(d_model, num_heads).",
    gravity="slip",
)
class one_head(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, 1)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    'Your block is post-norm where `norm` is left out. Write norm="pre" as the default.', gravity="slip"
)
class post_norm_by_default(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="post"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You use the mask of head 0 for all heads. A mask (B, h, T, T) has one for each: pass it on as it is.",
    gravity="slip",
)
class first_head_s_mask(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if mask is not None and mask.ndim == 4:
            mask = mask[:, :1]
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "Every mask gets one more axis, as by unsqueeze(1), which shifts the axes of a mask that has its own for "
    "the heads. Pass it on as it is: attention lets it broadcast.",
    gravity="slip",
)
class head_axis_added(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        mask = None if mask is None else mask.unsqueeze(1)
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))
