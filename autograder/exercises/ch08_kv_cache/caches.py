"""What the exercises on caches share: tokens to write, and laws about those that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import is_tensor, numbers
from autograder.exercise import Case, Outcome, Trial
from autograder.exercises.draw import tensor
from autograder.values import as_array, describe, differs

Init = dict[str, Any]


def used(says: str, init: Init, *moves: tuple[Any, ...], metered: bool = False) -> Case:
    """A case in which a cache is made and used move by move."""
    return Case(says, (init, list(moves)), probe="steps", metered=metered)


def updates(
    rng: np.random.Generator,
    init: Init,
    *chunks: int,
    dtype: torch.dtype = torch.float32,
    form: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[tuple[Any, ...]]:
    """One move for each chunk of tokens, with keys and values that are drawn apart."""

    def drawn(num_tokens: int) -> Tensor:
        return form(tensor(rng, init["batch"], init["num_kv_heads"], num_tokens, init["d_head"], dtype=dtype))

    return [("update", drawn(T), drawn(T)) for T in chunks]


def counted(moves: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same moves, with a look at `length` before the first and after each."""
    yield ("length",)
    for move in moves:
        yield move
        yield ("length",)


def fitting(case: Case) -> bool:
    """Whether all tokens have the batch, the heads and the width that the cache was made for."""
    init, moves = case.args
    wanted = (init["batch"], init["num_kv_heads"], init["d_head"])
    given = [x.shape for _, *pair in moves for x in pair]
    return all(min(s) > 0 and (s[0], s[1], s[3]) == wanted for s in given) and all(
        k.shape == v.shape for _, *pair in moves if pair for k, v in [pair]
    )


def returns_a_pair(trial: Trial) -> str | None:
    """`update` gives back keys and values."""
    for (name, *_), got in zip(trial.case.args[1], trial.value, strict=True):
        if name == "update" and (got is None or is_tensor(got)):
            what = "nothing" if got is None else "a single tensor"
            return f"`update` returns {what}; end it with `return keys, values`"
    return None


def refuses_cleanly(trial: Trial) -> str | None:
    """After an update that was refused `length` is what it was."""
    before, refused = 0, False
    for (name, *_), got, expected in zip(trial.case.args[1], trial.value, trial.expected, strict=True):
        if name == "length":
            if refused and got != expected:
                return f"the update that was refused has changed `length` from {before} to {got}"
            before = expected
        refused = isinstance(expected, dict) and isinstance(got, dict)
    return None


def lengths(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """What `length` said, whatever the updates gave back."""
    outcome = call(case)
    if not isinstance(outcome.value, list):
        return outcome
    seen = zip(case.args[1], outcome.value, strict=True)
    return replace(outcome, value=[value for (name, *_), value in seen if name == "length"])


def right_lengths(trial: Trial) -> str | None:
    """`length` counts the tokens that were written."""
    for got, expected in zip(trial.value, trial.expected, strict=True):
        if as_array(got) is None:
            return "`length` is no number: set self.length, or make the method a @property"
        if differs(got, expected, 0):
            return f"after {expected} token{'s' * (expected != 1)} `length` is {describe(got)}"
    return None


def which_tokens(trial: Trial) -> str | None:
    """Tells, of the first wrong result, which tokens it holds and which it should."""
    moves, count = trial.case.args[1], 0
    pools: list[list[np.ndarray]] = [[], []]
    for (name, *pair), got, expected in zip(moves, trial.value, trial.expected, strict=True):
        if name != "update":
            continue
        count += 1
        if isinstance(expected, dict):
            continue
        for pool, new in zip(pools, pair, strict=True):
            pool.append(numbers(new).astype(np.float64))
        for which, kind in enumerate(("keys", "values")):
            if not is_tensor(got[which]) or _same(got[which], expected[which]):
                continue
            own, other = (np.concatenate(pools[i], axis=2) for i in (which, 1 - which))
            held = _held(got[which], own, other, ("key", "value")[1 - which])
            wanted = _held(expected[which], own, other, "")
            if held is None or wanted is None or held == wanted:
                return None
            return (
                f"after update {count} your {kind} hold the tokens {_listed(held)} (counted from 0); "
                f"there should be {_listed(wanted)}"
            )
    return None


def _same(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and np.allclose(numbers(got), numbers(expected), rtol=1e-2, atol=1e-2)


def _held(x: Tensor, own: np.ndarray, other: np.ndarray, other_kind: str) -> list[str] | None:
    """What stands at each place along the axis of tokens."""
    array = numbers(x).astype(np.float64)
    if array.ndim != 4 or array.shape[:2] != own.shape[:2] or array.shape[3] != own.shape[3]:
        return None
    places = []
    for place in np.moveaxis(array, 2, 0):
        found = [t for t in range(own.shape[2]) if np.allclose(place, own[:, :, t], rtol=1e-2, atol=1e-2)]
        mixed = [t for t in range(own.shape[2]) if np.allclose(place, other[:, :, t], rtol=1e-2, atol=1e-2)]
        if found:
            places.append(str(found[-1]))
        elif not place.any():
            places.append("zeros")
        else:
            places.append(f"{other_kind} {mixed[0]}" if mixed else "something else")
    return places


def _listed(places: list[str]) -> str:
    shown = places if len(places) <= 9 else [*places[:4], "...", *places[-3:]]
    return f"[{', '.join(shown)}]"


def on_its_device(trial: Trial) -> str | None:
    """The room is made on the device that was asked for."""
    if not trial.value:
        return None
    return f"with a cache on a graphics card: {trial.value}; hand `device` on to what makes the room"
