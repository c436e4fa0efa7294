"""What cannot be true of a cost that a submission's process claims.

The meters run beside the student's code, so their numbers are only a claim. A lie within what is possible
cannot be told from the truth; one beyond it can.
"""

from __future__ import annotations

import math
from typing import Any

from autograder.cage import tensors
from autograder.checking.declaration import Trial

COUNTED = ("operations", "largest", "peak_bytes", "total_bytes")
MOST = 10**15
"""More than any call can do or allocate within its limits."""


def impossible(cost: Any) -> str | None:
    """Why no meter has counted this; None where one may have."""
    found = cost if isinstance(cost, dict) else {}
    counts: list[Any] = [found.get(name) for name in COUNTED]
    calls, shape = found.get("calls"), found.get("largest_shape")
    if not (isinstance(calls, dict) and isinstance(shape, list)):
        return "it has not the form of a count"
    for count in (*counts, *calls.values(), *shape):
        if type(count) is not int or not 0 <= count <= MOST:
            return f"{count!r:.40} is no number of operations, calls or bytes"
    _, largest, peak, total = counts
    if not peak <= total:
        return f"{peak:,} bytes cannot be held at once where {total:,} are allocated in all"
    if not bool(largest) == bool(peak) == bool(total):
        return f"a largest tensor of {largest:,} numbers does not go with {total:,} bytes in all"
    return None


def too_little(trial: Trial) -> str | None:
    """How the cost of a case lies below what it takes to read its inputs and to hold its result."""
    cost = trial.outcome.cost
    given, made = (tensors.arrays(values) for values in (trial.case.args, trial.value))
    read = max(math.prod(x.shape) for x in given)
    held = sum(math.prod(x.shape) * x.dtype.itemsize for x in made)
    return unseen("operations", cost["operations"], read) or unseen("bytes", cost["peak_bytes"], held)


def unseen(what: str, counted: int, needed: int) -> str | None:
    """What to do where less was counted than is needed."""
    if counted >= needed:
        return None
    return (
        f"only {counted:,} {what} were counted, where {needed:,} are the least that it takes: what is done "
        "without torch cannot be counted. Compute with torch"
    )
