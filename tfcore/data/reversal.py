"""Reversal: read a sequence, write it backwards. The last output needs the first input."""

from __future__ import annotations

import torch

from tfcore.data.batch import (
    BOS,
    EOS,
    FIRST_SYMBOL,
    SequenceToSequence,
    check_lengths,
    check_symbols,
    integers,
    pad,
)


def reversal_batch(
    batch_size: int, min_len: int, max_len: int, num_symbols: int, generator: torch.Generator
) -> SequenceToSequence:
    r"""Draw sequences of symbols as source and each backwards as target.

    $s_1, \dots, s_n \to \text{BOS}, s_n, \dots, s_1, \text{EOS}$, n uniform from ``min_len`` to ``max_len``.

    Args:
        batch_size: number of sequences, B.
        min_len: shortest source.
        max_len: longest source.
        num_symbols: how many symbols there are; the vocabulary has ``FIRST_SYMBOL`` more.
        generator: the source of randomness.

    Returns:
        Source (B, S) and target (B, S + 2), S the longest that was drawn, padded on the right.

    Raises:
        ValueError: an empty batch, lengths that do not fit, or fewer than two symbols.

    From: Sutskever, Vinyals and Le (2014), *Sequence to Sequence Learning with Neural Networks*, who turn
    sources around to bring the first words of both sides together.

    >>> batch = reversal_batch(1, 3, 3, 9, torch.Generator().manual_seed(0))
    >>> print(batch.source, batch.target)
    tensor([[3, 5, 9]]) tensor([[1, 9, 5, 3, 2]])
    """
    check_lengths(batch_size, min_len, max_len)
    check_symbols(num_symbols)
    lengths = integers(min_len, max_len + 1, (batch_size,), generator).tolist()
    symbols = integers(FIRST_SYMBOL, FIRST_SYMBOL + num_symbols, (batch_size, max_len), generator).tolist()
    sources = [row[:length] for row, length in zip(symbols, lengths, strict=True)]
    targets = [[BOS, *reversed(row), EOS] for row in sources]
    return SequenceToSequence(pad(sources, device=generator.device), pad(targets, device=generator.device))
