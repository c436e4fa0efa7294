"""ch02_qkv/scaled_dot_product_attention: the whole of it, with a mask."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, added_to_the_sum, index, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops

Array = np.ndarray


def drawn(
    rng: np.random.Generator, lead: tuple[int, ...], T_q: int, T_k: int, d_k: int, d_v: int
) -> tuple[Array, Array, Array]:
    """query (..., T_q, d_k), key (..., T_k, d_k), value (..., T_k, d_v); scores in the soft range."""
    query, key = rng.normal(size=(*lead, T_q, d_k)), rng.normal(size=(*lead, T_k, d_k))
    return query, key, rng.normal(size=(*lead, T_k, d_v))


def float32(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a.astype(np.float32) for a in arrays)


def some_of_each_row(rng: np.random.Generator, *shape: int) -> Array:
    """A mask in which every row allows at least one key and, where it has two, forbids one."""
    mask = rng.random(shape) < 0.6
    allowed = rng.integers(shape[-1], size=shape[:-1])
    forbidden = (allowed + 1 + rng.integers(max(1, shape[-1] - 1), size=shape[:-1])) % shape[-1]
    np.put_along_axis(mask, forbidden[..., None], False, axis=-1)
    np.put_along_axis(mask, allowed[..., None], True, axis=-1)
    return mask


def one_of_each_row(rng: np.random.Generator, *shape: int) -> Array:
    """A mask in which every row allows a single key."""
    mask = np.zeros(shape, dtype=bool)
    np.put_along_axis(mask, rng.integers(shape[-1], size=(*shape[:-1], 1)), True, axis=-1)
    return mask


def unmasked(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries, 3 keys, d_k = 5, d_v = 4", drawn(rng, (), T_q=2, T_k=3, d_k=5, d_v=4))
    yield Case("a single query", drawn(rng, (), T_q=1, T_k=4, d_k=3, d_v=6))
    yield Case("a single key", drawn(rng, (), T_q=3, T_k=1, d_k=4, d_v=2))
    yield Case("values of width 1", drawn(rng, (), T_q=4, T_k=3, d_k=2, d_v=1))
    yield Case("60 keys", drawn(rng, (), T_q=3, T_k=60, d_k=8, d_v=5))
    yield Case("float32", float32(drawn(rng, (), T_q=5, T_k=6, d_k=7, d_v=3)))
    query, key, value = drawn(rng, (), T_q=6, T_k=5, d_k=3, d_v=7)
    yield Case("strided arrays", (strided(query), strided(key), strided(value)))


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a batch of 2", drawn(rng, (2,), T_q=3, T_k=4, d_k=6, d_v=5))
    yield Case("batch 2, heads 3", drawn(rng, (2, 3), T_q=4, T_k=5, d_k=7, d_v=6))
    yield Case("batch 4, one head", drawn(rng, (4, 1), T_q=2, T_k=3, d_k=6, d_v=5))
    yield Case("a batch of 1", drawn(rng, (1,), T_q=4, T_k=2, d_k=3, d_v=6))
    yield Case("one query for each sequence", drawn(rng, (3,), T_q=1, T_k=4, d_k=5, d_v=2))
    yield Case("three leading axes", drawn(rng, (2, 3, 4), T_q=6, T_k=7, d_k=5, d_v=8))
    narrow = float32(drawn(rng, (3, 5), T_q=2, T_k=6, d_k=4, d_v=7))
    yield Case("float32, strided", tuple(map(strided, narrow)))


def masked(rng: np.random.Generator) -> Iterator[Case]:
    two = drawn(rng, (), T_q=3, T_k=4, d_k=5, d_v=2)
    yield Case("a mask (T_q, T_k)", two, {"mask": some_of_each_row(rng, 3, 4)})
    yield Case("a mask that allows everything", two, {"mask": np.ones((3, 4), dtype=bool)})
    yield Case("a mask by position", (*two, some_of_each_row(rng, 3, 4)))
    yield Case("the same keys for all, (T_k,)", two, {"mask": some_of_each_row(rng, 4)})
    yield Case("the same keys for all, (1, T_k)", two, {"mask": some_of_each_row(rng, 1, 4)})
    yield Case("every query allowed, (T_q, 1)", two, {"mask": np.ones((3, 1), dtype=bool)})
    padded = drawn(rng, (2,), T_q=5, T_k=4, d_k=3, d_v=6)
    yield Case("padded keys, a mask (B, 1, T_k)", padded, {"mask": some_of_each_row(rng, 2, 1, 4)})
    heads = drawn(rng, (2, 3), T_q=4, T_k=5, d_k=7, d_v=6)
    yield Case("the same for all, (T_q, T_k)", heads, {"mask": some_of_each_row(rng, 4, 5)})
    yield Case("the same for all, (1, T_q, T_k)", heads, {"mask": some_of_each_row(rng, 1, 4, 5)})
    yield Case("padded keys, (B, 1, 1, T_k)", heads, {"mask": some_of_each_row(rng, 2, 1, 1, 5)})
    yield Case("one mask a head, (B, h, T_q, T_k)", heads, {"mask": some_of_each_row(rng, 2, 3, 4, 5)})
    yield Case("one mask a head, (h, T_q, T_k)", heads, {"mask": some_of_each_row(rng, 3, 4, 5)})
    yield Case("padded keys a head, (B, h, 1, T_k)", heads, {"mask": some_of_each_row(rng, 2, 3, 1, 5)})
    deep = drawn(rng, (2, 3, 4), T_q=6, T_k=5, d_k=7, d_v=8)
    yield Case(
        "three leading axes, (2, 1, 4, T_q, T_k)", deep, {"mask": some_of_each_row(rng, 2, 1, 4, 6, 5)}
    )
    narrow = float32(drawn(rng, (3, 2), T_q=6, T_k=4, d_k=5, d_v=7))
    yield Case("float32, (B, 1, T_q, T_k)", narrow, {"mask": some_of_each_row(rng, 3, 1, 6, 4)})


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Rows that allow nothing or one key: what is right there does not depend on the scores."""
    yield Case(
        "no query may attend",
        drawn(rng, (), T_q=2, T_k=3, d_k=4, d_v=5),
        {"mask": np.zeros((2, 3), dtype=bool)},
    )
    closed = drawn(rng, (2,), T_q=4, T_k=5, d_k=3, d_v=6)
    yield Case("every key is padding, (T_k,)", closed, {"mask": np.zeros(5, dtype=bool)})
    yield Case("no query may attend, (T_q, 1)", closed, {"mask": np.zeros((4, 1), dtype=bool)})
    mask = one_of_each_row(rng, 4, 3)
    mask[1] = False
    yield Case("query 1 may not attend", drawn(rng, (), T_q=4, T_k=3, d_k=2, d_v=6), {"mask": mask})
    mask = one_of_each_row(rng, 2, 1, 1, 6)
    mask[1] = False
    yield Case(
        "the second sequence is all padding",
        drawn(rng, (2, 3), T_q=4, T_k=6, d_k=5, d_v=7),
        {"mask": mask},
    )
    mask = one_of_each_row(rng, 3, 5, 4)
    mask[2, 3] = mask[0, 0] = False
    yield Case(
        "float32, two rows that may not attend",
        float32(drawn(rng, (3,), T_q=5, T_k=4, d_k=6, d_v=2)),
        {"mask": mask},
    )


