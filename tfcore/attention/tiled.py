"""The same numbers without the T x T matrix: attention tile by tile, forward and backward.

Forward, each tile of BLOCK x BLOCK scores gives a partial output and its log-sum-exp, and ``merge`` puts the
tiles of a row together. Only the output and one lse per query are kept. Backward, each tile is computed
again, its weights follow from the kept lse, and it adds its share to the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfcore.attention.explicit import attend, masked_scores
from tfcore.attention.merge import merge
from tfcore.attention.pattern import Pattern, blank_unused, cut, wide

BLOCK = 128


def tiled_attention(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Float[Tensor, "#B #H #T_q #T_k"] | None,
    scale: float,
    softcap: float | None = None,
) -> tuple[Float[Tensor, "B H T_q d_v"], None, Float[Tensor, "B H T_q"]]:
    r"""Attend tile by tile, in memory linear in T.

    $L_i = \ln \sum_j e^{s_{ij}}, \; o_i = \sum_j e^{s_{ij} - L_i} v_j$, both summed over blocks of j.

    Args:
        q: queries, (B, H, T_q, d_k).
        k: keys, (B, H_kv, T_k, d_k); each of the H_kv heads serves H / H_kv adjacent query heads.
        v: values, (B, H_kv, T_k, d_v).
        pattern: which keys each query may attend to; a tile that allows no pair is skipped.
        bias: added to the scores.
        scale: multiplies the scores, before the bias.
        softcap: bounds the scaled scores, before the bias.

    Returns:
        The output, None for the weights that never exist together, and the lse.

    From: Dao et al. (2022), *FlashAttention*, algorithms 1 and 4; Dao (2023), *FlashAttention-2*.

    >>> from tfcore.attention import attention
    >>> x = torch.randn(1, 2, 300, 8)
    >>> tiled, explicit = (attention(x, x, x, backend=name) for name in ("tiled", "explicit"))
    >>> torch.allclose(tiled, explicit, atol=1e-5)
    True
    """
    output, lse = _Tiled.apply(q, k, v, bias, pattern, scale, softcap)
    return output, None, lse


def no_branches(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Tensor | None,
) -> str | None:
    """Say why tiles cannot serve a call in a compiled program.

    A program cannot skip tiles by looking at a mask. Its number of tiles is fixed, so a step of one query
    would need a program for each number of keys.

    >>> pattern = Pattern(None, False, None, None, None, positions_given=False)
    >>> print(no_branches(*(torch.zeros(2, 3, 1, 4),) * 3, pattern, bias=None))
    None
    """
    if torch.compiler.is_compiling() and pattern.mask is not None:
        return "a mask in a program that is compiled"
    if torch.compiler.is_compiling() and q.shape[2] == 1:
        return "one query in a program that is compiled"
    return None


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        pattern: Pattern,
        scale: float,
        softcap: float | None,
    ) -> tuple[Tensor, Tensor]:
        output = q.new_zeros((*q.shape[:-1], v.shape[-1]), dtype=wide(q.dtype))  # (B, H, T_q, d_v)
        lse = q.new_full(q.shape[:-1], -math.inf, dtype=wide(q.dtype))  # (B, H, T_q)
        for rows, _, q_tile, k_tile, v_tile, allowed, bias_tile in _tiles(q, k, v, bias, pattern):
            part, _, part_lse = attend(q_tile, k_tile, v_tile, allowed, bias_tile, scale, softcap)
            so_far = output[:, :, rows], lse[:, :, rows]
            output[:, :, rows], lse[:, :, rows] = merge(*so_far, part, part_lse)
        ctx.save_for_backward(q, k, v, bias, output, lse)
        ctx.pattern, ctx.scale, ctx.softcap = pattern, scale, softcap
        return output.to(q.dtype), lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, d_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, output, lse = ctx.saved_tensors
        groups = q.shape[1] // k.shape[1]
        dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (q, k, v))
        d_bias = torch.zeros_like(bias, dtype=lse.dtype) if ctx.needs_input_grad[3] else None
        d_output = d_output.to(lse.dtype)
        # Softmax's Jacobian gives dS = P * (dP - sum_j P dP), and that sum over keys is dO . O.
        row_sum = (d_output * output).sum(dim=-1, keepdim=True) - d_lse.unsqueeze(-1)  # (B, H, T_q, 1)
        row_lse = lse.masked_fill(lse == -math.inf, math.inf).unsqueeze(-1)  # exp(s - inf) = 0

        for rows, cols, q_tile, k_tile, v_tile, allowed, bias_tile in _tiles(q, k, v, bias, ctx.pattern):
            scores = masked_scores(q_tile, k_tile, allowed, bias_tile, ctx.scale, ctx.softcap)
            weights = torch.exp(scores - row_lse[:, :, rows])
            d_out = d_output[:, :, rows]
            d_scores = weights * (d_out @ v_tile.mT - row_sum[:, :, rows])
            if d_bias is not None:
                d_bias_tile = cut(d_bias, rows, cols)
                d_bias_tile += d_scores.sum_to_size(d_bias_tile.shape)
            if ctx.softcap is not None:  # the derivative of c tanh(s / c) is 1 - tanh^2
                capped = masked_scores(q_tile, k_tile, None, None, ctx.scale, ctx.softcap)
                d_scores = d_scores * (1 - (capped / ctx.softcap) ** 2)
            dq[:, :, rows] += d_scores @ k_tile * ctx.scale  # (B, H, rows, d_k)
            dk[:, :, cols] += _sum_groups(d_scores.mT @ q_tile * ctx.scale, groups)  # (B, H_kv, cols, d_k)
            dv[:, :, cols] += _sum_groups(weights.mT @ d_out, groups)  # (B, H_kv, cols, d_v)

        d_bias = None if d_bias is None else d_bias.to(bias.dtype)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), d_bias, None, None, None


def _tiles(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, pattern: Pattern
) -> Iterator[tuple[Any, ...]]:
    """Yield every tile that allows a pair: its place, and its piece of each operand."""
    groups = q.shape[1] // k.shape[1]
    for row in range(0, q.shape[2], BLOCK):
        for col in range(0, k.shape[2], BLOCK):
            rows, cols = slice(row, row + BLOCK), slice(col, col + BLOCK)
            allowed = pattern.tile(rows, cols)
            if allowed is not None and not allowed.any():
                continue
            k_tile = k[:, :, cols].repeat_interleave(groups, dim=1)  # (B, H, cols, d_k)
            v_tile = v[:, :, cols].repeat_interleave(groups, dim=1)  # (B, H, cols, d_v)
            operands = (x.to(wide(q.dtype)) for x in blank_unused(q[:, :, rows], k_tile, v_tile, allowed))
            yield rows, cols, *operands, allowed, None if bias is None else cut(bias, rows, cols)


def _sum_groups(x: Float[Tensor, "B H T d"], groups: int) -> Float[Tensor, "B H_kv T d"]:
    """Add up the gradients of the copies that a shared head was given to."""
    return x.unflatten(1, (-1, groups)).sum(dim=2)  # (B, H_kv, groups, T, d), then (B, H_kv, T, d)
