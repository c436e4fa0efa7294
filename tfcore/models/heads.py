"""Heads on an encoder: one output for a text, or one for each token."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.models.encoder import Encoder


class Classifier(nn.Module):
    r"""Sort texts into classes, from the hidden state of their first token.

    $z = W_c \tanh(W_p h_1)$.

    Args:
        encoder: the model that reads the text.
        num_classes: classes, C.

    From: Devlin et al. (2019), *BERT*, section 3.2.

    >>> import torch
    >>> from tfcore.models.presets import bert
    >>> model = Classifier(Encoder(bert(12, 3, 2, vocab_size=50, max_len=20)), num_classes=4)
    >>> tokens = torch.tensor([[1, 7, 5], [1, 8, 0]])
    >>> print(model(tokens, padding=tokens != 0).shape)
    torch.Size([2, 4])
    """

    def __init__(self, encoder: Encoder, num_classes: int) -> None:
        super().__init__()
        d_model = encoder.config.d_model
        self.encoder = encoder
        self.pool = nn.Linear(d_model, d_model)
        self.classify = nn.Linear(d_model, num_classes)

    def forward(
        self, tokens: Int[Tensor, "B T"], padding: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B C"]:
        """Compute the logit of each class; the first token must be real."""
        first = self.encoder(tokens, padding)[:, 0]  # (B, d_model)
        return self.classify(self.pool(first).tanh())


class Tagger(nn.Module):
    r"""Give each token a tag.

    $z_t = W h_t$.

    Args:
        encoder: the model that reads the text.
        num_tags: tags, C.

    From: Devlin et al. (2019), *BERT*, section 5.3.

    >>> import torch
    >>> from tfcore.models.presets import bert
    >>> model = Tagger(Encoder(bert(12, 3, 2, vocab_size=50, max_len=20)), num_tags=4)
    >>> tokens = torch.tensor([[1, 7, 5], [1, 8, 0]])
    >>> print(model(tokens, padding=tokens != 0).shape)
    torch.Size([2, 3, 4])
    """

    def __init__(self, encoder: Encoder, num_tags: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.tag = nn.Linear(encoder.config.d_model, num_tags)

    def forward(
        self, tokens: Int[Tensor, "B T"], padding: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T C"]:
        """Compute the logit of each tag at each token; at padding they mean nothing."""
        return self.tag(self.encoder(tokens, padding))
