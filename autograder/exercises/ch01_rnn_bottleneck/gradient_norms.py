"""ch01_rnn_bottleneck/gradient_norms: how much of each state is still felt in the last one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST, near
from autograder.exercises.library import DERIVATIVES
from tfcore import bottleneck

Array = np.ndarray


def drawn(
    rng: np.random.Generator,
    T: int,
    d_h: int,
    stretch: tuple[float, float] = (0.6, 1.5),
    largest: float = 0.8,
) -> tuple[Array, Array]:
    """States (T, d_h) from -largest to largest; a W_hh with singular values spread over `stretch`."""
    (one, _), (other, _) = (np.linalg.qr(rng.normal(size=(d_h, d_h))) for _ in range(2))
    values = rng.permutation(np.geomspace(*stretch, d_h) * rng.uniform(0.9, 1.0, size=d_h))
    return rng.uniform(-largest, largest, size=(T, d_h)), one * values @ other


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 states of 2 units", drawn(rng, T=3, d_h=2))
    yield Case("4 states of 3 units", drawn(rng, T=4, d_h=3))
    T, d_h = (int(n) for n in rng.permutation(np.arange(3, 7))[:2])
    yield Case("any sizes", drawn(rng, T, d_h, stretch=(0.8, 2.5)))
    h, W_hh = drawn(rng, T=5, d_h=4)
    yield Case("float32", (h.astype(np.float32), W_hh.astype(np.float32)))
    h, W_hh = drawn(rng, T=6, d_h=3)
    yield Case("strided arrays", (strided(h), strided(W_hh)))


def extreme_states(rng: np.random.Generator) -> Iterator[Case]:
    """States at which the gradient does not depend on tanh's slope, or dies."""
    yield Case("a single state", drawn(rng, T=1, d_h=3))
    h, W_hh = drawn(rng, T=3, d_h=4)
    yield Case("states that are all zero", (np.zeros_like(h), W_hh))
    h, W_hh = drawn(rng, T=5, d_h=3)
    h[2] = np.sign(h[2])
    yield Case("every unit of state 2 is 1 or -1", (h, W_hh))


def distant(rng: np.random.Generator) -> Iterator[Case]:
    vanishing = drawn(rng, T=50, d_h=6, stretch=(0.02, 0.9))
    yield Case("50 states, a gradient that vanishes", vanishing)
    exploding = drawn(rng, T=40, d_h=5, stretch=(0.5, 4.0), largest=0.4)
    yield Case("40 states, a gradient that explodes", exploding)


