"""A tiny causal language model for the tests of training, its batches, and a comparison of bits."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import nn

from tfcore.losses import (
    language_model_loss,
)
from tfcore.testing import raise_weights

VOCAB, WIDTH, HIDDEN, PAD = 13, 6, 10, 0


class Tiny(nn.Module):
    """A causal language model with all that a checkpoint must keep: tying, dropout, a buffer that changes."""

    def __init__(self, dropout: float = 0.0, seed: int = 0, tied: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.ffn = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Dropout(dropout), nn.Linear(HIDDEN, WIDTH)
        )
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.fill_(parameter is self.norm.weight)
        raise_weights(self, std=0.3, seed=seed)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += tokens.numel()
        x = self.embedding(tokens)
        x = x.cumsum(1) / torch.arange(1, tokens.shape[1] + 1, device=x.device)[:, None].to(x.dtype)
        return self.head(x + self.ffn(self.norm(x)))


pad_loss = partial(language_model_loss, ignore_index=PAD)


def ragged(i: int) -> torch.Tensor:
    """Draw the i-th batch: 2 to 4 sequences of 3 to 9 tokens, some of them padding."""
    generator = torch.Generator().manual_seed(i)
    shape = (2 + i % 3, 3 + (4 * i) % 7)
    tokens = torch.randint(1, VOCAB, shape, generator=generator)
    tokens[0, 2 + i % 2 :] = PAD
    return tokens


def bits(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in model.state_dict().items()}


def same(a, b) -> bool:
    """Compare nested states bit for bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def looped_loss(logits: torch.Tensor, tokens: torch.Tensor, ignore_index: int) -> tuple[float, int]:
    total, count = 0.0, 0
    for row, sequence in zip(logits.double().tolist(), tokens.tolist(), strict=True):
        for scores, target in zip(row[:-1], sequence[1:], strict=True):
            if target != ignore_index:
                total += math.log(math.fsum(math.exp(s) for s in scores)) - scores[target]
                count += 1
    return total, count
