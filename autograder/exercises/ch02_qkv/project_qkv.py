"""ch02_qkv/project_qkv: each token's query, key and value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, near
from tfcore import ops


def drawn(
    rng: np.random.Generator, lead: tuple[int, ...], T: int, d_model: int, d_k: int, d_v: int
) -> tuple[np.ndarray, ...]:
    """Draw tokens (..., T, d_model) and the three weights."""
    sizes = (*lead, T, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v)
    return tuple(rng.normal(size=size) for size in sizes)


def one_sequence(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens of width 3", drawn(rng, (), T=2, d_model=3, d_k=4, d_v=5))
    yield Case("a single token", drawn(rng, (), T=1, d_model=6, d_k=3, d_v=2))
    yield Case("values of width 1", drawn(rng, (), T=5, d_model=4, d_k=2, d_v=1))
    yield Case("a long sequence", drawn(rng, (), T=50, d_model=8, d_k=5, d_v=3))
    narrow = (a.astype(np.float32) for a in drawn(rng, (), T=4, d_model=7, d_k=3, d_v=6))
    yield Case("float32", tuple(narrow))
    x, *weights = drawn(rng, (), T=5, d_model=3, d_k=2, d_v=7)
    yield Case("strided weights", (x, *map(strided, weights)))
    yield Case("strided tokens", tuple(map(strided, drawn(rng, (), T=6, d_model=4, d_k=7, d_v=3))))
    yield Case("tokens of a single number", drawn(rng, (), T=3, d_model=1, d_k=4, d_v=2))


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a batch of 2 sequences", drawn(rng, (2,), T=3, d_model=4, d_k=5, d_v=6))
    yield Case("a batch of 1", drawn(rng, (1,), T=4, d_model=3, d_k=2, d_v=5))
    yield Case("two leading axes", drawn(rng, (3, 2), T=6, d_model=5, d_k=4, d_v=7))
    yield Case("three leading axes, one of size 1", drawn(rng, (2, 1, 3), T=4, d_model=7, d_k=6, d_v=5))
    yield Case("a batch of single tokens", drawn(rng, (5,), T=1, d_model=3, d_k=2, d_v=4))
    x, *weights = drawn(rng, (4,), T=2, d_model=6, d_k=3, d_v=5)
    yield Case("a strided batch", (strided(x), *weights))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens to nine digits", drawn(rng, (), T=3, d_model=4, d_k=5, d_v=2))
    yield Case("a batch of 3 to nine digits", drawn(rng, (3,), T=2, d_model=5, d_k=4, d_v=6))


def both(rng: np.random.Generator) -> Iterator[Case]:
    yield from one_sequence(rng)
    yield from leading_axes(rng)


def additive(trial: Trial) -> str | None:
    x, *weights = trial.case.args
    doubled = trial.call(Case("doubled", (2 * x, *weights))).value
    for name, once, twice in zip("qkv", trial.value, doubled, strict=True):
        if not near(np.asarray(twice), 2 * np.asarray(once)):
            return f"doubling every token does not double the {name}; a projection is one matrix product"
    return None


def uses_its_weight(trial: Trial) -> str | None:
    x, *weights = trial.case.args
    for i, name in enumerate(("W_q", "W_k", "W_v")):
        changed = [w + (i == j) for j, w in enumerate(weights)]
        after = trial.call(Case("another weight", (x, *changed))).value
        moved = [not near(np.asarray(a), np.asarray(b)) for a, b in zip(after, trial.value, strict=True)]
        if moved != [i == j for j in range(3)]:
            seen = " and ".join(n for n, m in zip(("q", "k", "v"), moved, strict=True) if m) or "nothing"
            return f"a change of {name} should change {'qkv'[i]} alone; it changes {seen}"
    return None


def each_is_a_product(trial: Trial) -> str | None:
    """Find the product that a wrong result equals: with another weight, or with a transpose."""
    x, *weights = trial.case.args
    for result, got, right in zip("qkv", trial.value, trial.expected, strict=True):
        if near(np.asarray(got), right):
            continue
        for name, W in zip(("W_q", "W_k", "W_v"), weights, strict=True):
            for says, product in ((f"x @ {name}", x @ W), (f"x @ {name}.T", _or_none(x, W.T))):
                if product is not None and np.shape(got) == product.shape and near(np.asarray(got), product):
                    return f"your {result} is {says}; it should be x @ W_{result}"
    return None


def by_hand(trial: Trial) -> str | None:
    """Show the first wrong number beside the sum of products that it should be."""
    width = trial.case.args[0].shape[-1]
    for name, got, right in zip("qkv", trial.value, trial.expected, strict=True):
        wrong = np.argwhere(~np.isclose(got, right, rtol=1e-4, atol=1e-6))
        if wrong.size:
            *token, j = (int(n) for n in wrong[0])
            return (
                f"number {j} of {name} for token {token} is {right[(*token, j)]:.4g}, the dot product of its "
                f"{width} numbers with column {j} of W_{name}; you return "
                f"{np.asarray(got)[(*token, j)]:.4g}"
            )
    return None


def _or_none(x: np.ndarray, W: np.ndarray) -> np.ndarray | None:
    return x @ W if x.shape[-1] == len(W) else None


EXERCISE = Exercise(
    name="ch02_qkv/project_qkv",
    signature="project_qkv(x, W_q, W_k, W_v)",
    goal="Project every token of x to its query, its key and its value by three matrix products.",
    section="The mathematics",
    minutes=10,
    difficulty="easy",
    reference=ops.project_qkv,
    criteria=(
        Criterion("query, key and value, in this order", 1, one_sequence, tolerance=3e-5),
        Criterion("any number of leading axes", 0.5, leading_axes, tolerance=3e-5),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.25, both, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("each weight makes one of the three", uses_its_weight),
        *LAST,
        Property("projections are linear", additive),
        Property("each result is a product of the tokens", each_is_a_product),
        Property("each number is a sum of products", by_hand),
    ),
    forbidden=("torch.nn.functional.linear", "torch.nn.Linear"),
)
