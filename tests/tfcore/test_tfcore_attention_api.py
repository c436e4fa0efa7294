"""The one function in front: what it returns, which backend it chooses, what it refuses."""

from __future__ import annotations

import re

import pytest
import torch
from attention_oracle import (
    case,
    distance,
    make_inputs,
)

from tfcore.attention import BACKENDS, attention


def test_what_is_returned():
    inputs = make_inputs(case(""))
    output, weights, lse = attention(**inputs, return_weights=True, return_lse=True)
    assert isinstance(attention(**inputs), torch.Tensor)
    only_weights, only_lse = attention(**inputs, return_weights=True), attention(**inputs, return_lse=True)
    assert isinstance(only_weights, tuple)
    assert isinstance(only_lse, tuple)
    assert torch.equal(only_weights[1], weights)
    assert distance(only_lse[1], lse.numpy()) <= 1e-14
    assert distance(weights @ inputs["v"], output.numpy()) <= 1e-14


def test_auto_takes_the_first_backend_that_serves(monkeypatch):
    ran = []
    for name, b in list(BACKENDS.items()):
        spy = lambda *args, name=name, run=b.run: ran.append(name) or run(*args)  # noqa: E731
        monkeypatch.setitem(BACKENDS, name, type(b)(spy, b.weights, b.lse))
    inputs = make_inputs(case(""))
    for extra in (
        {},
        {"return_lse": True},
        {"return_weights": True},
        {"return_weights": True, "return_lse": True},
    ):
        attention(**inputs, **extra)
    assert ran == ["fused", "tiled", "explicit", "explicit"]


@pytest.mark.parametrize(("name", "extra"), [("fused", "weights"), ("fused", "lse"), ("tiled", "weights")])
def test_a_named_backend_never_falls_back(name, extra):
    with pytest.raises(ValueError, match=f"returns the {extra}, got '{name}'"):
        attention(**make_inputs(case("")), backend=name, **{f"return_{extra}": True})


@pytest.mark.slow
def test_the_seam_runs_where_there_is_no_memory_at_all():
    q = torch.zeros(2, 4, 5, 8, device="meta")
    assert attention(q, q, q, causal=True, backend="explicit").shape == q.shape


x = torch.zeros(2, 6, 5, 8)
BAD = {
    "three axes": ({"q": x[0], "k": x, "v": x}, "four axes (B, H, T, d)"),
    "batch": ({"q": x, "k": x[:1], "v": x[:1]}, "one batch size B"),
    "a value too few": ({"q": x, "k": x, "v": x[:, :, 1:]}, "one value per key"),
    "no keys": ({"q": x, "k": x[:, :, :0], "v": x[:, :, :0]}, "at least one key"),
    "width": ({"q": x, "k": x[..., 1:], "v": x}, "one width d_k"),
    "groups": ({"q": x, "k": x[:, :4], "v": x[:, :4]}, "that the key heads divide, got 6 and 4"),
    "types": ({"q": x, "k": x.double(), "v": x}, "one floating-point type"),
    "integers": ({"q": x.int(), "k": x.int(), "v": x.int()}, "one floating-point type"),
    "float mask": ({"mask": torch.ones(5, 5)}, "a boolean mask, True = may attend"),
    "padding mask": ({"mask": torch.ones(2, 5, dtype=torch.bool)}, "(B, T_k) as mask[:, None, None, :]"),
    "mask of five axes": (
        {"mask": torch.ones(1, 1, 1, 5, 5, dtype=torch.bool)},
        "broadcasts to (B, H, T_q, T_k)",
    ),
    "mask that is larger": ({"q": x[:1], "k": x[:1], "v": x[:1], "mask": x[..., :5].bool()}, "broadcasts to"),
    "bias shape": ({"bias": torch.ones(3, 5, 5)}, "a bias that broadcasts"),
    "boolean bias": ({"bias": torch.ones(5, 5, dtype=torch.bool)}, "pass a boolean one as mask"),
    "window": ({"window": 0}, "a window of 1 or more, got 0"),
    "positions": ({"q_pos": torch.arange(4)}, "q_pos as whole numbers of shape (5,) or (2, 5)"),
    "float positions": ({"q_pos": torch.arange(5.0)}, "q_pos as whole numbers"),
    "k_pos alone": ({"k_pos": torch.arange(5)}, "q_pos beside k_pos"),
    "backend": ({"backend": "flash"}, "a backend out of fused, tiled, explicit, triton or auto, got 'flash'"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        attention(**{"q": x, "k": x, "v": x, **arguments})
