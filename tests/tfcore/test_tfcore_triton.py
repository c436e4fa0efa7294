"""The Triton kernels against the oracle: on a GPU, and without one in Triton's interpreter.

Triton decides when it is imported whether kernels are compiled or interpreted. So the tests that take a
``device`` run on ``cuda`` here, and ``test_all_of_this_in_the_interpreter`` runs this file once more, in a
process of its own, where they run on ``cpu``.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import re
import subprocess
import sys

import pytest
import torch
from attention_oracle import (
    CASES,
    GRADIENT_TOLERANCE,
    TOLERANCE,
    case,
    distance,
    make_inputs,
    oracle,
    output_gradient,
    reference_gradients,
)

import tfcore.attention.triton
from tfcore.attention import BACKENDS, attention

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# As in attention_oracle.py: a float16 is rounded by 2^-11, eight times less than a bfloat16.
TOLERANCE = {**TOLERANCE, torch.float16: 2**-9}
GRADIENT_TOLERANCE = {**GRADIENT_TOLERANCE, torch.float16: 2**-8}

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the triton package"
)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ON_CUDA = pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda, needs_triton])


def smaller(case):
    """The interpreter takes its time for every head of every sequence: a few will do."""
    heads = {"H": min(case.H, 2), "H_kv": min(case.H, 2)} if case.H_kv == case.H else {}
    return dataclasses.replace(case, B=1, **heads)


SERVED = [
    *(smaller(c) for c in CASES if not (c.mask or c.bias or c.positions)),
    case("a batch", B=3, H=4, H_kv=2, T_q=5, T_k=7, causal=True),
    # edge, middle and edge of the band, each over several blocks
    case("wide window", B=1, H=2, H_kv=1, T_q=137, T_k=201, d_k=17, d_v=20, causal=True, window=111),
    case("wide window on both sides", B=1, H=2, H_kv=2, T_q=201, T_k=137, d_k=17, d_v=4, window=111),
    case("causal, many more queries", B=1, H=2, H_kv=2, T_q=137, T_k=71, d_k=3, d_v=40, causal=True),
    case("window that leaves keys out", B=1, H=2, H_kv=2, T_q=9, T_k=137, d_k=3, causal=True, window=70),
]
REFUSED = [c for c in CASES if c.mask or c.bias or c.positions]
SMALL_BLOCKS = {"forward": (32, 64, 4, 2), "dq": (64, 32, 4, 2), "dk_dv": (32, 64, 4, 2)}


@pytest.fixture(params=["cpu"] if INTERPRETED else [ON_CUDA])
def device(request, monkeypatch):
    """A device, and blocks so small that the longer cases have several, the last ragged."""
    small = dict.fromkeys((64, 128, 256), SMALL_BLOCKS)
    monkeypatch.setattr(tfcore.attention.triton, "BLOCKS", dict.fromkeys(TOLERANCE, small))
    torch.backends.cuda.matmul.allow_tf32 = False
    return request.param


def check(case, dtype, device):
    inputs = make_inputs(case, dtype, device)
    leaves = {name: inputs[name].requires_grad_() for name in "qkv"}
    output, lse = attention(**inputs, backend="triton", return_lse=True)
    want, _, want_lse = oracle(inputs)
    assert (output.dtype, lse.dtype) == (dtype, torch.float32)
    assert distance(output, want) <= TOLERANCE[dtype], "output"
    assert distance(lse, want_lse) <= TOLERANCE[torch.float32], "lse"
    gradients = torch.autograd.grad(output, list(leaves.values()), output_gradient(inputs))
    for name, gradient, exact in zip("qkv", gradients, reference_gradients(inputs).values(), strict=True):
        assert gradient.dtype == dtype
        assert distance(gradient, exact) <= GRADIENT_TOLERANCE[dtype], f"gradient of {name}"


# --- the kernels


@pytest.mark.parametrize("case", SERVED, ids=str)
def test_forward_and_backward_match_the_oracle(case, device):
    check(case, torch.float32 if device == "cpu" else torch.bfloat16, device)


@pytest.mark.parametrize("name", ["a batch", "window over several blocks"])
def test_half_precision(name, device):
    check(next(c for c in SERVED if c.name == name), torch.float16, device)


@pytest.mark.gpu
@needs_cuda
@needs_triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("width", [64, 128, 256, 80])
def test_the_blocks_in_use(width, dtype):
    check(case("", B=2, H=4, H_kv=1, T_q=301, T_k=517, d_k=width, d_v=width, causal=True), dtype, "cuda")


def test_gradients_through_the_lse(device):
    """What ring attention and split caches need: both results of the kernel have a gradient."""
    inputs = make_inputs(case("", B=1, T_q=5, T_k=7, H_kv=3, causal=True), torch.float32, device)

    def gradients(dtype, backend):
        leaves = [inputs[name].to(dtype).requires_grad_() for name in "qkv"]
        output, lse = attention(*leaves, causal=True, backend=backend, return_lse=True)
        loss = output.square().sum() + (lse * lse.detach().cos()).sum()
        return torch.autograd.grad(loss, leaves)

    for got, exact in zip(
        gradients(torch.float32, "triton"), gradients(torch.float64, "explicit"), strict=True
    ):
        assert distance(got, exact.cpu().numpy()) <= GRADIENT_TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    "case",
    [
        case("queries before every key", B=1, H=2, H_kv=1, T_q=9, T_k=4, causal=True),
        case("keys before every window", B=1, H=2, H_kv=1, T_q=4, T_k=9, causal=True, window=3),
        case("queries before every window", B=1, H=2, H_kv=1, T_q=9, T_k=4, window=3),
    ],
    ids=str,
)
def test_what_nobody_attends_to_may_hold_anything(case, device):
    clean = make_inputs(case, torch.float32, device)
    _, _, lse = oracle(clean)
    idle = torch.tensor(lse[0, 0] == -math.inf, device=device)
    dirty = {**clean, "q": clean["q"].masked_fill(idle[:, None], math.nan)}
    if "window" in clean:
        unseen = torch.arange(case.T_k, device=device) <= case.T_k - case.T_q - clean["window"]
        dirty |= {name: clean[name].masked_fill(unseen[:, None], math.nan) for name in "kv"}
    assert any(dirty[name].isnan().any() for name in "qkv")

    def results(inputs):
        leaves = [inputs[name].clone().requires_grad_() for name in "qkv"]
        output, lse = attention(
            **{**inputs, **dict(zip("qkv", leaves, strict=True))}, backend="triton", return_lse=True
        )
        loss = output.square().sum() + lse.exp().sum()
        return output, lse, *torch.autograd.grad(loss, leaves)

    for got, want in zip(results(dirty), results(clean), strict=True):
        assert torch.equal(got, want)
        assert not got.isnan().any()
    assert distance(results(clean)[1], lse) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_far_from_zero(sign, device):
    """Scores of about 150 or -150: no exponential of a score itself is in the range of float32."""
    inputs = make_inputs(case("", B=1, H=2, H_kv=1, T_q=5, T_k=7), torch.float32, device)
    inputs["q"] = torch.cat([inputs["q"], torch.full_like(inputs["q"][..., :1], 30.0)], dim=-1)
    inputs["k"] = torch.cat([inputs["k"], torch.full_like(inputs["k"][..., :1], sign * 15.0)], dim=-1)
    _, _, lse = oracle(inputs)
    assert (sign * lse > 120).all()
    leaves = [inputs[name].requires_grad_() for name in "qkv"]
    output = attention(*leaves, backend="triton")
    coarse = 50  # a score of 150 is rounded by that much more than one of 3
    assert distance(output, oracle(inputs)[0]) <= coarse * TOLERANCE[torch.float32]
    gradients = torch.autograd.grad(output, leaves, output_gradient(inputs))
    for got, exact in zip(gradients, reference_gradients(inputs).values(), strict=True):
        assert distance(got, exact) <= coarse * GRADIENT_TOLERANCE[torch.float32]


def test_inputs_that_are_not_contiguous(device):
    inputs = make_inputs(case("", B=1, H_kv=2, T_q=9, T_k=9, causal=True), torch.float32, device)
    strided = {n: inputs[n].permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0) for n in "qkv"}
    shared = {n: inputs[n][:, :1, :, :1].expand(inputs[n].shape) for n in "qkv"}
    for given in (strided, shared):
        assert not any(x.is_contiguous() for x in given.values())
        leaves = [x.requires_grad_() for x in given.values()]
        output = attention(*leaves, causal=True, backend="triton")
        assert distance(output, oracle({**given, "causal": True})[0]) <= TOLERANCE[torch.float32]
        got = torch.autograd.grad(output.sum(), leaves)  # the gradient of a sum is expanded from one number
        double = [x.detach().double().requires_grad_() for x in leaves]
        exact = torch.autograd.grad(attention(*double, causal=True, backend="explicit").sum(), double)
        for x, y in zip(got, exact, strict=True):
            assert distance(x, y.cpu().numpy()) <= GRADIENT_TOLERANCE[torch.float32]


def test_inputs_are_not_changed(device):
    inputs = make_inputs(case("", B=1, T_q=9, T_k=4, causal=True), torch.float32, device)
    before = [inputs[name].clone() for name in "qkv"]
    leaves = [inputs[name].requires_grad_() for name in "qkv"]
    attention(**inputs, backend="triton").sum().backward()
    assert all(torch.equal(x, y) for x, y in zip(leaves, before, strict=True))


def test_no_queries_at_all(device):
    q, k = torch.zeros(1, 2, 0, 8, device=device), torch.ones(1, 2, 3, 8, device=device)
    output, lse = attention(q, k, k, causal=True, backend="triton", return_lse=True)
    assert (output.shape, lse.shape) == ((1, 2, 0, 8), (1, 2, 0))


@needs_triton
@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="this is the run in the interpreter")
def test_all_of_this_in_the_interpreter():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-p", "no:cacheprovider", "--tb=short"],
        env={**environment, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-1000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > len(SERVED)


@needs_triton
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.skipif(INTERPRETED, reason="the interpreter does not compile")
@pytest.mark.parametrize("d_head", [64, 128])
def test_the_kernels_compile_for_a_gpu_that_is_not_there(d_head, monkeypatch, tmp_path, capfd):
    """The interpreter takes more than the compiler does, and bfloat16 not at all."""
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from tfcore.attention import triton_kernels

    class Hopper:
        def get_current_device(self):
            return 99  # compiled kernels are kept by device: let this be no device that is there

        def get_current_stream(self, device):
            return 0

        def get_current_target(self):
            return GPUTarget("cuda", 90, 32)

    class CompileOnly:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            return lambda *args, **kw: compiled.append(self.kernel.warmup(*args, grid=grid, **kw))

    compiled = []
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(type(driver), "active", Hopper())
    for name in ("forward_kernel", "dq_kernel", "dk_dv_kernel"):
        monkeypatch.setattr(triton_kernels, name, CompileOnly(getattr(triton_kernels, name)))
    anywhere = dataclasses.replace(BACKENDS["triton"], refusal=lambda *call: None)
    monkeypatch.setitem(BACKENDS, "triton", anywhere)
    monkeypatch.setattr(knobs.nvidia, "dump_ptxas_log", True)
    x = torch.zeros(1, 2, 5, d_head, dtype=torch.bfloat16, requires_grad=True)
    attention(x, x, x, causal=True, backend="triton").sum().backward()
    assert len(compiled) == 3
    log = capfd.readouterr().out
    assert log.count("Used ") == 3
    assert "wgmma.mma_async instructions are serialized" not in log
    for kernel in compiled:
        assert "wgmma.mma_async" in kernel.asm["ptx"]  # the matrix units
        assert "cp.async.cg.shared.global" in kernel.asm["ptx"]  # blocks on their way while others are used
        assert kernel.metadata.shared <= 99 * 1024


# --- behind attention


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_cases_that_the_kernels_cannot_serve_raise(case):
    inputs = make_inputs(case, torch.float32)
    part = "explicit positions" if case.positions else "a bias" if case.bias else "a mask"
    part = "a mask" if case.mask else part
    with pytest.raises(ValueError, match=f"expected a call that 'triton' can serve, got {part}; use fused"):
        attention(**inputs, backend="triton")


x = torch.zeros(2, 6, 5, 8)
REFUSALS = {
    "float64": ({"q": x.double(), "k": x.double(), "v": x.double()}, "got torch.float64"),
    "wide": ({"v": torch.zeros(2, 6, 5, 257)}, "got heads of width 257"),
    "window": ({"window": 0}, "got a window of 0"),
    "weights": ({"return_weights": True}, "returns the weights, got 'triton'"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSALS.values(), ids=REFUSALS)
def test_arguments_that_the_kernels_cannot_serve(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        attention(**{"q": x, "k": x, "v": x, **arguments}, backend="triton")


@needs_triton
@pytest.mark.skipif(INTERPRETED, reason="the interpreter does serve them")
def test_without_a_gpu_the_interpreter_is_named():
    with pytest.raises(ValueError, match="tensors on cpu without TRITON_INTERPRET=1 in the environment"):
        attention(x, x, x, backend="triton")


@needs_triton
@pytest.mark.skipif(not INTERPRETED, reason="about the interpreter")
def test_the_interpreter_cannot_multiply_bfloat16():
    with pytest.raises(ValueError, match=r"torch\.bfloat16 in Triton's interpreter"):
        attention(x.bfloat16(), x.bfloat16(), x.bfloat16(), backend="triton")


@pytest.mark.slow
def test_only_a_call_by_name_needs_the_triton_package():
    code = """
import sys
sys.modules["triton"] = None
import torch
from tfcore.attention import attention
x = torch.ones(1, 2, 3, 4)
attention(x, x, x, causal=True)
print("tfcore.attention.triton_kernels" in sys.modules)
from tfcore.attention import triton_kernels
try:
    attention(x, x, x, backend="triton")
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, message = run.stdout.splitlines()
    assert imported == "False"
    assert "got a call where the triton package is not installed; use fused or tiled" in message


def test_auto_takes_what_is_declared_the_fastest_where_it_serves(monkeypatch):
    ran = []

    def declare(**changes):
        spy = lambda *call: ran.append(call) or BACKENDS["tiled"].run(*call)  # noqa: E731
        row = dataclasses.replace(BACKENDS["triton"], run=spy, **changes)
        monkeypatch.setitem(BACKENDS, "triton", row)
        attention(x, x, x, causal=True)
        return len(ran)

    assert declare(refusal=lambda *call: None) == 0
    assert declare(fastest=lambda *call: True, refusal=lambda *call: "this") == 0
    assert declare(fastest=lambda *call: True, refusal=lambda *call: None) == 1
