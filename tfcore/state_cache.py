"""The cache of a recurrent model: a state that does not grow with the text that it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor


@dataclass
class StateCache:
    """The states of all the layers of a recurrent model, for a batch of sequences.

    No tensor in it is ever changed in place, so a caller can keep ``layers`` and ``length`` and put them
    back.

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
        """Refuse to forget tokens, which a state cannot.

        Raises:
            ValueError: any length but the present one.
        """
        if length != self.length:
            raise ValueError(
                f"expected to keep all {self.length} tokens, got {length}; a state cannot forget its last "
                "tokens: keep the old layers and put them back"
            )

    def num_bytes(self) -> int:
        """Count the bytes that the states hold on to."""
        return sum(x.untyped_storage().nbytes() for state in self.layers for x in state)


def check_cache(batch: int, cache: StateCache | None, num_layers: int, num_states: int) -> None:
    """Refuse a cache of another type or model, or for another number of sequences.

    Args:
        batch: number of sequences.
        cache: the cache, or None.
        num_layers: layers of the model.
        num_states: tensors in the state of a layer.

    Raises:
        ValueError: another type, number of sequences, number of layers or number of tensors.

    >>> import torch
    >>> check_cache(3, StateCache([(torch.zeros(2, 5),)]), num_layers=1, num_states=1)
    Traceback (most recent call last):
    ValueError: expected the 2 sequences that the cache was made for, got 3; make one ...
    """
    if cache is None:
        return
    if not isinstance(cache, StateCache):
        raise ValueError(
            f"expected a cache from new_cache, got a {type(cache).__name__}; padding is not known here: give "
            "texts of one length, or one by one"
        )
    if cache.batch != batch:
        raise ValueError(
            f"expected the {cache.batch} sequences that the cache was made for, got {batch}; "
            "make one with new_cache(batch)"
        )
    found = [len(state) for state in cache.layers]
    if found != [num_states] * num_layers:
        raise ValueError(
            f"expected a cache of {num_layers} layers with {num_states} tensors each, got {found} tensors; "
            "take one from new_cache of this model"
        )
