"""ch08_kv_cache/SlidingWindowCache: the keys and values of the last tokens, in room of one size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from autograder.cage.tensors import strided
from autograder.checking.costs import unseen
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
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
    returns_a_pair,
    right_lengths,
    updates,
    used,
    which_tokens,
)
from autograder.exercises.draw import sizes
from autograder.exercises.laws import FIRST, LAST, elsewhere

MANY = 40
"""Tokens that are written one by one where the memory is measured."""


class SlidingWindowCache:
    """The reference. (`tfcore`'s gives back more after a chunk, as its attention has a window of its own.)"""

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
    """What is held at once never exceeds a few windows."""
    init, cost = trial.case.args[0], trial.outcome.cost
    token = 2 * 4 * init["batch"] * init["num_kv_heads"] * init["d_head"]
    held = cost["peak_bytes"] / token
    if held <= 5 * (init["window"] + 1):
        return unseen("bytes", cost["peak_bytes"], init["window"] * token)
    return (
        f"after {MANY} tokens you hold {held:.0f} keys with their values; a window of {init['window']} needs "
        f"{init['window']} of each, and little more while one is replaced. Let go of what no query sees again"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/SlidingWindowCache",
    signature="SlidingWindowCache(batch, num_kv_heads, window, d_head, dtype=torch.float32, device='cpu')",
    goal="Keep the keys and values of the last `window` tokens, in memory that does not grow.",
    section="What a window forgets",
    reference=SlidingWindowCache,
    criteria=(
        Criterion("the last `window` tokens, oldest first", 1, sliding),
        Criterion("chunks of any length", 0.5, chunks),
        Criterion(
            "`length` counts all tokens ever seen", 0.25, looked_at, measure=lengths, test=right_lengths
        ),
        Criterion("memory stays the same", 0.5, long_text, observes="cost", test=stays_small),
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
        Property("the last tokens, in order", which_tokens),
        *FIRST,
        *LAST,
    ),
    domain=fitting,
)


@EXERCISE.misconception(
    "Your window is one token short. A window of w holds the new token and the w - 1 before it: keep the "
    "last `window` tokens.",
    gravity="slip",
)
class one_token_short:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        keep = max(1, self.window - 1)
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -keep:]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -keep:]
        return self.keys, self.values


@EXERCISE.misconception(
    "Your window is too wide by the new tokens: it holds `window` old tokens beside them. Cut to the last "
    "`window` after joining old and new.",
    gravity="slip",
)
class one_token_more:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        k, v = (x[:, :, -self.window :].to(self.keys) for x in (k, v))
        self.keys = torch.cat([self.keys[:, :, -self.window :], k], dim=2)
        self.values = torch.cat([self.values[:, :, -self.window :], v], dim=2)
        return self.keys, self.values


@EXERCISE.misconception(
    "Once the window is full, the newest token comes before older ones, as in a ring that is returned in the "
    "order of its memory. Return the oldest token first, with torch.roll or two slices."
)
class ring_as_it_lies:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        for t in range(k.shape[2]):
            place = self.length % self.window
            self.keys[:, :, place] = k[:, :, t]
            self.values[:, :, place] = v[:, :, t]
            self.length += 1
        filled = min(self.length, self.window)
        return self.keys[:, :, :filled].clone(), self.values[:, :, :filled].clone()


@EXERCISE.misconception(
    "You put the newest token first. Return the tokens in the order of the text, the oldest first.",
    gravity="slip",
)
class newest_first:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        k, v = k.to(self.keys), v.to(self.values)
        self.keys = torch.cat([k.flip(2), self.keys], dim=2)[:, :, : self.window]
        self.values = torch.cat([v.flip(2), self.values], dim=2)[:, :, : self.window]
        return self.keys, self.values


@EXERCISE.misconception(
    "`length` stops at the window, but the model reads the position of the next token from it. Add "
    "k.shape[2] to it at every update."
)
class length_stops:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        self.length = self.keys.shape[2]
        return self.keys, self.values


@EXERCISE.misconception(
    "You count one token for each update, but a chunk brings several. Add k.shape[2] to `length`."
)
class counts_updates:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        self.length += 1
        return self.keys, self.values


@EXERCISE.misconception(
    "A chunk longer than the window does not fit into your room. Cut such a chunk to its last `window` "
    "tokens first: k[:, :, -window:]."
)
class chunk_longer_than_the_window:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        T = k.shape[2]
        self.keys = torch.roll(self.keys, -T, dims=2)
        self.values = torch.roll(self.values, -T, dims=2)
        self.keys[:, :, -T:] = k
        self.values[:, :, -T:] = v
        self.length += T
        filled = min(self.length, self.window)
        return self.keys[:, :, -filled:].clone(), self.values[:, :, -filled:].clone()


