"""ch08_kv_cache/KVCache: the keys and values of all tokens so far, in room that is made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.costs import unseen
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.ch08_kv_cache.caches import (
    brought,
    converted,
    counted,
    fitting,
    keeps_no_memory_of_others,
    lengths,
    placement,
    refuses_cleanly,
    returns_a_pair,
    right_lengths,
    updates,
    used,
    which_tokens,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST
from tfcore import cache

MANY = 30
"""Tokens that are written one by one where the cost is counted."""
MOST_ROOM = 1.25
"""How much a new cache may allocate, as a multiple of the keys and values that fill it."""
COPIES = ("cat", "stack", "clone", "zeros", "empty")
"""Operations that copy old tokens into new tensors."""


class KVCache(cache.KVCache):
    """The reference, which takes keys of any dtype from any device and keeps its own."""

    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        super().__init__(batch, num_kv_heads, max_len, d_head, dtype, device)

    def update(self, k, v):
        return super().update(k.to(self.keys), v.to(self.values))


def room(batch: int, num_kv_heads: int, max_len: int, d_head: int) -> dict[str, int]:
    return {"batch": batch, "num_kv_heads": num_kv_heads, "max_len": max_len, "d_head": d_head}


def drawn_room(rng: np.random.Generator) -> dict[str, int]:
    return room(*sizes(rng, (2, 4), (2, 5), (9, 12), (3, 7)))


def growing(rng: np.random.Generator) -> Iterator[Case]:
    small = room(1, 2, 4, 3)
    yield used("3 tokens, one at a time", small, *updates(rng, small, 1, 1, 1))
    yield used("a prompt of 2, then one token", small, *updates(rng, small, 2, 1))
    init = drawn_room(rng)
    yield used("a prompt, then single tokens", init, *updates(rng, init, 4, 1, 1, 1))
    yield used("several tokens at a time", init, *updates(rng, init, 2, 4, 3))
    full = room(2, 1, 6, 5)
    yield used("filled to the last place", full, *updates(rng, full, 3, 1, 2))
    yield used("filled by the prompt alone", full, *updates(rng, full, 6))
    single = room(3, 2, 1, 4)
    yield used("room for a single token", single, *updates(rng, single, 1))
    narrow = room(2, 3, 7, 1)
    yield used("heads of width 1", narrow, *updates(rng, narrow, 4, 1))
    yield used("tensors that are not contiguous", init, *updates(rng, init, 3, 2, 1, form=strided))


def looked_at(rng: np.random.Generator) -> Iterator[Case]:
    small = room(1, 2, 4, 3)
    yield used("`length` of a new cache", small, ("length",))
    yield used("`length` after each of 3 tokens", small, *counted(updates(rng, small, 1, 1, 1)))
    init = drawn_room(rng)
    yield used("`length` after chunks", init, *counted(updates(rng, init, 4, 1, 3)))


def overfull(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases in which a cache refuses tokens and is used again, unchanged."""
    small = room(1, 2, 3, 4)
    yield used("a third token in room for 2", room(1, 3, 2, 4), *updates(rng, room(1, 3, 2, 4), 2, 1))
    yield used("a prompt longer than the room", small, *updates(rng, small, 4), ("length",))
    yield used("a chunk that only half fits, then one that fits", small, *updates(rng, small, 2, 2, 1))
    init = drawn_room(rng)
    left = init["max_len"] - 5
    yield used(
        "refused twice, then filled to the last place",
        init,
        *counted(updates(rng, init, 5, left + 1, left + 3, left - 1, 1, 1)),
    )


def in_other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    for name in ("float64", "bfloat16", "float16"):
        dtype = getattr(torch, name)
        init = {**room(1, 3, 5, 2), "dtype": dtype}
        yield used(f"dtype=torch.{name}", init, *updates(rng, init, 2, 1, dtype=dtype))
    yield from converted(rng, room(2, 3, 6, 5))


def on_a_card(rng: np.random.Generator) -> Iterator[Case]:
    init = {**room(1, 2, 5, 3), "device": "cpu"}
    yield used("a prompt, then one token, on another device", init, *updates(rng, init, 2, 1))
    yield brought(rng, init)


def long_text(rng: np.random.Generator) -> Iterator[Case]:
    init = room(1, 2, MANY, 8)
    yield used(f"a new cache for {MANY} tokens", init, ("length",), metered=True)
    yield used(f"{MANY} tokens, one at a time", init, *updates(rng, init, *[1] * MANY), metered=True)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    init = drawn_room(rng)
    yield used("a prompt, then single tokens", init, *updates(rng, init, 3, 1, 1))
    yield used("filled by the prompt, and a token more", init, *updates(rng, init, init["max_len"], 1))


def copying(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return, instead of the keys and values, the operations that made new tensors at each step."""
    outcome = call(case)
    made = outcome.cost.get("calls", {})
    return replace(outcome, value={"at each step": [op for op in COPIES if made.get(op, 0) >= MANY]})


def copies_nothing(trial: Trial) -> str | None:
    """Check that only the room, and a little for the new tokens, is allocated.

    The largest tensor has room for max_len keys, or for keys and values, and for no token more.
    """
    (init, moves), cost = trial.case.args, trial.outcome.cost
    all_keys = init["batch"] * init["num_kv_heads"] * init["max_len"] * init["d_head"]
    all_tokens = 2 * 4 * all_keys
    times = cost["total_bytes"] / all_tokens
    if len(moves) == 1:
        if times <= MOST_ROOM:
            if cost["largest"] <= all_keys or cost["largest"] == 2 * all_keys:
                return None
            shape = tuple(cost["largest_shape"])
            return (
                f"a new cache makes a tensor of shape {shape}, which is larger than the keys, or the keys "
                f"and values, of max_len = {init['max_len']} tokens. Make room for that many, and no more"
            )
        return (
            f"a new cache takes {cost['total_bytes']:,} bytes, {times:.3g} times what keys and values of "
            f"max_len = {init['max_len']} tokens need. Make room for max_len tokens, and no more"
        )
    if times <= 4:
        return unseen("bytes", cost["total_bytes"], all_tokens // 2)  # the keys alone
    by_cat = f"; torch.cat ran {cost['calls']['cat']} times" if cost["calls"].get("cat") else ""
    return (
        f"in {MANY} updates you made new tensors {times:.0f} times as large as all keys and values "
        f"together{by_cat}: old tokens are copied again and again. Make room for max_len tokens once, "
        "write the new ones into it and return views (slices)"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/KVCache",
    signature="KVCache(batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device='cpu')",
    goal="Keep the keys and values of all tokens so far; a step writes its own and copies no old ones.",
    section="Nothing old changes",
    minutes=20,
    difficulty="medium",
    reference=KVCache,
    criteria=(
        Criterion("`update` returns the keys and values of all tokens so far", 1, growing),
        Criterion("`length` counts the tokens", 0.25, looked_at, measure=lengths, test=right_lengths),
        Criterion("raises a ValueError where there is no room, and changes nothing", 0.5, overfull),
        Criterion(
            "room for max_len tokens, and old tokens are not copied again and again",
            0.5,
            long_text,
            measure=copying,
            test=copies_nothing,
        ),
        *placement(in_other_dtypes, on_a_card, everything),
    ),
    properties=(
        Property("`update` returns keys and values", returns_a_pair),
        Property("the cache keeps copies", keeps_no_memory_of_others),
        Property("all tokens, in order", which_tokens),
        Property("a refusal changes nothing", refuses_cleanly),
        *FIRST,
        *LAST,
    ),
    domain=fitting,
)