def scored(rng: np.random.Generator, levels: Array, d_k: int, d_v: int) -> tuple[Array, Array, Array]:
    """query, key and value whose scaled scores are `levels` (T_q, T_k) plus soft ones."""
    T_q, T_k = levels.shape
    query, key, value = drawn(rng, (), T_q, T_k, d_k, d_v)
    extra = np.sqrt(d_k + T_q)
    return np.hstack([query, np.eye(T_q)]), np.hstack([key, extra * levels.T]), value


def large(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("scores around 10,000", scored(rng, np.full((2, 3), 1e4), d_k=6, d_v=4))
    rows = np.array([[-1e4], [0.0], [1e4]]) * np.ones((1, 4))
    yield Case("queries with scores far apart", scored(rng, rows, d_k=5, d_v=2))
    spread = 1e4 * np.array([rng.permutation(5) for _ in range(3)])
    yield Case("scores spread over 40,000", scored(rng, spread, d_k=4, d_v=6))
    yield Case("float32, spread over 40,000", float32(scored(rng, spread, d_k=6, d_v=2)))
    mask = some_of_each_row(rng, 2, 5)
    levels = np.where(mask, 0.0, 1e4)
    yield Case("masked keys with scores of 10,000", scored(rng, levels, d_k=6, d_v=4), {"mask": mask})
    mask = some_of_each_row(rng, 3, 4)
    yield Case(
        "a mask, scores around -10,000",
        scored(rng, np.full((3, 4), -1e4), d_k=7, d_v=5),
        {"mask": mask},
    )
    mask = some_of_each_row(rng, 2, 5)
    yield Case(
        "a mask, scores around -1,000,000",
        scored(rng, np.full((2, 5), -1e6), d_k=5, d_v=4),
        {"mask": mask},
    )


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 queries and 3 keys to nine digits", drawn(rng, (), T_q=2, T_k=3, d_k=4, d_v=5))
    arrays = drawn(rng, (2,), T_q=3, T_k=5, d_k=6, d_v=4)
    yield Case("a mask, to nine digits", arrays, {"mask": some_of_each_row(rng, 2, 3, 5)})


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from unmasked(rng)
    yield from masked(rng)
    yield from empty_rows(rng)
    yield from large(rng)


def _mask(trial: Trial) -> Array | None:
    """The mask, given by name or by position."""
    given: Array | None = (*trial.case.args, trial.case.kwargs.get("mask"))[3]
    return given


def _parts(trial: Trial) -> tuple[Array, Array, Array, Array]:
    """The output, the weights, the values and the mask, in full."""
    output, weights = map(np.asarray, trial.value)
    mask = _mask(trial)
    mask = np.broadcast_to(True if mask is None else mask, weights.shape)
    return output, weights, trial.case.args[2], mask


def zero_where_nothing_is_allowed(trial: Trial) -> str | None:
    output, weights, _, mask = _parts(trial)
    empty = ~mask.any(axis=-1, keepdims=True)
    for name, array in (("output", output), ("weights", weights)):
        wrong = empty & (array != 0)
        if wrong.any():
            got = array[tuple(np.argwhere(wrong)[0])]
            return (
                f"a query may attend to nothing, and its {name} {'hold' if name == 'weights' else 'holds'} "
                f"{got:.3g}{index(wrong)}; both must be zero there"
            )
    return None


def masked_before_softmax(trial: Trial) -> str | None:
    """Where allowed keys have the weights that they have without a mask, the mask comes after softmax.

    The weights say so whatever was written where the mask is False, and whatever became of the output.
    """
    output, weights, _, mask = _parts(trial)
    query, key = (np.asarray(a, dtype=np.float64) for a in trial.case.args[:2])
    without = ops.softmax(query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]))
    looked_at = mask & (np.where(mask, 0.0, without).sum(axis=-1, keepdims=True) > 1e-2) & (without > 1e-3)
    if not looked_at.any() or not near(weights[looked_at], without[looked_at]):
        return None
    if near(output, trial.expected[0]):
        return None  # only the weights that are returned are without the mask
    if near(weights, without):
        return (
            "your mask changes nothing: the weights are those without a mask; fill the scores before softmax"
        )
    place = tuple(int(n) for n in np.argwhere(looked_at)[0])
    return (
        f"your weight at {list(place)} is {weights[place]:.4g}, the same as without a mask: the mask comes "
        "after softmax, and forbidden keys have taken their share. Fill the scores with -inf before softmax"
    )


