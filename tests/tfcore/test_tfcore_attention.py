"""Every backend against the oracle: forward, backward, and the faults that people report again and again."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_oracle import (
    CASES,
    GRADIENT_TOLERANCE,
    TOLERANCE,
    Case,
    case,
    distance,
    make_inputs,
    oracle,
    output_gradient,
    reference_gradients,
)

import tfcore.attention.tiled
from tfcore.attention import BACKENDS, attention

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
GRID_DTYPES = [torch.float64, *(pytest.param(d, marks=pytest.mark.slow) for d in DTYPES[1:])]
GRID_CASES = [pytest.param(c, marks=pytest.mark.slow if c.T_q * c.T_k > 10_000 else ()) for c in CASES]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(params=["explicit", "tiled", "tiled by 4", "fused"])
def backend(request, monkeypatch):
    """Each backend by name; tiled also with a block so small that every case has many, the last ragged."""
    if request.param == "tiled by 4":
        monkeypatch.setattr(tfcore.attention.tiled, "BLOCK", 4)
    return request.param.split()[0]


@functools.cache
def expected(case: Case, dtype: torch.dtype):
    return oracle(make_inputs(case, dtype))


@functools.cache
def expected_gradients(case: Case, dtype: torch.dtype):
    return reference_gradients(make_inputs(case, dtype))


def returns(backend: str) -> dict[str, bool]:
    return {"return_weights": BACKENDS[backend].weights, "return_lse": BACKENDS[backend].lse}


def run(inputs, backend):
    """Attend, and ask for everything that the backend can give, by name."""
    wanted = returns(backend)
    result = attention(**inputs, backend=backend, **wanted)
    result = result if any(wanted.values()) else (result,)
    names = ["output", *(name for name in ("weights", "lse") if wanted[f"return_{name}"])]
    return dict(zip(names, result, strict=True))


def gradients(inputs, backend):
    names = [name for name in ("q", "k", "v", "bias") if inputs.get(name) is not None]
    leaves = {name: inputs[name].detach().clone().requires_grad_() for name in names}
    output = attention(**{**inputs, **leaves}, backend=backend)
    return dict(
        zip(names, torch.autograd.grad(output, list(leaves.values()), output_gradient(inputs)), strict=True)
    )


def check_forward(case, dtype, backend, device="cpu"):
    inputs = make_inputs(case, dtype, device)
    for (name, got), want in zip(
        run(inputs, backend).items(), select(expected(case, dtype), backend), strict=True
    ):
        assert got.dtype == (dtype if name == "output" else torch.promote_types(dtype, torch.float32))
        tolerance = TOLERANCE[dtype if name == "output" else got.dtype]
        assert distance(got, want) <= tolerance, f"{name} of {backend}"


def select(results, backend):
    output, weights, lse = results
    wanted = returns(backend)
    return [
        output,
        *([weights] if wanted["return_weights"] else []),
        *([lse] if wanted["return_lse"] else []),
    ]


def check_backward(case, dtype, backend, device="cpu"):
    inputs = make_inputs(case, dtype, device)
    want = expected_gradients(case, dtype)
    for name, got in gradients(inputs, backend).items():
        assert got.dtype == dtype
        assert distance(got, want[name]) <= GRADIENT_TOLERANCE[dtype], f"gradient of {name} by {backend}"


# --- parity over the grid


def test_no_two_axes_of_a_case_have_one_size():
    for c in CASES:
        heads, lengths = {c.H, c.H_kv}, {c.T_q, c.T_k}
        sizes = [size for size in (c.B, *heads, *lengths, c.d_k, c.d_v) if size > 1]
        assert len(sizes) == len(set(sizes)), c.name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", GRID_DTYPES, ids=str)
@pytest.mark.parametrize("case", GRID_CASES, ids=str)
def test_forward_matches_the_oracle(case, dtype, backend):
    check_forward(case, dtype, backend)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", GRID_DTYPES, ids=str)
@pytest.mark.parametrize("case", GRID_CASES, ids=str)
def test_backward_matches_torch_in_float64(case, dtype, backend):
    check_backward(case, dtype, backend)


@pytest.mark.parametrize("dtype", GRID_DTYPES, ids=str)
@pytest.mark.parametrize("case", GRID_CASES, ids=str)
def test_values_as_wide_as_keys_take_torchs_flash_kernel(case, dtype):
    """Torch's kernels want one width, which the grid avoids: it would hide a scale by the wrong one."""
    one_width = dataclasses.replace(case, d_v=case.d_k)
    check_forward(one_width, dtype, "fused")
    check_backward(one_width, dtype, "fused")


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_forward_and_backward_on_cuda(dtype, backend):
    torch.backends.cuda.matmul.allow_tf32 = False
    for each in CASES:
        check_forward(each, dtype, backend, "cuda")
        check_backward(each, dtype, backend, "cuda")


