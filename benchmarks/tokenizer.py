"""Time BPETokenizer against counting every pair again, and against the tokenizers library, in one run.

    python benchmarks/tokenizer.py                  133 kB of the book's prose, 500 tokens

The library is compiled and may use several threads; ours is the version to read. Compare figures of one run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package

from tfcore.data import book_prose
from tfcore.tokenizer import BPETokenizer, split_words
from tfcore.tokenizer.merges import Pair, join
from tfcore.tokenizer.visible import byte_vocab


def train_slowly(text: str, vocab_size: int) -> list[Pair]:
    """Learn merges by counting all pairs again for each."""
    words = Counter(split_words(text))
    counts = {tuple(bytes([byte]) for byte in word.encode()): count for word, count in words.items()}
    ids, merges = byte_vocab(), list[Pair]()
    while len(ids) < vocab_size:
        pairs = Counter[Pair]()
        for tokens, count in counts.items():
            for pair in pairwise(tokens):
                pairs[pair] += count
        best = max(pairs, key=lambda p: (pairs[p], -ids[p[0]], -ids[p[1]]))
        merges.append(best)
        ids.setdefault(b"".join(best), len(ids))
        counts = {tuple(join(list(tokens), best)): count for tokens, count in counts.items()}
    return merges


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest time of several rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kilobytes", type=int, default=133)
    parser.add_argument("--vocab", type=int, default=500)
    args = parser.parse_args()
    prose = "\n\n".join(book_prose().values())
    size = args.kilobytes * 1000
    text = (prose * (size // len(prose) + 1)).encode()[:size].decode(errors="ignore")
    train = {
        "ours": lambda: BPETokenizer.train(text, args.vocab),
        "counting all pairs again": lambda: train_slowly(text, args.vocab),
        "tokenizers": lambda: BPETokenizer.train_fast(text, args.vocab),
    }
    assert train_slowly(text, args.vocab) == BPETokenizer.train(text, args.vocab).merges
    print(f"training on {len(text.encode()):,} bytes to {args.vocab} tokens, seconds")
    for name, work in train.items():
        print(f"  {name:28}{seconds(work):8.2f}")
    tokenizer = BPETokenizer.train(text, args.vocab)
    fast, long_word = tokenizer.fast(), "antidisestablishmentarianism" * 143
    much = text * (1_000_000 // len(text) + 1)

    def anew() -> BPETokenizer:
        return BPETokenizer(tokenizer.vocab, tokenizer.merges)

    for what, given in (("seen for the first time", text), ("repeated", much)):
        assert anew().encode(given) == fast.encode(given).ids
        megabytes = len(given.encode()) / 1e6
        encode = {"ours": lambda x=given: anew().encode(x), "tokenizers": lambda x=given: fast.encode(x)}
        print(f"encoding {megabytes:.1f} MB of prose, {what}: MB a second, no word known at first")
        for name, work in encode.items():
            print(f"  {name:28}{megabytes / seconds(work):8.2f}")
    print(f"one word of {len(long_word):,} letters, seconds")
    print(f"  {'ours':28}{seconds(lambda: anew().encode(long_word)):8.3f}")
    print(f"  {'tokenizers':28}{seconds(lambda: fast.encode(long_word)):8.3f}")


if __name__ == "__main__":
    main()
