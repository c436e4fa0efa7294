"""Laws for every exercise: properties that explain why a result is wrong.

An exercise lists the laws of `FIRST`, then its own laws, then the laws of `LAST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from autograder.cage import tensors
from autograder.checking.comparison import differs, tolerance_for
from autograder.checking.declaration import Case, Property, Trial

Array = np.ndarray
Cases = Callable[[np.random.Generator], Iterable[Case]]
CLOSE = 1e-4


def results(trial: Trial) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of each returned array or tensor, its numbers and the right ones, as numpy arrays."""
    if not isinstance(trial.expected, tuple | list):
        yield "the result", tensors.numbers(trial.value), tensors.numbers(trial.expected)
        return
    kind = "result" if isinstance(trial.expected, tuple) else "step"
    for number, (got, expected) in enumerate(zip(trial.value, trial.expected, strict=True), 1):
        if isinstance(expected, tuple):
            if not isinstance(got, tuple | list):
                continue
            for place, (one, other) in enumerate(zip(got, expected, strict=True), 1):
                yield f"result {place} of step {number}", tensors.numbers(one), tensors.numbers(other)
        elif not isinstance(expected, dict | list):
            yield f"{kind} {number}", tensors.numbers(got), tensors.numbers(expected)


def index(where: Array) -> str:
    """Return the first place where a boolean array is true, `` at [0, 2]``, or "" for a single number."""
    first = [int(i) for i in np.argwhere(where)[0]]
    return f" at {first}" if first else ""


def near(got: Array, expected: Array) -> bool:
    return bool(np.allclose(got, expected, rtol=CLOSE, atol=CLOSE * 1e-2))


def _of_each(law: Callable[[str, Array, Array], str | None]) -> Callable[[Trial], str | None]:
    """Make a law about one array into a law about each wrong result of a trial."""

    def broken(trial: Trial) -> str | None:
        tolerance = tolerance_for((*trial.case.args, *trial.case.kwargs.values()))
        for name, got, expected in results(trial):
            if got.shape != expected.shape or not got.size:
                return None
            if differs(got, expected, tolerance) and (said := law(name, got, expected)):
                return said
        return None

    return broken


def _finite(name: str, got: Array, expected: Array) -> str | None:
    if np.isnan(got).any():
        return (
            f"{name} holds NaN{index(np.isnan(got))}. Your code computes 0/0, inf/inf, inf - inf, 0 * inf or "
            "log(-x), or it reads memory that was never written (`empty`, or `where=` without `out`)"
        )
    if np.isinf(got).any():
        where = np.isinf(got)
        if got[where][0] < 0:
            return f"{name} is -inf{index(where)}: a mask fills with it, or your code computes log(0) or -x/0"
        return f"{name} is infinite{index(where)}: exp overflows, or your code divides by zero"
    return None


def _rounded(name: str, got: Array, expected: Array) -> str | None:
    """Report rounded results; whole numbers, such as probabilities of 0 and 1, have other reasons."""
    if np.array_equal(got, np.round(got)):
        return None
    for decimals in range(1, 7):
        if np.array_equal(got, np.round(expected, decimals)):
            return f"{name} is rounded to {decimals} decimal{'s' * (decimals > 1)}; return all digits"
    return None


def _imprecise(name: str, got: Array, expected: Array) -> str | None:
    if not near(got, expected):
        return None
    off = np.abs(got - expected)
    return (
        f"{name} is off by {off.max():.0e}{index(off == off.max())}, more than by rounding: look for an "
        "epsilon, an approximation, or float32 where float64 came in"
    )


def _narrow(name: str, got: Array, expected: Array) -> str | None:
    off, largest = np.abs(got - expected).max(initial=0), np.abs(expected).max(initial=0)
    if not 1e-4 * largest < off < 8e-3 * largest:
        return None
    return (
        f"{name} is right to about {off:.0e} only: look for something small, such as an epsilon in another "
        "place, an approximation, or half precision"
    )


def _factor(name: str, got: Array, expected: Array) -> str | None:
    strong = np.abs(expected) > 1e-9
    if not strong.any():
        return None
    ratio = float(np.median(got[strong] / expected[strong]))
    if not near(got, ratio * expected) or abs(ratio) < 1e-9 or abs(ratio - 1) < CLOSE:
        return None
    if abs(ratio + 1) < CLOSE:
        return f"{name} has the wrong sign"
    if strong.sum() < 2 and not any(r > 1.5 and abs(r - round(r)) < CLOSE for r in (ratio, 1 / ratio)):
        return None  # any two numbers differ by a factor
    subject = f"{name} is" if got.size == 1 else f"every number of {name} is"
    return f"{subject} {ratio:.4g} times what it should be: a factor is wrong or missing"


