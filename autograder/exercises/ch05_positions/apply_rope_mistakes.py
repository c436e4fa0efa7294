"""Mistakes that people make in `apply_rope`, each with the sentence for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch05_positions.apply_rope import EXERCISE


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
