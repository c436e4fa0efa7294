"""Treat numpy arrays and torch tensors alike: copies, leaves, numbers. Torch is imported only if needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

DEEPEST = 12
"""The deepest nesting of a value that can be sent on the wire."""


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Return whether the value is a numpy array or a torch tensor."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def is_floating(value: Any) -> bool:
    return bool(value.is_floating_point()) if is_tensor(value) else value.dtype.kind == "f"


def form(value: Any) -> Any:
    """Return an array's library, dtype, shape and layout, and any other value unchanged."""
    if not is_array(value):
        return value
    return type(value).__name__, str(value.dtype), tuple(value.shape), is_contiguous(value)


def is_contiguous(value: Any) -> bool:
    """Return whether the numbers of an array follow each other in memory in the order of its indices."""
    return bool(value.is_contiguous() if is_tensor(value) else value.flags.c_contiguous)


def numbers(value: Any) -> np.ndarray:
    """Return the value as a numpy array; half precision, which numpy lacks in part, is widened."""
    if not is_tensor(value):
        return np.asarray(value)
    if value.device.type == "meta":
        return np.zeros(tuple(value.shape))
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.is_floating_point() and value.element_size() < 4:
        value = value.float()
    return np.asarray(value.numpy())


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Return the value with the function applied to every leaf of its lists, tuples and dicts."""
    if isinstance(value, dict):
        return {key: mapped(function, inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(function, inner) for inner in value)
    return function(value)


def to_plain_types(value: Any, depth: int = 0) -> Any:
    """Return the value in plain types, so that later use of it runs no code of a student's class."""
    if depth > DEEPEST or value is None or type(value) in (bool, int, float, str, np.ndarray):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)[()] if isinstance(value, np.generic) else np.asarray(value)
    if is_tensor(value):
        return _to_plain_tensor(value)
    for base, plain in _CONVERTERS.items():
        if isinstance(value, base) and not isinstance(value, bool):
            return plain(value)
    if isinstance(value, dict):
        return {
            to_plain_types(k, depth + 1): to_plain_types(inner, depth + 1) for k, inner in dict.items(value)
        }
    for kind, members in _MEMBERS.items():
        if isinstance(value, kind):
            return kind(to_plain_types(inner, depth + 1) for inner in members(value))
    return value


_CONVERTERS: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
_MEMBERS: dict[Any, Callable[[Any], Iterator[Any]]] = {k: k.__iter__ for k in (list, tuple, set, frozenset)}
"""The methods of the base classes, which run even if a student's subclass overrides them."""


def _to_plain_tensor(value: Any) -> Any:
    import torch

    if type(value) is torch.Tensor:
        return value
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.detach(value).as_subclass(torch.Tensor)


def leaves(value: Any, named: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of nested lists, tuples and dicts with its name in Python: ``shards[1]``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{named}[{key!r}]" if named else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{named}[{place}]")
    else:
        yield named, value


def arrays(*values: Any) -> list[Any]:
    """Return the arrays and tensors among the leaves of the values."""
    return [leaf for _, leaf in leaves(values) if is_array(leaf)]


def tensors_among(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors among an operator's arguments and in its list arguments."""
    for value in values:
        if is_tensor(value):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_among(value)


def private_copy(value: Any) -> Any:
    """Return a copy that shares no memory with the value; a copy of a non-contiguous array is `strided`."""

    def copied(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        leaf = leaf.detach() if is_tensor(leaf) else leaf
        if not is_contiguous(leaf):
            return strided(leaf)
        return leaf.clone() if is_tensor(leaf) else leaf.copy()

    return mapped(copied, value)


def strided(array: Any) -> Any:
    """Return a copy whose axes are in reverse order in memory, so that no `view` can join two of them."""
    memory = (*reversed(array.shape), 2)  # neighbours lie two items apart: a single axis has gaps too
    spread: Any = array.new_zeros(memory) if is_tensor(array) else np.zeros(memory, array.dtype)
    axes = tuple(reversed(range(array.ndim)))
    copy = spread[..., 0].permute(axes) if is_tensor(array) else spread[..., 0].transpose(axes)
    copy[...] = array
    return copy
