"""The block: sublayers that each add something to a stream, and a norm before or after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.cache import KeysAndValues, LayerCache
from tfcore.config import AttentionConfig, BlockConfig, LatentAttentionConfig
from tfcore.layers.delta_net import GatedDeltaNet
from tfcore.layers.feed_forward import FeedForward
from tfcore.layers.latent import LatentAttention
from tfcore.layers.multi_head import MultiHeadAttention
from tfcore.layers.norms import make_norm
from tfcore.moe import MixtureOfExperts
from tfcore.positions import Order


class TransformerBlock(nn.Module):
    r"""Mix the tokens by attention, then change each by the feed-forward network.

    Pre-norm: $x_1 = x + \text{Att}(\text{LN}(x)), \; y = x_1 + \text{FFN}(\text{LN}(x_1))$.
    Post-norm: $x_1 = \text{LN}(x + \text{Att}(x)), \; y = \text{LN}(x_1 + \text{FFN}(x_1))$.
    Norm of the output: $x_1 = x + \text{LN}(\text{Att}(x))$; a sandwich norms input and output.
    Parallel: $y = x + \text{Att}(\text{LN}(x)) + \text{FFN}(\text{LN}'(x))$.

    Args:
        config: the layers, and where the norms are.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.1 (post-norm); Xiong et al. (2020),
    *On Layer Normalization in the Transformer Architecture* (pre-norm).

    >>> import torch
    >>> from tfcore.config import AttentionConfig
    >>> block = TransformerBlock(BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48))
    >>> print(block(torch.zeros(2, 5, 12), causal=True).shape)
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.norm_attention = make_norm(config) if config.norm_input else nn.Identity()
        self.attention = _attention(config)
        self.norm_ffn = nn.Identity() if config.parallel == "one norm" else make_norm(config)
        self.ffn = _feed_forward(config)
        sandwich = config.norm_place == "sandwich"
        self.norm_attention_output = make_norm(config) if sandwich else None
        self.norm_ffn_output = make_norm(config) if sandwich else None

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        mask: Bool[Tensor, "*#scores"] | None = None,
        *,
        causal: bool = False,
        order: Order | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """See :meth:`MultiHeadAttention.forward` for the arguments."""

        def attend(x: Tensor) -> Tensor:
            return self.attention(x, mask=mask, causal=causal, order=order, cache=cache)

        if self.config.parallel is not None:
            normed = self.norm_attention(x)
            into_ffn = self.norm_ffn(normed if self.config.parallel == "one norm" else x)
            return x + self._drop(attend(normed) + self.ffn(into_ffn))
        x = self._add(x, self.norm_attention, attend, self.norm_attention_output)
        return self._add(x, self.norm_ffn, self.ffn, self.norm_ffn_output)

    def _add(
        self,
        x: Tensor,
        norm: nn.Module,
        sublayer: Callable[[Tensor], Tensor],
        norm_output: nn.Module | None = None,
    ) -> Tensor:
        """Add the output of a sublayer to the stream, with the norms where the configuration has them."""
        place = self.config.norm_place
        change = sublayer(norm(x) if place in ("pre", "sandwich") else x)
        if place == "output":
            norm_output = norm
        if norm_output is not None:
            change = norm_output(change)
        change = self._drop(change)
        return norm(x + change) if place == "post" else x + change

    def _drop(self, change: Tensor) -> Tensor:
        """Zero entries by chance in training."""
        return F.dropout(change, self.config.dropout, self.training) if self.config.dropout else change


class DecoderBlock(TransformerBlock):
    r"""A block that also attends to a memory, between self-attention and the feed-forward network.

    Pre-norm: $x_2 = x_1 + \text{Att}(\text{LN}(x_1), m)$; the memory m is not normed here.

    Args:
        config: the layers, and where the norms are; both attention layers have the same shape.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.1.

    >>> import torch
    >>> from tfcore.config import AttentionConfig
    >>> block = DecoderBlock(BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48))
    >>> print(block(torch.zeros(2, 5, 12), torch.zeros(2, 7, 12)).shape)
    torch.Size([2, 5, 12])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        if config.parallel is not None or config.norm_place == "sandwich":
            raise ValueError(
                "expected norm_place 'pre', 'post' or 'output' and no parallel for a block with a memory, "
                f"got {config.norm_place!r} and {config.parallel!r}; the others are not built"
            )
        self.norm_cross = make_norm(config)
        self.cross_attention = MultiHeadAttention(config.multi_head)

    def forward(  # type: ignore[override]  # a memory comes first: without one there is nothing to cross to
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B T_k d_model"] | KeysAndValues,
        self_mask: Bool[Tensor, "*#scores"] | None = None,
        memory_mask: Bool[Tensor, "*#scores"] | None = None,
        *,
        causal: bool = False,
        order: Order | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """See :meth:`MultiHeadAttention.forward` for the arguments."""

        def attend(x: Tensor) -> Tensor:
            return self.attention(x, mask=self_mask, causal=causal, order=order, cache=cache)

        def cross(x: Tensor) -> Tensor:
            return self.cross_attention(x, memory, memory_mask)

        x = self._add(x, self.norm_attention, attend)
        x = self._add(x, self.norm_cross, cross)
        return self._add(x, self.norm_ffn, self.ffn)


def _attention(config: BlockConfig) -> MultiHeadAttention | LatentAttention | GatedDeltaNet:
    if isinstance(config.attention, AttentionConfig):
        return MultiHeadAttention(config.attention)
    if isinstance(config.attention, LatentAttentionConfig):
        return LatentAttention(config.attention)
    return GatedDeltaNet(config.attention)


def _feed_forward(config: BlockConfig) -> nn.Module:
    if config.num_experts is None:
        return FeedForward(config)
    shared = None
    if config.shared_d_ff is not None:
        shared = FeedForward(replace(config, d_ff=config.shared_d_ff, num_experts=None))
    return MixtureOfExperts(
        config.attention.d_model,
        config.d_ff,
        config.num_experts,
        config.top_k,
        config.router,
        shared,
        config.shared_gate,
        config.expert_limit,
    )
