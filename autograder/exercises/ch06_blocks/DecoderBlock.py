"""ch06_blocks/DecoderBlock: a block that also reads a memory, such as the sentence to translate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property
from autograder.exercises.ch06_blocks import given, reference
from autograder.exercises.ch06_blocks.blocks import (
    fits,
    laws,
    silent_attention,
    the_memory_has_no_order,
    the_memory_is_read,
    the_memory_mask_is_kept,
    weights,
)
from autograder.exercises.ch06_blocks.given import MultiHeadAttention
from autograder.exercises.ch06_blocks.tokens import tokens
from autograder.exercises.draw import mask, sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.library import LAYERS


def block(
    rng: np.random.Generator,
    says: str,
    num_heads: int,
    d_ff: int,
    x: Tensor,
    memory: Tensor,
    **masks: Tensor,
) -> Case:
    """A case of a block with drawn weights, in the dtype of x."""
    init = {"d_model": x.shape[-1], "num_heads": num_heads, "d_ff": d_ff}
    own = weights(rng, x.shape[-1], d_ff, cross=True, dtype=x.dtype)
    return Case(says, (init, own, x, memory), dict(masks), probe="module")


def small(rng: np.random.Generator) -> tuple[int, int, Tensor, Tensor]:
    """num_heads, d_ff, x and memory: 2 tokens that read 3."""
    return 2, 7, tokens(rng, 1, 2, 4), tokens(rng, 1, 3, 4)


def unmasked(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "2 tokens, a memory of 3, d_model = 4, 2 heads, d_ff = 7", *small(rng))
    B, h, d_head, T_q, T_k = sizes(rng, (2, 3), (2, 4), (2, 5), (3, 5), (7, 7))
    d_model, d_ff = h * d_head, int(rng.integers(21, 28))
    yield block(rng, "any sizes", h, d_ff, tokens(rng, B, T_q, d_model), tokens(rng, B, T_k, d_model))
    yield block(rng, "a memory as long as x", 3, 5, tokens(rng, 2, 4, 6), tokens(rng, 2, 4, 6))
    yield block(rng, "a memory of one token", 2, 9, tokens(rng, 2, 3, 8), tokens(rng, 2, 1, 8))
    alike = torch.linspace(-1, 1, 3).view(1, 3, 1) * torch.ones(4)
    says = "tokens whose channels are all alike"
    yield silent_attention(block(rng, says, 2, 7, alike, tokens(rng, 1, 2, 4)))
    x, memory = strided(tokens(rng, 3, 2, 8)), strided(tokens(rng, 3, 5, 8))
    yield block(rng, "tensors that are not contiguous", 4, 11, x, memory)


def self_masked(rng: np.random.Generator) -> Iterator[Case]:
    causal = torch.ones(2, 2, dtype=torch.bool).tril()
    yield block(rng, "a causal self_mask (T, T)", *small(rng), self_mask=causal)
    x, memory = tokens(rng, 2, 4, 6), tokens(rng, 2, 4, 6)
    yield block(rng, "a self_mask (B, 1, T, T)", 3, 9, x, memory, self_mask=mask(rng, 2, 1, 4, 4))
    yield block(rng, "a self_mask (1, T, T)", 3, 8, x, memory, self_mask=mask(rng, 1, 4, 4))
    full = strided(mask(rng, 2, 3, 4, 4))
    yield block(rng, "a self_mask (B, h, T, T), not contiguous", 3, 7, x, memory, self_mask=full)
    x, memory = tokens(rng, 3, 4, 8), tokens(rng, 3, 5, 8)
    both = {"self_mask": torch.ones(4, 4, dtype=torch.bool).tril(), "memory_mask": mask(rng, 3, 1, 1, 5)}
    yield block(rng, "a causal self_mask, a padded memory", 2, 9, x, memory, **both)


def memory_masked(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "a padded memory, (B, 1, 1, T_k)", *small(rng), memory_mask=mask(rng, 1, 1, 1, 3))
    x, memory = tokens(rng, 2, 4, 6), tokens(rng, 2, 5, 6)
    yield block(rng, "a memory_mask (T_q, T_k)", 3, 9, x, memory, memory_mask=mask(rng, 4, 5))
    x, memory = tokens(rng, 3, 4, 8), tokens(rng, 3, 4, 8)
    both = {"self_mask": torch.ones(4, 4, dtype=torch.bool).tril(), "memory_mask": mask(rng, 3, 1, 1, 4)}
    yield block(rng, "both masks", 2, 9, x, memory, **both)
    x, memory = tokens(rng, 2, 3, 8), tokens(rng, 2, 5, 8)
    yield block(rng, "a memory_mask (1, T_q, T_k)", 4, 9, x, memory, memory_mask=mask(rng, 1, 3, 5))
    yield block(rng, "a memory_mask (1, h, T_q, T_k)", 4, 9, x, memory, memory_mask=mask(rng, 1, 4, 3, 5))
    full = strided(mask(rng, 2, 4, 3, 5))
    yield block(rng, "in full, (B, h, T_q, T_k), not contiguous", 4, 7, x, memory, memory_mask=full)


def other_types(rng: np.random.Generator) -> Iterator[Case]:
    x, memory = tokens(rng, 1, 2, 4, dtype=torch.float64), tokens(rng, 1, 3, 4, dtype=torch.float64)
    yield block(rng, "float64", 2, 7, x, memory)
    x, memory = tokens(rng, 2, 3, 6, dtype=torch.bfloat16), tokens(rng, 2, 4, 6, dtype=torch.bfloat16)
    yield block(rng, "bfloat16", 3, 7, x, memory)
    x, memory = tokens(rng, 2, 4, 6, dtype=torch.float64), tokens(rng, 2, 5, 6, dtype=torch.float64)
    both = {"self_mask": torch.ones(4, 4, dtype=torch.bool).tril(), "memory_mask": mask(rng, 2, 1, 1, 5)}
    yield block(rng, "float64, both masks", 3, 8, x, memory, **both)


def one_of_each(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "2 tokens, a memory of 3, d_model = 4, 2 heads, d_ff = 7", *small(rng))
    x, memory = tokens(rng, 3, 4, 8), tokens(rng, 3, 5, 8)
    both = {"self_mask": torch.ones(4, 4, dtype=torch.bool).tril(), "memory_mask": mask(rng, 3, 1, 1, 5)}
    yield block(rng, "both masks", 2, 9, x, memory, **both)


EXERCISE = Exercise(
    name="ch06_blocks/DecoderBlock",
    signature="DecoderBlock(d_model, num_heads, d_ff)",
    goal="Put attention to a memory between attention to itself and the feed-forward network, pre-norm.",
    section="The code",
    reference=reference.DecoderBlock,
    criteria=(
        Criterion(
            "self-attention, cross-attention, ffn, each added to the stream", 1.25, unmasked, tolerance=5e-3
        ),
        Criterion("self_mask says who of x may be seen", 1, self_masked, tolerance=5e-3),
        Criterion("memory_mask says who of the memory may be seen", 0.75, memory_masked, tolerance=5e-3),
        Criterion(
            "gradients reach x, memory and parameters", 0.25, differentiated(one_of_each), tolerance=2e-2
        ),
        Criterion("float64 and bfloat16 come back as they came", 0.25, other_types, tolerance=0.2),
        Criterion("works on any device", 0.25, elsewhere(one_of_each), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, one_of_each, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the memory mask is kept", the_memory_mask_is_kept),
        Property("the memory is read", the_memory_is_read),
        Property("the memory has no order", the_memory_has_no_order),
        *laws(reference.DecoderBlock),
        *LAST,
    ),
    forbidden=LAYERS,
    given=given,
    domain=fits,
)


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


@EXERCISE.style("one line for each sublayer")
class three_lines(nn.Module):
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
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.style("a method that adds any sublayer")
class a_method_that_adds(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def add(self, x, norm, sublayer):
        return x + sublayer(norm(x))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.add(x, self.norm_attention, lambda h: self.attention(h, mask=self_mask))
        x = self.add(x, self.norm_cross, lambda h: self.cross_attention(h, memory, memory_mask))
        return self.add(x, self.norm_ffn, self.ffn)


@EXERCISE.style("a name for every step")
class named_steps(nn.Module):
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
        after_self = x + self.attention(normed, memory=normed, mask=self_mask)
        asked = self.cross_attention(self.norm_cross(after_self), memory=memory, mask=memory_mask)
        after_cross = after_self + asked
        inner = self.ffn[1](self.ffn[0](self.norm_ffn(after_cross)))
        return after_cross + self.ffn[2](inner)


@EXERCISE.style("what is added is collected, and added at the end")
class what_is_added_is_collected(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        added = [self.attention(self.norm_attention(x), None, self_mask)]
        added += [self.cross_attention(self.norm_cross(x + added[0]), memory, memory_mask)]
        added += [self.ffn(self.norm_ffn(x + added[0] + added[1]))]
        return x + torch.stack(added).sum(dim=0)


@EXERCISE.style("with residuals kept aside")
class residuals_kept_aside(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        residual = x
        x = self.attention(self.norm_attention(x), mask=self_mask)
        x = residual + x
        residual = x
        x = self.cross_attention(self.norm_cross(x), memory=memory, mask=memory_mask)
        x = residual + x
        residual = x
        x = self.ffn(self.norm_ffn(x))
        return residual + x
