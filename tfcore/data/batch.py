"""What the tasks share: the special ids, the shapes of a batch, drawing and padding.

Tokens are ids (B, T), padded on the right with ``PAD``. What a loss must not count carries the label
``IGNORE``, which ``torch.nn.functional.cross_entropy`` skips by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2
"""Padding, begin of sequence (which a classifier may read, as BERT's [CLS]) and end of sequence."""

FIRST_SYMBOL = 3
"""The smallest id that is a symbol of the task."""

IGNORE = -100
"""The label of a position that is not scored."""

Item = TypeVar("Item")


class LanguageModeling(NamedTuple):
    """Tokens for a decoder that predicts each from those before it.

    ``labels`` are not shifted: label t is token t, and the loss shifts them, as ``next_token_loss`` does.

    >>> tokens = torch.tensor([[BOS, 5, 7, EOS, PAD]])
    >>> batch = LanguageModeling(tokens, labels=tokens.masked_fill(tokens == PAD, IGNORE))
    >>> print(batch.tokens[:, :-1], batch.labels[:, 1:])  # what is read, and what is to follow
    tensor([[1, 5, 7, 2]]) tensor([[   5,    7,    2, -100]])
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]


class SequenceToSequence(NamedTuple):
    """A source to read and a target to write; the target begins with ``BOS`` and ends with ``EOS``.

    >>> source, target = torch.tensor([[5, 7, EOS, PAD]]), torch.tensor([[BOS, 8, EOS]])
    >>> batch = SequenceToSequence(source, target)
    >>> print(batch.decoder_input, batch.labels, batch.source_padding)
    tensor([[1, 8]]) tensor([[8, 2]]) tensor([[ True,  True,  True, False]])
    """

    source: Int[Tensor, "B S"]
    target: Int[Tensor, "B T"]

    @property
    def source_padding(self) -> Bool[Tensor, "B S"]:
        """True at the real tokens of the source."""
        return self.source != PAD

    @property
    def decoder_input(self) -> Int[Tensor, "B T-1"]:
        """Return the input of the decoder under teacher forcing: the target without its last position."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "B T-1"]:
        """Return the right token at each position of ``decoder_input``: the token that comes next."""
        following = self.target[:, 1:]
        return following.masked_fill(following == PAD, IGNORE)


class Classification(NamedTuple):
    """One label for each sequence; the tokens begin with ``BOS``.

    >>> batch = Classification(pad([[BOS, 5, 7], [BOS, 6]]), labels=torch.tensor([1, 0]))
    >>> print(batch.tokens.shape, batch.labels.shape)
    torch.Size([2, 3]) torch.Size([2])
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, " B"]


class Tagging(NamedTuple):
    """One tag for each token, ``IGNORE`` at ``BOS`` and padding.

    >>> tags = pad([[IGNORE, 1, 0], [IGNORE, 2]], IGNORE)
    >>> batch = Tagging(pad([[BOS, 5, 7], [BOS, 6]]), tags)
    >>> print(batch.tokens[batch.tags != IGNORE], batch.tags[batch.tags != IGNORE])
    tensor([5, 7, 6]) tensor([1, 0, 2])
    """

    tokens: Int[Tensor, "B T"]
    tags: Int[Tensor, "B T"]


def pad(
    rows: Sequence[Sequence[int]], value: int = PAD, device: torch.device | str | None = None
) -> Int[Tensor, "B T"]:
    """Put rows of different lengths into one tensor, filled up on the right.

    Args:
        rows: B lists of ids.
        value: fills the short rows up.
        device: where the tensor lives.

    Returns:
        The ids (B, T) where T is the longest length.

    Raises:
        ValueError: no rows.

    >>> print(pad([[3, 4, 5], [6]]))
    tensor([[3, 4, 5],
            [6, 0, 0]])
    """
    if not rows:
        raise ValueError("expected at least one row, got none; draw a batch of 1 or more")
    longest = max(map(len, rows))
    return torch.tensor(
        [[*row, *[value] * (longest - len(row))] for row in rows], dtype=torch.long, device=device
    )


def draw(items: Sequence[Item], batch_size: int, generator: torch.Generator) -> list[Item]:
    """Draw with replacement, each item equally likely.

    Args:
        items: what to draw from.
        batch_size: how many to draw.
        generator: the source of randomness.

    Returns:
        A list of ``batch_size`` items.

    Raises:
        ValueError: nothing to draw from, or a number below 0.

    >>> draw(["one"], 3, torch.Generator().manual_seed(0))
    ['one', 'one', 'one']
    """
    if len(items) == 0 or batch_size < 0:
        raise ValueError(
            f"expected items to draw from and a batch_size of 0 or more, got {len(items)} items and "
            f"{batch_size}; look at how the items were chosen"
        )
    return [items[i] for i in integers(0, len(items), (batch_size,), generator).tolist()]


def integers(low: int, high: int, shape: tuple[int, ...], generator: torch.Generator) -> Int[Tensor, "..."]:
    """Draw whole numbers from ``low`` to ``high - 1`` on the generator's device.

    >>> drawn = integers(3, 6, (2, 50), torch.Generator().manual_seed(0))
    >>> print(drawn.shape, drawn.unique())
    torch.Size([2, 50]) tensor([3, 4, 5])
    """
    return torch.randint(low, high, shape, generator=generator, device=generator.device)


def check_lengths(batch_size: int, min_len: int, max_len: int, smallest: int = 1) -> None:
    """Refuse an empty batch, and lengths out of order: ``smallest``, ``min_len``, ``max_len`` must not fall.

    Raises:
        ValueError: one of the two.

    >>> check_lengths(batch_size=4, min_len=9, max_len=7)
    Traceback (most recent call last):
    ValueError: expected 1 <= min_len <= max_len, got 9 and 7; ...
    """
    if batch_size < 1:
        raise ValueError(f"expected a batch of 1 or more, got {batch_size}; ask for at least one sequence")
    if not smallest <= min_len <= max_len:
        raise ValueError(
            f"expected {smallest} <= min_len <= max_len, got {min_len} and {max_len}; "
            "give the two the same value for sequences of one length"
        )


def check_symbols(num_symbols: int, smallest: int = 2) -> None:
    """Refuse fewer symbols than a task needs to be one.

    Raises:
        ValueError: fewer than ``smallest``.

    >>> check_symbols(1)
    Traceback (most recent call last):
    ValueError: expected 2 symbols or more, got 1; with fewer there is nothing to learn
    """
    if num_symbols < smallest:
        raise ValueError(
            f"expected {smallest} symbols or more, got {num_symbols}; with fewer there is nothing to learn"
        )
