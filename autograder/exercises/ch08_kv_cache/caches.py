"""The cases and laws that the exercises on caches share: tokens to write, and tokens that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.probes import OVERWRITTEN
from autograder.cage.tensors import is_tensor, numbers
from autograder.checking.comparison import as_array, describe, differs
from autograder.checking.declaration import Case, Criterion, Outcome, Trial
from autograder.exercises.draw import tensor
from autograder.exercises.laws import Cases, elsewhere

Init = dict[str, Any]
HANDED = "handed over"
"""The words of `autograder.cage.devices` for a tensor that is still on the caller's device."""


def used(says: str, init: Init, *moves: tuple[Any, ...], metered: bool = False) -> Case:
    """Make a case in which a cache is made and used move by move."""
    return Case(says, (init, list(moves)), probe="steps", metered=metered)


def updates(
    rng: np.random.Generator,
    init: Init,
    *chunks: int,
    dtype: torch.dtype = torch.float32,
    form: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[tuple[Any, ...]]:
    """Draw one update for each chunk of tokens, with different keys and values."""

    def drawn(num_tokens: int) -> Tensor:
        return form(tensor(rng, init["batch"], init["num_kv_heads"], num_tokens, init["d_head"], dtype=dtype))

    return [("update", drawn(T), drawn(T)) for T in chunks]


def counted(moves: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the same moves, and read `length` before the first and after each."""
    yield ("length",)
    for move in moves:
        yield move
        yield ("length",)


def fitting(case: Case) -> bool:
    """Return whether all tokens have the batch, the heads and the width of their cache."""
    init, moves, *_ = case.args
    wanted = (init["batch"], init["num_kv_heads"], init["d_head"])
    given = [x.shape for _, *pair in moves for x in pair]
    return all(min(s) > 0 and (s[0], s[1], s[3]) == wanted for s in given) and all(
        k.shape == v.shape for _, *pair in moves if pair for k, v in [pair]
    )


def returns_a_pair(trial: Trial) -> str | None:
    """Check that `update` returns keys and values."""
    for (name, *_), got in zip(trial.case.args[1], trial.value, strict=True):
        if name == "update" and (got is None or is_tensor(got)):
            what = "nothing" if got is None else "a single tensor"
            return f"`update` returns {what}; end it with `return keys, values`"
    return None


def refuses_cleanly(trial: Trial) -> str | None:
    """Check that an update that was refused leaves `length` as it was."""
    before: Any = 0
    refused = False
    for (name, *_), got, expected in zip(trial.case.args[1], trial.value, trial.expected, strict=True):
        if name == "length":
            if refused and got != expected and as_array(got) is not None and got != before:
                return f"the refused update has changed `length` from {before} to {got}"
            before = got
        refused = isinstance(expected, dict) and isinstance(got, dict)
    return None


def lengths(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the values of `length`, and leave out the results of the updates."""
    outcome = call(case)
    if not isinstance(outcome.value, list):
        return outcome
    seen = zip(case.args[1], outcome.value, strict=True)
    return replace(outcome, value=[value for (name, *_), value in seen if name == "length"])


def right_lengths(trial: Trial) -> str | None:
    """Check that `length` counts the tokens that were written."""
    for got, expected in zip(trial.value, trial.expected, strict=True):
        if as_array(got) is None:
            return "`length` is not a number. Set self.length, or make the method a @property"
        if differs(got, expected, 0):
            return f"after {expected} token{'s' * (expected != 1)} `length` is {describe(got)}"
    return None


def which_tokens(trial: Trial) -> str | None:
    """Name the tokens in the first wrong result, and the right ones."""
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
                f"they should hold {_listed(wanted)}"
            )
    return None


def _same(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and np.allclose(numbers(got), numbers(expected), rtol=1e-2, atol=1e-2)


def _held(x: Tensor, own: np.ndarray, other: np.ndarray, other_kind: str) -> list[str] | None:
    """Return which token is at each place along the axis of tokens."""
    array = numbers(x).astype(np.float64)
    if array.ndim != 4 or array.shape[:2] != own.shape[:2] or array.shape[3] != own.shape[3]:
        return None
    places = []
    for place in np.moveaxis(array, 2, 0):
        found, mixed = (
            [t for t in range(all_tokens.shape[2]) if np.allclose(place, all_tokens[:, :, t], 1e-2, 1e-2)]
            for all_tokens in (own, other)
        )
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
    """Check that the room is on the device that was asked for, and that tensors are brought there."""
    if not trial.value:
        return None
    said = f"with a cache on a graphics card: {trial.value}"
    if HANDED in said:
        return f"{said}. Bring it to the device of the cache: k.to(self.keys)"
    return f"{said}. Pass `device` on to the call that makes the room"


def converted(rng: np.random.Generator, init: Init) -> Iterator[Case]:
    """Yield cases in which keys and values come in another dtype than the cache."""
    for asked, handed in (("bfloat16", "float32"), ("float32", "float16"), ("float64", "bfloat16")):
        moves = updates(rng, init, 2, 1, 1, dtype=getattr(torch, handed))
        yield used(f"dtype=torch.{asked}, keys in {handed}", {**init, "dtype": getattr(torch, asked)}, *moves)


def brought(rng: np.random.Generator, init: Init) -> Case:
    """Return a case in which a cache on a graphics card is handed tensors from the cpu."""
    moves = updates(rng, init, 2, 1, 1)
    return Case("keys from the cpu for a cache on a graphics card", (init, moves, "cpu"), probe="steps")


def as_it_is(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the outcome of the call, so that `in_the_dtype_asked`, not the oracle, judges its dtype."""
    return call(case)


def in_the_dtype_asked(trial: Trial) -> str | None:
    """Check that `update` returns the dtype of the cache, whatever the dtype of the new tokens."""
    init, moves, *_ = trial.case.args
    asked, got = init.get("dtype", torch.float32), trial.value
    if not isinstance(got, list) or len(got) != len(moves):
        return f"expected {len(moves)} results, got {describe(got)}"
    for place, (pair, expected) in enumerate(zip(got, trial.expected, strict=True), 1):
        if isinstance(expected, tuple):
            given = moves[place - 1][1].dtype
            for x in pair if isinstance(pair, tuple | list) else ():
                if is_tensor(x) and x.dtype != asked:
                    return f"a cache with dtype={asked} is given {given}, and `update` returns {x.dtype}"
            expected = tuple(x.to(asked) for x in expected)
        if why := differs(pair, expected, trial.case.tolerance):
            return f"at step {place}: {why}"
    return None


def keeps_no_memory_of_others(trial: Trial) -> str | None:
    """Check that a cache keeps copies: what the caller writes into its tensors later does not appear."""
    for place, (got, expected) in enumerate(zip(trial.value, trial.expected, strict=True), 1):
        for x in got if isinstance(expected, tuple) and isinstance(got, tuple | list) else ():
            if is_tensor(x) and bool((x == OVERWRITTEN).any()):
                return (
                    f"after update {place} the cache holds {OVERWRITTEN:g}, which the caller later wrote to "
                    "the tensors of an earlier update: you still share the caller's memory. Copy "
                    "what you keep"
                )
    return None


def placement(in_other_dtypes: Cases, on_a_card: Cases, everything: Cases) -> tuple[Criterion, ...]:
    """Return the last criteria of every cache: dtype, device, and tensors handed in that stay as they were.

    Args:
        in_other_dtypes: cases of caches in other dtypes than float32.
        on_a_card: cases to run as if on another device than the cpu.
        everything: all cases of the exercise.
    """
    return (
        Criterion(
            "the dtype that is asked for",
            0.25,
            in_other_dtypes,
            measure=as_it_is,
            test=in_the_dtype_asked,
        ),
        Criterion("the device that is asked for", 0.25, elsewhere(on_a_card), test=on_its_device),
        Criterion("the tensors handed in are left as they were", 0.25, everything, observes="arguments"),
    )
