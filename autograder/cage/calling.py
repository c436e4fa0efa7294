"""Call a student's function once and report the outcome in plain values."""

from __future__ import annotations

import contextlib
import dis
import importlib
import inspect
import io
import linecache
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from . import memory, profiler_guard, tensors
from .errors import OURS, describe_error, differentiated_line, kind, line_of
from .names import Forbidden, of_names, plain
from .probes import PROBES, Unfit

METERS = "tfcore.testing.meters"
"""The module of the meters: its functions run inside a metered call, and the student does not call them."""
HASHED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.FunctionType)
"""Types of functions with a safe hash: looking them up in a set runs no code of a student."""
MODES = ("torch.overrides", "torch.utils._python_dispatch")
REMOVERS = ("_pop_mode", "_disable_current_modes")
"""The modules with torch's stack of modes, and the beginnings of functions that remove a mode from it."""
MISFIT = re.compile(r"^TypeError: [\w.<>]+\(\) (missing|takes|got) ")
"""The error of a call whose arguments do not fit the function's parameters."""
TORCHSCRIPT = re.compile(r"jit|CompilationUnit")
LOOKUPS = re.compile(
    r"getattr|__dict__|builtins|attrgetter|methodcaller|resolve_name|Formatter|pickle|marshal|inspect|ctypes"
    r"|(?<!\.)\b(eval|exec|compile|vars|globals|locals)\b"
)
"""Words in code that can fetch a function whose name the code does not spell."""


class TimeUp(BaseException):
    """The error raised when the time limit of a cell or a call has passed."""


