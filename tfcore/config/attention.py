"""One attention layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tfcore.config.checks import check_choice, check_eps, check_sizes, check_softcap

NormKind = Literal["layer", "rms", "rms_plus_one"]


@dataclass(frozen=True)
class QKNorm:
    """A norm of queries and keys, before they are rotated: scores cannot grow with the length of the vectors.

    Args:
        over: "head" norms each head by itself, "layer" the vectors of all heads as one.
        kind: one of the norms of a block.
        eps: added to the mean square under the root.

    Raises:
        ValueError: an unknown name, or an eps below 0.

    From: Henry et al. (2020), *Query-Key Normalization for Transformers*; Dehghani et al. (2023), *Scaling
    Vision Transformers to 22 Billion Parameters*.

    >>> AttentionConfig(d_model=12, num_heads=4, qk_norm=QKNorm()).qk_norm.over
    'head'
    """

    over: Literal["head", "layer"] = "head"
    kind: NormKind = "rms"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        check_choice(self, "over", Literal["head", "layer"])
        check_choice(self, "kind", NormKind)
        check_eps("eps", self.eps)


@dataclass(frozen=True)
class AttentionConfig:
    r"""One attention layer: $h$ query heads of width $d_{head}$ that share $h_{kv}$ heads of keys and values.

    Args:
        d_model: width of the residual stream.
        num_heads: query heads, h.
        num_kv_heads: heads of keys and values; h when None, 1 for multi-query attention.
        d_head: width of one head; d_model / h when None.
        bias: whether the projections of queries, keys and values add a bias.
        output_bias: whether the projection of the output does; as ``bias`` when None.
        scale: multiplies the scores; $1 / \sqrt{d_{head}}$ when None.
        window: how many tokens a causal query sees, itself included; all when None.
        qk_norm: a norm of queries and keys.
        softcap: c; each scaled score s becomes $c \tanh(s / c)$.
        sinks: whether each head has a learned score that takes part in the softmax and has no value, so that
            a head can attend to nothing.
        gated: whether each channel of the heads' output is multiplied by a gate, $\sigma(W^G x)$.

    Raises:
        ValueError: heads that do not divide the width, groups that do not divide the heads, or a number out
            of range.

    From: Vaswani et al. (2017); Shazeer (2019), *Fast Transformer Decoding*; Ainslie et al. (2023), *GQA*;
    Gemma Team (2024), *Gemma 2* (soft caps); OpenAI (2025), *gpt-oss-120b & gpt-oss-20b Model Card* (sinks);
    Qiu et al. (2025), *Gated Attention for Large Language Models*.

    >>> AttentionConfig(d_model=12, num_heads=4).width
    3
    """

    d_model: int
    num_heads: int
    num_kv_heads: int | None = None
    d_head: int | None = None
    bias: bool = True
    scale: float | None = None
    window: int | None = None
    output_bias: bool | None = None
    qk_norm: QKNorm | None = None
    softcap: float | None = None
    sinks: bool = False
    gated: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "num_heads", "num_kv_heads", "d_head", "window")
        check_softcap("softcap", self.softcap)
        if self.scale is not None and not math.isfinite(self.scale):
            raise ValueError(f"expected a finite scale, got {self.scale!r}; None is the usual one")
        if self.d_head is None and self.d_model % self.num_heads:
            raise ValueError(
                f"expected heads that divide d_model, got d_model {self.d_model} and {self.num_heads} heads; "
                "choose another number of heads, or give d_head"
            )
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"expected key heads that divide the query heads, got {self.num_kv_heads} and "
                f"{self.num_heads}; each key head serves the same number of query heads"
            )

    @property
    def width(self) -> int:
        """Width of one head."""
        return self.d_model // self.num_heads if self.d_head is None else self.d_head

    @property
    def kv_heads(self) -> int:
        """Number of key and value heads, that is of groups that share one."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def rotated(self) -> int:
        """Channels of a head that a rotation turns, unless the positions ask for fewer."""
        return self.width

    @property
    def cached(self) -> tuple[int, int, int]:
        """Heads of keys and values that a cache keeps, and the widths of a key and of a value."""
        return self.kv_heads, self.width, self.width

    @property
    def has_output_bias(self) -> bool:
        """Return whether the projection of the output adds a bias: by default if the others do."""
        return self.bias if self.output_bias is None else self.output_bias
