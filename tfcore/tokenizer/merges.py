"""Merges: how they are learned from counted words, and how a word is joined by them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise

from tfcore.tokenizer.visible import byte_vocab

Pair = tuple[bytes, bytes]


def learn_merges(words: Mapping[str, int], most: int, min_frequency: int) -> list[Pair]:
    r"""Join the most frequent pair of neighbours, again and again.

    $(a, b)^* = \arg\max_{(a, b)} \sum_w n_w \, |\{ i : w_i = a, \, w_{i+1} = b \}|$ over the words w.

    The pairs are counted once. A merge changes only the words that have its pair, so that only their pairs
    are counted again. A heap holds the counts; an entry whose count has changed since is passed over.

    Args:
        words: how often each word occurs.
        most: stop after this many new tokens.
        min_frequency: stop when no pair is seen as often.

    Returns:
        The pairs, the first learned first. Of equally frequent ones the pair with the smallest ids is first.

    From: Sennrich, Haddow and Birch (2016), *Neural Machine Translation of Rare Words with Subword Units*,
    algorithm 1.

    >>> print(learn_merges({"aab": 3, "ab": 1}, most=2, min_frequency=2))
    [(b'a', b'b'), (b'a', b'ab')]
    """
    ids, merges = byte_vocab(), list[Pair]()
    texts = [[bytes([byte]) for byte in word.encode()] for word in words]
    times = list(words.values())
    counts, places = Counter[Pair](), defaultdict[Pair, set[int]](set)  # in which words a pair is
    for n, tokens in enumerate(texts):
        for pair in pairwise(tokens):
            counts[pair] += times[n]
            places[pair].add(n)
    heap = [(-count, ids[a], ids[b], (a, b)) for (a, b), count in counts.items()]
    heapify(heap)
    begin = len(ids)
    while heap and len(ids) - begin < most:
        count, _, _, best = heappop(heap)
        if -count != counts[best]:
            continue
        if -count < max(min_frequency, 1):
            break
        merges.append(best)
        ids.setdefault(b"".join(best), len(ids))
        changed = set[Pair]()
        for n in places.pop(best):
            old = Counter(pairwise(texts[n]))
            texts[n] = list(join(texts[n], best))
            new = Counter(pairwise(texts[n]))
            for pair in old.keys() | new.keys():
                if old[pair] != new[pair]:
                    counts[pair] += times[n] * (new[pair] - old[pair])
                    changed.add(pair)
                (places[pair].add if pair in new else places[pair].discard)(n)
        for a, b in changed:
            heappush(heap, (-counts[a, b], ids[a], ids[b], (a, b)))
    return merges


def join(tokens: list[bytes], pair: Pair) -> Iterator[bytes]:
    """Join each occurrence of the pair, from left to right.

    >>> print(list(join([b"a", b"a", b"a"], (b"a", b"a"))))
    [b'aa', b'a']
    """
    i = 0
    while i < len(tokens):
        width = 2 if tuple(tokens[i : i + 2]) == pair else 1
        yield b"".join(tokens[i : i + width])
        i += width


def merge_word(word: bytes, rank: Mapping[Pair, int]) -> list[bytes]:
    r"""Join the neighbours of lowest rank, the leftmost if tied, as long as some have one.

    Repeat: $i^* = \arg\min_i \operatorname{rank}(w_i, w_{i+1})$; join there.

    A heap holds the pairs that have a rank. A token that was joined to the token before it is None, and each
    token knows its neighbours, so that n letters take $O(n \log n)$ steps.

    Args:
        word: its bytes.
        rank: the place of each pair among the merges.

    Returns:
        The tokens; joined, they are the word.

    From: Sennrich, Haddow and Birch (2016), section 3.2.

    >>> print(merge_word(b"abab", {(b"a", b"b"): 0}))
    [b'ab', b'ab']
    """
    tokens: list[bytes | None] = [word[i : i + 1] for i in range(len(word))]
    after, before = list(range(1, len(word) + 1)), list(range(-1, len(word) - 1))
    heap: list[tuple[int, int, Pair]] = []

    def offer(i: int, j: int) -> None:
        if i < 0 or j >= len(word):
            return
        left, right = tokens[i], tokens[j]
        if left is not None and right is not None and (left, right) in rank:
            heappush(heap, (rank[left, right], i, (left, right)))

    for i in range(len(word) - 1):
        offer(i, i + 1)
    while heap:
        _, i, pair = heappop(heap)
        j = after[i]
        if j == len(word) or (tokens[i], tokens[j]) != pair:  # one of the two was joined since
            continue
        tokens[i], tokens[j] = b"".join(pair), None
        after[i] = after[j]
        if after[j] < len(word):
            before[after[j]] = i
        offer(before[i], i)
        offer(i, after[i])
    return [token for token in tokens if token is not None]
