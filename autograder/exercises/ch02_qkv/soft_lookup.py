"""ch02_qkv/soft_lookup: a dictionary whose keys match by degree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops


def drawn(rng: np.random.Generator, n: int, d: int, d_v: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a query (d,), keys (n, d) and values (n, d_v), values well apart."""
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
    """Return the keys with the third ahead of all others by a score of 1."""
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
    yield Case("temperature 1e-4, scores 1e-4 apart", (1e-4 * query, keys, values, 1e-4))
    yield Case("temperature 1e6, scores of about 1e6", (1e6 * query, keys, values, 1e6))
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
    yield Case("an integer temperature of 0", (*drawn(rng, n=5, d=2, d_v=3), 0))
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
        f"component {j} is {got[j]:.4g}, but in all values it is between {low[j]:.4g} and {high[j]:.4g}; "
        "weights that sum to 1 give a mean, which is between them"
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
    """Check the proportions of the weights, read off by looking up unit vectors."""
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
    minutes=15,
    difficulty="medium",
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
        Property("cooling sharpens", sharper_when_colder),
        *LAST,
    ),
    forbidden=SOFTMAX,
)
