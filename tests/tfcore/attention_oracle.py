"""What attention must give: an oracle in loops, the grid of cases, and how close is close enough.

Nothing here calls tfcore. The oracle decides who may attend to whom by plain comparisons of numbers and adds
up in float64, one query at a time; the gradients come from torch's own SDPA in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One point of the grid. Sizes above 1 are distinct, so that no wrong axis hides; see the test of it."""

    name: str
    B: int = 2
    H: int = 6
    H_kv: int = 6
    T_q: int = 5
    T_k: int = 7
    d_k: int = 8
    d_v: int = 10
    mask: str = ""  # its axes, "-" for one of size 1: "qk", "-qk", "B--k", "BHqk", "B-q-"
    empty_rows: bool = False
    bias: str = ""  # likewise
    options: tuple[tuple[str, Any], ...] = ()
    positions: str = ""  # "", "q" (T_q,), "shared" (T,), "batch" (B, T)

    def __str__(self) -> str:
        return self.name


def case(
    name: str, *, causal: bool = False, window: int | None = None, scale: float | None = None, **kw: Any
):
    options = {"causal": causal, "window": window, "scale": scale}
    return Case(
        name, options=tuple((k, v) for k, v in options.items() if v is not False and v is not None), **kw
    )


CASES = [
    case("plain"),
    case("one of everything", B=1, H=1, H_kv=1, T_q=1, T_k=1, d_k=1, d_v=1),
    case("one query", T_q=1),
    case("one key", T_k=1, T_q=5),
    case("one channel", d_k=1, d_v=4),
    case("wide values", d_k=4, d_v=11),
    case("own scale", scale=0.7),
    case("grouped queries", H_kv=3),
    case("one key head", H_kv=1),
    case("grouped, causal", H_kv=3, T_q=11, T_k=11, causal=True),
    case("mask 2-D", mask="qk"),
    case("mask 3-D", mask="-qk"),
    case("mask 4-D", mask="BHqk"),
    case("mask of padded keys", mask="B--k"),
    case("mask of padded queries", mask="B-q-", empty_rows=True),
    case("mask 4-D, grouped", H_kv=3, mask="BHqk", empty_rows=True),
    case("mask with empty rows", mask="qk", empty_rows=True),
    case("causal, square", T_q=7, T_k=7, causal=True),
    case("causal, square, own scale", T_q=7, T_k=7, causal=True, scale=0.7),
    case("causal, square, scale of 0", T_q=7, T_k=7, causal=True, scale=0.0),
    case("causal, square, negative scale", T_q=7, T_k=7, causal=True, scale=-0.7),
    case("causal, one query", T_q=1, causal=True),
    case("causal, longer keys", T_q=5, T_k=11, causal=True),
    case("causal, longer queries", T_q=9, T_k=4, causal=True),
    case("causal and padded keys", T_q=7, T_k=7, causal=True, mask="B--k"),
    case("window", T_q=9, T_k=9, causal=True, window=3),
    case("window of one", T_q=9, T_k=9, causal=True, window=1),
    case("window, longer keys", T_q=5, T_k=11, causal=True, window=4),
    case("window on both sides", T_q=9, T_k=9, window=3),
    case("position of one query", T_q=1, T_k=9, causal=True, positions="q"),
    case("positions, square", T_q=9, T_k=9, causal=True, positions="shared"),
    case("query positions", T_q=4, T_k=9, causal=True, positions="q"),
    case("positions", T_q=5, T_k=9, causal=True, positions="shared"),
    case("positions per sequence", T_q=5, T_k=9, causal=True, positions="batch"),
    case("positions and window", T_q=5, T_k=9, causal=True, window=4, positions="batch", H_kv=3),
    case("bias 2-D", bias="qk"),
    case("bias per head", bias="-Hqk", T_q=7, T_k=7, causal=True),
    case("bias per key", bias="B--k"),
    case("bias 4-D and mask", bias="BHqk", mask="B--k", H_kv=3),
    case(
        "everything",
        H_kv=3,
        T_q=9,
        T_k=11,
        causal=True,
        window=5,
        mask="BHqk",
        empty_rows=True,
        bias="-H-k",
        positions="batch",
        scale=0.6,
    ),
    case("long rows", B=1, H=2, H_kv=2, T_q=3, T_k=1025),
    case("long columns", B=1, H=2, H_kv=2, T_q=263, T_k=9, d_k=5),
    case("causal over several blocks", B=1, H=2, H_kv=1, T_q=131, T_k=262, d_k=4, causal=True),
    case("window over several blocks", B=1, H=2, H_kv=2, T_q=131, T_k=131, d_k=4, causal=True, window=20),
]


