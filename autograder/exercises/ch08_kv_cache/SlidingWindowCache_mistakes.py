"""Mistakes that people make in `SlidingWindowCache`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.SlidingWindowCache import EXERCISE


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
    "Your window is too wide: it holds `window` old tokens besides the new ones. Cut to the last `window` "
    "after joining old and new.",
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
class ring_in_memory_order:
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
    "A chunk longer than the window does not fit into your buffer. Cut such a chunk to its last `window` "
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
    "You keep the beginning of a chunk longer than the window, but the next token sees the chunk's end. Keep "
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
    "Before the window is full, you return its empty places as well, and zeros get weight in a softmax. "
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
    "When the window is full, you keep the old tokens and leave out the new ones. Drop the oldest token for "
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
    "When the window is full, you empty it and begin again, but a query always sees the last `window` "
    "tokens. Drop the oldest tokens one by one."
)
class emptied_when_full:
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
    "After a long chunk, your buffer is the caller's own tensor, and later updates write into it. Copy what "
    "you keep with clone(), or write into room of your own.",
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
    "Your buffer is always float32, and queries of another dtype cannot be multiplied with keys in float32. "
    "Pass `dtype` on to the call that makes the room."
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
    "Your buffer is always on the cpu, and queries on a graphics card cannot be multiplied with it. Pass "
    "`device` on to the call that makes the room."
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
    "Your cache holds the caller's own tensors from the first update, in their own dtype and on their "
    "device: what the caller writes into them later changes the cache. Join copies to an empty tensor of "
    "your own: torch.cat([self.keys, k.to(self.keys)], dim=2).",
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
    "Your cache holds the caller's own tensors from the first update: what the caller writes into them later "
    "changes the cache. `k.to(dtype)` copies nothing if k already has that dtype. Write k.to(dtype, "
    "copy=True), or join k to an empty tensor of your own.",
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
