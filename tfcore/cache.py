"""KV caches: what decoding keeps of the tokens it has seen, so that a step reads one token and not all.

A layer's cache takes the keys and values of the new tokens and gives back those of all that may be attended
to, oldest first, the new ones last: so attention's default positions are right whatever kind of cache it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from tfcore.config import AttentionConfig

KeysAndValues = tuple[Float[Tensor, "B H T d_head"], Float[Tensor, "B H T d_head"]]


class LayerCache(Protocol):
    """What attention asks of a cache, and what generation asks beside."""

    length: int
    """Tokens seen."""

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Add the keys and values of new tokens (B, H_kv, T, d_head), and give back all that are visible."""

    def visible(self, num_new: int) -> int:
        """Count the keys that an update by this many tokens will give back."""

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Make row b a copy of row ``rows[b]``: beam search moves its hypotheses about."""

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens: speculative decoding takes guesses back."""

    def num_bytes(self) -> int:
        """Count the bytes that the cache holds on to."""


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
        _check_pair(k, v)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        self.length += k.shape[2]
        return self.keys, self.values

    def visible(self, num_new: int) -> int:
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length: int) -> None:
        _check_truncation(length, self.length)
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[:, :, :length], self.values[:, :, :length]
        self.length = length

    def num_bytes(self) -> int:
        return _num_bytes(self.keys, self.values)


