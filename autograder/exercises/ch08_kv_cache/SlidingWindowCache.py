"""ch08_kv_cache/SlidingWindowCache: the keys and values of the last tokens, in room of one size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.costs import unseen
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch08_kv_cache.caches import (
    brought,
    converted,
    counted,
    fitting,
    keeps_no_memory_of_others,
    lengths,
    placement,
    returns_a_pair,
    right_lengths,
    updates,
    used,
    which_tokens,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST

MANY = 40
"""Tokens that are written one by one where the memory is measured."""


class SlidingWindowCache:
    """The reference. (`tfcore`'s returns more after a chunk, as its attention has a window of its own.)"""

    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.length, self.window = 0, window
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


def room(batch: int, num_kv_heads: int, window: int, d_head: int) -> dict[str, int]:
    return {"batch": batch, "num_kv_heads": num_kv_heads, "window": window, "d_head": d_head}


def drawn_room(rng: np.random.Generator) -> dict[str, int]:
    return room(*sizes(rng, (2, 3), (2, 4), (5, 7), (4, 8)))


def sliding(rng: np.random.Generator) -> Iterator[Case]:
    small = room(1, 2, 3, 4)
    yield used("5 tokens through a window of 3", small, *updates(rng, small, 1, 1, 1, 1, 1))
    yield used("fewer tokens than the window", small, *updates(rng, small, 1, 1))
    init = drawn_room(rng)
    window = init["window"]
    yield used(f"twice round a window of {window}", init, *updates(rng, init, *[1] * (2 * window + 2)))
    yield used("20 tokens through a window of 3", small, *updates(rng, small, *[1] * 20))
    alone = room(2, 3, 1, 5)
    yield used("a window of 1", alone, *updates(rng, alone, 1, 1, 1))
    wide = room(3, 2, 4, 5)
    yield used("tensors that are not contiguous", wide, *updates(rng, wide, *[1] * 6, form=strided))


def chunks(rng: np.random.Generator) -> Iterator[Case]:
    small = room(1, 2, 3, 4)
    yield used("a chunk of 2 that passes the end of a window of 3", small, *updates(rng, small, 2, 2))
    yield used("a prompt as long as the window, then a token", small, *updates(rng, small, 3, 1))
    yield used("a prompt longer than the window, then a token", small, *updates(rng, small, 5, 1))
    init = drawn_room(rng)
    window = init["window"]
    yield used("a prompt shorter than the window, then tokens", init, *updates(rng, init, 2, *[1] * window))
    lengths = (2, window - 1, 3, 2 * window + 1, 1, window, 2, 3 * window)
    yield used("chunks of all lengths", init, *updates(rng, init, *lengths))


def looked_at(rng: np.random.Generator) -> Iterator[Case]:
    small = room(1, 2, 3, 4)
    yield used("`length` of a new cache", small, ("length",))
    yield used("`length` after each of 5 tokens, window 3", small, *counted(updates(rng, small, *[1] * 5)))
    init = drawn_room(rng)
    yield used("`length` after a long prompt", init, *counted(updates(rng, init, init["window"] + 4, 1)))


def long_text(rng: np.random.Generator) -> Iterator[Case]:
    init = room(1, 2, 3, 4)
    moves = updates(rng, init, *[1] * MANY)
    yield used(f"{MANY} tokens through a window of 3", init, *moves, metered=True)


def in_other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    for name in ("float64", "bfloat16"):
        dtype = getattr(torch, name)
        init = {**room(1, 3, 2, 5), "dtype": dtype}
        yield used(f"dtype=torch.{name}", init, *updates(rng, init, 1, 1, dtype=dtype))
    yield from converted(rng, room(2, 4, 3, 5))


def on_a_card(rng: np.random.Generator) -> Iterator[Case]:
    init = {**room(1, 2, 4, 3), "device": "cpu"}
    yield used("a prompt, then tokens, on another device", init, *updates(rng, init, 3, 1, 1, 6))
    yield brought(rng, init)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    init = drawn_room(rng)
    window = init["window"]
    yield used("token after token", init, *updates(rng, init, *[1] * (window + 2)))
    yield used("a prompt as long as the window, then tokens", init, *updates(rng, init, window, 1, 2))
    yield used("a long prompt, then tokens", init, *updates(rng, init, 2 * window, 1, 1))


def stays_small(trial: Trial) -> str | None:
    """Check that the memory held at once never exceeds a few windows."""
    init, cost = trial.case.args[0], trial.outcome.cost
    token = 2 * 4 * init["batch"] * init["num_kv_heads"] * init["d_head"]
    held = cost["peak_bytes"] / token
    if held <= 5 * (init["window"] + 1):
        return unseen("bytes", cost["peak_bytes"], init["window"] * token)
    return (
        f"after {MANY} tokens you hold {held:.0f} keys with their values; a window of {init['window']} needs "
        f"{init['window']} of each, and little more while one is replaced. Drop what no query sees again"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/SlidingWindowCache",
    signature="SlidingWindowCache(batch, num_kv_heads, window, d_head, dtype=torch.float32, device='cpu')",
    goal="Keep the keys and values of the last `window` tokens, in memory that does not grow.",
    section="What a window forgets",
    minutes=20,
    difficulty="medium",
    reference=SlidingWindowCache,
    criteria=(
        Criterion("the last `window` tokens, oldest first", 1, sliding),
        Criterion("chunks of any length", 0.5, chunks),
        Criterion(
            "`length` counts all tokens ever seen", 0.25, looked_at, measure=lengths, test=right_lengths
        ),
        Criterion("memory stays the same", 0.5, long_text, observes="cost", test=stays_small),
        *placement(in_other_dtypes, on_a_card, everything),
    ),
    properties=(
        Property("`update` returns keys and values", returns_a_pair),
        Property("the cache keeps copies", keeps_no_memory_of_others),
        Property("the last tokens, in order", which_tokens),
        *FIRST,
        *LAST,
    ),
    domain=fitting,
)