@EXERCISE.misconception(
    "Of a chunk longer than the window you keep the beginning, but the next token sees its end. Keep "
    "k[:, :, -window:]."
)
class beginning_of_a_long_chunk:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        k, v = k[:, :, : self.window], v[:, :, : self.window]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "You take a single token of each chunk, but a prompt brings many at once. Keep all of them that fit into "
    "the window."
)
class one_token_a_chunk:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k[:, :, -1:].to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v[:, :, -1:].to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "After a chunk you return more than `window` tokens. Cut to the last `window` before you return."
)
class more_after_a_chunk:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        old = max(0, self.keys.shape[2] - self.window + 1)
        self.keys = torch.cat([self.keys[:, :, old:], k.to(self.keys)], dim=2)
        self.values = torch.cat([self.values[:, :, old:], v.to(self.values)], dim=2)
        return self.keys, self.values


@EXERCISE.misconception(
    "Before the window is full you return its empty places as well, and zeros get weight in a softmax. "
    "Return only what has been written."
)
class empty_places_too:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "When the window is full you keep the old tokens and leave out the new ones. Drop the oldest token for "
    "each new one."
)
class keeps_the_first:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, : self.window]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, : self.window]
        return self.keys, self.values


@EXERCISE.misconception(
    "When the window is full you empty it and begin again, but a query sees the last `window` tokens at any "
    "time. Drop the oldest tokens one by one."
)
class starts_anew:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        if self.keys.shape[2] + k.shape[2] > self.window:
            self.keys, self.values = self.keys[:, :, :0], self.values[:, :, :0]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "You raise an error when the window is full, but this cache is never full. Drop the oldest token instead."
)
class refuses_when_full:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        end = self.length + k.shape[2]
        if end > self.window:
            raise ValueError("the window is full")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


@EXERCISE.misconception(
    "Your results are right, but you hold every token: a slice of a growing tensor frees nothing. Store "
    "only the last `window` tokens."
)
class keeps_everything:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)
        return self.keys[:, :, -self.window :], self.values[:, :, -self.window :]


@EXERCISE.misconception("Your values are the keys a second time. Write v into the values.", gravity="slip")
class keys_for_values:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, k.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "After a long chunk your room is the caller's own tensor, and later updates write into it. Copy what you "
    "keep with clone(), or write into room of your own.",
    gravity="slip",
)
class writes_into_the_callers_tensor:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        new, filled = k.shape[2], min(self.length, self.window)
        self.length += new
        if new >= self.window:
            self.keys = k[:, :, -self.window :].to(self.keys)
            self.values = v[:, :, -self.window :].to(self.values)
            return self.keys, self.values
        stay = min(filled, self.window - new)
        for room, chunk in ((self.keys, k), (self.values, v)):
            room[:, :, :stay] = room[:, :, filled - stay : filled].clone()
            room[:, :, stay : stay + new] = chunk
        return self.keys[:, :, : stay + new], self.values[:, :, : stay + new]


@EXERCISE.misconception(
    "Your room is always float32, and queries of another dtype cannot meet keys in float32. Pass `dtype` on "
    "to the call that makes the room."
)
class dtype_ignored:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        for t in range(k.shape[2]):
            self.keys = torch.roll(self.keys, -1, dims=2)
            self.values = torch.roll(self.values, -1, dims=2)
            self.keys[:, :, -1] = k[:, :, t]
            self.values[:, :, -1] = v[:, :, t]
            self.length += 1
        filled = min(self.length, self.window)
        return self.keys[:, :, -filled:], self.values[:, :, -filled:]


@EXERCISE.misconception(
    "Your room is always on the cpu, where queries on a graphics card cannot meet it. Pass `device` on to "
    "the call that makes the room."
)
class device_ignored:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception(
    "Your cache holds the caller's own tensors of the first update, in their own dtype and on their device: "
    "what the caller writes into them later changes the cache. Join copies to an empty tensor of your own: "
    "torch.cat([self.keys, k.to(self.keys)], dim=2).",
    gravity="slip",
)
class keeps_what_it_was_given:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.window, self.length, self.kept = window, 0, None

    def update(self, k, v):
        self.length += k.shape[2]
        if self.kept is None:
            self.kept = k, v
        else:
            self.kept = torch.cat([self.kept[0], k], dim=2), torch.cat([self.kept[1], v], dim=2)
        self.kept = tuple(x[:, :, -self.window :] for x in self.kept)
        return self.kept


