"""ch05_positions/apply_rope: queries and keys are turned, so that their scores see the distance."""

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
    """The reference: `tfcore`'s, in the layout of halves."""
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
    """One case of each form, for laws that do not depend on sizes."""
    yield from islice(in_order(rng), 4)


def at_positions(rng: np.random.Generator) -> Iterator[Case]:
    """Positions that do not count 0, 1, 2, ...: decoding, padding, any order."""
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
    """Channels i and i + d/2 as complex numbers, (rows, T, d/2)."""
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
    """The layout is the other one if neighbours keep their lengths and halves do not."""
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
    found = float(torch.angle(turned[row, token, pair] / x[row, token, pair]))
    asked = float(right[token, pair])
    turns = (
        "" if asked < math.pi else f", which is {math.remainder(asked, 2 * math.pi):.3g} after whole turns"
    )
    return (
        f"at position {int(positions[token])} you turn channels {pair} and {pair + half} by {found:.3g}; the "
        f"angle is {int(positions[token])} * {base:g}^(-{2 * pair}/{2 * half}) = {asked:.4g}{turns}"
    )


def scores_see_the_distance_alone(trial: Trial) -> str | None:
    """A query at m and a key at n score as a query at m + 3 and a key at n + 3."""
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
        Property("scores see the distance alone", scores_see_the_distance_alone),
        Property("the angles are right", right_angles),
        *LAST,
    ),
    forbidden=("transformers.models.llama.modeling_llama.apply_rotary_pos_emb",),
)


@EXERCISE.misconception(
    "You turn neighbours, channels 2i and 2i + 1, as the RoPE paper does. Pair channel i with i + d/2, "
    "as in Llama: x.chunk(2, dim=-1) gives both halves.",
    gravity="slip",
)
def neighbours_paired(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


@EXERCISE.misconception(
    "You turn the other way round. Write x1 cos - x2 sin for the first half and x1 sin + x2 cos for the "
    "second: the minus is in the first.",
    gravity="slip",
)
def turned_backwards(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Neither half has a minus, x1 cos + x2 sin and x1 sin + x2 cos, so lengths change and this is no "
    "turn. Write x1 cos - x2 sin for the first half."
)
def no_minus(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos + x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Each token is turned as if it were one position later. Use `positions` as they come: a token at "
    "position 0 is not turned at all.",
    gravity="slip",
)
def positions_from_1(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[:, None] + 1) * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your tokens count as 0, 1, 2, ... whatever `positions` says. While a model writes, a single new "
    "token may be at position 57: use the `positions` that are passed.",
    gravity="useless",
)
def positions_ignored(x, positions, base=10000.0):
    T, d = x.shape[-2:]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = torch.arange(T, device=x.device)[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Positions, frequencies and angles are rounded to the dtype of x. bfloat16 has 8 significant bits, "
    "so that 5,000 and 5,001 are the same number: compute angles in float32, and return x's dtype at "
    "the end."
)
def angles_in_half_precision(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None].to(x.dtype) * omega.to(x.dtype)
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


