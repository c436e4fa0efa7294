"""Copying: remember symbols over a stretch of tokens and repeat them."""

from __future__ import annotations

import torch

from tfcore.data.batch import (
    BOS,
    EOS,
    FIRST_SYMBOL,
    IGNORE,
    LanguageModeling,
    check_lengths,
    check_symbols,
    integers,
)


def copy_batch(
    batch_size: int, length: int, num_symbols: int, generator: torch.Generator
) -> LanguageModeling:
    r"""Draw symbols, then a sign, then the same symbols again, which a language model is to predict.

    $\text{BOS}, s_1, \dots, s_n, \text{EOS}, s_1, \dots, s_n$: only the tokens after EOS are scored.

    The symbols are independent and uniform, so that nothing but the first copy helps with the second.

    Args:
        batch_size: number of sequences, B.
        length: symbols to remember, n.
        num_symbols: how many symbols there are; the vocabulary has ``FIRST_SYMBOL`` more.
        generator: the source of randomness.

    Returns:
        Tokens and labels (B, 2n + 2); the best possible loss is 0.

    Raises:
        ValueError: an empty batch, no length, or fewer than two symbols.

    From: Graves, Wayne and Danihelka (2014), *Neural Turing Machines*, section 4.1.

    >>> batch = copy_batch(1, 2, 5, torch.Generator().manual_seed(0))
    >>> print(batch.tokens, batch.labels)
    tensor([[1, 7, 7, 2, 7, 7]]) tensor([[-100, -100, -100, -100, 7, 7]])
    """
    check_lengths(batch_size, length, length)
    check_symbols(num_symbols)
    symbols = integers(FIRST_SYMBOL, FIRST_SYMBOL + num_symbols, (batch_size, length), generator)
    begin, sign = symbols.new_full((batch_size, 1), BOS), symbols.new_full((batch_size, 1), EOS)
    tokens = torch.cat([begin, symbols, sign, symbols], dim=1)
    labels = tokens.clone()
    labels[:, : length + 2] = IGNORE
    return LanguageModeling(tokens, labels)