class KVCache:
    r"""A cache with room for a known number of tokens: a step writes its own keys and copies nothing.

    $K_{\ell : \ell + T} \leftarrow k$; what comes back is a view of the part that is filled.

    Args:
        batch: B, sequences.
        num_kv_heads: heads of keys and values.
        max_len: tokens that there is room for.
        d_head: width of one head.
        dtype: of keys and values.
        device: where they live.

    From: Shazeer (2019), *Fast Transformer Decoding*; Pope et al. (2022), *Efficiently Scaling Transformer
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
    ) -> None:
        self.length = 0
        self.keys = torch.zeros(batch, num_kv_heads, max_len, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        _check_pair(k, v)
        _check_fits(k, self.keys)
        end = self.length + k.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(
                f"expected at most {self.keys.shape[2]} tokens, the room of this cache, got {end} "
                f"({self.length} are in it, {k.shape[2]} came); make a cache with a larger max_len"
            )
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def visible(self, num_new: int) -> int:
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        self.keys[:, :, : self.length] = self.keys[rows, :, : self.length]
        self.values[:, :, : self.length] = self.values[rows, :, : self.length]

    def truncate(self, length: int) -> None:
        _check_truncation(length, self.length)
        self.length = length

    def num_bytes(self) -> int:
        return _num_bytes(self.keys, self.values)


class SlidingWindowCache:
    r"""A cache of the last tokens alone: its memory does not grow with the text.

    After one token it gives back the last w keys. After a chunk of T it gives back the chunk and the w - 1
    keys before it, since the chunk's first token sees those; attention's own window does the rest.

    The buffer has room for 2w: keys are written behind one another, and when the end is reached the last
    w - 1 move to the front. So a step copies one key on average, and what comes back is a view in order.

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
        self.end = 0  # of what is filled of the buffer
        self.keys = torch.zeros(batch, num_kv_heads, 2 * window, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        _check_pair(k, v)
        _check_fits(k, self.keys)
        num_new = k.shape[2]
        kept = self.visible(0)
        before = slice(self.end - kept, self.end)
        self.length += num_new
        if self.end + num_new > 2 * self.window:
            k = torch.cat([self.keys[:, :, before], k], dim=2)
            v = torch.cat([self.values[:, :, before], v], dim=2)
            self.end = min(k.shape[2], self.window)
            self.keys[:, :, : self.end] = k[:, :, -self.end :]
            self.values[:, :, : self.end] = v[:, :, -self.end :]
            return k, v
        self.keys[:, :, self.end : self.end + num_new] = k
        self.values[:, :, self.end : self.end + num_new] = v
        self.end += num_new
        seen = slice(self.end - kept - num_new, self.end)
        return self.keys[:, :, seen], self.values[:, :, seen]

    def visible(self, num_new: int) -> int:
        return min(self.length, self.window - 1) + num_new

    def reorder(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length: int) -> None:
        _check_truncation(length, self.length)
        if length < self.length:
            raise ValueError(
                f"expected a cache that can go back to {length} tokens, got one that keeps the last "
                f"{self.window} of {self.length}; use a preallocated cache"
            )

    def num_bytes(self) -> int:
        return _num_bytes(self.keys, self.values)


class QuantizedCache:
    r"""A cache in 8 bits: a quarter of the memory of float32, with an error below half a step.

    Tokens are quantised in groups, each channel of a group with a scale of its own; those that do not make up
    a group yet stay as they came.

    Args:
        group: tokens that share their scales.

    From: Liu et al. (2024), *KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache*, whose grouping
    this is, for keys and values alike and in 8 bits.

    >>> cache = QuantizedCache(group=4)
    >>> k, v = cache.update(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))
    >>> print(cache.length, k.shape, cache.num_bytes() < k.nbytes + v.nbytes)
    5 torch.Size([2, 3, 5, 4]) True
    """

    def __init__(self, group: int = 32) -> None:
        if group < 1:
            raise ValueError(f"expected a group of 1 token or more, got {group}")
        self.group, self.length = group, 0
        self.groups: list[tuple[Tensor, Tensor]] = []  # int8 (B, 2 H, group, d), scale (B, 2 H, 1, d)
        self.recent: Tensor | None = None  # (B, 2 H, fewer than group, d): keys, then values

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        _check_pair(k, v)
        self.length += k.shape[2]
        both = torch.cat([k, v], dim=1)
        self.recent = both if self.recent is None else torch.cat([self.recent, both], dim=2)
        while self.recent.shape[2] >= self.group:
            self.groups.append(quantize_kv(self.recent[:, :, : self.group]))
            self.recent = self.recent[:, :, self.group :].clone()
        stored = [dequantize_kv(*group).to(k.dtype) for group in self.groups]
        keys, values = torch.cat([*stored, self.recent], dim=2).chunk(2, dim=1)
        return keys, values

    def visible(self, num_new: int) -> int:
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        self.groups = [(q[rows], scale[rows]) for q, scale in self.groups]
        self.recent = None if self.recent is None else self.recent[rows]

    def truncate(self, length: int) -> None:
        _check_truncation(length, self.length)
        whole = self.length - (0 if self.recent is None else self.recent.shape[2])
        if length < whole:
            raise ValueError(
                f"expected a cache that can go back to {length} tokens, got one that has rounded the first "
                f"{whole} in groups; use a preallocated cache"
            )
        if self.recent is not None:
            self.recent = self.recent[:, :, : length - whole]
        self.length = length

    def num_bytes(self) -> int:
        return _num_bytes(self.recent, *(x for group in self.groups for x in group))


def quantize_kv(
    x: Float[Tensor, "B h T d"],
) -> tuple[Int8[Tensor, "B h T d"], Float[Tensor, "B h 1 d"]]:
    r"""Round each channel to 8 bits, in steps of its own size.

    $s = \max_t |x_t| / 127, \; q = \text{round}(x / s)$.

    Args:
        x: keys or values, (B, h, T, d).

    Returns:
        The rounded numbers from -127 to 127, int8, and the steps (B, h, 1, d); a channel of zeros has step 0.

    From: Dettmers et al. (2022), *LLM.int8()*, section 2 (absolute-maximum quantisation).

    >>> q, scale = quantize_kv(torch.tensor([-1.0, 0.5]).view(1, 1, 2, 1))
    >>> print(q.flatten())
    tensor([-127,   64], dtype=torch.int8)
    """
    scale = x.abs().amax(dim=2, keepdim=True) / 127
    steps = x / torch.where(scale == 0, 1, scale)
    return steps.round().clamp(-127, 127).to(torch.int8), scale


def dequantize_kv(q: Int8[Tensor, "B h T d"], scale: Float[Tensor, "B h 1 d"]) -> Float[Tensor, "B h T d"]:
    r"""Turn steps into numbers again: the inverse of :func:`quantize_kv` up to half a step.

    $\hat x = s \, q, \; |\hat x - x| \le s / 2$.

    Args:
        q: rounded numbers, int8.
        scale: size of a step, (B, h, 1, d).

    Returns:
        Keys or values in the type of ``scale``.

    From: Dettmers et al. (2022), *LLM.int8()*.

    >>> print(dequantize_kv(torch.tensor([[[[2]]]], dtype=torch.int8), torch.tensor([[[[0.25]]]])).item())
    0.5
    """
    return q * scale


class Cache:
    """The caches of a whole model: one for each layer, what is padding, and the memory of a decoder.

    Args:
        layers: one cache for each block.

    >>> cache = Cache([GrowingCache(), GrowingCache()])
    >>> print(cache.length, cache.num_bytes())
    0 0
    """

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = list(layers)
        self.real: Bool[Tensor, "B length"] | None = None  # which tokens are no padding; None: all
        self.memory: list[KeysAndValues] | None = None  # a decoder's keys and values of the source

    @property
    def length(self) -> int:
        """Tokens seen, padding included."""
        return self.layers[0].length

    def visible(self, num_new: int) -> int:
        """Count the keys that attention will see when this many tokens come."""
        return self.layers[0].visible(num_new)

    def note_padding(
        self, padding: Bool[Tensor, "B T"] | None, batch: int, num_new: int, device: torch.device
    ) -> Bool[Tensor, "B length"] | None:
        """Remember which of the new tokens are real, and say it of all of them; None if none was padding."""
        if padding is None and self.real is None:
            return None
        seen = torch.ones(batch, self.length, dtype=torch.bool, device=device)
        new = torch.ones(batch, num_new, dtype=torch.bool, device=device)
        self.real = torch.cat(
            [seen if self.real is None else self.real, new if padding is None else padding], dim=1
        )
        return self.real

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Make row b a copy of row ``rows[b]``, in every layer."""
        for layer in self.layers:
            layer.reorder(rows)
        self.real = None if self.real is None else self.real[rows]
        if self.memory is not None:
            self.memory = [(k[rows], v[rows]) for k, v in self.memory]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens, in every layer."""
        for layer in self.layers:
            layer.truncate(length)
        self.real = None if self.real is None else self.real[:, :length]

    def num_bytes(self) -> int:
        """Count the bytes that all layers hold on to."""
        return sum(layer.num_bytes() for layer in self.layers)


def make_cache(
    config: AttentionConfig,
    num_layers: int,
    batch: int,
    max_len: int | None = None,
    kind: str | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Cache:
    """Make the caches of a model.

    Args:
        config: its attention layers.
        num_layers: how many of them there are.
        batch: B, sequences.
        max_len: tokens to make room for.
        kind: "growing", "preallocated", "sliding" or "quantized"; by default sliding where attention has a
            window shorter than ``max_len``, preallocated where ``max_len`` is given, else growing.
        dtype: of keys and values.
        device: where they live.

    Raises:
        ValueError: an unknown kind, or one that lacks what it needs.

    >>> print(make_cache(AttentionConfig(d_model=12, num_heads=3), num_layers=2, batch=1).length)
    0
    """
    window = config.window
    if kind is None:
        slides = window is not None and (max_len is None or window < max_len)
        kind = "sliding" if slides else "growing" if max_len is None else "preallocated"
    heads, width = config.kv_heads, config.width
    make: dict[str, Callable[[], LayerCache]] = {
        "growing": GrowingCache,
        "preallocated": lambda: KVCache(batch, heads, _needed("max_len", max_len), width, dtype, device),
        "sliding": lambda: SlidingWindowCache(batch, heads, _needed("window", window), width, dtype, device),
        "quantized": QuantizedCache,
    }
    if kind not in make:
        raise ValueError(
            f"expected a kind of cache out of {', '.join(make)}, got {kind!r}; name one of these"
        )
    return Cache([make[kind]() for _ in range(num_layers)])


def _needed(name: str, value: int | None) -> int:
    if value is None:
        raise ValueError(
            f"expected {name} for this kind of cache, got None; say how many tokens it is to hold"
        )
    return value


def _check_pair(k: Tensor, v: Tensor) -> None:
    if k.ndim != 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"expected keys and values of one shape (B, H_kv, T, d_head), got {tuple(k.shape)} and "
            f"{tuple(v.shape)}; project both from the same tokens"
        )


def _check_fits(k: Tensor, room: Tensor) -> None:
    expected, got = (*room.shape[:2], room.shape[3]), (*k.shape[:2], k.shape[3])
    if expected != got or k.dtype != room.dtype:
        raise ValueError(
            f"expected keys and values of (B, H_kv, d_head) = {expected} and {room.dtype}, as this cache was "
            f"made for, got {got} and {k.dtype}; make a cache for this batch"
        )


def _check_truncation(length: int, present: int) -> None:
    if not 0 <= length <= present:
        raise ValueError(f"expected a length from 0 to {present}, what the cache has seen, got {length}")


def _num_bytes(*tensors: Tensor | None) -> int:
    return sum(x.untyped_storage().nbytes() for x in tensors if x is not None)
