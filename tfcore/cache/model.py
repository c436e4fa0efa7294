"""The caches of a whole model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tfcore.cache.growing import GrowingCache
from tfcore.cache.preallocated import KVCache
from tfcore.cache.protocol import LayerCache
from tfcore.cache.quantized import QuantizedCache
from tfcore.cache.sliding import SlidingWindowCache
from tfcore.cache.state import StateLayer
from tfcore.config import AttentionConfig, DeltaNetConfig, LatentAttentionConfig

LayerConfig = AttentionConfig | LatentAttentionConfig | DeltaNetConfig


class Cache:
    """One cache for each layer, and which of the tokens are padding.

    Caches are for inference: run the model under ``torch.inference_mode`` or ``torch.no_grad``.

    Args:
        layers: one cache for each block.

    >>> cache = Cache([GrowingCache(), GrowingCache()])
    >>> print(cache.length, cache.num_bytes())
    0 0
    """

    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = list(layers)
        self.real: Bool[Tensor, "B length"] | None = None  # which tokens are not padding; None: all
        self.batch: int | None = None  # sequences, once there are any

    @property
    def length(self) -> int:
        """Return the number of tokens seen, with padding."""
        return self.layers[0].length

    def visible(self, num_new: int) -> int:
        """Count the keys that attention will see when this many tokens come.

        A model calls this before its first layer writes: if one layer has no room for the tokens, none writes
        them.

        Raises:
            ValueError: no room, or layers of different lengths.
        """
        lengths = [layer.length for layer in self.layers]
        if min(lengths) < max(lengths):
            raise ValueError(
                f"expected layers that have seen the same tokens, got lengths {lengths}; a call was cut "
                f"short: make another, or, if every layer can go back, truncate({min(lengths)})"
            )
        return min(self.keys_seen(num_new))

    def keys_seen(self, num_new: int) -> list[int]:
        """Count, for each layer, the keys that attention will see when this many tokens come."""
        return [layer.visible(num_new) for layer in self.layers]

    def places(self, num_new: int, device: torch.device) -> tuple[Int[Tensor, " T"], Int[Tensor, " T_k"]]:
        """Return the places of this many new tokens, and of the keys that they will see."""
        end = self.length + num_new
        begin = end - self.visible(num_new)
        return torch.arange(self.length, end, device=device), torch.arange(begin, end, device=device)

    def check_batch(self, batch: int) -> None:
        """Refuse another number of sequences than the cache has begun.

        Raises:
            ValueError: it is another one.
        """
        if self.length and self.batch not in (None, batch):
            raise ValueError(
                f"expected the {self.batch} sequences that this cache has begun, got {batch}; make another"
            )

    def note_padding(
        self, padding: Bool[Tensor, "B T"] | None, batch: int, num_new: int, device: torch.device
    ) -> Bool[Tensor, "B length"] | None:
        """Remember which new tokens are real; return it for all tokens so far, None if none was padding.

        Raises:
            ValueError: another number of sequences than before.
        """
        self.check_batch(batch)
        self.batch = batch
        if not self.length:
            self.real = None
        if padding is None and self.real is None:
            return None
        if self.real is None:
            seen = torch.ones(batch, self.length, dtype=torch.bool, device=device)
        else:  # after truncate, or a call that failed, there is more of it than the layers have seen
            seen = self.real[:, : self.length]
        new = torch.ones(batch, num_new, dtype=torch.bool, device=device) if padding is None else padding
        self.real = torch.cat([seen, new], dim=1)
        return self.real

    def reorder(self, rows: Int[Tensor, " B_new"]) -> None:
        """Make row b a copy of row ``rows[b]``, in every layer; there may be more rows than before."""
        for layer in self.layers:
            layer.reorder(rows)
        self.batch = len(rows)
        self.real = None if self.real is None else self.real[rows]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens, in every layer.

        Raises:
            ValueError: a layer cannot go back to this length; then no layer is changed.
        """
        # truncate changes no tensor in place, so shallow copies are enough
        before = [copy.copy(layer) for layer in self.layers]
        try:
            for layer in self.layers:
                layer.truncate(length)
        except ValueError:
            for layer, old in zip(self.layers, before, strict=True):
                vars(layer).update(vars(old))
            raise

    def num_bytes(self) -> int:
        """Count the bytes that all layers hold on to."""
        return sum(layer.num_bytes() for layer in self.layers)


