"""ch06_blocks/TransformerBlock: attention and a feed-forward network, each added to the stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise
from autograder.exercises.ch06_blocks import given, reference
from autograder.exercises.ch06_blocks.blocks import fits, laws, silent_attention, weights
from autograder.exercises.ch06_blocks.tokens import tokens
from autograder.exercises.draw import mask, sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.library import LAYERS


def block(
    rng: np.random.Generator, says: str, num_heads: int, d_ff: int, x: Tensor, **more: Tensor | str
) -> Case:
    """Make a case of a block with drawn weights, in the dtype of x; `more` is its norm or a mask."""
    init: dict[str, object] = {"d_model": x.shape[-1], "num_heads": num_heads, "d_ff": d_ff}
    init |= {"norm": more.pop("norm")} if "norm" in more else {}
    own = weights(rng, x.shape[-1], d_ff, dtype=x.dtype)
    return Case(says, (init, own, x), dict(more), probe="module")


def any_size(rng: np.random.Generator) -> tuple[int, int, Tensor]:
    """Draw num_heads, d_ff and x of sizes that all differ."""
    B, h, d_head, T = sizes(rng, (2, 4), (2, 4), (2, 5), (3, 5))
    return h, int(rng.integers(21, 28)), tokens(rng, B, T, h * d_head)


def pre_norm(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "3 tokens, d_model = 4, 2 heads, d_ff = 7", 2, 7, tokens(rng, 1, 3, 4))
    yield block(rng, "any sizes", *any_size(rng))
    yield block(rng, "norm='pre' by name, a single token", 3, 5, tokens(rng, 2, 1, 6), norm="pre")
    yield block(rng, "one head, d_ff below d_model, x not contiguous", 1, 4, strided(tokens(rng, 2, 3, 5)))
    alike = torch.linspace(-1, 1, 3).view(1, 3, 1) * torch.ones(4)
    yield silent_attention(block(rng, "tokens whose channels are all alike", 2, 7, alike))


def post_norm(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "norm='post', 3 tokens, d_model = 4", 2, 7, tokens(rng, 1, 3, 4), norm="post")
    yield block(rng, "norm='post', any sizes", *any_size(rng), norm="post")
    yield block(rng, "norm='post', a single token", 3, 5, tokens(rng, 2, 1, 6), norm="post")
    x = tokens(rng, 3, 4, 8)
    yield block(rng, "norm='post', (B, 1, T, T)", 2, 9, x, norm="post", mask=mask(rng, 3, 1, 4, 4))
    x = strided(tokens(rng, 2, 5, 6))
    yield block(rng, "norm='post', x not contiguous", 3, 8, x, norm="post")


def masked(rng: np.random.Generator) -> Iterator[Case]:
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    yield block(rng, "a causal mask (T, T)", 2, 7, tokens(rng, 1, 3, 4), mask=causal)
    yield block(rng, "padding, (B, 1, 1, T)", 3, 7, tokens(rng, 2, 5, 6), mask=mask(rng, 2, 1, 1, 5))
    x = tokens(rng, 2, 4, 6)
    yield block(rng, "one mask for all, (1, T, T)", 3, 8, x, mask=mask(rng, 1, 4, 4))
    yield block(rng, "one mask per sequence, (B, 1, T, T)", 3, 8, x, mask=mask(rng, 2, 1, 4, 4))
    yield block(rng, "one mask per head, (1, h, T, T)", 3, 8, x, mask=mask(rng, 1, 3, 4, 4))
    x = tokens(rng, 2, 5, 12)
    yield block(rng, "full mask, (B, h, T, T), not contiguous", 4, 9, x, mask=strided(mask(rng, 2, 4, 5, 5)))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "GELU to five digits", 2, 7, tokens(rng, 1, 3, 4))
    yield block(rng, "GELU to five digits, norm='post'", *any_size(rng), norm="post")


def other_types(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "float64", 2, 7, tokens(rng, 1, 3, 4, dtype=torch.float64))
    x = tokens(rng, 2, 3, 6, dtype=torch.bfloat16)
    yield block(rng, "bfloat16, norm='post'", 3, 7, x, norm="post")
    x, causal = tokens(rng, 2, 5, 6, dtype=torch.float64), torch.ones(5, 5, dtype=torch.bool).tril()
    yield block(rng, "float64, a causal mask", 3, 8, x, mask=causal)


def one_of_each(rng: np.random.Generator) -> Iterator[Case]:
    yield block(rng, "3 tokens, d_model = 4, 2 heads, d_ff = 7", 2, 7, tokens(rng, 1, 3, 4))
    yield block(rng, "norm='post', any sizes", *any_size(rng), norm="post")
    yield block(rng, "padding, (B, 1, 1, T)", 3, 7, tokens(rng, 2, 5, 6), mask=mask(rng, 2, 1, 1, 5))


EXERCISE = Exercise(
    name="ch06_blocks/TransformerBlock",
    signature="TransformerBlock(d_model, num_heads, d_ff, norm='pre')",
    goal="Add to each token the output of attention, then of the feed-forward network, with norms.",
    section="The idea",
    minutes=30,
    difficulty="hard",
    reference=reference.TransformerBlock,
    criteria=(
        Criterion(
            "pre-norm: each sublayer reads a normed stream and adds to it", 1.5, pre_norm, tolerance=5e-3
        ),
        Criterion(
            "post-norm: the sum of stream and sublayer is normed, with a mask too",
            0.75,
            post_norm,
            tolerance=5e-3,
        ),
        Criterion("the mask is kept: True means may attend", 1.5, masked, tolerance=5e-3),
        Criterion("gradients reach x and all parameters", 0.25, differentiated(one_of_each), tolerance=2e-2),
        Criterion("the exact GELU", 0.25, exact, tolerance=1e-4),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, other_types, tolerance=0.2),
        Criterion("works on any device", 0.25, elsewhere(one_of_each), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, one_of_each, observes="arguments"),
    ),
    properties=(*FIRST, *laws(reference.TransformerBlock), *LAST),
    forbidden=LAYERS,
    given=given,
    domain=fits,
)
