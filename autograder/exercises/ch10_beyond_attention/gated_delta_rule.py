"""ch10_beyond_attention/gated_delta_rule: a memory that fades as a whole, and replaces the value of a key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise
from autograder.exercises.ch10_beyond_attention.memory_laws import (
    along_the_sphere,
    drawn,
    from_chunk_to_chunk,
    keys_have_length_1,
    plain,
    properties,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.weighing import IN_FLOAT32, ROUGH
from tfcore import delta_rule as replacing


def gated_delta_rule(query, key, value, beta, log_decay, chunk_size):
    """Compute the reference answer by `tfcore`, whose size of the chunks has a default."""
    return replacing.gated_delta_rule(query, key, value, beta, log_decay, chunk_size)


def fading(given: tuple[Tensor, ...], rng: np.random.Generator) -> tuple[Tensor, ...]:
    """Add decays to queries, keys, values and betas: from a tenth to nearly all is left at each token."""
    decay = torch.from_numpy(rng.uniform(-2.3, -0.05, size=given[3].shape))
    return (*given, decay.to(given[3].dtype))


def in_one_chunk(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, d_k = 2, d_v = 5, one chunk", (*fading(plain(rng, 4, 3, 5), rng), 3))
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    says = f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}, one chunk"
    yield Case(says, (*fading(drawn(rng, B, h, T, d_k, d_v=d_v), rng), T))
    yield Case("d_k = d_v, one chunk", (*fading(drawn(rng, 2, 3, 5, 4, d_v=4), rng), 5))
    yield Case("9 sequences of a single token", (*fading(drawn(rng, 9, 3, 1, 4, d_v=5), rng), 1))
    yield Case("values of width 1", (*fading(drawn(rng, 2, 3, 5, 4, d_v=1), rng), 5))
    yield Case("30 tokens in one chunk", (*fading(drawn(rng, 1, 2, 30, 4, d_v=3), rng), 30))
    given = map(strided, fading(drawn(rng, 3, 2, 5, 4, d_v=6), rng))
    yield Case("tensors that are not contiguous", (*given, 5))


def in_chunks(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in chunks of 2", (*fading(drawn(rng, 1, 2, 4, 3, d_v=5), rng), 2))
    yield Case("3 tokens in chunks of 1", (*fading(drawn(rng, 1, 2, 3, 4, d_v=5), rng), 1))
    yield Case("5 tokens, chunk_size = 8", (*fading(drawn(rng, 2, 3, 5, 4, d_v=6), rng), 8))
    yield Case("5 tokens in chunks of 2", (*fading(drawn(rng, 2, 3, 5, 4, d_v=1), rng), 2))
    yield Case("7 tokens in chunks of 3", (*fading(drawn(rng, 1, 2, 7, 5, d_v=4), rng), 3))
    T = int(rng.choice([9, 10, 11]))
    yield Case(f"{T} tokens in chunks of 4", (*fading(drawn(rng, 2, 3, T, 4, d_v=5), rng), 4))
    q, k, v, beta, decay = fading(drawn(rng, 1, 2, 40, 4, d_v=3), rng)
    yield Case("40 tokens in chunks of 16, slow decay", (q, k, v, beta, decay / 20, 16))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v, beta, decay = fading(drawn(rng, 1, 2, 5, 4, d_v=3), rng)
    yield Case("log_decay = 0: the delta rule", (q, k, v, beta, 0 * decay, 2))
    yield Case("beta = 1", (q, k, v, torch.ones_like(beta), decay, 3))
    yield Case("beta = 0 at the last tokens", (q, k, v, beta * (torch.arange(5) < 3), decay, 5))
    yield Case("one key for all tokens", (q, k[:, :, :1].expand_as(k).contiguous(), v, beta, decay, 2))
    emptied = torch.where(torch.arange(5) == 2, torch.tensor(-50.0), decay)
    yield Case("a memory that is emptied on the way", (q, k, v, beta, emptied, 4))
    q, k, v, beta, decay = fading(drawn(rng, 1, 2, 9, 4, d_v=3), rng)
    yield Case("decays around e^-20 at each token", (q, k, v, beta, decay - 20, 6))
    q, k, v, beta, decay = fading(drawn(rng, 1, 2, 130, 4, d_v=3), rng)
    yield Case("130 tokens in chunks of 32, slow decay", (q, k, v, beta, decay / 100, 32))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (*fading(drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64), rng), 2))
    yield Case("bfloat16", (*fading(drawn(rng, 1, 2, 5, 3, d_v=4, dtype=torch.bfloat16), rng), 3))
    yield Case("float16", (*fading(drawn(rng, 2, 3, 4, 5, d_v=6, dtype=torch.float16), rng), 4))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in chunks of 3", (*fading(drawn(rng, 1, 2, 4, 3, d_v=5), rng), 3))
    given = fading(drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64), rng)
    yield Case("5 tokens in chunks of 2, float64", (*given, 2))


def soft_and_steep(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    q, k, v, beta, decay = fading(drawn(rng, 1, 2, 8, 3, d_v=4), rng)
    yield Case("decays around e^-20 at each token", (q, k, v, beta, decay - 20, 8))


EXERCISE = Exercise(
    name="ch10_beyond_attention/gated_delta_rule",
    signature="gated_delta_rule(query, key, value, beta, log_decay, chunk_size)",
    goal=(
        "Fade the memory at each token, then replace a share beta of the key's value, in chunks of any size."
    ),
    section="Fading and replacing",
    minutes=25,
    difficulty="hard",
    reference=gated_delta_rule,
    domain=keys_have_length_1,
    criteria=(
        Criterion("every token: fade, look up, replace, read", 1.25, in_one_chunk),
        Criterion(
            "any chunk_size: several chunks, a shorter last one, chunks of 1, a size above T", 1, in_chunks
        ),
        Criterion(
            "no decay and strong decay, betas of 0 and 1, long sequences", 0.5, extremes, tolerance=IN_FLOAT32
        ),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach all five inputs",
            0.5,
            differentiated(soft_and_steep),
            test=along_the_sphere,
            tolerance=IN_FLOAT32,
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, in_one_chunk, observes="arguments"),
    ),
    properties=(
        *FIRST,
        from_chunk_to_chunk(gated_delta_rule, axis=2),
        *properties(
            gated_delta_rule,
            "beta (k . q)",
            "each later token multiplies the memory by exp(log_decay), then replaces the share beta of what "
            "its key finds",
        ),
        *LAST,
    ),
)
