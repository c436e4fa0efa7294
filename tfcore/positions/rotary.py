"""RoPE: turn queries and keys by an angle that grows with position, so that their scores see the offset."""

from __future__ import annotations

from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcore.config import Layout
from tfcore.rope_scaling import read_scaling


def apply_rope(
    x: Float[Tensor, "*batch T d"],
    positions: Int[Tensor, "*#batch T"],
    base: float = 10_000.0,
    layout: Layout = "half",
) -> Float[Tensor, "*batch T d"]:
    r"""Turn each pair of channels by its own angle per position.

    $\begin{pmatrix} x_a' \\ x_b' \end{pmatrix} = R(m \, \omega_i) \begin{pmatrix} x_a \\ x_b \end{pmatrix}$
    with $\omega_i = \text{base}^{-2i/d}$, so that $q_m' \cdot k_n'$ depends on m - n alone.

    Args:
        x: queries or keys, (..., T, d) with d even.
        positions: position of each token, (T,), or with all leading axes of ``x``, also axes of size 1:
            (B, 1, T) for heads (B, H, T, d).
        base: of the frequencies.
        layout: "half" pairs channel i with i + d/2 (Llama), "interleaved" 2i with 2i + 1 (the paper, GPT-J).

    Returns:
        The turned vectors, (..., T, d), in the type of ``x``; angles are float32 or wider.

    Raises:
        ValueError: an odd number of channels, positions that do not fit, or an unknown layout.

    From: Su et al. (2021), *RoFormer: Enhanced Transformer with Rotary Position Embedding*, section 3.2.

    >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> print(apply_rope(x, torch.tensor([0, 1])))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    leading = zip(positions.shape[:-1], x.shape[:-2], strict=False)
    fits = positions.ndim in (1, x.ndim - 1) and all(p in (1, n) for p, n in leading)
    if not fits or positions.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"expected positions (T,) or with all leading axes of x {tuple(x.shape)}, got "
            f"{tuple(positions.shape)}; give (B, T) for heads (B, H, T, d) as positions[:, None]"
        )
    return Rotation(positions, inverse_frequencies(x.shape[-1], base), layout, x.dtype)(x)


class Rotation:
    """The turn of each token's channel pairs, worked out once and applied to queries and keys of every layer.

    A temperature multiplies the turned channels of queries and keys; their part of the scores grows by its
    square.

    >>> turn = Rotation(torch.tensor([0, 1]), inverse_frequencies(4))
    >>> print(turn(torch.ones(1, 3, 2, 4)).shape)
    torch.Size([1, 3, 2, 4])
    """

    def __init__(
        self,
        positions: Int[Tensor, "*batch T"],
        omega: Float[Tensor, " d/2"],
        layout: Layout = "half",
        dtype: torch.dtype = torch.float32,
        temperature: float = 1.0,
    ) -> None:
        if layout not in get_args(Layout):
            raise ValueError(f"expected a layout out of {', '.join(get_args(Layout))}, got {layout!r}")
        # In bfloat16 angles would be wrong by a radian from position 257 on, by whole turns from 2,048.
        omega = omega.to(positions.device, torch.promote_types(dtype, torch.float32))
        angles = positions.unsqueeze(-1) * omega  # (..., T, d / 2)
        self.cos, self.sin = temperature * angles.cos(), temperature * angles.sin()
        self.layout = layout
        if layout == "half":  # both halves of a head meet the same angles
            self.cos = torch.cat([self.cos, self.cos], dim=-1)  # (..., T, d)
            self.sin = torch.cat([-self.sin, self.sin], dim=-1)

    def __call__(self, x: Float[Tensor, "*batch T d"]) -> Float[Tensor, "*batch T d"]:
        """Turn the first channels of ``x``, as many as there are angles for; the rest pass through."""
        d_rotary = self.cos.shape[-1] * (1 if self.layout == "half" else 2)
        if d_rotary < x.shape[-1]:
            return torch.cat([self(x[..., :d_rotary]), x[..., d_rotary:]], dim=-1)
        if self.layout == "half":
            first, second = x.chunk(2, dim=-1)
            turned = x * self.cos + torch.cat([second, first], dim=-1) * self.sin
        else:
            even, odd = x[..., 0::2], x[..., 1::2]  # (..., T, d / 2)
            turned = torch.stack(
                [even * self.cos - odd * self.sin, even * self.sin + odd * self.cos], dim=-1
            ).flatten(-2)
        return turned.to(x.dtype)


def inverse_frequencies(
    d_rotary: int,
    base: float = 10_000.0,
    scaling: dict[str, Any] | None = None,
    length: int | None = None,
) -> Float[Tensor, " d_rotary/2"]:
    r"""List the angle per position of each channel pair, $\omega_i = \text{base}^{-2i/d}$.

    Args:
        d_rotary: channels that are turned, even.
        base: of the geometric series.
        scaling: how to slow them down for a longer context, as in ``config.json``: a rope_type and its
            numbers; see ``tfcore.rope_scaling``.
        length: tokens of the text, for the rope_types "dynamic" and "longrope"; at most as many as in
            training when None.

    Returns:
        Radians per position, (d_rotary / 2,), float64.

    Raises:
        ValueError: an odd number of channels, or a scaling that is not known.

    From: Su et al. (2021), *RoFormer: Enhanced Transformer with Rotary Position Embedding*.

    >>> print(inverse_frequencies(4))
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    return read_scaling(scaling).frequencies(d_rotary, base, length)


def interleaved_to_half(weight: Float[Tensor, "out *in"], d_head: int) -> Float[Tensor, "out *in"]:
    r"""Reorder the rows of a query or key projection from the interleaved layout to halves.

    Row 2i of each head goes to i, row 2i + 1 to i + d/2; scores stay the same, since both are reordered.

    Args:
        weight: a projection (H * d_head, d_model), or its bias (H * d_head,).
        d_head: width of one head, all of it turned.

    Returns:
        The rows in the other order.

    From: the conversion of Meta's Llama checkpoints.

    >>> print(interleaved_to_half(torch.arange(4), d_head=4))
    tensor([0, 2, 1, 3])
    """
    pairs = weight.unflatten(0, (-1, d_head // 2, 2))  # (heads, d_head / 2, 2, ...)
    return pairs.transpose(1, 2).flatten(0, 2)  # (heads, 2, d_head / 2, ...), then (out, ...)
