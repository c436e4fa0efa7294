"""Time contenders that take turns, so that a busy moment of the machine does not decide between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]


def best_times(works: dict[str, Work], num_rounds: int) -> dict[str, float]:
    """Return the best time of each contender in seconds; a first round warms up."""
    best = dict.fromkeys(works, float("inf"))
    for turn in range(num_rounds + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return best
