"""ch03_scaling/softmax_jacobian: the change of each weight with each score."""

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
    """Draw probabilities along the last axis, all of them well above zero."""
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
    yield Case("two keys share the weight", (rng.permutation([0.5, 0.5, 0.0]),))
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
    return f"your J is not symmetric, first{index(wrong)}; dp_i/dx_j = dp_j/dx_i"


def right_signs(trial: Trial) -> str | None:
    J = np.asarray(trial.value)
    diagonal = np.eye(J.shape[-1], dtype=bool)
    if (wrong := diagonal & (J < -1e-6)).any():
        return f"J is {J[wrong][0]:.3g}{index(wrong)}; a higher score raises its own weight: expected above 0"
    if (wrong := ~diagonal & (J > 1e-6)).any():
        return f"J is {J[wrong][0]:.3g}{index(wrong)}; a higher score lowers other weights: expected below 0"
    return None


def agrees_with_differences(trial: Trial) -> str | None:
    """Compare the first wrong entry of the Jacobian with the effect of a small step of its score."""
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
        f"{(stepped[i] - p[i]) / 1e-4:.4f}; your J has {J[place]:.4f} there"
    )


def a_row_alone_is_right(trial: Trial) -> str | None:
    """Find wrong leading axes: the first row alone comes out right."""
    p = trial.case.args[0]
    first = (0,) * (p.ndim - 1)
    if not first:
        return None
    alone = trial.call(Case("one row", (p[first].copy(),))).value
    if np.shape(alone) != trial.expected[first].shape or not near(np.asarray(alone), trial.expected[first]):
        return None
    return (
        f"one row of weights alone comes out right, but a batch of shape {p.shape} does not: use "
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
    minutes=20,
    difficulty="hard",
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
        Property("any leading axes work", a_row_alone_is_right),
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
