"""Test whether code would run on a graphics card, on a machine that has none.

The inputs pretend to be on a graphics card, and their `device` is the card. A tensor that the code makes
without `device=`, or moves by `.cpu()`, is on the cpu: a stranger, which no operation may combine with the
inputs.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

from .remote_objects import Served
from .tensors import mapped, tensors_among

CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
QUESTIONS: dict[Any, tuple[Any, Any]] = {
    torch.Tensor.device.__get__: (CARD, CPU),
    torch.Tensor.is_cuda.__get__: (True, False),  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: (False, True),  # type: ignore[attr-defined]
    torch.Tensor.get_device: (0, -1),
}
"""The questions about a tensor's device, with the answers for a tensor on the card and for a stranger."""
TO_NUMPY = ("numpy", "__array__")
MEETS_ANY = ("copy_", "__setitem__")
"""Operations that accept tensors of two devices, since they copy."""
BROUGHT = "since your code moved it there"
MADE = "since your code made it without `device=` of the inputs"
HANDED = "as your code received it"
BORN = ("lift_fresh.default", "empty.memory_format")
"""The operators in `torch.from_numpy` and `torch.Tensor(...)`; no function mode sees these two functions."""


class Clash(Exception):
    """An error that torch would raise if the inputs were on a graphics card."""


class Meeting(Clash, RuntimeError):
    """The error for tensors of two devices in one operation."""


class NoNumpy(Clash, TypeError):
    """The error for converting a tensor on a graphics card to a numpy array."""


class Elsewhere(TorchFunctionMode):
    """A mode that pretends that every tensor is on a graphics card, except for strangers made inside it."""

    def __init__(self) -> None:
        super().__init__()
        self._strangers: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
        self._reasons: dict[int, str] = {}
        self._births = _Births()

    def __enter__(self) -> Elsewhere:
        self._births.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._births.__exit__(*error)

    def reason(self, tensor: torch.Tensor) -> str:
        """Return why a stranger is on the cpu, in words; empty for a tensor on the card."""
        return self._reasons[id(tensor)] if self._strangers.get(id(tensor)) is tensor else ""

    def move_to_card(self, module: torch.nn.Module) -> None:
        """Move the parameters and buffers of a module to the card."""
        for tensor in (*module.parameters(), *module.buffers()):
            self._strangers.pop(id(tensor), None)

    def move_to_cpu(self, tensors: Iterable[torch.Tensor]) -> None:
        """Move tensors to the cpu."""
        for tensor in tensors:
            self._record(tensor, HANDED)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, str(getattr(func, "__name__", func))
        if func is torch.device:
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):
            return self._record(func(*args, **kwargs), MADE if name in BORN else "")
        if func in QUESTIONS:
            return QUESTIONS[func][bool(self.reason(args[0]))]
        operands = list(tensors_among((*args, *kwargs.values())))
        if name in TO_NUMPY and not self.reason(operands[0]):
            raise NoNumpy(f"`.{name}` raises a TypeError on a graphics card; stay in torch")
        reason = self._named_device(name, args, kwargs)
        if reason is None:
            reason = self._operand_device(func, name, operands, args)
        if name == "cuda":
            func, args, kwargs = torch.Tensor.cpu, args[:1], {}
        result = func(*mapped(_real, args), **mapped(_real, kwargs))
        if any(result is tensor and bool(self.reason(tensor)) != bool(reason) for tensor in operands):
            result = result.clone()  # a copy counts as the moved tensor
        return self._record(result, reason)

    def _named_device(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return why a call's device puts its result on the cpu; empty for the card, None without it."""
        if name in ("cpu", "cuda"):
            return BROUGHT if name == "cpu" else ""
        moves = name in ("to", "type_as")
        for target in [*args[1:], *kwargs.values()] if moves else [kwargs.get("device")]:
            if isinstance(target, torch.Tensor):
                return BROUGHT if self.reason(target) else ""
            if isinstance(target, torch.device | str):
                on_cpu = torch.device(target).type == "cpu"
                return (BROUGHT if moves else MADE) if on_cpu else ""
        return None

    def _operand_device(
        self, func: Any, name: str, operands: list[torch.Tensor], args: tuple[Any, ...]
    ) -> str:
        """Return why a result is on the cpu, given the devices of its operands; empty for the card.

        Raises:
            Meeting: the operands are on two devices. A single number on the cpu is allowed with any device.
        """
        if func in _device_constructors() or func is torch.normal:
            return self.reason(args[0]) if args and isinstance(args[0], torch.Tensor) else MADE
        if not operands or name in MEETS_ANY:
            return self.reason(operands[0]) if operands else ""
        strangers = [tensor for tensor in operands if self.reason(tensor)]
        if len(strangers) == len(operands):
            return self.reason(operands[0])
        strange_arrays = [tensor for tensor in strangers if tensor.dim()]
        reads_indices = name == "__getitem__" and not self.reason(operands[0])
        if strange_arrays and not reads_indices:
            shape, reason = tuple(strange_arrays[0].shape), self.reason(strange_arrays[0])
            raise Meeting(f"`{name}` meets a tensor of shape {shape} that is on the cpu, {reason}")
        return ""

    def _record(self, result: Any, reason: str) -> Any:
        """Record the tensors of a result as strangers if there is a reason, and return the result."""
        if reason:
            for tensor in tensors_among((result,)):
                self._strangers[id(tensor)], self._reasons[id(tensor)] = tensor, reason
        return result


def guard_served(mode: Elsewhere, values: Any) -> Any:
    """Return the values with each `Served` object on the card, where it refuses a tensor on the cpu."""

    def guard(leaf: Any) -> Any:
        return _guard(mode, leaf) if isinstance(leaf, Served) else leaf

    return mapped(guard, values)


def _guard(mode: Elsewhere, lent: Served) -> Served:
    ask_unguarded = vars(lent)["_ask"]

    def ask(handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for tensor in tensors_among((*args, *kwargs.values())):
            if reason := mode.reason(tensor):
                shape = tuple(tensor.shape)
                raise Meeting(f"the model is given a tensor of shape {shape} that is on the cpu, {reason}")
        return guard_served(mode, ask_unguarded(handle, attribute, args, kwargs))

    return Served(vars(lent)["_handle"], ask)


class _Births(TorchDispatchMode):
    """A mode that calls every operator again, so that the function mode sees operators without a function."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch's compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _real(value: Any) -> Any:
    """Return the cpu in place of a graphics card, since this machine has none; keep any other value."""
    if isinstance(value, torch.device) and value.type == CARD.type:
        return CPU
    return "cpu" if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) else value
