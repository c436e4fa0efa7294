"""The core of every model: embedding, positions, blocks, final norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache, KeysAndValues, StaticCache, check_cache, make_cache
from tfcore.config import DeltaNetConfig, ModelConfig
from tfcore.inspection import can_look, check_tokens
from tfcore.layers import DecoderBlock, GatedDeltaNet, LatentAttention, TransformerBlock, make_norm
from tfcore.positions import Positions

GAPS_ALLOWED = ("none", "sinusoidal", "learned", "rope")  # positions that are counted by real tokens


class Stack(nn.Module):
    r"""Turn tokens into hidden states.

    $x^{(0)} = s \, E_{token} \, (+ E_{position} + E_{segment}), \; x^{(l)} = \text{Block}_l(x^{(l-1)})$.

    Args:
        config: sizes and choices.
        causal: whether a token sees only itself and the tokens before it.
        cross: whether blocks also attend to a memory.

    From: Vaswani et al. (2017), *Attention Is All You Need*, figure 1.

    >>> from tfcore.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(AttentionConfig(12, num_heads=3), d_ff=48)
    >>> config = ModelConfig(50, num_layers=2, block=block)
    >>> stack, tokens = Stack(config, causal=True), torch.tensor([[7, 1, 4]])
    >>> torch.allclose(stack(tokens)[:, :2], stack(tokens[:, :2]), atol=1e-5)
    True
    """

    def __init__(self, config: ModelConfig, causal: bool, cross: bool = False) -> None:
        super().__init__()
        self.config, self.causal, self.cross = config, causal, cross
        attention = config.block.attention
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.segments = nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None
        self.positions = Positions(config.positions, attention, causal)
        self.embedding_norm = make_norm(config.block) if config.embedding_norm else None
        self.window_positions = (
            Positions(config.window_positions, attention, causal) if config.window_positions else None
        )
        kind = DecoderBlock if cross else TransformerBlock
        self.blocks = nn.ModuleList(kind(block) for block in config.layers)
        self.final_norm = make_norm(config.block) if config.has_final_norm else None
        _initialise(self)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        padding: Bool[Tensor, "B T"] | None = None,
        segments: Int[Tensor, "B T"] | None = None,
        memory: Sequence[Tensor | KeysAndValues] | None = None,
        memory_padding: Bool[Tensor, "B T_k"] | None = None,
        cache: Cache | StaticCache | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Run the blocks one after the other.

        Args:
            tokens: ids, (B, T).
            padding: True at real tokens; all are real when None. Padding between real tokens, cached ones
                included, is refused where distances count (windows, ALiBi, T5, Shaw), and with delta rules.
            segments: the segment that each token belongs to; 0 when None.
            memory: for each block, the memory that its cross-attention reads, if it has one.
            memory_padding: True at the memory's real tokens.
            cache: keys and values of the tokens before these; the new ones are added to it.

        Returns:
            Hidden states, (B, T, d_model).
        """
        batch, num_new = check_tokens(tokens, self.config.vocab_size)
        _check_padding("padding", padding, (batch, num_new))
        self._check_beside(tokens, segments, memory, memory_padding, cache)
        if cache is None:
            q_pos = k_pos = torch.arange(num_new, device=tokens.device)
            num_keys = [num_new] * self.config.num_layers
        else:
            q_pos, k_pos = cache.places(num_new, tokens.device)
            num_keys = cache.keys_seen(num_new)
        real = padding if cache is None else cache.note_padding(padding, batch, num_new, tokens.device)
        self.check_gaps(real)
        positions = None if real is None else (real.cumsum(dim=1) - 1).clamp(min=0)[:, -num_new:]  # (B, T)
        memory_mask = None if memory_padding is None else memory_padding[:, None, None, :]  # (B, 1, 1, T_k)

        x = self.embedding(tokens)  # (B, T, d_model), as it stays
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        x = self.positions.embed(x, q_pos if positions is None else positions)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        if self.config.block.dropout:
            x = F.dropout(x, self.config.block.dropout, self.training)

        order = window_order = self.positions.relate(q_pos, k_pos, positions, x.dtype)
        if self.window_positions is not None:
            window_order = self.window_positions.relate(q_pos, k_pos, positions, x.dtype)
        orders = [order if window is None else window_order for window in self.config.windows]
        for layer, block in enumerate(self.blocks):
            kept = None if cache is None else cache.layers[layer]
            sources = () if memory is None else (memory[layer],)
            mask = None if real is None else real[:, None, None, -num_keys[layer] :]  # (B, 1, 1, T_k)
            masks = (mask,) if memory is None else (mask, memory_mask)
            x = block(x, *sources, *masks, causal=self.causal, order=orders[layer], cache=kept)
        return x if self.final_norm is None else self.final_norm(x)

    def new_cache(self, batch: int, max_len: int | None = None, kind: str | None = None) -> Cache:
        """Make an empty cache for these blocks; see :func:`tfcore.cache.make_cache`."""
        like = next(self.blocks.parameters())  # a norm's weight: the embedding's may be in 8 bits
        first = cast(TransformerBlock, self.blocks[0]).attention
        entry = {LatentAttention: "W_dkv", GatedDeltaNet: "W_qkvz"}.get(type(first), "W_qkv")
        dtype = getattr(first, entry)(like.new_empty(0, self.config.d_model)).dtype  # autocast may change it
        layers = [block.attention for block in self.config.layers]
        return make_cache(layers, batch, max_len, kind, dtype, like.device)

    def keys_and_values(self, memory: Float[Tensor, "B T_k d_model"]) -> list[KeysAndValues]:
        """Project a memory once for every block that attends to it."""
        blocks = cast(Sequence[DecoderBlock], self.blocks)
        return [block.cross_attention.keys_and_values(memory) for block in blocks]

    def check_gaps(self, real: Tensor | None) -> None:
        """Refuse padding between real tokens where distances are counted, which would count it too."""
        kind, windows = self.config.positions.kind, set(self.config.windows)
        delta = any(isinstance(block.attention, DeltaNetConfig) for block in self.config.layers)
        allowed = windows == {None} and kind in GAPS_ALLOWED and not delta
        if real is None or not can_look(real) or allowed:
            return
        begins = real & ~F.pad(real, (1, 0))[:, :-1]
        if (begins.sum(dim=1) > 1).any():
            raise ValueError(
                "expected no padding between real tokens where distances count or a state is kept "
                f"({kind}, windows {windows}), got some; pad on the left, so that a text that goes on has "
                "none inside"
            )

    def _check_beside(
        self,
        tokens: Tensor,
        segments: Tensor | None,
        memory: Sequence[Tensor | KeysAndValues] | None,
        memory_padding: Tensor | None,
        cache: Cache | StaticCache | None,
    ) -> None:
        """Check the arguments beside the tokens: each is used, and no block lacks one that it needs."""
        layers = self.config.num_layers
        read, given = layers if self.cross else 0, 0 if memory is None else len(memory)
        if isinstance(memory, Tensor) or read != given:
            kind = "one tensor" if isinstance(memory, Tensor) else given
            raise ValueError(
                f"expected a memory for each of the {read} blocks that attend to one, got {kind}; "
                "project the memory once for every block"
            )
        if memory:
            first = memory[0][0] if isinstance(memory[0], tuple) else memory[0]
            _check_padding("memory_padding", memory_padding, (len(first), first.shape[-2]))
        if segments is not None and (self.segments is None or segments.shape != tokens.shape):
            raise ValueError(
                f"expected segments of shape {tuple(tokens.shape)} and a model that knows some, got "
                f"{tuple(segments.shape)} and {self.config.num_segments} segments; leave them out"
            )
        if cache is not None:
            check_cache(cache)
        if cache is not None and len(cache.layers) != layers:
            raise ValueError(
                f"expected a cache of {layers} layers, got {len(cache.layers)}; make one with new_cache"
            )


