"""Encoder-only models: BERT and its family."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.config import ModelConfig
from tfcore.models.stack import Stack


class Encoder(nn.Module):
    r"""Read a whole text at once: every token sees every other.

    $h = \text{Stack}(x)$ with no causal mask.

    Args:
        config: sizes and choices.

    From: Devlin et al. (2019), *BERT: Pre-training of Deep Bidirectional Transformers*.

    >>> import torch
    >>> from tfcore.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48, norm_place="post")
    >>> model = Encoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(model(torch.tensor([[7, 1, 4]])).shape)
    torch.Size([1, 3, 12])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=False)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        padding: Bool[Tensor, "B T"] | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Compute the hidden states.

        Args:
            tokens: ids, (B, T).
            padding: True at real tokens; all are real when None.
            segments: the segment that each token belongs to, where the model knows segments.

        Returns:
            Hidden states, (B, T, d_model); at padding they mean nothing.
        """
        return self.stack(tokens, padding=padding, segments=segments)
