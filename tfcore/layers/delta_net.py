"""Gated DeltaNet: a layer in place of attention that writes each token into a memory of fixed size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.attention.pattern import wide
from tfcore.cache.state import StateLayer
from tfcore.config import DeltaNetConfig
from tfcore.delta_rule import gated_delta_rule_carry


class GatedDeltaNet(nn.Module):
    r"""Write and read by the gated delta rule, after a short convolution and before a gate.

    $[q, k, v] = \text{SiLU}(\text{conv}(W^{QKV} x))$, q and k brought to length 1;
    $\beta = \sigma(W^\beta x), \; \log \alpha = -e^{A} \operatorname{softplus}(W^\alpha x + b)$;
    $y = W^O (\text{RMS}(o) \odot \text{SiLU}(W^Z x))$ with o from
    :func:`tfcore.delta_rule.gated_delta_rule` at the queries $q / \sqrt{d_k}$.

    It knows the order of the tokens by itself: no positions are needed.

    Args:
        config: heads and widths.

    From: Yang, Kautz and Hatamizadeh (2024), *Gated Delta Networks: Improving Mamba2 with Delta Rule*.

    >>> config = DeltaNetConfig(d_model=24, num_key_heads=2, num_value_heads=4, d_key=5, d_value=7)
    >>> layer, x = GatedDeltaNet(config), torch.randn(2, 9, 24)
    >>> torch.allclose(layer(x)[:, :5], layer(x[:, :5]), atol=1e-6)
    True
    """

    def __init__(self, config: DeltaNetConfig) -> None:
        super().__init__()
        c = self.config = config
        gates = c.num_value_heads * c.d_value
        self.W_qkvz = nn.Linear(c.d_model, c.channels + gates, bias=False)
        self.W_ba = nn.Linear(c.d_model, 2 * c.num_value_heads, bias=False)  # beta, then alpha
        self.conv = nn.Conv1d(c.channels, c.channels, c.d_conv, groups=c.channels, bias=False)
        self.A_log = nn.Parameter(torch.empty(c.num_value_heads).uniform_(1, 16).log())
        self.b_alpha = nn.Parameter(torch.ones(c.num_value_heads))
        self.norm = nn.RMSNorm(c.d_value, eps=c.norm_eps)
        self.W_o = nn.Linear(gates, c.d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        mask: Bool[Tensor, "B 1 1 T_k"] | None = None,
        *,
        causal: bool = True,
        order: object = None,
        cache: StateLayer | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Go on from the state in the cache with T more tokens.

        Args:
            x: the tokens, (B, T, d_model).
            mask: True at real tokens, of all tokens so far; padding before the first real one leaves no
                trace.
            causal: the layer cannot look ahead, and has no other way.
            order: of no use here.
            cache: the state after the tokens before ``x``; it is advanced.

        Returns:
            (B, T, d_model).

        Raises:
            ValueError: ``causal`` False, or a mask that is not of padded tokens.
        """
        c, T = self.config, x.shape[1]
        if not causal or (mask is not None and mask.shape[1:3] != (1, 1)):
            raise ValueError(
                "expected a causal call, and a mask (B, 1, 1, T) of real tokens, got another; "
                "a memory that is written in order can follow no other mask"
            )
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, -T:, None], 0.0)
        inputs, z = self.W_qkvz(x).split([c.channels, c.num_value_heads * c.d_value], dim=-1)
        recent = inputs.new_zeros(len(x), c.channels, c.d_conv - 1)
        if cache is not None and cache.recent is not None:
            recent = cache.recent
        padded = torch.cat([recent, inputs.mT], dim=-1)  # (B, channels, d_conv - 1 + T)
        q, k, v = self._heads(F.silu(self.conv(padded)).mT)  # (B, H, T, d_key), likewise, (B, H, T, d_value)

        b, a = self.W_ba(x).mT.chunk(2, dim=1)  # (B, H, T) each
        rate = F.softplus(a.to(wide(x.dtype)) + self.b_alpha.to(wide(x.dtype)).unsqueeze(-1))
        log_decay = -self.A_log.to(wide(x.dtype)).exp().unsqueeze(-1) * rate
        memory = None if cache is None else cache.memory
        beta = b.sigmoid().to(log_decay.dtype)
        o, memory = gated_delta_rule_carry(q, k, v, beta, log_decay, memory)  # (B, H, T, d_value)
        if cache is not None:
            cache.put(padded[..., T:].clone(), memory, T)
        gate = F.silu(z.unflatten(-1, (c.num_value_heads, -1)))  # (B, T, H, d_value)
        return self.W_o((self.norm(o.transpose(1, 2)) * gate).flatten(-2))

    def _heads(self, qkv: Float[Tensor, "B T channels"]) -> tuple[Tensor, Tensor, Tensor]:
        """Cut queries, keys and values apart; bring the first two to length 1, and copy shared ones."""
        c = self.config
        keys = c.num_key_heads * c.d_key
        q, k, v = qkv.split([keys, keys, c.num_value_heads * c.d_value], dim=-1)
        q, k = (x.unflatten(-1, (c.num_key_heads, -1)).transpose(1, 2) for x in (q, k))
        q, k = (x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + 1e-6) for x in (q, k))
        q, k = (x.repeat_interleave(c.num_value_heads // c.num_key_heads, dim=1) for x in (q, k))
        return q * c.d_key**-0.5, k, v.unflatten(-1, (c.num_value_heads, -1)).transpose(1, 2)
