"""The weights inside a function that returns only weighted means of values, and laws about them.

Such a function is linear in its values. So the weight of a token is the result when its value is 1 and
every other value is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from autograder.cage.tensors import arrays, is_floating, numbers
from autograder.checking.declaration import Outcome, Test, Trial
from autograder.exercises.laws import index, not_softmax

Array = np.ndarray
SLACK = 1e-3
"""How far a weight may stray in float32 and float64."""
ROUGH = 0.06
"""Rounding each step to bfloat16 may change a mean by this much: a log-sum-exp near 4 is known to 1/64."""
IN_FLOAT32 = 1e-3
"""Tolerance for code that computes in float32 for any dtype, as published code does, at numbers of 1,000."""
LONG = 50
"""Sequences of more tokens are too long to read their weights one by one."""


def weights_of(trial: Trial, place: int) -> Array:
    """Return the weight that output i gives to token j in the first channel, (..., T, T)."""
    return weights_by_channel(trial, place)[0]


def weights_by_channel(trial: Trial, place: int) -> Array:
    """Return the weight that output i gives to token j, for each channel, (d, ..., T, T).

    Args:
        trial: a call whose result is linear in one argument, a tensor (..., T, d) or a list of shards of one.
        place: the place of that argument.

    Raises:
        ValueError: a long sequence, which would take too many calls; the law is then not applied.
    """
    values = trial.case.args[place]
    shards = values if isinstance(values, list) else [values]
    lengths = [shard.shape[-2] for shard in shards]
    if sum(lengths) > LONG:
        raise ValueError("too long")
    columns = []
    for j in range(sum(lengths)):
        unit = torch.zeros_like(torch.cat(shards, dim=-2))
        unit[..., j, :] = 1
        given: Any = list(unit.split(lengths, dim=-2)) if isinstance(values, list) else unit
        args = (*trial.case.args[:place], given, *trial.case.args[place + 1 :])
        columns.append(np.moveaxis(joined(trial.call(replace(trial.case, args=args)).value), -1, 0))
    return np.stack(columns, axis=-1)


def joined(value: Any) -> Array:
    """Return the result as one array, its shards one after another."""
    if isinstance(value, list | tuple):
        return np.concatenate([numbers(shard) for shard in value], axis=-2)
    return numbers(value)


def causal(trial: Trial) -> bool:
    """Return whether the call is causal."""
    return bool(trial.case.kwargs.get("causal", False))


def slack(trial: Trial) -> float:
    """Return how far a weight may be off before a law names it: more for inputs in half precision."""
    narrow = any(is_floating(a) and a.element_size() == 2 for a in arrays(trial.case.args))
    return 0.05 if narrow else SLACK


def sum_to_one(place: int) -> Test:
    """Check that the weights of a token sum to 1."""

    def broken(trial: Trial) -> str | None:
        sums = weights_of(trial, place).sum(axis=-1)
        wrong = ~(np.abs(sums - 1) < slack(trial))
        if not wrong.any():
            return None
        return (
            f"give every token the value 1 and your output is {sums[wrong][0]:.3g}{index(wrong)}; it is a "
            "weighted mean, whose weights sum to 1, so it must be 1"
        )

    return broken


def nothing_from_the_future(place: int, is_causal: Callable[[Trial], bool] = causal) -> Test:
    """Check that the weight of a later token is 0 in a causal call."""

    def broken(trial: Trial) -> str | None:
        if not is_causal(trial):
            return None
        found = weights_of(trial, place)
        wrong = np.triu(np.abs(found) > 1e-6, 1)
        if not wrong.any():
            return None
        *_, i, j = (int(n) for n in np.argwhere(wrong)[0])
        return (
            f"token {i} gives the weight {found[wrong][0]:.3g} to token {j}, a later token; if causal, a "
            "token sees only itself and the tokens before it"
        )

    return broken


def something_from(place: int, reference: Callable[..., Any]) -> Test:
    """Check that no allowed token is left out, where its right weight is not small."""

    def broken(trial: Trial) -> str | None:
        found = weights_of(trial, place)
        by_the_reference = replace(trial, call=lambda case: Outcome(reference(*case.args, **case.kwargs)))
        right, typical = weights_of(by_the_reference, place), 1 / found.shape[-1]
        wrong = (np.abs(found) < 1e-3 * typical) & (right > 1e-2 * typical)
        if not wrong.any():
            return None
        *_, i, j = (int(n) for n in np.argwhere(wrong)[0])
        whose = "itself" if i == j else f"token {j}"
        return (
            f"token {i} gives next to no weight to {whose}, which it may see; {right[wrong][0]:.2g} is right"
        )

    return broken


def out_of_proportion(found: Array, right: Array, says: str, slack: float) -> str | None:
    """Name two weights of one token that have a wrong ratio; None if there are none.

    Args:
        found: weights that a call gave, (..., T, T).
        right: the right weights, normalised or not; 0 where attending is forbidden.
        says: the right weights in words.
        slack: how far the weights may be off, as a share of the right weights.
    """
    for place in np.ndindex(*found.shape[:-1]):
        i, seen = place[-1], np.flatnonzero(right[place] > 1e-12)
        row, wanted = found[place][seen], right[place][seen]
        if (row < -1e-6).any():
            least = row.argmin()
            return f"token {i} gives token {seen[least]} the weight {row[least]:.3g}; no weight is negative"
        ratio = row / wanted
        if ratio.max() > (1 + slack) * ratio.min():
            a, b = sorted((int(ratio.argmin()), int(ratio.argmax())))
            return (
                f"the weights of token {i} for tokens {seen[a]} and {seen[b]} have the ratio "
                f"{row[a] / row[b]:.4g}; by {says} it should be {wanted[a] / wanted[b]:.4g}"
            )
    return None


def softmax_of_scores(trial: Trial) -> str | None:
    """Check that the weights are in proportion to the exponentials of q . k / sqrt(d)."""
    if slack(trial) > SLACK:
        return None
    q, k = (joined(shards) for shards in trial.case.args[:2])
    found = weights_of(trial, place=2)
    allowed = np.tril(np.ones(found.shape[-2:], bool)) if causal(trial) else None
    scores = q @ k.swapaxes(-1, -2)
    return not_softmax(found, scores, "q . k", q.shape[-1] ** -0.5, "1/sqrt(d) = ", allowed)
