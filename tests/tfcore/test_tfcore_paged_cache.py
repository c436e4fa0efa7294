"""A cache in blocks against one list of tokens for each text, over random uses; blocks are counted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfcore.cache.paged import PagedCache

H_KV, D, NAMES = 2, 3, "abcd"
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(NAMES), st.integers(1, 7)),
        st.tuples(st.just("fork"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("free"), st.sampled_from(NAMES)),
    ),
    max_size=25,
)


class Lists:
    """The same by lists: a token is a number, and so is the block that it was written into."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size, self.count = num_blocks, block_size, 0
        self.texts = {}  # for each name, pairs of a token and the identity of its block

    def used(self):
        return {block for text in self.texts.values() for _, block in text}

    def append(self, name, tokens):
        text = list(self.texts.get(name, []))
        shared = {b for other, t in self.texts.items() if other != name for _, b in t}
        for token in tokens:
            place = len(text) % self.block_size
            if place == 0:
                self.count += 1
                block = self.count
            else:
                block = text[-1][1]
                if block in shared:
                    self.count += 1
                    text[-place:] = [(t, self.count) for t, _ in text[-place:]]
                    block = self.count
            text.append((token, block))
        others = {other: t for other, t in self.texts.items() if other != name}
        old = {block for _, block in self.texts.get(name, [])}
        needed = {block for t in (*others.values(), text) for _, block in t} | old
        if len(needed) > self.num_blocks:
            raise ValueError
        self.texts[name] = text


def tokens(start, number):
    x = torch.arange(start, start + number, dtype=torch.float32).view(1, number, 1)
    return x.expand(H_KV, number, D) + torch.arange(H_KV).view(H_KV, 1, 1) * 1000


@given(moves=MOVES, num_blocks=st.integers(1, 9), block_size=st.integers(1, 4))
def test_random_uses(moves, num_blocks, block_size):
    cache, lists, clock = PagedCache(num_blocks, block_size, H_KV, D), Lists(num_blocks, block_size), 0
    for name, *given_ in moves:
        if name == "append":
            who, number = given_
            new = list(range(clock, clock + number))
            clock += number
            k = tokens(new[0], number)
            try:
                lists.append(who, new)
            except ValueError:
                with pytest.raises(ValueError, match="free blocks"):
                    cache.append(who, k, -k)
            else:
                cache.append(who, k, -k)
        elif name == "fork":
            who, new = given_
            if who in lists.texts and new not in lists.texts:
                lists.texts[new] = list(lists.texts[who])
                cache.fork(who, new)
            elif who in lists.texts:
                with pytest.raises(ValueError, match="expected a new name"):
                    cache.fork(who, new)
        elif given_[0] in lists.texts:
            del lists.texts[given_[0]]
            cache.free(given_[0])
        assert cache.num_free == num_blocks - len(lists.used())
        for who, text in lists.texts.items():
            k, v = cache.gather(who)
            expected = torch.cat([tokens(t, 1) for t, _ in text], dim=1)
            assert torch.equal(k, expected)
            assert torch.equal(v, -expected)


def test_what_a_text_wastes_is_the_end_of_its_last_block():
    cache = PagedCache(num_blocks=100, block_size=16, num_kv_heads=H_KV, d_head=D)
    lengths = [1, 15, 16, 17, 100, 333]
    for name, length in enumerate(lengths):
        cache.append(name, tokens(0, length), tokens(0, length))
    assert 100 - cache.num_free == sum(-(-length // 16) for length in lengths)
    assert cache.num_bytes() == 2 * 4 * 100 * 16 * H_KV * D


def test_a_prefix_is_kept_once():
    cache = PagedCache(num_blocks=10, block_size=4, num_kv_heads=H_KV, d_head=D)
    cache.append("prefix", tokens(0, 10), tokens(0, 10))
    for name in range(3):
        cache.fork("prefix", name)
    assert cache.num_free == 10 - 3
    for name in range(3):
        cache.append(name, tokens(100 * (name + 1), 1), tokens(0, 1))
    assert cache.num_free == 10 - 3 - 3  # each has copied the half-full block, and no other
    assert cache.gather(1)[0][0, -2:, 0].tolist() == [9.0, 200.0]
    assert cache.gather("prefix")[0].shape[1] == 10


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"1 or more blocks and tokens in each, got 0 and 4"):
        PagedCache(0, 4, H_KV, D)
    cache = PagedCache(2, 4, H_KV, D)
    with pytest.raises(ValueError, match=r"expected 3 free blocks for 9 tokens of 'a', got 2"):
        cache.append("a", tokens(0, 9), tokens(0, 9))
    assert cache.num_free == 2
    with pytest.raises(KeyError):
        cache.gather("a")
    with pytest.raises(ValueError, match=r"one shape"):
        cache.append("a", tokens(0, 2), tokens(0, 3))
    with pytest.raises(ValueError, match=r"as this cache was made for"):
        cache.append("a", tokens(0, 2).double(), tokens(0, 2).double())
