"""ch10_beyond_attention/linear_attention: without the softmax, the past fits into one matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from autograder.exercises.weighing import (
    IN_FLOAT32,
    ROUGH,
    nothing_from_the_future,
    out_of_proportion,
    slack,
    something_from,
    sum_to_one,
    weights_of,
)
from tfcore import linear_attention as linear
from tfcore.linear_attention import elu_plus_one

ALL = {"causal": False}


def drawn(
    rng: np.random.Generator, *shape: int, d_v: int, dtype: torch.dtype = torch.float32, gain: float = 1.0
) -> tuple[Tensor, ...]:
    """Draw q and k (B, h, T, d_k), times `gain`, and v (B, h, T, d_v)."""
    q, k = (gain * tensor(rng, *shape, dtype=dtype) for _ in range(2))
    return q, k, tensor(rng, *shape[:-1], d_v, dtype=dtype)


def without_order(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, d_k = 2, d_v = 4", drawn(rng, 1, 5, 3, 2, d_v=4), ALL)
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    yield Case(f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}", drawn(rng, B, h, T, d_k, d_v=d_v), ALL)
    yield Case("a single token", drawn(rng, 2, 3, 1, 4, d_v=5), ALL)
    yield Case("keys of width 1", drawn(rng, 2, 3, 4, 1, d_v=5), ALL)
    yield Case("50 tokens", drawn(rng, 1, 2, 50, 4, d_v=3), ALL)
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 3, 2, 5, 4, d_v=6))), ALL)


def causal(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens, d_k = 3, d_v = 4", drawn(rng, 1, 5, 2, 3, d_v=4))
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    says = f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}"
    yield Case(says, drawn(rng, B, h, T, d_k, d_v=d_v))
    yield Case("causal=True, passed by name", drawn(rng, 2, 3, 5, 4, d_v=1), {"causal": True})
    yield Case("a single token", drawn(rng, 2, 3, 1, 4, d_v=5))
    yield Case("50 tokens", drawn(rng, 1, 2, 50, 4, d_v=3))


def large(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases in which one channel of each token is far above zero, so that no weight vanishes."""
    for says, kwargs in (("entries of 1,000", {}), ("entries of 1,000, not causal", ALL)):
        q, k, v = drawn(rng, 2, 3, 5, 4, d_v=6, gain=1000)
        q[..., 0], k[..., 0] = q[..., 0].abs() + 500, k[..., 0].abs() + 500
        yield Case(says, (q, k, v), kwargs)


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    for dtype, name in (
        (torch.float64, "float64"),
        (torch.bfloat16, "bfloat16"),
        (torch.float16, "float16"),
    ):
        yield Case(name, drawn(rng, 1, 2, 5, 3, d_v=4, dtype=dtype))
        yield Case(f"{name}, not causal", drawn(rng, 2, 3, 4, 5, d_v=6, dtype=dtype), ALL)


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens", drawn(rng, 1, 2, 4, 3, d_v=5))
    yield Case("5 tokens, not causal", drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64), ALL)


def soft_and_large(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    yield from large(rng)


def long(rng: np.random.Generator) -> Iterator[Case]:
    T = int(rng.integers(128, 136))
    given = drawn(rng, 1, 2, T, 3, d_v=4)
    yield Case(f"{T} tokens", given, metered=True)
    yield Case(f"{T} tokens, not causal", given, ALL, metered=True)


def linear_in_time(trial: Trial) -> str | None:
    """Check that no tensor has T x T numbers, and that operations grow in proportion to T.

    Half of T x T leaves room for the sums of every token, and for chunks of 64.
    """
    if unseen := too_little(trial):
        return unseen
    T, cost = trial.case.args[0].shape[2], trial.outcome.cost
    if cost["largest"] > T * T / 2:
        shape = tuple(int(n) for n in cost["largest_shape"])
        return (
            f"your largest tensor has the shape {shape}: it grows with T^2, as for a softmax. Sum phi(k) v^T "
            "over the keys first; no pair of tokens needs a number of its own"
        )
    twice = trial.call(replace(trial.case, args=tuple(torch.cat([x, x], dim=2) for x in trial.case.args)))
    if twice.error or twice.cost["operations"] <= 3 * cost["operations"]:
        return None
    return (
        f"{T} tokens take {cost['operations']:,} operations, {2 * T} take {twice.cost['operations']:,}: the "
        "cost grows with T^2. Keep the sums over the tokens so far; the next token adds to them"
    )


def as_features_meet(trial: Trial) -> str | None:
    q, k, _ = trial.case.args
    right = numbers(elu_plus_one(q.double()) @ elu_plus_one(k.double()).mT)
    right = np.tril(right) if _is_causal(trial) else right
    return out_of_proportion(weights_of(trial, 2), right, "phi(q) . phi(k)", slack(trial))


def _is_causal(trial: Trial) -> bool:
    return bool(trial.case.kwargs.get("causal", True))


EXERCISE = Exercise(
    name="ch10_beyond_attention/linear_attention",
    signature="linear_attention(q, k, v, causal=True)",
    goal="Average the values with weights phi(q) . phi(k), phi = elu + 1, at a cost that is linear in T.",
    section="Moving the brackets",
    minutes=15,
    difficulty="medium",
    reference=linear.linear_attention,
    criteria=(
        Criterion("the weighted mean over all tokens, causal=False", 0.875, without_order),
        Criterion("causal: over the token itself and those before it", 0.875, causal),
        Criterion("a cost that is linear in T, nothing of size T x T", 0.25, long, "cost", linear_in_time),
        Criterion("queries and keys of 1,000", 0.25, large, tolerance=1e-4),  # a wrong scale is off by 3e-4
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach q, k and v", 0.25, differentiated(soft_and_large), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.125, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.125, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("weights sum to 1", sum_to_one(2)),
        Property("nothing comes from the future", nothing_from_the_future(2, _is_causal)),
        Property("every token that may be seen has a share", something_from(2, linear.linear_attention)),
        Property("weights are in proportion to phi(q) . phi(k)", as_features_meet),
        *LAST,
    ),
)
