"""Sparse patterns: the mask by hand, and tiled attention that pays for the open tiles alone."""

from __future__ import annotations

import re

import pytest
import torch
from attention_oracle import distance, oracle

import tfcore.attention.tiled
from tfcore.attention import attention
from tfcore.masks import block_sparse_mask, causal_mask, position_mask, sliding_window_mask
from tfcore.testing import AllocationMeter, OperationCounter

BLOCK = 8
B, H, D_K, D_V = 1, 2, 3, 5
PATTERNS = {
    "local": {"local": 2},
    "strided": {"local": 3, "stride": 3},
    "global": {"num_global": 1},
    "global, both ways": {"num_global": 1, "causal": False},
    "local, both ways": {"local": 2, "causal": False},
    "everything": {"local": 2, "stride": 4, "num_global": 2},
}


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfcore.attention.tiled, "BLOCK", BLOCK)
        yield


def by_hand(q_pos, k_pos, block, local=1, stride=None, num_global=0, causal=True):
    def allowed(i, j):
        apart = i // block - j // block
        near = -local < apart < local
        strided = stride is not None and apart in range(-stride * 1000, stride * 1000, stride)
        seen_by_all = i // block < num_global or j // block < num_global
        return (near or strided or seen_by_all) and not (causal and j > i)

    return [[allowed(i, j) for j in k_pos] for i in q_pos]


