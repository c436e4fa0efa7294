"""Instruments for tests and for the grader: they count what code does, and never look at a clock."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AllocationMeter(TorchDispatchMode):
    """Measure the tensors that a piece of torch code allocates, in its forward and its backward pass.

    Memory is counted once per storage: views and in-place writes are free, ``expand`` is free until something
    copies it. What a compiled kernel allocates for itself and does not return is out of sight.

    Attributes:
        largest_elements: elements of the largest storage that was allocated.
        largest_shape: shape of the tensor that needed it.
        live_bytes: bytes allocated since the start and not freed yet.
        peak_bytes: the largest that ``live_bytes`` ever was.

    From: the method of ``torch.utils._python_dispatch``, by which torch's own flop counter works.

    >>> column, row = torch.ones(1000, 1), torch.ones(1000)
    >>> with AllocationMeter() as meter:
    ...     total = (column * row).sum()
    >>> print(meter.largest_elements, meter.largest_shape, meter.live_bytes)
    1000000 (1000, 1000) 4
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest_elements = 0
        self.largest_shape: tuple[int, ...] = ()
        self.live_bytes = 0
        self.peak_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        size_before = {_key(x): x.untyped_storage().nbytes() for x in _tensors((args, kwargs))}
        result = func(*args, **kwargs)
        for x in _tensors(result):
            grown = x.untyped_storage().nbytes() - size_before.get(_key(x), 0)
            if grown > 0:
                size_before[_key(x)] = x.untyped_storage().nbytes()
                self._record(x, grown)
        return result

    def _record(self, x: Tensor, grown: int) -> None:
        elements = x.untyped_storage().nbytes() // x.element_size()
        if elements > self.largest_elements:
            self.largest_elements, self.largest_shape = elements, tuple(x.shape)
        self.live_bytes += grown
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(x.untyped_storage(), self._free, grown)

    def _free(self, size: int) -> None:
        self.live_bytes -= size


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _key(x: Tensor) -> int:
    return x.untyped_storage()._cdata
