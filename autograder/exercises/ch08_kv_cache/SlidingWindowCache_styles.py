"""Right answers to `SlidingWindowCache`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.SlidingWindowCache import EXERCISE


@EXERCISE.style("join, and keep the last tokens")
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


@EXERCISE.style("the tokens that stay move to the front, new tokens after them")
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
