"""ch08_serving/speculative_accept: which guesses of a small model are accepted, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from autograder.cage.tensors import numbers, strided
from autograder.checking.comparison import as_array, describe
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.laws import FIRST, as_close, elsewhere, on_any_device
from tfcore import generate

GRID = 8
"""In the exact sums over u, ratios are multiples of 1/GRID and u is half way between two of them."""


def speculative_accept(p_target, p_draft, draft_tokens, u):
    """Compute the reference answer."""
    return generate.speculative_accept(p_target, p_draft, draft_tokens, u)


def distributions(rng: np.random.Generator, n: int, V: int) -> np.ndarray:
    """Draw n distributions over V tokens, none of them flat and none with a zero."""
    drawn = rng.uniform(0.2, 1, size=(n, V)) ** 3
    return drawn / drawn.sum(axis=1, keepdims=True)


def guesses(
    rng: np.random.Generator, says: str, V: int, accept: list[bool], dtype: torch.dtype = torch.float32
) -> Case:
    """Make a case in which each guess by itself is accepted or rejected as asked, far from the limit."""
    n = len(accept)
    while True:
        p, q = distributions(rng, n + 1, V), distributions(rng, n, V)
        if ((p[:n] / q).min(axis=1) < 0.9).all():
            break
    tokens, u = np.zeros(n, dtype=np.int64), np.zeros(n)
    for i, passes in enumerate(accept):
        ratio = p[i] / q[i]
        tokens[i] = rng.choice(np.flatnonzero(ratio < 0.9))
        limit = ratio[tokens[i]]
        u[i] = limit * rng.uniform(0.1, 0.9) if passes else limit + (1 - limit) * rng.uniform(0.1, 0.9)
    drawn = [torch.from_numpy(x).to(dtype) for x in (p, q, u)]
    return Case(says, (drawn[0], drawn[1], torch.from_numpy(tokens), drawn[2]))


def with_certain(rng: np.random.Generator, says: str, V: int, place: int, *accept: bool) -> Case:
    """Make guesses; one is a token that the large model likes a little better than the small model."""
    case = guesses(rng, says, V, list(accept))
    p, q, tokens, u = (x.clone() for x in case.args)
    ratio = p[place] / q[place]
    tokens[place] = int(torch.where(ratio >= ratio.max().clamp(max=1.1), p[place], torch.inf).argmin())
    u[place] = 0.99
    return replace(case, args=(p, q, tokens, u))


def some_rejected(rng: np.random.Generator) -> Iterator[Case]:
    yield guesses(rng, "one guess, which is rejected", 3, [False])
    yield guesses(rng, "the second of 3 guesses is rejected", 5, [True, False, True])
    yield guesses(rng, "the first of 4 guesses is rejected, and others pass", 6, [False, True, True, True])
    for n in rng.permutation(np.arange(5, 9)):  # so many guesses that another rule rejects another one
        first = int(rng.integers(2, n - 1))
        accept = [i < first or (i > first and bool(rng.random() < 0.5)) for i in range(n)]
        yield guesses(rng, f"of {n} guesses, number {first} (counted from 0) is rejected first", 12, accept)
    yield guesses(rng, "the last of 4 guesses is rejected", 7, [True, True, True, False])
    yield with_certain(rng, "a certain guess, then one that is rejected", 9, 0, True, False)
    yield with_certain(
        rng, "a certain guess between two others, of which the last is rejected", 8, 1, True, True, False
    )
    p, q = (torch.from_numpy(distributions(rng, rows, 4)).float() for rows in (2, 1))
    p[0, 2], q[0, 2] = 0, 0.5
    p[0] /= p[0].sum()
    q[0] /= q[0].sum()
    yield Case("a guess that the large model excludes", (p, q, torch.tensor([2]), torch.tensor([0.01])))


def all_accepted(rng: np.random.Generator) -> Iterator[Case]:
    yield guesses(rng, "one guess, which is accepted", 4, [True])
    yield guesses(rng, "3 guesses, which are all accepted", 6, [True] * 3)
    yield with_certain(rng, "the large model likes the first guess even better", 5, 0, True, True)
    yield with_certain(rng, "the large model likes the last guess even better", 7, 1, True, True)
    case = guesses(rng, "both models agree", 5, [True] * 2)
    p, _, tokens, _ = case.args
    yield replace(case, args=(p, p[:2].clone(), tokens, torch.tensor([0.97, 0.99])))


def every(rng: np.random.Generator) -> Iterator[Case]:
    yield from some_rejected(rng)
    yield from all_accepted(rng)
    yield guesses(rng, "float64", 7, [True, False, True], dtype=torch.float64)
    case = guesses(rng, "tensors that are not contiguous", 6, [True, False])
    p, q, tokens, u = case.args
    yield replace(case, args=(strided(p), strided(q), strided(tokens), strided(u)))


def last_guesses(rng: np.random.Generator) -> Iterator[Case]:
    """Draw one guess, and two of which the first is certain; the grid of u cuts the last ratios exactly."""
    V = 4
    q = distributions(rng, 1, V)[0]
    too_fond = rng.permutation(V) < V // 2
    ratio = rng.choice(np.arange(1, GRID), size=V, replace=False) / GRID
    share = rng.uniform(0.3, 1, size=V) * ~too_fond
    p = np.where(too_fond, q * ratio, q)
    p += (1 - p.sum()) * share / share.sum()
    both, after = distributions(rng, 2, V)
    target, draft = (torch.from_numpy(np.stack(rows)) for rows in ((both, p, after), (both, q)))
    guess, u = torch.tensor([int(both.argmax()), 0]), torch.tensor([0.5, 0.0], dtype=torch.float64)
    yield Case("every token as the guess, every u", (target[1:], draft[1:], guess[1:], u[1:]))
    yield Case("a guess that is accepted, then every token as the guess, every u", (target, draft, guess, u))


def clear_cut(case: Case) -> bool:
    """Return whether these are distributions, with possible guesses, none of them at the limit."""
    p, q, tokens, u = (numbers(x) for x in case.args)
    n, V = q.shape
    if p.shape != (n + 1, V) or tokens.shape != (n,) or u.shape != (n,) or tokens.max() >= V:
        return False
    sums = np.concatenate([p.sum(axis=1), q.sum(axis=1)])
    p_guess, q_guess = (x[np.arange(n), tokens] for x in (p[:n], q))
    clear = (q_guess > 0.01).all() and (np.abs(p_guess - u * q_guess) > 1e-3).all()
    return bool(np.allclose(sums, 1, atol=1e-4) and clear and p.min() >= 0 and q.min() >= 0)


def marginal(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the distribution of the token in place of the last guess, (V,): an exact sum.

    The sum is over that guess x, which the small model makes with probability q(x), and over its u, which is
    uniform. An accepted guess comes out; after a rejection the next distribution decides.
    """
    p, q, tokens, u = case.args
    n, V = q.shape
    came = np.zeros(V)
    for x in range(V):
        for step in range(GRID):
            tokens, u = tokens.clone(), u.clone()
            tokens[-1], u[-1] = x, (step + 0.5) / GRID
            outcome = call(replace(case, args=(p, q, tokens, u)))
            found = _parts(outcome.value, V)
            if found is None:
                return outcome
            count, following = found
            weight = float(q[-1, x]) / GRID
            came += weight * (np.eye(V)[x] if count >= n else following)
    return Outcome(came)


