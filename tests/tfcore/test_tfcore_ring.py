"""Ring attention against attention in one piece: one process that plays all ranks, and real processes."""

from __future__ import annotations

import multiprocessing
import re
import tempfile
from pathlib import Path

import pytest
import ring_worker
import torch
import torch.multiprocessing as mp
from attention_oracle import distance, oracle
from ring_worker import CASES, make_inputs

import tfcore.attention.tiled
from tfcore.attention import attention
from tfcore.ring import distributed_ring_attention, ring_attention
from tfcore.testing import AllocationMeter, OperationCounter, find_input_leaks

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-5}


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfcore.attention.tiled, "BLOCK", ring_worker.BLOCK)
        yield


def shards_of(name):
    lengths, causal, _ = CASES[name]
    return [x.split(lengths, dim=2) for x in make_inputs(name)], causal


def whole(name):
    """Attend in one piece, in float64: the output and the gradients of q, k and v."""
    *qkv, d_output = (x.double() for x in make_inputs(name))
    leaves = [x.requires_grad_() for x in qkv]
    output = attention(*leaves, causal=CASES[name][1], backend="explicit")
    return [output.detach(), *torch.autograd.grad(output, leaves, d_output)]


# --- one process


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_ring_in_one_process_is_attention_in_one_piece(name):
    (q, k, v, d_output), causal = shards_of(name)
    before = [x.clone() for x in (*q, *k, *v)]
    leaves = [[x.clone().requires_grad_() for x in shards] for shards in (q, k, v)]
    outputs = ring_attention(*leaves, causal=causal)
    gradients = torch.autograd.grad(outputs, [x for shards in leaves for x in shards], d_output)
    size = len(q)
    joined = [torch.cat(gradients[i * size : (i + 1) * size], dim=2) for i in range(3)]
    dtype = q[0].dtype
    assert all(x.dtype == dtype for x in (*outputs, *gradients))
    assert [x.shape[2] for x in outputs] == CASES[name][0]
    for got, want in zip([torch.cat(outputs, dim=2), *joined], whole(name), strict=True):
        assert distance(got, want.numpy()) <= TOLERANCE[dtype]
    assert all(torch.equal(x, y) for x, y in zip(before, (*q, *k, *v), strict=True))


@pytest.mark.parametrize("causal", [False, True])
def test_against_the_oracle_in_loops(causal):
    q, k, v, _ = make_inputs("four ranks")
    lengths = CASES["four ranks"][0]
    got = ring_attention(*(x.split(lengths, dim=2) for x in (q, k, v)), causal=causal)
    assert distance(torch.cat(got, dim=2), oracle({"q": q, "k": k, "v": v, "causal": causal})[0]) <= 1e-14


def test_scores_of_ten_thousand():
    q, k, v, _ = (100 * x for x in make_inputs("four ranks"))
    got = ring_attention(*(x.split([20, 7], dim=2) for x in (q, k, v)), causal=True)
    assert (
        distance(torch.cat(got, dim=2), attention(q, k, v, causal=True, backend="explicit").numpy()) <= 1e-11
    )


@pytest.mark.slow
def test_half_precision_over_many_shards():
    """Merged in half precision, 24 shards would add up 24 roundings; kept wide, one of the output is left."""
    q, k, v = (x.bfloat16() for x in torch.randn(3, 1, 2, 24, 8, generator=torch.Generator().manual_seed(0)))
    shards = [x.split(1, dim=2) for x in (q, k, v + 3)]
    got = torch.cat(ring_attention(*shards), dim=2).double()
    want = attention(q.double(), k.double(), (v + 3).double())
    assert ((got - want).abs() / want.abs()).max() <= 2**-8


def test_no_rank_sees_what_comes_later():
    def layer(x):
        shards = x[:, None].split([3, 1, 4], dim=2)
        return torch.cat(ring_attention(shards, shards, shards, causal=True), dim=2)[:, 0]

    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    assert find_input_leaks(layer, x) == set()
    assert len(find_input_leaks(lambda x: attention(*(x[:, None],) * 3)[:, 0], x)) == 28


