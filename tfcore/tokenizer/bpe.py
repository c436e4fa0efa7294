"""The tokenizer: words, merges and special tokens put together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from tfcore.tokenizer import file
from tfcore.tokenizer.merges import Pair, learn_merges, merge_word
from tfcore.tokenizer.visible import byte_to_unicode, byte_vocab, to_bytes, to_text
from tfcore.tokenizer.words import SPLITS, split_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KNOWN = 100_000  # words whose ids are remembered


class BPETokenizer:
    r"""A byte-level BPE tokenizer: a vocabulary, merges in the order of their rank, and special tokens.

    $\text{word} \to \text{bytes}$; then, as long as some neighbors have a merge, join the neighbors of lowest
    rank.

    A special token is found before words are, stays whole, and has an id of its own.

    Args:
        vocab: id of each ordinary token; all 256 bytes, and all that merges take and make.
        merges: pairs of tokens that are joined, the first learned first.
        special_tokens: id of each special token, such as ``{"<|endoftext|>": 50256}``.
        split: how text is cut into words, a name in :data:`tfcore.tokenizer.SPLITS`.
        around: special tokens that are put before and behind each text, such as ``(["<s>"], ["</s>"])``.
        whole_words: whether a word that is a token is taken whole, whatever the merges, as in Llama 3.

    Attributes:
        vocab, merges, special_tokens, split, around, whole_words: as given.
        vocab_size: largest id + 1, the rows that an embedding needs.

    Raises:
        ValueError: a vocabulary that lacks something, ids given twice, special tokens that are ordinary or
            not there, or an unknown split.

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
        split: str = "gpt2",
        around: tuple[Sequence[str], Sequence[str]] = ((), ()),
        whole_words: bool = False,
    ) -> None:
        self.vocab, self.merges, self.special_tokens = dict(vocab), list(merges), dict(special_tokens or {})
        self.split, self.around = split, (list(around[0]), list(around[1]))
        self.whole_words = whole_words
        self._check()
        self.vocab_size = max(*self.vocab.values(), *self.special_tokens.values()) + 1
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._special = _special_pattern(self.special_tokens)
        self._bytes = {i: token for token, i in self.vocab.items()}
        self._bytes |= {i: token.encode() for token, i in self.special_tokens.items()}
        self._known: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls,
        text: str,
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        min_frequency: int = 2,
        split: str = "gpt2",
    ) -> BPETokenizer:
        r"""Learn merges from text: join the most frequent pair of neighbours, again and again.

        $(a, b)^* = \arg\max_{(a, b)} \sum_w n_w \, |\{ i : w_i = a, \, w_{i+1} = b \}|$ over the words w; see
        :func:`tfcore.tokenizer.learn_merges`.

        Of equally frequent pairs the one with the smallest ids wins, the left id first: the older tokens. The
        library has the same rule, so that :meth:`train_fast` learns the same merges. Ids are as in
        GPT-2's files: bytes in the order of :func:`byte_to_unicode`, merges, special tokens.

        Args:
            text: the text to learn from; special tokens in it separate its documents.
            vocab_size: number of tokens to stop at, 256 bytes and the special tokens included.
            special_tokens: tokens that stay whole.
            min_frequency: stop when no pair is seen as often; the vocabulary is then smaller.
            split: how text is cut into words.

        Returns:
            The tokenizer.

        Raises:
            ValueError: no text, or a ``vocab_size`` without room for the bytes and the special tokens.

        From: Sennrich, Haddow and Birch (2016), algorithm 1.

        >>> print(BPETokenizer.train("aaabdaaabac", vocab_size=259).merges)
        [(b'a', b'a'), (b'a', b'b'), (b'aa', b'ab')]
        """
        documents = _documents(text, vocab_size, special_tokens)
        words = Counter(word for document in documents for word in split_words(document, split))
        merges = learn_merges(words, vocab_size - 256 - len(special_tokens), min_frequency)
        return cls.from_merges(merges, special_tokens, split)

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
        return cls.from_merges([(to_bytes(a), to_bytes(b)) for a, b in learned], special_tokens)

    @classmethod
    def from_merges(
        cls, merges: Sequence[Pair], special_tokens: Sequence[str] = (), split: str = "gpt2"
    ) -> BPETokenizer:
        """Number the tokens as GPT-2 does: the bytes, what the merges make, the special tokens.

        >>> print(BPETokenizer.from_merges([(b"h", b"i")], ["<end>"]).encode("hi<end>"))
        [256, 257]
        """
        vocab = byte_vocab()
        for pair in merges:
            vocab.setdefault(b"".join(pair), len(vocab))
        return cls(vocab, merges, {token: len(vocab) + n for n, token in enumerate(special_tokens)}, split)

    def encode(self, text: str, parse_special: bool = True, add_special: bool = True) -> list[int]:
        r"""Turn text into token ids.

        Each word is joined by :func:`tfcore.tokenizer.merge_word`; the ids of words are remembered.

        Args:
            text: any text.
            parse_special: read special tokens where the text spells them; turn it off for text of
                strangers, who could otherwise end a document or speak in another's role.
            add_special: put the special tokens of ``around`` before and behind.

        Returns:
            The ids.

        Raises:
            UnicodeEncodeError: text with a lone surrogate, which UTF-8 cannot hold (a kind of ValueError).

        From: Sennrich, Haddow and Birch (2016), section 3.2.

        >>> tokenizer = BPETokenizer.from_merges([(b"h", b"i")], ["<end>"])
        >>> print(tokenizer.encode("hi<end>"), len(tokenizer.encode("hi<end>", parse_special=False)))
        [256, 257] 6
        """
        before, behind = self.around if add_special else ([], [])
        ids = [self.special_tokens[token] for token in before]
        # Split at a pattern in parentheses, text and special tokens take turns.
        for n, piece in enumerate(self._special.split(text) if parse_special else [text]):
            if n % 2:
                ids.append(self.special_tokens[piece])
                continue
            for word in split_words(piece, self.split):
                ids += self._known.get(word) or self._ids(word)
        return ids + [self.special_tokens[token] for token in behind]

    def encode_each(self, texts: Iterable[str], parse_special: bool = True) -> Iterator[int]:
        """Yield the ids of one text after the other, of files that are too large to be held whole.

        Args:
            texts: pieces such as documents or lines; no token goes over the border of two.
            parse_special: as for :meth:`encode`.

        >>> tokenizer = BPETokenizer.from_merges([(b"h", b"i")])
        >>> list(tokenizer.encode_each(["hi", "h"])) == tokenizer.encode("hi") + tokenizer.encode("h")
        True
        """
        for text in texts:
            yield from self.encode(text, parse_special)

    def decode(self, ids: Iterable[int]) -> str:
        r"""Turn token ids into text: $\text{decode}(\text{encode}(x)) = x$.

        Special tokens are spelled out, also those ``around`` a text. Ids that a model made up may be no valid
        UTF-8, for instance half of a character: bytes that cannot be decoded become U+FFFD, the replacement
        character.

        Args:
            ids: whole numbers, in a list or a one-dimensional array or tensor.

        Returns:
            The text.

        Raises:
            ValueError: an id that no token has.

        From: Radford et al. (2019), section 2.2.

        >>> tokenizer = BPETokenizer.from_merges([])
        >>> ids = tokenizer.encode("é")
        >>> print(tokenizer.decode(ids), ascii(tokenizer.decode(ids[:1])))
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
        """Read a tokenizer.json: one of :meth:`save`, or another byte-level BPE with a split of ``SPLITS``.

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
            file.check_kind(content)
            special = {token["content"]: token["id"] for token in content["added_tokens"]}
            model = content["model"]
            vocab = {to_bytes(t): i for t, i in model["vocab"].items() if t not in special}
            pairs = (p.split(" ") if isinstance(p, str) else p for p in model["merges"])
            return cls(
                vocab,
                [(to_bytes(a), to_bytes(b)) for a, b in pairs],
                special,
                split=file.split_in(content["pre_tokenizer"]) or "gpt2",
                around=file.specials_around(content.get("post_processor")) or ([], []),
                whole_words=bool(model.get("ignore_merges")),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"expected the tokenizer.json of a byte-level BPE in {path}, got {error!r}; "
                "write one with save, or read this one with the tokenizers library"
            ) from error

    def _ids(self, word: str) -> list[int]:
        """Join a word that is not known yet, and remember its ids."""
        spelled = word.encode()
        if self.whole_words and spelled in self.vocab:
            ids = [self.vocab[spelled]]
        else:
            ids = [self.vocab[token] for token in merge_word(spelled, self._rank)]
        if len(self._known) < KNOWN:
            self._known[word] = ids
        return ids

    def _token(self, i: int) -> bytes:
        if int(i) != i or int(i) not in self._bytes:
            raise ValueError(
                f"expected ids of tokens, up to {self.vocab_size - 1}, got {i}; "
                "was it made by a model with another vocabulary?"
            )
        return self._bytes[int(i)]

    def _check(self) -> None:
        needed = {*byte_vocab(), *(token for pair in self.merges for token in (*pair, b"".join(pair)))}
        if missing := needed - self.vocab.keys():
            raise ValueError(
                f"expected ids for all bytes and all tokens in merges, got none for {min(missing)!r}; "
                "take vocabulary and merges from one training"
            )
        ids = Counter([*self.vocab.values(), *self.special_tokens.values()])
        i, times = ids.most_common(1)[0]
        if times > 1:
            raise ValueError(f"expected an id for each token, got id {i} for {times} of them; renumber them")
        if ordinary := self.special_tokens.keys() & {"", *map(to_text, self.vocab)}:
            raise ValueError(
                f"expected special tokens that are no ordinary ones, got {min(ordinary)!r}; "
                "use a spelling that no text has, such as <|end|>"
            )
        if lost := [token for side in self.around for token in side if token not in self.special_tokens]:
            raise ValueError(f"expected special tokens around a text, got {lost[0]!r}; give it an id first")
        if self.split not in SPLITS:
            raise ValueError(f"expected a split out of {', '.join(SPLITS)}, got {self.split!r}")

    def _as_json(self) -> dict[str, Any]:
        """Describe the tokenizer in the format of Hugging Face's tokenizer.json."""
        vocab = {to_text(token): i for token, i in self.vocab.items()} | self.special_tokens
        merges = [(to_text(a), to_text(b)) for a, b in self.merges]
        return {
            "version": "1.0",
            "added_tokens": [
                {"id": i, "content": token, "special": True, "normalized": False}
                | dict.fromkeys(file.STRIPS, False)
                for token, i in self.special_tokens.items()
            ],
            "normalizer": None,
            "pre_tokenizer": file.pre_tokenizer_of(self.split),
            "post_processor": file.post_processor_of(*self.around, self.special_tokens),
            "decoder": file.BYTE_LEVEL,
            "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": self.whole_words},
        }


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
