"""ch02_qkv/attention_scores: every query compared with every key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, near
from autograder.exercises.library import ATTENTION
from tfcore import ops


def drawn(
    rng: np.random.Generator, lead: tuple[int, ...], T_q: int, T_k: int, d_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a query (..., T_q, d_k) and a key (..., T_k, d_k)."""
    return rng.normal(size=(*lead, T_q, d_k)), rng.normal(size=(*lead, T_k, d_k))


def two_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries, 3 keys, d_k = 5", drawn(rng, (), T_q=2, T_k=3, d_k=5))
    yield Case("a single query", drawn(rng, (), T_q=1, T_k=4, d_k=3))
    yield Case("a single key", drawn(rng, (), T_q=3, T_k=1, d_k=2))
    yield Case("d_k = 1", drawn(rng, (), T_q=14, T_k=9, d_k=1))
    yield Case("long vectors, d_k = 64", drawn(rng, (), T_q=5, T_k=7, d_k=64))
    query, key = drawn(rng, (), T_q=4, T_k=6, d_k=7)
    yield Case("float32", (query.astype(np.float32), key.astype(np.float32)))
    query, key = drawn(rng, (), T_q=6, T_k=2, d_k=3)
    yield Case("strided query and key", (strided(query), strided(key)))
    query, key = drawn(rng, (), T_q=3, T_k=4, d_k=6)
    yield Case("large components", (100 * query, 100 * key))


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a batch of 2", drawn(rng, (2,), T_q=3, T_k=5, d_k=6))
    yield Case("a batch of 1", drawn(rng, (1,), T_q=4, T_k=2, d_k=3))
    yield Case("one query for each sequence", drawn(rng, (3,), T_q=1, T_k=4, d_k=5))
    yield Case("one key for each sequence", drawn(rng, (4,), T_q=3, T_k=1, d_k=2))
    yield Case("batch 2, heads 3", drawn(rng, (2, 3), T_q=4, T_k=5, d_k=7))
    yield Case("batch 5, heads 4", drawn(rng, (5, 4), T_q=6, T_k=2, d_k=3))
    yield Case("three leading axes", drawn(rng, (2, 1, 4), T_q=5, T_k=3, d_k=6))
    query, key = drawn(rng, (3, 2), T_q=5, T_k=4, d_k=8)
    yield Case("float32, strided", (strided(query.astype(np.float32)), strided(key.astype(np.float32))))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries, 4 keys, to nine digits", drawn(rng, (), T_q=2, T_k=4, d_k=3))
    yield Case("a batch of 3 to nine digits", drawn(rng, (3,), T_q=4, T_k=2, d_k=5))


def both(rng: np.random.Generator) -> Iterator[Case]:
    yield from two_axes(rng)
    yield from leading_axes(rng)


def scale(trial: Trial) -> str | None:
    query = trial.case.args[0]
    got, right = np.asarray(trial.value), np.asarray(trial.expected)
    ratio = float(np.median(got / right))
    if not near(got, ratio * right) or near(np.asarray(ratio), np.asarray(1.0)):
        return None
    factor = ratio / np.sqrt(query.shape[-1])
    return (
        f"your scores are q . k times {factor:.4g}; with d_k = {query.shape[-1]} the factor should be "
        f"1/sqrt(d_k) = {1 / np.sqrt(query.shape[-1]):.4g}"
    )


def bilinear(trial: Trial) -> str | None:
    query, key = trial.case.args
    for name, doubled in (("query", (2 * query, key)), ("key", (query, 2 * key))):
        if not near(np.asarray(trial.call(Case("doubled", doubled)).value), 2 * np.asarray(trial.value)):
            return f"a {name} twice as long does not score twice as high; a score is a dot product, scaled"
    return None


def by_hand(trial: Trial) -> str | None:
    query, key = trial.case.args
    got, right = np.asarray(trial.value), trial.expected
    *lead, i, j = (int(n) for n in np.argwhere(~np.isclose(got, right, rtol=1e-4, atol=1e-6))[0])
    dot, d_k = float(query[(*lead, i)] @ key[(*lead, j)]), query.shape[-1]
    where = f" of batch {lead}" if lead else ""
    return (
        f"query {i} and key {j}{where} have the dot product {dot:.4g}; over sqrt({d_k}) that is "
        f"{dot / np.sqrt(d_k):.4g}, and you return {got[(*lead, i, j)]:.4g}"
    )


EXERCISE = Exercise(
    name="ch02_qkv/attention_scores",
    signature="attention_scores(query, key)",
    goal="Compare every query with every key: their dot products, divided by the square root of d_k.",
    section="The mathematics",
    minutes=15,
    difficulty="easy",
    reference=ops.attention_scores,
    criteria=(
        Criterion("row i: query i with every key, divided by sqrt(d_k)", 1.5, two_axes, tolerance=3e-5),
        Criterion("any number of leading axes", 0.75, leading_axes, tolerance=3e-5),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.5, both, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the scale is 1/sqrt(d_k)", scale),
        *LAST,
        Property("scores grow with query and key", bilinear),
        Property("each score is one dot product", by_hand),
    ),
    forbidden=ATTENTION,
)
