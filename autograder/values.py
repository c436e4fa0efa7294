"""Comparing what a student's function returned with what was expected, and saying how they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

Scalar = (bool, int, float, np.bool_, np.integer, np.floating)


def as_array(value: Any) -> np.ndarray | None:
    """The value as an array if it is a number or a numeric array, else None."""
    if not isinstance(value, (np.ndarray, *Scalar)):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "biuf" else None


def differs(got: Any, expected: Any, tolerance: float) -> str | None:
    """A sentence saying how `got` differs from `expected`, or None when they agree.

    Numbers agree when |got - expected| <= tolerance * max(1, |expected|) elementwise; NaN agrees with NaN.

    Args:
        got: a number, an array, or a tuple or list of them.
        expected: a number, an array or a tuple of them.
        tolerance: see `tolerance_for`.
    """
    if isinstance(expected, tuple):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            return f"expected {len(expected)} results, got {describe(got)}"
        for index, (one, other) in enumerate(zip(got, expected, strict=True)):
            if why := differs(one, other, tolerance):
                return f"result {index + 1} of {len(expected)}: {why}"
        return None
    if not isinstance(expected, (np.ndarray, *Scalar)):
        alike = got is expected or (type(got) is type(expected) and got == expected)
        return None if alike else f"expected {expected!r}, got {describe(got)}"
    array, target = as_array(got), np.asarray(expected)
    if array is None:
        wanted = f"an array of shape {target.shape}" if target.shape else "a number"
        cure = " (make it an array: np.array(...))" if isinstance(got, list | tuple) else ""
        return f"expected {wanted}, got {describe(got)}{cure}"
    if array.shape != target.shape:
        return f"expected shape {target.shape}, got shape {array.shape}{_as_seen(array, target)}"
    array, target = array.astype(np.float64), target.astype(np.float64)
    with np.errstate(all="ignore"):
        close = np.abs(array - target) <= tolerance * np.maximum(1, np.abs(target))
    close |= (array == target) | (np.isnan(array) & np.isnan(target))
    if close.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    place = f" at {list(where)}" if where else ""
    return f"expected {target[where]:.6g}{place}, got {array[where]:.6g}"


def _as_seen(array: np.ndarray, target: np.ndarray) -> str:
    """What happened to a shape, where that can be seen."""
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
    """Whether `got` has the types and shapes of `expected`, so that only numbers can be wrong."""
    if isinstance(expected, tuple):
        fits = isinstance(got, tuple | list) and len(got) == len(expected)
        return fits and all(map(same_form, got, expected))
    array, target = as_array(got), as_array(expected)
    return array is not None and target is not None and array.shape == target.shape


def tolerance_for(args: tuple[Any, ...]) -> float:
    """How far a right answer in another style may stray, from the dtype and size of the inputs.

    Rounding an input of size s moves it by eps * s, and with it the logarithm of a result: a log-sum-exp
    style in float32 at logits of 1e4 may err by 1e-3 of the result.
    """
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.size]
    narrow = any(a.dtype.itemsize < 8 for a in arrays)
    eps = float(np.finfo(np.float32 if narrow else np.float64).eps)
    with np.errstate(all="ignore"):
        finite = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in arrays]
    return (2e-5 if narrow else 1e-9) + eps * float(max(finite, default=0.0))


def describe(value: Any) -> str:
    """What a value is, in a few words: its type, shape and dtype; small ones in full."""
    if isinstance(value, np.ndarray):
        small = value.size <= 12
        numbers = f" {np.array2string(value, precision=4, separator=', ')}".replace("\n", "") if small else ""
        return f"an array of shape {value.shape} ({value.dtype}){numbers}"
    if isinstance(value, tuple | list):
        kind = type(value).__name__
        inside = ", ".join(describe(v) for v in value[:4]) if len(value) <= 4 else "..."
        return f"a {kind} of {len(value)}: {inside}"
    if value is None:
        return "None (is a return missing?)"
    if isinstance(value, dict):
        return f"a dict with the keys {', '.join(map(repr, value))}"[:80]
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