def something_written_everywhere(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    if mask.all() or not np.array_equal(np.isnan(weights), ~mask):
        return None
    return (
        "your weights are NaN where the mask is False and nowhere else. Write 0 there: np.empty, and "
        "`where=` without `out`, leave what was in memory"
    )


def one_sequence_alone_is_right(trial: Trial) -> str | None:
    """Where the first sequence by itself comes out right, the leading axes are at fault."""
    lead = trial.case.args[0].shape[:-2]
    if not lead or _mask(trial) is not None:
        return None
    first = (0,) * len(lead)
    alone = trial.call(Case("one sequence", tuple(a[first].copy() for a in trial.case.args))).value
    if not all(near(np.asarray(a), b[first]) for a, b in zip(alone, trial.expected, strict=True)):
        return None
    return (
        f"one sequence alone comes out right, with the leading axes {lead} it does not. Count axes from the "
        "end: axis=-1, query.shape[-1], np.swapaxes(key, -1, -2)"
    )


def nothing_to_forbidden_keys(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    wrong = ~mask & (np.abs(weights) > 1e-6)
    if not wrong.any():
        return None
    return (
        f"a weight is {weights[tuple(np.argwhere(wrong)[0])]:.3g}{index(wrong)}, where the mask is False; "
        "True means: may attend"
    )


def rows_sum_to_one(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    sums = weights.sum(axis=-1)
    wrong = mask.any(axis=-1) & ~(np.abs(sums - 1) < 1e-3)
    if not wrong.any():
        return None
    return (
        f"the weights of the query{index(wrong)} sum to {sums[wrong][0]:.3g}; weights sum to 1 over the keys"
    )


def something_to_allowed_keys(trial: Trial) -> str | None:
    _, weights, _, mask = _parts(trial)
    wrong = mask & (np.abs(weights) < 1e-9) & (trial.expected[1] > 1e-3)
    if not wrong.any():
        return None
    why = "there is no mask" if _mask(trial) is None else "the mask is True there"
    return f"a weight is 0{index(wrong)}, though {why}; every key that is allowed gets a share"


def nothing_added(trial: Trial) -> str | None:
    query, key = (np.asarray(a, dtype=np.float64) for a in trial.case.args[:2])
    _, weights, _, mask = _parts(trial)
    scores = np.where(mask, query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]), -np.inf)
    total = np.exp(scores - scores.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
    return added_to_the_sum(weights, trial.expected[1], total)


def proportions(trial: Trial) -> str | None:
    query, key, *_ = trial.case.args
    _, weights, _, mask = _parts(trial)
    dots = query @ np.swapaxes(key, -1, -2)
    return not_softmax(weights, dots, "q . k", query.shape[-1] ** -0.5, "1/sqrt(d_k) = ", mask)


def output_is_weights_times_values(trial: Trial) -> str | None:
    output, weights, value, _ = _parts(trial)
    if near(weights, trial.expected[1]) and not near(output, weights @ value):
        return "your weights are right, but your output is not weights @ value"
    if near(output, trial.expected[0]) and not near(weights, trial.expected[1]):
        return "your output is right, but the weights that you return are not those that made it"
    return None


def inside_the_values(trial: Trial) -> str | None:
    output, _, value, mask = _parts(trial)
    low, high = value.min(axis=-2, keepdims=True), value.max(axis=-2, keepdims=True)
    wrong = mask.any(axis=-1, keepdims=True) & ((output < low - 1e-3) | (output > high + 1e-3))
    if not wrong.any():
        return None
    return (
        f"the output is {output[tuple(np.argwhere(wrong)[0])]:.4g}{index(wrong)}, beyond all values; "
        "a weighted mean stays between them"
    )


def order_of_keys(trial: Trial) -> str | None:
    query, key, value = trial.case.args[:3]
    mask = _mask(trial)
    turned = {}
    if mask is not None:
        turned = {"mask": mask if mask.shape[-1] == 1 else mask[..., ::-1]}
    reversed_keys = (query, key[..., ::-1, :].copy(), value[..., ::-1, :].copy())
    output = np.asarray(trial.call(Case("the keys in reverse", reversed_keys, turned)).value[0])
    if near(output, np.asarray(trial.value[0])):
        return None
    return "taking the keys (with their values) in another order changes the output; it should not"


EXERCISE = Exercise(
    name="ch02_qkv/scaled_dot_product_attention",
    signature="scaled_dot_product_attention(query, key, value, mask=None)",
    goal="Give each query the mean of the values, weighted by softmax(Q K^T / sqrt(d_k)), within the mask.",
    section="The code",
    reference=ops.scaled_dot_product_attention,
    criteria=(
        Criterion("output and weights without a mask", 1.5, unmasked, tolerance=3e-5),
        Criterion("any number of leading axes", 0.5, leading_axes, tolerance=3e-5),
        Criterion("a mask: True means may attend", 1.5, masked, tolerance=3e-5),
        Criterion("a query that may attend to nothing gets zeros", 1, empty_rows, tolerance=3e-5),
        Criterion("scores as large as 10,000", 0.75, large, tolerance=2e-3),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.5, everything, observes="arguments"),
    ),
    properties=(
        Property("the mask comes before softmax", masked_before_softmax),
        Property("an empty row gives zeros", zero_where_nothing_is_allowed),
        Property("nothing is added to the sum", nothing_added),
        Property("every weight is written", something_written_everywhere),
        Property("leading axes are left alone", one_sequence_alone_is_right),
        *FIRST,
        Property("the output is weights @ value", output_is_weights_times_values),
        Property("forbidden keys get nothing", nothing_to_forbidden_keys),
        Property("allowed keys get something", something_to_allowed_keys),
        Property("weights sum to 1 over the keys", rows_sum_to_one),
        Property("weights are in proportion to the exponentials of scaled scores", proportions),
        Property("the output is between the values", inside_the_values),
        Property("the order of the keys does not matter", order_of_keys),
        *LAST,
    ),
    forbidden=SOFTMAX,
)


@EXERCISE.misconception(
    "You do not scale the scores. They spread like sqrt(d_k), so softmax picks one key and hardly learns. "
    "Divide by sqrt(d_k) before softmax."
)
def no_scale(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by d_k itself, which makes every key nearly equal. A dot product spreads like the root of "
    "d_k: divide by sqrt(d_k).",
    gravity="slip",
)
def d_k_not_its_root(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / query.shape[-1]
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of d_v, the width of the values, which have no part in the scores. The dot "
    "product sums d_k terms: divide by np.sqrt(query.shape[-1])."
)
def root_of_d_v(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(value.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of d_model, the width of all heads together. Each head sums only its own d_k "
    "products: divide by np.sqrt(query.shape[-1])."
)
def root_of_d_model(query, key, value, mask=None):
    num_heads = query.shape[-3] if query.ndim > 3 else 1
    d_model = num_heads * query.shape[-1]
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(d_model)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You divide by the root of T, the number of keys. The scale has nothing to do with the length of the "
    "sequence: divide by np.sqrt(query.shape[-1])."
)
def root_of_T(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(key.shape[-2])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take softmax over the queries, so columns sum to 1. Each query shares its attention among the "
    "keys: use the last axis.",
    gravity="useless",
)
def softmax_over_queries(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-2, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-2, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your mask is inverted: you block the keys where it is True. True means may attend, so keep those and "
    "fill where the mask is False.",
    gravity="useless",
)
def mask_inverted(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your mask changes nothing. Fill the scores with -inf where it is False, before softmax.",
    gravity="useless",
)
def mask_ignored(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "You mask after softmax, so the forbidden keys have already taken their share and the rest sums to "
    "less than 1. Fill the scores with -inf before softmax."
)
def mask_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.misconception(
    "You mask after softmax and divide again. On paper that is right, but where a forbidden key scores "
    "far above the others they underflow to zero: fill the scores before softmax."
)
def renormalised_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        weights = weights * mask
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You set forbidden scores to 0 before softmax. exp(0) is 1, so they still get a share: fill with -inf "
    "(or -1e9), whose exponential is 0."
)
def filled_with_zero(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, 0.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a "
    "little. Put -inf where it is False: np.where(mask, scores, -np.inf)."
)
def mask_added(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your code asks a whole array for one truth value, as `if mask:` does, and numpy refuses. Ask whether "
    "there is one: `if mask is not None:`."
)
def asks_if_mask(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "A mask as an index, such as scores[~mask], needs the full shape; a mask for all heads or queries has "
    "axes of size 1 or fewer axes. Write np.where(mask, scores, -np.inf), which broadcasts."
)
def mask_as_index(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores[~mask] = -np.inf
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You fill forbidden scores with a number such as -100. Where the allowed scores are lower still, the "
    "forbidden keys win: fill with -inf or -1e9."
)
def fill_too_small(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -100.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(np.any(mask, axis=-1, keepdims=True), weights, 0)
    return weights @ value, weights


@EXERCISE.misconception(
    "The weights of a query that may attend to nothing are NaN. Such a row is 0/0, or np.divide(..., "
    "where=...) without `out` never writes it. Put zeros there, with np.where on mask.any(axis=-1, "
    "keepdims=True)."
)
def nan_rows(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "A row that is filled with the same number throughout becomes uniform: a query that may attend to "
    "nothing sees everything. Set such rows of the weights to zero."
)
def uniform_rows(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights


@EXERCISE.misconception(
    "exp overflows for scores beyond 700 (88 in float32). Subtract each row's maximum first: the weights "
    "stay the same."
)
def no_maximum(query, key, value, mask=None):
    e = np.exp(query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]))
    if mask is not None:
        e = e * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You subtract the largest score of all queries. A query far below it underflows to 0/0. Subtract each "
    "row's own maximum: axis=-1 with keepdims=True."
)
def global_maximum(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - np.max(scores, initial=-1e9))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ value, weights


