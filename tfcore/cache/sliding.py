"""The cache of a model whose attention has a window: keys that no query will see again are overwritten."""

from __future__ import annotations

import torch
from torch import Tensor

from tfcore.cache.protocol import KeysAndValues, check_fits, check_pair, check_truncation, count_bytes


class SlidingWindowCache:
    r"""A cache of the last tokens alone: its memory does not grow with the text.

    After one token it gives back the last w keys. After a chunk of T it gives back the chunk and the w - 1
    keys before it, since the chunk's first token sees those; attention's own window does the rest.

    The buffer has room for 2w: keys are written behind one another, and when the end is reached the last
    w - 1 move to the front. So a step copies about two keys on average, and ``update`` returns a view in
    order.

    Args:
        batch: B, sequences.
        num_kv_heads: heads of keys and values.
        window: w, the tokens that a query sees, itself included.
        d_head: width of one head.
        dtype: of keys and values.
        device: where they live.

    From: Beltagy, Peters and Cohan (2020), *Longformer*; Jiang et al. (2023), *Mistral 7B*, section 2.

    >>> cache = SlidingWindowCache(batch=1, num_kv_heads=1, window=2, d_head=1)
    >>> for token in (1.0, 2.0, 3.0):
    ...     k, v = cache.update(torch.full((1, 1, 1, 1), token), torch.zeros(1, 1, 1, 1))
    >>> print(cache.length, k.flatten())
    3 tensor([2., 3.])
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        window: int,
        d_head: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if window < 1:
            raise ValueError(f"expected a window of 1 or more, got {window}; it counts the token itself")
        self.length, self.window = 0, window
        self.end = 0  # end of the filled part of the buffer
        self.keys = torch.zeros(batch, num_kv_heads, 2 * window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Take T new keys and values, (B, H_kv, T, d_head); give back the last w - 1 before them, then them.

        Raises:
            ValueError: keys and values of two shapes, or not those the cache was made for.
        """
        check_pair(k, v)
        check_fits(k, self.keys)
        check_fits(v, self.values)
        num_new, begin = k.shape[2], self.end - self.visible(0)
        self.length += num_new
        if self.end + num_new > 2 * self.window:
            k = torch.cat([self.keys[:, :, begin : self.end], k], dim=2)
            v = torch.cat([self.values[:, :, begin : self.end], v], dim=2)
            self.end = min(k.shape[2], self.window)
            self.keys[:, :, : self.end] = k[:, :, -self.end :]
            self.values[:, :, : self.end] = v[:, :, -self.end :]
            return k, v
        self.keys[:, :, self.end : self.end + num_new] = k
        self.values[:, :, self.end : self.end + num_new] = v
        self.end += num_new
        return self.keys[:, :, begin : self.end], self.values[:, :, begin : self.end]

    def visible(self, num_new: int) -> int:
        """Count the new tokens and the last w - 1 before them, or all if they were fewer; any number fits."""
        return min(self.length, self.window - 1) + num_new

    def reorder(self, rows: Tensor) -> None:
        """Make row b a copy of row ``rows[b]``: 2w places are copied, however long the text is."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length: int) -> None:
        """Refuse to go back: an earlier token would see keys that may be overwritten by now.

        Raises:
            ValueError: any length but the present one.
        """
        check_truncation(length, self.length)
        if length < self.length:
            raise ValueError(
                f"expected a cache that can go back to {length} tokens, got one that keeps the last "
                f"{self.window} of {self.length}; use a preallocated cache"
            )

    def num_bytes(self) -> int:
        """Count the bytes of the buffer of 2w places, which are the same for a text of any length."""
        return count_bytes(self.keys, self.values)