class Shelf(list):
    """A list that counts how often each entry is taken, and checks that few are in use at once."""

    def __init__(self, items):
        super().__init__(items)
        self.taken = []

    def __getitem__(self, index):
        self.taken.append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize(("causal", "visits"), [(False, 4), (True, 1)])
def test_each_rank_takes_each_shard_once(causal, visits):
    (q, k, v, _), _ = shards_of("four ranks")
    k, v = Shelf(k), Shelf(v)
    ring_attention(q, k, v, causal=causal)
    expected = [(r - step) % 4 for r in range(4) for step in range(4) if not causal or (r - step) % 4 <= r]
    assert k.taken == v.taken == expected


@pytest.mark.slow
def test_nothing_as_large_as_all_keys_or_as_all_scores():
    """One head, so that the T x T matrix, the score tiles and the shards differ clearly in size."""
    shards = [torch.randn(1, 1, 16, 4, requires_grad=True) for _ in range(5)]
    with AllocationMeter() as meter:
        torch.stack([x.sum() for x in ring_attention(shards, shards, shards, causal=True)]).sum().backward()
    assert meter.largest_elements <= 16 * 8


def test_causal_skips_the_shards_of_later_ranks():
    def products(causal):
        shards = torch.randn(1, 2, 32, 4).split(8, dim=2)
        with OperationCounter() as counter:
            ring_attention(shards, shards, shards, causal=causal)
        return counter.products

    assert products(True) / products(False) == 10 / 16  # 1 + 2 + 3 + 4 of 4 x 4 pairs of shards


# --- real processes


@pytest.fixture(scope="module", autouse=True)
def torch_is_imported_once():
    """Let one server import torch, and fork every process of every ring from it."""
    multiprocessing.set_forkserver_preload(["torch", "tfcore.ring", "tfcore.testing"])


def start(size):
    """Run the worker in that many processes and return what each left behind."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(ring_worker.run, (size, folder), nprocs=size, start_method="forkserver")
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(size)]


def check(results):
    for name, (lengths, _, dtype) in CASES.items():
        parts = [result[name]["tensors"] for result in results if name in result]
        assert len(parts) == (len(lengths) if len(lengths) <= len(results) else 0), name
        for index, want in enumerate(whole(name) if parts else []):
            assert all(part[index].dtype == dtype for part in parts)
            got = torch.cat([part[index] for part in parts], dim=2)
            assert distance(got, want.numpy()) <= TOLERANCE[dtype], (name, index)
    for result in results if len(results) > 1 else []:
        assert set(result["told"]) == set(ring_worker.BAD)
        assert all("of the same tokens on each rank" in message for message in result["told"].values())


def test_a_ring_of_one_process(tmp_path):
    ring_worker.run(0, 1, str(tmp_path))
    check([torch.load(tmp_path / "0.pt")])


@pytest.mark.slow
def test_a_ring_of_two_processes():
    check(start(2))


@pytest.mark.slow
def test_a_ring_of_four_processes_and_smaller_groups_of_them():
    results = start(4)
    check(results)
    shard = ring_worker.B * ring_worker.H * 32 * ring_worker.D_V
    for rank, result in enumerate(results):
        # The output is as large as a shard of queries, all values are twice as large, all scores 50 times.
        assert result["four ranks, long"]["largest"] == shard
        assert result["four ranks, long"]["peak"] < 20 * 4 * shard
        # A shard of a later rank passes by and nobody so much as compares its positions.
        compared = result["four ranks, long"]["comparisons"]
        assert compared == (rank + 1) * results[0]["four ranks, long"]["comparisons"] > 0


# --- arguments that do not fit

X = torch.ones(1, 2, 3, 4)
BAD = {
    "no shard": (lambda: ring_attention([], [], []), "one shard of q, k and v per rank, got 0, 0 and 0"),
    "fewer keys": (lambda: ring_attention([X, X], [X], [X, X]), "got 2, 1 and 2"),
    "other tokens": (
        lambda: ring_attention([X, X], [X, X[:, :, :2]], [X, X[:, :, :2]]),
        "the keys of rank 1 to be of the same 3 tokens as its queries, got 2",
    ),
    "other widths": (lambda: ring_attention([X], [X[..., :3]], [X]), "q and k of one width d_k"),
    "no process group": (lambda: distributed_ring_attention(X, X, X), "expected a process group, got none"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
