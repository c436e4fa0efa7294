"""The parts of a model as frozen data: attention, block, positions, model.

One configuration describes GPT-2, another Llama, another the encoder of BERT: the families of the book differ
in these fields and in nothing else. ``tfcore.models.presets`` holds the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from tfcore.rope_scaling import read_scaling, scaling_pairs

PositionKind = Literal["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]
Layout = Literal["half", "interleaved"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
NormKind = Literal["layer", "rms", "rms_plus_one"]
NormPlace = Literal["pre", "post", "sandwich", "output"]


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
        _one_of(self, "over", Literal["head", "layer"])
        _one_of(self, "kind", NormKind)
        _check_eps("eps", self.eps)


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
        softcap: bounds the scaled scores by $c \tanh(s / c)$, here c.
        sinks: whether each head has a learned score that takes part in the softmax and has no value, so that
            a head can attend to nothing.

    Raises:
        ValueError: heads that do not divide the width, or groups that do not divide the heads.

    From: Vaswani et al. (2017); Shazeer (2019), *Fast Transformer Decoding*; Ainslie et al. (2023), *GQA*;
    Gemma Team (2024), *Gemma 2* (soft caps); OpenAI (2025), *gpt-oss-120b & gpt-oss-20b Model Card* (sinks).

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

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "num_heads", "num_kv_heads", "d_head", "window")
        _check_softcap("softcap", self.softcap)
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
    def has_output_bias(self) -> bool:
        """Tell whether the projection of the output adds a bias: by default if the others do."""
        return self.bias if self.output_bias is None else self.output_bias


@dataclass(frozen=True)
class BlockConfig:
    """One block: attention, feed-forward network, and a norm before or after each.

    Args:
        attention: the attention layer; cross-attention, where there is one, has the same shape.
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
        dropout: probability of zeroing a sublayer's output in training.

    Raises:
        ValueError: an unknown name, or a size below 1.

    From: Vaswani et al. (2017); Xiong et al. (2020), *On Layer Normalization in the Transformer
    Architecture*; Shazeer (2020), *GLU Variants Improve Transformer*; Jiang et al. (2024), *Mixtral*; Wang
    and Komatsuzaki (2021), *GPT-J-6B* (parallel); Gemma Team (2024), *Gemma 2* (norms of input and output).

    >>> BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48).norm_place
    'pre'
    """

    attention: AttentionConfig
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
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _of_type(self, "attention", AttentionConfig)
        check_sizes(self, "d_ff", "num_experts", "top_k")
        _one_of(self, "activation", Activation)
        _one_of(self, "norm", NormKind)
        _one_of(self, "norm_place", NormPlace)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected a dropout from 0 up to 1, got {self.dropout!r}; 0 switches it off")
        _check_eps("norm_eps", self.norm_eps)
        if self.parallel is not None:
            _one_of(self, "parallel", Literal["two norms", "one norm"])
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


@dataclass(frozen=True)
class PositionConfig:
    """How a model knows the order of its tokens; see ``tfcore.positions``.

    Args:
        kind: one of six methods, or "none".
        max_len: rows of a learned table; no other method has a limit.
        base: of the frequencies of sinusoids and rotations.
        layout: whether channel i is paired with i + d/2 ("half": Llama's rotations, Marian's sinusoids) or 2i
            with 2i + 1 ("interleaved": both papers).
        d_rotary: how many channels of a head are rotated; all when None.
        rope_scaling: slows the rotations down for longer contexts: a rope_type and its numbers, as in
            ``config.json``; a dictionary is turned into sorted pairs. See ``tfcore.rope_scaling``.
        num_buckets: T5's number of distances with an entry of their own.
        max_distance: distance beyond which all are alike, at the latest, for T5 and Shaw.

    Raises:
        ValueError: an unknown name, a size below 1, a scaling that is not known, or buckets of T5 that leave
            no distances to share one.

    >>> PositionConfig("rope", base=500_000.0).layout
    'half'
    """

    kind: PositionKind = "learned"
    max_len: int = 1024
    base: float = 10_000.0
    layout: Layout = "half"
    d_rotary: int | None = None
    rope_scaling: tuple[tuple[str, Any], ...] | None = None
    num_buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        _one_of(self, "kind", PositionKind)
        _one_of(self, "layout", Layout)
        check_sizes(self, "max_len", "d_rotary", "num_buckets", "max_distance")
        if not self.base > 0:
            raise ValueError(f"expected a base above 0, got {self.base!r}; frequencies are its powers")
        if self.rope_scaling is not None:
            object.__setattr__(self, "rope_scaling", scaling_pairs(self.rope_scaling))
        if self.kind == "rope":
            read_scaling(self.rope_scaling)
        _distances_to_share(self, 1, 2)  # in a decoder, or in an encoder


@dataclass(frozen=True)
class ModelConfig:
    r"""A stack of blocks between an embedding and, where there is one, a head.

    Args:
        vocab_size: V, tokens that the model knows.
        num_layers: blocks.
        block: the configuration of each block, and of the norms outside the blocks.
        blocks: one configuration for each block, where they differ.
        positions: how order enters.
        window_positions: how order enters the blocks whose attention has a window; as elsewhere when None.
        num_segments: kinds of segment with an embedding of their own (BERT has two); 0 for none.
        embedding_norm: whether the embeddings are normed before the first block.
        embedding_scale: multiplies the token embeddings.
        final_norm: whether the output of the last block is normed; None means as pre-norm needs it.
        tied: whether the head uses the matrix of the token embedding.
        logit_scale: multiplies the last hidden state before the head.
        logit_bias: whether the head adds a bias.
        logit_softcap: bounds the logits z by $c \tanh(z / c)$, here c.

    Raises:
        ValueError: a size below 1, fewer segments than none, a part of another type, or blocks that do not
            fit together.

    From: Vaswani et al. (2017); Press and Wolf (2017), *Using the Output Embedding to Improve Language
    Models*.

    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
    >>> ModelConfig(vocab_size=100, num_layers=2, block=block).has_final_norm
    True
    """

    vocab_size: int
    num_layers: int
    block: BlockConfig
    positions: PositionConfig = field(default_factory=PositionConfig)
    num_segments: int = 0
    embedding_norm: bool = False
    embedding_scale: float = 1.0
    final_norm: bool | None = None
    tied: bool = True
    logit_scale: float = 1.0
    logit_bias: bool = False
    logit_softcap: float | None = None
    blocks: tuple[BlockConfig, ...] | None = None
    window_positions: PositionConfig | None = None

    def __post_init__(self) -> None:
        _of_type(self, "block", BlockConfig)
        _of_type(self, "positions", PositionConfig)
        check_sizes(self, "vocab_size", "num_layers")
        _check_softcap("logit_softcap", self.logit_softcap)
        _fit_together(self)
        if self.num_segments < 0:
            raise ValueError(f"expected num_segments of 0 or more, got {self.num_segments}; 0 is for none")

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return self.block.attention.d_model

    @property
    def has_final_norm(self) -> bool:
        """Tell whether the last block's output is normed: by default if the blocks norm their input."""
        return self.block.norm_place != "post" if self.final_norm is None else self.final_norm

    @property
    def layers(self) -> tuple[BlockConfig, ...]:
        """The configuration of each block, first to last."""
        return self.blocks or (self.block,) * self.num_layers

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each block's attention, first to last."""
        return tuple(block.attention.window for block in self.layers)

    def with_windows(self, windows: Sequence[int | None]) -> ModelConfig:
        """Give the attention of each block a window of its own; None lets it see all tokens.

        >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
        >>> config = ModelConfig(100, num_layers=3, block=block, positions=PositionConfig("rope"))
        >>> config.with_windows([5, 5, None]).windows
        (5, 5, None)
        """
        blocks = tuple(
            replace(block, attention=replace(block.attention, window=window))
            for block, window in zip(self.layers, windows, strict=True)
        )
        alike = len(set(blocks)) == 1
        return replace(self, block=blocks[0] if alike else self.block, blocks=None if alike else blocks)