def test_the_oracle_agrees_with_torch_where_torch_has_no_trap():
    for name in ("plain", "long rows", "mask 4-D", "own scale", "bias 4-D and mask"):
        inputs = make_inputs(next(c for c in CASES if c.name == name))
        attn_mask = inputs.get("mask")
        if "bias" in inputs:
            attn_mask = inputs["bias"].masked_fill(~attn_mask, -math.inf)
        got = F.scaled_dot_product_attention(
            inputs["q"], inputs["k"], inputs["v"], attn_mask, scale=inputs.get("scale"), enable_gqa=True
        )
        assert distance(got, oracle(inputs)[0]) <= 1e-14, name


SMALL = [
    case("causal, grouped", B=1, H=4, H_kv=2, T_q=3, T_k=5, d_k=2, d_v=1, causal=True),
    case("empty row", B=1, H=2, H_kv=2, T_q=3, T_k=5, d_k=2, d_v=1, mask="qk", empty_rows=True),
    case("bias", B=1, H=2, H_kv=1, T_q=3, T_k=5, d_k=2, d_v=1, bias="-H-k", causal=True, window=2),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_gradients_match_finite_differences(case, backend):
    inputs = make_inputs(case)
    names = [name for name in ("q", "k", "v", "bias") if name in inputs]

    def outputs(*leaves):
        result = run({**inputs, **dict(zip(names, leaves, strict=True))}, backend)
        result["lse"] = result.get("lse", torch.zeros(())).clamp(min=-1e3)  # -inf has no finite difference
        return tuple(result.values())

    assert torch.autograd.gradcheck(outputs, [inputs[name].requires_grad_() for name in names])


# --- nothing to attend to


def test_a_query_with_nothing_to_attend_to(backend):
    inputs = make_inputs(case("", H_kv=3, mask="BHqk", empty_rows=True, bias="-Hqk"))
    leaves = {name: inputs[name].requires_grad_() for name in ("q", "k", "v", "bias")}
    result = run(inputs, backend)
    loss = result["output"].square().sum() + result["output"].sum()
    if "weights" in result:
        assert torch.all(result["weights"][:, :, 1] == 0)
        loss = loss + result["weights"].sum()
    if "lse" in result:
        assert torch.all(result["lse"][:, :, 1] == -math.inf)
        assert torch.isfinite(result["lse"][:, :, [0, 2, 3, 4]]).all()
        loss = loss + result["lse"].exp().sum()
    assert torch.all(result["output"][:, :, 1] == 0)
    loss.backward()
    for name, leaf in leaves.items():
        assert torch.isfinite(leaf.grad).all(), name
    assert torch.all(leaves["q"].grad[:, :, 1] == 0)
    assert torch.all(leaves["bias"].grad[:, :, 1] == 0)
    assert torch.all(leaves["q"].grad[:, :, 0].abs().sum(-1) > 0)


def test_nobody_may_attend_to_anything(backend):
    inputs = make_inputs(case("", T_q=7, T_k=7))
    inputs["mask"] = torch.zeros(1, 1, dtype=torch.bool)
    leaves = [inputs[name].requires_grad_() for name in ("q", "k", "v")]
    output = attention(**inputs, backend=backend)
    assert torch.all(output == 0)
    assert all(torch.all(g == 0) for g in torch.autograd.grad(output.sum(), leaves))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_bias_of_minus_infinity_forbids(backend, dtype):
    inputs = make_inputs(case("", mask="qk", bias="qk"), dtype)
    least = torch.finfo(dtype).min
    inputs["bias"][:, 2] = least + torch.tensor(least, dtype=dtype)  # finfo.min twice is -inf
    inputs["bias"][3] = -math.inf
    want, _, lse = oracle(inputs)
    assert np.isneginf(lse[:, :, 3]).all()
    leaves = [inputs[name].requires_grad_() for name in ("q", "k", "v", "bias")]
    output = attention(**inputs, backend=backend)
    assert distance(output, want) <= TOLERANCE[dtype]
    for gradient in torch.autograd.grad(output.sum(), leaves):
        assert torch.isfinite(gradient).all()


# --- what is padding may hold anything


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "case",
    [
        case("padding", mask="B--k", H_kv=2),
        case("padding and causal", mask="B--k", T_q=7, T_k=7, causal=True),
        case("mask per head", mask="BHqk", H_kv=2),
        case("positions", positions="shared", T_q=5, T_k=9, causal=True),
    ],
    ids=str,
)
def test_garbage_that_nobody_may_attend_to_changes_nothing(case, garbage, backend):
    clean = make_inputs(case)
    B, T_q, T_k = case.B, case.T_q, case.T_k
    idle_query, unseen_key = (
        torch.zeros(B, 1, T_q, 1, dtype=torch.bool),
        torch.zeros(B, 1, T_k, 1, dtype=torch.bool),
    )
    if case.positions:
        clean["k_pos"][4] = 10**6  # an empty slot of a cache
        unseen_key[:, :, 4] = True
        clean["q_pos"][2] = -1
        idle_query[:, :, 2] = True
    else:
        unseen_key[0, :, 3] = unseen_key[1, :, 0] = True
        idle_query[1, :, 2] = True
        mask = clean["mask"] & ~unseen_key.mT
        clean["mask"] = mask & ~idle_query if case.mask == "BHqk" else mask
        if case.mask != "BHqk":
            idle_query[:] = False
    dirty = dict(clean)
    dirty["q"] = clean["q"].masked_fill(idle_query, garbage)
    dirty["k"] = clean["k"].masked_fill(unseen_key, garbage)
    dirty["v"] = clean["v"].masked_fill(unseen_key, garbage)

    for name, got in run(dirty, backend).items():
        assert torch.equal(got, run(clean, backend)[name]), name
    for name, got in gradients(dirty, backend).items():
        assert torch.equal(got, gradients(clean, backend)[name]), name


