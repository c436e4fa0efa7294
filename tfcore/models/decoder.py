"""Decoder-only models: GPT, Llama, Mistral, Mixtral, BLOOM."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache, StaticCache
from tfcore.config import ModelConfig
from tfcore.models.stack import Head, Stack


class Decoder(nn.Module):
    r"""Predict the next token at every place, from the tokens up to it.

    $p(x_{t+1} \mid x_{\le t}) = \text{softmax}(E \, h_t)$.

    Args:
        config: sizes and choices.

    From: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    >>> import torch
    >>> from tfcore.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(model(torch.tensor([[7, 1, 4]])).shape)
    torch.Size([1, 3, 50])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=True)
        self.head = Head(config, self.stack.embedding)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        cache: Cache | StaticCache | None = None,
        padding: Bool[Tensor, "B T"] | None = None,
        keep_last: int | None = None,
    ) -> Float[Tensor, "B T_kept V"]:
        """Compute the logits of the next token at every place.

        Args:
            tokens: ids, (B, T).
            cache: from :meth:`new_cache`; then ``tokens`` come after the tokens that it has seen.
            padding: True at real tokens. Rows padded on the left come out as they do alone.
            keep_last: how many of the last places get logits; all when None. A text that is continued needs
                one, and the head is a large matrix.

        Returns:
            Logits, (B, T, V), or (B, keep_last, V).

        Raises:
            ValueError: ``keep_last`` below 1.
        """
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"expected a keep_last of 1 or more, got {keep_last}; None keeps all places")
        x = self.stack(tokens, cache=cache, padding=padding)  # (B, T, d_model)
        return self.head(x if keep_last is None else x[:, -keep_last:])

    def new_cache(self, batch: int, max_len: int | None = None, kind: str | None = None) -> Cache:
        """Make an empty cache for this model; see :func:`tfcore.cache.make_cache`."""
        return self.stack.new_cache(batch, max_len, kind)
