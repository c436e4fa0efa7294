"""Latent attention (MLA): keys and values of all heads are made from one short vector for each token."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.attention import attention
from tfcore.cache import LayerCache
from tfcore.config import LatentAttentionConfig
from tfcore.layers.heads import merge_heads, split_heads
from tfcore.positions import Order


class LatentAttention(nn.Module):
    r"""Attend with h heads whose keys and values are made from $c_t = \text{RMS}(W^{DKV} x_t)$.

    $k^i_t = [W^{UK}_i c_t; \; R_t W^{KR} x_t]$, $v^i_t = W^{UV}_i c_t$: the rotated part is shared by all
    heads. A cache keeps $c_t$ and the rotated part alone. There are two ways to go on from it:

    - *expanded*: make the keys and values of all tokens, and attend as usual;
    - *absorbed*: since $q^\top W^{UK} c = (W^{UK \top} q)^\top c$, bring the queries to the width of c and
      attend to the cache itself, as if all heads shared one key head whose values are c; $W^{UV}$ follows.

    Both give the same. Expanded takes less arithmetic for many queries, absorbed for one: it never makes the
    keys.

    Args:
        config: the widths.

    From: DeepSeek-AI (2024), *DeepSeek-V2*, section 2.1.

    >>> widths = {"d_latent": 10, "d_nope": 6, "d_rope": 4, "d_value": 7}
    >>> config = LatentAttentionConfig(d_model=24, num_heads=3, **widths)
    >>> layer, x = LatentAttention(config), torch.randn(2, 5, 24)
    >>> torch.allclose(layer(x, causal=True), layer(x, causal=True, absorbed=True), atol=1e-6)
    True
    """

    def __init__(self, config: LatentAttentionConfig) -> None:
        super().__init__()
        c = self.config = config
        self.scale = c.width**-0.5 if c.scale is None else c.scale
        from_query = c.d_model if c.d_query is None else c.d_query
        self.W_dq = None if c.d_query is None else nn.Linear(c.d_model, c.d_query, bias=c.bias)
        self.norm_q = None if c.d_query is None else nn.RMSNorm(c.d_query, eps=c.norm_eps)
        self.W_uq = nn.Linear(from_query, c.num_heads * c.width, bias=False)
        self.W_dkv = nn.Linear(c.d_model, c.d_latent + c.d_rope, bias=c.bias)  # W^KR is its last d_rope rows
        self.norm_kv = nn.RMSNorm(c.d_latent, eps=c.norm_eps)
        self.W_ukv = nn.Linear(c.d_latent, c.num_heads * (c.d_nope + c.d_value), bias=False)
        self.W_o = nn.Linear(c.num_heads * c.d_value, c.d_model, bias=c.bias)

    def forward(
        self,
        x: Float[Tensor, "B T_q d_model"],
        mask: Bool[Tensor, "*#scores"] | None = None,
        *,
        causal: bool = False,
        order: Order | None = None,
        cache: LayerCache | None = None,
        absorbed: bool | None = None,
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend from ``x`` to itself and the tokens in the cache.

        Args:
            x: the tokens, (B, T_q, d_model).
            mask: boolean, True = may attend, broadcastable to (B, H, T_q, T_k).
            causal: allow only keys that come no later than the query.
            order: the rotation of the tokens.
            cache: c and the rotated keys of the tokens before ``x``; those of ``x`` are added to it.
            absorbed: which way; when None, absorbed for one token after others.

        Returns:
            (B, T_q, d_model).
        """
        c = self.config
        q = split_heads(self.W_uq(self._into_queries(x)), c.num_heads)  # (B, H, T_q, d_nope + d_rope)
        q_nope, q_rope = q.split([c.d_nope, c.d_rope], dim=-1)
        latent, k_rope = self.W_dkv(x).unsqueeze(1).split([c.d_latent, c.d_rope], dim=-1)
        latent = self.norm_kv(latent)  # (B, 1, T_q, d_latent)
        if order is not None and order.rotation is not None:
            q_rope, k_rope = order.rotation(q_rope), order.rotation(k_rope)
        if cache is not None:
            latent, k_rope = cache.update(latent, k_rope)  # (B, 1, T_k, d_latent) and (B, 1, T_k, d_rope)
        if absorbed is None:
            absorbed = cache is not None and x.shape[1] == 1
        attend = self._absorbed if absorbed else self._expanded
        heads = attend(q_nope, q_rope, latent, k_rope, mask, causal)  # (B, H, T_q, d_value)
        return self.W_o(merge_heads(heads))

    def _into_queries(self, x: Tensor) -> Tensor:
        return x if self.W_dq is None or self.norm_q is None else self.norm_q(self.W_dq(x))

    def _expanded(
        self,
        q_nope: Tensor,
        q_rope: Tensor,
        latent: Tensor,
        k_rope: Tensor,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """Make keys and values, and attend to them."""
        c = self.config
        kv = split_heads(self.W_ukv(latent.squeeze(1)), c.num_heads)  # (B, H, T_k, d_nope + d_value)
        k_nope, v = kv.split([c.d_nope, c.d_value], dim=-1)
        k = torch.cat([k_nope, k_rope.expand(-1, c.num_heads, -1, -1)], dim=-1)
        q = torch.cat([q_nope, q_rope], dim=-1)
        return attention(q, k, v, mask=mask, causal=causal, scale=self.scale)

    def _absorbed(
        self,
        q_nope: Tensor,
        q_rope: Tensor,
        latent: Tensor,
        k_rope: Tensor,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """Attend to what the cache holds, one key head of width d_latent + d_rope."""
        c = self.config
        W_uk, W_uv = self.W_ukv.weight.unflatten(0, (c.num_heads, -1)).split([c.d_nope, c.d_value], dim=1)
        q = torch.cat([q_nope @ W_uk, q_rope], dim=-1)  # W_uk is (H, d_nope, d_latent)
        k = torch.cat([latent, k_rope], dim=-1)  # (B, 1, T_k, d_latent + d_rope)
        seen = attention(q, k, latent, mask=mask, causal=causal, scale=self.scale)  # (B, H, T_q, d_latent)
        return seen @ W_uv.mT  # W_uv is (H, d_value, d_latent)


def absorbed_scores(
    q_nope: Float[Tensor, "B h T_q d_nope"],
    q_rope: Float[Tensor, "B h T_q d_rope"],
    c_kv: Float[Tensor, "B T_k d_latent"],
    k_rope: Float[Tensor, "B T_k d_rope"],
    W_uk: Float[Tensor, "h d_nope d_latent"],
) -> Float[Tensor, "B h T_q T_k"]:
    r"""Score the tokens of a cache of latent attention without making their keys.

    Head i scores a token by the key $[W_i c; \; k^R]$: the score is $(q^\top W_i c + q^{R\top} k^R)$, divided
    by $\sqrt{d_{nope} + d_{rope}}$. Since $q^\top W_i c = (W_i^\top q)^\top c$, it is enough to bring the few
    queries to the width of c.

    Args:
        q_nope: the part of the queries that is not rotated, (B, h, T_q, d_nope).
        q_rope: the rotated part, (B, h, T_q, d_rope).
        c_kv: the vectors that the keys are made from, (B, T_k, d_latent).
        k_rope: the rotated part of the keys, which all heads share, (B, T_k, d_rope).
        W_uk: what makes the keys of each head from ``c_kv``, (h, d_nope, d_latent).

    Returns:
        The scaled scores, (B, h, T_q, T_k).

    From: DeepSeek-AI (2024), *DeepSeek-V2*, section 2.1.

    >>> q_nope, q_rope, c_kv, k_rope = torch.ones(4, 1, 1, 1, 2).unbind()
    >>> W_uk = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])  # the key is [3, 7, 1, 1]
    >>> print(absorbed_scores(q_nope, q_rope, c_kv[0], k_rope[0], W_uk))
    tensor([[[[6.]]]])
    """
    width = q_nope.shape[-1] + q_rope.shape[-1]
    queries = torch.cat([q_nope @ W_uk, q_rope], dim=-1)  # (B, h, T_q, d_latent + d_rope)
    cache = torch.cat([c_kv, k_rope], dim=-1)  # (B, T_k, d_latent + d_rope)
    # The heads are rows of one product: broadcasting over heads would copy the cache for each of them.
    scores = queries.flatten(1, 2) @ cache.mT / width**0.5  # (B, h * T_q, T_k)
    return scores.unflatten(1, q_nope.shape[1:3])
