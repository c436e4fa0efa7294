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
    """Draw states (T, d_h) from -largest to largest, and W_hh with singular values spread over `stretch`."""
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
    """Yield cases with states where the gradient does not depend on tanh's slope, or vanishes."""
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
    """Return dh_s/dh_(s-1), (d_h, d_h)."""
    result: Array = (1 - h[s].astype(np.float64) ** 2)[:, None] * W_hh.T
    return result


def product(h: Array, W_hh: Array, t: int) -> Array:
    """Return dh_T/dh_t, (d_h, d_h)."""
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
    """Find rounding that grows: the last states alone give right norms, and all states give wrong norms."""
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
"""Other measures of a matrix, with numpy's name for each."""


def one_step_back(trial: Trial) -> str | None:
    """Check the last factor alone: if it is wrong, no norm further back can be right."""
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
    """Check that W_hh doubled, at the same states, doubles every factor."""
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
        f"it is {back} step{'s' * (back > 1)} back, each with one factor W_hh: expected {2**back} times"
    )


def largest_singular_value(trial: Trial) -> str | None:
    """Compare the first wrong norm from the end with the singular values of the right product."""
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
    goal="Return the spectral norm of dh_T/dh_t for every t: the effect of each state on the last one.",
    section="What one step does to a push",
    minutes=30,
    difficulty="hard",
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
