"""Byte-level byte-pair encoding (BPE): text to token ids and back without loss, as GPT-2 does it.

Text is cut into words, a word into its UTF-8 bytes, and the bytes are joined again by merges that were
learned from a training text. Every text has a code, since every byte is a token.

This is the version to read. ``BPETokenizer.fast`` gives the same tokenizer in the ``tokenizers`` library,
the version to use.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Pair = tuple[bytes, bytes]

# English contractions; letters, numbers and other signs, each run with the one space before it; white space.
# The last space before a word goes with the word: that is what (?!\S) leaves it for.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

# The options of tokenizer.json that change ids: how words are cut, as here; what must be off.
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
OTHER_BPE = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")
STRIPS = ("single_word", "lstrip", "rstrip")


def split_words(text: str) -> list[str]:
    r"""Cut text into the pieces that merges never cross; joined, they are the text again.

    The pattern reads: contraction | letters | numbers | other signs | white space.

    Args:
        text: any text.

    Returns:
        The words, each with the space before it.

    From: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*, section 2.2, and the
    code that was published with it.

    >>> print(split_words("It's 10  to one!"))
    ['It', "'s", ' 10', ' ', ' to', ' one', '!']
    """
    return WORD.findall(text)


@functools.cache
def byte_to_unicode() -> dict[int, str]:
    r"""Give every byte a visible character, so that a file of tokens is text without blanks.

    Printable Latin-1 characters represent themselves; the n-th of the other 68 bytes becomes $256 + n$.

    Returns:
        The table, in the order of the ids that GPT-2 gives to the bytes: printable ones first.

    From: Radford et al. (2019); the code that was published with it.

    >>> table = byte_to_unicode()
    >>> print(table[ord("A")], table[ord(" ")], list(table)[0] == ord("!"))
    A Ġ True
    """
    runs = ("!", "~"), ("¡", "¬"), ("®", "ÿ")
    printable = [byte for first, last in runs for byte in range(ord(first), ord(last) + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {b: chr(256 + n) for n, b in enumerate(others)}


class BPETokenizer:
    r"""A byte-level BPE tokenizer: a vocabulary, merges in the order of their rank, and special tokens.

    $\text{word} \to \text{bytes}$; then, as long as some neighbors have a merge, join the neighbors of lowest
    rank.

    A special token is found before words are, stays whole, and has an id of its own.

    Args:
        vocab: id of each ordinary token; all 256 bytes, and all that merges take and make.
        merges: pairs of tokens that are joined, the first learned first.
        special_tokens: id of each special token, such as ``{"<|endoftext|>": 50256}``.

    Attributes:
        vocab, merges, special_tokens: as given.
        vocab_size: largest id + 1, the rows that an embedding needs.

    Raises:
        ValueError: a vocabulary that lacks something, ids given twice, or special tokens that are ordinary.

    From: Sennrich, Haddow and Birch (2016), *Neural Machine Translation of Rare Words with Subword Units*;
    Radford et al. (2019), section 2.2 (bytes).

    >>> tokenizer = BPETokenizer.train("low lower lowest low low", vocab_size=259)
    >>> print([tokenizer.decode([i]) for i in tokenizer.encode("low slow, low")])
    ['low', ' ', 's', 'low', ',', ' low']
    """

    def __init__(
        self,
        vocab: Mapping[bytes, int],
        merges: Sequence[Pair],
        special_tokens: Mapping[str, int] | None = None,
    ) -> None:
        self.vocab, self.merges, self.special_tokens = dict(vocab), list(merges), dict(special_tokens or {})
        self._check()
        self.vocab_size = max(*self.vocab.values(), *self.special_tokens.values()) + 1
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._special = _special_pattern(self.special_tokens)
        self._bytes = {i: token for token, i in self.vocab.items()}
        self._bytes |= {i: token.encode() for token, i in self.special_tokens.items()}

    @classmethod
    def train(
        cls, text: str, vocab_size: int, special_tokens: Sequence[str] = (), min_frequency: int = 2
    ) -> BPETokenizer:
        r"""Learn merges from text: join the most frequent pair of neighbors, again and again.

        $(a, b)^* = \arg\max_{(a, b)} \sum_w n_w \, |\{ i : w_i = a, \, w_{i+1} = b \}|$ over the words w.

        Of equally frequent pairs the one with the smallest ids wins, the left id first: the older tokens. The
        library has the same rule, so that :meth:`train_fast` learns the same merges. Ids are as in
        GPT-2's files: bytes in the order of :func:`byte_to_unicode`, merges, special tokens.

        Args:
            text: the text to learn from; special tokens in it separate its documents.
            vocab_size: number of tokens to stop at, 256 bytes and the special tokens included.
            special_tokens: tokens that stay whole.
            min_frequency: stop when no pair is seen as often; the vocabulary is then smaller.

        Returns:
            The tokenizer.

        Raises:
            ValueError: no text, or a ``vocab_size`` without room for the bytes and the special tokens.

        From: Sennrich, Haddow and Birch (2016), algorithm 1.

        >>> print(BPETokenizer.train("aaabdaaabac", vocab_size=259).merges)
        [(b'a', b'a'), (b'a', b'b'), (b'aa', b'ab')]
        """
        documents = _documents(text, vocab_size, special_tokens)
        words = Counter(word for document in documents for word in split_words(document))
        counts = {tuple(bytes([byte]) for byte in word.encode()): count for word, count in words.items()}
        vocab, merges = _byte_vocab(), list[Pair]()
        while len(vocab) + len(special_tokens) < vocab_size:
            pairs = Counter[Pair]()
            for tokens, count in counts.items():
                for pair in pairwise(tokens):
                    pairs[pair] += count
            best = max(pairs, key=lambda p: (pairs[p], -vocab[p[0]], -vocab[p[1]]), default=None)
            if best is None or pairs[best] < min_frequency:
                break
            merges.append(best)
            vocab.setdefault(b"".join(best), len(vocab))
            counts = {tuple(_join(tokens, best)): count for tokens, count in counts.items()}
        return cls.from_merges(merges, special_tokens)

    @classmethod
    def train_fast(
        cls, text: str, vocab_size: int, special_tokens: Sequence[str] = (), min_frequency: int = 2
    ) -> BPETokenizer:
        """Learn the same merges as :meth:`train` with the ``tokenizers`` library, for texts of megabytes.

        >>> text = "the cat sat on the mat"
        >>> BPETokenizer.train_fast(text, 260).merges == BPETokenizer.train(text, 260).merges
        True
        """
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        documents = _documents(text, vocab_size, special_tokens)
        learner = Tokenizer(models.BPE())
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - len(special_tokens),
            min_frequency=min_frequency,
            initial_alphabet=list(byte_to_unicode().values()),
            show_progress=False,
        )
        learner.train_from_iterator(documents, trainer)
        learned = json.loads(learner.to_str())["model"]["merges"]
        return cls.from_merges([(_to_bytes(a), _to_bytes(b)) for a, b in learned], special_tokens)

    @classmethod
    def from_merges(cls, merges: Sequence[Pair], special_tokens: Sequence[str] = ()) -> BPETokenizer:
        """Number the tokens as GPT-2 does: the bytes, what the merges make, the special tokens.

        >>> print(BPETokenizer.from_merges([(b"h", b"i")], ["<end>"]).encode("hi<end>"))
        [256, 257]
        """
        vocab = _byte_vocab()
        for pair in merges:
            vocab.setdefault(b"".join(pair), len(vocab))
        return cls(vocab, merges, {token: len(vocab) + n for n, token in enumerate(special_tokens)})

    def encode(self, text: str, parse_special: bool = True) -> list[int]:
        r"""Turn text into token ids.

        Repeat per word: $i^* = \arg\min_i \operatorname{rank}(w_i, w_{i+1})$, leftmost if tied; join there.

        Args:
            text: any text.
            parse_special: read special tokens where the text spells them; turn it off for text of
                strangers, who could otherwise end a document or speak in another's role.

        Returns:
            The ids. The time grows with the square of the longest word: for runs of thousands of letters
            there is :meth:`fast`.

        Raises:
            UnicodeEncodeError: text with a lone surrogate, which UTF-8 cannot hold (a kind of ValueError).

        From: Sennrich, Haddow and Birch (2016), section 3.2.

        >>> tokenizer = BPETokenizer.from_merges([(b"h", b"i")], ["<end>"])
        >>> print(tokenizer.encode("hi<end>"), len(tokenizer.encode("hi<end>", parse_special=False)))
        [256, 257] 6
        """
        ids: list[int] = []
        # Split at a pattern in parentheses, text and special tokens take turns.
        for n, piece in enumerate(self._special.split(text) if parse_special else [text]):
            if n % 2:
                ids.append(self.special_tokens[piece])
                continue
            for word in split_words(piece):
                ids += [self.vocab[token] for token in self._merge(word.encode())]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        r"""Turn token ids into text: $\text{decode}(\text{encode}(x)) = x$.

        Special tokens are spelled out. Ids that a model made up may be no valid UTF-8, for instance half of a
        character: bytes that cannot be decoded become U+FFFD, the replacement character.

        Args:
            ids: whole numbers, in a list or a one-dimensional array or tensor.

        Returns:
            The text.

        Raises:
            ValueError: an id that no token has.

        From: Radford et al. (2019), section 2.2.

        >>> tokenizer = BPETokenizer.from_merges([])
        >>> print(tokenizer.decode(tokenizer.encode("é")), ascii(tokenizer.decode(tokenizer.encode("é")[:1])))
        é '\ufffd'
        """
        return b"".join(map(self._token, ids)).decode("utf-8", errors="replace")

    def fast(self) -> Tokenizer:
        """Give the same tokenizer in the ``tokenizers`` library, which is compiled.

        Both read letters from a table of Unicode; the library has version 14. A character that came
        later can be cut in another way there, and still decodes to itself.

        >>> tokenizer = BPETokenizer.train("low lower lowest low low", vocab_size=260)
        >>> tokenizer.fast().encode("slower").ids == tokenizer.encode("slower")
        True
        """
        from tokenizers import Tokenizer

        return Tokenizer.from_str(json.dumps(self._as_json()))

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json, which the ``tokenizers`` and ``transformers`` libraries read as well."""
        Path(path).write_text(json.dumps(self._as_json(), ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> BPETokenizer:
        """Read a tokenizer.json: one of :meth:`save`, GPT-2's, or another that cuts words as GPT-2 does.

        Raises:
            ValueError: a file that is broken, or a tokenizer of another kind.

        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
        ...     BPETokenizer.from_merges([(b"h", b"i")]).save(file.name)
        ...     print(BPETokenizer.load(file.name).merges)
        [(b'h', b'i')]
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            _check_kind(content)
            special = {token["content"]: token["id"] for token in content["added_tokens"]}
            vocab = {_to_bytes(t): i for t, i in content["model"]["vocab"].items() if t not in special}
            pairs = (p.split(" ") if isinstance(p, str) else p for p in content["model"]["merges"])
            return cls(vocab, [(_to_bytes(a), _to_bytes(b)) for a, b in pairs], special)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"expected the tokenizer.json of a byte-level BPE in {path}, got {error!r}; "
                "write one with save, or read this one with the tokenizers library"
            ) from error

    def _merge(self, word: bytes) -> list[bytes]:
        tokens = [word[i : i + 1] for i in range(len(word))]
        while len(tokens) > 1:
            ranks = [self._rank.get(pair, math.inf) for pair in pairwise(tokens)]
            lowest = min(ranks)
            if lowest == math.inf:
                break
            i = ranks.index(lowest)
            tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
        return tokens

    def _token(self, i: int) -> bytes:
        if int(i) != i or int(i) not in self._bytes:
            raise ValueError(
                f"expected ids of tokens, up to {self.vocab_size - 1}, got {i}; "
                "was it made by a model with another vocabulary?"
            )
        return self._bytes[int(i)]

    def _check(self) -> None:
        needed = {*_byte_vocab(), *(token for pair in self.merges for token in (*pair, b"".join(pair)))}
        if missing := needed - self.vocab.keys():
            raise ValueError(
                f"expected ids for all bytes and all tokens in merges, got none for {min(missing)!r}; "
                "take vocabulary and merges from one training"
            )
        ids = Counter([*self.vocab.values(), *self.special_tokens.values()])
        i, times = ids.most_common(1)[0]
        if times > 1:
            raise ValueError(f"expected an id for each token, got id {i} for {times} of them; renumber them")
        if ordinary := self.special_tokens.keys() & {"", *map(_to_text, self.vocab)}:
            raise ValueError(
                f"expected special tokens that are no ordinary ones, got {min(ordinary)!r}; "
                "use a spelling that no text has, such as <|end|>"
            )

    def _as_json(self) -> dict[str, Any]:
        """Describe the tokenizer in the format of Hugging Face's tokenizer.json."""
        vocab = {_to_text(token): i for token, i in self.vocab.items()} | self.special_tokens
        merges = [(_to_text(a), _to_text(b)) for a, b in self.merges]
        return {
            "version": "1.0",
            "added_tokens": [
                {"id": i, "content": token, "special": True, "normalized": False}
                | dict.fromkeys(STRIPS, False)
                for token, i in self.special_tokens.items()
            ],
            "normalizer": None,
            "pre_tokenizer": BYTE_LEVEL,
            "post_processor": None,
            "decoder": BYTE_LEVEL,
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        }


def _check_kind(content: dict[str, Any]) -> None:
    """Refuse a tokenizer that would encode differently here."""
    model, words = content["model"], content["pre_tokenizer"] or {}
    as_here = {
        "model": model.get("type", "BPE") == "BPE" and not any(map(model.get, OTHER_BPE)),
        "normalizer": content.get("normalizer") is None,
        "pre_tokenizer": {"use_regex": True, **words, "trim_offsets": True} == BYTE_LEVEL,
        "added_tokens": not any(token.get(option) for token in content["added_tokens"] for option in STRIPS),
    }
    if different := [name for name, same in as_here.items() if not same]:
        raise ValueError(f"another kind of {' and '.join(different)}")


def _documents(text: str, vocab_size: int, special_tokens: Sequence[str]) -> list[str]:
    """Check the arguments of training, and cut the text at the special tokens."""
    if len(set(special_tokens)) < len(special_tokens):
        raise ValueError(
            f"expected different special tokens, got {list(special_tokens)}; name each of them once"
        )
    documents = _special_pattern(special_tokens).split(text)[::2]
    if not any(documents):
        raise ValueError(f"expected text to learn from, got {text[:40]!r}; give it words")
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(
            f"expected a vocab_size of {256 + len(special_tokens)} or more, got {vocab_size}; "
            "256 bytes and the special tokens come before the first merge"
        )
    return documents


def _special_pattern(special_tokens: Iterable[str]) -> Any:
    """Match any of the tokens, the longest where several begin; with none of them, match nothing."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.compile(f"({'|'.join(map(regex.escape, longest_first)) or '(?!)'})")


def _join(tokens: Sequence[bytes], pair: Pair) -> Iterator[bytes]:
    """Join each occurrence of the pair, from left to right."""
    i = 0
    while i < len(tokens):
        width = 2 if tuple(tokens[i : i + 2]) == pair else 1
        yield b"".join(tokens[i : i + width])
        i += width


def _byte_vocab() -> dict[bytes, int]:
    return {bytes([byte]): i for i, byte in enumerate(byte_to_unicode())}


def _to_text(token: bytes) -> str:
    return "".join(byte_to_unicode()[byte] for byte in token)


def _to_bytes(token: str) -> bytes:
    return bytes(unicode_to_byte()[character] for character in token)


@functools.cache
def unicode_to_byte() -> dict[str, int]:
    """Return the byte of each visible character: the inverse of :func:`byte_to_unicode`.

    >>> unicode_to_byte()["Ġ"], ord(" ")
    (32, 32)
    """
    return {character: byte for byte, character in byte_to_unicode().items()}
