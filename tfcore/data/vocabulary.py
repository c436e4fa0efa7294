"""A tokenizer for small written languages: one id for each word, and no unknown words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import index

from tfcore.data.batch import BOS, EOS, PAD


class WordVocabulary:
    """Words and their ids; the first three ids are ``PAD``, ``BOS`` and ``EOS``.

    Args:
        words: the words in the order of their ids; repetitions are dropped.

    >>> vocabulary = WordVocabulary(["the", "dog", "."])
    >>> ids = vocabulary.encode("The dog.")
    >>> print(ids, vocabulary.decode([1, *ids, 2, 0]))
    [3, 4, 5] the dog .
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = ("<pad>", "<bos>", "<eos>", *dict.fromkeys(words))
        self._ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    @staticmethod
    def split(text: str) -> list[str]:
        """Cut a text into words and signs, in lower case."""
        return re.findall(r"[\w']+|[^\w\s]", text.lower())

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids, without ``BOS`` and ``EOS``.

        Raises:
            ValueError: a word that the vocabulary does not hold.
        """
        words = self.split(text)
        unknown = [word for word in words if word not in self._ids]
        if unknown:
            raise ValueError(
                f"expected words of the vocabulary, got {', '.join(map(repr, unknown))}; see .words for all"
            )
        return [self._ids[word] for word in words]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into a text, special ids left out.

        Raises:
            ValueError: an id that the vocabulary does not hold.
        """
        try:
            numbers = [index(i) for i in ids]
        except TypeError as error:
            raise ValueError(
                f"expected ids as whole numbers, got {ids}; argmax and draw give whole numbers"
            ) from error
        for number in numbers:
            if not 0 <= number < len(self):
                raise ValueError(
                    f"expected ids from 0 to {len(self) - 1}, got {number}; take out what is no word, as "
                    "the label of what is not scored"
                )
        return " ".join(self.words[number] for number in numbers if number not in (PAD, BOS, EOS))
