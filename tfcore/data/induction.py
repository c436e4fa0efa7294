"""Induction: a random stretch of symbols repeats; a model that looks back can predict the copy."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from tfcore.data.batch import FIRST_SYMBOL, IGNORE, check_lengths, check_symbols, integers


class Induction(NamedTuple):
    """Tokens, labels as in ``LanguageModeling``, and the period after which each sequence repeats.

    >>> batch = induction_batch(1, 8, 3, 5, 20, torch.Generator().manual_seed(1))
    >>> period = int(batch.periods)
    >>> torch.equal(batch.tokens[:, period:], batch.tokens[:, :-period])
    True
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    periods: Int[Tensor, " B"]


def induction_batch(
    batch_size: int,
    length: int,
    min_period: int,
    max_period: int,
    num_symbols: int,
    generator: torch.Generator,
) -> Induction:
    r"""Draw a stretch of different symbols for each sequence and repeat it to the end.

    $x_t = s_{t \bmod p}$; positions $t > p$ are scored: there the token before $x_t$ has occurred before.

    The period p is drawn for each sequence. With one period for all, a model would learn to look p
    tokens back, by position alone; now it must find the token's last occurrence and read what followed it,
    which takes two layers. No symbol occurs twice in a stretch, so that the best possible loss is 0.

    Args:
        batch_size: number of sequences, B.
        length: tokens in each, T.
        min_period: shortest period.
        max_period: longest period.
        num_symbols: how many symbols there are; the vocabulary has ``FIRST_SYMBOL`` more.
        generator: the source of randomness.

    Returns:
        Tokens and labels (B, T), and the periods (B,).

    Raises:
        ValueError: periods that do not fit between 2, the length and the number of symbols.

    From: Olsson et al. (2022), *In-context Learning and Induction Heads*.

    >>> batch = induction_batch(1, 8, 3, 3, 20, torch.Generator().manual_seed(1))
    >>> print(batch.tokens, batch.labels, sep="\n")
    tensor([[ 6,  3, 15,  6,  3, 15,  6,  3]])
    tensor([[-100, -100, -100, -100,    3,   15,    6,    3]])
    """
    check_lengths(batch_size, min_period, max_period, smallest=2)
    check_symbols(num_symbols)
    if max_period > num_symbols or max_period > length - 2:
        raise ValueError(
            f"expected max_period <= num_symbols and max_period <= length - 2, got {max_period}, "
            f"{num_symbols} and {length}; no symbol occurs twice in a period, and its end is scored"
        )
    periods = integers(min_period, max_period + 1, (batch_size,), generator)
    order = torch.rand(batch_size, num_symbols, generator=generator, device=generator.device).argsort(dim=1)
    time = torch.arange(length, device=generator.device)
    tokens = FIRST_SYMBOL + order.gather(1, time % periods.unsqueeze(1))
    labels = tokens.masked_fill(time <= periods.unsqueeze(1), IGNORE)
    return Induction(tokens, labels, periods)