@EXERCISE.misconception(
    "Your positions are rounded to the dtype of x. bfloat16 makes 4,992 of both 5,000 and 5,001, and "
    "float16 rounds from 2,048 on: leave positions integers, or make them float32."
)
def positions_in_half_precision(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None].to(x.dtype) * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your positions are rounded to bfloat16, which has 8 significant bits: beyond 256 neighbours fall "
    "together. Leave positions integers, or make them float32."
)
def positions_in_bfloat16(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None].to(torch.bfloat16) * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your positions are rounded to float16, which has 11 significant bits: beyond 2,048 neighbours fall "
    "together. Leave positions integers, or make them float32."
)
def positions_in_float16(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None].to(torch.float16) * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your angles are rounded to the dtype of x before cos and sin, so that an angle of 5,001 is off by "
    "radians. Take cos and sin in float32, and return only the result in x's dtype."
)
def angles_rounded_at_the_end(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[:, None] * omega).to(x.dtype)
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Frequencies and angles are rounded to the dtype of x at each step. Compute both in float32, and "
    "return x's dtype at the end."
)
def all_in_half_precision(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your frequencies are rounded to the dtype of x before the positions meet them. At position 5,000 "
    "that error has grown 5,000-fold: keep frequencies and angles in float32."
)
def frequencies_in_half_precision(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = (base ** -(torch.arange(0, d, 2, device=x.device) / d)).to(x.dtype)
    angles = positions[:, None].float() * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your result is float32 where bfloat16 came in. Return it with .to(x.dtype): cosines in float32 "
    "widen what they are multiplied with."
)
def dtype_not_kept(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


@EXERCISE.misconception(
    "Your exponents are -i/d, so all pairs but the first turn too fast. Use -2i/d for pair i: take "
    "torch.arange(0, d, 2) / d.",
    gravity="slip",
)
def i_for_2i(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(d // 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your exponents are -4i/d, which counts the 2 twice. Use -2i/d for pair i: divide 2i by the whole width.",
    gravity="slip",
)
def the_2_counted_twice(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    omega = base ** -(torch.arange(0, 2 * half, 2, device=x.device) / half)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your base is 10000 whatever `base` says. Use `base`: models for long texts pass another one."
)
def base_ignored(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = 10000.0 ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your default of `base` is 1,000. Write base=10000.0 in the first line of the function.",
    gravity="slip",
)
def base_of_1000_by_default(x, positions, base=1000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your default of `base` is 500,000, as in Llama 3. Write base=10000.0 in the first line of the function.",
    gravity="slip",
)
def base_of_500000_by_default(x, positions, base=500000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your later pairs turn faster: the exponent has no minus. Use base^(-2i/d), so that later pairs "
    "turn more slowly."
)
def growing_frequencies(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** (torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "You turn all pairs by the same angle. Turn pair i by position * base^(-2i/d): the first fast, the "
    "last hardly at all."
)
def one_angle_for_all(x, positions, base=10000.0):
    angles = positions[:, None].float()
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your second half is made from a first half that is turned already. Compute both from the old x, "
    "then join them."
)
def first_half_overwritten(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    x1 = x1 * cos - x2 * sin
    x2 = x1 * sin + x2 * cos
    return torch.cat([x1, x2], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Two layouts are mixed: your pairs are (i, i + d/2), but each angle is repeated for neighbours. "
    "With halves, join the angles to themselves: torch.cat([angles, angles], dim=-1)."
)
def layouts_mixed(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[:, None] * omega).repeat_interleave(2, dim=-1)
    x1, x2 = x.chunk(2, dim=-1)
    rotated = torch.cat([-x2, x1], dim=-1)
    return (x * angles.cos() + rotated * angles.sin()).to(x.dtype)


@EXERCISE.misconception(
    "You turn halves and put the results back as neighbours, so that channels change places even at "
    "position 0. Put the first half before the second: torch.cat([first, second], dim=-1)."
)
def halves_in_neighbours_out(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    turned = torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


@EXERCISE.misconception(
    "You turn neighbours and put the results back as halves, so that channels change places even at "
    "position 0. Take the pairs (i, i + d/2) from x as well: x.chunk(2, dim=-1)."
)
def neighbours_in_halves_out(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Sine and cosine are exchanged. Let each channel keep itself by the cosine, x1 cos - x2 sin and x1 "
    "sin + x2 cos: at angle 0 nothing turns.",
    gravity="slip",
)
def sine_and_cosine_exchanged(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    sin, cos = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "You turn half of the channels and return the rest as it came. Turn all d channels: pair i is "
    "(x[i], x[i + d/2])."
)
def half_of_the_channels(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "You add sines and cosines to x, as the sinusoidal encoding does. Multiply instead: RoPE turns each "
    "pair of channels.",
    gravity="useless",
)
def added_to_x(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    return (x + torch.cat([angles.sin(), angles.cos()], dim=-1)).to(x.dtype)


@EXERCISE.misconception(
    "You write into the caller's x. Slices and chunks of x are views of the same memory: make a new "
    "tensor with torch.cat."
)
def changed_in_place(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x[..., : d // 2].clone(), x[..., d // 2 :].clone()
    x[..., : d // 2] = x1 * cos - x2 * sin
    x[..., d // 2 :] = x1 * sin + x2 * cos
    return x


@EXERCISE.misconception(
    "No gradient flows back to x: something cuts the result off from it. Leave out torch.no_grad() and "
    ".detach(); the angles need no gradient and have none."
)
def without_gradients(x, positions, base=10000.0):
    with torch.no_grad():
        d = x.shape[-1]
        omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
        angles = positions[:, None] * omega
        cos, sin = angles.cos(), angles.sin()
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "A tensor that you make is on the cpu, where it cannot meet positions on a graphics card. Pass "
    "device=x.device, to torch.arange too."
)
def device_forgotten(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your cosines are broadcast as (T, 1, d/2), as if x were (B, T, h, d). Time is the last axis but "
    "one here: (T, d/2) broadcasts to all axes before it."
)
def heads_after_time(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos()[:, None, :], angles.sin()[:, None, :]
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your code fixes the number of axes of x at four, as `B, h, T, d = x.shape` does. x is (..., T, d), with "
    "any axes in front: write T, d = x.shape[-2:].",
    gravity="slip",
)
def four_axes_only(x, positions, base=10000.0):
    _, _, _, d = x.shape
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your code fixes the number of axes of x at three, as `B, T, d = x.shape` does. x is (..., T, d), with "
    "any axes in front: write T, d = x.shape[-2:].",
    gravity="slip",
)
def three_axes_only(x, positions, base=10000.0):
    _, _, d = x.shape
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your code fixes the number of axes of x at two, as `T, d = x.shape` does. x is (..., T, d), with any "
    "axes in front: write T, d = x.shape[-2:].",
    gravity="slip",
)
def two_axes_only(x, positions, base=10000.0):
    _, d = x.shape
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your result has four axes where x has fewer: cosines of the shape (1, 1, T, d/2) add axes to it. Leave "
    "them (T, d/2), which broadcasts to any axes in front.",
    gravity="slip",
)
def cosines_of_four_axes(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[:, None] * omega)[None, None]
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "Your result has three axes where x is (T, d): cosines of the shape (1, T, d/2) add one to it. Leave "
    "them (T, d/2), which broadcasts to any axes in front.",
    gravity="slip",
)
def cosines_of_three_axes(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[:, None] * omega)[None]
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.misconception(
    "You count on from the first position: only positions[0] takes part. Tokens may be at positions with "
    "gaps, in any order: use each of the `positions` that are passed."
)
def counted_on_from_the_first(x, positions, base=10000.0):
    T, d = x.shape[-2:]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = (positions[0] + torch.arange(T, device=x.device))[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.style("both halves turned, then joined")
def halves(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = positions[:, None] * omega
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


@EXERCISE.style("angles for all channels, and rotate_half")
def rotate_half(x, positions, base=10000.0):
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(positions.float(), rates).repeat(1, 2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    rotated = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), dim=-1)
    return x * cos + rotated * sin


@EXERCISE.style("complex numbers times e^(i angle)")
def complex_numbers(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    omega = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.einsum("t,i->ti", positions.float(), omega)
    wide = torch.promote_types(x.dtype, torch.float32)
    z = torch.complex(x[..., :half].to(wide), x[..., half:].to(wide))
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1).type_as(x)


@EXERCISE.style("pair by pair, in a loop")
def pair_by_pair(x, positions, base=10000.0):
    d = x.shape[-1]
    turned = torch.empty_like(x)
    for i in range(d // 2):
        angle = positions.to(torch.float64) * base ** (-2 * i / d)
        a, b = x[..., i], x[..., i + d // 2]
        turned[..., i] = a * torch.cos(angle) - b * torch.sin(angle)
        turned[..., i + d // 2] = a * torch.sin(angle) + b * torch.cos(angle)
    return turned


@EXERCISE.style("one rotation matrix a position")
def rotation_matrices(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = torch.exp(-math.log(base) * torch.arange(0, d, 2, device=x.device) / d)
    angles = positions.unsqueeze(-1) * omega
    C, S = torch.diag_embed(angles.cos()), torch.diag_embed(angles.sin())
    R = torch.cat([torch.cat([C, -S], dim=-1), torch.cat([S, C], dim=-1)], dim=-2)
    return torch.einsum("tij,...tj->...ti", R, x.float()).to(x.dtype)


@EXERCISE.style("reshaped to pairs, in float32, back to the dtype of x")
def reshaped_to_pairs(x, positions, base=10000.0):
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(positions.float(), rates)
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().reshape(*x.shape[:-1], 2, d // 2).unbind(dim=-2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-2).flatten(-2).type_as(x)


@EXERCISE.style("a signed angle, and the halves rolled")
def halves_rolled(x, positions, base=10000.0):
    d = x.shape[-1]
    channel = torch.arange(d, device=x.device) % (d // 2)
    angles = positions[..., None] * torch.pow(base, -2 * channel / d)
    sin = torch.where(torch.arange(d, device=x.device) < d // 2, -angles.sin(), angles.sin())
    return (x * angles.cos() + x.roll(d // 2, dims=-1) * sin).to(x.dtype)
