"""Mistakes that people make in `apply_rope`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch05_positions.apply_rope import EXERCISE
from autograder.exercises.ch05_positions.apply_rope_styles import halves

edited = partial(wrong, EXERCISE, halves)


@EXERCISE.misconception(
    "You turn neighbours, channels 2i and 2i + 1, as the RoPE paper does. Pair channel i with i + d/2, "
    "as Llama does in transformers: x.chunk(2, dim=-1) gives both halves.",
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


edited(
    "turned_backwards",
    "You turn the other way round. Write x1 cos - x2 sin for the first half and x1 sin + x2 cos for the "
    "second: the minus is in the first.",
    {"cos - x2 * sin, x1 * sin + x2 * cos": "cos + x2 * sin, x2 * cos - x1 * sin"},
    gravity="slip",
)

edited(
    "no_minus",
    "Neither half has a minus, x1 cos + x2 sin and x1 sin + x2 cos, so lengths change and this is no "
    "turn. Write x1 cos - x2 sin for the first half.",
    {"cos - x2": "cos + x2"},
)

edited(
    "positions_from_1",
    "Each token is turned as if it were one position later. Use `positions` as they come: a token at "
    "position 0 is not turned at all.",
    {"positions[:, None]": "(positions[:, None] + 1)"},
    gravity="slip",
)

edited(
    "positions_ignored",
    "Your tokens count as 0, 1, 2, ... whatever `positions` holds. While a model writes, a single new "
    "token may be at position 57: use the `positions` that are passed.",
    {
        "d = x.shape[-1]": "T, d = x.shape[-2:]",
        "angles = positions": "angles = torch.arange(T, device=x.device)",
    },
    gravity="useless",
)

edited(
    "angles_in_half_precision",
    "Positions, frequencies and angles are rounded to the dtype of x. bfloat16 has 8 significant bits, "
    "so that 5,000 and 5,001 are the same number: compute angles in float32, and return x's dtype at "
    "the end.",
    {".to(x.dtype)": "", "[:, None] * omega": "[:, None].to(x.dtype) * omega.to(x.dtype)"},
)

edited(
    "positions_in_half_precision",
    "Your positions are rounded to the dtype of x. bfloat16 makes 4,992 of both 5,000 and 5,001, and "
    "float16 rounds from 2,048 on: leave positions integers, or make them float32.",
    {"[:, None]": "[:, None].to(x.dtype)"},
)

edited(
    "positions_in_bfloat16",
    "Your positions are rounded to bfloat16, which has 8 significant bits: beyond 256, neighbours become "
    "equal. Leave positions integers, or make them float32.",
    {"[:, None]": "[:, None].to(torch.bfloat16)"},
)

edited(
    "positions_in_float16",
    "Your positions are rounded to float16, which has 11 significant bits: beyond 2,048, neighbours become "
    "equal. Leave positions integers, or make them float32.",
    {"[:, None]": "[:, None].to(torch.float16)"},
)

edited(
    "angles_rounded_at_the_end",
    "Your angles are rounded to the dtype of x before cos and sin, so that an angle of 5,001 is off by "
    "a radian or more. Take cos and sin in float32, and return only the result in x's dtype.",
    {"positions[:, None] * omega": "(positions[:, None] * omega).to(x.dtype)"},
)

edited(
    "all_in_half_precision",
    "Frequencies and angles are rounded to the dtype of x at each step. Compute both in float32, and "
    "return x's dtype at the end.",
    {"x.device": "x.device, dtype=x.dtype"},
)

edited(
    "frequencies_in_half_precision",
    "Your frequencies are rounded to the dtype of x before the positions multiply them. At position 5,000 "
    "that error has grown 5,000-fold: keep frequencies and angles in float32.",
    {
        "base ** -(torch.arange(0, d, 2, device=x.device) / d)": (
            "(base ** -(torch.arange(0, d, 2, device=x.device) / d)).to(x.dtype)"
        ),
        "[:, None]": "[:, None].float()",
    },
)

edited(
    "dtype_not_kept",
    "Your result is float32 where bfloat16 came in. Return it with .to(x.dtype): a product with cosines in "
    "float32 is float32.",
    {".to(x.dtype)": ""},
)

edited(
    "i_for_2i",
    "Your exponents are -i/d, so all pairs but the first turn too fast. Use -2i/d for pair i: take "
    "torch.arange(0, d, 2) / d.",
    {"arange(0, d, 2": "arange(d // 2"},
    gravity="slip",
)

edited(
    "the_2_counted_twice",
    "Your exponents are -4i/d, which counts the 2 twice. Use -2i/d for pair i: divide 2i by the whole width.",
    {"d = x.shape[-1]": "half = x.shape[-1] // 2", "0, d, 2": "0, 2 * half, 2", "/ d": "/ half"},
    gravity="slip",
)

edited(
    "base_ignored",
    "Your base is 10000 whatever `base` is. Use `base`: models for long texts pass another one.",
    {"omega = base": "omega = 10000.0"},
)

edited(
    "base_of_1000_by_default",
    "Your default of `base` is 1,000. Write base=10000.0 in the first line of the function.",
    {"10000.0": "1000.0"},
    gravity="slip",
)

edited(
    "base_of_500000_by_default",
    "Your default of `base` is 500,000, as in Llama 3. Write base=10000.0 in the first line of the function.",
    {"10000.0": "500000.0"},
    gravity="slip",
)

edited(
    "growing_frequencies",
    "Your later pairs turn faster: the exponent has no minus. Use base^(-2i/d), so that later pairs "
    "turn more slowly.",
    {"base ** -": "base ** "},
)


@EXERCISE.misconception(
    "You turn all pairs by the same angle. Turn pair i by position * base^(-2i/d): the first fast, the "
    "last hardly at all."
)
def one_angle_for_all(x, positions, base=10000.0):
    angles = positions[:, None].float()
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)


edited(
    "first_half_overwritten",
    "Your second half is made from a first half that is turned already. Compute both from the old x, "
    "then join them.",
    {
        "return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)": (
            "x1 = x1 * cos - x2 * sin\n    x2 = x1 * sin + x2 * cos\n    return torch.cat([x1, x2], dim=-1)"
        )
    },
)


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


edited(
    "halves_in_neighbours_out",
    "You turn halves and put the results back as neighbours, so that channels change places even at "
    "position 0. Put the first half before the second: torch.cat([first, second], dim=-1).",
    {
        "return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)": (
            "turned = torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)\n"
            "    return turned.flatten(-2)"
        )
    },
)

edited(
    "neighbours_in_halves_out",
    "You turn neighbours and put the results back as halves, so that channels change places even at "
    "position 0. Take the pairs (i, i + d/2) from x as well: x.chunk(2, dim=-1).",
    {
        "x1, x2 = x.chunk(2, dim=-1)": "even, odd = x[..., 0::2], x[..., 1::2]",
        "x1 * cos - x2 * sin, x1 * sin + x2 * cos": "even * cos - odd * sin, even * sin + odd * cos",
    },
)

edited(
    "sine_and_cosine_exchanged",
    "Sine and cosine are exchanged. Multiply each channel itself by the cosine, x1 cos - x2 sin and x1 sin "
    "+ x2 cos: at angle 0 nothing turns.",
    {"cos, sin": "sin, cos"},
    gravity="slip",
)

edited(
    "half_of_the_channels",
    "You turn half of the channels and return the rest as it came. Turn all d channels: pair i is "
    "(x[i], x[i + d/2]).",
    {"x1 * sin + x2 * cos": "x2"},
)


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


edited(
    "device_forgotten",
    "A tensor that you make is on the cpu, and cannot be combined with positions on a GPU. Pass "
    "device=x.device, to torch.arange too.",
    {", device=x.device": ""},
)

edited(
    "heads_after_time",
    "Your cosines are broadcast as (T, 1, d/2), as if x were (B, T, h, d). Time is the last axis but "
    "one here: (T, d/2) broadcasts to all axes before it.",
    {"angles.cos(), angles.sin()": "angles.cos()[:, None, :], angles.sin()[:, None, :]"},
)

edited(
    "four_axes_only",
    "Your code fixes the number of axes of x at four, as `B, h, T, d = x.shape` does. x is (..., T, d), with "
    "any axes in front: write T, d = x.shape[-2:].",
    {"d = x.shape[-1]": "_, _, _, d = x.shape"},
    gravity="slip",
)

edited(
    "three_axes_only",
    "Your code fixes the number of axes of x at three, as `B, T, d = x.shape` does. x is (..., T, d), with "
    "any axes in front: write T, d = x.shape[-2:].",
    {"d = x.shape[-1]": "_, _, d = x.shape"},
    gravity="slip",
)

edited(
    "two_axes_only",
    "Your code fixes the number of axes of x at two, as `T, d = x.shape` does. x is (..., T, d), with any "
    "axes in front: write T, d = x.shape[-2:].",
    {"d = x.shape[-1]": "_, d = x.shape"},
    gravity="slip",
)

edited(
    "cosines_of_four_axes",
    "Your result has four axes where x has fewer: cosines of the shape (1, 1, T, d/2) add axes to it. Leave "
    "them (T, d/2), which broadcasts to any axes in front.",
    {"positions[:, None] * omega": "(positions[:, None] * omega)[None, None]"},
    gravity="slip",
)

edited(
    "cosines_of_three_axes",
    "Your result has three axes where x is (T, d): cosines of the shape (1, T, d/2) add one to it. Leave "
    "them (T, d/2), which broadcasts to any axes in front.",
    {"positions[:, None] * omega": "(positions[:, None] * omega)[None]"},
    gravity="slip",
)

edited(
    "counted_on_from_the_first",
    "You count on from the first position: only positions[0] takes part. Tokens may be at positions with "
    "gaps, in any order: use each of the `positions` that are passed.",
    {
        "d = x.shape[-1]": "T, d = x.shape[-2:]",
        "angles = positions": "angles = (positions[0] + torch.arange(T, device=x.device))",
    },
)
