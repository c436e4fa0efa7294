"""One block: attention, feed-forward network, norms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tfcore.config.attention import AttentionConfig, NormKind
from tfcore.config.checks import check_choice, check_eps, check_sizes, check_type
from tfcore.config.delta_net import DeltaNetConfig
from tfcore.config.latent import LatentAttentionConfig
from tfcore.routing import RouterConfig

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
NormPlace = Literal["pre", "post", "sandwich", "output"]


@dataclass(frozen=True)
class BlockConfig:
    """One block: attention, feed-forward network, and a norm before or after each.

    Args:
        attention: the attention layer, usual or latent, or a layer of delta rules in its place;
            cross-attention, where there is one, has the same shape and is always the usual one.
        d_ff: inner width of the feed-forward network, or of each expert.
        activation: its nonlinearity.
        gated: whether a second projection is multiplied in (SwiGLU is "silu", gated).
        ffn_bias: whether its projections add a bias.
        norm: LayerNorm, RMSNorm, or RMSNorm that multiplies by 1 + weight.
        norm_eps: added to the variance under the root.
        norm_bias: whether LayerNorm adds a bias.
        norm_place: "pre" norms the input of a sublayer, "post" the sum of residual and output, "output" the
            output alone, "sandwich" input and output.
        norm_input: whether attention's input is normed; ModernBERT's first block leaves it out.
        parallel: "two norms" and "one norm" give the feed-forward network the input of attention, after a
            norm of its own or the same; None gives it the sum of that input and attention's output.
        num_experts: feed-forward networks to choose from, all SwiGLU without bias; one, always used, when
            None.
        top_k: how many experts a token is sent to.
        router: how they are chosen and weighed.
        shared_d_ff: inner width of a network that every token is sent to besides; there is none when None.
        shared_gate: whether each token multiplies that network's output by a gate of its own.
        expert_limit: makes the experts those of gpt-oss, with biases and bounded gates.
        dropout: probability of zeroing each entry of a sublayer's output in training.

    Raises:
        ValueError: an unknown name, a number out of range, or settings that are not built together.

    From: Vaswani et al. (2017); Xiong et al. (2020), *On Layer Normalization in the Transformer
    Architecture*; Shazeer (2020), *GLU Variants Improve Transformer*; Jiang et al. (2024), *Mixtral*; Wang
    and Komatsuzaki (2021), *GPT-J-6B* (parallel); Gemma Team (2024), *Gemma 2* (norms of input and output).

    >>> BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48).norm_place
    'pre'
    """

    attention: AttentionConfig | LatentAttentionConfig | DeltaNetConfig
    d_ff: int
    activation: Activation = "gelu"
    gated: bool = False
    ffn_bias: bool = True
    norm: NormKind = "layer"
    norm_eps: float = 1e-5
    norm_place: NormPlace = "pre"
    norm_bias: bool = True
    norm_input: bool = True
    parallel: Literal["two norms", "one norm"] | None = None
    num_experts: int | None = None
    top_k: int = 2
    router: RouterConfig = field(default_factory=RouterConfig)
    shared_d_ff: int | None = None
    shared_gate: bool = False
    expert_limit: float | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_type(self, "attention", AttentionConfig, LatentAttentionConfig, DeltaNetConfig)
        check_sizes(self, "d_ff", "num_experts", "top_k", "shared_d_ff")
        check_choice(self, "activation", Activation)
        check_choice(self, "norm", NormKind)
        check_choice(self, "norm_place", NormPlace)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected a dropout from 0 to below 1, got {self.dropout!r}; 0 switches it off")
        check_eps("norm_eps", self.norm_eps)
        if self.parallel is not None:
            check_choice(self, "parallel", Literal["two norms", "one norm"])
        unusual = self.parallel is not None or not self.norm_input
        if unusual and self.norm_place != "pre":
            raise ValueError(
                f"expected norm_place 'pre' for a parallel block or one without a norm of its input, got "
                f"{self.norm_place!r}; the others are not built"
            )
        if self.num_experts is not None and self.top_k > self.num_experts:
            raise ValueError(
                f"expected a top_k of at most {self.num_experts} experts, got {self.top_k}; "
                "a token is sent to an expert once"
            )
        swiglu = self.activation == "silu" and self.gated and not self.ffn_bias
        if self.num_experts is not None and not swiglu:
            raise ValueError(
                "expected experts with activation 'silu', gated and without bias, got activation "
                f"{self.activation!r}, gated {self.gated}, ffn_bias {self.ffn_bias}; the others are not built"
            )

    @property
    def multi_head(self) -> AttentionConfig:
        """The attention layer, where it is the usual one.

        Raises:
            ValueError: it is another.
        """
        if not isinstance(self.attention, AttentionConfig):
            raise ValueError(f"expected usual attention, got {type(self.attention).__name__}")
        return self.attention

    def with_attention(self, **changes: Any) -> BlockConfig:
        """Change some settings of the attention layer, where it is the usual one.

        >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
        >>> block.with_attention(window=5).attention.window
        5
        """
        return replace(self, attention=replace(self.multi_head, **changes))
