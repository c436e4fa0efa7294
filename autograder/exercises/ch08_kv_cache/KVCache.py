"""ch08_kv_cache/KVCache: the keys and values of all tokens so far, in room that is made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from autograder.cage.tensors import strided
from autograder.checking.costs import unseen
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.ch08_kv_cache.caches import (
    as_it_is,
    brought,
    converted,
    counted,
    fitting,
    in_the_dtype_asked,
    keeps_no_memory_of_others,
    lengths,
    on_its_device,
    refuses_cleanly,
    returns_a_pair,
    right_lengths,
    updates,
    used,
    which_tokens,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, elsewhere
from tfcore import cache

MANY = 30
"""Tokens that are written one by one where the cost is counted."""

MOST_ROOM = 1.75
"""How much a new cache may allocate, as a part of the keys and values that fill it."""

COPIES = ("cat", "stack", "clone", "zeros", "empty")
"""By what old tokens get into new tensors."""


class KVCache(cache.KVCache):
    """The reference, which takes keys of any dtype from any device and keeps its own."""

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
    """After a refusal the cache goes on as if nothing had been asked."""
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
    """Instead of the keys and values, what made new tensors at each step."""
    outcome = call(case)
    made = outcome.cost.get("calls", {})
    return replace(outcome, value={"at each step": [op for op in COPIES if made.get(op, 0) >= MANY]})


def copies_nothing(trial: Trial) -> str | None:
    """All that is allocated, from first to last, is the room and a little for the new tokens."""
    (init, moves), cost = trial.case.args, trial.outcome.cost
    all_tokens = 2 * 4 * init["batch"] * init["num_kv_heads"] * init["max_len"] * init["d_head"]
    times = cost["total_bytes"] / all_tokens
    if len(moves) == 1:
        if times <= MOST_ROOM:
            return None
        return (
            f"a new cache takes {cost['total_bytes']:,} bytes, {times:.3g} times what keys and values of "
            f"max_len = {init['max_len']} tokens need. Make room for max_len tokens, and no more"
        )
    if times <= 4:
        return unseen("bytes", cost["total_bytes"], all_tokens // 2)  # the keys alone
    by_cat = f"; torch.cat ran {cost['calls']['cat']} times" if cost["calls"].get("cat") else ""
    return (
        f"in {MANY} updates you made new tensors {times:.0f} times as large as all keys and values "
        f"together{by_cat}: what was there is copied again and again. Make room for max_len tokens once, "
        "write the new ones into it and return views (slices)"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/KVCache",
    signature="KVCache(batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device='cpu')",
    goal="Keep the keys and values of all tokens so far; a step writes its own and copies nothing.",
    section="Nothing old changes",
    reference=KVCache,
    criteria=(
        Criterion("`update` gives back the keys and values of all tokens so far", 1, growing),
        Criterion("`length` counts the tokens", 0.25, looked_at, measure=lengths, test=right_lengths),
        Criterion("a ValueError where there is no room, and nothing has changed", 0.5, overfull),
        Criterion(
            "room for max_len tokens, and a step copies nothing but its own",
            0.5,
            long_text,
            measure=copying,
            test=copies_nothing,
        ),
        Criterion(
            "the dtype that is asked for",
            0.25,
            in_other_dtypes,
            measure=as_it_is,
            test=in_the_dtype_asked,
        ),
        Criterion("the device that is asked for", 0.25, elsewhere(on_a_card), test=on_its_device),
        Criterion("the tensors handed in are left as they were", 0.25, everything, observes="arguments"),
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


@EXERCISE.misconception(
    "Every update writes to the front, over the tokens before. Write the new tokens behind them: "
    "self.keys[:, :, self.length : end] = k."
)
class writes_at_the_front:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        T = k.shape[2]
        if self.length + T > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, :T] = k
        self.values[:, :, :T] = v
        self.length += T
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "You return the whole room, with the empty places behind the last token, and attention would give them "
    "weight. Return self.keys[:, :, : self.length], and the same part of the values."
)
class returns_the_empty_tail:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys, self.values


@EXERCISE.misconception(
    "You return the new tokens alone, but the new query must see all tokens before it too. Return "
    "self.keys[:, :, :end] and self.values[:, :, :end]."
)
class returns_the_new_alone:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        start, self.length = self.length, end
        return self.keys[:, :, start:end], self.values[:, :, start:end]


@EXERCISE.misconception(
    "What you return ends before the new tokens, but a token attends to itself too. Return everything up to "
    "the new end: self.keys[:, :, :end].",
    gravity="slip",
)
class without_the_new:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        seen = self.keys[:, :, : self.length], self.values[:, :, : self.length]
        self.length = end
        return seen


@EXERCISE.misconception(
    "`length` never grows, so each update writes over the one before. End `update` with self.length = end.",
    gravity="slip",
)
class length_stays_zero:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "You keep and count one token for each update, but a prompt brings many at once. Write all k.shape[2] "
    "of them, and count as many."
)
class one_token_an_update:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        if self.length + 1 > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length] = k[:, :, 0]
        self.values[:, :, self.length] = v[:, :, 0]
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "Keys and values share one tensor, so the values overwrite the keys (`self.keys = self.values = ...` "
    "gives one tensor two names). Make a second tensor.",
    gravity="slip",
)
class one_room_for_both:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = self.values = torch.zeros(
            batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device
        )
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Your values are the keys a second time. Write v into the values.",
    gravity="slip",
)
class keys_for_values:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = k
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Your room has time before heads, but keys come as (batch, heads, tokens, width). Make it of shape "
    "(batch, num_kv_heads, max_len, d_head), and slice its third axis."
)
class time_before_heads:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, max_len, num_kv_heads, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, self.length : end] = k
        self.values[:, self.length : end] = v
        self.length = end
        return self.keys[:, :end], self.values[:, :end]


@EXERCISE.misconception(
    "When the room is full you go on as if nothing had happened, and tokens are lost. Raise a ValueError "
    "before anything is written."
)
class silent_overflow:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end <= self.max_len:
            self.keys[:, :, self.length : end] = k
            self.values[:, :, self.length : end] = v
            self.length = end
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "When the room is full you drop the oldest tokens, but this cache keeps every token. Raise a ValueError "
    "where there is no room. (Exercise 4 is about dropping.)"
)
class drops_the_oldest:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        k, v = k[:, :, -self.max_len :], v[:, :, -self.max_len :]
        excess = max(0, self.length + k.shape[2] - self.max_len)
        kept = self.length - excess
        self.keys[:, :, :kept] = self.keys[:, :, excess : self.length].clone()
        self.values[:, :, :kept] = self.values[:, :, excess : self.length].clone()
        self.length = kept + k.shape[2]
        self.keys[:, :, kept : self.length] = k
        self.values[:, :, kept : self.length] = v
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "Where there is no room, torch raises an error about shapes and the cache raises no ValueError. Compare "
    "self.length + k.shape[2] with max_len first, and raise a ValueError."
)
class no_check:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def update(self, k, v):
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "`length` has grown when you raise the error, so a refused update spoils the cache for the next one. "
    "Check first, and change afterwards."
)
class length_grows_before_the_check:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        start = self.length
        self.length += k.shape[2]
        if self.length > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, start : self.length] = k
        self.values[:, :, start : self.length] = v
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "You raise the error with half of a chunk written. Compare self.length + k.shape[2] with max_len before "
    "anything is changed."
)
class half_a_chunk_written:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        for t in range(k.shape[2]):
            if self.length == self.max_len:
                raise ValueError("the cache is full")
            self.keys[:, :, self.length] = k[:, :, t]
            self.values[:, :, self.length] = v[:, :, t]
            self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.misconception(
    "You refuse the token that would take the last place. A cache of max_len holds max_len tokens: refuse "
    "only when the new end is *greater* than max_len.",
    gravity="slip",
)
class last_place_unused:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end >= self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "You refuse only when the room is full already, but a chunk can be too long for what is left. Compare "
    "self.length + k.shape[2] with max_len."
)
class looks_only_whether_full:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        if self.length >= self.max_len:
            raise ValueError("the cache is full")
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Each step makes a new, longer tensor and copies all keys and values into it, as torch.cat does, so n "
    "steps copy n²/2 tokens. Make room for max_len tokens once and write into it."
)
class grows_by_cat:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError("the cache is full")
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)
        self.length = self.keys.shape[2]
        return self.keys, self.values


@EXERCISE.misconception(
    "Each step returns a copy of all that is filled, as `clone` and `contiguous` make it, and so copies the "
    "whole past. Return a slice: a slice is a view and costs nothing."
)
class returns_a_copy:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end].clone(), self.values[:, :, :end].clone()


@EXERCISE.misconception(
    "Your room is always float32, and queries of another dtype cannot meet keys in float32. Pass `dtype` on "
    "to the call that makes the room."
)
class dtype_ignored:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Your room is always on the cpu, where queries on a graphics card cannot meet it. Pass `device` on to "
    "the call that makes the room."
)
class device_ignored:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Your cache holds the caller's own tensors: what the caller writes into them later changes the cache. "
    "Copy the new tokens into room of your own.",
    gravity="slip",
)
class keeps_what_it_was_given:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.max_len, self.length, self.kept = max_len, 0, None

    def update(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError("the cache is full")
        self.length += k.shape[2]
        if self.kept is None:
            self.kept = k, v
        else:
            self.kept = torch.cat([self.kept[0], k], dim=2), torch.cat([self.kept[1], v], dim=2)
        return self.kept


@EXERCISE.misconception(
    "Keys of another dtype change the dtype of your cache, as torch.cat of two dtypes takes the wider one. "
    "And each step copies the whole past. Make room for max_len tokens in the dtype that is asked for, once, "
    "and write into it."
)
class joined_in_the_wider_dtype:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        if self.length + k.shape[2] > self.max_len:
            raise ValueError("the cache is full")
        self.keys = torch.cat([self.keys, k], dim=2)
        self.values = torch.cat([self.values, v], dim=2)
        self.length = self.keys.shape[2]
        return self.keys, self.values


@EXERCISE.misconception(
    "A new cache takes twice the memory that it needs. Make room for max_len tokens, and no more.",
    gravity="slip",
)
class twice_the_room:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 2 * max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception("You return values first and keys second. Return keys, then values.", gravity="slip")
class results_swapped:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.max_len = 0, max_len

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError("the cache is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.values[:, :, :end], self.keys[:, :, :end]


@EXERCISE.style("two tensors, written and read by slices")
class slices:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.length, self.max_len = 0, max_len
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.max_len:
            raise ValueError(f"room for {self.max_len} tokens, {end} came")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.style("one tensor for keys and values, with narrow and copy_")
class narrow:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.kv = torch.empty(2, batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.length = 0

    def update(self, k, v):
        num_new, room = k.size(-2), self.kv.size(-2) - self.length
        if num_new > room:
            raise ValueError(f"{num_new} tokens came, {room} fit")
        new = self.kv.narrow(-2, self.length, num_new)
        new[0].copy_(k)
        new[1].copy_(v)
        self.length += num_new
        keys, values = self.kv.narrow(-2, 0, self.length)
        return keys, values


@EXERCISE.style("index_copy_ at the positions of the new tokens, as in static caches")
class index_copy:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros((batch, num_kv_heads, max_len, d_head), dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def update(self, k, v):
        positions = torch.arange(self.length, self.length + k.shape[2], device=self.keys.device)
        if positions[-1] >= self.keys.shape[2]:
            raise ValueError("no room")
        self.keys.index_copy_(2, positions, k.to(self.keys))
        self.values.index_copy_(2, positions, v.to(self.values))
        self.length = int(positions[-1]) + 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


@EXERCISE.style("token by token, in a loop")
class token_by_token:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        options = {"dtype": dtype, "device": device}
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, **options)
        self.values = torch.zeros(batch, num_kv_heads, max_len, d_head, **options)
        self.max_len, self.length = max_len, 0

    def update(self, k, v):
        if self.max_len - self.length < k.shape[2]:
            raise ValueError("the cache is full")
        for t in range(k.shape[2]):
            self.keys[:, :, self.length, :] = k[:, :, t, :]
            self.values[:, :, self.length, :] = v[:, :, t, :]
            self.length += 1
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]


@EXERCISE.style("time first in memory, transposed on the way in and out")
class time_first:
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        self.room = [
            torch.zeros(max_len, batch, num_kv_heads, d_head, dtype=dtype, device=device) for _ in range(2)
        ]
        self.length = 0

    def update(self, k, v):
        start, end = self.length, self.length + k.shape[2]
        if end > len(self.room[0]):
            raise ValueError("the cache is full")
        for room, new in zip(self.room, (k, v), strict=True):
            room[start:end] = new.permute(2, 0, 1, 3)
        self.length = end
        return tuple(room[:end].permute(1, 2, 0, 3) for room in self.room)


@EXERCISE.style("a module with buffers, and length as a property")
class module_with_buffers(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        super().__init__()
        shape = (batch, num_kv_heads, max_len, d_head)
        self.register_buffer("k", torch.zeros(shape, dtype=dtype, device=device))
        self.register_buffer("v", torch.zeros(shape, dtype=dtype, device=device))
        self.filled = 0

    @property
    def length(self):
        return self.filled

    @torch.no_grad()
    def update(self, k, v):
        now = slice(self.filled, self.filled + k.shape[2])
        if now.stop > self.k.shape[2]:
            raise ValueError("the cache is full")
        self.k[:, :, now], self.v[:, :, now] = k, v
        self.filled = now.stop
        return self.k[:, :, : now.stop], self.v[:, :, : now.stop]
