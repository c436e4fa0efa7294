"""ch02_qkv/project_qkv: each token's query, key and value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, near
from tfcore import ops


def drawn(
    rng: np.random.Generator, lead: tuple[int, ...], T: int, d_model: int, d_k: int, d_v: int
) -> tuple[np.ndarray, ...]:
    """Tokens (..., T, d_model) and the three weights."""
    sizes = (*lead, T, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v)
    return tuple(rng.normal(size=size) for size in sizes)


def one_sequence(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens of width 3", drawn(rng, (), T=2, d_model=3, d_k=4, d_v=5))
    yield Case("a single token", drawn(rng, (), T=1, d_model=6, d_k=3, d_v=2))
    yield Case("values of width 1", drawn(rng, (), T=5, d_model=4, d_k=2, d_v=1))
    yield Case("a long sequence", drawn(rng, (), T=50, d_model=8, d_k=5, d_v=3))
    narrow = (a.astype(np.float32) for a in drawn(rng, (), T=4, d_model=7, d_k=3, d_v=6))
    yield Case("float32", tuple(narrow))
    x, *weights = drawn(rng, (), T=5, d_model=3, d_k=2, d_v=7)
    yield Case("strided weights", (x, *map(strided, weights)))
    yield Case("strided tokens", tuple(map(strided, drawn(rng, (), T=6, d_model=4, d_k=7, d_v=3))))
    yield Case("tokens of a single number", drawn(rng, (), T=3, d_model=1, d_k=4, d_v=2))


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a batch of 2 sequences", drawn(rng, (2,), T=3, d_model=4, d_k=5, d_v=6))
    yield Case("a batch of 1", drawn(rng, (1,), T=4, d_model=3, d_k=2, d_v=5))
    yield Case("two leading axes", drawn(rng, (3, 2), T=6, d_model=5, d_k=4, d_v=7))
    yield Case("three leading axes, one of size 1", drawn(rng, (2, 1, 3), T=4, d_model=7, d_k=6, d_v=5))
    yield Case("a batch of single tokens", drawn(rng, (5,), T=1, d_model=3, d_k=2, d_v=4))
    x, *weights = drawn(rng, (4,), T=2, d_model=6, d_k=3, d_v=5)
    yield Case("a strided batch", (strided(x), *weights))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens to nine digits", drawn(rng, (), T=3, d_model=4, d_k=5, d_v=2))
    yield Case("a batch of 3 to nine digits", drawn(rng, (3,), T=2, d_model=5, d_k=4, d_v=6))


def both(rng: np.random.Generator) -> Iterator[Case]:
    yield from one_sequence(rng)
    yield from leading_axes(rng)


def additive(trial: Trial) -> str | None:
    x, *weights = trial.case.args
    doubled = trial.call(Case("doubled", (2 * x, *weights))).value
    for name, once, twice in zip("qkv", trial.value, doubled, strict=True):
        if not near(np.asarray(twice), 2 * np.asarray(once)):
            return f"twice the tokens do not give twice the {name}; a projection is one matrix product"
    return None


def uses_its_weight(trial: Trial) -> str | None:
    x, *weights = trial.case.args
    for i, name in enumerate(("W_q", "W_k", "W_v")):
        changed = [w + (i == j) for j, w in enumerate(weights)]
        after = trial.call(Case("another weight", (x, *changed))).value
        moved = [not near(np.asarray(a), np.asarray(b)) for a, b in zip(after, trial.value, strict=True)]
        if moved != [i == j for j in range(3)]:
            seen = " and ".join(n for n, m in zip(("q", "k", "v"), moved, strict=True) if m) or "nothing"
            return f"a change of {name} should change {'qkv'[i]} alone; it changes {seen}"
    return None


def each_is_a_product(trial: Trial) -> str | None:
    """Look for the product that a wrong result is: with another weight, or with a transpose."""
    x, *weights = trial.case.args
    for result, got, right in zip("qkv", trial.value, trial.expected, strict=True):
        if near(np.asarray(got), right):
            continue
        for name, W in zip(("W_q", "W_k", "W_v"), weights, strict=True):
            for says, product in ((f"x @ {name}", x @ W), (f"x @ {name}.T", _or_none(x, W.T))):
                if product is not None and np.shape(got) == product.shape and near(np.asarray(got), product):
                    return f"your {result} is {says}; it should be x @ W_{result}"
    return None


def by_hand(trial: Trial) -> str | None:
    """Show the first wrong number beside the sum of products that it should be."""
    width = trial.case.args[0].shape[-1]
    for name, got, right in zip("qkv", trial.value, trial.expected, strict=True):
        wrong = np.argwhere(~np.isclose(got, right, rtol=1e-4, atol=1e-6))
        if wrong.size:
            *token, j = (int(n) for n in wrong[0])
            return (
                f"number {j} of {name} for token {token} is {right[(*token, j)]:.4g}, the sum of its "
                f"{width} numbers, each times its number in column {j} of W_{name}; you return "
                f"{np.asarray(got)[(*token, j)]:.4g}"
            )
    return None


def _or_none(x: np.ndarray, W: np.ndarray) -> np.ndarray | None:
    return x @ W if x.shape[-1] == len(W) else None


EXERCISE = Exercise(
    name="ch02_qkv/project_qkv",
    signature="project_qkv(x, W_q, W_k, W_v)",
    goal="Ask every token of x for its query, its key and its value: three matrix products.",
    section="The mathematics",
    reference=ops.project_qkv,
    criteria=(
        Criterion("query, key and value, in this order", 1, one_sequence, tolerance=3e-5),
        Criterion("any number of leading axes", 0.5, leading_axes, tolerance=3e-5),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.25, both, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("each weight makes one of the three", uses_its_weight),
        *LAST,
        Property("projections are linear", additive),
        Property("each result is a product of the tokens", each_is_a_product),
        Property("each number is a sum of products", by_hand),
    ),
    forbidden=("torch.nn.functional.linear", "torch.nn.Linear"),
)


@EXERCISE.misconception(
    "You return the key first. The order is query, key, value, as in the signature: write `return q, k, v`.",
    gravity="slip",
)
def key_before_query(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_q, x @ W_v


@EXERCISE.misconception(
    "You return the value before the key. The order is query, key, value.",
    gravity="slip",
)
def value_before_key(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k


@EXERCISE.misconception(
    "You transpose the weights. They are (d_model, d): a row vector of width d_model times W is already a "
    "row vector of width d, so write x @ W. (torch's nn.Linear stores its weight the other way round.)"
)
def weights_transposed(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


@EXERCISE.misconception(
    "You put the weights on the left. The tokens are rows, (..., T, d_model), so they go on the left: x @ W."
)
def weights_on_the_left(x, W_q, W_k, W_v):
    return W_q @ x, W_k @ x, W_v @ x


@EXERCISE.misconception("`*` multiplies number by number. A projection is a matrix product: x @ W.")
def elementwise(x, W_q, W_k, W_v):
    return x * W_q, x * W_k, x * W_v


@EXERCISE.misconception(
    "You use W_q for all three. Query, key and value have weights of their own: write x @ W_q, x @ W_k, x "
    "@ W_v.",
    gravity="useless",
)
def one_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_q


@EXERCISE.misconception(
    "Your key is made with W_q, so it equals the query and W_k is never used. Use x @ W_k."
)
def key_is_query(x, W_q, W_k, W_v):
    query = x @ W_q
    return query, query, x @ W_v


@EXERCISE.misconception("You return the tokens themselves as values. Project them too: x @ W_v.")
def tokens_as_values(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x


@EXERCISE.misconception(
    "You divide the query by sqrt(d_k) here. The scale belongs to the scores, in the next exercise: done "
    "twice, it makes all weights nearly equal. Return x @ W_q."
)
def scaled_already(x, W_q, W_k, W_v):
    return x @ W_q / np.sqrt(W_q.shape[1]), x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your results hold one token per column, (..., d, T). Multiply from the other side, x @ W, so that each "
    "token stays a row: (..., T, d)."
)
def tokens_as_columns(x, W_q, W_k, W_v):
    columns = np.swapaxes(x, -1, -2)
    return W_q.T @ columns, W_k.T @ columns, W_v.T @ columns


@EXERCISE.misconception(
    "You return the three side by side in one array. Return three arrays: `return q, k, v`."
)
def one_joined_array(x, W_q, W_k, W_v):
    return x @ np.concatenate([W_q, W_k, W_v], axis=1)


@EXERCISE.misconception(
    "You flatten all leading axes into one and do not restore them. `x @ W` needs no reshape: it works on "
    "the last axis and keeps the others."
)
def batch_flattened(x, W_q, W_k, W_v):
    rows = x.reshape(-1, x.shape[-1])
    return rows @ W_q, rows @ W_k, rows @ W_v


@EXERCISE.misconception(
    "You project only the first sequence of a batch. Leave the leading axes alone: `x @ W` projects every "
    "sequence."
)
def first_of_the_batch(x, W_q, W_k, W_v):
    while x.ndim > 2:
        x = x[0]
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your code subtracts a mean, and it changes the caller's tokens, as `x -= ...` does. Use x as it is: "
    "x @ W."
)
def centred_in_place(x, W_q, W_k, W_v):
    x -= x.mean(axis=-1, keepdims=True)
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Query and value have changed places: you return value, key, query. The order is query, key, value.",
    gravity="slip",
)
def value_first_query_last(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_q


@EXERCISE.misconception(
    "You return the value first, then query and key. The order is query, key, value.",
    gravity="slip",
)
def value_before_query_and_key(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_q, x @ W_k


@EXERCISE.misconception(
    "You return key and value before the query. The order is query, key, value.",
    gravity="slip",
)
def query_last(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_v, x @ W_q


@EXERCISE.misconception(
    "Your value is made with W_k, so it equals the key and W_v is never used. Use x @ W_v."
)
def value_is_key(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_k


@EXERCISE.misconception(
    "Your value is made with W_q, so it equals the query and W_v is never used. Use x @ W_v."
)
def value_is_query(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_q


@EXERCISE.misconception(
    "Your key is made with W_v, so it equals the value and W_k is never used. Use x @ W_k."
)
def key_is_value(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_v


@EXERCISE.misconception(
    "Your query is made with W_k, so it equals the key and W_q is never used. Use x @ W_q."
)
def query_is_key(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "Your query is made with W_v, so it equals the value and W_q is never used. Use x @ W_q."
)
def query_is_value(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You use W_k for all three. Query and value have weights of their own: x @ W_q, x @ W_k, x @ W_v.",
    gravity="useless",
)
def key_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_k, x @ W_k


@EXERCISE.misconception(
    "You use W_v for all three. Query and key have weights of their own: x @ W_q, x @ W_k, x @ W_v.",
    gravity="useless",
)
def value_weight_for_all(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_v, x @ W_v


@EXERCISE.misconception(
    "You make the key from the query. Each of the three is a projection of the tokens themselves: write x "
    "@ W_k, not q @ W_k."
)
def chained(x, W_q, W_k, W_v):
    q = x @ W_q
    k = q @ W_k
    return q, k, k @ W_v


@EXERCISE.misconception(
    "Your einsum names two axes of x, so it takes one sequence and no batch. Write x @ W, or let an einsum "
    "begin with an ellipsis: '...td,de->...te'."
)
def einsum_without_batch(x, W_q, W_k, W_v):
    return tuple(np.einsum("td,de->te", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.misconception(
    "Your einsum names three axes of x, so it takes one batch axis, no more and no fewer. Write x @ W, or "
    "let an einsum begin with an ellipsis: '...td,de->...te'."
)
def einsum_with_one_batch_axis(x, W_q, W_k, W_v):
    return tuple(np.einsum("btd,de->bte", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.misconception(
    "You unpack a shape into two sizes, so x must have two axes. `x @ W` fits any number of leading axes "
    "and needs no sizes; the width is x.shape[-1]."
)
def unpacks_two_sizes(x, W_q, W_k, W_v):
    _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so x must have three axes. `x @ W` fits any number of leading "
    "axes and needs no sizes; the width is x.shape[-1]."
)
def unpacks_three_sizes(x, W_q, W_k, W_v):
    _B, _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so x must have four axes. `x @ W` fits any number of leading "
    "axes and needs no sizes; the width is x.shape[-1]."
)
def unpacks_four_sizes(x, W_q, W_k, W_v):
    _B, _h, _T, _d_model = x.shape
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.misconception(
    "`.T` reverses all axes of x, which is right for one sequence only. Write x @ W: it leaves the "
    "leading axes alone."
)
def all_axes_reversed(x, W_q, W_k, W_v):
    return (W_q.T @ x.T).T, (W_k.T @ x.T).T, (W_v.T @ x.T).T


@EXERCISE.style("three matrix products")
def matmul(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_v


@EXERCISE.style("einsum")
def einsum(x, W_q, W_k, W_v):
    return tuple(np.einsum("...td,de->...te", x, W) for W in (W_q, W_k, W_v))


@EXERCISE.style("one product with the joined weights, then split; a list")
def joined_then_split(x, W_q, W_k, W_v):
    d_k = W_q.shape[1]
    joined = np.matmul(x, np.hstack((W_q, W_k, W_v)))
    return np.split(joined, [d_k, 2 * d_k], axis=-1)


@EXERCISE.style("np.dot")
def dot(x, W_q, W_k, W_v):
    return np.dot(x, W_q), np.dot(x, W_k), np.dot(x, W_v)


@EXERCISE.style("token by token, in loops, in float64")
def token_by_token(x, W_q, W_k, W_v):
    def project(W):
        rows = x.reshape(-1, x.shape[-1])
        result = np.zeros((len(rows), W.shape[1]))
        for t, row in enumerate(rows):
            for j in range(W.shape[1]):
                result[t, j] = sum(row[i] * W[i, j] for i in range(len(row)))
        return result.reshape(*x.shape[:-1], W.shape[1])

    return project(W_q), project(W_k), project(W_v)


@EXERCISE.style("tensordot")
def tensordot(x, W_q, W_k, W_v):
    def project(W):
        return np.tensordot(x, W, axes=([-1], [0]))

    return project(W_q), project(W_k), project(W_v)


@EXERCISE.style("columns, transposed back")
def columns_transposed_back(x, W_q, W_k, W_v):
    columns = x.swapaxes(-1, -2)
    return tuple((W.T @ columns).swapaxes(-1, -2) for W in (W_q, W_k, W_v))
