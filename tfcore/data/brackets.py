"""Brackets: is a word of the Dyck language well-formed, and how deep is each pair?

A count of each bracket does not decide it: the ill-formed words are well-formed ones in which two brackets
changed places, so that both classes hold the same brackets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from tfcore.data.batch import BOS, FIRST_SYMBOL, IGNORE, check_lengths, integers, pad

BRACKETS = "()[]{}<>"
"""In the order of their ids: type n, from 0 on, opens with ``FIRST_SYMBOL + 2n`` and closes with the next."""


class Brackets(NamedTuple):
    """Words for classification (``labels``) and for tagging (``tags``).

    >>> batch = bracket_batch(9, 4, 8, 2, torch.Generator().manual_seed(0))
    >>> all_paired = (batch.tags != 0).all(dim=1)  # no bracket without a partner
    >>> torch.equal(all_paired.long(), batch.labels)
    True
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, " B"]
    tags: Int[Tensor, "B T"]


def bracket_batch(
    batch_size: int, min_len: int, max_len: int, num_types: int, generator: torch.Generator
) -> Brackets:
    r"""Draw words of brackets, about half of them well-formed, each with the depth of every bracket.

    $S \to \varepsilon \mid S\,(S) \mid S\,[S] \mid \dots$; of one length, all shapes are equally likely.

    Args:
        batch_size: number of words, B.
        min_len: fewest brackets.
        max_len: most brackets.
        num_types: types of brackets, 1 to 4; the vocabulary has ``FIRST_SYMBOL + 2 num_types`` ids.
        generator: the source of randomness.

    Returns:
        Tokens (B, T), BOS first, padded on the right; labels (B,), 1 = well-formed; tags (B, T), the depth
        of the bracket's pair from 1 on, 0 for a bracket without a partner, IGNORE at BOS and padding.

    Raises:
        ValueError: an empty batch, no even length within the limits, or types that do not exist.

    From: Chomsky and Schützenberger (1963), *The Algebraic Theory of Context-Free Languages*; uniform shapes
    by the cycle lemma of Dvoretzky and Motzkin (1947).

    >>> batch = bracket_batch(1, 6, 6, 2, torch.Generator().manual_seed(8))
    >>> print(show_brackets(batch.tokens[0]), batch.labels, batch.tags)
    []([]) tensor([1]) tensor([[-100, 1, 1, 1, 2, 2, 1]])
    """
    check_lengths(batch_size, min_len, max_len, smallest=2)
    shortest, longest = (min_len + 1) // 2, max_len // 2
    if shortest > longest or not 1 <= num_types <= len(BRACKETS) // 2:
        raise ValueError(
            f"expected an even length between min_len and max_len and 1 to {len(BRACKETS) // 2} types, got "
            f"{min_len}, {max_len} and {num_types}; half of the brackets of a well-formed word open"
        )
    words, labels = [], []
    for well_formed in integers(0, 2, (batch_size,), generator).tolist():
        num_pairs = int(integers(shortest, longest + 1, (), generator))
        word = _well_formed_word(num_pairs, num_types, generator)
        words.append(word if well_formed else _ill_formed_word(word, generator))
        labels.append(well_formed)
    device = generator.device
    tokens = pad([[BOS, *word] for word in words], device=device)
    tags = pad([[IGNORE, *pair_depths(word)] for word in words], IGNORE, device)
    return Brackets(tokens, torch.tensor(labels, device=device), tags)


def pair_depths(word: Iterable[int]) -> list[int]:
    """Give each bracket the depth of its pair, from 1 on, or 0 if it has no partner.

    A closing bracket belongs to the last open bracket, if both are of one type; otherwise it has no partner.
    The depth counts all open pairs, the pair itself included. A word is well-formed if and only if
    no depth is 0.

    Args:
        word: ids of brackets.

    Returns:
        One depth for each bracket.

    >>> pair_depths([3, 3, 4, 6])  # (()]
    [0, 2, 2, 0]
    """
    depths: list[int] = []
    open_brackets: list[tuple[int, int]] = []  # place and id
    for place, bracket in enumerate(word):
        depths.append(0)
        if (bracket - FIRST_SYMBOL) % 2 == 0:
            open_brackets.append((place, bracket))
        elif open_brackets and open_brackets[-1][1] == bracket - 1:
            depths[open_brackets[-1][0]] = depths[place] = len(open_brackets)
            open_brackets.pop()
    return depths


def show_brackets(tokens: Iterable[int]) -> str:
    """Write ids as brackets, special ids left out.

    >>> show_brackets([1, 3, 5, 6, 4, 0])
    '([])'
    """
    return "".join(BRACKETS[int(token) - FIRST_SYMBOL] for token in tokens if int(token) >= FIRST_SYMBOL)


def _well_formed_word(num_pairs: int, num_types: int, generator: torch.Generator) -> list[int]:
    """Cycle lemma: of n steps up and n + 1 down, one rotation alone stays above -1 until its last step."""
    order = torch.rand(2 * num_pairs + 1, generator=generator, device=generator.device).argsort()
    steps = torch.where(order < num_pairs, 1, -1)
    lowest = int(steps.cumsum(0).argmin())  # the first of the lowest points
    steps = steps.roll(-lowest - 1)[:-1]
    word, open_brackets = [], []
    for step in steps.tolist():
        if step == 1:
            open_brackets.append(FIRST_SYMBOL + 2 * int(integers(0, num_types, (), generator)))
            word.append(open_brackets[-1])
        else:
            word.append(open_brackets.pop() + 1)
    return word


def _ill_formed_word(word: list[int], generator: torch.Generator) -> list[int]:
    """Let two brackets change places, until the word is broken."""
    while True:
        one, other = integers(0, len(word), (2,), generator).tolist()
        broken = word.copy()
        broken[one], broken[other] = word[other], word[one]
        if 0 in pair_depths(broken):
            return broken