def check_cache(cache: object) -> None:
    """Refuse anything but a cache, such as a mask in its place.

    >>> check_cache(torch.ones(2, 3, dtype=torch.bool))
    Traceback (most recent call last):
    ValueError: expected a cache from new_cache, got a Tensor; ...
    """
    if not hasattr(cache, "layers"):
        raise ValueError(
            f"expected a cache from new_cache, got a {type(cache).__name__}; a mask of real tokens goes by "
            "its name, padding="
        )


def make_cache(
    layers: Sequence[LayerConfig],
    batch: int,
    max_len: int | None = None,
    kind: str | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Cache:
    """Make the caches of a model.

    Args:
        layers: its attention layers, first to last.
        batch: B, sequences.
        max_len: tokens to make room for.
        kind: "growing", "preallocated", "sliding" or "quantized". By default each layer gets its own: sliding
            if it has a window, unless ``max_len`` fits into it; else preallocated if ``max_len`` is given,
            else growing. With "sliding", layers without a window get the default if others have one.
        dtype: of keys and values.
        device: where they live.

    Raises:
        ValueError: an unknown kind, a kind without a setting that it needs, or a negative size.

    >>> print(make_cache([AttentionConfig(d_model=12, num_heads=3)] * 2, batch=1).length)
    0
    """
    if batch < 0 or (max_len or 0) < 0:
        raise ValueError(f"expected a batch and a max_len of 0 or more, got {batch} and {max_len}")
    if kind == "sliding" and any(layer.window is not None for layer in layers):
        kinds = [None if layer.window is None else kind for layer in layers]
    else:
        kinds = [kind] * len(layers)
    made = [
        make_layer(layer, batch, max_len, own, dtype, device)
        for layer, own in zip(layers, kinds, strict=True)
    ]
    return Cache(made)


def make_layer(
    config: LayerConfig,
    batch: int,
    max_len: int | None = None,
    kind: str | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> LayerCache:
    """Make the cache of one layer; see :func:`make_cache`.

    >>> config = AttentionConfig(d_model=12, num_heads=3, window=5)
    >>> type(make_layer(config, batch=1, max_len=8)).__name__
    'SlidingWindowCache'
    """
    if isinstance(config, DeltaNetConfig):
        return StateLayer()
    window = config.window
    if kind is None:
        slides = window is not None and (max_len is None or window < max_len)
        kind = "sliding" if slides else "growing" if max_len is None else "preallocated"
    heads, width, d_value = config.cached
    if kind == "quantized" and d_value != width:
        raise ValueError(
            f"expected keys and values of one width for a quantized cache, got {width} and {d_value}, which "
            "latent attention keeps; use a growing or a preallocated cache"
        )
    make: dict[str, Callable[[], LayerCache]] = {
        "growing": GrowingCache,
        "preallocated": lambda: KVCache(
            batch, heads, _needed("max_len", max_len), width, dtype, device, d_value
        ),
        "sliding": lambda: SlidingWindowCache(batch, heads, _needed("window", window), width, dtype, device),
        "quantized": QuantizedCache,
    }
    if kind not in make:
        raise ValueError(
            f"expected a kind of cache out of {', '.join(make)}, got {kind!r}; name one of these"
        )
    return make[kind]()


def _needed(name: str, value: int | None) -> int:
    if value is None:
        raise ValueError(
            f"expected {name} for this kind of cache, got None; say how many tokens it is to hold"
        )
    return value
