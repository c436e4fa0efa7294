"""ch03_scaling/attention_entropy: how widely a query spreads its attention."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, index, of_weights
from tfcore import scaling

Array = np.ndarray

ROUGHLY = 1e-4
"""What the first criteria allow for, so that a small bias costs its own points and no others."""


def weights(rng: np.random.Generator, *shape: int, axis: int = -1) -> Array:
    """Probabilities along an axis, all of them well above zero."""
    drawn = rng.uniform(0.1, 1.0, size=shape)
    result: Array = drawn / drawn.sum(axis=axis, keepdims=True)
    return result


def with_zeros(rng: np.random.Generator, *shape: int) -> Array:
    """Probabilities along the last axis, with two zeros in every row."""
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
        return f"an entropy is {got[low][0]:.3g}{index(low)}; none is negative, since -ln p is not"
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
    """Where NaN stands for the entropy of those rows alone that hold a zero."""
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
    reference=scaling.attention_entropy,
    criteria=(
        Criterion("the entropy of each row, in nats", 1.5, positive, test=roughly),
        Criterion("weights of zero count nothing", 1, zeros, test=roughly),
        Criterion("any axis that is asked for", 0.5, other_axes, test=roughly),
        Criterion("no bias from an epsilon", 0.5, accurate),
        Criterion("the input is left as it was", 0.5, all_of_them, observes="arguments"),
    ),
    properties=(
        Property("0 ln 0 is 0", counts_zeros_as_zero),
        *FIRST[:3],
        Property("entropies are in nats", in_nats),
        Property("no epsilon biases", unbiased),
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


@EXERCISE.misconception(
    "A row that holds a zero gives NaN. 0 * log 0 is NaN, and np.log(..., where=...) without `out` leaves "
    "memory that was never written. Write np.log(np.where(weights > 0, weights, 1))."
)
def nan_at_zero(weights, axis=-1):
    return -(weights * np.log(weights)).sum(axis=axis)


@EXERCISE.misconception("You use log2, which gives bits. Return nats: np.log.", gravity="slip")
def in_bits(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log2(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "The minus sign is missing. The logarithm of a weight is negative, the entropy is not: return -sum p "
    "ln p.",
    gravity="slip",
)
def no_minus(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return (weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "An epsilon inside the logarithm biases every row, and makes a one-hot row negative. Replace only the "
    "zeros: np.log(np.where(weights > 0, weights, 1)).",
    gravity="slip",
)
def epsilon_in_the_logarithm(weights, axis=-1):
    return -(weights * np.log(weights + 1e-8)).sum(axis=axis)


@EXERCISE.misconception(
    "An epsilon of 0.001 is larger than many weights. Replace only the zeros: np.log(np.where(weights > "
    "0, weights, 1)).",
    gravity="slip",
)
def large_epsilon(weights, axis=-1):
    return -(weights * np.log(weights + 1e-3)).sum(axis=axis)


@EXERCISE.misconception("You always sum over the last axis. Use the `axis` that was passed: .sum(axis=axis).")
def axis_ignored(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=-1)


@EXERCISE.misconception(
    "You sum over all rows, as weights[weights > 0] does too, since it makes one long row. Each query has "
    "an entropy of its own: keep the shape, with np.where, and sum along `axis` only."
)
def one_sum_for_all(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum()


@EXERCISE.misconception(
    "You take the mean over the keys. Entropy is a sum, since the weights are the average already: write "
    ".sum(axis=axis)."
)
def mean_over_keys(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).mean(axis=axis)


@EXERCISE.misconception(
    "Your result has an axis of size 1 too many, as keepdims=True leaves it. Return the shape of the "
    "weights without `axis`: leave keepdims out.",
    gravity="slip",
)
def axis_kept(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis, keepdims=True)


@EXERCISE.misconception(
    "You divide by ln n, so that the result is between 0 and 1. Return the entropy itself, in nats."
)
def divided_by_its_maximum(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis) / max(np.log(weights.shape[axis]), 1e-9)


@EXERCISE.misconception("You return exp of the entropy, the perplexity. Leave out the exp.", gravity="slip")
def perplexity(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return np.exp(-(weights * np.log(safe)).sum(axis=axis))


@EXERCISE.misconception(
    "You sum the logarithms without the weights. Multiply each logarithm by its weight: weights * "
    "np.log(...)."
)
def logarithms_not_weighted(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -np.log(safe).sum(axis=axis)


@EXERCISE.misconception(
    "Your code writes into the caller's weights, as weights[weights == 0] = 1 does. Use np.where, which "
    "makes a new array."
)
def zeros_replaced_in_place(weights, axis=-1):
    entropy = -np.nan_to_num(weights * np.log(weights)).sum(axis=axis)
    weights[weights == 0] = 1
    return entropy


@EXERCISE.misconception(
    "You sum along axis 0 when no axis is passed. The default is the last axis: write `def "
    "attention_entropy(weights, axis=-1)`.",
    gravity="slip",
)
def default_axis_0(weights, axis=0):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "You sum over all axes when no axis is passed. The default is the last axis: write `def "
    "attention_entropy(weights, axis=-1)`.",
    gravity="slip",
)
def default_axis_none(weights, axis=None):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)


@EXERCISE.misconception(
    "You always sum along axis 1. Use the `axis` that was passed, the last one unless the caller says "
    "otherwise."
)
def always_axis_1(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=1)


@EXERCISE.misconception(
    "You always sum along axis 0. Use the `axis` that was passed, the last one unless the caller says "
    "otherwise."
)
def always_axis_0(weights, axis=-1):
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=0)


@EXERCISE.misconception(
    "You unpack weights.shape into two sizes, so your code takes a matrix only. Sum along `axis`, which "
    "fits any number of axes and needs no sizes."
)
def unpacks_two_sizes(weights, axis=-1):
    _queries, _keys = weights.shape
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=axis)


@EXERCISE.style("zeros replaced by 1 inside the logarithm")
def ones_for_zeros(weights, axis=-1):
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)), axis=axis)


@EXERCISE.style("NaN to zero")
def nan_to_zero(weights, axis=-1):
    return -np.nan_to_num(weights * np.log(weights)).sum(axis)


@EXERCISE.style("a masked array")
def masked_array(weights, axis=-1):
    terms = weights * np.ma.log(weights)
    return -terms.filled(0.0).sum(axis=axis)


@EXERCISE.style("np.log with out and where, in float64")
def log_where(weights, axis=-1):
    p = weights.astype(np.float64)
    log = np.zeros_like(p)
    np.log(p, out=log, where=p != 0)
    return -np.einsum("...k,...k->...", np.moveaxis(p, axis, -1), np.moveaxis(log, axis, -1))


@EXERCISE.style("row by row with math.log")
def row_by_row(weights, axis=-1):
    def entropy(row):
        return sum(-p * math.log(p) for p in row.tolist() if p > 0)

    return np.apply_along_axis(entropy, axis, weights)


@EXERCISE.style("minus the logarithm of the product of p to the p, since 0 to the 0 is 1")
def product_of_powers(weights, axis=-1):
    return -np.log(np.prod(weights**weights, axis=axis))


@EXERCISE.style("clipped at the smallest number of the dtype")
def clipped(weights, axis=-1):
    tiny = np.finfo(weights.dtype).tiny
    return np.sum(weights * -np.log(np.maximum(weights, tiny)), axis=axis)


@EXERCISE.style("a log-sum-exp: the entropy is the mean of -log p; a float for one row")
def mean_of_surprise(weights, axis=-1):
    surprise = np.zeros(weights.shape)
    surprise[weights > 0] = -np.log(weights[weights > 0])
    entropy = (weights * surprise).sum(axis=axis)
    return float(entropy) if entropy.ndim == 0 else entropy
