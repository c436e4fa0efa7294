"""ch10_beyond_attention/selective_scan: leaky memories whose leak is chosen by the token itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, index, on_any_device
from autograder.exercises.weighing import IN_FLOAT32, ROUGH, slack, weights_by_channel
from tfcore import selective_scan as mamba

MOST_AFTER = 8
"""The most steps for which the effect of one input is followed."""


def drawn(
    rng: np.random.Generator, batch: int, T: int, d: int, N: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Draw u, delta (B, T, d), A (d, N), B and C (B, T, N) and D (d,); step sizes above 0, rates below 0."""
    u, B, C = tensor(rng, batch, T, d), tensor(rng, batch, T, N), tensor(rng, batch, T, N)
    delta = torch.from_numpy(rng.uniform(0.2, 1.5, size=(batch, T, d)))
    A = -torch.from_numpy(rng.uniform(0.2, 1.5, size=(d, N)))
    return tuple(x.to(dtype) for x in (u, delta, A, B, C, 1 + tensor(rng, d)))


def scans(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 steps of 3 channels, N = 4", drawn(rng, 1, 2, 3, 4))
    B, T, d, N = sizes(rng, (2, 4), (5, 9), (3, 6), (2, 7))
    yield Case(f"B = {B}, T = {T}, d = {d}, N = {N}", drawn(rng, B, T, d, N))
    yield Case("one memory per channel", drawn(rng, 2, 4, 3, 1))
    yield Case("one channel", drawn(rng, 2, 3, 1, 5))
    yield Case("a single step", drawn(rng, 3, 1, 2, 4))
    yield Case("30 steps", drawn(rng, 1, 30, 3, 2))
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 2, 5, 3, 4))))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    u, delta, A, B, C, D = drawn(rng, 1, 4, 2, 3)
    yield Case("A = 0: nothing is forgotten", (u, delta, 0 * A, B, C, D))
    yield Case("rates of -10,000: all is forgotten", (u, delta, 1e4 * A, B, C, D))
    yield Case(
        "steps of 0: tokens passed over", (u, delta * torch.tensor([1.0, 0, 0, 1])[:, None], A, B, C, D)
    )
    u, delta, A, B, C, D = drawn(rng, 1, 120, 3, 2)
    yield Case("120 steps with rates around -20", (u, delta, 20 * A, B, C, D))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 5, 3, 4, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 3, 4, 5, dtype=torch.bfloat16))
    yield Case("float16", drawn(rng, 3, 4, 2, 5, dtype=torch.float16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 steps", drawn(rng, 1, 4, 3, 2))
    yield Case("5 steps, float64", drawn(rng, 2, 5, 3, 4, dtype=torch.float64))


def only_input_makes_output(trial: Trial) -> str | None:
    u, *rest = trial.case.args
    got = numbers(trial.call(replace(trial.case, args=(torch.zeros_like(u), *rest))).value)
    wrong = np.abs(got) > 1e-6
    return (
        f"with u = 0 your output is {got[wrong][0]:.3g}{index(wrong)}; it must be 0" if wrong.any() else None
    )


def channels_stay_apart(trial: Trial) -> str | None:
    u, *rest = trial.case.args
    alone = torch.zeros_like(u)
    alone[..., 0] = u[..., 0]
    got = numbers(trial.call(replace(trial.case, args=(alone, *rest))).value)
    wrong = np.abs(got) > 1e-6
    wrong[..., 0] = False
    if not wrong.any():
        return None
    return f"with an input in channel 0 alone there is an output{index(wrong)}; channels do not mix"


def answer_to_one_input(trial: Trial) -> str | None:
    """Check the effect of an input of 1 at a single step: before it, at once, and later."""
    found = weights_by_channel(trial, 0)
    return next((said for c, own in enumerate(found) if (said := _answer_of_channel(trial, c, own))), None)


def _answer_of_channel(trial: Trial, channel: int, found: np.ndarray) -> str | None:
    _, delta, A, B, C, D = map(numbers, trial.case.args)
    close = slack(trial)
    delta, rates, straight = delta[..., channel], A[channel], D[channel]
    for b, s in np.ndindex(*delta.shape):
        given = f"an input of 1 at step {s} alone, in channel {channel},"
        early = np.flatnonzero(np.abs(found[b, :s, s]) > 1e-6)
        if len(early):
            return f"{given} already shows at step {early[0]}; the past cannot know it"
        written = delta[b, s] * B[b, s]
        at_once = float(C[b, s] @ written + straight)
        if abs(found[b, s, s] - at_once) > close * max(1, abs(at_once)):
            return (
                f"{given} gives y = {found[b, s, s]:.4g} at that step; C . (delta B) is "
                f"{at_once - straight:.4g} and D is {straight:.4g}, together {at_once:.4g}"
            )
    T = delta.shape[1]
    for after in range(1, min(T, MOST_AFTER + 1)):
        for b, s in np.ndindex(len(delta), T - after):
            kept = np.exp(delta[b, s + 1 : s + after + 1].sum() * rates) * delta[b, s] * B[b, s]
            later = float(C[b, s + after] @ kept)
            got = found[b, s + after, s]
            if abs(got - later) > close * max(1, abs(later)):
                return (
                    f"an input of 1 at step {s} alone, in channel {channel}, gives y = {got:.4g} "
                    f"{'a step' if after == 1 else f'{after} steps'} later; the state, which "
                    f"each step multiplies by exp(delta A), gives C . h = {later:.4g}"
                )
    return None


EXERCISE = Exercise(
    name="ch10_beyond_attention/selective_scan",
    signature="selective_scan(u, delta, A, B, C, D)",
    goal="Run N leaky memories per channel over time: h = exp(delta A) h + delta B u, y = C . h + D u.",
    section="Moving the brackets",
    minutes=12,
    difficulty="medium",
    reference=mamba.selective_scan,
    criteria=(
        Criterion("every step forgets, writes and reads", 0.75, scans),
        Criterion("rates of 0 and of -10,000, steps of 0, long sequences", 0.25, extremes),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach all six inputs", 0.25, differentiated(soft), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("without input there is no output", only_input_makes_output),
        Property("channels do not mix", channels_stay_apart),
        Property("one input, followed through time", answer_to_one_input),
        *LAST,
    ),
)
