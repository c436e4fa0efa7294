"""ch05_positions/apply_rope: queries and keys are turned, so that their scores depend on the distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, as_close, differentiated, elsewhere, on_any_device
from tfcore.positions import rotary

SINGLE = 1e-4
"""Angles in float32 are precise enough, whatever the dtype of x."""


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Compute the reference answer: `tfcore`'s, in the layout of halves."""
    return rotary.apply_rope(x, positions, base)


def in_order(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens of width 2", (tensor(rng, 3, 2), torch.arange(3)))
    yield Case("3 tokens of width 4", (tensor(rng, 3, 4), torch.arange(3)))
    T, half = sizes(rng, (5, 9), (5, 8))
    yield Case(f"{T} tokens of width {2 * half}", (tensor(rng, T, 2 * half), torch.arange(T)))
    B, h, T, half = sizes(rng, (2, 4), (2, 4), (5, 7), (4, 6))
    x = tensor(rng, B, h, T, 2 * half)
    yield Case(f"a batch of {B}, {h} heads, {T} tokens, width {2 * half}", (x, torch.arange(T)))
    yield Case("a batch of one, width 64", (tensor(rng, 1, 12, 64), torch.arange(12)))
    yield Case("five axes", (tensor(rng, 2, 1, 3, 5, 4), torch.arange(5)))
    yield Case("a tensor that is not contiguous", (strided(tensor(rng, 2, 3, 5, 8)), torch.arange(5)))


def few_in_order(rng: np.random.Generator) -> Iterator[Case]:
    """Yield one case of each form, for laws that do not depend on sizes."""
    yield from islice(in_order(rng), 4)


def at_positions(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases whose positions do not count 0, 1, 2, ...: decoding, padding, any order."""
    place = int(rng.integers(4, 30))
    yield Case(f"one token, at position {place}", (tensor(rng, 4, 1, 6), torch.tensor([place])))
    yield Case(f"another token, at position {place + 1}", (tensor(rng, 4, 1, 6), torch.tensor([place + 1])))
    shuffled = np.append(rng.permutation(30)[:4], 30)[rng.permutation(5)]
    yield Case("positions out of order", (tensor(rng, 5, 6), torch.from_numpy(shuffled)))
    yield Case("positions that fall", (tensor(rng, 2, 3, 4), torch.tensor([7, 4, 0])))
    yield Case("positions that repeat", (tensor(rng, 4, 6), torch.tensor([0, 0, 1, 1])))
    yield Case("positions in int32", (tensor(rng, 3, 4), torch.tensor([2, 3, 9], dtype=torch.int32)))


def anywhere(rng: np.random.Generator) -> Iterator[Case]:
    yield from in_order(rng)
    yield from at_positions(rng)


def far_ahead(rng: np.random.Generator) -> Iterator[Case]:
    one = torch.tensor([int(rng.integers(30, 60))])
    yield Case("the newest token of 2 x 3 heads", (tensor(rng, 2, 3, 1, 8), one))
    x = tensor(rng, 3, 4, 10, dtype=torch.float64)
    yield Case("float64, with gaps", (x, torch.from_numpy(np.sort(rng.permutation(90)[:4]))))
    start = int(rng.integers(4500, 5500))
    far = torch.arange(start, start + 7)
    yield Case(f"from position {start} on", (tensor(rng, 2, 7, 12), far))


def other_bases(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("base = 100", (tensor(rng, 3, 4), torch.arange(3)), {"base": 100.0})
    T, half = sizes(rng, (5, 9), (5, 8))
    yield Case("base = 500000", (tensor(rng, T, 2 * half), torch.arange(T)), {"base": 500000.0})
    drawn = int(rng.integers(3, 40)) + 0.5
    x = tensor(rng, 2, 5, 8, dtype=torch.float64)
    yield Case(f"base = {drawn:g}", (x, torch.arange(5)), {"base": drawn})


def half_precision(rng: np.random.Generator) -> Iterator[Case]:
    x = tensor(rng, 3, 4, dtype=torch.bfloat16)
    yield Case("bfloat16, the first positions", (x, torch.arange(3)))
    x = tensor(rng, 2, 6, dtype=torch.bfloat16)
    yield Case("bfloat16, at position 5,000", (x, torch.tensor([5000, 5001])))
    drawn = torch.from_numpy(rng.permutation(1000)[:5] + 4500)
    yield Case("bfloat16, around 5,000", (tensor(rng, 2, 3, 5, 16, dtype=torch.bfloat16), drawn))
    yield Case("float16, around 5,000", (tensor(rng, 3, 5, 8, dtype=torch.float16), drawn))


def _by_pairs(x: Tensor) -> Tensor:
    """Return channels i and i + d/2 as complex numbers, (rows, T, d/2)."""
    first, second = x.detach().double().reshape(-1, *x.shape[-2:]).chunk(2, dim=-1)
    return torch.complex(first, second)


def _parts(trial: Trial) -> tuple[Tensor, Tensor, Tensor, float]:
    x, positions = trial.case.args
    return _by_pairs(x), _by_pairs(trial.value), positions, trial.case.kwargs.get("base", 10000.0)


def position_0_stays(trial: Trial) -> str | None:
    x, turned, positions, _ = _parts(trial)
    wrong = ((positions == 0)[:, None] & ((x - turned).abs() > 0.05)).nonzero()
    if not len(wrong):
        return None
    row, token, pair = (int(n) for n in wrong[0])
    before, after = x[row, token, pair], turned[row, token, pair]
    half = x.shape[-1]
    return (
        f"at position 0 every angle is 0 and nothing turns; your channels {pair} and {pair + half} went from "
        f"({before.real:.3g}, {before.imag:.3g}) to ({after.real:.3g}, {after.imag:.3g})"
    )


def halves_are_pairs(trial: Trial) -> str | None:
    """Find the other layout: neighbouring channels keep their lengths, and halves do not."""
    x, turned, _, _ = _parts(trial)
    half = x.shape[-1]
    if half == 1 or torch.allclose(x.abs(), turned.abs(), atol=0.05):
        return None
    given, got = (
        t.detach().double().unflatten(-1, (-1, 2)).norm(dim=-1) for t in (trial.case.args[0], trial.value)
    )
    if not torch.allclose(given, got, atol=0.05):
        return None
    return f"you turn neighbours, channels 0 and 1, together; here the pairs are i and i + d/2: 0 and {half}"


def keeps_lengths(trial: Trial) -> str | None:
    x, turned, positions, _ = _parts(trial)
    wrong = ((x.abs() - turned.abs()).abs() > 0.05).nonzero()
    if not len(wrong):
        return None
    row, token, pair = (int(n) for n in wrong[0])
    return (
        f"at position {int(positions[token])} the pair of channels {pair} and {pair + x.shape[-1]} had the "
        f"length {float(x[row, token, pair].abs()):.3g} and now has "
        f"{float(turned[row, token, pair].abs()):.3g}; a turn keeps lengths"
    )


def right_angles(trial: Trial) -> str | None:
    x, turned, positions, base = _parts(trial)
    half = x.shape[-1]
    omega = base ** -(torch.arange(half, dtype=torch.float64) / half)
    right = positions.double()[:, None] * omega
    off = torch.angle(turned / x * torch.exp(-1j * right))
    slack = 0.02 if trial.value.element_size() == 2 else 1e-3 + 1e-6 * right.abs()  # what rounding may do
    wrong = ((off.abs() > slack) & (x.abs() > 0.3)).nonzero()
    if not len(wrong):
        return None
    row, token, pair = min(wrong.tolist(), key=lambda place: abs(right[place[1], place[2]] - 1))
    found = round(float(torch.angle(turned[row, token, pair] / x[row, token, pair])), 6)
    asked = float(right[token, pair])
    turns = (
        "" if asked < math.pi else f", which is {math.remainder(asked, 2 * math.pi):.3g} after whole turns"
    )
    return (
        f"at position {int(positions[token])} you turn channels {pair} and {pair + half} by {found:.3g}; the "
        f"angle should be {int(positions[token])} * {base:g}^(-{2 * pair}/{2 * half}) = {asked:.4g}{turns}"
    )


def scores_see_the_distance_alone(trial: Trial) -> str | None:
    """Check that a query at m and a key at n score like a query at m + 3 and a key at n + 3."""
    x, positions = trial.case.args
    moved = trial.call(Case("all moved on by 3", (x, positions + 3), trial.case.kwargs)).value
    tokens, here, there = (t.double().reshape(-1, *x.shape[-2:])[0] for t in (x, trial.value, moved))
    score, score_moved = float(here[1] @ here[0]), float(there[1] @ there[0])
    if abs(score - score_moved) < 0.03 * float(tokens[1].norm() * tokens[0].norm()):
        return None
    m, n = int(positions[1]), int(positions[0])
    return (
        f"tokens at positions {m} and {n} score {score:.3g}, and {score_moved:.3g} when both are moved on by "
        "3; the score must depend on their distance alone"
    )


EXERCISE = Exercise(
    name="ch05_positions/apply_rope",
    signature="apply_rope(x, positions, base=10000.0)",
    goal="Turn channels i and i + d/2 of each token by the angle position * base^(-2i/d).",
    section="RoPE: only the difference is left",
    minutes=25,
    difficulty="hard",
    reference=apply_rope,
    same=as_close,
    criteria=(
        Criterion("channels i and i + d/2 turn by position * base^(-2i/d)", 1.5, anywhere, tolerance=SINGLE),
        Criterion("float64, and positions in the thousands", 0.5, far_ahead, tolerance=50 * SINGLE),
        Criterion("with any base", 0.5, other_bases, tolerance=SINGLE),
        Criterion("bfloat16 in and out, with angles in float32", 0.5, half_precision),
        Criterion("gradients flow back to x", 0.5, differentiated(few_in_order), tolerance=SINGLE),
        Criterion("works on any device", 0.25, elsewhere(few_in_order), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, anywhere, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("position 0 changes nothing", position_0_stays),
        Property("the pairs are i and i + d/2", halves_are_pairs),
        Property("a turn keeps lengths", keeps_lengths),
        Property("scores depend on distance alone", scores_see_the_distance_alone),
        Property("the angles are right", right_angles),
        *LAST,
    ),
    forbidden=("transformers.models.llama.modeling_llama.apply_rotary_pos_emb",),
)
