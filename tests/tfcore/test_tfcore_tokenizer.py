"""Byte-level BPE, against the tokenizers library and GPT-2's tokenizer in transformers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizer_texts import NASTY, SPECIAL, TEXT, TOKENIZER

from tfcore.tokenizer import SPLITS, BPETokenizer, byte_to_unicode, learn_merges, merge_word, split_words
from tfcore.tokenizer import merges as merges_module

FAST = TOKENIZER.fast()

# The library's table of letters is that of Unicode 14: leave out what is unassigned in this Python's.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cn"))
PIECES = st.one_of(
    st.text(CHARACTERS, max_size=8),
    st.sampled_from(TEXT.split(" ")),
    st.sampled_from(
        ["'s", "'S", " ", "  ", "\n", "\t ", "'ll", "\u00a0", "\x1c", "\x85", "aaaa", "12", "<|", "|>"]
    ),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
WITH_SPECIAL = st.lists(st.one_of(PIECES, st.sampled_from(SPECIAL)), max_size=12).map("".join)


# --- words and bytes


def test_the_byte_table_is_gpt2s():
    table = byte_to_unicode()
    ids = {character: i for i, character in enumerate(table.values())}
    known = {"!": 0, "A": 32, "~": 93, "¡": 94, "ÿ": 187, "Ā": 188, "Ċ": 198, "Ġ": 220, "ł": 254, "Ń": 255}
    assert {character: ids[character] for character in known} == known
    assert set(table) == set(range(256))
    assert set(table.values()) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert not any(character.isspace() for character in table.values())


@given(TEXTS)
def test_words_are_cut_as_the_library_cuts_them(text):
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    spans = [span for _, span in byte_level.pre_tokenize_str(text)]
    assert split_words(text) == [text[start:end] for start, end in spans]
    assert "".join(split_words(text)) == text


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_is_the_librarys(split):
    pattern = tokenizers.pre_tokenizers.Split(tokenizers.Regex(SPLITS[split]), "isolated")

    @given(TEXTS)
    def same(text):
        assert split_words(text, split) == [text[a:b] for _, (a, b) in pattern.pre_tokenize_str(text)]

    for text in NASTY:
        words = [text[a:b] for _, (a, b) in pattern.pre_tokenize_str(text)]
        assert split_words(text, split) == words, text
        assert "".join(words) == text
    same()


def test_the_splits_differ_where_they_should():
    assert split_words("(x 12345", "gpt2") == ["(", "x", " 12345"]
    assert split_words("(x 12345", "gpt4") == ["(x", " ", "123", "45"]
    assert split_words("(x 12", "qwen2") == ["(x", " ", "1", "2"]
    with pytest.raises(ValueError, match="expected a split out of gpt2, gpt4, qwen2, got 'gpt5'"):
        split_words("a", "gpt5")


# --- encode and decode


def merged_slowly(word, rank):
    """Look at every pair, join the best, and begin anew."""
    tokens = [word[i : i + 1] for i in range(len(word))]
    while known := [(rank[pair], i) for i, pair in enumerate(pairwise(tokens)) if pair in rank]:
        _, i = min(known)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
    return tokens


@given(st.data())
def test_a_word_is_merged_as_by_looking_at_every_pair(data):
    rank = {pair: n for n, pair in enumerate(data.draw(merge_tables()))}
    word = data.draw(st.text("ab ", max_size=40)).encode()
    assert merge_word(word, rank) == merged_slowly(word, rank)


def test_a_long_word_takes_few_steps(monkeypatch):
    steps, pop = Counter(), merges_module.heappop
    monkeypatch.setattr(merges_module, "heappop", lambda heap: steps.update(["pop"]) or pop(heap))
    tokenizer = BPETokenizer.train("ab" * 600 + " abab ab", vocab_size=265)
    steps.clear()
    ids = tokenizer.encode("ab" * 2000)
    assert tokenizer.decode(ids) == "ab" * 2000
    assert steps["pop"] < 3 * 4000  # looking at every pair for every merge takes millions


def test_a_word_that_is_known_is_not_merged_again(monkeypatch):
    merged = []
    monkeypatch.setattr("tfcore.tokenizer.bpe.merge_word", lambda word, rank: merged.append(word) or [b"a"])
    tokenizer = BPETokenizer.from_merges([])
    assert tokenizer.encode(" cat cat dog cat") == [64] * 4
    assert merged == [b" cat", b" dog"]


def test_pieces_of_a_stream_are_encoded_one_by_one():
    ids = list(TOKENIZER.encode_each(TEXT.splitlines(keepends=True)))
    assert ids == [i for line in TEXT.splitlines(keepends=True) for i in TOKENIZER.encode(line)]


@pytest.mark.slow
@given(st.text())
def test_any_text_comes_back(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(WITH_SPECIAL, st.booleans())
def test_text_with_special_tokens_comes_back(text, parse_special):
    assert TOKENIZER.decode(TOKENIZER.encode(text, parse_special)) == text


@given(WITH_SPECIAL)
def test_encoding_equals_the_library(text):
    ids = TOKENIZER.encode(text)
    assert ids == FAST.encode(text).ids
    assert TOKENIZER.decode(ids) == FAST.decode(ids, skip_special_tokens=False)


@pytest.mark.slow
@given(WITH_SPECIAL)
def test_special_tokens_are_plain_text_when_they_are_not_parsed(text):
    fast = TOKENIZER.fast()
    fast.encode_special_tokens = True
    ids = TOKENIZER.encode(text, parse_special=False)
    assert ids == fast.encode(text).ids
    assert not set(ids) & set(TOKENIZER.special_tokens.values())


@st.composite
def merge_tables(draw):
    """Draw merges that no training would learn: in any order, several ways to one token."""
    tokens, merges = [b"a", b"b", b" "], []
    for _ in range(draw(st.integers(1, 12))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if pair not in merges:
            merges.append(pair)
            tokens.append(b"".join(pair))
    return draw(st.permutations(merges))


@pytest.mark.slow
@given(merge_tables(), st.text("ab ", max_size=30))
def test_encoding_equals_the_library_whatever_the_merges(merges, text):
    tokenizer = BPETokenizer.from_merges(merges)
    assert tokenizer.encode(text) == tokenizer.fast().encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=12))
def test_any_ids_decode_as_in_the_library(ids):
    assert TOKENIZER.decode(ids) == FAST.decode(ids, skip_special_tokens=False)


def test_broken_utf8_becomes_the_replacement_character():
    ids = BPETokenizer.from_merges([]).encode("a🙂b")
    assert BPETokenizer.from_merges([]).decode(ids[:3] + ids[-1:]) == "a\ufffdb"


def test_letters_younger_than_the_library_come_back():
    text = "a\U0001e6c0b \U00010ec5"
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == FAST.decode(FAST.encode(text).ids) == text


def test_ids_may_be_an_array_or_a_tensor():
    ids = TOKENIZER.encode("the cat")
    assert TOKENIZER.decode(np.array(ids)) == TOKENIZER.decode(torch.tensor(ids)) == "the cat"


def test_two_merges_may_make_one_token():
    tokenizer = BPETokenizer.from_merges(
        [(b"a", b"b"), (b"b", b"a"), (b"a", b"ba"), (b"ab", b"a"), (b"a", b"a")]
    )
    assert tokenizer.vocab_size == 256 + 4
    assert tokenizer.encode("aba aa") == tokenizer.fast().encode("aba aa").ids
    assert tokenizer.decode(tokenizer.encode("aba")[:1]) == "aba"


def test_the_longest_special_token_wins_at_one_place():
    special = TOKENIZER.special_tokens
    assert TOKENIZER.encode("<|end|><|end|><|end|>") == [special["<|end|><|end|>"], special["<|end|>"]]


def test_special_tokens_are_no_patterns():
    tokenizer = BPETokenizer.from_merges([], ["[x]", "a.c", "((", "\\d"])
    assert [i < 256 for i in tokenizer.encode("xabc[x]a.c((\\d")] == [True] * 4 + [False] * 4


# --- training


def counted_merges(words: Counter[str], alphabet: list[str], n: int) -> list[tuple[str, str]]:
    """Learn merges of strings the slow way: every pair, every word, every time."""
    ids = {character: i for i, character in enumerate(alphabet)}
    pieces, merges = {word: list(word) for word in words}, []
    for _ in range(n):
        counts: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(pieces[word]):
                counts[pair] += count
        top = max(counts.values())
        best = min((p for p in counts if counts[p] == top), key=lambda p: (ids[p[0]], ids[p[1]]))
        merges.append(best)
        ids.setdefault(best[0] + best[1], len(ids))
        for word, old in pieces.items():
            new: list[str] = []
            for piece in old:
                if new and (new[-1], piece) == best:
                    new[-1] += piece
                else:
                    new.append(piece)
            pieces[word] = new
    return merges


def test_the_example_of_wikipedia():
    tokenizer = BPETokenizer.train("aaabdaaabac", vocab_size=259)
    assert tokenizer.merges == [(b"a", b"a"), (b"a", b"b"), (b"aa", b"ab")]
    assert [tokenizer.decode([i]) for i in tokenizer.encode("aaabdaaabac")] == ["aaab", "d", "aaab", "a", "c"]


def test_merges_are_those_of_counting():
    text = "low lower lowest newest widest aaaa aaaaa banana bananas " * 2
    merges = BPETokenizer.train(text, vocab_size=256 + 25).merges
    alphabet = [" " if c == "Ġ" else c for c in byte_to_unicode().values()]
    expected = counted_merges(Counter(split_words(text)), alphabet, 25)
    assert [(a.decode(), b.decode()) for a, b in merges] == expected


@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=9), st.integers(1, 25))
def test_counting_what_changed_is_counting_all(words, most):
    counts = Counter(words)
    alphabet = [" " if c == "Ġ" else c for c in byte_to_unicode().values()]
    merges = learn_merges(counts, most, min_frequency=1)
    expected = counted_merges(counts, alphabet, len(merges))
    assert [(a.decode(), b.decode()) for a, b in merges] == expected


def test_a_merge_counts_only_the_words_that_have_it(monkeypatch):
    joined, join = [], merges_module.join
    monkeypatch.setattr(
        merges_module, "join", lambda tokens, pair: joined.append(tokens) or join(tokens, pair)
    )
    words = {f"{a}{b}" * 3: 2 for a in "abcdefghij" for b in "klmnopqrst"}
    merges = learn_merges(words, most=50, min_frequency=2)
    assert len(merges) == 50
    assert len(joined) < 150  # 100 words at each of 50 merges would be 5,000


@pytest.mark.slow
def test_the_library_learns_the_same():
    for size, frequency in ((300, 2), (420, 2), (10_000, 2), (400, 7), (10_000, 1)):
        ours = BPETokenizer.train(TEXT, size, SPECIAL, frequency)
        theirs = BPETokenizer.train_fast(TEXT, size, SPECIAL, frequency)
        assert ours.merges == theirs.merges
        assert ours.vocab == theirs.vocab
        assert ours.special_tokens == theirs.special_tokens
        assert ours.vocab_size <= size


@pytest.mark.slow
@given(st.text("abAé ", min_size=1, max_size=60), st.integers(256, 300), st.integers(1, 3))
def test_the_library_breaks_ties_alike(text, vocab_size, min_frequency):
    ours = BPETokenizer.train(text, vocab_size, min_frequency=min_frequency)
    theirs = BPETokenizer.train_fast(text, vocab_size, min_frequency=min_frequency)
    assert ours.merges == theirs.merges


def test_training_stops_when_no_pair_is_frequent_enough():
    assert BPETokenizer.train("ab cd ab", vocab_size=300).merges == [(b"a", b"b")]
    assert BPETokenizer.train("ab cd ab", vocab_size=300, min_frequency=3).merges == []
    assert BPETokenizer.train("a", vocab_size=300, min_frequency=1).vocab_size == 256


@pytest.mark.parametrize("train", [BPETokenizer.train, BPETokenizer.train_fast])
def test_nothing_is_learned_across_or_inside_special_tokens(train):
    merges = train("xy<|end|>zw<|end|>xy<|end|>zw", 300, ["<|end|>"]).merges
    assert sorted(merges) == [(b"x", b"y"), (b"z", b"w")]


# --- what is refused


@pytest.mark.parametrize("train", [BPETokenizer.train, BPETokenizer.train_fast])
@pytest.mark.parametrize("text", ["", "<|end|>", "<|end|><|end|>"])
def test_training_wants_text(train, text):
    with pytest.raises(ValueError, match="expected text to learn from"):
        train(text, 300, ["<|end|>"])


@pytest.mark.parametrize("train", [BPETokenizer.train, BPETokenizer.train_fast])
def test_training_wants_room_for_the_bytes(train):
    with pytest.raises(ValueError, match="expected a vocab_size of 258 or more, got 257"):
        train("text", 257, ["<a>", "<b>"])


@pytest.mark.parametrize("train", [BPETokenizer.train, BPETokenizer.train_fast])
def test_training_wants_each_special_token_once(train):
    with pytest.raises(ValueError, match="expected different special tokens"):
        train("text", 260, ["<a>", "<a>"])


@pytest.mark.parametrize("wrong", [-1, TOKENIZER.vocab_size, 10**9, 7.5])
def test_ids_that_no_token_has_are_refused(wrong):
    with pytest.raises(ValueError, match=f"got {wrong}; "):
        TOKENIZER.decode([0, wrong])


def test_lone_surrogates_are_refused():
    with pytest.raises(ValueError, match="surrogates not allowed"):
        TOKENIZER.encode("a\ud83db")


def without(token: bytes) -> dict[bytes, int]:
    return {t: i for t, i in TOKENIZER.vocab.items() if t != token}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((without(b"\x00"), []), "none for b'\\\\x00'"),
        ((TOKENIZER.vocab, [(b"q", b"z")]), "none for b'qz'"),
        (({**TOKENIZER.vocab, b"qz": 5}, []), "got id 5 for 2 of them"),
        ((TOKENIZER.vocab, [], {"<a>": 5}), "got id 5 for 2 of them"),
        ((TOKENIZER.vocab, [], {"e": 1000}), "got 'e'"),
        ((TOKENIZER.vocab, [], {"Ġ": 1000}), "got 'Ġ'"),
        ((TOKENIZER.vocab, [], {"": 1000}), "got ''"),
        ((TOKENIZER.vocab, [], {"<a>": 1000}, "gpt2", (["<b>"], [])), "around a text, got '<b>'"),
        ((TOKENIZER.vocab, [], {}, "gpt5"), "expected a split out of .* got 'gpt5'"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BPETokenizer(*arguments)


def test_no_torch_is_loaded():
    code = "import sys, tfcore.tokenizer; sys.exit('torch' in sys.modules or 'tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pair_is_merged_once_whatever_the_least_frequency():
    merges = BPETokenizer.train("ab", 300, min_frequency=0).merges
    assert len(merges) == len(set(merges))
