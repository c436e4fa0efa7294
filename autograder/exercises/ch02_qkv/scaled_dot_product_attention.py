"""ch02_qkv/scaled_dot_product_attention: attention as a whole, with a mask."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.attention_laws import MaskedAttention, float32
from autograder.exercises.draw_masks import one_of_each_row, some_of_each_row
from autograder.exercises.laws import FIRST, LAST, index, near, not_softmax
from autograder.exercises.library import SOFTMAX
from tfcore import ops

Array = np.ndarray


def drawn(
    rng: np.random.Generator, lead: tuple[int, ...], T_q: int, T_k: int, d_k: int, d_v: int
) -> tuple[Array, Array, Array]:
    """Draw query (..., T_q, d_k), key (..., T_k, d_k) and value (..., T_k, d_v), with moderate scores."""
    query, key = rng.normal(size=(*lead, T_q, d_k)), rng.normal(size=(*lead, T_k, d_k))
    return query, key, rng.normal(size=(*lead, T_k, d_v))


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
    yield Case("one mask per head, (B, h, T_q, T_k)", heads, {"mask": some_of_each_row(rng, 2, 3, 4, 5)})
    yield Case("one mask per head, (h, T_q, T_k)", heads, {"mask": some_of_each_row(rng, 3, 4, 5)})
    yield Case("padded keys per head, (B, h, 1, T_k)", heads, {"mask": some_of_each_row(rng, 2, 3, 1, 5)})
    deep = drawn(rng, (2, 3, 4), T_q=6, T_k=5, d_k=7, d_v=8)
    yield Case(
        "three leading axes, (2, 1, 4, T_q, T_k)", deep, {"mask": some_of_each_row(rng, 2, 1, 4, 6, 5)}
    )
    narrow = float32(drawn(rng, (3, 2), T_q=6, T_k=4, d_k=5, d_v=7))
    yield Case("float32, (B, 1, T_q, T_k)", narrow, {"mask": some_of_each_row(rng, 3, 1, 6, 4)})


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with rows that allow nothing or one key: the right weights do not depend on scores."""
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
    """Draw query, key and value whose scaled scores are `levels` (T_q, T_k) plus moderate numbers."""
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


def _scores(trial: Trial) -> Array:
    """Return the scaled scores (..., T_q, T_k) without the mask, in float64."""
    query, key = (np.asarray(a, dtype=np.float64) for a in trial.case.args[:2])
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])


ATTENTION = MaskedAttention(output="output", mask_at=3, scores=_scores)


def one_sequence_alone_is_right(trial: Trial) -> str | None:
    """Find wrong leading axes: the first sequence alone comes out right."""
    lead = trial.case.args[0].shape[:-2]
    if not lead or ATTENTION.mask(trial) is not None:
        return None
    first = (0,) * len(lead)
    alone = trial.call(Case("one sequence", tuple(a[first].copy() for a in trial.case.args))).value
    if not all(near(np.asarray(a), b[first]) for a, b in zip(alone, trial.expected, strict=True)):
        return None
    return (
        f"one sequence alone comes out right, but not with the leading axes {lead}. Count axes from the "
        "end: axis=-1, query.shape[-1], np.swapaxes(key, -1, -2)"
    )


def rows_sum_to_one(trial: Trial) -> str | None:
    if (found := ATTENTION.first_wrong_sum(trial)) is None:
        return None
    wrong, total = found
    return f"the weights of the query{index(wrong)} sum to {total:.3g}; weights sum to 1 over the keys"


def proportions(trial: Trial) -> str | None:
    query, key, *_ = trial.case.args
    _, weights, _, mask = ATTENTION.parts(trial)
    dots = query @ np.swapaxes(key, -1, -2)
    return not_softmax(weights, dots, "q . k", query.shape[-1] ** -0.5, "1/sqrt(d_k) = ", mask)


def output_is_weights_times_values(trial: Trial) -> str | None:
    output, weights, value, _ = ATTENTION.parts(trial)
    if near(weights, trial.expected[1]) and not near(output, weights @ value):
        return "your weights are right, but your output is not weights @ value"
    if near(output, trial.expected[0]) and not near(weights, trial.expected[1]):
        return "your output is right, but the weights that you return are not the weights that made it"
    return None


def order_of_keys(trial: Trial) -> str | None:
    query, key, value = trial.case.args[:3]
    mask = ATTENTION.mask(trial)
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
    minutes=30,
    difficulty="hard",
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
        Property("the mask comes before softmax", ATTENTION.masked_before_softmax),
        Property("an empty row gives zeros", ATTENTION.zero_where_nothing_is_allowed),
        Property("nothing is added to the sum", ATTENTION.nothing_added),
        Property("every weight is written", ATTENTION.something_written_everywhere),
        Property("leading axes are left alone", one_sequence_alone_is_right),
        *FIRST,
        Property("the output is weights @ value", output_is_weights_times_values),
        Property("forbidden keys get nothing", ATTENTION.nothing_to_forbidden_keys),
        Property("allowed keys get something", ATTENTION.something_to_allowed_keys),
        Property("weights sum to 1 over the keys", rows_sum_to_one),
        Property("weights are in proportion to the exponentials of scaled scores", proportions),
        Property("the output is between the values", ATTENTION.inside_the_values),
        Property("the order of the keys does not matter", order_of_keys),
        *LAST,
    ),
    forbidden=SOFTMAX,
)
