"""ch05_positions/yarn_frequencies: slower turns for slow pairs, so that a longer text has known angles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore.rope_scaling import Yarn

CLOSE = 1e-4
"""The largest error of a frequency or temperature, as a share of it: float32 is precise enough."""

PARAMETERS = ("d", "base", "factor", "original_max_len", "beta_fast", "beta_slow")


def yarn_frequencies(
    d: int,
    base: float,
    factor: float,
    original_max_len: int,
    beta_fast: float = 32,
    beta_slow: float = 1,
) -> tuple[Tensor, float]:
    """Compute the reference answer: `tfcore`'s, with a ramp whose ends are not rounded.

    >>> frequencies, temperature = yarn_frequencies(8, 10_000.0, 4.0, 4096)
    >>> print(f"{frequencies[2]:.4f} {temperature:.3f}")
    0.0066 1.139
    """
    scaling = Yarn(factor, original_max_len, beta_fast=beta_fast, beta_slow=beta_slow, truncate=False)
    return scaling.frequencies(d, base), scaling.temperature()


def given(case: Case) -> dict[str, float]:
    defaults = {"beta_fast": 32, "beta_slow": 1}
    return defaults | dict(zip(PARAMETERS, case.args, strict=False)) | case.kwargs


def ends(case: Case) -> tuple[float, float]:
    """Return the pairs, with fractions, that turn beta_fast and beta_slow times in the original length."""
    values = given(case)
    length, scale = values["original_max_len"], values["d"] / (2 * math.log(values["base"]))
    begin, end = (
        scale * math.log(length / (2 * math.pi * values[beta])) for beta in ("beta_fast", "beta_slow")
    )
    return begin, end


def possible(case: Case) -> bool:
    """Return whether the ramp of a case begins at pair 0 or later and ends below d."""
    values = given(case)
    if values["d"] < 1 or values["base"] <= 1 or values["factor"] < 1 or values["original_max_len"] < 1:
        return False
    begin, end = ends(case)
    return 0 <= begin < end <= values["d"] - 1


def stretched(d: int, base: float, factor: float, length: int, **betas: float) -> Case:
    named = "".join(f", {name} = {value:g}" for name, value in betas.items())
    return Case(
        f"d = {d}, base = {base:g}, factor = {factor:g}, length {length}{named}",
        (d, base, factor, length),
        betas,
    )


def as_published(rng: np.random.Generator) -> Iterator[Case]:
    yield stretched(8, 10_000.0, 4.0, 4096)
    yield stretched(4, 10_000.0, 2.0, 2048)
    yield stretched(16, 10_000.0, 8.0, int(rng.integers(1000, 3000)))
    yield stretched(64, 10_000.0, float(rng.integers(3, 9)) + 0.5, int(rng.integers(500, 5000)))
    yield stretched(128, 500_000.0, 16.0, 8192)
    yield stretched(2 * int(rng.integers(11, 30)), 1_000_000.0, 4.0, 32_768)
    yield stretched(12, float(rng.integers(150, 300)), 3.0, 4096)  # the ramp ends behind the last pair
    yield stretched(20, 10_000.0, 1.0, 1024)


def other_betas(rng: np.random.Generator) -> Iterator[Case]:
    yield stretched(8, 10_000.0, 4.0, 4096, beta_fast=64, beta_slow=2)
    yield stretched(32, 10_000.0, 5.0, 2048, beta_fast=16)
    yield stretched(32, 10_000.0, 5.0, 2048, beta_slow=0.5)
    fast, slow = int(rng.integers(12, 30)) + 0.5, int(rng.integers(2, 7)) + 0.25
    yield stretched(64, 50_000.0, 6.0, 3000, beta_fast=fast, beta_slow=slow)
    case = stretched(24, 10_000.0, 2.5, 4096)
    yield Case("both betas without their names", (*case.args, 20, 3))


def temperatures(rng: np.random.Generator) -> Iterator[Case]:
    yield stretched(8, 10_000.0, 2.0, 4096)
    yield stretched(8, 10_000.0, 1.0, 4096)
    yield stretched(8, 10_000.0, 40.0, 4096)
    yield stretched(16, 10_000.0, float(rng.integers(5, 30)) + 0.5, 2048)


def odd(rng: np.random.Generator) -> Iterator[Case]:
    yield stretched(9, 10_000.0, 4.0, 4096)
    yield stretched(2 * int(rng.integers(8, 30)) + 1, 10_000.0, 2.0, 2048)


def off(got: Tensor, right: Tensor) -> Tensor:
    """Return where numbers differ from the right ones by more than a share of them, or are NaN."""
    return ~((got.double() - right.double()).abs() <= CLOSE * right.double().abs())


def same(got: Any, expected: Any, case: Case) -> bool:
    """Compare relative errors, since slow pairs have small frequencies; any floating dtype is right."""
    if not isinstance(expected, tuple):
        return False
    pairs = [(numbers(one), numbers(other)) for one, other in zip(got, expected, strict=True)]
    return all(
        one.dtype.kind == other.dtype.kind
        and np.allclose(one.astype(float), other.astype(float), rtol=CLOSE, atol=0, equal_nan=True)
        for one, other in pairs
    )


def right_frequencies(trial: Trial) -> str | None:
    """Find the first pair with a wrong frequency."""
    got, right = trial.value[0], trial.expected[0]
    if not torch.is_floating_point(got):
        return f"your frequencies are {got.dtype}; they are fractions of a radian, so use a floating dtype"
    wrong = off(got, right).nonzero().flatten().tolist()
    if not wrong:
        return None
    pair = wrong[0]
    return (
        f"pair {pair} should turn by {float(right[pair]):.5g} per position; yours turns by "
        f"{float(got[pair]):.5g}"
    )


def right_temperature(trial: Trial) -> str | None:
    got, right = float(trial.value[1]), trial.expected[1]
    if abs(got - right) <= CLOSE * right:
        return None
    factor = given(trial.case)["factor"]
    return f"for factor {factor:g} the temperature is 0.1 ln {factor:g} + 1 = {right:.5g}; yours is {got:.5g}"


def wide_enough(trial: Trial) -> str | None:
    got = trial.value[0]
    if not torch.is_floating_point(got) or got.element_size() > 2:
        return None
    return f"your frequencies are {got.dtype}, which has few digits; make them float32 or float64"


def _first(trial: Trial, pairs: range) -> tuple[int, float, float] | None:
    """Return the first wrong pair among `pairs`: its number, its frequency in RoPE and the returned one."""
    values, got = given(trial.case), trial.value[0]
    wrong = off(got, trial.expected[0]).tolist()
    for pair in pairs:
        if wrong[pair]:
            return pair, values["base"] ** (-2 * pair / values["d"]), float(got[pair])
    return None


def _turns(trial: Trial, omega: float) -> str:
    length = given(trial.case)["original_max_len"]
    return f"it makes {length:g} * {omega:.4g} / (2 pi) = {length * omega / (2 * math.pi):.4g} turns"


def fast_pairs_stay(trial: Trial) -> str | None:
    begin, _ = ends(trial.case)
    found = _first(trial, range(min(math.floor(begin) + 1, len(trial.value[0]))))
    if found is None:
        return None
    pair, omega, got = found
    return (
        f"pair {pair} keeps its {omega:.5g} radians per position, since {_turns(trial, omega)} in the "
        f"original length, more than beta_fast; yours is {got:.5g}"
    )


def slow_pairs_are_divided(trial: Trial) -> str | None:
    _, end = ends(trial.case)
    found = _first(trial, range(math.ceil(end), len(trial.value[0])))
    if found is None:
        return None
    pair, omega, got = found
    factor = given(trial.case)["factor"]
    return (
        f"pair {pair} gets {omega:.5g} / {factor:g} = {omega / factor:.5g}, since {_turns(trial, omega)} in "
        f"the original length, fewer than beta_slow; yours is {got:.5g}"
    )


def a_ramp_between(trial: Trial) -> str | None:
    begin, end = ends(trial.case)
    found = _first(trial, range(len(trial.value[0])))
    if found is None:
        return None
    pair, omega, got = found
    factor, share = given(trial.case)["factor"], (pair - begin) / (end - begin)
    return (
        f"the ramp goes from a = {begin:.4g} to b = {end:.4g}, so pair {pair} has r = {share:.4g} and turns "
        f"by (1 - r) * {omega:.5g} + r * {omega / factor:.5g}; yours is {got:.5g}"
    )


EXERCISE = Exercise(
    name="ch05_positions/yarn_frequencies",
    signature="yarn_frequencies(d, base, factor, original_max_len, beta_fast=32, beta_slow=1)",
    goal="Divide the slow frequencies of RoPE by the factor, keep the fast ones; return YaRN's temperature.",
    section="Stretching RoPE",
    minutes=15,
    difficulty="medium",
    reference=yarn_frequencies,
    criteria=(
        Criterion(
            "fast pairs stay, slow ones are divided, a ramp between",
            1.5,
            as_published,
            test=right_frequencies,
        ),
        Criterion("any beta_fast and beta_slow", 0.5, other_betas, test=right_frequencies),
        Criterion("the temperature is 0.1 ln(factor) + 1", 0.5, temperatures, test=right_temperature),
        Criterion("a ValueError for an odd number of channels", 0.5, odd),
    ),
    properties=(
        Property("the frequencies are wide enough", wide_enough),
        Property("the temperature is right", right_temperature),
        *FIRST,
        Property("fast pairs keep their frequency", fast_pairs_stay),
        Property("slow pairs are divided by the factor", slow_pairs_are_divided),
        Property("a linear ramp is between them", a_ramp_between),
        *LAST,
    ),
    forbidden=("transformers.modeling_rope_utils._compute_yarn_parameters",),
    same=same,
    domain=possible,
)
