"""The instruments themselves: counts against formulas, probes and mutants against faults that are known."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tfcore.attention import attention
from tfcore.masks import causal_mask
from tfcore.testing import (
    AllocationMeter,
    Mutant,
    OperationCounter,
    find_input_leaks,
    find_leaks,
    format_kill_table,
    kill_table,
    raise_weights,
)

B, H, T_Q, T_K, D_K, D_V = 2, 6, 5, 7, 8, 10
FORWARD = 2 * B * H * T_Q * T_K * (D_K + D_V)


def count(run):
    with OperationCounter() as counter:
        run()
    return counter


def test_nothing_of_triton_is_imported_before_something_is_counted():
    look = "import sys, tfcore.testing; sys.exit('torch.utils.flop_counter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


# --- operations: products


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    ("run", "expected"),
    {
        "mm": (lambda: torch.ones(2, 3) @ torch.ones(3, 5), 2 * 2 * 3 * 5),
        "bmm": (lambda: torch.ones(4, 2, 3) @ torch.ones(4, 3, 5), 2 * 4 * 2 * 3 * 5),
        "broadcast": (lambda: torch.ones(7, 4, 2, 3) @ torch.ones(3, 5), 2 * 7 * 4 * 2 * 3 * 5),
        "linear": (lambda: F.linear(torch.ones(7, 2, 3), torch.ones(5, 3), torch.ones(5)), 2 * 14 * 3 * 5),
        "einsum": (lambda: torch.einsum("btd,bsd->bts", torch.ones(2, 3, 5), torch.ones(2, 7, 5)), 2 * 210),
        "vector": (lambda: torch.ones(3, 5) @ torch.ones(5), 2 * 15),
        "dot": (lambda: torch.ones(5) @ torch.ones(5), 2 * 5),
    }.values(),
)
def test_products(run, expected, mode):
    with mode():
        counter = count(run)
    assert counter.products == counter.total == expected


def test_products_are_what_torch_counts_forward_and_backward():
    model = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 7))
    x = torch.randn(11, 3, requires_grad=True)
    with FlopCounterMode(display=False) as stock:
        model(x).sum().backward()
    counter = count(lambda: model(x).sum().backward())
    assert counter.products == stock.get_total_flops() == 3 * 2 * 11 * (3 * 5 + 5 * 7)
    assert counter.total > counter.products


@pytest.mark.parametrize("kv_heads", [6, 3, 1])
@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": torch.ones(T_Q, T_K).bool()}], ids=str
)
def test_attention_by_torch(options, kv_heads):
    q, k, v = (
        torch.randn(B, H, T_Q, D_K),
        torch.randn(B, kv_heads, T_K, D_K),
        torch.randn(B, kv_heads, T_K, D_K),
    )
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    forward = 2 * B * H * T_Q * T_K * 2 * D_K
    out = []
    counter = count(lambda: out.append(F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)))
    assert any("flash_attention" in name for name in counter.calls)
    assert counter.products == forward
    assert count(lambda: out[0].sum().backward()).products == 2.5 * forward  # the scores are computed again


def test_attention_written_out():
    q, k, v = (torch.randn(B, H, T, d) for T, d in ((T_Q, D_K), (T_K, D_K), (T_K, D_V)))
    assert count(lambda: attention(q, k, v, backend="explicit")).products == FORWARD
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    counter = count(lambda: attention(q, k, v, backend="explicit").sum().backward())
    assert counter.products == 3 * FORWARD


# --- operations: everything else


@pytest.mark.parametrize(
    ("run", "expected"),
    {
        "add": (lambda: torch.ones(2, 3) + torch.ones(2, 3), 6),
        "outer": (lambda: torch.ones(4, 1) * torch.ones(5), 20),
        "in place": (lambda: torch.ones(4, 5).mul_(2), 20),
        "scalar": (lambda: 2 * torch.ones(7) - 1, 14),
        "function": (lambda: F.gelu(torch.ones(3, 5).bfloat16()), 15),
        "sum": (lambda: torch.ones(3, 5).sum(), 15),
        "sum of an axis": (lambda: torch.ones(3, 5).sum(dim=0), 15),
        "expanded": (lambda: torch.ones(3, 1).expand(3, 50).sum(), 150),
        "max": (lambda: torch.ones(3, 5).max(dim=1), 15),
        "outer by name": (lambda: torch.outer(torch.ones(3), torch.ones(5)), 15),
        "softmax": (lambda: torch.ones(3, 5).softmax(-1), 75),
        "free": (lambda: torch.ones(3, 5).T.reshape(15)[2:].clone().to(torch.float64)[[1, 0]], 0),
        "copies": (lambda: torch.cat([torch.zeros(3), torch.randn(2)]).repeat(4).contiguous(), 0),
    }.values(),
)
def test_elementwise_and_reductions(run, expected):
    counter = count(run)
    assert (counter.total, counter.products) == (expected, 0)


def test_a_fused_kernel_counts_as_its_steps():
    x = torch.randn(3, 5)

    def softmax_by_hand():
        exp = (x - x.amax(-1, keepdim=True)).exp()
        return exp / exp.sum(-1, keepdim=True)

    def norm_by_hand():
        centered = x - x.sum(-1, keepdim=True)
        return centered * centered.square().sum(-1, keepdim=True) * torch.ones(5) + torch.ones(5)

    assert count(softmax_by_hand).total == count(lambda: x.softmax(-1)).total
    assert (
        count(norm_by_hand).total == count(lambda: F.layer_norm(x, (5,), torch.ones(5), torch.ones(5))).total
    )


def test_calls_are_counted_and_results_untouched():
    x = torch.randn(3, 4)
    with OperationCounter() as counter, AllocationMeter() as meter:
        got = torch.cat([x, x]).T @ torch.cat([x, x]).exp()
    assert torch.equal(got, torch.cat([x, x]).T @ torch.cat([x, x]).exp())
    assert counter.calls["cat"] == 2
    assert dict(counter.by_operator) == {"mm": 2 * 4 * 6 * 4, "exp": 24}
    assert meter.largest_elements == 24


def test_tensors_made_of_other_numbers_are_allocated_too():
    with AllocationMeter() as meter:
        made = torch.tensor([[1.0] * 5] * 3), torch.from_numpy(np.zeros((7, 2)))[1:]
    assert len(made) == 2
    assert meter.total_bytes == 15 * 4 + 14 * 8
    assert meter.largest_shape == (3, 5)


# --- probes


def one_hot(tokens):
    return F.one_hot(tokens, 6).double()


TOKENS = torch.tensor([3, 5, 0, 0, 2])
PAIRS = {(i, j) for j in range(5) for i in range(j)}


@pytest.mark.parametrize("pair", sorted(PAIRS))
def test_a_single_leak_is_found(pair):
    i, j = pair

    def model(tokens):
        x = one_hot(tokens)
        logits = x.cumsum(1)
        logits[:, i] += 0.01 * x[:, j]
        return logits

    assert find_leaks(model, TOKENS, 6) == {pair}


@pytest.mark.parametrize(
    ("model", "leaks"),
    {
        "causal": (lambda t: one_hot(t).cumsum(1), set()),
        "all see all": (lambda t: one_hot(t).cumsum(1).flip(1).cumsum(1), PAIRS),
        "next": (lambda t: one_hot(t.roll(-1, 1)), {(0, 1), (1, 2), (2, 3), (3, 4)}),
        "first sees last": (lambda t: one_hot(t[:, [4, 1, 2, 3, 4]]), {(0, 4)}),
        "below the tolerance": (
            lambda t: one_hot(t).cumsum(1) + 1e-5 * one_hot(t).sum(1, keepdim=True),
            set(),
        ),
        "NaN that stays": (lambda t: one_hot(t).cumsum(1) * math.nan, set()),
        "NaN that comes": (
            lambda t: one_hot(t) + (math.nan if t[0, 4] == 3 else 0),
            {(i, 4) for i in range(4)},
        ),
    }.values(),
)
def test_leaks_of_known_models(model, leaks):
    before = TOKENS.clone()
    assert find_leaks(model, TOKENS, 6) == leaks
    assert torch.equal(TOKENS, before)


def test_a_model_that_reuses_its_output_hides_nothing():
    buffer = torch.zeros(1, 5, 6).double()
    assert find_leaks(lambda t: buffer.copy_(one_hot(t.roll(-1, 1))), TOKENS, 6)


@pytest.mark.parametrize("norm", [None, "layer", "rms"])
def test_input_leaks_of_attention(norm):
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))

    def layer(x, mask):
        if norm:
            x = F.layer_norm(x, (4,)) if norm == "layer" else F.rms_norm(x, (4,))
        return attention(*(x[:, None],) * 3, mask=mask)[:, 0]

    before, causal = x.clone(), causal_mask(7)
    assert find_input_leaks(lambda x: layer(x, causal), x) == set()
    one_more = causal.clone()
    one_more[2, 5] = True
    assert find_input_leaks(lambda x: layer(x, one_more), x) == {(2, 5)}
    assert len(find_input_leaks(lambda x: layer(x, None), x)) == 21
    assert torch.equal(x, before)


def test_raised_weights():
    model = nn.Sequential(nn.Linear(40, 50), nn.LayerNorm(50), nn.Linear(50, 40, bias=False))
    model[2].weight = nn.Parameter(model[0].weight.detach().clone())
    assert raise_weights(model, seed=3) is model
    assert model[0].weight.std().item() == pytest.approx(0.3, rel=0.1)
    assert model[1].weight.mean().item() == pytest.approx(1, abs=0.2)
    assert model[1].weight.std().item() == pytest.approx(0.3, rel=0.3)
    assert not torch.equal(model[0].weight, model[2].weight)
    again = raise_weights(nn.Linear(40, 50), seed=3)
    assert torch.equal(again.weight, model[0].weight)


# --- mutants


@pytest.fixture
def shop(monkeypatch):
    """Make a module with a function and a class, and one that imported the function."""
    maker, user = types.ModuleType("maker"), types.ModuleType("user")

    def double(x):
        return 2 * x

    class Till:
        def total(self, xs):
            return sum(maker.double(x) for x in xs)

    maker.double = user.double = double
    maker.Till = Till
    monkeypatch.setitem(__import__("sys").modules, "maker", maker)
    monkeypatch.setitem(__import__("sys").modules, "user", user)
    return types.SimpleNamespace(maker=maker, user=user, double=double)


TRIPLE = Mutant("triples", "maker:double", lambda right: lambda x: 3 * x)
SQUARE = Mutant("squares", "maker:double", lambda right: lambda x: x * x)
EMPTY = Mutant("forgets", "maker:Till.total", lambda right: lambda self, xs: right(self, xs[1:]))


def test_a_mutant_reaches_whoever_imported_it_and_is_undone(shop):
    with TRIPLE.applied():
        assert shop.maker.double(5) == shop.user.double(5) == 15
        assert shop.double(5) == 10
    assert shop.maker.double is shop.user.double is shop.double
    with pytest.raises(KeyError), TRIPLE.applied():
        raise KeyError
    assert shop.maker.double is shop.user.double is shop.double


def test_a_method_is_broken_and_mended(shop):
    total = vars(shop.maker.Till)["total"]
    with EMPTY.applied():
        assert shop.maker.Till().total([5, 1]) == 2
    assert vars(shop.maker.Till)["total"] is total


def test_the_table_names_the_check_that_catches_and_the_survivor(shop):
    def at_two():
        assert shop.user.double(2) == 4

    def total():
        assert shop.maker.Till().total([0, 2]) == 4

    def negative():
        assert shop.user.double(-1) == -2

    weak = kill_table([TRIPLE, SQUARE, EMPTY], {"at two": at_two, "total": total})
    assert weak.pop("triples") in ("at two", "total")
    assert weak == {"squares": None, "forgets": None}
    assert format_kill_table({"triples": "at two", **weak}).splitlines() == [
        "squares  SURVIVES",
        "forgets  SURVIVES",
        "triples  at two",
    ]
    assert kill_table([SQUARE], {"at two": at_two, "negative": negative}) == {"squares": "negative"}


def test_checks_that_call_the_target_come_first(shop):
    tried = []

    def elsewhere():
        tried.append("elsewhere")

    def total():
        tried.append("total")
        time.sleep(0.01)  # quickest first, but among the checks that call it
        assert shop.maker.Till().total([0, 2]) == 4

    assert kill_table([TRIPLE], {"elsewhere": elsewhere, "total": total}) == {"triples": "total"}
    assert tried == ["elsewhere", "total", "total"]


def test_a_mutant_of_tfcore_reaches_attention():
    def window():
        x = torch.eye(5)[None, None]
        weights = attention(x, x, x, causal=True, window=2, return_weights=True)[1]
        assert ((weights > 0).sum(-1) <= 2).all()

    wider = Mutant(
        "window one too wide",
        "tfcore.masks:position_mask",
        lambda right: (
            lambda q, k, *, causal, window: right(q, k, causal=causal, window=window and window + 1)
        ),
    )
    assert kill_table([wider], {"window": window}) == {"window one too wide": "window"}
    window()


# --- arguments that do not fit


def fails():
    raise AssertionError


BAD = {
    "a batch of tokens": (lambda: find_leaks(one_hot, TOKENS[None], 6), "expected tokens (T,), got (1, 5)"),
    "one token": (lambda: find_leaks(one_hot, TOKENS, 1), "a vocabulary of 2 or more, got 1"),
    "a batch of vectors": (
        lambda: find_input_leaks(one_hot, torch.ones(1, 2, 3)),
        "expected x (T, d), got (1, 2, 3)",
    ),
    "no such module": (lambda: Mutant("", "no_such:f", None)._find(), "that exists, got 'no_such:f'"),
    "no such name": (lambda: Mutant("", "math:no_such", None)._find(), "that exists, got 'math:no_such'"),
    "no colon": (lambda: Mutant("", "math.floor", None)._find(), "that exists, got 'math.floor'"),
    "a check that fails": (lambda: kill_table([], {"it": fails}), "got 'it' failing"),
    "one name twice": (lambda: kill_table([TRIPLE, TRIPLE], {}), "mutants of different names"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
