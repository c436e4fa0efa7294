"""Memory: tiled never allocates the matrix, and fused leaves what it can to torch's kernel."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from attention_oracle import (
    case,
    make_inputs,
)

import tfcore.attention.tiled
from tfcore.attention import attention
from tfcore.testing import AllocationMeter


def metered(backend, n, **options):
    q, k, v = (torch.randn(1, 1, n, 32, requires_grad=True) for _ in range(3))
    with AllocationMeter() as forward:
        output = attention(q, k, v, backend=backend, **options)
    with AllocationMeter() as backward:
        output.sum().backward()
    return forward, backward


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 100}], ids=str)
def test_tiled_never_allocates_the_matrix(options):
    n = 1024
    for meter in metered("tiled", n, **options):
        assert meter.largest_elements == n * 32  # q, an output or a gradient; a tile has 128 * 128
        assert meter.peak_bytes < 4 * n * n / 4
    for meter in metered("explicit", n, **options):
        assert meter.largest_elements == n * n


@pytest.mark.slow
def test_tiled_memory_grows_with_the_length_and_not_with_its_square():
    peaks = [[meter.peak_bytes for meter in metered("tiled", n, causal=True)] for n in (512, 1024)]
    for short, long in zip(*peaks, strict=True):
        assert long < 2.1 * short


@pytest.mark.slow
def test_tiled_with_a_mask_of_padded_keys_and_a_bias_per_key():
    n = 1024
    options = {"mask": torch.rand(1, 1, 1, n) < 0.9, "bias": torch.randn(1, 1, 1, n, requires_grad=True)}
    assert max(meter.largest_elements for meter in metered("tiled", n, **options)) == n * 32


def test_tiled_keeps_no_matrix_for_the_backward_pass():
    kept = []
    q, k, v = (torch.randn(1, 2, 512, 32, requires_grad=True) for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        attention(q, k, v, causal=True, backend="tiled")
    assert sum(kept) == 2 * 512 * (4 * 32 + 1)  # q, k, v, output and lse


@pytest.mark.parametrize(("window", "tiles"), [(None, 4 + 3 + 2 + 1), (100, 4 + 3), (1, 4)])
def test_tiled_skips_the_tiles_in_which_nobody_may_attend(window, tiles, monkeypatch):
    computed = []
    attend = tfcore.attention.tiled.attend
    monkeypatch.setattr(tfcore.attention.tiled, "attend", lambda *args: computed.append(1) or attend(*args))
    x = torch.randn(1, 1, 512, 4)
    attention(x, x, x, causal=True, window=window, backend="tiled")
    assert len(computed) == tiles


@pytest.mark.parametrize("bias", ["", "qk"])
def test_fused_hands_no_empty_row_to_the_kernel(bias, monkeypatch):
    """What a kernel makes of such a row has changed between versions of torch: zero, or NaN."""
    masks = []
    sdpa = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **kw: masks.append(kw["attn_mask"]) or sdpa(*a, **kw)
    )
    attention(**make_inputs(case("", mask="qk", empty_rows=True, bias=bias)), backend="fused")
    (mask,) = masks
    assert (mask if mask.dtype == torch.bool else mask > -math.inf).any(dim=-1).all()


def test_fused_leaves_the_plain_cases_to_the_kernel_without_a_mask(monkeypatch):
    calls = []
    sdpa = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **kw: calls.append(kw) or sdpa(*a, **kw)
    )
    for T_q, options in ((7, {}), (7, {"causal": True}), (1, {"causal": True}), (3, {"causal": True})):
        inputs = make_inputs(case("", T_q=T_q, T_k=7, **options))
        attention(**inputs, backend="fused")
    assert [kw.get("attn_mask") is None for kw in calls] == [True, True, True, False]
    assert [bool(kw.get("is_causal")) for kw in calls] == [False, True, False, False]


def test_the_meter_counts_storages():
    with AllocationMeter() as meter:
        a = torch.ones(10, 10)
        a.view(100).add_(1)
        a.expand(1000, 10, 10)
        b = a + a
        del a
        c = torch.empty(0).resize_(500)
    assert (meter.largest_elements, meter.peak_bytes, meter.live_bytes) == (500, 2400, 2400)
    del b, c
    assert meter.live_bytes == 0