@EXERCISE.misconception(
    "Your cache holds the caller's own tensors of the first update: what the caller writes into them later "
    "changes the cache. `k.to(dtype)` copies nothing where k has that dtype. Write k.to(dtype, copy=True), "
    "or join k to an empty tensor of your own.",
    gravity="slip",
)
class converted_without_a_copy:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.window, self.length, self.kept = window, 0, None
        self.dtype, self.device = dtype, device

    def update(self, k, v):
        self.length += k.shape[2]
        new = k.to(self.device, self.dtype), v.to(self.device, self.dtype)
        if self.kept is None:
            self.kept = new
        else:
            self.kept = tuple(torch.cat(both, dim=2) for both in zip(self.kept, new, strict=True))
        self.kept = tuple(x[:, :, -self.window :] for x in self.kept)
        return self.kept


@EXERCISE.misconception(
    "Keys of another dtype change the dtype of your cache, as torch.cat of two dtypes takes the wider one. "
    "Convert them first: torch.cat([self.keys, k.to(self.keys)], dim=2)."
)
class joined_in_the_wider_dtype:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.misconception("You return values first and keys second. Return keys, then values.", gravity="slip")
class results_swapped:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.values, self.keys


@EXERCISE.style("join, and keep the last")
class join_and_cut:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.length, self.window = 0, window
        self.keys = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)
        self.values = torch.zeros(batch, num_kv_heads, 0, d_head, dtype=dtype, device=device)

    def update(self, k, v):
        self.length += k.shape[2]
        self.keys = torch.cat([self.keys, k.to(self.keys)], dim=2)[:, :, -self.window :]
        self.values = torch.cat([self.values, v.to(self.values)], dim=2)[:, :, -self.window :]
        return self.keys, self.values


@EXERCISE.style("a ring, rolled when it is read")
class ring:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window = 0, window

    def update(self, k, v):
        start = self.length
        self.length += k.shape[2]
        k, v = k[:, :, -self.window :], v[:, :, -self.window :]
        start = max(start, self.length - self.window)
        places = torch.arange(start, self.length, device=self.keys.device) % self.window
        self.keys[:, :, places] = k.to(self.keys)
        self.values[:, :, places] = v.to(self.values)
        if self.length <= self.window:
            return self.keys[:, :, : self.length], self.values[:, :, : self.length]
        oldest = self.length % self.window
        return self.keys.roll(-oldest, dims=2), self.values.roll(-oldest, dims=2)


@EXERCISE.style("what stays is shifted to the front, the new written behind it")
class shifted:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.kv = torch.empty(2, batch, num_kv_heads, window, d_head, dtype=dtype, device=device)
        self.window, self.length = window, 0

    def update(self, k, v):
        filled, new = min(self.length, self.window), min(k.size(2), self.window)
        stay = min(filled, self.window - new)
        self.kv[:, :, :, :stay] = self.kv[:, :, :, filled - stay : filled].clone()
        self.kv[0, :, :, stay : stay + new] = k[:, :, k.size(2) - new :]
        self.kv[1, :, :, stay : stay + new] = v[:, :, v.size(2) - new :]
        self.length += k.size(2)
        return self.kv[0, :, :, : stay + new], self.kv[1, :, :, : stay + new]


@EXERCISE.style("room for two windows, moved to the front when its end is reached")
class two_windows:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.keys = torch.zeros(batch, num_kv_heads, 2 * window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.length, self.window, self.end = 0, window, 0

    def update(self, k, v):
        self.length += k.shape[2]
        for t in range(max(0, k.shape[2] - self.window), k.shape[2]):
            if self.end == 2 * self.window:
                self.keys[:, :, : self.window] = self.keys[:, :, self.window :].clone()
                self.values[:, :, : self.window] = self.values[:, :, self.window :].clone()
                self.end = self.window
            self.keys[:, :, self.end] = k[:, :, t]
            self.values[:, :, self.end] = v[:, :, t]
            self.end += 1
        seen = slice(max(0, self.end - self.window), self.end)
        return self.keys[:, :, seen], self.values[:, :, seen]


@EXERCISE.style("a list of tokens, the oldest popped")
class list_of_tokens:
    def __init__(self, batch, num_kv_heads, window, d_head, dtype=torch.float32, device="cpu"):
        self.window, self.length = window, 0
        self.tokens, self.own = [], {"dtype": dtype, "device": device, "copy": True}

    def update(self, k, v):
        for one_k, one_v in zip(k.unbind(2), v.unbind(2), strict=True):
            self.tokens.append((one_k.to(**self.own), one_v.to(**self.own)))
            if len(self.tokens) > self.window:
                self.tokens.pop(0)
            self.length += 1
        keys, values = zip(*self.tokens, strict=True)
        return torch.stack(keys, dim=2), torch.stack(values, dim=2)
