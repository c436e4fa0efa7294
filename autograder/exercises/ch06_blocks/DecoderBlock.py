"""ch06_blocks/DecoderBlock: a block that also reads a memory, such as the sentence to translate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

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
    """Make a case of a block with drawn weights, in the dtype of x."""
    init = {"d_model": x.shape[-1], "num_heads": num_heads, "d_ff": d_ff}
    own = weights(rng, x.shape[-1], d_ff, cross=True, dtype=x.dtype)
    return Case(says, (init, own, x, memory), dict(masks), probe="module")


def small(rng: np.random.Generator) -> tuple[int, int, Tensor, Tensor]:
    """Draw num_heads, d_ff, x and memory: 2 tokens that read 3."""
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
    yield block(rng, "a full mask, (B, h, T_q, T_k), not contiguous", 4, 7, x, memory, memory_mask=full)


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
    goal="Put cross-attention to a memory between self-attention and the feed-forward network, all pre-norm.",
    section="The code",
    minutes=15,
    difficulty="medium",
    reference=reference.DecoderBlock,
    criteria=(
        Criterion(
            "self-attention, cross-attention, ffn, each added to the stream", 1.25, unmasked, tolerance=5e-3
        ),
        Criterion("self_mask: which tokens of x may be seen", 1, self_masked, tolerance=5e-3),
        Criterion("memory_mask: which tokens of the memory may be seen", 0.75, memory_masked, tolerance=5e-3),
        Criterion(
            "gradients reach x, memory and parameters", 0.25, differentiated(one_of_each), tolerance=2e-2
        ),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, other_types, tolerance=0.2),
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
