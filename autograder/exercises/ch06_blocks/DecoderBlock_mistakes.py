"""Mistakes that people make in `DecoderBlock`, each with the sentence for its author."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercises.ch06_blocks.DecoderBlock import EXERCISE
from autograder.exercises.ch06_blocks.given import MultiHeadAttention


@EXERCISE.misconception(
    "Queries come from the memory and keys from x. Exchange them, so that x asks and the memory answers: "
    "cross_attention(norm_cross(x), memory).",
    gravity="slip",
)
class queries_from_the_memory(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(memory, self.norm_cross(x), memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception("cross_attention reads x a second time. Pass the memory as its second argument.")
class memory_ignored(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), mask=memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You norm the memory with norm_cross too. Pass the memory as it is: it comes normed from the encoder's "
    "end, and norm_cross is for the queries."
)
class memory_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), self.norm_cross(memory), memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You norm the memory and not the stream. Use norm_cross for what cross_attention reads from x, and pass "
    "the memory as it is."
)
class memory_normed_for_the_queries(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(x, self.norm_cross(memory), memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "cross_attention reads the stream as it is. Make its queries from self.norm_cross(x)."
)
class cross_not_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(x, memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "The two masks are exchanged. Pass self_mask to attention and memory_mask to cross_attention.",
    gravity="slip",
)
class masks_exchanged(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=memory_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, self_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "self_mask does not reach attention, so tokens see the future they should write. Pass mask=self_mask.",
    gravity="useless",
)
class self_mask_ignored(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x))
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "memory_mask does not reach cross_attention, so the padding of the memory is read. Pass "
    "mask=memory_mask.",
    gravity="slip",
)
class memory_mask_ignored(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "The second argument of attention is the memory, not the mask. Name it: mask=self_mask.",
    gravity="slip",
)
class self_mask_as_memory(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "`attention` reads the memory, as cross_attention does after it. Let the tokens of x attend to each "
    "other first: self.attention(normed, mask=self_mask)."
)
class self_attention_reads_the_memory(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), memory, self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You pass self_mask to both. Pass memory_mask to cross_attention, which looks at the memory.",
    gravity="slip",
)
class self_mask_for_both(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, self_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "The order is wrong: cross_attention comes before attention. Let x attend to itself first, then to the "
    "memory; then comes the ffn."
)
class cross_before_self(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "The ffn comes before cross_attention. Put it last, so that it can work on what was read from the memory."
)
class ffn_before_cross(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.ffn(self.norm_ffn(x))
        return x + self.cross_attention(self.norm_cross(x), memory, memory_mask)


@EXERCISE.misconception(
    "Both attentions read the x that came in. Make the queries to the memory from the stream after "
    "self-attention."
)
class cross_beside_self(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        attended = self.attention(self.norm_attention(x), mask=self_mask)
        x = x + attended + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You attend to the memory with `attention`, and cross_attention never learns. Use self.cross_attention "
    "for the memory."
)
class one_attention_for_both(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Both attentions use norm_attention, and norm_cross never learns. Use self.norm_cross for "
    "cross_attention."
)
class one_norm_for_both(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_attention(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "What cross_attention returns replaces the stream. Add it: x = x + self.cross_attention(...)."
)
class no_residual_around_cross(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Each sublayer replaces what came in. Add it to the stream instead: x + f(norm(x)).",
    gravity="useless",
)
class no_residual(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.attention(self.norm_attention(x), mask=self_mask)
        x = self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You overwrite x by its norm and add to that. Norm only what a sublayer reads: the stream itself is "
    "never normed here."
)
class residual_from_the_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.norm_attention(x)
        x = x + self.attention(x, mask=self_mask)
        x = self.norm_cross(x)
        x = x + self.cross_attention(x, memory, memory_mask)
        x = self.norm_ffn(x)
        return x + self.ffn(x)


@EXERCISE.misconception(
    "You norm after each sum, as the paper of 2017 does. Write this block pre-norm: x + f(norm(x))."
)
class post_norm(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.norm_attention(x + self.attention(x, mask=self_mask))
        x = self.norm_cross(x + self.cross_attention(x, memory, memory_mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.misconception(
    "You write into the caller's tensor, as `x += ...` does, and autograd finds it changed. Write x = x + "
    "..., which makes a new one."
)
class changed_in_place(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x += self.attention(self.norm_attention(x), mask=self_mask)
        x += self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You forbid the future though nobody asked. Without a self_mask let every token of x see every other; "
    "the caller passes a causal one where it is wanted."
)
class causal_unasked(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        T = x.shape[1]
        self_mask = torch.ones(T, T, dtype=torch.bool).tril() if self_mask is None else self_mask
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You append the memory to the keys of self-attention, one softmax for both. Let two attentions follow "
    "each other, each with its own softmax."
)
class memory_appended(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        normed = self.norm_attention(x)
        x = x + self.attention(normed, torch.cat([normed, memory], dim=1))
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Your ffn uses ReLU, as the original transformer does. Here GELU is asked: nn.GELU().",
    gravity="slip",
)
class relu(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You invert self_mask. True means may attend, here and in attention: pass it on as it is.",
    gravity="useless",
)
class self_mask_inverted(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        self_mask = None if self_mask is None else ~self_mask
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You invert memory_mask. True means may attend, here and in attention: pass it on as it is.",
    gravity="useless",
)
class memory_mask_inverted(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        memory_mask = None if memory_mask is None else ~memory_mask
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Neither mask reaches its attention. Pass mask=self_mask to attention and mask=memory_mask to "
    "cross_attention.",
    gravity="useless",
)
class no_masks(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x))
        x = x + self.cross_attention(self.norm_cross(x), memory)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "The norms of the two attentions are exchanged. Use norm_attention for attention and norm_cross for "
    "cross_attention.",
    gravity="slip",
)
class norms_exchanged(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_cross(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_attention(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception("Attention to itself reads x as it is. Let it read self.norm_attention(x).")
class attention_not_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(x, mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception("The ffn reads the stream as it is. Let it read self.norm_ffn(x).")
class ffn_not_normed(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(x)


@EXERCISE.misconception(
    "Your ffn is 4 * d_model wide, whatever d_ff says. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    gravity="slip",
)
class four_times_as_wide(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Your ffn stays d_model wide, whatever d_ff says. Write nn.Linear(d_model, d_ff), nn.GELU(), "
    "nn.Linear(d_ff, d_model).",
    gravity="slip",
)
class as_wide_as_the_stream(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_model), nn.GELU(), nn.Linear(d_model, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "Both attentions have one head, whatever num_heads says. Write MultiHeadAttention(d_model, num_heads).",
    gravity="slip",
)
class one_head(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, 1)
        self.cross_attention = MultiHeadAttention(d_model, 1)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.misconception(
    "You use the masks of head 0 for all heads. A mask (B, h, T_q, T_k) has one for each: pass it on as it "
    "is.",
    gravity="slip",
)
class first_head_s_masks(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        if self_mask is not None and self_mask.ndim == 4:
            self_mask = self_mask[:, :1]
        if memory_mask is not None and memory_mask.ndim == 4:
            memory_mask = memory_mask[:, :1]
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))