def exact(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 states to nine digits", drawn(rng, T=3, d_h=4))
    yield Case("6 states to nine digits", drawn(rng, T=6, d_h=2))


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from extreme_states(rng)
    yield from distant(rng)


def jacobian(h: Array, W_hh: Array, s: int) -> Array:
    """dh_s/dh_(s-1)."""
    result: Array = (1 - h[s].astype(np.float64) ** 2)[:, None] * W_hh.T
    return result


def product(h: Array, W_hh: Array, t: int) -> Array:
    """dh_T/dh_t."""
    result = np.eye(h.shape[1])
    for s in range(t + 1, len(h)):
        result = jacobian(h, W_hh, s) @ result
    return result


def relatively_close(trial: Trial) -> str | None:
    """Compare relatively: far back, 1e-12 and 1e-15 are different norms."""
    got, right = np.asarray(trial.value, dtype=np.float64), trial.expected
    wrong = np.flatnonzero(~(np.abs(got - right) <= 1e-6 * np.abs(right)))
    if not wrong.size:
        return None
    t = int(wrong[-1])
    return f"expected {right[t]:.6g} at [{t}], {len(right) - 1 - t} steps back, got {got[t]:.6g}"


def rounding_stays_small(trial: Trial) -> str | None:
    """Where the last states alone give right norms and all of them give wrong ones, rounding has grown."""
    h, W_hh = trial.case.args
    few = 3
    if len(h) < 10 or near(np.asarray(trial.value)[-few:], trial.expected[-few:]):
        return None
    alone = np.asarray(trial.call(Case("the last states", (h[-few:].copy(), W_hh))).value)
    if not near(alone, trial.expected[-few:]):
        return None
    return (
        f"the last {few} states alone give the right norms; with all {len(h)} your last norm is "
        f"{np.asarray(trial.value)[-1]:.4g}: rounding grows, as it does with an inverse. Multiply from the "
        "end instead"
    )


def ends_with_one(trial: Trial) -> str | None:
    norms = np.asarray(trial.value)
    if abs(norms[-1] - 1) < 1e-6:
        return None
    return f"your last norm is {norms[-1]:.4g}; dh_T/dh_T is the identity, and its norm is 1"


def not_negative(trial: Trial) -> str | None:
    norms = np.asarray(trial.value)
    t = int(norms.argmin())
    return f"your norm is {norms[t]:.4g} at [{t}]; a norm is never negative" if norms[t] < 0 else None


OTHER_NORMS: dict[str, Literal["fro", "nuc"] | float] = {
    "its Frobenius norm": "fro",
    "its largest column sum": 1,
    "its largest row sum": np.inf,
    "its smallest singular value": -2,
    "the sum of its singular values": "nuc",
}
"""What else a matrix may be measured by, with numpy's name for it."""


def one_step_back(trial: Trial) -> str | None:
    """The one factor by itself: where it is wrong, nothing further back can be right."""
    h, W_hh = trial.case.args
    if len(h) < 2:
        return None
    got, right = float(np.asarray(trial.value)[-2]), float(trial.expected[-2])
    if near(np.asarray(got), np.asarray(right)):
        return None
    factor = jacobian(h, W_hh, -1)
    for named, order in OTHER_NORMS.items():
        if near(np.asarray(got), np.asarray(np.linalg.norm(factor, ord=order))):
            return (
                f"one step back, {got:.4g} is {named}; the spectral norm, ord=2, is its largest singular "
                f"value: {right:.4g}"
            )
    slopes = ", ".join(f"{slope:.4g}" for slope in (1 - h[-1] ** 2)[:5]) + ", ..." * (len(W_hh) > 5)
    return (
        f"one step back is one factor, diag(1 - h_T^2) W_hh^T with 1 - h_T^2 = ({slopes}); its largest "
        f"singular value is {right:.4g}, your norm {got:.4g}"
    )


def first_state_has_no_say(trial: Trial) -> str | None:
    h, W_hh = trial.case.args
    other = np.array(h)
    other[0] = 0.9 - np.abs(other[0])
    moved = np.abs(np.asarray(trial.call(Case("another first state", (other, W_hh))).value) - trial.value)
    if moved.max() < 1e-9:
        return None
    return (
        f"another first state changes your norm at [{int(moved.argmax())}] by {moved.max():.3g}; the step "
        "into h_s has the slope 1 - h_s^2, and no step leads into the first state"
    )


def each_step_counts_once(trial: Trial) -> str | None:
    """W_hh doubled at the same states doubles every factor."""
    h, W_hh = trial.case.args
    got = np.asarray(trial.value)
    twice = np.asarray(trial.call(Case("W_hh doubled", (h, 2 * W_hh))).value)
    steps = np.arange(len(h))[::-1]
    wrong = np.flatnonzero(~np.isclose(twice, 2.0**steps * got, rtol=1e-4, atol=1e-12))
    if not wrong.size:
        return None
    t = int(wrong[-1])
    back = len(h) - 1 - t
    return (
        f"W_hh doubled, at the same states, makes your norm at [{t}] {twice[t] / got[t]:.4g} times as large; "
        f"it lies {back} step{'s' * (back > 1)} back, each with one factor W_hh: expected {2**back} times"
    )


def largest_singular_value(trial: Trial) -> str | None:
    """The first wrong norm from the end, beside the singular values of the right product."""
    h, W_hh = trial.case.args
    got, right = np.asarray(trial.value), trial.expected
    wrong = np.flatnonzero(~(np.abs(got - right) <= 1e-6 * np.maximum(np.abs(right), 1e-30)))
    if not wrong.size:
        return None
    t = int(wrong[-1])
    values = np.linalg.svd(product(h, W_hh, t), compute_uv=False)
    shown = ", ".join(f"{value:.4g}" for value in values[:4]) + ", ..." * (len(values) > 4)
    return (
        f"at [{t}] the product of {len(h) - 1 - t} factors, the latest step on the left, has the singular "
        f"values {shown}; the largest is the norm, and you return {got[t]:.4g}"
    )


EXERCISE = Exercise(
    name="ch01_rnn_bottleneck/gradient_norms",
    signature="gradient_norms(h, W_hh)",
    goal="Return the spectral norm of dh_T/dh_t for every t: how much of each state is felt in the last one.",
    section="What one step does to a push",
    reference=bottleneck.gradient_norms,
    criteria=(
        Criterion("the norm of dh_T/dh_t for every t", 2.5, ordinary, tolerance=3e-5),
        Criterion("a single state, states at 0, units at 1 and -1", 0.75, extreme_states, tolerance=3e-5),
        Criterion("40 steps back and more, to six digits", 1, distant, test=relatively_close),
        Criterion("float64 in, nine digits out", 0.25, exact),
        Criterion("the inputs are left as they were", 0.5, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("a norm is not negative", not_negative),
        Property("rounding stays small", rounding_stays_small),
        Property("the last norm is 1", ends_with_one),
        Property("one step back is one factor", one_step_back),
        Property("no step leads into the first state", first_state_has_no_say),
        Property("each step back has one factor W_hh", each_step_counts_once),
        *LAST,
        Property("the norm is the largest singular value", largest_singular_value),
    ),
    forbidden=DERIVATIVES,
)


@EXERCISE.misconception(
    "The factors are in the wrong order, and matrices do not commute. dh_T/dh_t is J_T J_(T-1) ... "
    "J_(t+1): multiply the factor of one step further back on the *right*."
)
def order_of_the_product(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = (1 - h[t + 1] ** 2)[:, None] * W_hh.T @ total
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You use 1 - h for the slope. With h = tanh(a) the slope of tanh is 1 - h**2: square the state."
)
def one_minus_h(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1]) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You return the Frobenius norm, which adds up all directions and is what np.linalg.norm(M) gives. The "
    "spectral norm is the strongest direction alone: write np.linalg.norm(M, ord=2).",
    gravity="slip",
)
def frobenius(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total)
    return norms


