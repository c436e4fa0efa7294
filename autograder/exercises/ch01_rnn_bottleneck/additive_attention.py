"""ch01_rnn_bottleneck/additive_attention: a query looks back at every state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.attention_laws import MaskedAttention, float32
from autograder.exercises.draw_masks import one_of_each_row
from autograder.exercises.laws import FIRST, LAST, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import bottleneck

Array = np.ndarray


def drawn(
    rng: np.random.Generator, B: int, T: int, d_q: int, d_k: int, d_v: int, d_a: int
) -> tuple[Array, ...]:
    """Draw query (B, d_q), keys (B, T, d_k), values (B, T, d_v), W_q, W_k and v, with moderate scores."""
    return (
        rng.normal(size=(B, d_q)),
        rng.normal(size=(B, T, d_k)),
        rng.normal(size=(B, T, d_v)),
        rng.normal(size=(d_q, d_a)) / np.sqrt(d_q),
        rng.normal(size=(d_k, d_a)) / np.sqrt(d_k),
        rng.normal(size=d_a),
    )


def with_levels(arrays: tuple[Array, ...], signs: Array, level: float) -> tuple[Array, ...]:
    """Add one hidden unit, which adds `level` times `signs` (B, T) to the scores."""
    query, keys, values, W_q, W_k, v = arrays
    d_k, d_a = W_k.shape
    wider = np.zeros((d_k + 1, d_a + 1))
    wider[:d_k, :d_a] = W_k
    wider[d_k, d_a] = 1.0
    keys = np.concatenate([keys, 50.0 * signs[..., None]], axis=-1)  # tanh(50) is 1 to the last bit
    return query, keys, values, np.pad(W_q, ((0, 0), (0, 1))), wider, np.append(v, level)


def some_of_each_row(rng: np.random.Generator, B: int, T: int) -> Array:
    """Draw a mask (B, T) in which every row allows at least one key and forbids at least one."""
    mask = rng.random((B, T)) < 0.6
    for row in mask:
        allowed, forbidden = rng.permutation(T)[:2]
        row[allowed], row[forbidden] = True, False
    return mask


def unmasked(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 sequences of 3 keys", drawn(rng, B=2, T=3, d_q=4, d_k=5, d_v=6, d_a=7))
    sizes = (int(n) for n in rng.permutation(np.arange(2, 10))[:6])
    yield Case("any sizes", drawn(rng, *sizes))
    yield Case("a single sequence", drawn(rng, B=1, T=4, d_q=3, d_k=2, d_v=5, d_a=6))
    yield Case("queries of a single number", drawn(rng, B=2, T=4, d_q=1, d_k=3, d_v=6, d_a=5))
    yield Case("keys of a single number", drawn(rng, B=3, T=2, d_q=4, d_k=1, d_v=5, d_a=7))
    yield Case("a single key", drawn(rng, B=3, T=1, d_q=2, d_k=4, d_v=6, d_a=5))
    yield Case("values of width 1", drawn(rng, B=2, T=5, d_q=6, d_k=3, d_v=1, d_a=4))
    yield Case("a single hidden unit", drawn(rng, B=4, T=3, d_q=5, d_k=6, d_v=2, d_a=1))
    yield Case("60 keys", drawn(rng, B=2, T=60, d_q=4, d_k=3, d_v=5, d_a=6))
    yield Case("float32", float32(drawn(rng, B=3, T=6, d_q=7, d_k=4, d_v=2, d_a=5)))
    yield Case(
        "strided arrays, no mask", tuple(map(strided, drawn(rng, B=4, T=7, d_q=3, d_k=6, d_v=5, d_a=2)))
    )


def masked(rng: np.random.Generator) -> Iterator[Case]:
    arrays = drawn(rng, B=2, T=4, d_q=3, d_k=6, d_v=5, d_a=7)
    yield Case("a mask (B, T)", arrays, {"mask": some_of_each_row(rng, 2, 4)})
    yield Case("a mask that allows everything", arrays, {"mask": np.ones((2, 4), dtype=bool)})
    arrays = drawn(rng, B=3, T=8, d_q=5, d_k=4, d_v=2, d_a=6)
    lengths = rng.integers(2, 7, size=(3, 1))
    yield Case("padding at the end", arrays, {"mask": np.arange(8) < lengths})
    arrays = float32(drawn(rng, B=4, T=5, d_q=2, d_k=3, d_v=6, d_a=8))
    yield Case("float32, a mask by position", (*arrays, some_of_each_row(rng, 4, 5)))
    arrays = tuple(map(strided, drawn(rng, B=3, T=6, d_q=4, d_k=2, d_v=7, d_a=5)))
    yield Case("strided arrays, a strided mask", arrays, {"mask": strided(some_of_each_row(rng, 3, 6))})
    arrays = drawn(rng, B=1, T=5, d_q=3, d_k=4, d_v=2, d_a=6)
    yield Case("a mask for a single sequence", arrays, {"mask": some_of_each_row(rng, 1, 5)})


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with rows that allow nothing or one key: the right weights do not depend on scores."""
    arrays = drawn(rng, B=2, T=3, d_q=4, d_k=6, d_v=5, d_a=7)
    yield Case("no query may attend", arrays, {"mask": np.zeros((2, 3), dtype=bool)})
    mask = one_of_each_row(rng, 4, 5)
    mask[rng.integers(4)] = False
    yield Case(
        "one sequence is all padding", drawn(rng, B=4, T=5, d_q=3, d_k=2, d_v=7, d_a=6), {"mask": mask}
    )
    mask = one_of_each_row(rng, 5, 4)
    mask[[1, 3]] = False
    arrays = float32(drawn(rng, B=5, T=4, d_q=6, d_k=3, d_v=2, d_a=8))
    yield Case("float32, two sequences are all padding", arrays, {"mask": mask})


