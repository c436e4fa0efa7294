"""What a recurrent model keeps between calls: a state that does not grow with what it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor


@dataclass
class StateCache:
    """The states of all the layers of a recurrent model, for a batch of sequences.

    No tensor in it is ever changed: ``layers`` that were kept can be put back, with the ``length`` of then.

    Args:
        layers: for each layer its state, a tuple of tensors (B, ...).
        length: tokens that the states have seen.

    From: Peng et al. (2023), *RWKV*; Gu and Dao (2023), *Mamba*.

    >>> import torch
    >>> cache = StateCache([(torch.zeros(2, 3),), (torch.zeros(2, 3),)])
    >>> print(cache.batch, cache.length, cache.num_bytes())
    2 0 48
    """

    layers: list[tuple[Tensor, ...]]
    length: int = 0

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.layers[0][0].shape[0]

    def advance(self, layers: Sequence[tuple[Tensor, ...]], num_tokens: int) -> None:
        """Exchange the states for those after ``num_tokens`` more tokens."""
        self.layers = list(layers)
        self.length += num_tokens

    def reorder(self, rows: Int[Tensor, " B_new"]) -> None:
        """Make row b a copy of row ``rows[b]``, in every layer; there may be more rows than before."""
        self.layers = [tuple(x[rows] for x in state) for state in self.layers]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens, which a state cannot.

        Raises:
            ValueError: any length but that of now.
        """
        if length != self.length:
            raise ValueError(
                f"expected to keep all {self.length} tokens, got {length}; a state cannot forget its last "
                "tokens: keep the layers of then and put them back"
            )

    def num_bytes(self) -> int:
        """Count the bytes that the states hold on to."""
        return sum(x.untyped_storage().nbytes() for state in self.layers for x in state)


def check_tokens(tokens: Int[Tensor, "B T"], cache: StateCache | None) -> None:
    """Check that tokens are a batch of sequences, and the batch that the cache was made for.

    Raises:
        ValueError: tokens of another shape or type, or another batch than the cache's.

    >>> import torch
    >>> check_tokens(torch.tensor([3, 1, 4]), cache=None)
    Traceback (most recent call last):
    ValueError: expected whole-numbered tokens (B, T) with T of 1 or more, got torch.int64 (3,); ...
    """
    if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.is_floating_point():
        raise ValueError(
            f"expected whole-numbered tokens (B, T) with T of 1 or more, got {tokens.dtype} "
            f"{tuple(tokens.shape)}; a single sequence goes in as tokens[None]"
        )
    if cache is not None and cache.batch != tokens.shape[0]:
        raise ValueError(
            f"expected the {cache.batch} sequences that the cache was made for, got {tokens.shape[0]}; "
            "make one with new_cache(batch)"
        )
