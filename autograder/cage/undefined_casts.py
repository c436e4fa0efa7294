"""Find casts to integer dtypes that cannot hold the number, such as NaN, or 128 to int8."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Casts(TorchDispatchMode):
    """A mode that watches casts of floating tensors to integer dtypes.

    Attributes:
        wrong: a sentence about the first number that did not fit; empty if all numbers fit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrong = ""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch's compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket is aten._to_copy:
            self._note(args[0], kwargs.get("dtype"))
        elif func.overloadpacket is aten.copy_:
            self._note(args[1], args[0].dtype)
        return func(*args, **kwargs)

    def _note(self, x: torch.Tensor, dtype: torch.dtype | None) -> None:
        if dtype is None or dtype.is_floating_point or dtype == torch.bool or not x.is_floating_point():
            return
        room = torch.iinfo(dtype)
        wide = x.double()
        misfits = wide[wide.isnan() | (wide <= room.min - 1) | (wide >= room.max + 1)]
        if misfits.numel() and not self.wrong:
            self.wrong = f"{misfits[0].item():g} is cast to {str(dtype).removeprefix('torch.')}"
