"""Make a failing case smaller before a report shows it: fewer rows and rounder numbers, the same failure.

The sizes in a case are pairwise distinct, so all axes of size n belong together: they are cut together,
and a smaller case that the reference does not accept is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autograder.cage import tensors
from autograder.checking.declaration import Case, Lent, Seed

SMALL = 8
"""A case with at most this many numbers is not cut."""
MOST_TRIED = 40


@dataclass
class Patience:
    """The effort left for making cases smaller in a report.

    It is counted in cases, so that the same answer gets the same report on a busy machine; the limit of
    seconds only stops very slow answers.
    """

    cases: int = 3 * MOST_TRIED
    seconds: float = 15.0


def shrink_case(case: Case, still_fails: Callable[[Case], bool], patience: Patience) -> Case:
    """Return the smallest case found that still fails, or the case itself if no smaller case fails.

    Args:
        case: a failing case.
        still_fails: returns whether another case fails for the same reason.
        patience: the effort left; the effort spent here is subtracted.
    """
    if any(isinstance(leaf, Seed | Lent) for _, leaf in tensors.leaves((case.args, case.kwargs))):
        return case
    smallest, tried, start = case, 0, time.monotonic()
    simpler = _simpler(smallest)
    while tried < min(MOST_TRIED, patience.cases) and time.monotonic() < start + patience.seconds:
        if (other := next(simpler, None)) is None:
            break
        tried += 1
        if still_fails(other):
            smallest, simpler = other, _simpler(other)
    patience.cases -= tried
    patience.seconds -= time.monotonic() - start
    return smallest if size(smallest) == size(case) else replace(smallest, says="smallest case")


def size(case: Case) -> int:
    """Return how many numbers a case has."""
    every = [leaf for _, leaf in tensors.leaves((case.args, case.kwargs))]
    return sum(int(np.prod(leaf.shape)) if tensors.is_array(leaf) else 1 for leaf in every)


def _simpler(case: Case) -> Iterator[Case]:
    """Yield slightly simpler cases: cut each size, large sizes and deep cuts first; then round the numbers.

    A last axis keeps two entries: a softmax over one score, or a norm of one channel, shows little.
    """
    arrays = tensors.arrays(case.args, case.kwargs)
    if size(case) > SMALL:
        widths = {a.shape[-1] for a in arrays if a.shape}
        for n in sorted({n for a in arrays for n in a.shape if n > 1}, reverse=True):
            for m in sorted({1, 2, n // 2, n - 1} - {n} - ({1} if n in widths else set())):
                yield _transform(case, partial(_cut, n=n, m=m))
    for decimals in (0, 1, 2, 4):
        other = _transform(case, partial(_rounded, decimals=decimals))
        if not all(
            _equal(*pair) for pair in zip(arrays, tensors.arrays(other.args, other.kwargs), strict=True)
        ):
            yield other


def _transform(case: Case, change: Callable[[Any], Any]) -> Case:
    def changed(leaf: Any) -> Any:
        return change(leaf) if tensors.is_array(leaf) else leaf

    args, kwargs = tensors.mapped(changed, case.args), tensors.mapped(changed, case.kwargs)
    return replace(case, args=args, kwargs=kwargs)


def _cut(array: Any, n: int, m: int) -> Any:
    part = array[tuple(slice(m) if length == n else slice(None) for length in array.shape)]
    return tensors.private_copy(part.contiguous() if tensors.is_tensor(part) else np.ascontiguousarray(part))


def _rounded(array: Any, decimals: int) -> Any:
    """Return the array with rounded numbers, unless two different numbers would become equal."""
    if not tensors.is_floating(array):
        return array
    other = array.round(decimals=decimals) + 0.0  # no -0.
    return other if _variety(other) == _variety(array) else array


def _variety(array: Any) -> int:
    return len(np.unique(tensors.numbers(array)))


def _equal(one: Any, other: Any) -> bool:
    return bool(np.array_equal(tensors.numbers(one), tensors.numbers(other), equal_nan=True))
