"""Calls a student's function once and tells plainly what happened."""

from __future__ import annotations

import contextlib
import dis
import io
import linecache
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import memory, profiler_guard, tensors
from .names import Forbidden, plain
from .probes import PROBES, Unfit, kind

METERS = "tfcore.testing.meters"
"""Runs inside a metered call, so it is no call of the student's."""
MODES = ("torch.overrides", "torch.utils._python_dispatch")
HASHED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.FunctionType)
"""Types of functions that a set finds without running a line of a student's."""
TAKEN_OFF = ("_pop_mode", "_disable_current_modes")
"""Where torch keeps what watches it, and how it is taken off."""
OURS = ("site-packages", str(Path(__file__).parent), str(Path("tfcore", "testing")))
"""A line in one of these folders is none of the student's."""


class TimeUp(BaseException):
    """The time limit of a cell or a call has passed."""


def call(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    forbidden: list[str],
    probe: str = "call",
    metered: bool = False,
    finished: Callable[[Any], Any] = lambda value: value,
) -> dict[str, Any]:
    """The probe's value or error, its array arguments afterwards, and the forbidden call seen, if any.

    What the function prints is dropped, and its numerical warnings are silenced: neither costs points.

    Args:
        function: the student's function or class.
        args: its arguments, or those of the probe.
        kwargs: the same by name.
        forbidden: what it may not call.
        probe: how it is exercised; see `probes`.
        metered: whether to count what the call costs, in ``"cost"``.
        finished: what is done with the value while the watch still looks on.
    """
    told: dict[str, Any] = {"value": None, "error": None, "message": "", "forbidden": None, "cost": None}
    seen: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            filled = memory.unwritten_is_nan([args, kwargs])
            with filled, _metering(metered) as cost, _watching(forbidden, seen):
                value = tensors.settled(PROBES[probe](function, *args, **kwargs))
                told["cost"] = cost() if metered else None
                told["value"] = finished(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            told["error"] = "RuntimeError" if _of_torch(error) else kind(error)
            told["message"] = str(error) if isinstance(error, Unfit) else tell(error)
    told["forbidden"] = seen[0] if seen else None
    told["arguments"] = tensors.arrays(args, kwargs)
    return told


def _of_torch(error: BaseException) -> bool:
    """Whether torch says that it lacks an operator for a dtype: no line says `raise`, so it is no blank."""
    if not isinstance(error, NotImplementedError):
        return False
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return not last or last.tb_frame.f_code.co_code[last.tb_lasti] != dis.opmap["RAISE_VARARGS"]


def tell(error: BaseException) -> str:
    """``ValueError: ... (line 3: return x / s)``: the error and the student's line that raised it."""
    try:
        said = f"{type(error).__name__}: {error}".strip(": ")[:600]
    except Exception:
        return type(error).__name__
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno}: {(error.text or '').strip()[:120]})"
    own = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not any(folder in frame.f_code.co_filename for folder in OURS)
    ]
    for filename, number in reversed(own):
        linecache.checkcache(filename)
        if line := linecache.getline(filename, number).strip():
            return f"{said} (line {number}: {line[:120]})"
    return said


@contextlib.contextmanager
def _metering(wanted: bool) -> Iterator[Callable[[], dict[str, Any]]]:
    """Counts operations and the largest tensor of what torch does inside."""
    if not wanted:
        yield dict
        return
    from . import meters

    with meters.AllocationMeter() as memory, meters.OperationCounter() as work:
        yield lambda: {
            "operations": work.total,
            "calls": dict(work.calls),
            "largest": memory.largest_elements,
            "largest_shape": list(memory.largest_shape),
            "peak_bytes": memory.peak_bytes,
            "total_bytes": memory.total_bytes,
        }


_MODULE_OF = type.__dict__["__module__"].__get__
"""A class's module as Python keeps it, whatever its metaclass says: the watch runs nothing of a student's."""


def _module(frame: types.FrameType) -> str:
    """The module that a frame's code belongs to."""
    name = dict.get(frame.f_globals, "__name__", "")
    return name if type(name) is str else ""


def _by_torch(frame: types.FrameType) -> bool:
    """Whether torch itself, or the grader, calls what this frame runs."""
    caller = frame.f_back
    while caller and _module(caller) == "contextlib":
        caller = caller.f_back
    package = _module(caller).partition(".")[0] if caller else ""
    return package in ("torch", "cage", "autograder", "tfcore")


