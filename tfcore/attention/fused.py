"""Attention by torch's own kernels, with their traps closed.

``torch.nn.functional.scaled_dot_product_attention`` is the function that you would call without this
course. It differs from `attention` in five places, each handled here:

- ``is_causal`` aligns the *first* query with the first key, which is wrong against a cache, so it is used
  only where both alignments agree;
- the result of a fully masked row differs between versions and kernels, so no such row is passed to them;
- a mask and ``is_causal`` together differ by kernel, so at most one of them is given;
- a bias and a mask share one argument, so they are combined first;
- a scale of 0 or less turns the -inf of ``is_causal`` into NaN, so it comes with a mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import Pattern, blank_unused, in_type


def fused_attention(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Float[Tensor, "#B #H #T_q #T_k"] | None,
    scale: float,
) -> tuple[Float[Tensor, "B H T_q d_v"], None, None]:
    r"""Attend with the fastest kernel that torch has for the arguments.

    $\operatorname{softmax}(s Q K^\top + B + M) \, V$, where M is 0 if attending is allowed, else $-\infty$.

    Args:
        q: queries, (B, H, T_q, d_k).
        k: keys, (B, H_kv, T_k, d_k); each of the H_kv heads serves H / H_kv adjacent query heads.
        v: values, (B, H_kv, T_k, d_v).
        pattern: which keys each query may attend to.
        bias: added to the scores, after rounding to the type of ``q``.
        scale: multiplies the scores, before the bias.

    Returns:
        The output, and None for weights and lse, which torch does not give away.

    From: Dao et al. (2022), *FlashAttention*; Rabe and Staats (2021), *Self-attention Does Not Need O(n^2)
    Memory*: the kernels behind torch's function.

    >>> from tfcore.attention import attention
    >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 3, 4)
    >>> print(attention(q, k, torch.eye(3)[None, None], causal=True, backend="fused")[0, 0, 0])
    tensor([0.5000, 0.5000, 0.0000])
    """
    options: dict[str, Any] = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    square = q.shape[2] == k.shape[2] and not pattern.positions_given
    alone = pattern.window is None and pattern.mask is None and bias is None
    if square and pattern.causal and alone and scale > 0:
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, **options)
        return output, None, None

    allowed = pattern.tile()
    q, k, v = blank_unused(q, k, v, allowed)
    attn_mask, empty = _one_mask(allowed, bias, q.dtype)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=scale, **options)
    return output if empty is None else output.masked_fill(empty, 0.0), None, None


def _one_mask(
    allowed: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Put mask and bias into the one argument that torch has, and name the rows that see nothing.

    Those rows are opened here, and zeroed after the kernel.
    """
    if bias is not None:
        bias = in_type(bias, dtype)
        scores = bias if allowed is None else torch.where(allowed, bias, -math.inf)
        empty = (scores == -math.inf).all(dim=-1, keepdim=True)
        return scores.masked_fill(empty, 0.0), empty
    if allowed is not None:
        empty = ~allowed.any(dim=-1, keepdim=True)  # (B, H, T_q, 1)
        return allowed | empty, empty
    return None, None