@EXERCISE.misconception(
    "`key.T` reverses all axes, which is right for a matrix only. With a batch or heads in front, swap "
    "the last two axes: np.swapaxes(key, -1, -2)."
)
def two_axes_only(query, key, value, mask=None):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You return the weights first. The order is output, then weights: `return output, weights`.",
    gravity="slip",
)
def weights_first(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights, weights @ value


@EXERCISE.misconception(
    "You return the output alone. Return both: `return output, weights`.",
    gravity="slip",
)
def output_alone(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value


@EXERCISE.misconception(
    "The second result is your scores. Return the weights, which softmax makes of the scores.",
    gravity="slip",
)
def scores_for_weights(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, scores


@EXERCISE.misconception("You average the keys. Average the values: weights @ value.")
def keys_averaged(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ key, weights


@EXERCISE.misconception(
    "Your weights do not sum to 1, so the output is not a mean of the values. Divide them by "
    "weights.sum(axis=-1, keepdims=True).",
    gravity="useless",
)
def not_normalised(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    return weights @ value, weights


@EXERCISE.misconception(
    "Your code divides the caller's own query, as `query /= ...` does. Divide the scores, or write `query "
    "= query / ...`."
)
def scaled_in_place(query, key, value, mask=None):
    query /= np.sqrt(query.shape[-1])
    scores = query @ np.swapaxes(key, -1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You fill forbidden scores with a number such as -1e5. Where the allowed scores are lower still, "
    "every exponential of an allowed key is 0: fill with -inf or -1e9."
)
def fill_of_minus_100000(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e5)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.misconception(
    "Your code opens the empty rows of the caller's own mask, as `mask |= ...` does. Write `mask = mask | "
    "empty`, which makes a new one."
)
def empty_rows_opened_in_place(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    empty = False
    if mask is not None:
        empty = ~mask.any(axis=-1, keepdims=True)
        mask |= empty
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = np.where(empty, 0, e / e.sum(axis=-1, keepdims=True))
    return weights @ value, weights


@EXERCISE.misconception(
    "You add 1e-8 to the sum, so the weights sum to 1 in seven digits only. With the maximum subtracted "
    "the sum is at least 1 and needs no protection: divide by the sum alone, and set forbidden weights to "
    "0 afterwards."
)
def epsilon_in_the_sum(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / (e.sum(axis=-1, keepdims=True) + 1e-8)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.misconception(
    "You mask after softmax and write -inf into the weights, so the output is infinite or NaN. Fill the "
    "*scores* with -inf where the mask is False, before softmax."
)
def infinity_after_softmax(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask, weights, -np.inf)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take softmax over axis 1. With a batch in front those are the queries, or the heads. The keys "
    "are always the last axis: axis=-1."
)
def softmax_over_axis_1(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take softmax over axis 2, which is right for one leading axis only. The keys are always the last "
    "axis: axis=-1."
)
def softmax_over_axis_2(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=2, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=2, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You take d_k from axis 1 of the query. With a batch in front that is another axis. The width is "
    "always the last axis: query.shape[-1]."
)
def width_from_axis_1(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into two sizes, so there must be two axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_two_sizes(query, key, value, mask=None):
    _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of two axes, such as (1, 0), so the key must have two. np.swapaxes(key, "
    "-1, -2) fits any number of axes."
)
def transposed_as_two_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (1, 0)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names two axes of query and key, so both must have two. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_two_axes(query, key, value, mask=None):
    scores = np.einsum("qd,kd->qk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so there must be three axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_three_sizes(query, key, value, mask=None):
    _B, _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of three axes, such as (0, 2, 1), so the key must have three. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_three_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (0, 2, 1)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names three axes of query and key, so both must have three. Let it begin with an "
    "ellipsis, '...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_three_axes(query, key, value, mask=None):
    scores = np.einsum("bqd,bkd->bqk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so there must be four axes. Take a width from the end, "
    "query.shape[-1], which fits any number of leading axes."
)
def unpacks_four_sizes(query, key, value, mask=None):
    _B, _h, _T_q, _d_k = query.shape
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(_d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You transpose with an order of four axes, such as (0, 1, 3, 2), so the key must have four. "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def transposed_as_four_axes(query, key, value, mask=None):
    scores = query @ np.transpose(key, (0, 1, 3, 2)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "Your einsum names four axes of query and key, so both must have four. Let it begin with an ellipsis, "
    "'...qd,...kd->...qk', which fits any number of leading axes."
)
def einsum_of_four_axes(query, key, value, mask=None):
    scores = np.einsum("bhqd,bhkd->bhqk", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.misconception(
    "You swap axes 1 and 2 of the key, which is right for one leading axis only. Count from the end: "
    "np.swapaxes(key, -1, -2) fits any number of axes."
)
def axes_1_and_2_swapped(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    return weights @ value, weights


@EXERCISE.style("-inf where forbidden, empty rows by nan_to_num")
def infinite_fill(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = np.nan_to_num(e / e.sum(axis=-1, keepdims=True))
    return weights @ value, weights


@EXERCISE.style("-1e9 where forbidden, then the mask once more")
def large_negative_fill(query, key, value, mask=None):
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@EXERCISE.style("a bias of -1e9 added; empty rows by np.where; a list")
def additive_bias(query, key, value, mask=None):
    scores = np.einsum("...qd,...kd->...qk", query * query.shape[-1] ** -0.5, key)
    if mask is not None:
        scores = scores + (1.0 - mask) * -1e9
    e = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    weights = e / np.einsum("...k->...", e)[..., None]
    if mask is not None:
        weights = np.where(mask.any(axis=-1)[..., None], weights, 0.0)
    return [np.einsum("...qk,...kv->...qv", weights, value), weights]


@EXERCISE.style("query by query and key by key, in loops, in float64")
def query_by_query(query, key, value, mask=None):
    lead, T_q, T_k = query.shape[:-2], query.shape[-2], key.shape[-2]
    allowed = np.broadcast_to(True if mask is None else mask, (*lead, T_q, T_k))
    output = np.zeros((*lead, T_q, value.shape[-1]))
    weights = np.zeros((*lead, T_q, T_k))
    for b in np.ndindex(*lead):
        for i in range(T_q):
            keys = [j for j in range(T_k) if allowed[(*b, i, j)]]
            scores = [float(query[(*b, i)] @ key[(*b, j)]) / math.sqrt(query.shape[-1]) for j in keys]
            total = sum(math.exp(s - max(scores)) for s in scores)
            for j, s in zip(keys, scores, strict=True):
                weights[(*b, i, j)] = math.exp(s - max(scores)) / total
                output[(*b, i)] += weights[(*b, i, j)] * value[(*b, j)]
    return output, weights


@EXERCISE.style("boolean indexing, through the log-sum-exp, in float64")
def log_sum_exp(query, key, value, mask=None):
    scores = np.sum(query[..., :, None, :].astype(float) * key[..., None, :, :], axis=-1)
    scores /= np.sqrt(query.shape[-1])
    if mask is not None:
        scores[~np.broadcast_to(mask, scores.shape)] = -np.inf
    lse = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    lse[np.isneginf(lse)] = 0
    weights = np.exp(scores - lse)
    return weights @ value, weights


@EXERCISE.style("a masked array")
def masked_array(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    scores = np.ma.array(scores, mask=~allowed)
    e = np.ma.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (e / e.sum(axis=-1, keepdims=True)).filled(0)
    return weights @ value, weights


@EXERCISE.style("the sum divided out at the end, as in flash attention")
def normalised_at_the_end(query, key, value, mask=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if mask is not None:
        e = np.where(mask, e, 0)
    total = e.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return (e @ value) / total, e / total
