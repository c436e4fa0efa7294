"""What must hold of attention whatever the arguments, by every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tfcore.attention.tiled
from tfcore.attention import attention

BACKENDS = ["explicit", "tiled", "fused"]


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfcore.attention.tiled, "BLOCK", 3)
        yield


@st.composite
def arguments(draw):
    """Draw sizes, a seed and what is switched on; the numbers come from the seed."""
    B, H_kv, groups, T_q, T_k = (draw(st.integers(1, n)) for n in (2, 2, 3, 5, 8))
    d_k, d_v = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([0.3, 1.0, 4.0]))

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * spread

    inputs = {
        "q": normal(B, H_kv * groups, T_q, d_k),
        "k": normal(B, H_kv, T_k, d_k),
        "v": normal(B, H_kv, T_k, d_v),
    }
    inputs["mask"] = torch.rand(B, 1, T_q, T_k, generator=generator) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    inputs["bias"] = normal(H_kv * groups, T_q, T_k)
    inputs["q_pos"] = torch.randint(0, 9, (B, T_q), generator=generator)
    inputs["k_pos"] = torch.randint(0, 9, (B, T_k), generator=generator)
    inputs["causal"] = draw(st.booleans())
    inputs["window"] = draw(st.sampled_from([None, 1, 4]))
    return inputs, generator


def close(x, y):
    return torch.allclose(x, y, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25)
@given(arguments())
def test_queries_may_come_in_any_order(backend, drawn):
    inputs, generator = drawn
    order = torch.randperm(inputs["q"].shape[2], generator=generator)
    shuffled = {
        **inputs,
        "q": inputs["q"][:, :, order],
        "mask": inputs["mask"][:, :, order],
        "bias": inputs["bias"][:, order],
        "q_pos": inputs["q_pos"][:, order],
    }
    want = attention(**inputs, backend=backend)[:, :, order]
    assert close(attention(**shuffled, backend=backend), want)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25)
@given(arguments())
def test_keys_and_values_may_come_in_any_order(backend, drawn):
    inputs, generator = drawn
    order = torch.randperm(inputs["k"].shape[2], generator=generator)
    shuffled = {
        **inputs,
        "k": inputs["k"][:, :, order],
        "v": inputs["v"][:, :, order],
        "mask": inputs["mask"][..., order],
        "bias": inputs["bias"][..., order],
        "k_pos": inputs["k_pos"][:, order],
    }
    assert close(attention(**shuffled, backend=backend), attention(**inputs, backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25)
@given(arguments())
def test_outputs_stay_between_the_values(backend, drawn):
    inputs, _ = drawn
    output = attention(**inputs, backend=backend)
    groups = inputs["q"].shape[1] // inputs["v"].shape[1]
    v = inputs["v"].repeat_interleave(groups, dim=1)
    low, high = v.amin(dim=2, keepdim=True), v.amax(dim=2, keepdim=True)
    inside = (output >= low - 1e-9) & (output <= high + 1e-9)
    assert (inside.all(-1) | (output == 0).all(-1)).all()


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25)
@given(arguments())
def test_what_may_not_be_attended_to_has_no_influence(backend, drawn):
    inputs, generator = drawn
    back = inputs["q_pos"][:, None, :, None] - inputs["k_pos"][:, None, None, :]
    allowed = inputs["mask"] & (back >= 0 if inputs["causal"] else True)
    if inputs["window"]:
        allowed = allowed & (back.abs() < inputs["window"])
    j = int(torch.randint(inputs["k"].shape[2], (1,), generator=generator))
    changed = {**inputs, "k": inputs["k"].clone(), "v": inputs["v"].clone()}
    changed["k"][:, :, j] += 1
    changed["v"][:, :, j] -= 7
    before, after = attention(**inputs, backend=backend), attention(**changed, backend=backend)
    blind = ~allowed[:, 0, :, j]
    for b in range(len(blind)):
        assert close(before[b][:, blind[b]], after[b][:, blind[b]])


@pytest.mark.slow
@settings(max_examples=25)
@given(arguments())
def test_backends_agree_on_output_and_gradients(drawn):
    inputs, _ = drawn
    leaves = {name: inputs[name].requires_grad_() for name in ("q", "k", "v", "bias")}
    results = []
    for backend in BACKENDS:
        output = attention(**inputs, backend=backend)
        results.append([output.detach(), *torch.autograd.grad(output.pow(2).sum(), list(leaves.values()))])
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)
