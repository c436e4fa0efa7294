"""Masks against plain comparisons of positions."""

from __future__ import annotations

import re

import pytest
import torch

from tfcore.masks import (
    block_sparse_mask,
    causal_mask,
    combine_masks,
    default_positions,
    padding_mask,
    position_mask,
    sliding_window_mask,
)

SIZES = [(1, 1), (1, 6), (4, 4), (3, 7), (7, 3)]


@pytest.mark.parametrize(("q_len", "k_len"), SIZES)
def test_causal_mask_by_hand(q_len, k_len):
    mask = causal_mask(q_len, k_len)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[j <= i + k_len - q_len for j in range(k_len)] for i in range(q_len)]


def test_the_last_query_sees_the_last_key():
    assert causal_mask(3, 7)[-1].all()
    assert causal_mask(3, 7).sum(1).tolist() == [5, 6, 7]
    assert causal_mask(4).equal(torch.ones(4, 4).tril().bool())


@pytest.mark.parametrize("window", [1, 2, 3, 100])
@pytest.mark.parametrize(("q_len", "k_len"), SIZES)
def test_sliding_window_by_hand(q_len, k_len, window):
    mask = sliding_window_mask(q_len, window, k_len)
    want = [
        [i + k_len - q_len - window + 1 <= j <= i + k_len - q_len for j in range(k_len)] for i in range(q_len)
    ]
    assert mask.tolist() == want


def test_a_window_counts_the_token_itself():
    assert sliding_window_mask(5, 1).equal(torch.eye(5, dtype=torch.bool))
    assert sliding_window_mask(9, 3).sum(1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 3]


def test_position_mask_goes_by_position_and_not_by_index():
    q_pos, k_pos = torch.tensor([[5, 0], [2, 2]]), torch.tensor([3, 5, 1, 0])
    assert position_mask(q_pos, k_pos).int().tolist() == [
        [[1, 1, 1, 1], [0, 0, 0, 1]],
        [[0, 0, 1, 1], [0, 0, 1, 1]],
    ]
    both_sides = position_mask(q_pos, k_pos, causal=False, window=3)
    assert both_sides.int().tolist() == [[[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 0, 1, 1], [1, 0, 1, 1]]]
    assert position_mask(q_pos, k_pos, causal=False).all()


def test_default_positions():
    q_pos, k_pos = default_positions(3, 5)
    assert (q_pos.tolist(), k_pos.tolist()) == ([2, 3, 4], [0, 1, 2, 3, 4])
    assert default_positions(5, 3)[0].tolist() == [-2, -1, 0, 1, 2]


def test_padding_and_combine():
    padding = padding_mask(torch.tensor([2, 3, 0]), 3)
    assert padding.int().tolist() == [[1, 1, 0], [1, 1, 1], [0, 0, 0]]
    both = combine_masks(causal_mask(2, 3), padding)
    assert both.shape == (3, 1, 2, 3)
    assert both[:, 0].int().tolist() == [
        [[1, 1, 0], [1, 1, 0]],
        [[1, 1, 0], [1, 1, 1]],
        [[0, 0, 0], [0, 0, 0]],
    ]


def test_inputs_are_not_changed():
    causal, padding = causal_mask(3), torch.tensor([[True, True, False]])
    before = causal.clone(), padding.clone()
    combine_masks(causal, padding)
    assert causal.equal(before[0])
    assert padding.equal(before[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sliding_window_mask(3, 0), "a window of 1 or more, got 0"),
        (lambda: combine_masks(torch.ones(3, 3), torch.ones(2, 3).bool()), "a boolean causal mask"),
        (lambda: combine_masks(causal_mask(3), torch.ones(2, 3)), "a boolean padding mask"),
        (lambda: combine_masks(causal_mask(3), torch.ones(2, 4).bool()), "the same number of keys"),
        (lambda: combine_masks(causal_mask(3)[None], torch.ones(2, 3).bool()), "causal (T_q, T_k)"),
    ],
)
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_narrow_positions_do_not_wrap_around(dtype):
    """In 8 bits without a sign, 1 - 2 is 255, which is not in the future."""
    narrow = torch.tensor([0, 1, 2], dtype=dtype)
    assert position_mask(narrow, narrow, causal=True).equal(torch.ones(3, 3).tril().bool())
    assert position_mask(narrow, narrow, causal=True, window=2).sum(-1).tolist() == [1, 2, 2]


def test_blocks_of_narrow_positions_do_not_wrap_around():
    token = torch.arange(6)
    wide = block_sparse_mask(token, token, block=1, local=2, causal=False)
    narrow = token.to(torch.uint8)
    assert torch.equal(block_sparse_mask(narrow, narrow, block=1, local=2, causal=False), wide)
