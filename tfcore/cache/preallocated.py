"""The usual cache: room for all tokens is made once."""

from __future__ import annotations

import torch
from torch import Tensor

from tfcore.cache.protocol import KeysAndValues, check_fits, check_pair, check_truncation, count_bytes


class KVCache:
    r"""A cache with room for a known number of tokens: a step writes its own keys and copies nothing.

    $K_{\ell : \ell + T} \leftarrow k$; ``update`` returns a view of the filled part.

    Args:
        batch: B, sequences.
        num_kv_heads: heads of keys and values.
        max_len: tokens that there is room for.
        d_head: width of one head.
        dtype: of keys and values.
        device: where they live.
        d_value: width of a value where it is not that of a key, as in latent attention.

    From: Shazeer (2019), *Fast Transformer Decoding*; Pope et al. (2023), *Efficiently Scaling Transformer
    Inference*.

    >>> cache = KVCache(batch=2, num_kv_heads=3, max_len=8, d_head=4)
    >>> k, v = cache.update(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 5, 4))
    >>> print(cache.length, k.shape)
    5 torch.Size([2, 3, 5, 4])
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        max_len: int,
        d_head: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        d_value: int | None = None,
    ) -> None:
        self.length, self.max_len = 0, max_len
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = self.keys.new_zeros(batch, num_kv_heads, max_len, d_value or d_head)

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Write new keys and values, (B, H_kv, T, d_head), behind the old ones, and return views of all.

        Raises:
            ValueError: no room for them, keys and values of two shapes, or not those the cache was made for.
        """
        check_pair(k, v)
        check_fits(k, self.keys)
        check_fits(v, self.values)
        end = self.visible(k.shape[2])
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def visible(self, num_new: int) -> int:
        """Count all tokens seen and the new ones.

        Raises:
            ValueError: more of them than ``max_len``.
        """
        end = self.length + num_new
        if end > self.max_len:
            raise ValueError(
                f"expected at most {self.max_len} tokens, the room of this cache, got {end} "
                f"({self.length} are in it, {num_new} came); make a cache with a larger max_len"
            )
        return end

    def reorder(self, rows: Tensor) -> None:
        """Make row b a copy of row ``rows[b]``: all of the buffer is copied, its empty part as well."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens: nothing moves, and the next update writes over the others.

        Raises:
            ValueError: a length below 0, or above the number of tokens seen.
        """
        check_truncation(length, self.length)
        self.length = length

    def num_bytes(self) -> int:
        """Count the bytes of the buffer, the same for an empty and a full cache."""
        return count_bytes(self.keys, self.values)
