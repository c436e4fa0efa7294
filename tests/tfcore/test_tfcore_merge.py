"""Pieces of attention put together are the attention, in any order and any grouping."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch
from attention_oracle import case, distance, make_inputs, oracle

from tfcore.attention import attention, merge

ALL = make_inputs(case("", T_q=5, T_k=11, H_kv=2, mask="qk", empty_rows=True))
CUTS = [slice(0, 4), slice(4, 5), slice(5, 9), slice(9, 11)]


def pieces(q, k, v, mask, backend="tiled"):
    """Attend to four shards of the keys; the second holds one key, the third none that may be attended to."""
    mask = mask.clone()
    mask[:, CUTS[2]] = False
    parts = [
        attention(q, k[:, :, c], v[:, :, c], mask=mask[:, c], backend=backend, return_lse=True) for c in CUTS
    ]
    return parts, mask


def test_shards_merge_to_the_whole_in_every_order():
    parts, mask = pieces(**ALL)
    want, _, lse = oracle({**ALL, "mask": mask})
    for order in itertools.permutations(parts):
        got, got_lse = functools.reduce(lambda a, b: merge(*a, *b), order)
        assert distance(got, want) <= 1e-14
        assert distance(got_lse, lse) <= 1e-14


def test_merge_is_associative_and_commutative():
    (a, b, _, c), _ = pieces(**ALL)
    left, right, swapped = merge(*merge(*a, *b), *c), merge(*a, *merge(*b, *c)), merge(*merge(*b, *a), *c)
    for x, y, z in zip(left, right, swapped, strict=True):
        assert distance(x, y.numpy()) <= 1e-14
        assert torch.equal(x, z)


def test_attention_to_nothing_is_neutral():
    (a, *_), _ = pieces(**ALL)
    nothing = torch.zeros_like(a[0]), torch.full_like(a[1], -math.inf)
    for got in (merge(*a, *nothing), merge(*nothing, *a)):
        for x, y in zip(got, a, strict=True):
            assert distance(x, y.numpy()) <= 1e-15
    output, lse = merge(*nothing, *nothing)
    assert torch.all(output == 0)
    assert torch.all(lse == -math.inf)


@pytest.mark.parametrize("backend", ["explicit", "tiled"])
def test_gradients_flow_through_a_merge(backend):
    leaves = {name: ALL[name].clone().requires_grad_() for name in "qkv"}
    parts, mask = pieces(**leaves, mask=ALL["mask"], backend=backend)
    output, lse = functools.reduce(lambda a, b: merge(*a, *b), parts)
    whole, whole_lse = attention(**leaves, mask=mask, backend="explicit", return_lse=True)

    def loss(output, lse):
        return (output**3).sum() + (lse.exp() * torch.arange(5)).sum()

    got = torch.autograd.grad(loss(output, lse), leaves.values())
    want = torch.autograd.grad(loss(whole, whole_lse), leaves.values())
    for x, y in zip(got, want, strict=True):
        assert torch.isfinite(x).all()
        assert distance(x, y.numpy()) <= 1e-13


def test_finite_differences():
    generator = torch.Generator().manual_seed(0)
    out_a, out_b = (torch.randn(2, 3, 4, dtype=torch.float64, generator=generator) for _ in range(2))
    lse_a, lse_b = (torch.randn(2, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    assert torch.autograd.gradcheck(merge, [x.requires_grad_() for x in (out_a, lse_a, out_b, lse_b)])


def test_an_empty_merge_has_no_nan_gradient():
    out, lse = torch.zeros(2, 3, requires_grad=True), torch.full((2,), -math.inf, requires_grad=True)
    merged, merged_lse = merge(out, lse, out, lse)
    for gradient in torch.autograd.grad(merged.sum() + merged_lse.exp().sum(), (out, lse)):
        assert torch.all(gradient == 0)


def test_the_larger_lse_wins_without_overflow():
    one, three = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    output, lse = merge(one, torch.tensor([1e4]), three, torch.tensor([-1e4]))
    assert (output.item(), lse.item()) == (1.0, 1e4)


def test_half_precision_outputs_stay_so():
    output, lse = merge(
        torch.ones(1, 2).bfloat16(), torch.zeros(1), torch.ones(1, 2).bfloat16(), torch.zeros(1)
    )
    assert output.dtype == torch.bfloat16
    assert lse.dtype == torch.float32
