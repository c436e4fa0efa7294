"""Fill unwritten memory with NaN, so that code which reads such memory gives wrong numbers.

Fresh memory often holds zeros, or the right results of an earlier call. During a call ``np.empty`` and
``torch.empty`` return NaN, and the largest number where numbers are whole. ``np.log(p, where=p > 0)`` calls
neither, but numpy warns just before it takes memory for the result: at that moment free memory is filled.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .tensors import arrays

WARNING = "'where' used without 'out'"
"""The first words of numpy's warning, from numpy 2.4 on."""
NEVER_WARNS = np.lib.NumpyVersion(np.__version__) < "2.4.0"
KEPT = range(4, 1024, 4)
"""Sizes of arrays in bytes: numpy keeps the freed memory of small arrays for the next one of that size."""
KEPT_OF_EACH = 7
MAKERS = ("empty", "empty_like")


@contextlib.contextmanager
def unwritten_is_nan(given: Any) -> Iterator[None]:
    """Fill unwritten memory with NaN in the block.

    Enter the block inside ``warnings.catch_warnings()``, which removes the filter that is added here.

    Args:
        given: arrays in a nested structure; new arrays in the block probably have the same sizes.
    """

    def warned(*warning: Any) -> None:
        sizes = {x.nbytes for x in arrays(given) if isinstance(x, np.ndarray)}
        fill_free_memory([*KEPT, *(size for size in sizes if size)])

    if NEVER_WARNS:
        warned()
    makers = {name: getattr(np, name) for name in MAKERS}
    warnings.filterwarnings("always", WARNING)
    vars(warnings)["showwarning"] = warned
    with _torch_fills():
        vars(np).update({name: _filling(make) for name, make in makers.items()})
        try:
            yield
        finally:
            vars(np).update(makers)


def fill_free_memory(sizes: list[int]) -> None:
    """Fill with NaN the free memory that numpy keeps for new arrays of these sizes in bytes.

    A copy takes the same memory as a new array. It is made without `np.empty`, whose calls are watched at
    this moment.
    """
    ones = np.array(0xFF, np.uint8).repeat(max(sizes))
    for size in sizes:
        _ = [ones[:size].copy() for _ in range(KEPT_OF_EACH)]  # hold all at once, since numpy keeps this many


@functools.cache
def _filling(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return numpy's function `make`, changed to fill each new array."""

    @functools.wraps(make)
    def filling(*args: Any, **kwargs: Any) -> Any:
        array = make(*args, **kwargs)
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        elif array.dtype.kind in "biu":
            array.fill(True if array.dtype.kind == "b" else np.iinfo(array.dtype).max)
        return array

    return filling


@contextlib.contextmanager
def _torch_fills() -> Iterator[None]:
    """Let torch fill new memory in the block: its deterministic mode does, and changes nothing else here."""
    if "torch" not in sys.modules:
        yield
        return
    from torch import _C

    before = _C._get_deterministic_algorithms(), _C._get_deterministic_algorithms_warn_only()
    filled = _C._get_deterministic_fill_uninitialized_memory()
    _C._set_deterministic_algorithms(True, warn_only=True)
    _C._set_deterministic_fill_uninitialized_memory(True)
    try:
        yield
    finally:
        _C._set_deterministic_algorithms(before[0], warn_only=before[1])
        _C._set_deterministic_fill_uninitialized_memory(filled)
