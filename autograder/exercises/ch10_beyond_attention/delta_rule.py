"""ch10_beyond_attention/delta_rule: a memory that replaces the old value of a key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise
from autograder.exercises.ch10_beyond_attention.memory_laws import (
    along_the_sphere,
    drawn,
    keys_have_length_1,
    plain,
    properties,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.weighing import IN_FLOAT32, ROUGH
from tfcore import delta_rule as replacing


def replaced(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, d_k = 2, d_v = 5", plain(rng, 4, 3, 5))
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    yield Case(f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}", drawn(rng, B, h, T, d_k, d_v=d_v))
    yield Case("d_k = d_v", drawn(rng, 2, 3, 5, 4, d_v=4))
    yield Case("9 sequences of a single token", drawn(rng, 9, 3, 1, 4, d_v=5))
    yield Case("values of width 1", drawn(rng, 2, 3, 5, 4, d_v=1))
    yield Case("30 tokens", drawn(rng, 1, 2, 30, 4, d_v=3))
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 3, 2, 5, 4, d_v=6))))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v, beta = drawn(rng, 1, 2, 5, 4, d_v=3)
    yield Case("beta = 1: the old value is gone", (q, k, v, torch.ones_like(beta)))
    yield Case("beta of 0 and 1 in turn", (q, k, v, torch.arange(5).remainder(2) * torch.ones_like(beta)))
    yield Case("one key for all tokens", (q, k[:, :, :1].expand_as(k).contiguous(), v, beta))
    q, k, v, beta = drawn(rng, 1, 2, 4, 5, d_v=3)
    yield Case("keys at right angles", (q, torch.eye(4, 5).expand_as(k).contiguous(), v, beta))
    q, k, v, beta = drawn(rng, 2, 3, 5, 1, d_v=4)
    yield Case("keys of width 1: 1 and -1", (q, k.sign(), v, beta))
    yield Case("200 tokens", drawn(rng, 1, 2, 200, 4, d_v=3))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 1, 2, 5, 3, d_v=4, dtype=torch.bfloat16))
    yield Case("float16", drawn(rng, 2, 3, 4, 5, d_v=6, dtype=torch.float16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens", drawn(rng, 1, 2, 4, 3, d_v=5))
    yield Case("5 tokens, float64", drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64))


EXERCISE = Exercise(
    name="ch10_beyond_attention/delta_rule",
    signature="delta_rule(query, key, value, beta)",
    goal="Replace a share beta of each key's old value in the memory by the new value, then read.",
    section="Replacing instead of adding",
    minutes=15,
    difficulty="medium",
    reference=replacing.delta_rule,
    domain=keys_have_length_1,
    criteria=(
        Criterion("every token looks up, replaces and reads", 1.25, replaced),
        Criterion("betas of 0 and 1, one key again and again, long sequences", 0.5, extremes),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach all four inputs",
            0.5,
            differentiated(soft),
            test=along_the_sphere,
            tolerance=IN_FLOAT32,
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, replaced, observes="arguments"),
    ),
    properties=(
        *FIRST,
        *properties(
            replacing.delta_rule,
            "beta (k . q)",
            "each later token replaces the share beta of what its key finds",
        ),
        *LAST,
    ),
)
