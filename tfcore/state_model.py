"""A language model with a state of fixed size: what RWKV, Mamba and Mamba-2 have around their blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcore.inspection import check_tokens
from tfcore.state_cache import StateCache, check_cache


class StateModel(nn.Module):
    """Predict the next token with a state of fixed size in place of a cache that grows.

    Args:
        config: the sizes; ``vocab_size``, ``d_model``, ``num_layers`` and ``tied`` are read here.
        block: makes the block of a layer, which turns (x, state) into (x, next state).
        state: the named tuple that holds the state of one block.
        norm_final: the norm before the head.
        norm_embedding: a norm on the embedded tokens; None where the model has none.
    """

    def __init__(
        self,
        config: Any,
        block: Callable[[int], nn.Module],
        state: type[NamedTuple],
        norm_final: nn.Module,
        norm_embedding: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.state_type: Any = state  # a NamedTuple
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)  # the head may use this matrix as well
        self.norm_embedding = norm_embedding
        self.blocks = nn.ModuleList(block(layer) for layer in range(config.num_layers))
        self.norm_final = norm_final
        self.head = None if config.tied else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, tokens: Int[Tensor, "B T"], cache: StateCache | None = None) -> Float[Tensor, "B T V"]:
        """Score every token of the vocabulary as the next, at every position.

        Args:
            tokens: the text, or, with a cache, the part after the tokens that the cache has seen, (B, T).
            cache: from ``new_cache``; its states advance by these tokens. The text begins here when None.

        Returns:
            Logits, (B, T, V).

        Raises:
            ValueError: ``tokens`` are not token ids (B, T), or the cache is for another batch size or model.
        """
        batch, num_new = check_tokens(tokens, self.config.vocab_size)
        check_cache(batch, cache, len(self.blocks), len(self.state_type._fields))
        cache = self.new_cache(batch) if cache is None else cache
        x = self.embedding(tokens)  # (B, T, d_model)
        if self.norm_embedding is not None:
            x = self.norm_embedding(x)
        states = []
        for block, state in zip(self.blocks, cache.layers, strict=True):
            x, state = block(x, self.state_type(*state))
            states.append(state)
        cache.advance(states, num_new)
        x = self.norm_final(x)
        return F.linear(x, self.embedding.weight) if self.head is None else self.head(x)  # (B, T, V)

    def new_cache(self, batch: int, max_len: int | None = None) -> StateCache:
        """Make the state before the first token of ``batch`` texts; ``max_len`` does not limit it."""
        raise NotImplementedError