def _operator(frame: types.FrameType, forbidden: Forbidden) -> str | None:
    """Return what a line of a student's calls by ``torch.ops``, if it is forbidden."""
    if _by_torch(frame):
        return None
    from torch._ops import OpOverload, OpOverloadPacket

    there = frame.f_locals if type(frame.f_locals) is dict else {}
    operator = there.get("self")
    if type(operator) is not OpOverload and type(operator) is not OpOverloadPacket:
        return None
    called = str(operator).partition(".")[2]  # aten._safe_softmax.default
    return called if forbidden.have("torch", called) else None


@contextlib.contextmanager
def _watching(names: list[str], seen: list[str]) -> Iterator[None]:
    """Record calls to the forbidden functions, however they are reached, as ``package.module.name``.

    Args:
        names: what is forbidden, as in `Forbidden`.
        seen: the calls; each is added when it is made.
    """
    if not names:  # nothing to see, and looking takes time
        yield
        return
    forbidden = _forbidden(tuple(names))
    harmless: set[tuple[str, str]] = set()

    def see(frame: types.FrameType, event: str, arg: Any) -> None:  # at every call, so it leaves early
        if event == "call":
            module, name = dict.get(frame.f_globals, "__name__", ""), frame.f_code.co_name
            if type(module) is not str:
                return
            if module == "torch._ops" and name in ("__call__", "redispatch"):
                name = _operator(frame, forbidden) or name
            if module in MODES and name.startswith(TAKEN_OFF) and not _by_torch(frame):
                seen.append(f"{module}.{name}")  # it takes `_seeing_torch` away
        elif event == "c_call":
            name, module = getattr(arg, "__name__", ""), getattr(arg, "__module__", None)
            if module is None:
                module = _MODULE_OF(type(getattr(arg, "__self__", None)))
        else:
            return
        if not type(module) is type(name) is str or (module, name) in harmless:
            return  # to compare or to write an object of the student's would run their code, unwatched
        if forbidden.have(module, name) and module != METERS:
            seen.append(f"{module}.{plain(name)}")
        else:
            harmless.add((module, name))

    with _seeing_torch(forbidden, seen), profiler_guard.kept(see) as switched_off:
        yield
    if switched_off:
        seen.append("sys.setprofile")


_forbidden = cache(Forbidden)


@contextlib.contextmanager
def _seeing_torch(forbidden: Forbidden, seen: list[str]) -> Iterator[None]:
    """Record torch's own functions also where Python does not see the call: ``map(torch.softmax, ...)``.

    A program of torch's own, as TorchScript makes them, calls no function that Python knows; its operators
    are seen. Where Python does see every call, nobody looks twice.
    """
    if "torch" not in sys.modules or not _below_python(forbidden):
        yield
        return
    calls, operators = _modes()
    below = operators(forbidden, seen) if _are_operators(forbidden) else contextlib.nullcontext()
    with calls(forbidden, seen), below:
        yield


@cache
def _modes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What torch asks at each of its functions, and at each operator below them; made once.

    Python's profiler looks at each call, also of theirs: what was found harmless is let pass without one.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchFunctionMode):
        def __init__(self, forbidden: Forbidden, seen: list[str]) -> None:
            super().__init__()
            self.forbidden, self.seen = forbidden, seen
            self.harmless: set[Any] = set()  # the profiler looks at each call, so most are settled by one

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if type(func) not in HASHED or func not in self.harmless:
                name = str(getattr(func, "__name__", ""))
                if self.forbidden.have("torch", name):
                    self.seen.append(f"torch.{plain(name)}")
                elif type(func) in HASHED:
                    self.harmless.add(func)
            return func(*args, **kwargs) if kwargs else func(*args)

    class SeenBelow(TorchDispatchMode):
        def __init__(self, forbidden: Forbidden, seen: list[str]) -> None:
            super().__init__()
            self.forbidden, self.seen = forbidden, seen
            self.harmless: set[Any] = set()

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # True would import torch's compiler, which takes a second

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func._op not in self.harmless:
                if self.forbidden.have("torch", func.__name__):
                    self.seen.append(f"torch.{plain(func.__name__)}")
                else:
                    self.harmless.add(func._op)
            return func(*args, **kwargs) if kwargs else func(*args)

    return Seen, SeenBelow


@cache
def _below_python(forbidden: Forbidden) -> bool:
    """Return whether some of these are functions of C in torch: of the others, Python sees each call."""
    import torch

    places = (torch._C, torch._C._VariableFunctions, torch._C._nn, torch._C.TensorBase)
    names = (plain(name) for place in places for name in dir(place))
    return _are_operators(forbidden) or any(map(forbidden.names_in("torch").match, names))


@cache
def _are_operators(forbidden: Forbidden) -> bool:
    """Return whether torch has operators of these names, which take time to watch."""
    import torch

    operators = (plain(name.partition("::")[2]) for name in torch._C._dispatch_get_all_op_names())
    return any(map(forbidden.names_in("torch").match, operators))
