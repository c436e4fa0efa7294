"""ch03_scaling/softmax_jacobian: how each weight answers to each score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, index, near, of_weights
from autograder.exercises.library import DERIVATIVES
from tfcore import scaling

Array = np.ndarray


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Probabilities along the last axis, all of them well above zero."""
    drawn = rng.uniform(0.2, 1.0, size=shape)
    result: Array = drawn / drawn.sum(axis=-1, keepdims=True)
    return result


def one_row(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 weights", (weights(rng, 3),))
    yield Case("5 weights", (weights(rng, 5),))
    yield Case("a single weight", (np.ones(1),))
    yield Case("50 weights", (weights(rng, 50),))
    yield Case("float32 weights", (weights(rng, 6).astype(np.float32),))
    yield Case("strided weights", (strided(weights(rng, 4)),))


def batches(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 rows of 3 weights", (weights(rng, 2, 3),))
    yield Case("1 row of 4 weights", (weights(rng, 1, 4),))
    yield Case("shape (2, 3, 5)", (weights(rng, 2, 3, 5),))
    yield Case("shape (2, 3, 5, 4), float32", (weights(rng, 2, 3, 5, 4).astype(np.float32),))
    yield Case("strided, shape (4, 3)", (strided(weights(rng, 4, 3)),))
    yield Case("strided, shape (3, 2, 4)", (strided(weights(rng, 3, 2, 4)),))
    yield Case("shape (3, 1), rows of a single weight", (np.ones((3, 1)),))
    yield Case("shape (2, 1, 4)", (weights(rng, 2, 1, 4),))


def saturated(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("all weight on one key", (np.eye(4)[rng.integers(4)],))
    yield Case("two keys share it", (rng.permutation([0.5, 0.5, 0.0]),))
    nearly = np.array([1 - 3e-12, 1e-12, 2e-12, 0.0, 0.0])
    yield Case("nearly all weight on one key", (rng.permutation(nearly),))
    yield Case("one-hot rows", (np.eye(5)[rng.integers(5, size=3)],))


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 weights to nine digits", (weights(rng, 4),))
    yield Case("2 rows of 6 weights to nine digits", (weights(rng, 2, 6),))


def both(rng: np.random.Generator) -> Iterator[Case]:
    yield from one_row(rng)
    yield from batches(rng)


def rows_sum_to_zero(trial: Trial) -> str | None:
    sums = np.asarray(trial.value).sum(axis=-1)
    wrong = ~(np.abs(sums) < 1e-4)
    if not wrong.any():
        return None
    return (
        f"row{index(wrong)} of your J sums to {sums[wrong][0]:.3g}; raising all scores alike changes no "
        "weight, so rows sum to 0"
    )


def is_symmetric(trial: Trial) -> str | None:
    J = np.asarray(trial.value)
    wrong = ~(np.abs(J - np.swapaxes(J, -1, -2)) < 1e-4)
    if not wrong.any():
        return None
    return f"your J is not symmetric, the first{index(wrong)}; dp_i/dx_j = dp_j/dx_i"


def right_signs(trial: Trial) -> str | None:
    J = np.asarray(trial.value)
    diagonal = np.eye(J.shape[-1], dtype=bool)
    if (wrong := diagonal & (J < -1e-6)).any():
        return f"J is {J[wrong][0]:.3g}{index(wrong)}; a higher score raises its own weight: expected above 0"
    if (wrong := ~diagonal & (J > 1e-6)).any():
        return f"J is {J[wrong][0]:.3g}{index(wrong)}; a higher score lowers other weights: expected below 0"
    return None


def agrees_with_differences(trial: Trial) -> str | None:
    """The Jacobian against a small step of the score with the first wrong entry."""
    J, right = np.asarray(trial.value), trial.expected
    wrong = ~(np.abs(J - right) < 1e-6)
    if not wrong.any():
        return None
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    p = np.asarray(trial.case.args[0], dtype=np.float64)[place[:-2]]
    i, j = place[-2:]
    stepped = p * np.exp(1e-4 * (np.arange(len(p)) == j))
    stepped /= stepped.sum()
    return (
        f"raising score {j} by 0.0001 moves weight {i} from {p[i]:.7f} to {stepped[i]:.7f}, a slope of "
        f"{(stepped[i] - p[i]) / 1e-4:.4f}; your J says {J[place]:.4f} there"
    )


def a_row_alone_is_right(trial: Trial) -> str | None:
    """Where the first row by itself comes out right, the leading axes are at fault."""
    p = trial.case.args[0]
    first = (0,) * (p.ndim - 1)
    if not first:
        return None
    alone = trial.call(Case("one row", (p[first].copy(),))).value
    if np.shape(alone) != trial.expected[first].shape or not near(np.asarray(alone), trial.expected[first]):
        return None
    return (
        f"one row of weights alone comes out right, a batch of shape {p.shape} does not: use "
        "p[..., :, None] and p[..., None, :], which leave the leading axes alone"
    )


def diagonal_right(trial: Trial) -> str | None:
    J, right = np.asarray(trial.value), trial.expected
    if J.shape[-1] == 1:
        return None  # nothing is off the diagonal
    off = ~np.eye(J.shape[-1], dtype=bool)
    if near(J * ~off, right * ~off):
        return "the diagonal is right, the rest is not; off the diagonal J_ij is -p_i p_j"
    if near(J * off, right * off):
        return "the diagonal is wrong, the rest is right; on the diagonal J_ii is p_i (1 - p_i)"
    return None


EXERCISE = Exercise(
    name="ch03_scaling/softmax_jacobian",
    signature="softmax_jacobian(p)",
    goal="Return the matrix of dp_i/dx_j for the softmax weights p of some scores x.",
    section="Why large scores silence the gradient",
    reference=scaling.softmax_jacobian,
    criteria=(
        Criterion("J_ij = p_i (delta_ij - p_j) for one row of weights", 1.75, one_row, tolerance=3e-5),
        Criterion("any number of leading axes", 1, batches, tolerance=3e-5),
        Criterion("weights of exactly 0 and 1", 0.5, saturated, tolerance=3e-5),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the input is left as it was", 0.5, both, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("a batch is its rows", a_row_alone_is_right),
        Property("diagonal or the rest", diagonal_right),
        Property("rows sum to zero", rows_sum_to_zero),
        Property("J is symmetric", is_symmetric),
        Property("positive on the diagonal, negative off it", right_signs),
        *LAST,
        Property("J is the slope", agrees_with_differences),
    ),
    domain=of_weights,
    forbidden=DERIVATIVES,
)


@EXERCISE.misconception(
    "You return the diagonal alone. Raising one score also lowers all other weights, since they share a "
    "sum: off the diagonal write -p_i p_j."
)
def diagonal_only(p):
    return np.eye(p.shape[-1]) * (p * (1 - p))[..., None, :]


@EXERCISE.misconception(
    "The sign is turned round. Raising a score raises its own weight: the diagonal is +p_i (1 - p_i), the "
    "rest is -p_i p_j.",
    gravity="slip",
)
def sign(p):
    return p[..., :, None] * (p[..., None, :] - np.eye(p.shape[-1]))


@EXERCISE.misconception("You return -p_i p_j everywhere. Add p_i on the diagonal: p_i (delta_ij - p_j).")
def no_identity(p):
    return -p[..., :, None] * p[..., None, :]


@EXERCISE.misconception("You add the outer product. Subtract it: when one weight grows the others shrink.")
def outer_added(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) + p[..., None, :])


@EXERCISE.misconception(
    "np.diag and np.outer know no batch: np.diag takes the diagonal of a matrix, and np.outer flattens. "
    "Use p[..., :, None] and p[..., None, :] with np.eye(n)."
)
def no_batch(p):
    return np.diag(p) - np.outer(p, p)


@EXERCISE.misconception(
    "`p @ p.T`, like np.dot(p, p), is one number for a row of weights: the sum of all p_i p_i. Use the "
    "outer product, which has an entry for each pair: p[..., :, None] * p[..., None, :]."
)
def inner_product(p):
    return np.diag(p) - p @ p.T


@EXERCISE.misconception(
    "p.shape[0] is the number of rows when p is a batch. The identity belongs to the last axis: "
    "np.eye(p.shape[-1])."
)
def identity_of_the_first_axis(p):
    return p[..., :, None] * (np.eye(p.shape[0]) - p[..., None, :])


@EXERCISE.misconception(
    "You apply softmax to p. p is the result of softmax already, not the scores: use it as it is."
)
def softmax_once_more(p):
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


@EXERCISE.misconception(
    "You return delta_ij - p_j, the Jacobian of the *logarithm* of softmax. For softmax itself, multiply "
    "row i by p_i."
)
def of_the_logarithm(p):
    return np.eye(p.shape[-1]) - p[..., None, :] * np.ones(p.shape)[..., :, None]


@EXERCISE.misconception(
    "You return p (1 - p), one slope per weight, as for a sigmoid. Each weight answers to *every* score: "
    "return a matrix, (..., n, n).",
    gravity="useless",
)
def as_for_a_sigmoid(p):
    return p * (1 - p)


@EXERCISE.misconception(
    "You multiply p_i by (delta_ij - p_i). Subtract the weight of the score that moves, p_j."
)
def p_i_twice(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., :, None])


@EXERCISE.misconception("You put p_i itself on the diagonal. Subtract p_i p_i there as well: p_i (1 - p_i).")
def p_on_the_diagonal(p):
    J = -p[..., :, None] * p[..., None, :]
    i = np.arange(p.shape[-1])
    J[..., i, i] = p
    return J


@EXERCISE.misconception(
    "You use the first row of the batch for all. Keep the leading axes: p[..., :, None] and p[..., None, :]."
)
def first_row_for_all(p):
    row = p.reshape(-1, p.shape[-1])[0]
    return np.broadcast_to(np.diag(row) - np.outer(row, row), (*p.shape, p.shape[-1])).copy()


@EXERCISE.misconception(
    "Your code writes into the caller's weights, as `p *= ...` does. Write p = p * ..., or build J from p "
    "without assigning to it."
)
def changed_in_place(p):
    J = -p[..., :, None] * p[..., None, :]
    i = np.arange(p.shape[-1])
    p *= 1 - p
    J[..., i, i] = p
    return J


@EXERCISE.misconception(
    "`np.eye(n) * p` makes a diagonal of one row, not of a batch. Add an axis: np.eye(n) * p[..., None, :]."
)
def diagonal_of_one_row(p):
    return np.eye(p.shape[-1]) * p - p[..., :, None] * p[..., None, :]


@EXERCISE.misconception(
    "p[:, None] and p[None, :] count axes from the front, and so does np.eye(n) * p: right for one row only. "
    "Count from the end: p[..., :, None], p[..., None, :]."
)
def axes_from_the_front(p):
    return np.eye(p.shape[-1]) * p - p[:, None] * p[None, :]


@EXERCISE.misconception(
    "np.diag knows no batch, and p[:, None] counts axes from the front. Use p[..., :, None] and "
    "p[..., None, :] with np.eye(n): they leave leading axes alone."
)
def diag_and_axes_from_the_front(p):
    return np.diag(p) - p[:, None] * p[None, :]


@EXERCISE.misconception(
    "p[:, None] puts the new axis after the first one, which is right for a single row only. Put it last, "
    "p[..., :, None], and write p[..., None, :] for the p_j in delta_ij - p_j."
)
def factored_axes_from_the_front(p):
    return p[:, None] * (np.eye(p.shape[-1]) - p[None, :])


@EXERCISE.misconception(
    "np.diagflat and np.outer flatten: a batch of rows becomes one long row. Use p[..., :, None] and "
    "p[..., None, :] with np.eye(n), which keep rows apart."
)
def flattened(p):
    return np.diagflat(p) - np.outer(p, p)


@EXERCISE.misconception(
    "Your loops run over len(p), the *first* axis, which is right for one row of weights only. Take n = "
    "p.shape[-1] and index from the end: p[..., i], p[..., j]."
)
def loops_over_the_first_axis(p):
    n = len(p)
    return np.array([[p[i] * ((i == j) - p[j]) for j in range(n)] for i in range(n)])


@EXERCISE.misconception(
    "Your J is (n, n), room for one row of weights. A batch needs (..., n, n): J = np.empty((*p.shape, n)), "
    "with J[..., i, j] from p[..., i] and p[..., j]."
)
def loops_into_one_matrix(p):
    n = p.shape[-1]
    J = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


@EXERCISE.misconception(
    "You handle one row and a matrix of rows, no more: with further leading axes a `row` is a matrix "
    "itself. Use p[..., :, None] and p[..., None, :]."
)
def rows_of_a_matrix_only(p):
    if p.ndim == 1:
        return np.diag(p) - np.outer(p, p)
    return np.array([np.diag(row) - np.outer(row, row) for row in p])


@EXERCISE.misconception(
    "Your einsum names one axis of p, so it takes a single row. Let it begin with an ellipsis, "
    "'...i,...j->...ij', which fits any number of leading axes."
)
def einsum_of_one_row(p):
    return np.diag(p) - np.einsum("i,j->ij", p, p)


@EXERCISE.misconception(
    "Your einsum names two axes of p, so it takes a matrix of rows, no more and no fewer. Let it begin "
    "with an ellipsis, '...i,...j->...ij'."
)
def einsum_of_a_matrix(p):
    return np.eye(p.shape[-1]) * p[..., None, :] - np.einsum("bi,bj->bij", p, p)


@EXERCISE.misconception(
    "You unpack p.shape into one size, so your code takes a single row. Take n = p.shape[-1], which fits "
    "any number of leading axes."
)
def unpacks_one_size(p):
    (n,) = p.shape
    return p[..., :, None] * (np.eye(n) - p[..., None, :])


@EXERCISE.misconception(
    "You unpack p.shape into two sizes, so your code takes a matrix only. Take n = p.shape[-1], which "
    "fits any number of leading axes."
)
def unpacks_two_sizes(p):
    _rows, n = p.shape
    return p[..., :, None] * (np.eye(n) - p[..., None, :])


@EXERCISE.style("p_i times (delta_ij - p_j)")
def formula(p):
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


@EXERCISE.style("diagonal less outer product, einsum")
def einsum(p):
    n = p.shape[-1]
    return np.einsum("...i,ij->...ij", p, np.eye(n)) - np.einsum("...i,...j->...ij", p, p)


@EXERCISE.style("entry by entry, in loops")
def entry_by_entry(p):
    n = p.shape[-1]
    J = np.empty((*p.shape, n))
    for place in np.ndindex(p.shape[:-1]):
        row = p[place]
        for i in range(n):
            for j in range(n):
                J[(*place, i, j)] = row[i] * (1 - row[i]) if i == j else -row[i] * row[j]
    return J


@EXERCISE.style("np.diag and np.outer, row by row")
def row_by_row(p):
    n = p.shape[-1]
    rows = p.reshape(-1, n)
    return np.stack([np.diag(row) - np.outer(row, row) for row in rows]).reshape(*p.shape, n)


@EXERCISE.style("the diagonal written into the outer product")
def diagonal_written(p):
    J = -(p[..., None] @ p[..., None, :])
    i = np.arange(p.shape[-1])
    J[..., i, i] += p
    return J


@EXERCISE.style("as a product of matrices, diag(p) (I - 1 p^T)")
def product_of_matrices(p):
    n = p.shape[-1]
    diagonal = np.zeros((*p.shape, n))
    diagonal.reshape(-1, n * n)[:, :: n + 1] = p.reshape(-1, n)
    return diagonal @ (np.identity(n) - np.ones((n, 1)) @ p[..., None, :])
