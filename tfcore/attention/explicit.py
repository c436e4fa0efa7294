"""Attention as the textbook has it: every score, then every weight, then the output.

The T_q x T_k matrix is stored, several times over when gradients are kept. So this backend can return its
weights, and the tests compare the other backends with it.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tfcore.attention.pattern import Pattern, blank_unused, in_type, wide


def explicit_attention(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Float[Tensor, "#B #H #T_q #T_k"] | None,
    scale: float,
    softcap: float | None = None,
) -> tuple[Float[Tensor, "B H T_q d_v"], Float[Tensor, "B H T_q T_k"], Float[Tensor, "B H T_q"]]:
    r"""Attend by forming the whole matrix of scores.

    $\operatorname{softmax}(s Q K^\top + B + M) \, V$, where M is 0 if attending is allowed, else $-\infty$.

    Args:
        q: queries, (B, H, T_q, d_k).
        k: keys, (B, H_kv, T_k, d_k); each of the H_kv heads serves H / H_kv adjacent query heads.
        v: values, (B, H_kv, T_k, d_v).
        pattern: which keys each query may attend to.
        bias: added to the scores.
        scale: multiplies the scores, before the bias.
        softcap: bounds the scaled scores, before the bias.

    Returns:
        The output, the weights, and the log of each row's sum of exponentials (lse).

    From: Vaswani et al. (2017), *Attention Is All You Need*, equation 1; Ainslie et al. (2023), *GQA*.

    >>> from tfcore.attention import attention
    >>> x = torch.eye(3)[None, None]
    >>> _, weights = attention(x, x, x, backend="explicit", return_weights=True)
    >>> print(weights.shape)
    torch.Size([1, 1, 3, 3])
    """
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)  # (B, H, T_k, d)
    allowed = pattern.tile()  # (B, H, T_q, T_k), with 1 for axes that are shared
    q_seen, k_seen, v_seen = (x.to(wide(q.dtype)) for x in blank_unused(q, k, v, allowed))
    output, weights, lse = attend(q_seen, k_seen, v_seen, allowed, bias, scale, softcap)
    return output.to(q.dtype), weights, lse


def is_compiled_step(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    pattern: Pattern,
    bias: Tensor | None,
) -> bool:
    """Say where "auto" should prefer it: in a step that is compiled for a CPU, which fuses it.

    >>> all_pairs = Pattern(None, False, None, None, None, False)
    >>> is_compiled_step(*(torch.zeros(2, 3, 1, 4),) * 3, all_pairs, None)
    False
    """
    compiled = torch.compiler.is_compiling() and q.device.type == "cpu"
    return compiled and q.shape[2] == 1 and q.shape[1] == k.shape[1]


def attend(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H T_k d_k"],
    v: Float[Tensor, "B H T_k d_v"],
    allowed: Bool[Tensor, "#B #H #T_q #T_k"] | None,
    bias: Float[Tensor, "#B #H #T_q #T_k"] | None,
    scale: float,
    softcap: float | None = None,
) -> tuple[Float[Tensor, "B H T_q d_v"], Float[Tensor, "B H T_q T_k"], Float[Tensor, "B H T_q"]]:
    """Attend within one tile, which may be the whole matrix; see :func:`explicit_attention`.

    >>> q, k = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 3, 2)
    >>> v = torch.tensor([[[[1.0], [2.0], [6.0]]]])
    >>> output, _, lse = attend(q, k, v, allowed=None, bias=None, scale=1.0)
    >>> print(output.item(), f"{lse.item():.4f} {math.log(3):.4f}")
    3.0 1.0986 1.0986
    """
    scores = masked_scores(q, k, allowed, bias, scale, softcap)  # (B, H, T_q, T_k)
    peak = scores.amax(dim=-1, keepdim=True).detach()  # (B, H, T_q, 1)
    peak = peak.masked_fill(peak == -math.inf, 0.0)
    exp = torch.exp(scores - peak)
    total = exp.sum(dim=-1, keepdim=True)  # (B, H, T_q, 1)
    empty = total == 0
    total = total.masked_fill(empty, 1.0)
    weights = exp / total
    lse = (peak + torch.log(total)).masked_fill(empty, -math.inf).squeeze(-1)  # (B, H, T_q)
    return weights @ v, weights, lse  # the output is (B, H, T_q, d_v)


def masked_scores(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H T_k d_k"],
    allowed: Bool[Tensor, "#B #H #T_q #T_k"] | None,
    bias: Float[Tensor, "#B #H #T_q #T_k"] | None,
    scale: float,
    softcap: float | None = None,
) -> Float[Tensor, "B H T_q T_k"]:
    """Score every key for every query: scaled, capped, biased, and -inf where attending is forbidden.

    >>> x = torch.tensor([[[[1.0], [3.0]]]])
    >>> allowed = torch.tensor([[[[True, False], [True, True]]]])
    >>> print(masked_scores(x, x, allowed, bias=None, scale=2.0)[0, 0])
    tensor([[ 2., -inf],
            [ 6., 18.]])
    """
    scores = (q * scale) @ k.mT  # (B, H, T_q, T_k)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + in_type(bias, scores.dtype)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores
