"""Sees whether code would run on a device that is not the processor, on a machine that has none.

On an accelerator a tensor made without `device=` lands on the cpu and cannot meet the input, which does not.
Here both lie on the cpu; so tensors made without a device are remembered as
strangers, and a meeting is noted.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

MOVES = ("to", "type_as", "cuda", "cpu")
MEETS_ANY = ("copy_", "__getitem__", "__setitem__", "__get__")
"""What takes tensors of two devices: it copies, or reads indices from one."""


class Elsewhere(TorchFunctionMode):
    """Plays that the inputs lie on another device.

    Attributes:
        clash: what went wrong first, in words; empty if nothing did.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clash = ""
        self._strangers: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = str(getattr(func, "__name__", func))
        if func in _device_constructors():
            if kwargs.get("device") is None:
                self._mark(result)
            return result
        met = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.dim()]
        strange = [t for t in met if self.is_stranger(t)]
        if not strange:
            return result
        if name in MOVES:
            targets = [*args[1:], *kwargs.values()]
            if any(isinstance(target, torch.device | str | torch.Tensor) for target in targets):
                return result.view_as(result)  # as good as moved: another tensor, and no stranger
            self._mark(result)
        elif name in MEETS_ANY:
            if met[0] is strange[0]:
                self._mark(result)
        elif len(strange) < len(met):
            shape = tuple(strange[0].shape)
            self.clash = self.clash or f"`{name}` meets a tensor of shape {shape} made without `device=`"
        else:
            self._mark(result)
        return result

    def is_stranger(self, tensor: torch.Tensor) -> bool:
        return self._strangers.get(id(tensor)) is tensor

    def _mark(self, result: Any) -> None:
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.dim():  # a single number may be anywhere
                self._strangers[id(tensor)] = tensor