@dataclass(frozen=True)
class EncoderDecoderConfig:
    """Two stacks that share one token embedding; the second attends to the first.

    Args:
        encoder: the stack that reads the source.
        decoder: the stack that writes the target; its head fields apply.

    Raises:
        ValueError: widths or vocabularies that differ, or buckets of T5 that do not suit both sides.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.1.

    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
    >>> deep, shallow = (ModelConfig(100, num_layers, block) for num_layers in (6, 2))
    >>> config = EncoderDecoderConfig(encoder=deep, decoder=shallow)
    >>> config.encoder.num_layers, config.decoder.num_layers
    (6, 2)
    """

    encoder: ModelConfig
    decoder: ModelConfig

    def __post_init__(self) -> None:
        _of_type(self, "encoder", ModelConfig)
        _of_type(self, "decoder", ModelConfig)
        _distances_to_share(self.encoder.positions, 2)
        _distances_to_share(self.decoder.positions, 1)
        for name in ("d_model", "vocab_size"):
            ours, theirs = getattr(self.encoder, name), getattr(self.decoder, name)
            if ours != theirs:
                raise ValueError(
                    f"expected one {name} for encoder and decoder, got {ours} and {theirs}; "
                    "they share the token embedding, and the decoder attends to the encoder"
                )


def check_sizes(config: Any, *names: str) -> None:
    """Refuse a configuration in which a size is not a whole number of 1 or more; None is accepted.

    Args:
        config: any object with these attributes.
        names: the attributes that are sizes.

    Raises:
        ValueError: names the first attribute that is wrong.

    >>> from types import SimpleNamespace
    >>> check_sizes(SimpleNamespace(d_model=0, d_ff=None), "d_ff", "d_model")
    Traceback (most recent call last):
    ValueError: expected d_model as a whole number of 1 or more, got 0
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ValueError(f"expected {name} as a whole number of 1 or more, got {value!r}")


def _check_eps(name: str, eps: float) -> None:
    if not 0 <= eps < math.inf:
        raise ValueError(f"expected a {name} of 0 or more, got {eps!r}; 1e-5 is usual")


def _check_softcap(name: str, cap: float | None) -> None:
    if cap is not None and not 0 < cap < math.inf:
        raise ValueError(f"expected a {name} above 0, got {cap!r}; None leaves it out")


def _fit_together(config: ModelConfig) -> None:
    """Refuse blocks of another number or width, and windows that differ where distances have a bias."""
    if len(config.layers) != config.num_layers:
        raise ValueError(
            f"expected {config.num_layers} blocks, one for each of num_layers, got {len(config.layers)}"
        )
    widths = {block.attention.d_model for block in (config.block, *config.layers)}
    if len(widths) > 1:
        raise ValueError(f"expected blocks of one d_model, got {sorted(widths)}; they share a stream")
    kinds = [x.kind for x in (config.positions, config.window_positions) if x is not None]
    if len(set(config.windows)) > 1 and {"t5", "alibi", "shaw"} & set(kinds):
        raise ValueError(
            f"expected one window for all blocks with {' and '.join(kinds)}, got {config.windows}; "
            "windows may differ where positions are rotated or added to the tokens"
        )
    if config.window_positions is not None and set(kinds) != {"rope"}:
        raise ValueError(
            f"expected rotary positions beside window_positions, got {' and '.join(kinds)}; "
            "the others are not built"
        )


def _of_type(config: Any, name: str, kind: type) -> None:
    value = getattr(config, name)
    if not isinstance(value, kind):
        raise ValueError(f"expected {name} of type {kind.__name__}, got {value!r}; make one first")


def _one_of(config: Any, name: str, choices: Any) -> None:
    value = getattr(config, name)
    if value not in get_args(choices):
        raise ValueError(f"expected {name} out of {', '.join(get_args(choices))}, got {value!r}; name one")


def _distances_to_share(positions: PositionConfig, *sides: int) -> None:
    """Refuse the buckets that T5's function refuses: keys are on one side of a query, or on two."""
    exact = [positions.num_buckets // count // 2 for count in sides]
    if positions.kind == "t5" and not any(1 <= end < positions.max_distance for end in exact):
        raise ValueError(
            f"expected more buckets or a larger distance, got num_buckets {positions.num_buckets} and "
            f"max_distance {positions.max_distance}; half of a side's buckets, "
            f"{' or '.join(map(str, exact))}, are exact: at least one, and they must end before max_distance"
        )