def _parts(value: object, V: int) -> tuple[float, np.ndarray] | None:
    """Return the count and the distribution of a value, or None."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return None
    count, following = as_array(value[0]), as_array(value[1])
    if count is None or count.size != 1 or following is None or following.shape != (V,):
        return None
    return float(count.reshape(())), following.astype(np.float64)


def as_the_large_model(trial: Trial) -> str | None:
    p, n = numbers(trial.case.args[0])[-2], len(trial.case.args[1])
    if not isinstance(trial.value, np.ndarray):
        return f"expected a count and a distribution (V,), got {describe(trial.value)}"
    off = np.abs(trial.value - p)
    if off.max() < 1e-6:
        return None
    worst = int(off.argmax())
    return (
        f"over all guesses and all u, token {worst} comes out {'first' if n == 1 else 'second'} with "
        f"probability {trial.value[worst]:.3f}; "
        f"the large model gives it {p[worst]:.3f}, and speculation must not change that"
    )


def right_count(trial: Trial) -> str | None:
    """Check the number of accepted guesses, and name the guess where the count went wrong."""
    if not isinstance(trial.value, tuple | list):
        return None
    p, q, tokens, u = (numbers(x) for x in trial.case.args)
    got, wanted = float(as_array(trial.value[0]).reshape(())), int(trial.expected[0])  # type: ignore[union-attr]
    if got == wanted:
        return None
    i = int(min(max(got, 0), wanted, len(u) - 1))
    x = tokens[i]
    verdict = "accepted" if u[i] * q[i, x] < p[i, x] else "rejected"
    after = ", and no guess after it counts" if verdict == "rejected" and got > wanted else ""
    return (
        f"you accept {got:g} of {len(u)} guesses, and {wanted} is right. Guess {i} (counted from 0) is "
        f"token {x}: p/q = {p[i, x]:.3f}/{q[i, x]:.3f} = {p[i, x] / q[i, x]:.3f} and u = {u[i]:.3f}, so it "
        f"is {verdict}{after}"
    )


def is_a_distribution(trial: Trial) -> str | None:
    if not isinstance(trial.value, tuple | list):
        return None
    following = numbers(trial.value[1]).astype(np.float64)
    if (following < -1e-6).any():
        worst = int(following.argmin())
        return f"the next distribution gives token {worst} the probability {following[worst]:.3f}, below 0"
    if abs(following.sum() - 1) > 1e-3:
        total = f"{following.sum():.4g}"
        return f"the next distribution sums to {total}, not to 1: clamp first, then divide by the sum"
    return None


def right_residual(trial: Trial) -> str | None:
    """Name the wrong token of the next distribution, with the numbers that it is computed from."""
    if not isinstance(trial.value, tuple | list):
        return None
    p, q, _, u = (numbers(x).astype(np.float64) for x in trial.case.args)
    count, wanted = int(trial.expected[0]), numbers(trial.expected[1]).astype(np.float64)
    got = numbers(trial.value[1]).astype(np.float64)
    wrong = np.abs(got - wanted) > 1e-4
    if not wrong.any():
        return None
    x = int(np.flatnonzero(wrong)[0])
    if count == len(u):
        return (
            f"every guess is accepted, so return p_target[{count}]: token {x} has "
            f"{p[count, x]:.3f} there, yours has {got[x]:.3f}"
        )
    rest = np.maximum(p[count] - q[count], 0)
    return (
        f"guess {count} is rejected. Token {x} has the residual max({p[count, x]:.3f} - {q[count, x]:.3f}, 0)"
        f" = {rest[x]:.3f} there; divided by the sum of residuals, {rest.sum():.3f}, that is "
        f"{wanted[x]:.3f}; yours is {got[x]:.3f}"
    )


def counts(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the number of accepted guesses alone."""
    outcome = call(case)
    found = outcome.value[0] if isinstance(outcome.value, tuple | list) and outcome.value else outcome.value
    number = as_array(found)
    plain = number is not None and number.shape == () and float(number) == round(float(number))
    return replace(outcome, value=int(number) if plain and number is not None else found)


