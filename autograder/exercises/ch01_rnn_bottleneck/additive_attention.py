"""ch01_rnn_bottleneck/additive_attention: a query looks back at every state."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, index, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import bottleneck, ops

Array = np.ndarray


def drawn(
    rng: np.random.Generator, B: int, T: int, d_q: int, d_k: int, d_v: int, d_a: int
) -> tuple[Array, ...]:
    """query (B, d_q), keys (B, T, d_k), values (B, T, d_v), W_q, W_k and v; scores in the soft range."""
    return (
        rng.normal(size=(B, d_q)),
        rng.normal(size=(B, T, d_k)),
        rng.normal(size=(B, T, d_v)),
        rng.normal(size=(d_q, d_a)) / np.sqrt(d_q),
        rng.normal(size=(d_k, d_a)) / np.sqrt(d_k),
        rng.normal(size=d_a),
    )


def with_levels(arrays: tuple[Array, ...], signs: Array, level: float) -> tuple[Array, ...]:
    """The same with one more hidden unit, which adds `level` times `signs` (B, T) to the scores."""
    query, keys, values, W_q, W_k, v = arrays
    d_k, d_a = W_k.shape
    wider = np.zeros((d_k + 1, d_a + 1))
    wider[:d_k, :d_a] = W_k
    wider[d_k, d_a] = 1.0
    keys = np.concatenate([keys, 50.0 * signs[..., None]], axis=-1)  # tanh(50) is 1 to the last bit
    return query, keys, values, np.pad(W_q, ((0, 0), (0, 1))), wider, np.append(v, level)


def float32(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a.astype(np.float32) for a in arrays)


def some_of_each_row(rng: np.random.Generator, B: int, T: int) -> Array:
    """A mask in which every row allows at least one key and forbids at least one."""
    mask = rng.random((B, T)) < 0.6
    for row in mask:
        allowed, forbidden = rng.permutation(T)[:2]
        row[allowed], row[forbidden] = True, False
    return mask


def one_of_each_row(rng: np.random.Generator, B: int, T: int) -> Array:
    """A mask in which every row allows a single key."""
    return np.arange(T) == rng.integers(T, size=(B, 1))


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
    """Rows that allow nothing or one key: what is right there does not depend on the scores."""
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


def _mask(trial: Trial) -> Array | None:
    """The mask, given by name or by position."""
    return trial.case.kwargs.get("mask", trial.case.args[6] if len(trial.case.args) > 6 else None)


def _parts(trial: Trial) -> tuple[Array, Array, Array, Array]:
    """The context, the weights, the values and the mask, in full."""
    context, weights = map(np.asarray, trial.value)
    mask = _mask(trial)
    return context, weights, trial.case.args[2], np.ones(weights.shape, dtype=bool) if mask is None else mask


def zero_where_nothing_is_allowed(trial: Trial) -> str | None:
    context, weights, _, mask = _parts(trial)
    empty = ~mask.any(axis=-1, keepdims=True)
    for named, array in (("context holds", context), ("weights hold", weights)):
        wrong = empty & (array != 0)
        if wrong.any():
            return (
                f"a query may attend to nothing, and its {named} {array[wrong][0]:.3g}{index(wrong)}; both "
                "must be zero there"
            )
    return None


def masked_before_softmax(trial: Trial) -> str | None:
    """Where allowed keys have the weights that they have without a mask, the mask comes after softmax.

    The weights say so whatever was written where the mask is False, and whatever became of the context.
    """
    context, weights, _, mask = _parts(trial)
    without = ops.softmax(_scores(trial))
    looked_at = mask & (np.where(mask, 0.0, without).sum(axis=-1, keepdims=True) > 1e-2) & (without > 1e-3)
    if not looked_at.any() or not near(weights[looked_at], without[looked_at]):
        return None
    if near(context, trial.expected[0]):
        return None  # only the weights that are returned are without the mask
    if near(weights, without):
        return (
            "your mask changes nothing: the weights are those without a mask; fill the scores before softmax"
        )
    b, t = (int(n) for n in np.argwhere(looked_at)[0])
    return (
        f"your weight at [{b}, {t}] is {weights[b, t]:.4g}, the same as without a mask: the mask comes after "
        "softmax, and forbidden keys have taken their share. Fill the scores with -inf before softmax"
    )


def something_written_everywhere(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    if mask.all() or not np.array_equal(np.isnan(weights), ~mask):
        return None
    return (
        "your weights are NaN where the mask is False and nowhere else. Write 0 there: np.empty, and "
        "`where=` without `out`, leave what was in memory"
    )


def nothing_to_forbidden_keys(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    wrong = ~mask & (np.abs(weights) > 1e-6)
    if not wrong.any():
        return None
    return (
        f"a weight is {weights[wrong][0]:.3g}{index(wrong)}, where the mask is False; True means: may attend"
    )


def sums_to_one(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    sums = weights.sum(axis=-1)
    wrong = mask.any(axis=-1) & ~(np.abs(sums - 1) < 1e-3)
    if not wrong.any():
        return None
    b = int(wrong.argmax())
    return f"the weights of sequence {b} sum to {sums[b]:.3g}; weights sum to 1 over the keys"


def something_to_allowed_keys(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    wrong = mask & (np.abs(weights) < 1e-9) & (trial.expected[1] > 1e-3)
    if not wrong.any():
        return None
    why = "there is no mask" if _mask(trial) is None else "the mask is True there"
    return f"a weight is 0{index(wrong)}, though {why}; every key that is allowed gets a share"


def another_query(trial: Trial) -> str | None:
    """The query has a say in the weights, through tanh alone."""
    query, *rest = trial.case.args
    _, weights, _, mask = _parts(trial)
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


def _scores(trial: Trial) -> Array:
    query, keys, _, W_q, W_k, v = (np.asarray(a, dtype=np.float64) for a in trial.case.args[:6])
    return np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v


def nothing_added(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    scores = np.where(mask, _scores(trial), -np.inf)
    total = np.exp(scores - scores.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
    return added_to_the_sum(weights, trial.expected[1], total)


def proportions(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    return not_softmax(weights, _scores(trial), "v . tanh(q W_q + k W_k)", 1.0, allowed=mask)


def context_is_weights_times_values(trial: Trial) -> str | None:
    context, weights, values, _ = _parts(trial)
    if near(weights, trial.expected[1]) and not near(context, np.einsum("bt,btd->bd", weights, values)):
        return "your weights are right, but your context is not the sum of the values, each times its weight"
    if near(context, trial.expected[0]) and not near(weights, trial.expected[1]):
        return "your context is right, but the weights that you return are not those that made it"
    return None


def inside_the_values(trial: Trial) -> str | None:
    context, _, values, mask = _parts(trial)
    low, high = values.min(axis=1), values.max(axis=1)
    wrong = mask.any(axis=-1, keepdims=True) & ((context < low - 1e-3) | (context > high + 1e-3))
    if not wrong.any():
        return None
    return (
        f"the context is {context[wrong][0]:.4g}{index(wrong)}, beyond all values; a weighted mean stays "
        "between them"
    )


def sequences_are_apart(trial: Trial) -> str | None:
    """The last sequence by itself gives what it gives in the batch."""
    last, mask = len(trial.case.args[0]) - 1, _mask(trial)
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
        "sequences of a batch know nothing of each other"
    )


EXERCISE = Exercise(
    name="ch01_rnn_bottleneck/additive_attention",
    signature="additive_attention(query, keys, values, W_q, W_k, v, mask=None)",
    goal="Give each query the mean of the values, weighted by softmax of v . tanh(q W_q + k W_k).",
    section="Looking back",
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
        Property("the mask comes before softmax", masked_before_softmax),
        Property("an empty row gives zeros", zero_where_nothing_is_allowed),
        Property("nothing is added to the sum", nothing_added),
        Property("every weight is written", something_written_everywhere),
        *FIRST,
        Property("the context is the weighted sum of the values", context_is_weights_times_values),
        Property("weights sum to 1 over the keys", sums_to_one),
        Property("forbidden keys get nothing", nothing_to_forbidden_keys),
        Property("allowed keys get something", something_to_allowed_keys),
        Property("the query has a say", another_query),
        Property("sequences do not meet", sequences_are_apart),
        Property("weights are in proportion to the exponentials of the scores", proportions),
        Property("the context is between the values", inside_the_values),
        *LAST,
    ),
    forbidden=SOFTMAX,
)


@EXERCISE.misconception(
    "The tanh is missing. Without it the query adds the same number to every key's score, and softmax "
    "cancels it. Write np.tanh(...) @ v."
)
def no_tanh(query, keys, values, W_q, W_k, v, mask=None):
    hidden = (query @ W_q)[:, None] + keys @ W_k
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You score by a dot product of the projections, as chapter 2 does. The additive score adds them, "
    "takes tanh, and then the product with v: np.tanh(...) @ v."
)
def dot_product(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.einsum("ba,bta->bt", query @ W_q, keys @ W_k)
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You multiply the projections inside tanh. Additive attention adds them: query @ W_q + key @ W_k."
)
def multiplied_inside(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] * (keys @ W_k))
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "The query has no effect: left out, or outside the key's tanh, its part is the same for all keys, and "
    "softmax cancels it. Add first, then take one tanh: np.tanh(q W_q + k W_k)."
)
def tanh_of_each(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh(query @ W_q)[:, None] + np.tanh(keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your tanh is around the finished score. Put it around the hidden units, before the product with v: "
    "np.tanh(...) @ v."
)
def tanh_of_the_score(query, keys, values, W_q, W_k, v, mask=None):
    hidden = (query @ W_q)[:, None] + keys @ W_k
    scores = np.tanh(hidden @ v)
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You add up the hidden units and never use v, which says how much each unit counts in the score. "
    "Write np.tanh(...) @ v."
)
def v_left_out(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden.sum(axis=-1)
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your hidden units use the sigmoid. Additive attention uses tanh, which is negative as well: "
    "np.tanh(...) @ v."
)
def sigmoid(query, keys, values, W_q, W_k, v, mask=None):
    hidden = 1 / (1 + np.exp(-((query @ W_q)[:, None] + keys @ W_k)))
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You divide the scores by the root of d_a, as dot products are scaled in chapter 2. Leave the scale "
    "out: tanh keeps the units small.",
    gravity="slip",
)
def root_of_d_a(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v / np.sqrt(len(v))
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "query @ W_q is (B, d_a) and keys @ W_k is (B, T, d_a), so numpy pairs B with T. Give the query a "
    "time axis of size 1: (query @ W_q)[:, None]."
)
def query_without_time_axis(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh(query @ W_q + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You use the first query for the whole batch. Each sequence has its own: keep the batch axis and put "
    "the time axis after it, (query @ W_q)[:, None]."
)
def first_query_for_all(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh(query[0] @ W_q + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "W_q and W_k are exchanged. Use W_q (d_q, d_a) for the query and W_k (d_k, d_a) for the keys."
)
def weights_exchanged(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_k)[:, None] + keys @ W_q)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your softmax runs over axis 0, the sequences of the batch. Each query shares its weight among its "
    "own keys: use the last axis.",
    gravity="useless",
)
def softmax_over_the_batch(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=0, keepdims=True))
    weights = e / e.sum(axis=0, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You divide by the sum over the whole batch. The weights of *each* sequence sum to 1: e.sum(axis=-1, "
    "keepdims=True)."
)
def one_sum_for_all(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum()
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your weights do not sum to 1, so the context is not a mean of the values. Divide them by their sum, "
    "e.sum(axis=-1, keepdims=True).",
    gravity="useless",
)
def not_normalised(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You divide the scores by their sum. Scores can be negative and their sum near zero: softmax takes "
    "the exponential first.",
    gravity="useless",
)
def no_exponential(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, 0.0)
    weights = scores / scores.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You give all weight to the best key, and nothing can be learned through a maximum. Give every key "
    "its share by softmax.",
    gravity="useless",
)
def best_key_alone(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = (scores == scores.max(axis=-1, keepdims=True)) * 1.0
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your mask is inverted: you block the keys where it is True. True means may attend, so keep those and "
    "fill where the mask is False.",
    gravity="useless",
)
def mask_inverted(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, -1e30, scores)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask, 0.0, weights)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your mask changes nothing. Fill the scores with -inf (or -1e9) where it is False, before softmax.",
    gravity="useless",
)
def mask_ignored(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You mask after softmax, so the forbidden keys have already taken their share and the rest sums to less "
    "than 1. Fill the scores before softmax."
)
def mask_after_softmax(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You mask after softmax and divide again. On paper that is right, but where a forbidden key scores far "
    "above the others they underflow to zero: fill the scores before softmax."
)
def renormalised_after_softmax(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You set forbidden scores to 0 before softmax. exp(0) is 1, so they still get a share: fill with -inf "
    "(or -1e9), whose exponential is 0."
)
def filled_with_zero(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = scores * mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a little. "
    "Put -inf where it is False: np.where(mask, scores, -np.inf)."
)
def mask_added(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = scores + mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your code sets the caller's keys to 0 where the mask is False, and a key of zeros still gets a "
    "score. Leave the keys alone and fill the *scores* where the mask is False."
)
def padding_keys_zeroed(query, keys, values, W_q, W_k, v, mask=None):
    if mask is not None:
        keys[~mask] = 0
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "The values of forbidden keys count as zero, but their weights stay, so the others share less than 1. "
    "Fill the *scores* with -inf (or -1e9) where the mask is False."
)
def values_zeroed(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        values = np.where(mask[..., None], values, 0.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You use the first sequence's mask for the whole batch. Each sequence has a padding of its own: use "
    "the mask as it is, (B, T), like the scores."
)
def first_mask_for_all(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask[0], scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask[0]
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "Your code asks a whole array for one truth value, as `if mask:` does, and numpy refuses. Ask whether "
    "there is one: `if mask is not None:`."
)
def asks_if_mask(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You fill forbidden scores with a number such as -100. Where the allowed scores are lower still, the "
    "forbidden keys win: fill with -inf or -1e9."
)
def fill_too_small(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -100.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "The weights of a query that may attend to nothing are NaN. Such a row is 0/0, or np.divide(..., "
    "where=...) without `out` never writes it. Put zeros there, with np.where on mask.any(axis=-1, "
    "keepdims=True)."
)
def nan_rows(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "A row that is filled with the same number throughout becomes uniform: a query that may attend to "
    "nothing sees all the padding. Set such rows of the weights to zero."
)
def uniform_rows(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "exp overflows for scores beyond 700 (88 in float32), and large entries of v make them. Subtract each "
    "sequence's largest score first: the weights stay the same."
)
def no_maximum(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    e = np.exp(scores)
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You subtract the largest score of the whole batch. A sequence far below it underflows to 0/0. "
    "Subtract each sequence's own maximum: axis=-1 with keepdims=True."
)
def global_maximum(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max())
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception("You average the keys. Keys decide the weights: average the values.")
def keys_averaged(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, keys), weights


@EXERCISE.misconception(
    "You return the weights first. The order is context, then weights: `return context, weights`.",
    gravity="slip",
)
def weights_first(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights, np.einsum("bt,btd->bd", weights, values)


@EXERCISE.misconception(
    "You return the context alone. Return both: `return context, weights`.",
    gravity="slip",
)
def context_alone(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values)


@EXERCISE.misconception(
    "The second result is your scores. Return the weights, which softmax makes of the scores.",
    gravity="slip",
)
def scores_for_weights(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), scores


@EXERCISE.misconception(
    "`weights @ values` takes the whole batch of weights for one matrix and gives (B, B, d_v). Give each "
    "sequence its own row: (weights[:, None] @ values)[:, 0], or einsum."
)
def batch_as_a_matrix(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ values, weights


@EXERCISE.misconception(
    "You return every value times its weight and do not add them up. Sum them over the keys: .sum(axis=1).",
    gravity="slip",
)
def not_summed(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights[..., None] * values, weights


@EXERCISE.misconception(
    "Your code writes into the caller's values, as `values *= ...` does. Write `weights[..., None] * "
    "values`, which makes a new array."
)
def values_changed_in_place(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    values *= weights[..., None]
    return values.sum(axis=1), weights


@EXERCISE.misconception(
    "Your code opens the empty rows of the caller's own mask, as `mask |= ...` does. Write `mask = mask | "
    "empty`, which makes a new one."
)
def empty_rows_opened_in_place(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None] + keys @ W_k)
    scores = hidden @ v
    empty = False
    if mask is not None:
        empty = ~mask.any(axis=-1, keepdims=True)
        mask |= empty
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    weights = np.where(empty, 0, weights)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 in seven digits only. With the maximum subtracted "
    "the sum is at least 1 and needs no protection: divide by the sum alone, and set forbidden weights to "
    "0 afterwards."
)
def epsilon_in_the_sum(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / (e.sum(axis=-1, keepdims=True) + 1e-8)
    if mask is not None:
        weights = weights * mask
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.misconception(
    "You mask after softmax and write -inf into the weights, so the context is infinite or NaN. Fill the "
    "*scores* with -inf where the mask is False, before softmax."
)
def infinity_after_softmax(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask, weights, -np.inf)
    return np.einsum("bt,btd->bd", weights, values), weights


@EXERCISE.style("broadcasting, -1e9 where forbidden, then the mask once more")
def broadcasting(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None, :] + keys @ W_k)
    scores = hidden @ v
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return (weights[..., None] * values).sum(axis=1), weights


@EXERCISE.style("-inf where forbidden, empty rows by nan_to_num; matmul")
def infinite_fill(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh(np.expand_dims(query @ W_q, 1) + keys @ W_k) @ v
    if mask is not None:
        scores[~mask] = -np.inf
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = np.nan_to_num(e / e.sum(axis=1, keepdims=True))
    return np.matmul(weights[:, None, :], values)[:, 0], weights


@EXERCISE.style("einsum, a bias of -1e9 added; a list")
def einsum(query, keys, values, W_q, W_k, v, mask=None):
    sums = np.einsum("bi,ia->ba", query, W_q)[:, None] + np.einsum("bti,ia->bta", keys, W_k)
    scores = np.einsum("bta,a->bt", np.tanh(sums), v)
    if mask is not None:
        scores = scores + (1.0 - mask) * -1e9
    e = np.exp(scores - np.amax(scores, axis=-1)[:, None])
    weights = e / np.einsum("bt->b", e)[:, None]
    if mask is not None:
        weights = np.where(mask.any(axis=-1)[:, None], weights, 0.0)
    return [np.einsum("bt,btv->bv", weights, values), weights]


@EXERCISE.style("sequence by sequence and key by key, in loops")
def key_by_key(query, keys, values, W_q, W_k, v, mask=None):
    B, T, _ = keys.shape
    context, weights = np.zeros((B, values.shape[2])), np.zeros((B, T))
    for b in range(B):
        allowed = [t for t in range(T) if mask is None or mask[b, t]]
        scores = [float(np.dot(v, np.tanh(query[b] @ W_q + keys[b, t] @ W_k))) for t in allowed]
        total = sum(math.exp(s - max(scores)) for s in scores)
        for t, s in zip(allowed, scores, strict=True):
            weights[b, t] = math.exp(s - max(scores)) / total
            context[b] += weights[b, t] * values[b, t]
    return context, weights


@EXERCISE.style("query and key side by side, one matrix")
def side_by_side(query, keys, values, W_q, W_k, v, mask=None):
    T = keys.shape[1]
    pairs = np.concatenate([np.repeat(query[:, None], T, axis=1), keys], axis=-1)
    scores = (np.tanh(pairs @ np.vstack([W_q, W_k])) * v).sum(-1)
    allowed = np.ones(scores.shape, bool) if mask is None else mask
    peak = np.max(np.where(allowed, scores, -np.inf), axis=-1, keepdims=True, initial=-1e30)
    e = np.exp(np.where(allowed, scores - peak, -np.inf))
    weights = e / np.where(allowed.any(-1, keepdims=True), e.sum(-1, keepdims=True), 1)
    return np.einsum("bt,btv->bv", weights, values), weights


@EXERCISE.style("through the log-sum-exp")
def log_sum_exp(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q).reshape(len(query), 1, -1) + keys @ W_k) @ v
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    lse = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(lse), lse, 0))
    return np.squeeze(weights[:, None] @ values, 1), weights


@EXERCISE.style("sequence by sequence, only the keys that are allowed; the sum divided out at the end")
def allowed_keys_only(query, keys, values, W_q, W_k, v, mask=None):
    contexts, rows = [], []
    for b in range(len(query)):
        allowed = np.ones(len(keys[b]), bool) if mask is None else mask[b]
        row, context = np.zeros(len(keys[b])), np.zeros(values.shape[-1])
        if allowed.any():
            scores = np.tanh(keys[b][allowed] @ W_k + query[b] @ W_q) @ v
            e = np.exp(scores - scores.max())
            row[allowed] = e / e.sum()
            context = e @ values[b][allowed] / e.sum()
        contexts.append(context)
        rows.append(row)
    return np.array(contexts), np.array(rows)
