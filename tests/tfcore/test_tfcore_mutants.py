"""The grid is not blind: wrong attention, one fault at a time, must fail the comparison that ours passes.

Each mutant is the textbook with one piece exchanged. A mutant that no case of the grid rejects means that the
grid cannot see the fault, so that ours might have it as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_oracle import (
    CASES,
    GRADIENT_TOLERANCE,
    TOLERANCE,
    Inputs,
    allowed_pairs,
    distance,
    make_inputs,
    numbers,
    oracle,
    output_gradient,
    reference_gradients,
)

DTYPES = [torch.float64, *(pytest.param(d, marks=pytest.mark.slow) for d in (torch.float32, torch.bfloat16))]
Array = np.ndarray


def given_scale(inputs: Inputs, default: float | None = None) -> float:
    default = inputs["q"].shape[-1] ** -0.5 if default is None else default
    return inputs.get("scale", default)


def interleave(x: Array, groups: int) -> Array:
    return np.repeat(x, groups, axis=1)


def score(q: Array, k: Array, scale: float, bias: Array | float) -> Array:
    return q @ k.swapaxes(-1, -2) * scale + bias


def softmax(scores: Array, axis: int = -1) -> Array:
    peak = scores.max(axis=axis, keepdims=True)
    exp = np.exp(scores - np.where(peak == -math.inf, 0, peak))
    total = exp.sum(axis=axis, keepdims=True)
    return exp / np.where(total == 0, 1, total)


def weigh(scores: Array, allowed: Array) -> Array:
    return softmax(np.where(allowed, scores, -math.inf))


def by_weights(scores: Array, v: Array, allowed: Array, weigh: Callable[..., Array] = weigh) -> Array:
    return weigh(scores, allowed) @ v


def by_tiles(scores: Array, v: Array, allowed: Array, *, fault: str = "", block: int = 4) -> Array:
    """Go over the keys block by block with a running maximum, sum and output."""
    rows = scores.shape[:-1]
    peak, total, output = np.full(rows, -math.inf), np.zeros(rows), np.zeros((*rows, v.shape[-1]))
    length = scores.shape[-1]
    last = length // block * block if fault == "ragged" and length > block else length
    for start in range(0, last, block):
        cols = slice(start, start + block)
        tile = np.where(allowed[..., cols], scores[..., cols], -math.inf)
        new_peak = np.maximum(peak, tile.max(axis=-1))
        safe = np.where(new_peak == -math.inf, 0, new_peak)
        shrink = np.exp(peak - safe)
        exp = np.exp(tile - safe[..., None])
        total = total * (1 if fault == "sum" else shrink) + exp.sum(axis=-1)
        output = output * (1 if fault == "output" else shrink[..., None]) + exp @ v[..., cols, :]
        peak = new_peak
    return output / np.where(total == 0, 1, total)[..., None]


def tiles_averaged(scores: Array, v: Array, allowed: Array) -> Array:
    starts = range(0, scores.shape[-1], 4)
    cuts = [slice(start, start + 4) for start in starts]
    return sum(weigh(scores[..., c], allowed[..., c]) @ v[..., c, :] for c in cuts) / len(cuts)


def textbook(
    inputs: Inputs,
    *,
    scale: Callable[..., float] = given_scale,
    heads: Callable[..., Array] = interleave,
    allowed: Callable[..., Array] = allowed_pairs,
    score: Callable[..., Array] = score,
    attend: Callable[..., Array] = by_weights,
) -> torch.Tensor:
    q, k, v = (numbers(inputs[name]) for name in "qkv")
    groups = q.shape[1] // k.shape[1]
    bias = numbers(inputs["bias"]) if "bias" in inputs else 0.0
    scores = score(q, heads(k, groups), scale(inputs), bias)
    output = attend(scores, heads(v, groups), allowed(inputs))
    return torch.tensor(output).to(inputs["q"].dtype)


def seeing(**changes: Callable[[Any], Any]) -> Callable[[Inputs], Array]:
    """Decide who may attend to whom after a change to the arguments that are there."""
    return lambda inputs: allowed_pairs({n: changes.get(n, lambda x: x)(x) for n, x in inputs.items()})


def without(*names: str) -> Callable[[Inputs], Array]:
    return lambda inputs: allowed_pairs({n: x for n, x in inputs.items() if n not in names})


def upper_left(inputs: Inputs) -> Array:
    i = torch.arange(inputs["q"].shape[2])
    return allowed_pairs({"q_pos": i, **inputs})


def causal_or_mask(inputs: Inputs) -> Array:
    if not (inputs.get("causal") and "mask" in inputs):
        return allowed_pairs(inputs)
    return without("mask")(inputs) | without("causal", "window")(inputs)


def strictly_before(inputs: Inputs) -> Array:
    if not inputs.get("causal"):
        return allowed_pairs(inputs)
    T_q, T_k = inputs["q"].shape[2], inputs["k"].shape[2]
    return allowed_pairs({**inputs, "q_pos": inputs.get("q_pos", torch.arange(T_k - T_q, T_k)) - 1})


def first_of(axis: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda mask: mask.narrow(axis, 0, 1) if mask.ndim > axis else mask


def past_window_only(inputs: Inputs) -> Array:
    return allowed_pairs({**inputs, "causal": True}) if "window" in inputs else allowed_pairs(inputs)


def in_half(weigh: Callable[..., Array]) -> Callable[..., Array]:
    return lambda s, v, a: weigh(torch.tensor(s).bfloat16().double().numpy(), a) @ v


EXCHANGED: dict[str, dict[str, Callable[..., Any]]] = {
    "no scale": {"scale": lambda i: given_scale(i, 1.0)},
    "scaled by d_k, not its root": {"scale": lambda i: given_scale(i, 1 / i["q"].shape[-1])},
    "scaled by the root of d_v": {"scale": lambda i: given_scale(i, i["v"].shape[-1] ** -0.5)},
    "scaled by the root of d_model": {
        "scale": lambda i: given_scale(i, (i["q"].shape[1] * i["q"].shape[-1]) ** -0.5)
    },
    "scaled by the root of T_k": {"scale": lambda i: given_scale(i, i["k"].shape[2] ** -0.5)},
    "the given scale ignored": {"scale": lambda i: i["q"].shape[-1] ** -0.5},
    "bias scaled as well": {"score": lambda q, k, s, b: (q @ k.swapaxes(-1, -2) + b) * s},
    "bias ignored": {"score": lambda q, k, s, b: score(q, k, s, 0.0)},
    "bias subtracted": {"score": lambda q, k, s, b: score(q, k, s, -b)},
    "key axes swapped by reshape": {
        "score": lambda q, k, s, b: q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) * s + b
    },
    "grouped heads in tile order": {"heads": lambda x, groups: np.tile(x, (1, groups, 1, 1))},
    "first key head for all": {"heads": lambda x, groups: np.repeat(x[:, :1], groups * x.shape[1], axis=1)},
    "causal ignored": {"allowed": without("causal")},
    "causal from the upper left": {"allowed": upper_left},
    "causal by index, positions ignored": {"allowed": without("q_pos", "k_pos")},
    "causal without the token itself": {"allowed": strictly_before},
    "window ignored": {"allowed": without("window")},
    "window one too wide": {"allowed": seeing(window=lambda w: w + 1)},
    "window one too narrow": {"allowed": seeing(window=lambda w: w - 1)},
    "window never looks ahead": {"allowed": past_window_only},
    "mask ignored": {"allowed": without("mask")},
    "mask inverted": {"allowed": seeing(mask=torch.logical_not)},
    "first sequence's mask for all": {"allowed": seeing(mask=lambda m: first_of(0)(m) if m.ndim == 4 else m)},
    "first head's mask for all": {"allowed": seeing(mask=lambda m: first_of(1)(m) if m.ndim == 4 else m)},
    "mask or causal": {"allowed": causal_or_mask},
    "mask after softmax": {"attend": lambda s, v, a: softmax(s) * a @ v},
    "empty rows attend evenly": {"attend": lambda s, v, a: softmax(np.where(a, s, -1e300)) @ v},
    "softmax over the queries": {"attend": lambda s, v, a: softmax(np.where(a, s, -math.inf), axis=-2) @ v},
    "softmax over the heads": {"attend": lambda s, v, a: softmax(np.where(a, s, -math.inf), axis=1) @ v},
    "hard maximum": {"attend": lambda s, v, a: weigh(s * 1e3, a) @ v},
    "uniform weights": {"attend": lambda s, v, a: weigh(s * 0, a) @ v},
    "tiles: sum not rescaled": {"attend": functools.partial(by_tiles, fault="sum")},
    "tiles: output not rescaled": {"attend": functools.partial(by_tiles, fault="output")},
    "tiles: ragged last block dropped": {"attend": functools.partial(by_tiles, fault="ragged")},
    "tiles: averaged, not merged": {"attend": tiles_averaged},
    "scores in half precision": {"attend": in_half(weigh)},
}
# A bfloat16 result cannot tell whether the scores were rounded to bfloat16 too.
BLIND = {("scores in half precision", torch.bfloat16)}


@functools.cache
def expected(dtype: torch.dtype) -> list[tuple[Inputs, Array]]:
    return [(inputs, oracle(inputs)[0]) for inputs in (make_inputs(case, dtype) for case in CASES)]


def rejecting(pieces: dict[str, Callable[..., Any]], dtype: torch.dtype) -> str | None:
    """Name the first case of the grid that rejects an attention with these pieces exchanged."""
    for case, (inputs, want) in zip(CASES, expected(dtype), strict=True):
        if distance(textbook(inputs, **pieces), want) > TOLERANCE[dtype]:
            return case.name
    return None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attend", [by_weights, by_tiles])
def test_the_textbook_that_the_mutants_come_from_is_right(attend, dtype):
    assert rejecting({"attend": attend}, dtype) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", EXCHANGED)
def test_the_grid_rejects(name, dtype):
    if (name, dtype) in BLIND:
        pytest.skip("a bfloat16 result cannot tell")
    assert rejecting(EXCHANGED[name], dtype), f"no case of the grid notices: {name}"


# --- the backward pass


def first_copy(x: Array, groups: int) -> Array:
    return x[:, ::groups]


def summed_copies(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], -1, groups, *x.shape[2:]).sum(axis=2)


def textbook_gradients(
    inputs: Inputs,
    *,
    jacobian: Callable[..., Array] = lambda p, dp: p * (dp - (p * dp).sum(-1, keepdims=True)),
    scale_q: Callable[..., float] = given_scale,
    scale_k: Callable[..., float] = given_scale,
    collect: Callable[..., Array] = summed_copies,
    values: Callable[..., Array] = lambda p, dp, d_out: p.swapaxes(-1, -2) @ d_out,
    reduce_bias: Callable[..., Array] = np.sum,
) -> dict[str, Array]:
    q, k, v = (numbers(inputs[name]) for name in "qkv")
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = interleave(k, groups), interleave(v, groups)
    p, d_out = oracle(inputs)[1], numbers(output_gradient(inputs))
    d_scores = jacobian(p, d_out @ wide_v.swapaxes(-1, -2))
    result = {
        "q": d_scores @ wide_k * scale_q(inputs),
        "k": collect(d_scores.swapaxes(-1, -2) @ q * scale_k(inputs), groups),
        "v": collect(values(p, d_scores, d_out), groups),
    }
    if "bias" in inputs:
        shape = (1,) * (4 - inputs["bias"].ndim) + tuple(inputs["bias"].shape)
        shared = tuple(axis for axis, size in enumerate(shape) if size == 1)
        reduced = reduce_bias(d_scores, axis=shared, keepdims=True) if shared else d_scores
        result["bias"] = reduced.reshape(inputs["bias"].shape)
    return result


BACKWARD: dict[str, dict[str, Callable[..., Any]]] = {
    "only the diagonal of softmax's Jacobian": {"jacobian": lambda p, dp: p * (1 - p) * dp},
    "softmax's Jacobian without the sum over keys": {"jacobian": lambda p, dp: p * dp},
    "the sum over keys not weighted": {"jacobian": lambda p, dp: p * (dp - dp.mean(-1, keepdims=True))},
    "no softmax in the backward pass": {"jacobian": lambda p, dp: dp},
    "gradient of q not scaled": {"scale_q": lambda i: 1.0},
    "gradient of k not scaled": {"scale_k": lambda i: 1.0},
    "gradient of the first copy of a shared head alone": {"collect": first_copy},
    "gradients of the copies averaged": {"collect": lambda x, n: summed_copies(x, n) / n},
    "gradient of v by the score's gradient": {"values": lambda p, ds, do: ds.swapaxes(-1, -2) @ do},
    "gradient of a shared bias averaged": {"reduce_bias": np.mean},
}


@functools.cache
def expected_gradients(case, dtype):
    return reference_gradients(make_inputs(case, dtype))


def rejecting_gradients(pieces: dict[str, Callable[..., Any]], dtype: torch.dtype) -> str | None:
    for case in CASES:
        inputs, want = make_inputs(case, dtype), expected_gradients(case, dtype)
        got = textbook_gradients(inputs, **pieces)
        if any(distance(got[name], want[name]) > GRADIENT_TOLERANCE[dtype] for name in want):
            return case.name
    return None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[::2], ids=str)
def test_the_gradients_that_the_mutants_come_from_are_right(dtype):
    assert rejecting_gradients({}, dtype) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[::2], ids=str)
@pytest.mark.parametrize("name", BACKWARD)
def test_the_grid_rejects_gradients(name, dtype):
    assert rejecting_gradients(BACKWARD[name], dtype), f"no case of the grid notices: {name}"
