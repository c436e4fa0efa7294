"""Sees whether code would run on a device that is not the processor, on a machine that has none.

The inputs play that they lie on a graphics card, and say so when asked for their device. What is made without
`device=`, or brought over by `.cpu()`, is a stranger there: it is on the cpu and cannot meet the others.
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
"""What a tensor is asked about its place, and the answers of one on the card and of a stranger."""
TO_NUMPY = ("numpy", "__array__")
MEETS_ANY = ("copy_", "__setitem__")
"""What takes tensors of two devices, since it copies."""
BROUGHT, MADE = "brought there and not back", "made without `device=` of the inputs"
HANDED = "as it was handed over"
BORN = ("lift_fresh.default", "empty.memory_format")
"""What `torch.from_numpy` and `torch.Tensor(...)` are made of; no function mode sees these themselves."""


class Clash(Exception):
    """What would be an error of torch if the inputs lay on a graphics card."""


class Meeting(Clash, RuntimeError):
    """Tensors of two devices in one operation."""


class NoNumpy(Clash, TypeError):
    """A tensor on a graphics card that is to be a numpy array."""


class Elsewhere(TorchFunctionMode):
    """Plays that every tensor lies on a graphics card, but for the strangers made inside."""

    def __init__(self) -> None:
        super().__init__()
        self._strangers: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
        self._whence: dict[int, str] = {}
        self._births = _Births()

    def __enter__(self) -> Elsewhere:
        self._births.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._births.__exit__(*error)

    def whence(self, tensor: torch.Tensor) -> str:
        """How a stranger came to lie on the cpu, in words; empty for a tensor on the card."""
        return self._whence[id(tensor)] if self._strangers.get(id(tensor)) is tensor else ""

    def move(self, module: torch.nn.Module) -> None:
        """Move the parameters and buffers of a module to the card."""
        for one in (*module.parameters(), *module.buffers()):
            self._strangers.pop(id(one), None)

    def bring(self, tensors: Iterable[torch.Tensor]) -> None:
        """Bring tensors to the cpu."""
        for one in tensors:
            self._placed(one, HANDED)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, str(getattr(func, "__name__", func))
        if func is torch.device:
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):
            return self._placed(func(*args, **kwargs), MADE if name in BORN else "")
        if func in QUESTIONS:
            return QUESTIONS[func][bool(self.whence(args[0]))]
        met = list(tensors_among((*args, *kwargs.values())))
        if name in TO_NUMPY and not self.whence(met[0]):
            raise NoNumpy(f"`.{name}` raises a TypeError there; stay in torch")
        whence = self._asked_for(name, args, kwargs)
        if whence is None:
            whence = self._arising(func, name, met, args)
        if name == "cuda":
            func, args, kwargs = torch.Tensor.cpu, args[:1], {}
        result = func(*mapped(_real, args), **mapped(_real, kwargs))
        if any(result is one and bool(self.whence(one)) != bool(whence) for one in met):
            result = result.clone()  # as good as moved
        return self._placed(result, whence)

    def _asked_for(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Whence the result is on the cpu where a call names the device; None if it names none."""
        if name in ("cpu", "cuda"):
            return BROUGHT if name == "cpu" else ""
        moves = name in ("to", "type_as")
        for target in [*args[1:], *kwargs.values()] if moves else [kwargs.get("device")]:
            if isinstance(target, torch.Tensor):
                return BROUGHT if self.whence(target) else ""
            if isinstance(target, torch.device | str):
                on_cpu = torch.device(target).type == "cpu"
                return (BROUGHT if moves else MADE) if on_cpu else ""
        return None

    def _arising(self, func: Any, name: str, met: list[torch.Tensor], args: tuple[Any, ...]) -> str:
        """Whence a result is on the cpu as its operands are.

        Raises:
            Meeting: they lie on two devices. A single number of the cpu may be anywhere.
        """
        if func in _device_constructors() or func is torch.normal:
            return self.whence(args[0]) if args and isinstance(args[0], torch.Tensor) else MADE
        if not met or name in MEETS_ANY:
            return self.whence(met[0]) if met else ""
        strange = [one for one in met if self.whence(one)]
        if len(strange) == len(met):
            return self.whence(met[0])
        wide = [one for one in strange if one.dim()]
        reads_indices = name == "__getitem__" and not self.whence(met[0])
        if wide and not reads_indices:
            shape, whence = tuple(wide[0].shape), self.whence(wide[0])
            raise Meeting(f"`{name}` meets a tensor of shape {shape} that is on the cpu, {whence}")
        return ""

    def _placed(self, result: Any, whence: str) -> Any:
        if whence:
            for one in tensors_among((result,)):
                self._strangers[id(one)], self._whence[id(one)] = one, whence
        return result


def guarded(mode: Elsewhere, values: Any) -> Any:
    """Return the values, with each lent object on the card, where it refuses a tensor from the cpu."""

    def guard(leaf: Any) -> Any:
        return _guarded(mode, leaf) if isinstance(leaf, Served) else leaf

    return mapped(guard, values)


def _guarded(mode: Elsewhere, lent: Served) -> Served:
    asked = vars(lent)["_ask"]

    def ask(handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for one in tensors_among((*args, *kwargs.values())):
            if whence := mode.whence(one):
                shape = tuple(one.shape)
                raise Meeting(f"the model is given a tensor of shape {shape} that is on the cpu, {whence}")
        return guarded(mode, asked(handle, attribute, args, kwargs))

    return Served(vars(lent)["_handle"], ask)


class _Births(TorchDispatchMode):
    """Calls every operator again, so that a function mode sees those that come from no function."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it would import it, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _real(value: Any) -> Any:
    """What a call may be handed on this machine in the place of a graphics card."""
    if isinstance(value, torch.device) and value.type == CARD.type:
        return CPU
    return "cpu" if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) else value