def counts_right(trial: Trial) -> str | None:
    if isinstance(trial.value, int):
        return right_count(replace(trial, outcome=Outcome((trial.value,)), expected=(trial.expected,)))
    return f"expected the number of accepted guesses first, got {describe(trial.value)}"


EXERCISE = Exercise(
    name="ch08_serving/speculative_accept",
    drawn_as="ch08_kv_cache/speculative_accept",
    signature="speculative_accept(p_target, p_draft, draft_tokens, u)",
    goal="Decide how many guesses of the small model to accept, and which distribution the next token has.",
    section="Guessing ahead, exactly",
    minutes=20,
    difficulty="hard",
    reference=speculative_accept,
    same=as_close,
    criteria=(
        Criterion(
            "guesses are accepted up to the first rejection", 1, every, measure=counts, test=counts_right
        ),
        Criterion("after a rejection: the residual distribution", 0.5, some_rejected),
        Criterion("where all guesses are accepted: p_target after the last", 0.5, all_accepted),
        Criterion(
            "the resulting tokens have the large model's distribution",
            0.5,
            last_guesses,
            measure=marginal,
            test=as_the_large_model,
        ),
        Criterion("works on any device", 0.25, elsewhere(some_rejected), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, every, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the number of accepted guesses", right_count),
        Property("the next distribution sums to 1", is_a_distribution),
        Property("the residual distribution", right_residual),
    ),
    domain=clear_cut,
)
