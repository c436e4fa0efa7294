"""Right answers to `KVCache`, each in a style of its own."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercises.ch08_kv_cache.KVCache import EXERCISE


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
