"""Keep objects with the grader while a student's code uses them: a model, and the caches that it makes.

The `Host` has the objects, answers requests for them and records every request, so that no submission can
change the number of its calls. The student's code gets a proxy, a `Served`. Each request passes through the
same two functions, `Host.reply` and `read_answer`, in one process as well as over the wire.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import profiler_guard, tensors

MAX_ASKED = 5000
MAX_BYTES = 60 << 20
"""The most bytes of all requests to a host together, and of one answer."""

ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (
        *(AttributeError, IndexError, KeyError, MemoryError, OverflowError),
        *(RuntimeError, TypeError, ValueError, ZeroDivisionError),
    )
}
"""The errors that a student's code may get; any other error of an object becomes a RuntimeError."""

Ask = Callable[[int, str, list[Any], dict[str, Any]], Any]
_handles = itertools.count()


def send_request(handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Send a request to the host over the wire; the child replaces this function by its own."""
    raise AttributeError("the process of this submission has ended")


def read_answer(reply: dict[str, Any]) -> Any:
    """Return the answer in a host's reply, or raise the error in it."""
    if reply.get("error"):
        raise ERRORS.get(reply["error"], RuntimeError)(reply["message"])
    return reply["answer"]


class Served:
    """A proxy of an object that stays with the grader: ``model(tokens)``, ``model.new_cache(2, 9)``."""

    def __init__(self, handle: int, ask: Ask) -> None:
        vars(self).update(_handle=handle, _ask=ask)

    def __repr__(self) -> str:
        return "an object of the grader's"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ask(self._handle, "__call__", list(args), kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("eval", "train", "to", "requires_grad_"):
            return lambda *args, **kwargs: self
        if name == "parameters":
            return lambda: self._parameters()
        if name == "forward":
            return self.__call__
        kind = self._ask(self._handle, f"?{name}", [], {})
        if kind == "method":
            return lambda *args, **kwargs: self._ask(self._handle, name, list(args), kwargs)
        return self._ask(self._handle, name, [], {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name!r} cannot be changed from outside")

    def _parameters(self) -> Iterator[Any]:
        import torch

        with unobserved():
            parameter = torch.zeros(1)
        yield parameter

    @classmethod
    def arrived(cls, handle: int) -> Served:
        """Return the proxy of an object on the other side of the wire."""
        return cls(handle, lambda *request: send_request(*request))

    def travels_as(self) -> dict[str, Any]:
        """Return the form of the proxy on the wire."""
        return {"$": "served", "handle": self._handle}


class Host:
    """The owner of the objects on the grader's side, for one call of the student's code.

    The attribute ``serves`` of an object lists the attributes that may be requested, such as ``"__call__"``.

    Attributes:
        asked: every call so far, in order, as (attribute, arguments in the order of its signature).
    """

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.asked: list[tuple[str, list[Any]]] = []
        self._room = MAX_BYTES

    def make_proxy(self, thing: Any) -> Served:
        """Return a proxy of an object; without a wire, the proxy sends its requests directly to this host."""
        handle = next(_handles)
        self.objects[handle] = thing
        return Served(handle, lambda *request: read_answer(self.reply(*request)))

    def close(self) -> None:
        """Forget the objects, so that every later request is an error."""
        self.objects.clear()

    def reply(self, handle: Any, attribute: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """Return the answer to a request, or the error for the other side to raise; raise no error here."""
        well_formed = type(handle) is int and isinstance(attribute, str)
        if not (well_formed and isinstance(args, list) and isinstance(kwargs, dict)):
            return {"error": "TypeError", "message": "a malformed request"}
        try:
            with unobserved():
                return {"answer": self._answer(handle, attribute, args, kwargs)}
        except Exception as error:
            name = type(error).__name__
            return {"error": name if name in ERRORS else "RuntimeError", "message": str(error)[:500]}

    def _answer(self, handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Return the object's answer: a number, a tensor, or a proxy of another object."""
        thing, plain = self._object(handle), attribute.removeprefix("?")
        if plain not in thing.serves:
            raise AttributeError(f"a {type(thing).__name__} has no attribute {plain!r}")
        value = getattr(thing, plain)
        is_method = callable(value) and not hasattr(value, "serves")
        if attribute.startswith("?"):
            return "method" if is_method else "value"
        return self._sendable(self._call(plain, value, args, kwargs) if is_method else value)

    def _call(self, name: str, method: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(self.asked) >= MAX_ASKED:
            raise RuntimeError(f"more than {MAX_ASKED} calls; one is enough for each step")
        self._room -= _bytes((args, kwargs))
        if self._room < 0:
            raise RuntimeError("more data than a submission may send in one call")
        args = tensors.mapped(self._original, tensors.private_copy(args))
        kwargs = tensors.mapped(self._original, tensors.private_copy(kwargs))
        bound = inspect.signature(method).bind(*args, **kwargs)
        bound.apply_defaults()
        self.asked.append((name, list(bound.arguments.values())))
        return method(*bound.args, **bound.kwargs)

    def _object(self, handle: int) -> Any:
        if handle not in self.objects:
            raise AttributeError("this object was lent for one call, and the call is over")
        return self.objects[handle]

    def _original(self, value: Any) -> Any:
        """Return the object of a proxy, and any other value unchanged."""
        return self._object(value._handle) if isinstance(value, Served) else value

    def _sendable(self, value: Any) -> Any:
        """Return a copy of a value with proxies for its objects."""
        if _bytes(value) > MAX_BYTES:
            raise RuntimeError("the answer is too large to send")
        return tensors.mapped(
            lambda leaf: self.make_proxy(leaf) if hasattr(leaf, "serves") else leaf,
            tensors.private_copy(value),
        )


def _bytes(value: Any) -> int:
    """Return about how many bytes of memory a value takes."""
    leaves = [leaf for _, leaf in tensors.leaves(value)]
    return sum(int(leaf.nbytes) if tensors.is_array(leaf) else 64 + sys.getsizeof(leaf) for leaf in leaves)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Do work of the grader in the block: it is not counted, watched or differentiated as the student's."""
    watching, torch = sys.getprofile(), sys.modules.get("torch")
    profiler_guard.switch(None)
    try:
        with contextlib.ExitStack() as stack:
            if torch is not None:
                from torch.utils._python_dispatch import _disable_current_modes

                stack.enter_context(torch._C.DisableTorchFunction())
                stack.enter_context(_disable_current_modes())
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.no_grad())
            yield
    finally:
        profiler_guard.switch(watching)