def make_inputs(case: Case, dtype: torch.dtype = torch.float64, device: str = "cpu", seed: int = 0) -> Inputs:
    """Draw the arguments of a case: scores of standard deviation about 1.5, values away from zero."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int, mean: float = 0.0) -> torch.Tensor:
        return torch.tensor(rng.standard_normal(shape) * 1.2 + mean, dtype=dtype, device=device)

    inputs: Inputs = {
        "q": draw(case.B, case.H, case.T_q, case.d_k),
        "k": draw(case.B, case.H_kv, case.T_k, case.d_k, mean=0.3),
        "v": draw(case.B, case.H_kv, case.T_k, case.d_v, mean=1.0),
        **dict(case.options),
    }
    sizes = {"B": case.B, "H": case.H, "q": case.T_q, "k": case.T_k, "-": 1}
    if case.mask:
        mask = rng.random([sizes[axis] for axis in case.mask]) < 0.7
        if mask.shape[-1] > 1:
            mask[..., -1] = True  # no row is empty but those that are asked for
        if case.empty_rows:
            mask[..., 1, :] = False
        inputs["mask"] = torch.tensor(mask, device=device)
    if case.bias:
        inputs["bias"] = draw(*(sizes[axis] for axis in case.bias))
    if case.positions:
        batch = (case.B,) if case.positions == "batch" else ()
        k_pos = rng.permuted(np.broadcast_to(np.arange(case.T_k) * 2, (*batch, case.T_k)), axis=-1)
        q_pos = rng.integers(0, case.T_k if case.positions == "q" else 2 * case.T_k, (*batch, case.T_q))
        inputs["q_pos"] = torch.tensor(q_pos, device=device)
        if case.positions != "q":
            inputs["k_pos"] = torch.tensor(k_pos, device=device)
    return inputs


def numbers(x: torch.Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return x.double().numpy() if x.is_floating_point() else x.numpy()


def allowed_pairs(inputs: Inputs) -> np.ndarray:
    """Say for every batch, head, query and key whether it may attend, by comparing plain numbers."""
    B, H, T_q, _ = inputs["q"].shape
    T_k = inputs["k"].shape[2]
    mask = np.broadcast_to(
        numbers(inputs["mask"]) if inputs.get("mask") is not None else True, (B, H, T_q, T_k)
    )
    positions = {}
    for name, length, first in (("q_pos", T_q, T_k - T_q), ("k_pos", T_k, 0)):
        given = inputs.get(name)
        given = np.array([first + i for i in range(length)]) if given is None else numbers(given)
        positions[name] = np.broadcast_to(given, (B, length))
    allowed = np.zeros((B, H, T_q, T_k), dtype=bool)
    for b, h, i, j in np.ndindex(allowed.shape):
        back = int(positions["q_pos"][b, i]) - int(positions["k_pos"][b, j])
        future = inputs.get("causal", False) and back < 0
        far = inputs.get("window") is not None and not -inputs["window"] < back < inputs["window"]
        allowed[b, h, i, j] = mask[b, h, i, j] and not future and not far
    return allowed


def oracle(inputs: Inputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attend in float64, one query of one head of one sequence at a time: output, weights and lse."""
    q, k, v = (numbers(inputs[name]) for name in "qkv")
    (B, H, T_q, d_k), (H_kv, T_k), d_v = q.shape, k.shape[1:3], v.shape[-1]
    scale = inputs.get("scale")
    scale = 1 / math.sqrt(d_k) if scale is None else scale
    bias = inputs.get("bias")
    bias = np.broadcast_to(0.0 if bias is None else numbers(bias), (B, H, T_q, T_k))
    allowed = allowed_pairs(inputs)
    output, weights = np.zeros((B, H, T_q, d_v)), np.zeros((B, H, T_q, T_k))
    lse = np.full((B, H, T_q), -math.inf)
    for b, h, i in np.ndindex(B, H, T_q):
        kv_head = h * H_kv // H
        seen = [j for j in range(T_k) if allowed[b, h, i, j] and bias[b, h, i, j] > -math.inf]
        if not seen:
            continue
        scores = [scale * float(np.dot(q[b, h, i], k[b, kv_head, j])) + float(bias[b, h, i, j]) for j in seen]
        peak = max(scores)
        total = math.fsum(math.exp(s - peak) for s in scores)
        lse[b, h, i] = peak + math.log(total)
        for j, s in zip(seen, scores, strict=True):
            weights[b, h, i, j] = math.exp(s - peak) / total
            output[b, h, i] += weights[b, h, i, j] * v[b, kv_head, j]
    return output, weights, lse


