"""ch09_cheaper_attention/absorbed_scores: the scores of latent attention without its keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Test, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import (
    FIRST,
    LAST,
    as_close,
    differentiated,
    elsewhere,
    index,
    near,
    on_any_device,
)
from autograder.exercises.library import ATTENTION
from autograder.exercises.weighing import IN_FLOAT32, ROUGH, slack
from tfcore import layers


def absorbed_scores(q_nope, q_rope, c_kv, k_rope, W_uk):
    """Compute the reference answer."""
    return layers.absorbed_scores(q_nope, q_rope, c_kv, k_rope, W_uk)


def drawn(
    rng: np.random.Generator,
    *shape: int,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, ...]:
    """Draw the arguments for the sizes B, h, T_q, T_k, d_nope, d_rope, d_latent; scores are a few units."""
    B, h, T_q, T_k, d_nope, d_rope, d_latent = shape
    return (
        tensor(rng, B, h, T_q, d_nope, dtype=dtype),
        tensor(rng, B, h, T_q, d_rope, dtype=dtype),
        tensor(rng, B, T_k, d_latent, dtype=dtype),
        tensor(rng, B, T_k, d_rope, dtype=dtype),
        tensor(rng, h, d_nope, d_latent, dtype=dtype) / d_latent**0.5,
    )


def plain(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("1 text, 2 heads, 3 queries, 4 tokens", drawn(rng, 1, 2, 3, 4, 5, 6, 7))
    shape = sizes(rng, (2, 4), (2, 5), (2, 6), (6, 9), (5, 9), (2, 8), (7, 12))
    yield Case(
        "B = {}, h = {}, T_q = {}, T_k = {}, d_nope = {}, d_rope = {}, d_latent = {}".format(*shape),
        drawn(rng, *shape),
    )
    yield Case("one query, as in a step of generation", drawn(rng, 3, 4, 1, 7, 6, 2, 9))
    yield Case("a latent that is narrower than a head", drawn(rng, 2, 5, 4, 6, 9, 7, 3))
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 3, 2, 4, 6, 5, 8, 7))))


def every_width(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("d_nope = d_latent, so that W_uk is square", drawn(rng, 2, 3, 5, 6, 4, 7, 4))
    yield Case("d_rope = d_latent", drawn(rng, 3, 2, 4, 7, 5, 6, 6))
    yield Case("d_rope = d_nope", drawn(rng, 2, 4, 3, 6, 5, 5, 8))
    yield Case("d_rope = 1", drawn(rng, 3, 2, 5, 4, 7, 1, 6))
    yield Case("d_latent = 1", drawn(rng, 2, 4, 3, 5, 6, 7, 1))
    yield Case("a single head", drawn(rng, 2, 1, 4, 5, 6, 3, 7))
    yield Case("a single token in the cache", drawn(rng, 3, 2, 4, 1, 5, 6, 7))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 3, 4, 6, 5, 7, 8, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 3, 2, 4, 5, 7, 6, 8, dtype=torch.bfloat16))
    yield Case("float16", drawn(rng, 2, 4, 3, 6, 8, 5, 7, dtype=torch.float16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases for the criteria on gradients, devices and inputs."""
    yield Case("2 heads, 3 queries, 4 tokens", drawn(rng, 1, 2, 3, 4, 5, 6, 7))
    yield Case("float64", drawn(rng, 2, 4, 3, 6, 5, 8, 7, dtype=torch.float64))


def long(rng: np.random.Generator) -> Iterator[Case]:
    """Yield metered cases in which keys would be far larger than all that is needed."""
    T_k = int(rng.integers(240, 300))
    others = (T_k, 64, 4, 8)
    yield Case(f"one query for {T_k} tokens", drawn(rng, 2, 6, 1, *others, dtype=torch.float64), metered=True)
    yield Case(f"3 queries for {T_k} tokens", drawn(rng, 1, 6, 3, *others, dtype=torch.float64), metered=True)


def without_keys(trial: Trial) -> str | None:
    """Check that neither the memory nor the arithmetic for the keys of all heads is spent."""
    if unseen := too_little(trial):
        return unseen
    q_nope, _, c_kv, k_rope, _ = trial.case.args
    B, h, T_q, d_nope = q_nope.shape
    T_k, d_latent = c_kv.shape[1:]
    cost = trial.outcome.cost
    keys = B * h * T_k * d_nope
    if cost["largest"] > keys / 2:
        shape = tuple(int(n) for n in cost["largest_shape"])
        return (
            f"your largest tensor has the shape {shape}, {cost['largest']:,} numbers; the keys of all heads "
            f"would have {keys:,}, and the cache has {c_kv.numel() + k_rope.numel():,}"
        )
    making, needed = (
        2 * keys * d_latent,
        2 * B * h * T_q * (d_nope * d_latent + T_k * (d_latent + k_rope.shape[-1])),
    )
    if cost["operations"] > making / 2:
        return (
            f"no tensor is large, but you spend {cost['operations']:,} operations where about {needed:,} are "
            f"enough; making the keys of all heads takes {making:,}, whether all at once or one by one"
        )
    return None


