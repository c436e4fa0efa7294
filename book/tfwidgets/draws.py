"""The random numbers of the widgets: mulberry32, then Box and Muller.

``common.js`` has the same two functions in JavaScript; the browser tests compare the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

WORD = 0xFFFFFFFF
"""The largest number of 32 bits."""


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers in [0, 1) by mulberry32.

    >>> next(uniforms(0))
    0.26642920868471265
    """
    state = seed & WORD
    while True:
        state = (state + 0x6D2B79F5) & WORD
        mixed = ((state ^ (state >> 15)) * (state | 1)) & WORD
        mixed ^= (mixed + ((mixed ^ (mixed >> 7)) * (mixed | 61))) & WORD
        yield (mixed ^ (mixed >> 14)) / 2**32


def normals(seed: int) -> Iterator[float]:
    """Yield standard normal numbers, two at a time, by Box and Muller."""
    uniform = uniforms(seed)
    while True:
        radius = math.sqrt(-2 * math.log(1 - next(uniform)))
        angle = 2 * math.pi * next(uniform)
        yield radius * math.cos(angle)
        yield radius * math.sin(angle)
