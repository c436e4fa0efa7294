"""ch02_qkv/soft_lookup: a dictionary whose keys match by degree."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops


def drawn(rng: np.random.Generator, n: int, d: int, d_v: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query (d,), keys (n, d) and values (n, d_v), values well apart."""
    return rng.normal(size=d), rng.normal(size=(n, d)), 3 * rng.normal(size=(n, d_v))


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 entries, temperature 2", (*drawn(rng, n=3, d=2, d_v=4), 2.0))
    yield Case("5 entries, temperature 0.5", (*drawn(rng, n=5, d=4, d_v=3), 0.5))
    yield Case("temperature 1, values of width 1", (*drawn(rng, n=4, d=3, d_v=1), 1.0))
    yield Case("keys of a single number", (*drawn(rng, n=5, d=1, d_v=3), 1.2))
    yield Case("an integer temperature", (*drawn(rng, n=7, d=5, d_v=2), 3))
    yield Case("a single entry", (*drawn(rng, n=1, d=3, d_v=2), 0.7))
    yield Case("60 entries", (*drawn(rng, n=60, d=6, d_v=5), 1.5))
    narrow = (a.astype(np.float32) for a in drawn(rng, n=6, d=3, d_v=4))
    yield Case("float32", (*narrow, 1.3))
    query, keys, values = drawn(rng, n=4, d=6, d_v=2)
    yield Case("strided arrays", (strided(query), strided(keys), strided(values), 1.7))