def _offset(name: str, got: Array, expected: Array) -> str | None:
    gap = float(np.median(got - expected))
    if got.size < 3 or not near(got, expected + gap):
        return None
    return f"every number of {name} is too {'large' if gap > 0 else 'small'} by {abs(gap):.4g}"


def _signs(name: str, got: Array, expected: Array) -> str | None:
    if not near(np.abs(got), np.abs(expected)) or not (got * expected < 0).any():
        return None
    return f"{name} has numbers of the right size with the wrong sign, the first{index(got * expected < 0)}"


def _places(name: str, got: Array, expected: Array) -> str | None:
    if got.size < 3 or not near(np.sort(got, axis=None), np.sort(expected, axis=None)):
        return None
    return f"{name} has the right numbers in the wrong places: an axis or an index is mixed up"


def _first_only(name: str, got: Array, expected: Array) -> str | None:
    if got.ndim < 2 or len(got) < 2:
        return None
    right = [near(one, other) for one, other in zip(got, expected, strict=True)]
    if right[0] and not any(right[1:]):
        return f"only [0] of {name} is right, all others are wrong: is the first used for all?"
    return None


def repeatable(trial: Trial) -> str | None:
    """Check that the same call gives the same result."""
    again = trial.call(trial.case).value
    pairs = zip(tensors.leaves(trial.value), tensors.leaves(again), strict=True)
    for (_, one), (_, other) in pairs:
        if not np.array_equal(tensors.numbers(one), tensors.numbers(other), equal_nan=True):
            return "the same call gives another result each time; nothing here is random"
    return None


