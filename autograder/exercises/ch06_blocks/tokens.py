"""Tokens for the norms: each with a mean and a spread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.checking.declaration import Case, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import near


def tokens(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Draw tokens (..., d) with spreads of half to three times `spread`, and means within two spreads."""
    each = rng.uniform(0.5, 3, size=(*shape[:-1], 1))
    x = spread * each * (rng.normal(size=shape) + rng.uniform(-2, 2, size=(*shape[:-1], 1)))
    return torch.from_numpy(x).to(dtype)


def gains(rng: np.random.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw weights of a norm, far from ones, none near zero."""
    signs = torch.from_numpy(rng.choice([-1.0, 1.0, 1.0], size=d))
    return (signs * torch.from_numpy(rng.uniform(0.4, 2.5, size=d))).to(dtype)


def shifts(rng: np.random.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw biases of a norm, far from zeros."""
    return tensor(rng, d, dtype=dtype)


def in_any_shape(rng: np.random.Generator, drawn: Callable[..., tuple[Tensor, ...]]) -> Iterator[Case]:
    """Yield one case for each shape of x: one token, a batch, four axes.

    Args:
        rng: draws the numbers.
        drawn: draws the arguments of the norm, x first, from `rng` and a shape.
    """
    yield Case("one token of 4 channels", drawn(rng, 4))
    yield Case("3 tokens of 5 channels", drawn(rng, 3, 5))
    yield Case("a batch of shape (2, 3, 6)", drawn(rng, 2, 3, 6))
    B, T, d = sizes(rng, (2, 9), (2, 9), (4, 9))
    yield Case("a batch of any size", drawn(rng, B, T, d))
    yield Case("a single token in each sequence", drawn(rng, 3, 1, 7))
    yield Case("four axes", drawn(rng, 2, 3, 4, 5))
    yield Case("300 channels", drawn(rng, 2, 300))


def plain(trial: Trial) -> Tensor:
    """Return the result without its weight and bias, in float64."""
    weight, *bias = (a.double() for a in trial.case.args[1:])
    return (trial.value.double() - (bias[0] if bias else 0)) / weight


def weighs(case: Case) -> bool:
    """Return whether the weight of the norm is never 0, so that results can be divided by it (a domain)."""
    return bool(case.args[1].all())


def eps(trial: Trial, default: float) -> float:
    return float(trial.case.kwargs.get("eps", default))


def default_eps(trial: Trial, default: float) -> str | None:
    """Find a wrong default of eps: passing the right eps mends the result."""
    if "eps" in trial.case.kwargs or first_wrong_token(trial) is None:
        return None
    passed = trial.call(Case("eps passed", trial.case.args, {"eps": default})).value
    if not near(passed.double().numpy(), trial.expected.double().numpy()):
        return None
    return f"with eps={default:g} passed your result is right, and without it wrong: make that the default"


def first_wrong_token(trial: Trial) -> tuple[int, ...] | None:
    """Return the place of the first wrong token; None if all are right."""
    off = (trial.value.double() - trial.expected.double()).abs().amax(dim=-1)
    wrong = torch.nonzero(~(off < 1e-4))
    return tuple(int(n) for n in wrong[0]) if len(wrong) else None


def called(place: tuple[int, ...]) -> str:
    return f"token {list(place)}" if place else "the token"


def tokens_are_apart(trial: Trial) -> str | None:
    """Find a token that is wrong among others and right alone."""
    x, *rest = trial.case.args
    place = first_wrong_token(trial)
    if not place:
        return None
    alone = trial.call(Case("a token alone", (x[place].clone(), *rest), trial.case.kwargs)).value
    if not near(alone.double().numpy(), trial.expected[place].double().numpy()):
        return None
    return (
        f"{called(place)} comes out right when it is passed alone, and wrong among others: take mean and "
        "spread along the last axis, dim=-1, with keepdim=True"
    )


def a_token_moves_itself_alone(trial: Trial) -> str | None:
    """Change the last token, and check that all others come out as before."""
    x, *rest = trial.case.args
    if x.dim() < 2 or x[..., 0].numel() < 2:
        return None
    other = x.clone()
    last = tuple(n - 1 for n in x.shape[:-1])
    other[last] = other[last].flip(-1) + 1
    again = trial.call(Case("another last token", (other, *rest), trial.case.kwargs)).value
    moved = (again.double() - trial.value.double()).abs().amax(dim=-1)
    moved[last] = 0
    if float(moved.max()) < 1e-3:
        return None
    place = tuple(int(n) for n in torch.nonzero(moved > 1e-3)[0])
    return (
        f"{called(last)} was changed, and {called(place)} changes with it; work on each token alone, along "
        "the last axis, dim=-1"
    )