def call(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    forbidden: list[str],
    probe: str = "call",
    metered: bool = False,
    finished: Callable[[Any], Any] = lambda value: value,
) -> dict[str, Any]:
    """Return the probe's value or error, its array arguments afterwards, and the first forbidden call.

    The function's printed output is dropped and its numerical warnings are silenced: neither costs points.

    Args:
        function: the student's function or class.
        args: the arguments of the function, or of the probe.
        kwargs: the arguments by keyword.
        forbidden: the names of functions that it may not call.
        probe: how the function is exercised; see `probes`.
        metered: whether to count the cost of the call.
        finished: a function applied to the value while the call is still watched.
    """
    outcome: dict[str, Any] = {"value": None, "error": None, "message": "", "forbidden": None, "cost": None}
    seen: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            filled = memory.unwritten_is_nan([args, kwargs])
            with filled, _metering(metered) as cost, _watching(forbidden, seen):
                value = tensors.to_plain_types(PROBES[probe](function, *args, **kwargs))
                outcome["cost"] = cost() if metered else None
                outcome["value"] = finished(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome["error"] = "RuntimeError" if _raised_by_torch(error) else kind(error)
            outcome["message"] = str(error) if isinstance(error, Unfit) else describe_error(error)
            outcome["message"] += _where_unwritten(error, function)
            if " (line " not in outcome["message"]:
                again = partial(PROBES[probe], function, *args, **kwargs)
                outcome["message"] += _missing_line(error, function, again)
    outcome["forbidden"] = seen[0] if seen else None
    outcome["arguments"] = tensors.arrays(args, kwargs)
    return outcome


def _where_unwritten(error: BaseException, function: Any) -> str:
    """Return in which other function of the student the line of a blank answer is, or an empty text."""
    if type(error) is not NotImplementedError or type(function) is not types.FunctionType:
        return ""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code if last else function.__code__
    other = dict.get(function.__globals__, code.co_name)
    is_another = type(other) is types.FunctionType and other.__code__ is code is not function.__code__
    return f" in your `{code.co_name}`" if is_another else ""


def _missing_line(error: BaseException, function: Any, run: partial[Any]) -> str:
    """Return the line that belongs to an error which no line of the student raised, or an empty text.

    Args:
        error: the error.
        function: the student's function.
        run: the call that raised the error.
    """
    line = ""
    if MISFIT.search(describe_error(error)) and type(function) is types.FunctionType:
        line = line_of([(function.__code__.co_filename, function.__code__.co_firstlineno)])
    elif type(error) is RuntimeError and run.func in (PROBES["gradients"], PROBES["module_gradients"]):
        line = differentiated_line(run)
    return f" ({line})" if line else ""


def _raised_by_torch(error: BaseException) -> bool:
    """Return whether torch, not a `raise` line, raised NotImplementedError, as for a dtype without operator.

    A blank answer has such a line: ``raise NotImplementedError``.
    """
    if not isinstance(error, NotImplementedError):
        return False
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return not last or last.tb_frame.f_code.co_code[last.tb_lasti] != dis.opmap["RAISE_VARARGS"]


@contextlib.contextmanager
def _metering(wanted: bool) -> Iterator[Callable[[], dict[str, Any]]]:
    """Count torch's operations, its largest tensor and its memory inside the block."""
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
"""Read a class's module as Python stores it, past any metaclass, so that the watch runs no student's code."""


def _module(frame: types.FrameType) -> str:
    """Return the name of the module that a frame's code belongs to."""
    name = dict.get(frame.f_globals, "__name__", "")
    return name if type(name) is str else ""


def _called_by_torch(frame: types.FrameType) -> bool:
    """Return whether torch itself or the grader called the function of this frame."""
    caller = frame.f_back
    while caller and _module(caller) == "contextlib":
        caller = caller.f_back
    package = _module(caller).partition(".")[0] if caller else ""
    return package in ("torch", "cage", "autograder", "tfcore")


def _operator(frame: types.FrameType, forbidden: Forbidden) -> str | None:
    """Return the operator that a student's line calls through ``torch.ops``, if it is forbidden."""
    if _called_by_torch(frame):
        return None
    from torch._ops import OpOverload, OpOverloadPacket

    local_names = frame.f_locals if type(frame.f_locals) is dict else {}
    operator = local_names.get("self")
    if type(operator) is not OpOverload and type(operator) is not OpOverloadPacket:
        return None
    called = str(operator).partition(".")[2]  # aten._safe_softmax.default
    return called if forbidden.have("torch", called) else None


_IMPORTING = importlib._bootstrap._call_with_frames_removed.__code__  # type: ignore[attr-defined]
"""The code of Python's own that executes a module when it is imported."""


def _while_imported(frame: types.FrameType | None, package: str) -> bool:
    """Return whether a library calls a function of its own while Python imports it, as torch does.

    Code that a student executes under the name of a library has another caller.
    """
    while frame and _module(frame).partition(".")[0] == package:
        if frame.f_code.co_name == "<module>":
            imported = sys.modules.get(_module(frame))
            is_begun = getattr(getattr(imported, "__spec__", None), "_initializing", False) is True
            is_by_python = frame.f_back is not None and frame.f_back.f_code is _IMPORTING
            return is_begun and is_by_python and vars(imported) is frame.f_globals
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _watching(names: list[str], seen: list[str]) -> Iterator[None]:
    """Record calls of forbidden functions, under any name and through any object, as ``package.module.name``.

    Args:
        names: the forbidden names, as in `Forbidden`.
        seen: a list to which each forbidden call is added when it is made.
    """
    if not names:  # watching takes time
        yield
        return
    forbidden = of_names(tuple(names))
    harmless_names, harmless_code, kept = _known(forbidden)

    def see(frame: types.FrameType, event: str, arg: Any) -> None:  # runs at every call, so it returns early
        if event == "call":
            code, names = frame.f_code, frame.f_globals
            if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class or module, not a call
                return
            if harmless_code.get(id(code)) is names:
                return
            module, name = dict.get(names, "__name__", ""), code.co_name
            if type(module) is not str:  # to compare a student's object would run their code
                return
            if module == "torch._ops" and name in ("__call__", "redispatch"):
                name = _operator(frame, forbidden) or name
            elif module in MODES:
                if name.startswith(REMOVERS) and not _called_by_torch(frame):
                    seen.append(f"{module}.{name}")  # the call removes the modes of `_watching_torch`
            elif not forbidden.have(module, name):
                harmless_code[id(code)] = names
                kept[id(code)] = code
                return
        elif event == "c_call":
            name = arg.__name__
            if name in harmless_names:
                return
            module = arg.__module__
            if module is None:
                module = _MODULE_OF(type(arg.__self__))
            if not forbidden.have_a(name):
                harmless_names.add(name)
                return
        else:
            return
        if type(module) is not str or module == METERS or not forbidden.have(module, name):
            return
        if not _while_imported(frame, module.partition(".")[0]):
            seen.append(f"{module}.{plain(name)}")

    with _watching_torch(forbidden, seen), profiler_guard.watch_calls(see) as switched_off:
        yield
    if switched_off:
        seen.append("sys.setprofile")


@cache
def _known(forbidden: Forbidden) -> tuple[set[str], dict[int, dict[str, Any]], dict[int, types.CodeType]]:
    """Return what earlier calls have shown to be harmless.

    Returns:
        The names of C functions; the globals of code by its id; that code, which is kept so that no other
        code gets its id.
    """
    return set(), {}, {}


@contextlib.contextmanager
def _watching_torch(forbidden: Forbidden, seen: list[str]) -> Iterator[None]:
    """Record calls of torch's functions that Python's profiler misses, such as ``map(torch.softmax, ...)``.

    A TorchScript program calls operators without calling a function of Python. Both watches take as much
    time as many calls. So functions are watched only if code that ran here spells the name of a forbidden
    one or fetches functions by a name that it does not spell, and operators only if it names TorchScript.
    If the profiler sees every call of the forbidden functions, this watch is not set up.
    """
    ran = len(linecache.cache)
    if "torch" not in sys.modules or not _in_c(forbidden) or not _may_call(forbidden, ran):
        yield
        return
    calls, operators = _modes()
    watched = _names_torchscript(ran) and not _operators().isdisjoint(_in_c(forbidden))
    below = operators(forbidden, seen) if watched else contextlib.nullcontext()
    with calls(forbidden, seen), below:
        yield


@cache
def _modes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two modes that watch torch's functions and torch's operators.

    Python's profiler also runs at each call that a mode makes, so the modes look up known harmless functions
    without a further call.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchFunctionMode):
        def __init__(self, forbidden: Forbidden, seen: list[str]) -> None:
            super().__init__()
            self.forbidden, self.seen = forbidden, seen
            self.harmless = _harmless(forbidden)

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
            self.harmless = _harmless(forbidden)

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
def _harmless(forbidden: Forbidden) -> set[Any]:
    """Return torch's functions and operators that earlier calls have shown to be harmless."""
    return set()


