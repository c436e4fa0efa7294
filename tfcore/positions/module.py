"""The positions of a model: one of six methods, chosen by its configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcore.config import AttentionConfig, DeltaNetConfig, LatentAttentionConfig, PositionConfig
from tfcore.positions.absolute import look_up, sinusoids
from tfcore.positions.alibi import alibi_slopes, distance_penalty
from tfcore.positions.relative import shaw_rows, t5_relative_bucket
from tfcore.positions.rotary import Rotation
from tfcore.rope_scaling import LongRope, read_scaling


@dataclass(frozen=True)
class Order:
    """The order of the tokens in one forward pass, for self-attention; all None for absolute methods.

    Args:
        rotation: turns queries and keys (RoPE).
        bias: added to the scores, (1, H, T_q, T_k) (ALiBi, T5).
        relative_keys: a learned key for each distance, and which of them each pair uses (Shaw).

    >>> positions = Positions(PositionConfig("t5"), AttentionConfig(d_model=8, num_heads=2))
    >>> order = positions.relate(torch.arange(3), torch.arange(3))
    >>> print(order.bias.shape, order.rotation)
    torch.Size([1, 2, 3, 3]) None
    """

    rotation: Rotation | None = None
    bias: Float[Tensor, "1 H T_q T_k"] | None = None
    relative_keys: tuple[Float[Tensor, "distances d_head"], Int[Tensor, "T_q T_k"]] | None = None


def _table(*sizes: int) -> nn.Parameter:
    return nn.Parameter(nn.init.normal_(torch.empty(sizes), std=0.02))


class Positions(nn.Module):
    """Bring order into a model, by the method that its configuration names.

    Args:
        config: the method and its sizes.
        attention: the layers that are to know it.
        causal: whether queries never look ahead; T5 then spends all its buckets on the past.

    >>> positions = Positions(PositionConfig("alibi"), AttentionConfig(d_model=8, num_heads=2))
    >>> print(positions.relate(torch.arange(3), torch.arange(3)).bias.shape)
    torch.Size([1, 2, 3, 3])
    """

    def __init__(
        self,
        config: PositionConfig,
        attention: AttentionConfig | LatentAttentionConfig | DeltaNetConfig,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.config, self.causal, self.d_model = config, causal, attention.d_model
        d_head, num_heads = attention.rotated, attention.num_heads
        if config.kind == "learned":
            self.table = _table(config.max_len, attention.d_model)
        elif config.kind == "t5":
            self.table = _table(config.num_buckets, num_heads)
        elif config.kind == "shaw":
            self.table = _table(2 * config.max_distance + 1, d_head)
        elif config.kind == "alibi":
            self.slopes = alibi_slopes(num_heads)
        elif config.kind == "rope":
            if config.d_rotary is not None and config.d_rotary > d_head:
                raise ValueError(
                    f"expected a d_rotary of at most {d_head}, the width of a head, got {config.d_rotary}; "
                    "None turns all of it"
                )
            self.scaling, self.d_rotary = read_scaling(config.rope_scaling), config.d_rotary or d_head
            self.omega = self.scaling.frequencies(self.d_rotary, config.base)
            if isinstance(self.scaling, LongRope):
                self.omega_long = self.scaling.frequencies(self.d_rotary, config.base, sys.maxsize)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move frequencies and slopes with the model, or each step would wait for a copy of them.

        They keep their type. They are not buffers, since a module in bfloat16 would round them.
        """
        super()._apply(fn, recurse)
        device = fn(torch.empty(0, dtype=torch.long)).device
        for name in ("omega", "omega_long", "slopes"):
            if hasattr(self, name) and device.type != "meta":
                setattr(self, name, getattr(self, name).to(device))
        return self

    def embed(
        self, x: Float[Tensor, "B T d_model"], positions: Int[Tensor, "*#B T"]
    ) -> Float[Tensor, "B T d_model"]:
        """Add the vector of each place to the token there, for the two methods that have such vectors."""
        if self.config.kind == "learned":
            return x + look_up(self.table, positions)
        if self.config.kind == "sinusoidal":
            encoding = sinusoids(positions, self.d_model, self.config.base, self.config.layout)
            return x + encoding.to(x.dtype)
        return x

    def relate(
        self,
        q_pos: Int[Tensor, " T_q"],
        k_pos: Int[Tensor, " T_k"],
        positions: Int[Tensor, "B T_q"] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Order:
        """Work out the order for the attention layers, for the other four methods.

        The scalings "dynamic" and "longrope" choose the frequencies by the longest row: by the largest
        position of this call, plus 1. Keys in a cache keep the turns of the call that wrote them. So a text
        that is read in pieces, and grows beyond the original length, has other scores than the same text
        read at once. Both are as in transformers.

        Args:
            q_pos: place of each query in the sequence, (T_q,).
            k_pos: place of each key, (T_k,).
            positions: position of each query counted from its own row's first real token, (B, T_q), where
                rows are padded; ``q_pos`` when None. Only rotations need it: distances do not change.
            dtype: of the queries and keys.
        """
        kind = self.config.kind
        if kind == "rope":
            turned = q_pos if positions is None else positions.unsqueeze(1)  # (B, 1, T): heads turn alike
            omega, temperature = self._frequencies(turned), self.scaling.temperature()
            return Order(rotation=Rotation(turned, omega, self.config.layout, dtype, temperature))
        if kind == "alibi":
            return Order(bias=distance_penalty(self.slopes, q_pos, k_pos).unsqueeze(0))
        if kind == "t5":
            bucket = t5_relative_bucket(
                k_pos - q_pos.unsqueeze(-1),
                bidirectional=not self.causal,
                num_buckets=self.config.num_buckets,
                max_distance=self.config.max_distance,
            )
            return Order(bias=self.table[bucket].permute(2, 0, 1).unsqueeze(0))
        if kind == "shaw":
            return Order(relative_keys=(self.table, shaw_rows(q_pos, k_pos, self.config.max_distance)))
        return Order()

    def _frequencies(self, turned: Int[Tensor, "*batch T"]) -> Float[Tensor, " d_rotary/2"]:
        """Return the frequencies for these positions; the length stays a tensor: reading it would wait."""
        if not self.scaling.looks_at_length:
            return self.omega
        length = turned.max() + 1
        if isinstance(self.scaling, LongRope):
            return self.scaling.choose(self.omega, self.omega_long, length)
        return self.scaling.frequencies(self.d_rotary, self.config.base, length)