def output_gradient(inputs: Inputs) -> torch.Tensor:
    """Draw the gradient that reaches the output: a fixed one, so that no two entries weigh the same."""
    shape = (*inputs["q"].shape[:3], inputs["v"].shape[-1])
    rng = np.random.default_rng(17)
    return torch.tensor(rng.standard_normal(shape), dtype=inputs["q"].dtype, device=inputs["q"].device)


def reference_gradients(inputs: Inputs) -> dict[str, np.ndarray]:
    """Differentiate torch's SDPA in float64, each head with its own copy of k and v, empty rows left out."""
    names = [name for name in ("q", "k", "v", "bias") if inputs.get(name) is not None]
    leaves = {name: inputs[name].detach().cpu().double().requires_grad_() for name in names}
    q, k, v = leaves["q"], leaves["k"], leaves["v"]
    copy = [h * k.shape[1] // q.shape[1] for h in range(q.shape[1])]
    allowed = torch.tensor(allowed_pairs(inputs))
    full = allowed | ~allowed.any(-1, keepdim=True)
    scores = torch.zeros(full.shape, dtype=torch.float64).masked_fill(~full, -math.inf)
    if "bias" in leaves:
        scores = scores + leaves["bias"]
    output = F.scaled_dot_product_attention(
        q, k[:, copy], v[:, copy], attn_mask=scores, scale=inputs.get("scale")
    )
    output = output * allowed.any(-1, keepdim=True)
    gradients = torch.autograd.grad(output, list(leaves.values()), output_gradient(inputs).cpu().double())
    return {name: g.numpy() for name, g in zip(names, gradients, strict=True)}


# Rounding errors in units of the largest entry compared. float64 and float32: sums over at most about 1,000
# terms, so some tens of units in the last place (2e-16, 1.2e-7). bfloat16: the inputs are rounded before the
# oracle sees them; left are the rounding of the output (2^-9), of the weights and the bias inside torch's
# kernels (2^-9 each, and scores up to about 5), and the same once more for each factor of a gradient.
TOLERANCE = {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 2**-6}
GRADIENT_TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-5}


def distance(got: torch.Tensor | np.ndarray, expected: np.ndarray) -> float:
    """Measure the largest difference, relative to the largest entry; infinite for NaN or a wrong shape."""
    got = numbers(got) if isinstance(got, torch.Tensor) else got
    if got.shape != expected.shape or np.isnan(got).any():
        return math.inf
    got, expected = got.ravel(), expected.ravel()
    if not np.array_equal(np.isinf(got), np.isinf(expected)) or np.any(
        got[np.isinf(got)] != expected[np.isinf(got)]
    ):
        return math.inf
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - expected[finite]).max() / max(1.0, np.abs(expected[finite]).max()))
