"""The usual cache as a compiled step sees it: no shape changes, and the current place is a tensor."""

from __future__ import annotations

import weakref

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache.model import Cache, check_cache
from tfcore.cache.preallocated import KVCache
from tfcore.cache.protocol import KeysAndValues


class StaticLayer(nn.Module):
    r"""Room for the keys and values of one layer; attention reads all of it at every step.

    $K_\ell \leftarrow k$; a mask has to hide the places that are not filled yet.

    Args:
        keys: (B, H_kv, max_len, d_head).
        values: likewise.
        place: where the new token goes, (1,).

    >>> layer = StaticLayer(torch.zeros(2, 3, 8, 4), torch.zeros(2, 3, 8, 4), torch.tensor([5]))
    >>> k, v = layer.update(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 1, 4))
    >>> print(k.shape, k[0, 0, :, 0])
    torch.Size([2, 3, 8, 4]) tensor([0., 0., 0., 0., 0., 1., 0., 0.])
    """

    keys: Tensor
    values: Tensor
    place: Tensor

    def __init__(self, keys: Tensor, values: Tensor, place: Int[Tensor, " 1"]) -> None:
        super().__init__()
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)
        self.register_buffer("place", place)

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Write the keys and values of one new token, (B, H_kv, 1, d_head), to its place."""
        self.keys.index_copy_(2, self.place, k)
        self.values.index_copy_(2, self.place, v)
        return self.keys, self.values


class StaticCache(nn.Module):
    """Static layers for steps of one token, and which of their places may be seen.

    A number that changes from step to step would be compiled into the program, which would be compiled again
    at each step; so would a view that grows. Here no number and no view changes. A module's buffers also stay
    where they are, as a CUDA graph needs.

    Args:
        like: a preallocated cache; this cache gets the same shape.

    Raises:
        ValueError: another kind of cache.

    From: the static caches of gpt-fast and transformers.

    >>> cache = Cache([KVCache(batch=2, num_kv_heads=3, max_len=8, d_head=4)])
    >>> static = StaticCache(cache)
    >>> static.take(cache)
    >>> static.real[1, 0] = False
    >>> print(static.place.fill_(2), static.note_padding(None, 2, 1, torch.device("cpu")).int()[1])
    tensor([2]) tensor([0, 1, 1, 0, 0, 0, 0, 0], dtype=torch.int32)
    """

    place: Tensor
    real: Tensor

    def __init__(self, like: Cache) -> None:
        super().__init__()
        layers = preallocated_layers(like)
        batch, _, max_len, _ = layers[0].keys.shape
        device = layers[0].keys.device
        self.register_buffer("place", torch.zeros(1, dtype=torch.long, device=device))
        self.register_buffer("real", torch.ones(batch, max_len, dtype=torch.bool, device=device))
        self._tensors = [(torch.zeros_like(layer.keys), torch.zeros_like(layer.values)) for layer in layers]
        self.layers = nn.ModuleList(StaticLayer(*tensors, self.place) for tensors in self._tensors)
        self._taken: list[weakref.ref[KVCache]] = []  # whose tensors these are too

    def places(self, num_new: int, device: torch.device) -> tuple[Int[Tensor, " 1"], Int[Tensor, " max_len"]]:
        """Return the position of the new token, and of each key."""
        return self.place, torch.arange(self.real.shape[1], device=device)

    def keys_seen(self, num_new: int) -> list[int]:
        """Count, for each layer, the places that attention reads: all of them."""
        return [self.real.shape[1]] * len(self._tensors)

    def note_padding(
        self, padding: Bool[Tensor, "B 1"] | None, batch: int, num_new: int, device: torch.device
    ) -> Bool[Tensor, "B max_len"]:
        """Return which places hold real tokens; places that are not filled yet are False."""
        return self.real & (self.places(num_new, device)[1] <= self.place)

    def fits(self, cache: Cache) -> bool:
        """Return whether a cache has the shape of this one."""
        return [_kind(keys) for keys, _ in self._tensors] == [
            _kind(layer.keys) for layer in preallocated_layers(cache)
        ]

    def holds(self, cache: Cache) -> bool:
        """Return whether a cache was taken last, and still has these tensors: ``reorder`` gives it others."""
        layers = preallocated_layers(cache)
        return len(layers) == len(self._taken) and all(
            layer is taken() and layer.keys is keys and layer.values is values
            for layer, taken, (keys, values) in zip(layers, self._taken, self._tensors, strict=True)
        )

    def take(self, cache: Cache) -> None:
        """Share the tensors of a cache from now on: both read and write them.

        The cache that shared them before gets copies of its own.
        """
        if self.holds(cache):
            return
        with torch.inference_mode(False):
            for taken, (keys, _) in zip(self._taken, self._tensors, strict=False):
                before = taken()
                if before is not None and before.keys is keys:
                    before.keys, before.values = before.keys.clone(), before.values.clone()
        layers = preallocated_layers(cache)
        for layer, (keys, values) in zip(layers, self._tensors, strict=True):
            layer.keys, layer.values = keys.copy_(layer.keys), values.copy_(layer.values)
        self._taken = [weakref.ref(layer) for layer in layers]


def preallocated_layers(cache: Cache) -> list[KVCache]:
    """Return the layers of a preallocated cache, or refuse a cache of another kind.

    >>> layer = KVCache(batch=2, num_kv_heads=3, max_len=8, d_head=4)
    >>> print(len(preallocated_layers(Cache([layer]))))
    1
    """
    check_cache(cache)
    layers = [layer for layer in cache.layers if isinstance(layer, KVCache)]
    if len(layers) < len(cache.layers):
        kinds = ", ".join(sorted({type(layer).__name__ for layer in cache.layers}))
        raise ValueError(
            f"expected a cache whose shape does not change, a KVCache for each layer, got {kinds}; "
            "make one with new_cache of the compiled model"
        )
    return layers


def _kind(x: Float[Tensor, "*shape"]) -> tuple[torch.Size, torch.dtype, torch.device]:
    return x.shape, x.dtype, x.device
