"""Find costs that cannot be true.

The meters run in the same process as the student's code, which may forge their numbers. A forged number
within the possible range cannot be recognised; a number outside it can.
"""

from __future__ import annotations

import math
from typing import Any

from autograder.cage import tensors
from autograder.checking.declaration import Trial

COUNTED = ("operations", "largest", "peak_bytes", "total_bytes")
MOST = 10**15
"""A number of operations or bytes that no call can reach within its limits."""


def impossible(cost: Any) -> str | None:
    """Return why no meter can have counted this cost, or None if the cost is possible."""
    claimed = cost if isinstance(cost, dict) else {}
    counts: list[Any] = [claimed.get(name) for name in COUNTED]
    calls, shape = claimed.get("calls"), claimed.get("largest_shape")
    if not (isinstance(calls, dict) and isinstance(shape, list)):
        return "it does not have the form of a count"
    for count in (*counts, *calls.values(), *shape):
        if type(count) is not int or not 0 <= count <= MOST:
            return f"{count!r:.40} is not a number of operations, calls or bytes"
    _, largest, peak, total = counts
    if not peak <= total:
        return f"{peak:,} bytes cannot be held at once where {total:,} are allocated in all"
    if not bool(largest) == bool(peak) == bool(total):
        return f"a largest tensor of {largest:,} numbers does not go with {total:,} bytes in all"
    return None


def too_little(trial: Trial) -> str | None:
    """Return a complaint if a case costs less than reading its inputs and holding its result, or None."""
    cost = trial.outcome.cost
    inputs, results = (tensors.arrays(values) for values in (trial.case.args, trial.value))
    read = max(math.prod(x.shape) for x in inputs)
    held = sum(math.prod(x.shape) * x.dtype.itemsize for x in results)
    return unseen("operations", cost["operations"], read) or unseen("bytes", cost["peak_bytes"], held)


def unseen(what: str, counted: int, needed: int) -> str | None:
    """Return a sentence for the student if the meters counted less than any right answer needs, or None."""
    if counted >= needed:
        return None
    return (
        f"only {counted:,} {what} were counted, but at least {needed:,} are needed: operations "
        "done without torch cannot be counted. Compute with torch"
    )
