"""The cache of a layer whose memory does not grow: a state in place of keys and values."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from tfcore.cache.protocol import KeysAndValues, check_truncation, count_bytes


class StateLayer:
    r"""Keep the state of a layer from token to token.

    $(c_t, S_t)$: the last inputs of a convolution, and a memory.

    >>> cache = StateLayer()
    >>> cache.visible(3), cache.num_bytes()
    (3, 0)
    """

    def __init__(self) -> None:
        self.length = 0
        self.recent: Float[Tensor, "B channels d_conv-1"] | None = None
        self.memory: Float[Tensor, "B H d_v d_k"] | None = None

    def put(self, recent: Tensor, memory: Tensor, num_new: int) -> None:
        """Keep the state after this many more tokens."""
        self.recent, self.memory = recent, memory
        self.length += num_new

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Refuse keys and values.

        Raises:
            TypeError: always.
        """
        raise TypeError("expected a layer that keeps a state, got one that keeps keys and values")

    def visible(self, num_new: int) -> int:
        """Count all tokens seen and the new ones: each has left its trace."""
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        """Make row b a copy of row ``rows[b]``."""
        if self.recent is not None and self.memory is not None:
            self.recent, self.memory = self.recent[rows], self.memory[rows]

    def truncate(self, length: int) -> None:
        """Refuse to go back, except to the beginning: a state does not know what it was before.

        Raises:
            ValueError: any length but 0 and the present one.
        """
        check_truncation(length, self.length)
        if length == 0:
            self.length, self.recent, self.memory = 0, None, None
        elif length < self.length:
            raise ValueError(
                f"expected a cache that can go back to {length} tokens, got a state after {self.length}; "
                "start again, or decode without speculation"
            )

    def num_bytes(self) -> int:
        """Count the bytes of the state, which are the same for a text of any length."""
        return count_bytes(self.recent, self.memory)