@pytest.mark.parametrize("options", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("block", [1, 2, 5])
def test_block_sparse_mask_by_hand(options, block):
    q_pos, k_pos = list(range(9, 21)), list(range(21))
    mask = block_sparse_mask(torch.tensor(q_pos), torch.tensor(k_pos), block, **options)
    assert mask.dtype == torch.bool
    assert mask.tolist() == by_hand(q_pos, k_pos, block, **options)


def test_it_goes_by_position_and_not_by_index():
    generator = torch.Generator().manual_seed(0)
    q_pos = torch.stack([torch.randperm(30, generator=generator)[:7] for _ in range(2)])
    k_pos = torch.stack([torch.randperm(30, generator=generator)[:11] for _ in range(2)])
    mask = block_sparse_mask(q_pos, k_pos, 4, local=2, stride=3)
    for b in range(2):
        assert mask[b].tolist() == by_hand(q_pos[b].tolist(), k_pos[b].tolist(), 4, local=2, stride=3)


def test_the_limits_are_patterns_that_have_a_name():
    t = torch.arange(13)
    assert block_sparse_mask(t, t, 1, local=4).equal(sliding_window_mask(13, 4))
    assert block_sparse_mask(t, t, 1, local=4, causal=False).equal(
        position_mask(t, t, causal=False, window=4)
    )
    assert block_sparse_mask(t, t, 5, local=3).equal(causal_mask(13))
    assert block_sparse_mask(t, t, 5, stride=1).equal(causal_mask(13))
    assert block_sparse_mask(t, t, 5, num_global=3).equal(causal_mask(13))
    assert block_sparse_mask(t, t, 13, causal=False).all()


@pytest.mark.parametrize("stride", [2, 4])
def test_two_strided_layers_reach_every_earlier_token(stride):
    t = torch.arange(32)
    once = block_sparse_mask(t, t, 2, local=stride, stride=stride)
    assert not once.equal(causal_mask(32))
    assert (once.int() @ once.int() > 0).equal(causal_mask(32))
    gap = block_sparse_mask(t, t, 2, local=stride - 1, stride=stride + 1)
    assert not (gap.int() @ gap.int() > 0).equal(causal_mask(32))


# --- attention under a pattern


def make_qkv(T, dtype=torch.float64):
    generator = torch.Generator().manual_seed(T)
    widths = (D_K, D_K, D_V)
    return [torch.randn(B, H, T, d, generator=generator, dtype=torch.float64).to(dtype) for d in widths]


@pytest.mark.parametrize("options", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("backend", ["tiled", "explicit", "fused"])
def test_attention_under_a_pattern(options, backend):
    T, t = 43, torch.arange(43)
    mask = block_sparse_mask(t, t, BLOCK, **options)
    q, k, v = make_qkv(T)
    want = oracle({"q": q, "k": k, "v": v, "mask": mask})[0]
    assert distance(attention(q, k, v, mask=mask, backend=backend), want) <= 1e-14


@pytest.mark.parametrize("options", PATTERNS.values(), ids=PATTERNS)
def test_gradients_under_a_pattern(options):
    T, t = 43, torch.arange(43)
    mask = block_sparse_mask(t, t, BLOCK, **options)
    leaves = [x.requires_grad_() for x in make_qkv(T)]
    weights = torch.linspace(-1, 1, D_V, dtype=torch.float64)
    tiled, explicit = (
        torch.autograd.grad((attention(*leaves, mask=mask, backend=name) * weights).sum(), leaves)
        for name in ("tiled", "explicit")
    )
    for x, y in zip(tiled, explicit, strict=True):
        assert distance(x, y.numpy()) <= 1e-13


def products_of(T, backward=False, **options):
    leaves = [x.requires_grad_() for x in make_qkv(T, torch.float32)]
    with OperationCounter() as counter:
        output = attention(*leaves, backend="tiled", **options)
        if backward:
            output.sum().backward()
    return counter.products


ONE_TILE = 2 * B * H * BLOCK * BLOCK * (D_K + D_V)
# Backward: the scores again, then the gradients of weights, values, queries and keys.
ONE_TILE_BACK = 2 * B * H * BLOCK * BLOCK * (3 * D_K + 2 * D_V)


@pytest.mark.slow
@pytest.mark.parametrize("options", PATTERNS.values(), ids=PATTERNS)
def test_tiled_attention_pays_for_open_tiles_alone(options):
    n, t = 7, torch.arange(7 * BLOCK)
    mask = block_sparse_mask(t, t, BLOCK, **options)
    open_tiles = sum(map(sum, by_hand(range(n), range(n), 1, **options)))
    tiles = mask.unflatten(0, (n, BLOCK)).unflatten(2, (n, BLOCK)).any(dim=3).any(dim=1)
    assert tiles.sum() == open_tiles < n * n
    assert products_of(n * BLOCK, mask=mask) == open_tiles * ONE_TILE
    assert products_of(n * BLOCK, mask=mask, backward=True) == open_tiles * (ONE_TILE + ONE_TILE_BACK)


@pytest.mark.slow
def test_the_cost_of_a_window_is_linear_in_the_length():
    def per_block(blocks, **options):
        return products_of(blocks * BLOCK, causal=True, **options) / blocks / ONE_TILE

    # A window of one block and one token reaches into two blocks before its own, but for the first two.
    window = BLOCK + 2
    assert [per_block(n, window=window) for n in (2, 4, 8)] == [1.5, 2.25, 2.625]
    assert [per_block(n) for n in (2, 4, 8)] == [1.5, 2.5, 4.5]
    assert [per_block(n, window=1) for n in (2, 4, 8)] == [1, 1, 1]


@pytest.mark.slow
def test_a_strided_pattern_costs_the_root():
    """Local and strided by the root of n blocks: below 2 n sqrt(n) tiles where causal has n (n + 1) / 2."""
    n, t = 16, torch.arange(16 * BLOCK)
    mask = block_sparse_mask(t, t, BLOCK, local=4, stride=4)
    assert products_of(n * BLOCK, mask=mask) < 2 * n * 4 * ONE_TILE < n * (n + 1) // 2 * ONE_TILE


@pytest.mark.slow
def test_a_window_needs_no_square_matrix():
    q, k, v = (x.requires_grad_() for x in make_qkv(24 * BLOCK, torch.float32))
    with AllocationMeter() as meter:
        attention(q, k, v, causal=True, window=BLOCK, backend="tiled").sum().backward()
    assert meter.largest_elements <= B * H * 24 * BLOCK * D_V


BAD = {
    "block": ({"block": 0}, "block of 1 or more, got 0"),
    "local": ({"block": 2, "local": 0}, "local of 1 or more, got 0"),
    "stride": ({"block": 2, "stride": 0}, "stride of 1 or more, got 0"),
    "num_global": ({"block": 2, "num_global": -1}, "num_global of 0 or more, got -1"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        block_sparse_mask(torch.arange(3), torch.arange(3), **options)
