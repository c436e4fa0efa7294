"""The numbers of every figure as an array, and its description in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SENTENCES: WeakKeyDictionary[Artist, str] = WeakKeyDictionary()


def alt_text(drawn: Axes | Figure) -> str:
    """Describe in words a drawing of the functions of ``tfcore.viz``.

    Args:
        drawn: axes, or a figure with axes; all are described.

    Returns:
        Sentences; empty if nothing was drawn here.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import attention_map
    >>> alt_text(attention_map(Figure().subplots(), [[0.2, 0.8]], ["it"], ["street", "animal"]))
    'Heat map of attention, 1 query by 2 keys. Largest weights: it to animal 0.80.'
    """
    if drawn in _SENTENCES:
        return _SENTENCES[drawn]
    return " ".join(_SENTENCES[axes] for axes in getattr(drawn, "axes", ()) if axes in _SENTENCES)


def describe(drawn: Axes | Figure, sentence: str) -> None:
    """Keep the sentence that :func:`alt_text` returns for axes or a figure; the last one counts.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> describe(axes, "A line that falls.")
    >>> alt_text(axes.figure)
    'A line that falls.'
    """
    _SENTENCES[drawn] = sentence


def numbers(x: Any, name: str, axes: str, *, finite: bool = False) -> np.ndarray:
    """Turn an array or tensor into float64 and check how many axes it has; ``axes`` names them.

    If ``finite`` is true, refuse infinity and NaN.

    >>> numbers([[1, 2, 3], [4, 5, 6]], "weights", "T_q T_k").shape
    (2, 3)
    >>> numbers([1, 2, 3], "weights", "T_q T_k")
    Traceback (most recent call last):
    ValueError: expected weights of shape (T_q, T_k), got (3,); ...
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu().double()
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != len(axes.split()) or 0 in values.shape:
        raise ValueError(
            f"expected {name} of shape ({', '.join(axes.split())}), got {values.shape}; "
            "pick one item of a batch first, and leave no axis empty"
        )
    if finite and not np.isfinite(values).all():
        strange = values[~np.isfinite(values)]
        raise ValueError(
            f"expected finite {name}, got {strange[0]} in {strange.size} of {values.size} places; look for "
            "where it comes from"
        )
    return values


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural unless it is 1.

    >>> counted(1, "query"), counted(2, "query"), counted(2, "key")
    ('1 query', '2 queries', '2 keys')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("ry") else f"{number} {noun}s"
