"""Multi-head attention: to the sequence itself or to a memory, with key heads that query heads may share."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.attention import attention
from tfcore.cache import KeysAndValues, LayerCache
from tfcore.config import AttentionConfig
from tfcore.layers.heads import merge_heads, split_heads
from tfcore.layers.norms import norm_of
from tfcore.positions import Order, shaw_bias


class MultiHeadAttention(nn.Module):
    r"""Attend with h heads side by side, each through projections of its own.

    $\text{Concat}(\text{head}_1, \dots, \text{head}_h) \, W_o$,
    $\text{head}_i = \text{Attention}(x W^Q_i, m W^K_i, m W^V_i)$, where m is x itself or a memory.

    The projections of queries, keys and values are one matrix, ``W_qkv``: its first rows make the queries,
    then come the keys, then the values. One large product is faster than three small ones.

    Args:
        config: width, heads, groups, biases, scale and window; a norm of queries and keys, a cap, sinks.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.2; Shazeer (2019), *Fast Transformer
    Decoding* (one key head); Ainslie et al. (2023), *GQA* (groups).

    >>> import torch
    >>> layer = MultiHeadAttention(AttentionConfig(d_model=12, num_heads=4, num_kv_heads=2))
    >>> print(layer(torch.zeros(2, 5, 12), causal=True).shape)
    torch.Size([2, 5, 12])
    """

    attend = staticmethod(attention)  # what `tfcore.interventions` replaces to look inside

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        self.scale = config.width**-0.5 if config.scale is None else config.scale
        self.num_heads = (config.num_heads, config.kv_heads, config.kv_heads)  # of queries, keys and values
        self.q_size, self.kv_size, _ = (heads * config.width for heads in self.num_heads)
        self.W_qkv = nn.Linear(config.d_model, sum(self.num_heads) * config.width, bias=config.bias)
        self.W_o = nn.Linear(self.q_size, config.d_model, bias=config.has_output_bias)
        self.norm_q, self.norm_k = (_qk_norm(config, heads) for heads in self.num_heads[:2])
        self.W_gate = nn.Linear(config.d_model, self.q_size, bias=config.bias) if config.gated else None
        self.sinks = nn.Parameter(torch.zeros(config.num_heads)) if config.sinks else None

    def forward(
        self,
        x: Float[Tensor, "B T_q d_model"],
        memory: Float[Tensor, "B T_k d_model"] | KeysAndValues | None = None,
        mask: Bool[Tensor, "*#scores"] | None = None,
        *,
        causal: bool = False,
        order: Order | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend from ``x`` to itself and the tokens in the cache, or to the memory.

        Args:
            x: the tokens that attend, (B, T_q, d_model).
            memory: the tokens to attend to in cross-attention, (B, T_k, d_model), or their keys and values
                from :meth:`keys_and_values`; ``x`` itself when None.
            mask: boolean, True = may attend, broadcastable to (B, H, T_q, T_k).
            causal: allow only keys that come no later than the query.
            order: the positions of the tokens, in the form that the layer's method needs.
            cache: keys and values of the tokens before ``x``; the keys and values of ``x`` are added to it.

        Returns:
            (B, T_q, d_model).
        """
        if memory is None:
            q, k, v = self._heads(self.W_qkv(x)).split(self.num_heads, dim=1)  # (B, H or H_kv, T, d_head)
        else:
            q = self._heads(self._project(x, slice(0, self.q_size)))  # (B, H, T_q, d_head)
            k, v = memory if isinstance(memory, tuple) else self._keys_and_values(memory)
        if self.norm_q is not None and self.norm_k is not None:
            q = _normed(self.norm_q, q)
            k = k if isinstance(memory, tuple) else _normed(self.norm_k, k)
        bias = None
        if order is not None:
            if order.rotation is not None:
                q, k = order.rotation(q), order.rotation(k)
            bias = order.bias  # (B, H, T_q, T_k), with 1 for axes that are shared
            if order.relative_keys is not None:
                bias = shaw_bias(q, *order.relative_keys, self.scale)
        if cache is not None:
            k, v = cache.update(k, v)  # (B, H_kv, T_k, d_head), all tokens so far
        output = self.attend(
            q,
            k,
            v,
            mask=mask,
            bias=bias,
            causal=causal,
            window=self.config.window if memory is None else None,
            scale=self.scale,
            softcap=self.config.softcap,
            sinks=self.sinks,
        )
        heads = merge_heads(output)  # (B, T_q, H * d_head)
        return self.W_o(heads if self.W_gate is None else heads * self.W_gate(x).sigmoid())

    def keys_and_values(self, memory: Float[Tensor, "B T_k d_model"]) -> KeysAndValues:
        """Project a memory once, for all the steps that will attend to it."""
        k, v = self._keys_and_values(memory)
        return k if self.norm_k is None else _normed(self.norm_k, k), v

    def _keys_and_values(self, memory: Float[Tensor, "B T_k d_model"]) -> KeysAndValues:
        k, v = self._heads(self._project(memory, slice(self.q_size, None))).split(self.num_heads[1:], dim=1)
        return k, v

    def _heads(self, x: Float[Tensor, "B T size"]) -> Float[Tensor, "B H T d_head"]:
        return split_heads(x, x.shape[-1] // self.config.width)

    def _project(self, x: Float[Tensor, "B T d_model"], rows: slice) -> Float[Tensor, "B T rows"]:
        bias = None if self.W_qkv.bias is None else self.W_qkv.bias[rows]
        return F.linear(x, self.W_qkv.weight[rows], bias)


def _qk_norm(config: AttentionConfig, num_heads: int) -> nn.Module | None:
    if config.qk_norm is None:
        return None
    width = config.width * (num_heads if config.qk_norm.over == "layer" else 1)
    return norm_of(config.qk_norm.kind, width, config.qk_norm.eps)


def _normed(norm: nn.Module, x: Float[Tensor, "B H T d_head"]) -> Float[Tensor, "B H T d_head"]:
    """Norm each head by itself, or all heads of a token as one vector, by the norm's width."""
    if cast(Tensor, norm.weight).shape[0] == x.shape[-1]:
        return norm(x)
    return split_heads(norm(merge_heads(x)), x.shape[1])
