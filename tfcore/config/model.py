"""Whole models: a stack of blocks, or two stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfcore.config.block import BlockConfig
from tfcore.config.checks import check_sizes, check_softcap, check_type
from tfcore.config.latent import LatentAttentionConfig
from tfcore.config.positions import PositionConfig, check_distances


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
        final_norm: whether the output of the last block is normed; None: unless ``norm_place`` is "post".
        tied: whether the head uses the matrix of the token embedding.
        logit_scale: multiplies the last hidden state before the head.
        logit_bias: whether the head adds a bias.
        logit_softcap: c; each logit z becomes $c \tanh(z / c)$.

    Raises:
        ValueError: a size below 1, ``num_segments`` below 0, a part of another type, or blocks that do not
            fit together.

    From: Vaswani et al. (2017); Press and Wolf (2017), *Using the Output Embedding to Improve Language
    Models*.

    >>> from tfcore.config import AttentionConfig
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
        check_type(self, "block", BlockConfig)
        check_type(self, "positions", PositionConfig)
        check_sizes(self, "vocab_size", "num_layers")
        check_softcap("logit_softcap", self.logit_softcap)
        _fit_together(self)
        if self.num_segments < 0:
            raise ValueError(f"expected num_segments of 0 or more, got {self.num_segments}; 0 is for none")

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return self.block.attention.d_model

    @property
    def has_final_norm(self) -> bool:
        """Return whether the last block's output is normed: by default unless `norm_place` is "post"."""
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

        >>> from tfcore.config import AttentionConfig
        >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
        >>> config = ModelConfig(100, num_layers=3, block=block, positions=PositionConfig("rope"))
        >>> config.with_windows([5, 5, None]).windows
        (5, 5, None)
        """
        blocks = tuple(
            block if window == block.attention.window else block.with_attention(window=window)
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

    >>> from tfcore.config import AttentionConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48)
    >>> deep, shallow = (ModelConfig(100, num_layers, block) for num_layers in (6, 2))
    >>> config = EncoderDecoderConfig(encoder=deep, decoder=shallow)
    >>> config.encoder.num_layers, config.decoder.num_layers
    (6, 2)
    """

    encoder: ModelConfig
    decoder: ModelConfig

    def __post_init__(self) -> None:
        check_type(self, "encoder", ModelConfig)
        check_type(self, "decoder", ModelConfig)
        check_distances(self.encoder.positions, 2)
        check_distances(self.decoder.positions, 1)
        for name in ("d_model", "vocab_size"):
            ours, theirs = getattr(self.encoder, name), getattr(self.decoder, name)
            if ours != theirs:
                raise ValueError(
                    f"expected one {name} for encoder and decoder, got {ours} and {theirs}; "
                    "they share the token embedding, and the decoder attends to the encoder"
                )


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
    latent = any(isinstance(block.attention, LatentAttentionConfig) for block in config.layers)
    if latent and {"t5", "alibi", "shaw"} & set(kinds):
        raise ValueError(
            f"expected rotated or added positions with latent attention, got {' and '.join(kinds)}; use rope"
        )
    if config.window_positions is not None and set(kinds) != {"rope"}:
        raise ValueError(
            f"expected rotary positions beside window_positions, got {' and '.join(kinds)}; "
            "the others are not built"
        )