@cache
def _code_that_ran(number_of_files: int) -> str:
    """Return the text of the cells and answers that ran here; tracebacks need it."""
    return "\n".join(
        "".join(entry[2])
        for filename, entry in list(linecache.cache.items())
        if len(entry) > 2 and not any(folder in filename for folder in OURS)
    )


@cache
def _names_torchscript(number_of_files: int) -> bool:
    """Return whether the code that ran names TorchScript. A search takes longer than many a call."""
    return bool(TORCHSCRIPT.search(_code_that_ran(number_of_files)))


@cache
def _may_call(forbidden: Forbidden, number_of_files: int) -> bool:
    """Return whether the code that ran could reach a forbidden C function: it spells one, or fetches any."""
    text = _code_that_ran(number_of_files)
    if LOOKUPS.search(text) or _names_torchscript(number_of_files):
        return True
    return not _in_c(forbidden).isdisjoint(map(plain, set(re.findall(r"\w+", text))))


@cache
def _in_c(forbidden: Forbidden) -> frozenset[str]:
    """Return the plain names of torch's C functions and operators that are forbidden.

    The profiler sees all other calls.
    """
    import torch

    places = (torch._C, torch._C._VariableFunctions, torch._C._nn, torch._C.TensorBase)
    names = {plain(name) for place in places for name in dir(place)} | _operators()
    return frozenset(filter(forbidden.names_in("torch").match, names))


@cache
def _operators() -> frozenset[str]:
    import torch

    return frozenset(plain(name.partition("::")[2]) for name in torch._C._dispatch_get_all_op_names())
