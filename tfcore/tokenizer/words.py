r"""How text is cut into words, which merges never cross: a pattern for each way.

Each pattern reads: contraction | letters | numbers | other signs | white space. ``(?!\S)`` leaves the last
space before a word to the word. GPT-2 joins letters, numbers and signs with the one space before them. GPT-4
joins letters with any one sign before them, numbers by at most three digits, and signs with the line ends
behind them; Llama 3 has the same pattern. Qwen 2 takes each digit alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

SPACE = r"\s+(?!\S)|\s+"
FROM_GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
    r"NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" + SPACE
)
SPLITS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + SPACE,
    "gpt4": FROM_GPT4.replace("NUMBERS", r"\p{N}{1,3}"),
    "qwen2": FROM_GPT4.replace("NUMBERS", r"\p{N}"),
}
"""The pattern of each way to cut, by name; ``gpt4`` is also that of Llama 3."""

_COMPILED = {name: regex.compile(pattern) for name, pattern in SPLITS.items()}


def split_words(text: str, split: str = "gpt2") -> Sequence[str]:
    r"""Cut text into the pieces that merges never cross; joined, they are the text again.

    Args:
        text: any text.
        split: a name in ``SPLITS``.

    Returns:
        The words, by GPT-2's way each with the space before it.

    Raises:
        ValueError: an unknown way.

    From: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*, section 2.2, and the
    code that was published with it; the others from the files that were published with the models.

    >>> print(split_words("It's 1024  to one!"))
    ['It', "'s", ' 1024', ' ', ' to', ' one', '!']
    >>> print(split_words("It's 1024  to one!", "gpt4"))
    ['It', "'s", ' ', '102', '4', ' ', ' to', ' one', '!']
    """
    if split not in _COMPILED:
        raise ValueError(f"expected a split out of {', '.join(SPLITS)}, got {split!r}; name one of these")
    words: list[str] = _COMPILED[split].findall(text)
    return words
