"""Our own GPU kernels behind `attention`: which calls they can serve, and how they are launched.

The kernels are in ``triton_kernels.py``. That file, and the triton package with it, is imported by the first
call that asks for this backend. Without a GPU, Triton's interpreter runs the same kernels, slowly, if
``TRITON_INTERPRET=1`` is in the environment before Python starts.
"""

from __future__ import annotations

import importlib.util
import math
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfcore.attention.pattern import Pattern

# By the width of a tile, for each kernel: queries in a block, keys in a block, warps (32 threads) to a run,
# and blocks on their way from memory at once. Compiled for compute capability 8.6 and 9.0, these need less
# than 99 KiB of fast memory; no product of matrices waits for the one before; and up to width 128 the inner
# loops of all kernels but dk_dv use registers only. Untimed: ``benchmarks/gpu.py blocks`` tries others.
HALF = {
    64: {"forward": (128, 64, 4, 2), "dq": (128, 64, 8, 2), "dk_dv": (64, 128, 8, 2)},
    128: {"forward": (128, 64, 8, 2), "dq": (128, 32, 8, 2), "dk_dv": (32, 128, 8, 2)},
    256: {"forward": (64, 32, 4, 2), "dq": (32, 32, 4, 2), "dk_dv": (32, 32, 4, 1)},
}
SINGLE = {  # twice the bytes, and no matrix unit multiplies float32 exactly
    64: {"forward": (32, 32, 4, 2), "dq": (32, 32, 4, 2), "dk_dv": (16, 32, 4, 2)},
    128: {"forward": (32, 16, 4, 2), "dq": (32, 16, 4, 2), "dk_dv": (16, 32, 4, 2)},
    256: {"forward": (16, 16, 4, 2), "dq": (16, 16, 4, 2), "dk_dv": (16, 16, 4, 1)},
}
BLOCKS = {torch.float16: HALF, torch.bfloat16: HALF, torch.float32: SINGLE}
WIDEST = 256
FAR = 2**30  # more than any length, and twice it still fits into 32 bits


def triton_attention(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: None,
    scale: float,
) -> tuple[Float[Tensor, "B H T_q d_v"], None, Float[Tensor, "B H T_q"]]:
    r"""Attend by FlashAttention-2 kernels of our own.

    $L_i = \ln \sum_j e^{s_{ij}}, \; o_i = \sum_j e^{s_{ij} - L_i} v_j$, both summed over blocks of j.

    Args:
        q: queries, (B, H, T_q, d_k).
        k: keys, (B, H_kv, T_k, d_k); each of the H_kv heads serves H / H_kv adjacent query heads.
        v: values, (B, H_kv, T_k, d_v).
        pattern: which keys each query may attend to: causal, a window, both or neither; see :func:`refusal`.
        bias: None.
        scale: multiplies the scores.

    Returns:
        The output, None for the weights that never exist together, and the lse.

    From: Dao (2023), *FlashAttention-2*, algorithms 1 and 2; Tillet, Kung and Cox (2019), *Triton*.

    >>> from tfcore.attention import attention
    >>> x = torch.randn(1, 2, 300, 64, device="cuda", dtype=torch.bfloat16)  # doctest: +SKIP
    >>> output, lse = attention(x, x, x, causal=True, backend="triton", return_lse=True)  # doctest: +SKIP
    """
    reach = FAR if pattern.window is None else min(pattern.window - 1, FAR)
    behind, ahead = reach, 0 if pattern.causal else reach
    # Cut off the first queries if they come before all that they may see, and the first keys if no window
    # reaches them: the kernels then meet no empty row, and nothing that is unused.
    idle = max(0, q.shape[2] - k.shape[2] - ahead)
    unseen = max(0, k.shape[2] - q.shape[2] - behind)
    output, lse = _Triton.apply(q[:, :, idle:], k[:, :, unseen:], v[:, :, unseen:], behind, ahead, scale)
    if idle:
        output, lse = F.pad(output, (0, 0, idle, 0)), F.pad(lse, (idle, 0), value=-math.inf)
    return output, None, lse


