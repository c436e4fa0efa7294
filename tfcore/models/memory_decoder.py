"""A decoder whose memory is an argument: the writing half of Whisper, or of a captioner of images."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache, KeysAndValues
from tfcore.config import ModelConfig
from tfcore.models.stack import Head, Stack


class MemoryDecoder(nn.Module):
    r"""Predict the next token from the tokens before it, and from states that another model made.

    $p(y_{t+1} \mid y_{\le t}, m) = \text{softmax}(E \, h_t)$.

    Args:
        config: sizes and choices.

    From: Vaswani et al. (2017), *Attention Is All You Need*, figure 1 (right half); Radford et al. (2022),
    *Robust Speech Recognition via Large-Scale Weak Supervision* (Whisper).

    >>> import torch
    >>> from tfcore.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = MemoryDecoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(model(torch.tensor([[7, 1, 4]]), torch.zeros(1, 9, 12)).shape)
    torch.Size([1, 3, 50])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=True, cross=True)
        self.head = Head(config, self.stack.embedding)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        memory: Float[Tensor, "B T_k d_model"] | Sequence[KeysAndValues],
        memory_padding: Bool[Tensor, "B T_k"] | None = None,
        cache: Cache | None = None,
        padding: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Compute the logits of the next token at every place.

        Args:
            tokens: ids, (B, T).
            memory: the states, (B, T_k, d_model), or their keys and values from :meth:`memory`.
            memory_padding: True at the memory's real states.
            cache: from :meth:`new_cache`; then ``tokens`` come after the tokens that it has seen.
            padding: True at real tokens.

        Returns:
            Logits, (B, T, V).
        """
        if isinstance(memory, Tensor):
            memory = self.memory(memory)
        hidden = self.stack(
            tokens, padding=padding, memory=memory, memory_padding=memory_padding, cache=cache
        )
        return self.head(hidden)

    def memory(self, states: Float[Tensor, "B T_k d_model"]) -> list[KeysAndValues]:
        """Project the states once for every block."""
        return self.stack.keys_and_values(states)

    def new_cache(self, batch: int, max_len: int | None = None, kind: str | None = None) -> Cache:
        """Make an empty cache for this model; see :func:`tfcore.cache.make_cache`."""
        return self.stack.new_cache(batch, max_len, kind)
