"""One function that every model of the course calls, and a table of the backends behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.attention.explicit import explicit_attention, is_compiled_step
from tfcore.attention.fused import fused_attention
from tfcore.attention.pattern import Pattern
from tfcore.attention.sinks import with_sinks
from tfcore.attention.tiled import no_branches, tiled_attention
from tfcore.attention.triton import fastest, refusal, triton_attention
from tfcore.masks import default_positions

Call = tuple[Tensor, Tensor, Tensor, Pattern, Tensor | None]  # q, k, v, pattern and bias


@dataclass(frozen=True)
class Backend:
    """One way to compute attention: the results that it can return, and the calls that it accepts.

    >>> both = {"return_weights": True, "return_lse": True}
    >>> [name for name, backend in BACKENDS.items() if backend.serves(**both)]
    ['explicit']
    """

    run: Callable[..., tuple[Tensor, Tensor | None, Tensor | None]]
    weights: bool
    lse: bool
    softcap: bool = False
    refusal: Callable[..., str | None] | None = None  # says why it cannot serve a call; None: it always can
    fastest: Callable[..., bool] | None = None  # tells whether "auto" should prefer it for a call

    def serves(self, return_weights: bool, return_lse: bool, softcap: bool = False) -> bool:
        """Return whether this backend can return these results; one that can return more is accepted."""
        return self.weights >= return_weights and self.lse >= return_lse and self.softcap >= softcap

    def refuses(self, call: Call) -> str | None:
        """Say why this backend cannot serve this call, or return None."""
        return self.refusal(*call) if self.refusal else None


BACKENDS = {  # "auto" takes a backend that is the fastest for the call, else the first that serves it
    "fused": Backend(fused_attention, weights=False, lse=False),
    "tiled": Backend(tiled_attention, weights=False, lse=True, softcap=True, refusal=no_branches),
    "explicit": Backend(explicit_attention, weights=True, lse=True, softcap=True, fastest=is_compiled_step),
    "triton": Backend(triton_attention, weights=False, lse=True, refusal=refusal, fastest=fastest),
}


def attention(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    *,
    mask: Bool[Tensor, "*#scores"] | None = None,
    bias: Float[Tensor, "*#scores"] | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
    q_pos: Int[Tensor, "*#B T_q"] | None = None,
    k_pos: Int[Tensor, "*#B T_k"] | None = None,
    backend: str = "auto",
    return_weights: bool = False,
    return_lse: bool = False,
) -> Tensor | Any:
    r"""Give each query the mean of the values, weighted by how well their keys match it.

    $\operatorname{softmax}(s Q K^\top + B + M) \, V$, where M is 0 if attending is allowed, else $-\infty$.

    Attending is allowed where the mask, the causal rule and the window all allow it. A query that may attend
    to nothing gives output 0, gradient 0 and lse -inf (with sinks, the sink's score). What the mask leaves
    unused may hold anything, NaN included, without effect on output or gradient; the rest must be finite.

    Args:
        q: queries, (B, H, T_q, d_k).
        k: keys, (B, H_kv, T_k, d_k) where H_kv divides H; head h reads from head h // (H / H_kv).
        v: values, (B, H_kv, T_k, d_v).
        mask: boolean, True = may attend, broadcastable to (B, H, T_q, T_k). A mask of padded keys (B, T_k)
            goes in as ``mask[:, None, None, :]``; as it is, it would be taken for (T_q, T_k) where B = T_q.
        bias: added to the scaled scores, broadcastable to (B, H, T_q, T_k).
        causal: allow only ``k_pos <= q_pos``.
        window: allow only ``|q_pos - k_pos| < window``; with ``causal``, the token and window - 1 before it.
        scale: multiplies the scores; $1 / \sqrt{d_k}$ when None.
        softcap: c; each scaled score s becomes $c \tanh(s / c)$, and the bias is added afterwards.
        sinks: for each head a score without a value, (H,), that takes part in the softmax.
        q_pos: position of each query, (T_q,) or (B, T_q); the last T_q of 0 ... T_k - 1 when None.
        k_pos: position of each key, (T_k,) or (B, T_k); 0 ... T_k - 1 when None.
        backend: a name in ``BACKENDS``, or "auto" for the fastest that can serve the call.
        return_weights: return the weights (B, H, T_q, T_k) too.
        return_lse: return the log-sum-exp of each row of scores (B, H, T_q) too, sinks included.

    Returns:
        The output (B, H, T_q, d_v) in the type of ``q``; or a tuple of it, the weights if asked for and the
        lse if asked for. Weights and lse are float32 or wider.

    Raises:
        ValueError: arguments that do not fit, or a backend that is unknown or cannot serve this call.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1.

    >>> q, k, v = torch.zeros(1, 4, 2, 8), torch.zeros(1, 2, 3, 8), torch.ones(1, 2, 3, 5)
    >>> output, weights = attention(q, k, v, causal=True, return_weights=True)
    >>> print(output.shape, weights[0, 0, 0])
    torch.Size([1, 4, 2, 5]) tensor([0.5000, 0.5000, 0.0000])
    """
    shape = _score_shape(q, k, v)  # (B, H, T_q, T_k)
    _check_positions({"q_pos": (q_pos, shape[2]), "k_pos": (k_pos, shape[3])}, batch=shape[0])
    _check_terms(mask, bias, softcap, sinks, num_heads=shape[1])
    pattern = _pattern(_four_axes("mask", mask, shape), causal, window, q_pos, k_pos, shape, q.device)
    call = q, k, v, pattern, _four_axes("bias", bias, shape)
    chosen = _choose(backend, call, return_weights, return_lse or sinks is not None, softcap is not None)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    with _no_autocast(q.device.type):
        results = chosen.run(*call, scale, **({} if softcap is None else {"softcap": softcap}))
    output, weights, lse = results if sinks is None else with_sinks(*results, sinks)
    extras = [x for x, wanted in ((weights, return_weights), (lse, return_lse)) if wanted]
    return (output, *extras) if extras else output


def _pattern(
    mask: Tensor | None,
    causal: bool,
    window: int | None,
    q_pos: Tensor | None,
    k_pos: Tensor | None,
    shape: tuple[int, int, int, int],
    device: torch.device,
) -> Pattern:
    """Combine the rules that forbid anything, and add default positions where a rule needs them."""
    if k_pos is not None and q_pos is None:
        raise ValueError("expected q_pos beside k_pos, got k_pos alone; say where the queries are as well")
    q_len, k_len = shape[2:]
    positions_given = q_pos is not None
    if not positions_given:
        causal = causal and q_len > 1  # one query is the last, and sees every key
        window = None if window is not None and max(q_len, k_len) <= window else window
    if causal or window is not None:
        default_q_pos, default_k_pos = default_positions(q_len, k_len, device)
        q_pos = default_q_pos if q_pos is None else q_pos
        k_pos = default_k_pos if k_pos is None else k_pos
    return Pattern(mask, causal, window, q_pos, k_pos, positions_given)


def _no_autocast(device_type: str) -> AbstractContextManager[object]:
    """Compute in the types that were given: autocast would bring scores down to half precision."""
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def _choose(name: str, call: Call, return_weights: bool, return_lse: bool, softcap: bool) -> Backend:
    able = _able(call, return_weights, return_lse, softcap)
    if name == "auto":
        return BACKENDS[next(able)]
    if name not in BACKENDS:
        raise ValueError(
            f"expected a backend out of {', '.join(BACKENDS)} or auto, got {name!r}; name one of these"
        )
    if not BACKENDS[name].serves(return_weights, return_lse, softcap):
        asked = {"weights": return_weights, "lse": return_lse, "softcap": softcap}
        extra = next(what for what, needed in asked.items() if needed > getattr(BACKENDS[name], what))
        raise ValueError(
            f"expected a backend that {'caps scores' if extra == 'softcap' else f'returns the {extra}'}, got "
            f"{name!r}, which cannot; "
            f"use {' or '.join(able)}, or auto"
        )
    refused = BACKENDS[name].refuses(call)
    if refused is not None:
        raise ValueError(
            f"expected a call that {name!r} can serve, got {refused}; use {' or '.join(able)}, or auto"
        )
    return BACKENDS[name]


def _able(call: Call, return_weights: bool, return_lse: bool, softcap: bool) -> Iterator[str]:
    """Name the backends that can serve a call, the fastest first."""
    preferred = [name for name, backend in BACKENDS.items() if backend.fastest and backend.fastest(*call)]
    for name in dict.fromkeys([*preferred, *BACKENDS]):
        backend = BACKENDS[name]
        if backend.serves(return_weights, return_lse, softcap) and backend.refuses(call) is None:
            yield name


def _score_shape(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int, int, int]:
    """Check q, k and v against each other and name the shape of their scores, (B, H, T_q, T_k)."""
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"expected four axes (B, H, T, d), got {shapes}; split the heads first")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(f"expected one batch size B, got {shapes}; expand k and v to the batch of q")
    if k.shape[1:3] != v.shape[1:3]:
        raise ValueError(f"expected one value per key, got {shapes}; give k and v the same heads and length")
    if k.shape[2] == 0:
        raise ValueError(f"expected at least one key, got {shapes}; no keys give output 0 and lse -inf")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"expected q and k of one width d_k, got {shapes}; project them to the same width")
    if q.shape[3] == 0:
        raise ValueError(
            f"expected a width d_k of 1 or more, got {shapes}; scores are sums over d_k channels"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"expected a number of query heads that the key heads divide, got {q.shape[1]} and {k.shape[1]}; "
            "each key head serves the same number of query heads"
        )
    if not (q.dtype == k.dtype == v.dtype and q.is_floating_point()):
        raise ValueError(
            f"expected one floating-point type, got {q.dtype}, {k.dtype}, {v.dtype}; convert with .to"
        )
    return q.shape[0], q.shape[1], q.shape[2], k.shape[2]


def _four_axes(name: str, x: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """Give a mask or bias all four axes, also axes of size 1; raise an error if it does not fit."""
    if x is None:
        return None
    padded = (1,) * (4 - x.ndim) + tuple(x.shape)
    if len(padded) != 4 or any(size not in (1, full) for size, full in zip(padded, shape, strict=True)):
        raise ValueError(
            f"expected a {name} that broadcasts to (B, H, T_q, T_k) = {shape}, got {tuple(x.shape)}; "
            f"insert axes of size 1: (B, T_k) as {name}[:, None, None, :], (B, T_q, T_k) as {name}[:, None]"
        )
    return x.reshape(padded)


def _check_terms(
    mask: Tensor | None, bias: Tensor | None, softcap: float | None, sinks: Tensor | None, num_heads: int
) -> None:
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"expected a boolean mask, True = may attend, got {mask.dtype}; "
            "use mask.bool(), or pass numbers to be added to the scores as bias"
        )
    if bias is not None and not bias.is_floating_point():
        raise ValueError(f"expected a floating-point bias, got {bias.dtype}; pass a boolean one as mask")
    if softcap is not None and not 0 < softcap < math.inf:
        raise ValueError(f"expected a softcap above 0, got {softcap!r}; None leaves it out")
    if sinks is not None and (tuple(sinks.shape) != (num_heads,) or not sinks.is_floating_point()):
        raise ValueError(
            f"expected a sink's score for each of {num_heads} query heads, ({num_heads},), got "
            f"{sinks.dtype} {tuple(sinks.shape)}; None leaves sinks out"
        )


def _check_positions(given: dict[str, tuple[Tensor | None, int]], batch: int) -> None:
    for name, (positions, length) in given.items():
        if positions is None:
            continue
        shapes = (length,), (batch, length), (1, length)
        if positions.is_floating_point() or tuple(positions.shape) not in shapes:
            raise ValueError(
                f"expected {name} as whole numbers of shape ({length},) or ({batch}, {length}), got "
                f"{positions.dtype} {tuple(positions.shape)}; give one position per token"
            )