@pytest.mark.slow
def test_garbage_that_is_attended_to_shows(backend):
    inputs = make_inputs(case("", T_q=7, T_k=7, causal=True))
    inputs["v"][0, 0, 0] = math.nan
    output = attention(**inputs, backend=backend)
    assert torch.isnan(output[0, 0]).all()
    assert torch.isfinite(output[1]).all()


# --- large scores


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_scores_of_ten_thousand_that_differ_by_little(dtype, backend):
    """Scores of 10000 + 0, 1 or 2, which float32 holds exactly: the weights are those of 0, 1 and 2."""
    inputs = make_inputs(case("", T_q=7, T_k=300, d_k=2, H_kv=2, mask="qk"), dtype)
    inputs["q"] = torch.tensor([100.0, 1.0], dtype=dtype).expand(2, 6, 7, 2)
    inputs["k"] = (
        torch.stack([torch.full((300,), 100.0), torch.arange(300.0) % 3], dim=-1)
        .expand(2, 2, 300, 2)
        .to(dtype)
    )
    inputs["scale"] = 1.0
    # Tiles are put together by their lse, and a float32 near 10,000 is only known to 5e-4.
    tolerance = torch.finfo(dtype).eps * (1e4 if backend == "tiled" else 10)
    assert distance(attention(**inputs, backend=backend), oracle(inputs)[0]) <= tolerance
    got, exact = gradients(inputs, backend), reference_gradients(inputs)
    for name in ("q", "k", "v"):  # the last channel: the first multiplies the rounding error by 100
        assert distance(got[name][..., -1], exact[name][..., -1]) <= 10 * tolerance, name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_scores_that_saturate(dtype, backend):
    inputs = make_inputs(case("", T_q=7, T_k=300, H_kv=2, mask="qk"), dtype)
    inputs["scale"] = 2000.0
    want, _, lse = oracle(inputs)
    assert np.abs(lse).max() > 1e4
    assert distance(attention(**inputs, backend=backend), want) <= torch.finfo(dtype).eps * np.abs(lse).max()
    assert all(torch.isfinite(gradient).all() for gradient in gradients(inputs, backend).values())


