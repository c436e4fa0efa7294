"""The methods of every cache, and the errors for keys and values that do not fit."""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor

KeysAndValues = tuple[Float[Tensor, "B H T d_head"], Float[Tensor, "B H T d_head"]]


class LayerCache(Protocol):
    """The methods of a cache that attention and generation need.

    Whatever raises ValueError leaves the cache as it was.

    >>> import torch
    >>> from tfcore.cache import GrowingCache, KVCache, QuantizedCache
    >>> for cache in (GrowingCache(), KVCache(2, 3, max_len=8, d_head=4), QuantizedCache(group=5)):
    ...     k, v = cache.update(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))
    ...     print(k.shape, cache.visible(1), cache.num_bytes())
    torch.Size([2, 3, 5, 4]) 6 960
    torch.Size([2, 3, 5, 4]) 6 1536
    torch.Size([2, 3, 5, 4]) 6 432
    """

    length: int
    """Tokens seen."""

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Add the keys and values of new tokens (B, H_kv, T, d_head), and give back all that are visible."""

    def visible(self, num_new: int) -> int:
        """Count the keys that an update by this many tokens will give back; ValueError if it has no room."""

    def reorder(self, rows: Int[Tensor, " B_new"]) -> None:
        """Make row b a copy of row ``rows[b]``: beam search copies some texts and drops others."""

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens: speculative decoding takes guesses back."""

    def num_bytes(self) -> int:
        """Count the bytes that the cache holds on to."""


def check_pair(k: Tensor, v: Tensor) -> None:
    """Refuse keys and values that are not both of one shape (B, H_kv, T, d); the widths d may differ.

    Raises:
        ValueError: they are not.

    >>> import torch
    >>> check_pair(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 6, 4))
    Traceback (most recent call last):
    ValueError: expected keys and values of one shape (B, H_kv, T, d), got (2, 3, 5, 4) and ...
    """
    if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"expected keys and values of one shape (B, H_kv, T, d), got {tuple(k.shape)} and "
            f"{tuple(v.shape)}; project both from the same tokens"
        )


def check_fits(k: Tensor, room: Tensor) -> None:
    """Refuse keys that differ from ``room`` in batch, heads, width or type; lengths may differ.

    Raises:
        ValueError: the batch, heads, width or type differs.

    >>> import torch
    >>> check_fits(torch.zeros(2, 3, 5, 4), room=torch.zeros(2, 3, 8, 4))
    >>> check_fits(torch.zeros(7, 3, 5, 4), room=torch.zeros(2, 3, 8, 4))
    Traceback (most recent call last):
    ValueError: expected keys and values of (B, H_kv, d_head) = (2, 3, 4) and torch.float32, ...
    """
    expected, got = (*room.shape[:2], room.shape[3]), (*k.shape[:2], k.shape[3])
    if expected != got or k.dtype != room.dtype:
        raise ValueError(
            f"expected keys and values of (B, H_kv, d_head) = {expected} and {room.dtype}, as this cache was "
            f"made for, got {got} and {k.dtype}; make a cache for this batch and this type"
        )


def check_truncation(length: int, present: int) -> None:
    """Refuse to keep fewer tokens than none, or more than the ``present`` ones.

    Raises:
        ValueError: such a length.

    >>> check_truncation(6, present=5)
    Traceback (most recent call last):
    ValueError: expected a length from 0 to 5, what the cache has seen, got 6; ...
    """
    if not 0 <= length <= present:
        raise ValueError(
            f"expected a length from 0 to {present}, what the cache has seen, got {length}; "
            "a cache forgets from its end, and cannot learn this way"
        )


def count_bytes(*tensors: Tensor | None) -> int:
    """Add up the memory behind the tensors, all of it where one is a view of more.

    >>> import torch
    >>> x = torch.zeros(3, 4)
    >>> count_bytes(x, x[:2], None)
    48
    """
    storages = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors if x is not None}
    return sum(storages.values())