def not_softmax(
    weights: Array, scores: Array, says: str, factor: float, named: str = "", allowed: Array | None = None
) -> str | None:
    """Describe how `weights` (..., n) differ in proportion from softmax(factor * scores), if they do.

    Args:
        weights: weights along the last axis, normalised or not.
        scores: the scores without the factor.
        says: the scores in words.
        factor: the right factor of the scores.
        named: the name of the factor, as in ``1/sqrt(d_k) = ``.
        allowed: where a weight may be above zero; everywhere if left out.
    """
    weights, scores = np.asarray(weights, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    usable = (weights > 1e-200) & (True if allowed is None else allowed)
    count = np.maximum(usable.sum(axis=-1, keepdims=True), 1)

    def centred(x: Array) -> Array:
        x = np.where(usable, x, 0.0)
        return np.where(usable, x - x.sum(axis=-1, keepdims=True) / count, 0.0)

    logs, spread = centred(np.log(np.maximum(weights, 1e-200))), centred(scores)
    size = float((spread**2).sum())
    if size < 1e-12 or np.allclose(logs, factor * spread, rtol=1e-3, atol=1e-3):
        return None
    found = float((logs * spread).sum()) / size
    ratios = int(np.maximum(usable.sum(axis=-1) - 1, 0).sum())
    if ratios > 1 and np.allclose(logs, found * spread, rtol=1e-3, atol=1e-4):
        if abs(found) < 1e-2 * abs(factor):
            return f"your weights hardly follow {says}: each row is nearly uniform"
        right = f"the factor should be {named}{factor:.4g}"
        return f"your weights are the softmax of {says} times {found:.4g}; {right}"
    row = np.unravel_index(np.argmax(np.ptp(logs - factor * spread, axis=-1)), logs.shape[:-1])
    off = np.where(usable[row], (logs - factor * spread)[row], np.nan)
    i, j = sorted((int(np.nanargmax(off)), int(np.nanargmin(off))))
    wanted = float(factor * (spread[row][i] - spread[row][j]))
    if abs(wanted) > 30:
        return None
    place = f" of row {[int(n) for n in row]}" if row else ""
    scaled = says if factor == 1 and not named else f"{says} times {named}{factor:.4g}"
    return (
        f"weights {i} and {j}{place} have the ratio {weights[row][i] / weights[row][j]:.3g}; by exp(s_{i} - "
        f"s_{j}) with s = {scaled} it should be {np.exp(wanted):.3g}"
    )


def added_to_the_sum(got: Array, right: Array, total: Array) -> str | None:
    """Report results that were divided by `total` plus a power of ten, such as 1e-8; None if they were not.

    Args:
        got: the returned results.
        right: the right results.
        total: the sums of exponentials that should divide them.
    """
    got, right = np.asarray(got, dtype=np.float64), np.asarray(right, dtype=np.float64)
    strong = np.abs(right) > 1e-2
    added = (total * (right / got - 1))[strong]
    if not added.size or not added.min() > 0:
        return None
    epsilon = 10.0 ** np.round(np.log10(added[0]))
    if epsilon > 1e-2 or not np.allclose(added, epsilon, rtol=1e-2, atol=0):
        return None
    return (
        f"{epsilon:.0e} is added to the sum of the exponentials, so the weights do not quite sum to 1; with "
        "the maximum subtracted the sum is at least 1 and needs no protection"
    )


def whence(value: Any, expected: Any, source: Any, axes: tuple[str, ...]) -> str | None:
    """Name the source of the first misplaced number of a result, and the right source.

    It is for exercises that move numbers and compute none.

    Args:
        value: the returned result.
        expected: the right result.
        source: the argument whose numbers are moved.
        axes: a name for one entry of each of its axes, such as ("sequence", "token", "channel").
    """
    got, right, numbers = map(tensors.numbers, (value, expected, source))
    wrong = got != right
    if not wrong.any():
        return None
    first = tuple(np.argwhere(wrong)[0])
    here, there = np.argwhere(numbers == got[first]), np.argwhere(numbers == right[first])
    if len(here) != 1 or len(there) != 1:
        return None
    taken, wanted = (
        " of ".join(f"{axis} {place}" for axis, place in reversed(list(zip(axes, found[0], strict=True))))
        for found in (here, there)
    )
    return f"the result{index(wrong)} holds {taken}; {wanted} belongs there"


def differentiated(cases: Cases) -> Cases:
    """Return the same cases, which observe the gradients of the floating tensors."""
    return _probed(cases, "gradients")


def elsewhere(cases: Cases) -> Cases:
    """Return the same cases with inputs as if on a graphics card, for the test `on_any_device`."""
    return _probed(cases, "elsewhere")


def _probed(cases: Cases, probe: str) -> Cases:
    def drawn(rng: np.random.Generator) -> Iterator[Case]:
        for case in cases(rng):
            yield replace(case, probe=probe if case.probe == "call" else f"{case.probe}_{probe}")

    return drawn


def on_any_device(trial: Trial) -> str | None:
    """Check that no tensor is made on the cpu and then combined with the input."""
    cure = "; make new tensors with `device=x.device`" if "made" in str(trial.value) else ""
    if cure and trial.case.probe.startswith("module"):
        cure += ", and hand a table that `__init__` makes to `self.register_buffer`"
    return f"with inputs on another device than the cpu: {trial.value}{cure}" if trial.value else None


def as_close(got: Any, expected: Any, case: Case) -> bool:
    """Compare by closeness, as an exercise's `same`: a mistake must then explain the core and the failure.

    It is for exercises where other failures show little of their cause: no gradient reaches x, whether
    the result is cut off from it or a result is missing.
    """
    return differs(got, expected, case.tolerance) is None


def of_weights(case: Case) -> bool:
    """Return whether the first argument holds weights, which sum to 1 or 0 along the axis (a domain)."""
    sums = tensors.numbers(case.args[0]).sum(axis=case.kwargs.get("axis", -1))
    return bool(np.all((np.abs(sums - 1) < 1e-6) | (sums == 0)))


FIRST = (
    Property("results are finite", _of_each(_finite)),
    Property("the same call gives the same result", repeatable),
    Property("nothing is rounded", _of_each(_rounded)),
    Property("results are as precise as their dtype", _of_each(_imprecise)),
)
"""Laws that explain more than any other law: an exercise lists them before its own."""

LAST = (
    Property("nothing passes through half precision", _of_each(_narrow)),
    Property("no factor is missing", _of_each(_factor)),
    Property("signs are right", _of_each(_signs)),
    Property("nothing is added", _of_each(_offset)),
    Property("numbers are in their places", _of_each(_places)),
    Property("no entry is used for all", _of_each(_first_only)),
)
"""Laws about any wrong result: an exercise lists them after its own."""
