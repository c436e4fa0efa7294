"""Encoder-decoder models: the first Transformer, T5, BART, Marian."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache, KeysAndValues
from tfcore.config import EncoderDecoderConfig
from tfcore.models.stack import Head, Stack


class EncoderDecoder(nn.Module):
    r"""Write a target, token by token, while attending to a source that was read at once.

    $p(y_{t+1} \mid y_{\le t}, x) = \text{softmax}(E \, h_t)$.

    Args:
        config: the two stacks.

    From: Vaswani et al. (2017), *Attention Is All You Need*; Raffel et al. (2020), *T5*.

    >>> import torch
    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> block = BlockConfig(AttentionConfig(12, num_heads=3), d_ff=48)
    >>> stack = ModelConfig(50, num_layers=2, block=block)
    >>> model = EncoderDecoder(EncoderDecoderConfig(stack, stack))
    >>> print(model(torch.tensor([[7, 1, 4]]), torch.tensor([[0, 3]])).shape)
    torch.Size([1, 2, 50])
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack(config.encoder, causal=False)
        self.decoder = Stack(config.decoder, causal=True, cross=True)
        self.decoder.embedding = self.encoder.embedding
        self.head = Head(config.decoder, self.decoder.embedding)

    def forward(
        self,
        source: Int[Tensor, "B T_s"],
        target: Int[Tensor, "B T"],
        source_padding: Bool[Tensor, "B T_s"] | None = None,
        target_padding: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Compute the logits of the next token at every place of a given target (teacher forcing).

        Args:
            source: ids, (B, T_s).
            target: ids, beginning with the start token, (B, T).
            source_padding: True at the source's real tokens.
            target_padding: True at the target's real tokens.

        Returns:
            Logits, (B, T, V).
        """
        memory = self.memory(self.encode(source, source_padding))
        return self.decode(target, memory, source_padding, target_padding)

    def encode(
        self, source: Int[Tensor, "B T_s"], source_padding: Bool[Tensor, "B T_s"] | None = None
    ) -> Float[Tensor, "B T_s d_model"]:
        """Read the source."""
        return self.encoder(source, padding=source_padding)

    def memory(self, hidden: Float[Tensor, "B T_s d_model"]) -> list[KeysAndValues]:
        """Project the source's hidden states once for every block of the decoder."""
        return self.decoder.keys_and_values(hidden)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Sequence[Tensor | KeysAndValues],
        source_padding: Bool[Tensor, "B T_s"] | None = None,
        target_padding: Bool[Tensor, "B T"] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Compute the logits from a memory, continuing from the cache if there is one."""
        hidden = self.decoder(
            target, padding=target_padding, memory=memory, memory_padding=source_padding, cache=cache
        )
        return self.head(hidden)

    def new_cache(self, batch: int, max_len: int | None = None, kind: str | None = None) -> Cache:
        """Make an empty cache for the decoder; see :func:`tfcore.cache.make_cache`."""
        return self.decoder.new_cache(batch, max_len, kind)
