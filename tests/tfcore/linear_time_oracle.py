"""What the linear-time rooms must give, summed in float64 by definition, and a count of what code writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Array = np.ndarray


def numbers(*tensors: torch.Tensor) -> list[Array]:
    return [x.detach().cpu().double().numpy() for x in tensors]


def elu_plus_one(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear_attention_oracle(
    q: Array,
    k: Array,
    v: Array,
    causal: bool,
    *,
    phi_q: Callable[[Array], Array] = elu_plus_one,
    phi_k: Callable[[Array], Array] = elu_plus_one,
    first_unseen: int = 1,
    normalise: bool = True,
) -> Array:
    """Average over keys one query at a time, with the T x T weights; the options make mutants."""
    scores = phi_q(q) @ phi_k(k).swapaxes(-1, -2)
    if causal:
        scores = np.tril(scores, first_unseen - 1)
    return scores @ v / (scores.sum(axis=-1, keepdims=True) if normalise else 1)


def wkv_oracle(
    w: Array,
    u: Array,
    k: Array,
    v: Array,
    *,
    exponent: Callable[[Array, Array, Array, int, int], Array] = lambda w, u, key, t, i: (
        key + u if i == t else key - (t - 1 - i) * w
    ),
) -> Array:
    """Sum the definition of EXERCISES, every t on its own; ``exponent(w, u, k_i, t, i)`` makes mutants."""
    output = np.zeros_like(v)
    for b, t in np.ndindex(k.shape[:2]):
        exponents = np.array([exponent(w, u, k[b, i], t, i) for i in range(t + 1)])
        weights = np.exp(exponents - exponents.max(axis=0))
        output[b, t] = (weights * v[b, : t + 1]).sum(axis=0) / weights.sum(axis=0)
    return output


def selective_scan_oracle(
    u: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    D: Array,
    *,
    drive: Callable[..., Array] = lambda delta, B, u: delta * B * u,
    read: Callable[..., float] = lambda C, before, h: C @ h,
) -> Array:
    """Go through batch, channel and time in loops; ``drive`` and ``read`` make mutants."""
    y = np.zeros_like(u)
    for b, d in np.ndindex(u.shape[0], u.shape[2]):
        h = np.zeros(A.shape[1])
        for t in range(u.shape[1]):
            before = h
            h = np.exp(delta[b, t, d] * A[d]) * h + drive(delta[b, t, d], B[b, t], u[b, t, d])
            y[b, t, d] = read(C[b, t], before, h) + D[d] * u[b, t, d]
    return y


def ssd_oracle(
    x: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    *,
    drive: Callable[..., Array] = lambda delta, x, B: delta * np.outer(x, B),
    read: Callable[..., Array] = lambda before, H, C: H @ C,
    decay_after: bool = False,
) -> Array:
    """Go through batch, head and time in loops; the options make mutants."""
    y = np.zeros_like(x)
    for b, h in np.ndindex(x.shape[0], x.shape[2]):
        H = np.zeros((x.shape[-1], B.shape[-1]))
        for t in range(x.shape[1]):
            before, decay, new = H, np.exp(delta[b, t, h] * A[h]), drive(delta[b, t, h], x[b, t, h], B[b, t])
            H = decay * (H + new) if decay_after else decay * H + new
            y[b, t, h] = read(before, H, C[b, t])
    return y


def delta_rule_oracle(
    query: Array,
    key: Array,
    value: Array,
    beta: Array,
    log_decay: Array,
    *,
    decay_before: Callable[[float], float] = lambda a: a,
    erase: Callable[..., Array] = lambda S, k, beta: S @ (np.eye(len(k)) - beta * np.outer(k, k)),
    write: Callable[..., Array] = lambda beta, v, a: beta * v,
    decay_after: Callable[[float], float] = lambda a: 1.0,
    read: Callable[..., Array] = lambda before, after, q: after @ q,
) -> Array:
    """Multiply by the matrices of the definition, one token after the other; the options make mutants."""
    output = np.zeros_like(value)
    for b, h in np.ndindex(key.shape[:2]):
        S = np.zeros((value.shape[-1], key.shape[-1]))
        for t in range(key.shape[2]):
            before, k, strength, a = S, key[b, h, t], beta[b, h, t], np.exp(log_decay[b, h, t])
            S = erase(decay_before(a) * S, k, strength) + np.outer(write(strength, value[b, h, t], a), k)
            S = decay_after(a) * S
            output[b, h, t] = read(before, S, query[b, h, t])
    return output


def distance(got: torch.Tensor | Array, expected: Array) -> float:
    """Measure the largest difference, relative to the largest entry; infinite for NaN or a wrong shape."""
    got = numbers(got)[0] if isinstance(got, torch.Tensor) else got
    if got.shape != expected.shape or not np.isfinite(got).all():
        return math.inf
    return float(np.abs(got - expected).max() / max(1.0, np.abs(expected).max()))


TOLERANCE = {torch.float64: 1e-13, torch.float32: 5e-6, torch.bfloat16: 2**-7}


class WriteCounter(TorchDispatchMode):
    """Count operations and the elements of their results, the backward pass included; views count nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.elements = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it would import it, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        read = {
            x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        }
        new = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        in_place = func._schema.is_mutable
        self.calls += 1
        self.elements += sum(x.numel() for x in new if in_place or x.untyped_storage()._cdata not in read)
        return result


def elements_written(run: Callable[[], torch.Tensor], backward: bool = True) -> int:
    with WriteCounter() as counter:
        output = run()
        if backward:
            output.sum().backward()
    return counter.elements
