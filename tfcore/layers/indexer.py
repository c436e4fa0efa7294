"""The indexer of sparse attention: a tiny attention that learns which keys a layer will weigh most."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.attention.pattern import wide
from tfcore.layers.heads import split_heads
from tfcore.positions import apply_rope


class Indexer(nn.Module):
    r"""Score each key for each query with few heads, narrow keys and no softmax.

    $I_{ts} = \sum_j w_{tj} \operatorname{ReLU}(q_{tj} \cdot k_s) / \sqrt{h d}$ with
    $k_s = \text{LN}(W^K x_s)$, one key for all h heads, and $w_t = W^w x_t$. Queries and keys are rotated by
    their positions. The layer then attends to the keys with the largest scores: :func:`top_keys_mask`.

    Args:
        d_model: width of the tokens.
        num_heads: number of heads, h.
        d_head: width of queries and keys, d, even.
        d_rope: how many channels of queries and keys are rotated, the first ones; None for all.
        base: of the frequencies of the rotation.

    From: DeepSeek-AI (2025), *DeepSeek-V3.2-Exp*, section 2.1. There the queries are made from the latent
    vector of the layer's queries; here from the tokens.

    >>> indexer = Indexer(d_model=24, num_heads=3, d_head=4)
    >>> scores = indexer(torch.randn(2, 7, 24))  # (B, T_q, T_k)
    >>> print(top_keys_mask(scores, 2, torch.ones(7, 7).tril().bool())[0].sum(-1))
    tensor([1, 2, 2, 2, 2, 2, 2])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int,
        *,
        d_rope: int | None = None,
        base: float = 10_000.0,
    ) -> None:
        super().__init__()
        self.num_heads, self.d_rope, self.base = num_heads, d_head if d_rope is None else d_rope, base
        self.W_q = nn.Linear(d_model, num_heads * d_head, bias=False)
        self.W_k = nn.Linear(d_model, d_head, bias=False)
        self.norm_k = nn.LayerNorm(d_head, eps=1e-6)
        self.W_w = nn.Linear(d_model, num_heads, bias=False)
        self.scale = (num_heads * d_head) ** -0.5

    def forward(
        self, x: Float[Tensor, "B T d_model"], positions: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, "B T T"]:
        """Score all tokens for all tokens.

        Args:
            x: the tokens, (B, T, d_model), as the attention of the layer gets them.
            positions: the place of each token, (T,); None for 0 to T - 1.

        Returns:
            The score of each key (last axis) for each query, (B, T, T).
        """
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        q = self._rotated(split_heads(self.W_q(x), self.num_heads), positions)  # (B, h, T, d)
        k = self._rotated(self.norm_k(self.W_k(x)).unsqueeze(1), positions)  # (B, 1, T, d)
        by_head = F.relu(q @ k.mT)  # (B, h, T_q, T_k)
        weights = self.scale * self.W_w(x).mT.unsqueeze(-1)  # (B, h, T_q, 1)
        return (weights * by_head).sum(1)

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        turned, kept = x.split([self.d_rope, x.shape[-1] - self.d_rope], dim=-1)
        return torch.cat([apply_rope(turned, positions, self.base), kept], dim=-1)


def top_keys_mask(
    scores: Float[Tensor, "*batch T_q T_k"], count: int, mask: Bool[Tensor, "*#scores"] | None = None
) -> Bool[Tensor, "*batch T_q T_k"]:
    r"""Let each query attend to the keys with the largest scores.

    $M_{ts} = [\, s \in \operatorname{top-}n \{ I_{ts'} : \text{mask}_{ts'} \} \,]$.

    Args:
        scores: what to choose by, above -inf, (..., T_q, T_k).
        count: how many keys, n. A query with fewer allowed keys gets all of these; of equal scores some win.
        mask: the keys that may be chosen, True = may, broadcastable to the scores; None for all.

    Returns:
        The mask, True = may attend, (..., T_q, T_k).

    Raises:
        ValueError: a count below 1.

    >>> print(top_keys_mask(torch.tensor([[0.3, 0.1, 0.9, 0.2]]), 2).int())
    tensor([[1, 0, 1, 0]], dtype=torch.int32)
    """
    if count < 1:
        raise ValueError(f"expected count of 1 or more, got {count}; it is a number of keys for each query")
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    best = scores.masked_fill(~allowed, -math.inf).topk(min(count, scores.shape[-1])).indices
    return torch.zeros_like(allowed).scatter(-1, best, True) & allowed


def indexer_loss(
    scores: Float[Tensor, "B T_q T_k"],
    weights: Float[Tensor, "B H T_q T_k"],
    mask: Bool[Tensor, "*#scores"] | None = None,
) -> Float[Tensor, ""]:
    r"""Compare what an indexer expects with what the heads of its layer attend to.

    The mean over the queries of $D_\text{KL}(p_t \,\|\, \softmax(I_t))$. Here $p_t$ is the mean of the
    weights of all heads. No gradient flows into the weights.

    Args:
        scores: the indexer's scores, (B, T_q, T_k).
        weights: the attention weights of the layer, (B, H, T_q, T_k), each row of sum 1.
        mask: the keys that the layer may attend to, True = may, broadcastable to the scores; None for all.

    Returns:
        The loss in nats, in float32 or wider.

    From: DeepSeek-AI (2025), *DeepSeek-V3.2-Exp*, section 2.1 (the dense warm-up).

    >>> weights = torch.softmax(torch.randn(2, 3, 5, 5), -1)
    >>> bool(indexer_loss(weights.mean(1).log(), weights).abs() < 1e-6)
    True
    """
    target = weights.detach().mean(1).to(wide(weights.dtype))  # (B, T_q, T_k)
    scores = scores.to(target.dtype)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    expected = scores.log_softmax(-1)
    if mask is not None:
        expected = expected.masked_fill(~mask, 0.0)  # 0 x -inf is NaN; the target is 0 there
    queries = target.shape[0] * target.shape[1]
    return F.kl_div(expected, target, reduction="sum") / queries