def large(rng: np.random.Generator) -> Iterator[Case]:
    every = np.ones((2, 4))
    arrays = drawn(rng, B=2, T=4, d_q=5, d_k=6, d_v=3, d_a=7)
    yield Case("scores around 10,000", with_levels(arrays, every, 1e4))
    *others, v = drawn(rng, B=3, T=5, d_q=4, d_k=6, d_v=2, d_a=7)
    yield Case("scores thousands apart", (*others, 1e4 * v))
    *others, v = float32(drawn(rng, B=3, T=6, d_q=2, d_k=5, d_v=4, d_a=8))
    yield Case("float32, thousands apart", (*others, np.float32(1e4) * v))
    arrays = drawn(rng, B=2, T=4, d_q=3, d_k=5, d_v=7, d_a=8)
    up_and_down = np.array([[1.0], [-1.0]]) * every
    yield Case("two sequences with scores far apart", with_levels(arrays, up_and_down, 1e4))
    arrays, mask = drawn(rng, B=2, T=4, d_q=6, d_k=7, d_v=3, d_a=4), some_of_each_row(rng, 2, 4)
    yield Case("a mask, scores around -10,000", with_levels(arrays, -every, 1e4), {"mask": mask})
    arrays, mask = drawn(rng, B=3, T=5, d_q=2, d_k=6, d_v=4, d_a=8), some_of_each_row(rng, 3, 5)
    forbidden_higher = with_levels(arrays, np.where(mask, -1.0, 1.0), 1e4)
    yield Case("masked keys that score 20,000 more", forbidden_higher, {"mask": mask})


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 keys to nine digits", drawn(rng, B=2, T=3, d_q=4, d_k=6, d_v=5, d_a=7))
    arrays = drawn(rng, B=3, T=5, d_q=2, d_k=4, d_v=7, d_a=6)
    yield Case("a mask, to nine digits", arrays, {"mask": some_of_each_row(rng, 3, 5)})


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from unmasked(rng)
    yield from masked(rng)
    yield from empty_rows(rng)
    yield from large(rng)


def _scores(trial: Trial) -> Array:
    """Return the scores (B, T) without the mask, in float64."""
    query, keys, _, W_q, W_k, v = (np.asarray(a, dtype=np.float64) for a in trial.case.args[:6])
    return np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v


ATTENTION = MaskedAttention(output="context", mask_at=6, scores=_scores)


def sums_to_one(trial: Trial) -> str | None:
    if (found := ATTENTION.first_wrong_sum(trial)) is None:
        return None
    wrong, total = found
    return f"the weights of sequence {wrong.argmax()} sum to {total:.3g}; weights sum to 1 over the keys"


def another_query(trial: Trial) -> str | None:
    """Check that the query changes the weights, through tanh alone."""
    query, *rest = trial.case.args
    _, weights, _, mask = ATTENTION.parts(trial)
    if mask.sum(axis=-1).max() < 2 or np.abs(rest[-1]).max() > 100:
        return None
    other = Case("another query", (1 - query, *rest), trial.case.kwargs)
    right = bottleneck.additive_attention(*other.args, **other.kwargs)[1]
    moved, should = np.asarray(trial.call(other).value[1]) - weights, right - trial.expected[1]
    if np.abs(moved).max() > 1e-9 or np.abs(should).max() < 1e-3:
        return None
    return (
        "another query gets the same weights; in v . tanh(q W_q + k W_k) the query must meet the key inside "
        "tanh, or its part is the same for all keys and cancels in softmax"
    )


def proportions(trial: Trial) -> str | None:
    _, weights, _, mask = ATTENTION.parts(trial)
    return not_softmax(weights, _scores(trial), "v . tanh(q W_q + k W_k)", 1.0, allowed=mask)


def context_is_weights_times_values(trial: Trial) -> str | None:
    context, weights, values, _ = ATTENTION.parts(trial)
    if near(weights, trial.expected[1]) and not near(context, np.einsum("bt,btd->bd", weights, values)):
        return "your weights are right, but your context is not the sum of the values, each times its weight"
    if near(context, trial.expected[0]) and not near(weights, trial.expected[1]):
        return "your context is right, but the weights that you return are not the weights that made it"
    return None


def sequences_are_apart(trial: Trial) -> str | None:
    """Check that the last sequence alone has the weights that it has in the batch."""
    last, mask = len(trial.case.args[0]) - 1, ATTENTION.mask(trial)
    if not last:
        return None
    arrays = tuple(np.array(a[last:]) for a in trial.case.args[:3])
    its_mask = None if mask is None else mask[last:].copy()
    alone = Case("the last sequence alone", (*arrays, *trial.case.args[3:6]), {"mask": its_mask})
    weights, in_batch = np.asarray(trial.call(alone).value[1])[0], np.asarray(trial.value[1])[last]
    if near(weights, in_batch):
        return None
    t = int(np.abs(weights - in_batch).argmax())
    return (
        f"weight {t} of sequence {last} is {in_batch[t]:.3g} in the batch and {weights[t]:.3g} alone; the "
        "sequences of a batch do not affect each other"
    )


EXERCISE = Exercise(
    name="ch01_rnn_bottleneck/additive_attention",
    signature="additive_attention(query, keys, values, W_q, W_k, v, mask=None)",
    goal="Give each query the mean of the values, weighted by softmax of v . tanh(q W_q + k W_k).",
    section="Looking back",
    minutes=25,
    difficulty="medium",
    reference=bottleneck.additive_attention,
    criteria=(
        Criterion("context and weights without a mask", 2.25, unmasked, tolerance=3e-5),
        Criterion("a mask: True means may attend", 1.5, masked, tolerance=3e-5),
        Criterion("a query that may attend to nothing gets zeros", 1, empty_rows, tolerance=3e-5),
        Criterion("scores as large as 10,000", 0.5, large, tolerance=2e-3),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.5, everything, observes="arguments"),
    ),
    properties=(
        Property("the mask comes before softmax", ATTENTION.masked_before_softmax),
        Property("an empty row gives zeros", ATTENTION.zero_where_nothing_is_allowed),
        Property("nothing is added to the sum", ATTENTION.nothing_added),
        Property("every weight is written", ATTENTION.something_written_everywhere),
        *FIRST,
        Property("the context is the weighted sum of the values", context_is_weights_times_values),
        Property("weights sum to 1 over the keys", sums_to_one),
        Property("forbidden keys get nothing", ATTENTION.nothing_to_forbidden_keys),
        Property("allowed keys get something", ATTENTION.something_to_allowed_keys),
        Property("the query has an effect", another_query),
        Property("sequences do not mix", sequences_are_apart),
        Property("weights are in proportion to the exponentials of the scores", proportions),
        Property("the context is between the values", ATTENTION.inside_the_values),
        *LAST,
    ),
    forbidden=SOFTMAX,
)