class Head(nn.Module):
    r"""Give every token of the vocabulary a logit.

    $z = s \, E x + b$, where E is the embedding if they are tied.

    Args:
        config: whether it is tied, scaled and biased.
        embedding: the token embedding that it may share.

    From: Press and Wolf (2017), *Using the Output Embedding to Improve Language Models* (tied).

    >>> from tfcore.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(AttentionConfig(12, num_heads=3), d_ff=48)
    >>> config = ModelConfig(50, num_layers=2, block=block)
    >>> embedding, x = nn.Embedding(50, 12), torch.randn(2, 5, 12)
    >>> torch.allclose(Head(config, embedding)(x), x @ embedding.weight.T, atol=1e-5)
    True
    """

    def __init__(self, config: ModelConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        self.scale, self.softcap = config.logit_scale, config.logit_softcap
        self.linear = nn.Linear(config.d_model, config.vocab_size, bias=config.logit_bias)
        nn.init.normal_(self.linear.weight, std=initial_std(config.d_model))
        if config.logit_bias:
            nn.init.zeros_(self.linear.bias)
        if config.tied:
            self.linear.weight = embedding.weight

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T V"]:
        """Turn hidden states, (B, T, d_model), into logits, (B, T, V)."""
        logits = self.linear(x if self.scale == 1 else x * self.scale)
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


def initial_std(d_model: int) -> float:
    r"""Choose how widely weights are drawn: $0.02 \sqrt{768 / d}$.

    That is GPT-2's 0.02 at GPT-2's width. Narrow models learn slowly from 0.02, since a product with d terms
    grows as $\sqrt d$.

    >>> initial_std(768)
    0.02
    """
    return 0.02 * (768 / d_model) ** 0.5


def _initialise(stack: Stack) -> None:
    """Draw the matrices, smaller where a sublayer adds to the stream, as GPT-2 does; no bias at first."""
    std = initial_std(stack.config.d_model)
    into_stream = (2 * stack.config.num_layers) ** -0.5
    for name, parameter in stack.named_parameters():
        if parameter.ndim > 1 and ".b_" not in name:
            adds = name.endswith(("W_o.weight", "W_down.weight", "w_down"))
            nn.init.normal_(parameter, std=std * into_stream if adds else std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def _check_padding(name: str, padding: Tensor | None, shape: tuple[int, int]) -> None:
    if padding is not None and (padding.dtype != torch.bool or tuple(padding.shape) != shape):
        raise ValueError(
            f"expected a boolean {name} of shape {shape}, True at real tokens, got {padding.dtype} "
            f"{tuple(padding.shape)}; use mask.bool()"
        )
