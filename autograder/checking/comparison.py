"""Compare the value that a student's function returned with the expected one, and describe the difference."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from autograder.cage import tensors
from autograder.cage.probes import NONE
from autograder.cage.tensors import is_tensor

Scalar = (bool, int, float, np.bool_, np.integer, np.floating)

MOST_CHARACTERS = 400
"""The longest description of a value."""


def as_array(value: Any) -> np.ndarray | None:
    """Return a number, a numeric array or a tensor as an array, and None for any other value."""
    if is_tensor(value):
        value = tensors.numbers(value)
    if not isinstance(value, (np.ndarray, *Scalar)):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "biuf" else None


def agree(got: Any, expected: Any, tolerance: float) -> bool:
    """Return whether `differs` finds no difference.

    Compare the first numbers of two arrays first: most arrays that differ already differ there.
    """
    plain = type(got) is type(expected) is np.ndarray and got.dtype.kind == expected.dtype.kind == "f"
    if plain and got.shape == expected.shape and got.size:
        first_got, first_expected = float(got.flat[0]), float(expected.flat[0])
        if abs(first_got - first_expected) > tolerance * max(1.0, abs(first_expected)):
            return False
    return differs(got, expected, tolerance) is None


def differs(got: Any, expected: Any, tolerance: float) -> str | None:
    """Return a sentence about how `got` differs from `expected`, or None when they agree.

    Numbers agree when |got - expected| <= tolerance * max(1, |expected|) elementwise; NaN agrees with NaN.

    Args:
        got: what the call returned, of any type.
        expected: a number, an array, a tuple, list, dict or set, or any object compared by ==.
        tolerance: see `tolerance_for`.
    """
    if isinstance(got, dict) and got.keys() == {"raised", "message"} and not isinstance(expected, dict):
        return f"your code raised {got['message']}"
    if isinstance(expected, tuple):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            return f"expected {len(expected)} results, got {describe(got)}"
        pairs = enumerate(zip(got, expected, strict=True))
        for index, pair in sorted(pairs, key=lambda numbered: same_form(*numbered[1])):  # wrong shapes first
            if why := differs(*pair, tolerance):
                return f"result {index + 1} of {len(expected)}: {why}"
        return None
    if isinstance(expected, list):
        return _steps_differ(got, expected, tolerance)
    if isinstance(expected, dict):
        return _parts_differ(got, expected, tolerance)
    if isinstance(expected, set):
        return _sets_differ(got, expected)
    if is_tensor(expected):
        if why := _tensor_mismatch(got, expected):
            return why
    elif not isinstance(expected, (np.ndarray, *Scalar)):
        alike = got is expected or (type(got) is type(expected) and got == expected)
        return None if alike else f"expected {expected!r}, got {describe(got)}"
    elif is_tensor(got) and np.shape(expected):
        return f"expected a numpy array, got {describe(got)} (use numpy throughout, or end with .numpy())"
    if _identical(got, expected):
        return None
    array, target = as_array(got), tensors.numbers(expected)
    if array is None:
        wanted = f"an array of shape {target.shape}" if target.shape else "a number"
        cure = " (make it an array: np.array(...))" if isinstance(got, list | tuple) else ""
        return f"expected {wanted}, got {describe(got)}{cure}"
    if array.shape != target.shape:
        return f"expected shape {target.shape}, got shape {array.shape}{_shape_clue(array, target)}"
    boolean = array.dtype == target.dtype == bool
    array, target = array.astype(np.float64), target.astype(np.float64)
    with np.errstate(all="ignore"):
        close = np.abs(array - target) <= tolerance * np.maximum(1, np.abs(target))
    close &= np.isfinite(target)  # else every number would be close to infinity
    close |= (array == target) | (np.isnan(array) & np.isnan(target))
    if close.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    place = f" at {list(where)}" if where else ""
    if boolean:
        return f"expected {bool(target[where])}{place}, got {bool(array[where])}"
    wanted, actual = _distinguishable(float(target[where]), float(array[where]))
    with np.errstate(over="ignore"):
        narrow = array[where] == np.float32(target[where])
    return f"expected {wanted}{place}, got {actual}{' (rounded to float32?)' if narrow else ''}"


def _identical(got: Any, expected: Any) -> bool:
    """Return whether two arrays have the same dtype, shape and numbers.

    This test is quick, and most arguments that the student's code leaves alone pass it.
    """
    plain = type(got) is type(expected) is np.ndarray
    alike = plain and got.dtype == expected.dtype and got.shape == expected.shape
    return alike and bool((got == expected).all())


def _distinguishable(first: float, second: float) -> tuple[str, str]:
    """Return two numbers as text, with enough digits to show that they differ."""
    digits = next((n for n in range(6, 17) if f"{first:.{n}g}" != f"{second:.{n}g}"), 17)
    return f"{first:.{digits}g}", f"{second:.{digits}g}"


def _steps_differ(got: Any, expected: list[Any], tolerance: float) -> str | None:
    """Return a sentence about the first step at which two lists differ, or None."""
    if not isinstance(got, list | tuple) or len(got) != len(expected):
        return f"expected {len(expected)} results, got {describe(got)}"
    for place, (value, target) in enumerate(zip(got, expected, strict=True), 1):
        if why := differs(value, target, tolerance):
            return f"at step {place}: {why}"
    return None


def _parts_differ(got: Any, expected: dict[Any, Any], tolerance: float) -> str | None:
    """Return a sentence about the first entry where two dicts differ, such as the gradient of one input."""
    if raised := expected.get("raised"):
        if isinstance(got, dict) and "raised" in got:
            return None
        return f"expected a {raised} to be raised; your code returned {describe(got)}"
    if not isinstance(got, dict):
        return f"expected {describe(expected)}, got {describe(got)}"
    if got.keys() == {"raised", "message"}:
        return f"your code raised {got['message']}"
    for here, there, complaint in ((expected, got, "is missing"), (got, expected, "should not be there")):
        if unmatched := [name for name in here if name not in there]:
            return f"{_quoted(unmatched[0])} {complaint}"
    for name in sorted(expected, key=lambda name: not (_is_none(got[name]) or _is_none(expected[name]))):
        part, target = got[name], expected[name]
        if _is_none(part) or _is_none(target):
            if _is_none(part) and is_tensor(target) and bool(target.any()):
                return f"no gradient reaches {_quoted(name)}: it has no part in the result, or is cut off"
            if _is_none(target) and is_tensor(part) and bool(part.any()):
                return f"a gradient reaches {_quoted(name)}, which has no part in the result"
        elif why := differs(part, target, tolerance):
            return f"in {_quoted(name)}: {why}"
    return None


def _sets_differ(got: Any, expected: set[Any]) -> str | None:
    """Return a sentence about a member that only one of the sets has, or None."""
    if not isinstance(got, set | frozenset):
        return f"expected a set, got {describe(got)}"
    for others, where in ((got - expected, "in your set, and should not be"), (expected - got, "missing")):
        if others:
            return f"{min(others, key=repr)} is {where}"
    return None


def _is_none(value: Any) -> bool:
    return isinstance(value, str) and value == NONE


def _quoted(part: str) -> str:
    return f"argument {part}" if part[:1].isdigit() else f"`{part}`"


def _tensor_mismatch(got: Any, expected: Any) -> str | None:
    """Return why a value is not a tensor with the expected dtype and device, or None if it is one."""
    if not is_tensor(got):
        array = isinstance(got, np.ndarray | np.generic)
        cure = " (use torch throughout, or end with torch.as_tensor(...))" if array else ""
        return f"expected a tensor of shape {tuple(expected.shape)}, got {describe(got)}{cure}"
    if got.shape == expected.shape and got.dtype != expected.dtype:
        return f"expected the dtype {_dtype(expected)}, got {_dtype(got)}"
    if got.device.type != expected.device.type:
        return f"expected a tensor on the device {expected.device.type!r}, got one on {got.device.type!r}"
    return None


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shape_clue(array: np.ndarray, target: np.ndarray) -> str:
    """Return the fault of the shape of `array`, where the sizes show it; else an empty text."""
    got, wanted = array.shape, target.shape
    if sorted(got) == sorted(wanted):
        return " (the right sizes in another order: axes are swapped)"
    if [n for n in got if n != 1] == [n for n in wanted if n != 1]:
        return f" (an axis of size 1 is {'left over' if len(got) > len(wanted) else 'missing'})"
    if len(got) < len(wanted):
        return " (it has an axis too few)"
    if len(got) > len(wanted):
        return " (it has an axis too many)"
    return ""


def same_form(got: Any, expected: Any) -> bool:
    """Return whether `got` has the types and shapes of `expected`, so that only its numbers can be wrong."""
    if isinstance(expected, tuple):
        fits = isinstance(got, tuple | list) and len(got) == len(expected)
        return fits and all(map(same_form, got, expected))
    if isinstance(expected, str):
        return isinstance(got, str)
    if isinstance(expected, set):
        return isinstance(got, set | frozenset)
    if is_tensor(expected):
        return is_tensor(got) and got.shape == expected.shape
    array, target = as_array(got), as_array(expected)
    return array is not None and target is not None and array.shape == target.shape


EPSILON = {2: 2.0**-8, 4: float(np.finfo(np.float32).eps), 8: float(np.finfo(np.float64).eps)}
"""Relative rounding error by the bytes of a number; two bytes count as bfloat16, the coarser dtype."""
ALLOWED = {2: 2e-2, 4: 2e-5, 8: 1e-9}


def tolerance_for(args: tuple[Any, ...]) -> float:
    """Return how far a right answer may differ from the reference, given the dtype and size of the inputs.

    Rounding an input of size s changes it by eps * s, and the logarithm of a result changes as much: an
    answer that computes log-sum-exp in float32 at logits of 1e4 may be wrong by 1e-3 of the result.
    """
    inputs = [a for a in tensors.arrays(*args) if tensors.is_floating(a)]
    width = min((_bytes(a) for a in inputs), default=8)
    return ALLOWED[width] + EPSILON[width] * max((_largest(a) for a in inputs), default=0.0)


def _bytes(array: Any) -> int:
    return max(2, min(8, int(array.element_size() if is_tensor(array) else array.dtype.itemsize)))


def _largest(array: Any) -> float:
    plain = tensors.numbers(array)
    with np.errstate(all="ignore"):
        return float(np.abs(plain[np.isfinite(plain)]).max(initial=0.0))


def without_numbers(sentence: str) -> str:
    """Return the sentence with "#" for its numbers, True and False: failures of one kind then read alike."""
    unnumbered = re.sub(r"(?<!\w)-?\d[\d.]*(e[+-]?\d+)?|\b(True|False)\b", "#", sentence)
    return re.sub(r"[\[(]*#[#,\s\[\]().]*", "#", unnumbered)


def as_code(value: Any, most: int = 12) -> str:
    """Return the value as Python code, or only the shapes of arrays with more than `most` numbers."""
    if tensors.is_array(value):
        return _array_as_code(value, most)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {as_code(inner, most)}" for key, inner in value.items()) + "}"
    if type(value) in (list, tuple):
        if not most and len(value) > 1 and all(map(tensors.is_array, value)):
            shapes = [str(tuple(array.shape)) for array in value]
            kind = "tensors" if is_tensor(value[0]) else "arrays"
            of = f"of shape {shapes[0]}" if len(set(shapes)) == 1 else f"of shapes {', '.join(shapes)}"
            return f"<{type(value).__name__} of {len(value)} {kind} {of}>"
        inside = ", ".join(as_code(inner, most) for inner in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    return repr(value)


def _array_as_code(array: Any, most: int) -> str:
    kind, made, usual = (
        ("tensor", "torch.tensor", "float32") if is_tensor(array) else ("array", "np.array", "float64")
    )
    if int(np.prod(array.shape)) > most or (is_tensor(array) and array.device.type == "meta"):
        return f"<{kind} of shape {tuple(array.shape)}>"
    typed: Any = {"float_kind": partial(np.format_float_positional, trim=".")}
    plain = np.array2string(tensors.numbers(array), separator=", ", formatter=typed)
    plain = re.sub(r"(?<=\[)\s+|\s+(?=[],])", "", " ".join(plain.split()))
    plain = re.sub(r"\b(nan|inf)\b", r"np.\1" if kind == "array" else r"torch.\1", plain)
    dtype = _dtype(array) if is_tensor(array) else str(array.dtype)
    prefix = made.split(".")[0]
    suffix = "" if dtype in (usual, "int64", "bool") else f", dtype={prefix}.{dtype}"
    return f"{made}({plain}{suffix})"


def describe(value: Any) -> str:
    """Describe a value in a few words by its type, shape and dtype, and show the numbers of a small array.

    The numbers of an array inside a list or a tuple are left out.
    """
    text = _describe(value, 12, 3)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."


def _describe(value: Any, most: int, depth: int) -> str:
    if is_tensor(value):
        small = value.numel() <= most and value.device.type != "meta"
        plain = np.array2string(tensors.numbers(value), precision=4, separator=", ") if small else ""
        inside = f" {plain}".replace("\n", "").rstrip()
        return f"a tensor of shape {tuple(value.shape)} ({_dtype(value)}){inside}"
    if isinstance(value, np.ndarray):
        small = value.size <= most
        numbers = f" {np.array2string(value, precision=4, separator=', ')}".replace("\n", "") if small else ""
        return f"an array of shape {value.shape} ({value.dtype}){numbers}"
    if isinstance(value, tuple | list):
        kind = type(value).__name__
        short = len(value) <= 4 and depth > 0
        inside = ", ".join(_describe(v, 0, depth - 1) for v in value) if short else "..."
        return f"a {kind} of {len(value)}: {inside}"
    if value is None:
        return "None (is a return missing?)"
    if isinstance(value, dict):
        keys = ", ".join(f"{key!r:.40}" for key in list(value)[:3])
        return f"a dict with the keys {keys}{', ...' if len(value) > 3 else ''}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
