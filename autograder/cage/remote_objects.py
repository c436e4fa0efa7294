"""Objects that stay with the grader while a student's code calls them: a model, and the caches it makes.

The `Host` holds the objects, answers what is asked of them and writes down every question, so that calls can
be counted where no submission can reach the count. A `Served` is what the student's code gets instead. It
asks through the same two functions, `Host.reply` and `heard`, whether the wire lies between them or not.
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
"""How much may be asked of a host in all, and how large one answer may be."""

ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (
        *(AttributeError, IndexError, KeyError, MemoryError, OverflowError),
        *(RuntimeError, TypeError, ValueError, ZeroDivisionError),
    )
}
"""What a student's code may be told; any other error of an object becomes a RuntimeError."""

Ask = Callable[[int, str, list[Any], dict[str, Any]], Any]
_handles = itertools.count()


def far(handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Asks the host behind the wire; the child puts its own way of asking in this place."""
    raise AttributeError("there is nobody to ask")


def heard(reply: dict[str, Any]) -> Any:
    """The answer in a host's reply, or the error in it, raised."""
    if reply.get("error"):
        raise ERRORS.get(reply["error"], RuntimeError)(reply["message"])
    return reply["answer"]


class Served:
    """A stand-in for an object of the grader's: ``model(tokens)``, ``model.new_cache(2, 9)``."""

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
            one = torch.zeros(1)
        yield one

    @classmethod
    def arrived(cls, handle: int) -> Served:
        """The stand-in for an object behind the wire."""
        return cls(handle, lambda *question: far(*question))

    def travels_as(self) -> dict[str, Any]:
        """Its form on the wire."""
        return {"$": "served", "handle": self._handle}


class Host:
    """The grader's side, for one call of the student's code.

    An object says in ``serves`` which of its attributes may be asked for; ``"__call__"`` is one of them.

    Attributes:
        asked: every call so far, (attribute, arguments in the order of its signature), in order.
    """

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.asked: list[tuple[str, list[Any]]] = []
        self._room = MAX_BYTES

    def stand_in(self, thing: Any) -> Served:
        """A stand-in for an object, which asks this very host as long as no wire lies between them."""
        handle = next(_handles)
        self.objects[handle] = thing
        return Served(handle, lambda *question: heard(self.reply(*question)))

    def close(self) -> None:
        """Ends the loan: what is asked from now on is an error."""
        self.objects.clear()

    def reply(self, handle: Any, attribute: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """The answer to a question, or the error that the asker is to raise; it never raises one itself."""
        formed = type(handle) is int and isinstance(attribute, str)
        if not (formed and isinstance(args, list) and isinstance(kwargs, dict)):
            return {"error": "TypeError", "message": "a malformed question"}
        try:
            with unobserved():
                return {"answer": self._answer(handle, attribute, args, kwargs)}
        except Exception as error:
            name = type(error).__name__
            return {"error": name if name in ERRORS else "RuntimeError", "message": str(error)[:500]}

    def _answer(self, handle: int, attribute: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What the object says: a number, a tensor, or a stand-in for another object."""
        thing, plain = self._object(handle), attribute.removeprefix("?")
        if plain not in thing.serves:
            raise AttributeError(f"a {type(thing).__name__} has no attribute {plain!r}")
        found = getattr(thing, plain)
        is_method = callable(found) and not hasattr(found, "serves")
        if attribute.startswith("?"):
            return "method" if is_method else "value"
        return self._sent(self._called(plain, found, args, kwargs) if is_method else found)

    def _called(self, name: str, method: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(self.asked) >= MAX_ASKED:
            raise RuntimeError(f"more than {MAX_ASKED} calls; one is enough for each step")
        self._room -= _bytes((args, kwargs))
        if self._room < 0:
            raise RuntimeError("more data than is taken of one submission in one call")
        args = tensors.mapped(self._own, tensors.private_copy(args))
        kwargs = tensors.mapped(self._own, tensors.private_copy(kwargs))
        bound = inspect.signature(method).bind(*args, **kwargs)
        bound.apply_defaults()
        self.asked.append((name, list(bound.arguments.values())))
        return method(*bound.args, **bound.kwargs)

    def _object(self, handle: int) -> Any:
        if handle not in self.objects:
            raise AttributeError("this object was lent for one call, which is over")
        return self.objects[handle]

    def _own(self, value: Any) -> Any:
        return self._object(value._handle) if isinstance(value, Served) else value

    def _sent(self, value: Any) -> Any:
        if _bytes(value) > MAX_BYTES:
            raise RuntimeError("the answer is too large to travel")
        return tensors.mapped(
            lambda leaf: self.stand_in(leaf) if hasattr(leaf, "serves") else leaf, tensors.private_copy(value)
        )


def _bytes(value: Any) -> int:
    """About the memory that a value takes."""
    leaves = [leaf for _, leaf in tensors.leaves(value)]
    return sum(int(leaf.nbytes) if tensors.is_array(leaf) else 64 + sys.getsizeof(leaf) for leaf in leaves)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """What a host does is no work of the student's: it is not counted, watched or differentiated."""
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
