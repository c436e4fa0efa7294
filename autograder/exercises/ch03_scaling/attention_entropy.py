"""ch03_scaling/attention_entropy: how widely a query spreads its attention."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, index, of_weights
from tfcore import scaling

Array = np.ndarray
ROUGHLY = 1e-4
"""The tolerance of the first criteria: a small bias costs the points of its own criterion and no others."""


def weights(rng: np.random.Generator, *shape: int, axis: int = -1) -> Array:
    """Draw probabilities along an axis, all of them well above zero."""
    drawn = rng.uniform(0.1, 1.0, size=shape)
    result: Array = drawn / drawn.sum(axis=axis, keepdims=True)
    return result


def with_zeros(rng: np.random.Generator, *shape: int) -> Array:
    """Draw probabilities along the last axis, with two zeros in every row."""
    drawn = rng.uniform(0.1, 1.0, size=shape)
    drawn[..., :2] = 0
    drawn = rng.permuted(drawn, axis=-1)
    result: Array = drawn / drawn.sum(axis=-1, keepdims=True)
    return result


def positive(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 weights", (weights(rng, 3),))
    yield Case("2 rows of 5 weights", (weights(rng, 2, 5),))
    yield Case("shape (2, 3, 4)", (weights(rng, 2, 3, 4),))
    yield Case("5 equal weights", (np.full(5, 0.2),))
    yield Case("rows of a single weight", (np.ones((4, 1)),))
    yield Case("80 weights", (weights(rng, 80),))
    yield Case("float32 weights", (weights(rng, 3, 6).astype(np.float32),))
    yield Case("strided weights", (strided(weights(rng, 5, 4)),))
    yield Case("shape (2, 1, 5, 3)", (weights(rng, 2, 1, 5, 3),))


def zeros(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("all weight on one key", (np.eye(3)[rng.integers(3)],))
    yield Case("2 rows of 5 with zeros", (with_zeros(rng, 2, 5),))
    yield Case("one-hot rows", (np.eye(4)[rng.integers(4, size=3)],))
    yield Case("a causal mask", (np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None],))
    yield Case("float32 with zeros", (with_zeros(rng, 3, 6).astype(np.float32),))
    yield Case("a query that attends to nothing", (np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]),))


def other_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("axis 0 of (3, 5)", (weights(rng, 3, 5, axis=0),), {"axis": 0})
    yield Case("axis 1 of (2, 4, 3)", (weights(rng, 2, 4, 3, axis=1),), {"axis": 1})
    yield Case("axis 0 of one row", (weights(rng, 4),), {"axis": 0})
    yield Case("axis 0 of (2, 3, 1, 4)", (weights(rng, 2, 3, 1, 4, axis=0),), {"axis": 0})
    yield Case("axis by position", (weights(rng, 4, 2, axis=0), 0))
    narrow = weights(rng, 3, 7, axis=0).astype(np.float32)
    yield Case("float32, axis -2", (narrow,), {"axis": -2})
    yield Case("axis -2 of (4, 5, 2)", (weights(rng, 4, 5, 2, axis=-2),), {"axis": -2})
    yield Case("axis -3, strided", (strided(weights(rng, 6, 2, 3, axis=0)),), {"axis": -3})


def accurate(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 weights", (weights(rng, 4),))
    yield Case("3 rows of 120 weights", (weights(rng, 3, 120),))
    yield Case("one-hot rows", (np.eye(6)[rng.integers(6, size=2)],))
    tiny = np.array([1 - 4e-7, 1e-7, 3e-7])
    yield Case("tiny weights", (rng.permutation(tiny),))


def all_of_them(rng: np.random.Generator) -> Iterator[Case]:
    yield from positive(rng)
    yield from zeros(rng)


def roughly(trial: Trial) -> str | None:
    return differs(trial.value, trial.expected, ROUGHLY)


def _axis(trial: Trial) -> int:
    """Return the axis, given by name or by position."""
    return int((*trial.case.args, trial.case.kwargs.get("axis", -1))[1])


def _sizes(trial: Trial) -> tuple[Array, Array, int]:
    p, axis = trial.case.args[0], _axis(trial)
    return np.asarray(trial.value), np.asarray(trial.expected), p.shape[axis]


def bounded(trial: Trial) -> str | None:
    got, _, n = _sizes(trial)
    if (low := got < -1e-12).any():
        return f"an entropy is {got[low][0]:.3g}{index(low)}; no entropy is negative, since -ln p is never"
    if (high := got > np.log(n) + 1e-4).any():
        most = f"ln {n} = {np.log(n):.4g} nats"
        return f"an entropy is {got[high][0]:.4g}{index(high)}; {n} weights have at most {most}"
    return None


def in_nats(trial: Trial) -> str | None:
    got, right, _ = _sizes(trial)
    for base in (2, 10):
        if np.allclose(got * np.log(base), right, atol=1e-6) and np.abs(right).max() > 1e-3:
            return f"your entropy is in base {base}; nats take the natural logarithm, np.log"
    return None


def counts_zeros_as_zero(trial: Trial) -> str | None:
    """Find results that are NaN in exactly the rows with a zero."""
    p, got = np.asarray(trial.case.args[0]), np.asarray(trial.value)
    holds_zero = (p == 0).any(axis=_axis(trial))
    if not holds_zero.any() or not np.array_equal(np.isnan(got), holds_zero):
        return None
    return (
        f"your entropy is NaN{index(np.isnan(got))}, for each row that holds a zero. Write 0 for 0 ln 0: 0 * "
        "-inf is NaN, and np.log(..., where=...) without `out` never writes that place"
    )


def unbiased(trial: Trial) -> str | None:
    one_hot = Case("one key", (np.array([1.0, 0.0, 0.0]),))
    got = float(np.asarray(trial.call(one_hot).value))
    if not 1e-13 < abs(got) < 0.05:
        return None
    return (
        f"for the weights 1, 0, 0 you return {got:.2g} and not 0: an epsilon inside the logarithm does this. "
        "Leave the weights of zero out instead"
    )


def by_hand(trial: Trial) -> str | None:
    p, axis = np.asarray(trial.case.args[0], dtype=np.float64), _axis(trial)
    got, right, n = _sizes(trial)
    where = np.argwhere(~np.isclose(got, right, rtol=1e-4, atol=1e-6))[0]
    row = np.moveaxis(p, axis, -1)[tuple(where)]
    terms = 0.0 - row * np.log(np.where(row > 0, row, 1))
    if n > 5:
        return None
    weights, shown = (", ".join(f"{x:.3g}" for x in numbers) for numbers in (row, terms))
    return (
        f"for the weights {weights} the terms -p ln p are {shown}; their sum is {terms.sum():.4g}, and you "
        f"return {got[tuple(where)]:.4g}"
    )


EXERCISE = Exercise(
    name="ch03_scaling/attention_entropy",
    signature="attention_entropy(weights, axis=-1)",
    goal="Return the entropy of the weights along `axis`, in nats: -sum p ln p, where 0 ln 0 is 0.",
    section="What goes wrong",
    minutes=15,
    difficulty="medium",
    reference=scaling.attention_entropy,
    criteria=(
        Criterion("the entropy of each row, in nats", 1.5, positive, test=roughly),
        Criterion("weights of zero add nothing", 1, zeros, test=roughly),
        Criterion("any axis that is asked for", 0.5, other_axes, test=roughly),
        Criterion("no bias from an epsilon", 0.5, accurate),
        Criterion("the input is left as it was", 0.5, all_of_them, observes="arguments"),
    ),
    properties=(
        Property("0 ln 0 is 0", counts_zeros_as_zero),
        *FIRST[:3],
        Property("entropies are in nats", in_nats),
        Property("no epsilon bias", unbiased),
        Property("an entropy is between 0 and ln n", bounded),
        *LAST,
        Property("the sum of the terms", by_hand),
        *FIRST[3:],
    ),
    domain=of_weights,
    forbidden=(
        "scipy.stats.entropy",
        "scipy.special.entr",
        "scipy.special.rel_entr",
        "scipy.special.kl_div",
        "torch.special.entr",
        "torch.nn.functional.kl_div",
        "torch.nn.functional.cross_entropy",
        "torch.distributions.*",
    ),
)