AXES = {
    "head": ({0: 1, 1: 1, 4: 0}, 1),
    "token": ({2: 1, 3: 1}, 3),
    "query": ({0: 2, 1: 2}, 2),
    "text": ({0: 0, 1: 0, 2: 0, 3: 0}, 0),
}
"""What a score belongs to: its axis in each argument, by the argument's place, and its axis in the scores."""


def _different(trial: Trial, got: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return where two results differ by more than the rounding of the inputs' dtype."""
    close = slack(trial)
    return ~np.isclose(got, other, rtol=close, atol=close)


def apart(what: str) -> Test:
    """Check that the scores of one head, token, query or text do not depend on another one."""
    axes, axis = AXES[what]

    def broken(trial: Trial) -> str | None:
        args = [x.clone() for x in trial.case.args]
        for place, where in axes.items():
            args[place].select(where, 0).zero_()
        before = np.moveaxis(numbers(trial.value), axis, 0)[1:]
        after = np.moveaxis(numbers(trial.call(replace(trial.case, args=tuple(args))).value), axis, 0)[1:]
        if before.shape != after.shape:
            return None
        changed = _different(trial, after, before)
        if not changed.any():
            return None
        other = int(np.argwhere(changed)[0][0]) + 1
        return (
            f"set all that belongs to {what} 0 to zeros, and a score of {what} {other} changes from "
            f"{before[changed][0]:.4g} to {after[changed][0]:.4g}; {what}s do not depend on each other"
        )

    return broken


PARTS = {
    "q_rope": (1, "q_nope . W_uk c", "the part from c_kv"),
    "q_nope": (0, "q_rope . k_rope", "the rotary part"),
}
"""A part of the queries that is set to 0: its place, the products that remain, and the name of their part."""


def each_part(trial: Trial) -> str | None:
    """Set one part of the queries to 0, and compare the scores with the other part alone."""
    q_nope, q_rope = trial.case.args[:2]
    width = q_nope.shape[-1] + q_rope.shape[-1]
    for name, (place, product, part) in PARTS.items():
        args = list(trial.case.args)
        args[place] = torch.zeros_like(args[place])
        got = numbers(trial.call(replace(trial.case, args=tuple(args))).value)
        right = numbers(absorbed_scores(*(x.double() for x in args)))
        if got.dtype.kind != "f" or got.shape != right.shape:
            continue
        wrong = _different(trial, got, right)
        if not wrong.any():
            continue
        if not got.any():
            return (
                f"with {name} = 0 all your scores are 0; {product} must be left, "
                "divided by sqrt(d_nope + d_rope)"
            )
        ratio = float(np.median(got / right))
        if near(got, ratio * right):
            return (
                f"with {name} = 0 your scores are {product} times {ratio * width**-0.5:.4g}; it should be "
                f"1/sqrt(d_nope + d_rope) = {width**-0.5:.4g}"
            )
        return (
            f"with {name} = 0 your score is {got[wrong][0]:.4g}{index(wrong)}; {product} divided by "
            f"sqrt(d_nope + d_rope) is {right[wrong][0]:.4g}: look at {part}"
        )
    return None


EXERCISE = Exercise(
    name="ch09_cheaper_attention/absorbed_scores",
    signature="absorbed_scores(q_nope, q_rope, c_kv, k_rope, W_uk)",
    goal="Compute the scores of latent attention from its cache, without making the keys.",
    section="Keys from one short vector",
    minutes=20,
    difficulty="medium",
    reference=absorbed_scores,
    same=as_close,
    criteria=(
        Criterion("both parts of the score, divided by sqrt(d_nope + d_rope)", 1.5, plain),
        Criterion("the keys are never made: memory and operations", 1, long, "cost", without_keys),
        Criterion("any widths, a single head, a single token in the cache", 0.5, every_width),
        Criterion(
            "float64 and half precision come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH
        ),
        Criterion("gradients reach all five inputs", 0.25, differentiated(soft), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        *(Property(f"{what}s do not depend on each other", apart(what)) for what in AXES),
        Property("each part of the score by itself", each_part),
        *LAST,
    ),
    forbidden=ATTENTION,
)