def with_a_clear_best(query: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The keys, the third of them now ahead of all others by a score of 1."""
    keys = keys.copy()
    keys[2] = keys[np.argmax(keys @ query)] + query / (query @ query)
    return keys


def extreme(rng: np.random.Generator) -> Iterator[Case]:
    query, keys, values = drawn(rng, n=4, d=3, d_v=2)
    keys = with_a_clear_best(query, keys)
    yield Case("temperature 1e-4", (query, keys, values, 1e-4))
    yield Case("temperature 1e-4, all keys far from the query", (query, keys - 20 * query, values, 1e-4))
    yield Case("temperature 1e6", (*drawn(rng, n=5, d=2, d_v=3), 1e6))
    query, keys, values = drawn(rng, n=5, d=4, d_v=3)
    yield Case("temperature 1e-4, scores as close", (1e-4 * query, keys, values, 1e-4))
    yield Case("temperature 1e6, scores as large", (1e6 * query, keys, values, 1e6))
    query, keys, values = drawn(rng, n=6, d=4, d_v=5)
    keys = with_a_clear_best(query, keys)
    keys[4] = keys[2]
    yield Case("two best keys alike at temperature 1e-4", (query, keys, values, 1e-4))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 entries to nine digits", (*drawn(rng, n=4, d=3, d_v=2), 0.8))
    yield Case("7 entries to nine digits", (*drawn(rng, n=7, d=2, d_v=5), 1.6))


def refused(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("temperature 0", (*drawn(rng, n=3, d=2, d_v=4), 0.0))
    yield Case("temperature -0.5", (*drawn(rng, n=4, d=5, d_v=2), -0.5))
    yield Case("a whole temperature of 0", (*drawn(rng, n=5, d=2, d_v=3), 0))
    yield Case("temperature -2", (*drawn(rng, n=2, d=4, d_v=3), -2))


def inside_the_values(trial: Trial) -> str | None:
    values = trial.case.args[2]
    low, high = values.min(axis=0), values.max(axis=0)
    got = np.asarray(trial.value)
    slack = 1e-3 * (1 + np.abs(values).max())
    outside = np.flatnonzero((got < low - slack) | (got > high + slack))
    if not outside.size:
        return None
    j = int(outside[0])
    return (
        f"component {j} is {got[j]:.4g}, but all values have it between {low[j]:.4g} and {high[j]:.4g}; "
        "weights that sum to 1 give a mean, which stays between"
    )


def same_value_everywhere(trial: Trial) -> str | None:
    query, keys, values, temperature = trial.case.args
    same = np.ones_like(values)
    got = np.asarray(trial.call(Case("every value 1", (query, keys, same, temperature))).value)
    if near(got, np.ones_like(got)):
        return None
    return f"when every value is 1 you return {got.ravel()[0]:.4g}: your weights do not sum to 1"


def nothing_added(trial: Trial) -> str | None:
    query, keys, _, temperature = trial.case.args
    scores = keys @ query / temperature
    return added_to_the_sum(trial.value, trial.expected, np.exp(scores - scores.max()).sum())


def proportions(trial: Trial) -> str | None:
    """The weights, read off by looking up unit vectors."""
    query, keys, _, temperature = trial.case.args
    units = np.eye(len(keys))
    weights = np.asarray(trial.call(Case("unit vectors", (query, keys, units, temperature))).value)
    return not_softmax(weights, keys @ query, "key . query", 1 / temperature, "1/temperature = ")


def sharper_when_colder(trial: Trial) -> str | None:
    query, keys, values, temperature = trial.case.args
    best = values[np.argmax(keys @ query)]
    warm, cold = (
        np.asarray(trial.call(Case("colder", (query, keys, values, t))).value) for t in (temperature, 1e-2)
    )
    if temperature > 0.1 and np.abs(cold - best).max() > np.abs(warm - best).max() + 1e-3:
        return "a lower temperature moves the result away from the best key's value; it should move closer"
    return None


EXERCISE = Exercise(
    name="ch02_qkv/soft_lookup",
    signature="soft_lookup(query, keys, values, temperature)",
    goal="Return the mean of the values, weighted by softmax(keys . query / temperature).",
    section="The idea",
    reference=ops.soft_lookup,
    criteria=(
        Criterion("the weighted mean of the values", 1.25, ordinary, tolerance=3e-5),
        Criterion("temperatures from 1e-4 to 1e6", 0.5, extreme, tolerance=3e-5),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("a ValueError for a temperature that is not positive", 0.5, refused),
        Criterion("the inputs are left as they were", 0.5, ordinary, observes="arguments"),
    ),
    properties=(
        Property("nothing is added to the sum", nothing_added),
        *FIRST,
        Property("weights sum to 1", same_value_everywhere),
        Property("weights are in proportion to the exponentials of scores over the temperature", proportions),
        Property("the result is a mean of the values", inside_the_values),
        Property("colder is sharper", sharper_when_colder),
        *LAST,
    ),
    forbidden=SOFTMAX,
)


@EXERCISE.misconception(
    "You multiply by the temperature, so a high temperature makes the choice sharp. It should blur it: "
    "divide the scores by the temperature.",
    gravity="slip",
)
def multiplied(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query * temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You return the best key's value alone. That is the limit of a very low temperature, and nothing can "
    "be learned through it: weigh all values by softmax.",
    gravity="useless",
)
def hard_argmax(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    return values[np.argmax(keys @ query)]


@EXERCISE.misconception(
    "exp overflows, or underflows to 0/0, when the temperature is small. Subtract the largest score "
    "before exp: the weights stay the same."
)
def unstable(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    weights = np.exp(keys @ query / temperature)
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "Your weights do not sum to 1, so the result is not a mean of the values. Divide them by weights.sum().",
    gravity="useless",
)
def not_normalised(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    return np.exp(scores - scores.max()) @ values


@EXERCISE.misconception("You never use the temperature. Divide the scores by it before softmax.")
def temperature_ignored(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You divide the weights by the temperature, after softmax, so they sum to 1/temperature. Divide the "
    "scores, before softmax."
)
def temperature_after_softmax(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() / temperature @ values


@EXERCISE.misconception(
    "You also divide by sqrt(d), as attention does. Divide by the temperature alone: here it is the whole "
    "scale.",
    gravity="slip",
)
def root_of_d_as_well(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / np.sqrt(len(query)) / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You weigh by score over the sum of scores. Scores can be negative and their sum zero: take the "
    "exponential first, as softmax does.",
    gravity="useless",
)
def no_exponential(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    return scores / scores.sum() @ values


@EXERCISE.misconception(
    "You return the blend of the keys. Keys decide the weights: blend the values, weights @ values."
)
def keys_blended(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ keys


@EXERCISE.misconception(
    "You return the weights. Return the sum of the values, each times its weight: weights @ values.",
    gravity="slip",
)
def weights_returned(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@EXERCISE.misconception(
    "A temperature of zero or below goes through, and the result means nothing. Refuse it: "
    "`if temperature <= 0: raise ValueError(...)`."
)
def no_error(query, keys, values, temperature):
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "You refuse only zero. A negative temperature would prefer the worst key: refuse all that are zero or "
    "below, `if temperature <= 0:`.",
    gravity="slip",
)
def only_zero_refused(query, keys, values, temperature):
    if temperature == 0:
        raise ValueError("temperature must not be zero")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "`assert` raises an AssertionError, and python -O removes it. For a caller's mistake write `raise "
    "ValueError(...)`.",
    gravity="slip",
)
def asserted(query, keys, values, temperature):
    assert temperature > 0, "temperature must be positive"
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.misconception(
    "Your code writes into the caller's arrays, as `keys /= ...` or `values *= ...` does. Make new "
    "arrays, such as keys / temperature."
)
def changed_in_place(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    values *= (weights / weights.sum())[:, None]
    return values.sum(axis=0)


@EXERCISE.misconception(
    "You sum the values times exp(score) and never divide by the sum of the exponentials. Subtract the "
    "largest score, and divide by weights.sum().",
    gravity="useless",
)
def bare_exponentials(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    return np.exp(keys @ query / temperature) @ values


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 in seven digits only. With the maximum subtracted "
    "the sum is at least 1 and needs no protection: divide by the sum alone."
)
def epsilon_in_the_sum(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("the temperature must be positive")
    scores = keys @ query / temperature
    e = np.exp(scores - scores.max())
    return e / (e.sum() + 1e-8) @ values


@EXERCISE.misconception(
    "You refuse only negative temperatures. A temperature of zero divides by zero: refuse it too, `if "
    "temperature <= 0:`.",
    gravity="slip",
)
def only_negative_refused(query, keys, values, temperature):
    if temperature < 0:
        raise ValueError("temperature must not be negative")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values


@EXERCISE.style("scores, softmax, weighted sum")
def textbook(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = keys @ query / temperature
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


@EXERCISE.style("einsum, with softmax as a helper")
def einsum(query, keys, values, temperature):
    def softmax(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    if not temperature > 0:
        raise ValueError(f"expected a temperature above 0, got {temperature}")
    return np.einsum("n,nv->v", softmax(np.einsum("nd,d->n", keys, query) / temperature), values)


@EXERCISE.style("entry by entry, in plain Python, in float64")
def entry_by_entry(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = [float(np.dot(key, query)) / temperature for key in keys]
    best = max(scores)
    weights = [math.exp(s - best) for s in scores]
    result = np.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        result += weight * value
    return result / sum(weights)


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(query, keys, values, temperature):
    if temperature <= 0.0:
        raise ValueError("temperature must be positive")
    scores = np.float64(1) * keys @ query / temperature
    log_weights = scores - np.logaddexp.reduce(scores)
    return np.sum(np.exp(log_weights)[:, None] * values, axis=0)


@EXERCISE.style("the query cooled first, np.average")
def query_cooled(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError("temperature must be positive")
    scores = np.inner(keys, query / temperature)
    return np.average(values, axis=0, weights=np.exp(scores - np.amax(scores)))