def refusal(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Tensor | None,
) -> str | None:
    """Return the reason why the kernels cannot serve a call; None if they can serve it.

    >>> x, pos = torch.zeros(1, 2, 3, 300), torch.arange(3)
    >>> print(refusal(x, x, x, Pattern(None, True, None, pos, pos, positions_given=False), None))
    heads of width 300
    """
    widths = (k.shape[-1], v.shape[-1])
    if pattern.mask is not None:
        return "a mask"
    if bias is not None:
        return "a bias"
    if pattern.positions_given:
        return "explicit positions"
    if pattern.window is not None and pattern.window < 1:
        return f"a window of {pattern.window}"
    if not 1 <= min(widths) <= max(widths) <= WIDEST:
        return f"heads of width {max(widths)}"
    if q.dtype not in BLOCKS:
        return f"{q.dtype}"
    if importlib.util.find_spec("triton") is None:
        return "a call where the triton package is not installed"
    from triton import JITFunction

    interpreted = not isinstance(_kernels().forward_kernel, JITFunction)
    if not (interpreted or q.is_cuda):
        return f"tensors on {q.device.type} without TRITON_INTERPRET=1 in the environment"
    if interpreted and q.dtype == torch.bfloat16:
        return "torch.bfloat16 in Triton's interpreter, which multiplies its bits as whole numbers"
    return None


def fastest(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Tensor | None,
) -> bool:
    """Say where "auto" should prefer these kernels: nowhere, until ``benchmarks/gpu.py`` shows them ahead."""
    return False


class _Triton(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, behind: int, ahead: int, scale: float
    ) -> tuple[Tensor, Tensor]:
        output = q.new_empty((*q.shape[:-1], v.shape[-1]))
        lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
        ctx.band_and_scale = behind, ahead, scale
        _launch("forward", q, (q, k, v, output, lse), *ctx.band_and_scale)
        ctx.save_for_backward(q, k, v, output, lse)
        return output, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, d_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, output, lse = ctx.saved_tensors
        dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
        row_sum = torch.empty_like(lse)
        _launch("dq", q, (q, k, v, output, lse, d_output, d_lse, dq, row_sum), *ctx.band_and_scale)
        _launch("dk_dv", k, (q, k, v, lse, d_output, row_sum, dk, dv), *ctx.band_and_scale)
        return dq, dk, dv, None, None, None


def _launch(
    name: str, owned: Tensor, tensors: tuple[Tensor, ...], behind: int, ahead: int, scale: float
) -> None:
    """Run a kernel once for each block of each head of ``owned``, which is q or k."""
    q, k, v = tensors[:3]
    wide_k, wide_v = (max(16, 2 ** (x.shape[-1] - 1).bit_length()) for x in (k, v))
    block_q, block_k, warps, stages = BLOCKS[q.dtype][max(64, wide_k, wide_v)][name]
    batch, heads, length, _ = owned.shape
    grid = (math.ceil(length / (block_q if owned is q else block_k)), heads, batch)
    with torch.cuda.device_of(q):
        getattr(_kernels(), f"{name}_kernel")[grid](
            *(_as_heads(x) for x in tensors),
            groups=q.shape[1] // k.shape[1],
            behind=behind,
            ahead=ahead,
            scale=scale * math.log2(math.e),
            WIDE_K=wide_k,
            WIDE_V=wide_v,
            BLOCK_Q=block_q,
            BLOCK_K=block_k,
            num_warps=warps,
            num_stages=stages,
        )


def _as_heads(x: Tensor) -> tuple[Any, ...]:
    """Hand a tensor (B, H, T, d), or (B, H, T) of numbers, to a kernel."""
    column = x if x.ndim == 4 else x.unsqueeze(-1)
    return _kernels().Heads(x, *column.stride(), *column.shape[2:])


def _kernels() -> ModuleType:
    from tfcore.attention import triton_kernels

    return triton_kernels