# --- layouts and inputs


def test_inputs_that_are_not_contiguous(backend):
    inputs = make_inputs(case("", H=6, H_kv=3, T_q=9, T_k=9, causal=True, mask="BHqk", bias="BHqk"))
    strided = dict(inputs)
    for name in ("q", "k", "v", "mask", "bias"):
        strided[name] = inputs[name].permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
        assert not strided[name].is_contiguous()
    assert distance(attention(**strided, backend=backend), oracle(inputs)[0]) <= 1e-14
    for name, got in gradients(strided, backend).items():
        assert distance(got, reference_gradients(inputs)[name]) <= 1e-13, name


def test_expanded_inputs(backend):
    inputs = make_inputs(case("", B=1, H=1, H_kv=1))
    expanded = {name: x.expand(2, 6, -1, -1) for name, x in inputs.items()}
    assert distance(attention(**expanded, backend=backend), oracle(expanded)[0]) <= 1e-14
    leaves = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    output = attention(*(x.expand(2, 6, -1, -1) for x in leaves.values()), backend=backend)
    got = torch.autograd.grad(output, list(leaves.values()), output_gradient(expanded))
    for gradient, want in zip(got, reference_gradients(expanded).values(), strict=True):
        assert distance(gradient, want.sum((0, 1), keepdims=True)) <= 1e-13


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inputs_are_not_changed(backend, dtype):
    inputs = make_inputs(next(c for c in CASES if c.name == "everything"), dtype)
    before = {name: x.clone() for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    gradients(inputs, backend)
    for name, x in before.items():
        assert torch.equal(inputs[name], x), name


def test_autocast_does_not_lower_the_precision(backend):
    inputs = make_inputs(case("", causal=True), torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = attention(**inputs, backend=backend)
    assert output.dtype == torch.float32
    assert distance(output, oracle(inputs)[0]) <= TOLERANCE[torch.float32]


# --- the same attention, asked for in another way


def test_decoding_in_chunks_gives_the_same_as_all_at_once(backend):
    inputs = make_inputs(case("", T_q=11, T_k=11, H_kv=2, causal=True, window=6))
    whole = attention(**inputs, backend=backend)
    for chunks in ([11], [4, 4, 3], [1] * 11, [10, 1]):
        pieces, done = [], 0
        for size in chunks:
            q = inputs["q"][:, :, done : done + size]
            done += size
            k, v = inputs["k"][:, :, :done], inputs["v"][:, :, :done]
            pieces.append(attention(q, k, v, causal=True, window=6, backend=backend))
        assert distance(torch.cat(pieces, dim=2), whole.numpy()) <= 1e-14, chunks


def test_left_padding_gives_the_same_as_no_padding(backend):
    alone = make_inputs(case("", B=1, T_q=5, T_k=5, causal=True))
    padded = {name: F.pad(alone[name], (0, 0, 3, 0), value=math.nan) for name in "qkv"}
    real = torch.arange(8) >= 3
    positions = torch.arange(8) - 3
    output = attention(
        **padded,
        mask=real[None, :] & real[:, None],
        causal=True,
        q_pos=positions,
        k_pos=positions,
        backend=backend,
    )
    assert distance(output[:, :, 3:], oracle(alone)[0]) <= 1e-14


def test_causal_and_window_equal_their_masks(backend):
    inputs = make_inputs(case("", T_q=9, T_k=9, H_kv=2))
    i, j = torch.arange(9)[:, None], torch.arange(9)[None, :]
    as_mask = attention(**inputs, mask=(j <= i) & (j > i - 4), backend=backend)
    assert distance(attention(**inputs, causal=True, window=4, backend=backend), as_mask.numpy()) <= 1e-14
