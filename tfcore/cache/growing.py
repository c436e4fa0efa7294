"""The simplest cache: put the new keys behind the old ones."""

from __future__ import annotations

import torch
from torch import Tensor

from tfcore.cache.protocol import KeysAndValues, check_fits, check_pair, check_truncation, count_bytes


class GrowingCache:
    r"""A cache that is copied to a longer one at each step.

    $K \leftarrow [K; k]$: n steps copy $O(n^2)$ keys in all. Simple, and without a limit.

    >>> cache = GrowingCache()
    >>> k, v = cache.update(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 5, 4))
    >>> print(cache.length, k.shape)
    5 torch.Size([2, 3, 5, 4])
    """

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Put new keys and values, (B, H_kv, T, d_head), behind the old ones, copy both, and return all.

        Raises:
            ValueError: keys and values of two shapes, or not of the batch, heads, width and type of the old.
        """
        check_pair(k, v)
        if self.keys is None or self.values is None:
            # A fused projection makes k and v as views of one tensor, which would be kept whole.
            self.keys, self.values = k.clone(), v.clone()
        else:
            check_fits(k, self.keys)
            check_fits(v, self.values)
            self.keys, self.values = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.length += k.shape[2]
        return self.keys, self.values

    def visible(self, num_new: int) -> int:
        """Count all tokens seen and the new ones: there is room for any number."""
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        """Make row b a copy of row ``rows[b]``; before the first token there is nothing to copy."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens; the memory of the others is given back at the next update.

        Raises:
            ValueError: a length below 0, or above the number of tokens seen.
        """
        check_truncation(length, self.length)
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[:, :, :length], self.values[:, :, :length]
        self.length = length

    def num_bytes(self) -> int:
        """Count the bytes of keys and values, 0 before the first; they grow with every token."""
        return count_bytes(self.keys, self.values)