@EXERCISE.misconception(
    "You take the slope at h_t, where the step starts. The step from h_t to h_(t+1) has the slope of the "
    "tanh that made h_(t+1): 1 - h[t + 1] ** 2.",
    gravity="slip",
)
def slope_at_the_start(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "Your norms are in reverse. norms[0] belongs to the first state, the furthest away, and the last norm "
    "is 1: return norms[::-1].",
    gravity="slip",
)
def in_reverse(h, W_hh):
    total, norms = np.eye(h.shape[1]), [1.0]
    for t in range(len(h) - 1, 0, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms.append(np.linalg.norm(total, ord=2))
    return np.array(norms)


@EXERCISE.misconception(
    "Your W_hh is not transposed. The state is a row, h @ W_hh, so unit j of the old state reaches unit i "
    "of the new one through W_hh[j, i]: J = diag(1 - h^2) W_hh^T."
)
def not_transposed(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply the columns of W_hh^T by the slopes; diag(1 - h^2) on the left multiplies rows. Write "
    "(1 - h**2)[:, None] * W_hh.T, or np.diag(1 - h**2) @ W_hh.T."
)
def columns_for_rows(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ ((1 - h[t + 1] ** 2) * W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply W_hh alone and leave out tanh. Each step also has tanh's slope, diag(1 - h^2), which is "
    "at most 1."
)
def no_slope(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You apply tanh to h once more. h holds states, which are tanh already: the slope is 1 - h**2."
)
def tanh_once_more(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - np.tanh(h[t + 1]) ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You return the norm of each step by itself. dh_T/dh_t is the product of all steps from t to the end."
)
def each_step_alone(h, W_hh):
    norms = np.ones(len(h))
    for t in range(len(h) - 1):
        norms[t] = np.linalg.norm(np.diag(1 - h[t + 1] ** 2) @ W_hh.T, ord=2)
    return norms


@EXERCISE.misconception(
    "You multiply the norms of the steps. That is only a bound, since one step's strongest direction need "
    "not be the next one's. Multiply the matrices, then take the norm."
)
def product_of_norms(h, W_hh):
    norms = np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        norms[t] = norms[t + 1] * np.linalg.norm(np.diag(1 - h[t + 1] ** 2) @ W_hh.T, ord=2)
    return norms


@EXERCISE.misconception(
    "You return powers of W_hh's norm, which is a bound for any states. Return the norm of the product, "
    "with the slopes of these states."
)
def powers_of_the_norm(h, W_hh):
    return np.linalg.norm(W_hh, ord=2) ** np.arange(len(h))[::-1]


@EXERCISE.misconception(
    "You take the largest eigenvalue. A matrix can stretch by more than that: take the largest *singular* "
    "value, np.linalg.norm(M, ord=2)."
)
def largest_eigenvalue(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.abs(np.linalg.eigvals(total)).max()
    return norms


@EXERCISE.misconception(
    "You return squared norms: the eigenvalues of M M^T are the squares of M's singular values. Take the "
    "square root.",
    gravity="slip",
)
def squared(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.eigvalsh(total @ total.T).max()
    return norms


@EXERCISE.misconception(
    "You are one step too far back: your last norm has a factor already. norms[T-1] belongs to dh_T/dh_T, "
    "which is the identity: its norm is 1.",
    gravity="slip",
)
def one_step_too_far(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 1, -1, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You follow the first state forward: dh_t/dh_1. Return how much of each state is felt in the *last* "
    "one, dh_T/dh_t."
)
def from_the_first_state(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(1, len(h)):
        total = np.diag(1 - h[t] ** 2) @ W_hh.T @ total
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You send back one gradient, that of the sum of the last state's units. The spectral norm needs the "
    "strongest of all directions: keep the whole matrix."
)
def gradient_of_the_sum(h, W_hh):
    gradient, norms = np.ones(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        gradient = W_hh @ (gradient * (1 - h[t + 1] ** 2))
        norms[t] = np.linalg.norm(gradient)
    return norms


@EXERCISE.misconception(
    "You use the last state's slope at every step. The step into each state has the slope of that state: "
    "1 - h[t + 1] ** 2."
)
def one_slope_for_all(h, W_hh):
    step = np.diag(1 - h[-1] ** 2) @ W_hh.T
    return np.array([np.linalg.norm(np.linalg.matrix_power(step, n), 2) for n in range(len(h))][::-1])


@EXERCISE.misconception("You multiply the steps number by number, `*`. Use the matrix product, `@`.")
def number_by_number(h, W_hh):
    total, norms = np.ones(W_hh.shape), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total * (np.diag(1 - h[t + 1] ** 2) @ W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "You keep norms from falling below a small number. A gradient that vanishes is the point: return it "
    "as small as it is."
)
def floor_under_the_norms(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = max(np.linalg.norm(total, ord=2), 1e-8)
    return norms


@EXERCISE.misconception(
    "Your code changes the caller's states, as `h *= h` does. Write 1 - h**2, which makes a new array."
)
def changed_in_place(h, W_hh):
    h *= h
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1]) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.misconception(
    "Your norms begin one step back: you return T - 1 of them. Return T: dh_T/dh_T counts as well, with "
    "the norm 1.",
    gravity="slip",
)
def one_norm_too_few(h, W_hh):
    total, norms = np.eye(h.shape[1]), []
    for t in range(len(h) - 1, 0, -1):
        total = total @ np.diag(1 - h[t] ** 2) @ W_hh.T
        norms.insert(0, np.linalg.norm(total, ord=2))
    return np.array(norms)


@EXERCISE.misconception(
    "Your last norm is NaN, as memory from np.empty is before it is written. dh_T/dh_T is the identity: "
    "set norms[-1] = 1.",
    gravity="slip",
)
def last_norm_never_written(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.empty(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.style("back from the end, one factor more on the right at each step")
def back_from_the_end(h, W_hh):
    total, norms = np.eye(h.shape[1]), np.ones(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ ((1 - h[t + 1] ** 2)[:, None] * W_hh.T)
        norms[t] = np.linalg.norm(total, ord=2)
    return norms


@EXERCISE.style("each product from its beginning, forward")
def forward_for_each(h, W_hh):
    norms = []
    for t in range(len(h)):
        total = np.eye(h.shape[1])
        for s in range(t + 1, len(h)):
            total = np.diag(1 - h[s] ** 2) @ W_hh.T @ total
        norms.append(np.linalg.norm(total, 2))
    return np.array(norms)


@EXERCISE.style("states as rows: the transpose of everything")
def states_as_rows(h, W_hh):
    total = np.identity(h.shape[1])
    norms = [1.0]
    for state in h[:0:-1]:
        total = (W_hh * (1 - state**2)) @ total
        norms.append(np.linalg.svd(total, compute_uv=False)[0])
    return np.array(norms[::-1])


@EXERCISE.style("the root of the largest eigenvalue of M M^T")
def root_of_an_eigenvalue(h, W_hh):
    total = np.eye(len(W_hh))
    norms = np.empty(len(h))
    norms[-1] = 1
    for t in reversed(range(len(h) - 1)):
        total = np.einsum("ij,j,kj->ik", total, 1 - np.square(h[t + 1]), W_hh)
        norms[t] = np.sqrt(np.linalg.eigvalsh(total @ total.T)[-1])
    return norms


@EXERCISE.style("all Jacobians at once, then their products")
def all_jacobians_at_once(h, W_hh):
    h = np.asarray(h, dtype=np.float64)
    J = (1 - h**2)[:, :, None] * W_hh.T[None]
    products = [np.eye(h.shape[1])]
    for t in range(len(h) - 1, 0, -1):
        products.append(products[-1] @ J[t])
    return np.linalg.norm(np.stack(products[::-1]), ord=2, axis=(-2, -1))


@EXERCISE.style("a product that is scaled to 1 on the way, its size kept as a logarithm")
def in_logarithms(h, W_hh):
    total, size = np.eye(h.shape[1]), 0.0
    logs = np.zeros(len(h))
    for t in range(len(h) - 2, -1, -1):
        total = total @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T
        norm = np.linalg.norm(total, ord=2)
        if norm == 0:
            logs[: t + 1] = -np.inf
            break
        total, size = total / norm, size + np.log(norm)
        logs[t] = size
    return np.exp(logs)


@EXERCISE.style("a recursion over the states")
def recursion(h, W_hh):
    def felt(t):
        if t == len(h) - 1:
            return [np.eye(h.shape[1])]
        later = felt(t + 1)
        return [later[0] @ np.diag(1 - h[t + 1] ** 2) @ W_hh.T, *later]

    return np.array([np.linalg.norm(M, ord=2) for M in felt(0)])
