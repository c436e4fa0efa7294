"""RWKV's attention: a weighted mean of the past in which a token counts for less with every step back."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide
from tfcore.scan import scan


class WKVState(NamedTuple):
    r"""Both sums over the past, divided by $e^{p}$ so that neither overflows; float32 or wider.

    Attributes:
        numerator: $\sum_i e^{-(t-i) w + k_i - p} \, v_i$, (B, d).
        denominator: $\sum_i e^{-(t-i) w + k_i - p}$, (B, d).
        peak: p, close to the largest exponent; -inf before the first token, (B, d).

    >>> one, v = torch.ones(1), torch.tensor([[[7.0], [7.0], [7.0]]])
    >>> _, state = wkv_carry(one, one, k=torch.full_like(v, 1000.0), v=v)
    >>> # their mean, by keys that overflow exp
    >>> print(state.numerator / state.denominator, state.peak)
    tensor([[7.]]) tensor([[1000.]])
    """

    numerator: Float[Tensor, "B d"]
    denominator: Float[Tensor, "B d"]
    peak: Float[Tensor, "B d"]

    @classmethod
    def empty(cls, like: Float[Tensor, "B d"]) -> WKVState:
        """Make the state before the first token, for keys of this shape, type and device."""
        like = like.to(wide(like.dtype))
        return cls(torch.zeros_like(like), torch.zeros_like(like), torch.full_like(like, -math.inf))


def wkv(
    w: Float[Tensor, " d"],
    u: Float[Tensor, " d"],
    k: Float[Tensor, "B T d"],
    v: Float[Tensor, "B T d"],
) -> Float[Tensor, "B T d"]:
    r"""Average the values of all tokens so far, by channel: by key, by age, and with a bonus for the newest.

    $o_t = \dfrac{\sum_{i<t} e^{-(t-1-i) w + k_i} v_i + e^{u + k_t} v_t}
    {\sum_{i<t} e^{-(t-1-i) w + k_i} + e^{u + k_t}}$.

    Args:
        w: decay of each channel per step, above 0, (d,).
        u: bonus of the current token, (d,).
        k: keys, (B, T, d); of any size, 1,000 included.
        v: values, (B, T, d).

    Returns:
        The averages, (B, T, d), in the type of ``k``.

    Raises:
        ValueError: shapes that do not fit, or a decay that is not above 0.

    From: Peng et al. (2023), *RWKV: Reinventing RNNs for the Transformer Era*, the WKV operator.

    >>> k, v = torch.zeros(1, 3, 1), torch.tensor([[[2.0], [4.0], [9.0]]])
    >>> print(wkv(torch.tensor([1e-9]), torch.zeros(1), k, v).flatten())
    tensor([2., 3., 5.])
    """
    _check(w, u, k, v, axes=3)
    if not bool((w > 0).all()):
        raise ValueError(
            f"expected decays w above 0, got {float(w.min())}; a parameter without bounds goes in as exp(w)"
        )
    return wkv_carry(w, u, k, v)[0]


def wkv_carry(
    w: Float[Tensor, " d"],
    u: Float[Tensor, " d"],
    k: Float[Tensor, "B T d"],
    v: Float[Tensor, "B T d"],
    state: WKVState | None = None,
) -> tuple[Float[Tensor, "B T d"], WKVState]:
    r"""Go on from a state with T more tokens; see :func:`wkv`.

    Any p near the largest exponent will do, as the same p divides out. The running maximum
    $p_t = \max_{i \le t} (k_i + i w) - t w$ needs no loop, and leaves two linear recurrences.

    Args:
        w: decay of each channel per step, above 0, (d,).
        u: bonus of the current token, (d,).
        k: keys, (B, T, d).
        v: values, (B, T, d).
        state: the state after the tokens before these; None at the beginning.

    Returns:
        The averages, (B, T, d), in the type of ``k``, and the state after the last token.

    Raises:
        ValueError: shapes that do not fit.

    From: Peng et al. (2023), *RWKV*, where it goes one token at a time.

    >>> w, x = torch.ones(4), torch.randn(1, 9, 4)
    >>> first, state = wkv_carry(w, w, x[:, :5], x[:, :5])
    >>> rest, _ = wkv_carry(w, w, x[:, 5:], x[:, 5:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), wkv(w, w, x, x), atol=1e-6)
    True
    """
    _check(w, u, k, v, axes=3)
    _check_state(state, k[:, 0])
    state = WKVState.empty(k[:, 0]) if state is None else state
    key, value, w, u = (x.to(wide(k.dtype)) for x in (k, v, w, u))

    age = torch.arange(k.shape[1] + 1, device=k.device, dtype=key.dtype).unsqueeze(-1) * w  # (T + 1, d)
    exponents = torch.cat([state.peak.unsqueeze(1), key], dim=1)  # (B, T + 1, d)
    peak = ((exponents + age).cummax(dim=1).values - age).detach()
    before, after = peak[:, :-1], peak[:, 1:]
    decay, weight = torch.exp(before - w - after), torch.exp(key - after)  # (B, T, d)

    start = torch.stack([state.numerator, state.denominator], dim=-1)  # (B, d, 2)
    drive = torch.stack([weight * value, weight], dim=-1)  # (B, T, d, 2)
    sums = torch.cat([start.unsqueeze(1), scan(decay.unsqueeze(-1), drive, start)], dim=1)
    numerator, denominator = sums.unbind(dim=-1)  # (B, T + 1, d) each

    past = WKVState(numerator[:, :-1], denominator[:, :-1], before)
    last = WKVState(*(x[:, -1].clone() for x in (numerator, denominator, peak)))  # a view would keep all T
    return _with_bonus(past, u, key, value).to(k.dtype), last


def wkv_step(
    w: Float[Tensor, " d"],
    u: Float[Tensor, " d"],
    k: Float[Tensor, "B d"],
    v: Float[Tensor, "B d"],
    state: WKVState | None = None,
) -> tuple[Float[Tensor, "B d"], WKVState]:
    r"""Read one token more, as a recurrent network does: the cost is the same at every position.

    $p' = \max(p - w, k_t), \; a' = e^{p - w - p'} a + e^{k_t - p'} v_t, \;
    b' = e^{p - w - p'} b + e^{k_t - p'}$, with a the numerator and b the denominator of the state.

    Args:
        w: decay of each channel per step, above 0, (d,).
        u: bonus of the current token, (d,).
        k: key, (B, d).
        v: value, (B, d).
        state: the state after the tokens before; None at the first.

    Returns:
        The average, (B, d), in the type of ``k``, and the new state.

    Raises:
        ValueError: shapes that do not fit.

    From: Peng et al. (2023), *RWKV*, time mixing as an RNN cell; the running maximum is from Milakov and
    Gimelshein (2018), *Online Normalizer Calculation for Softmax*.

    >>> one = torch.ones(1)
    >>> output, state = wkv_step(one, one, torch.tensor([[1000.0]]), torch.tensor([[7.0]]))
    >>> print(output, state.peak)
    tensor([[7.]]) tensor([[1000.]])
    """
    _check(w, u, k, v, axes=2)
    _check_state(state, k)
    state = WKVState.empty(k) if state is None else state
    key, value, w, u = (x.to(wide(k.dtype)) for x in (k, v, w, u))
    output = _with_bonus(state, u, key, value).to(k.dtype)

    peak = torch.maximum(state.peak - w, key).detach()
    decay, weight = torch.exp(state.peak - w - peak), torch.exp(key - peak)
    numerator = decay * state.numerator + weight * value
    denominator = decay * state.denominator + weight
    return output, WKVState(numerator, denominator, peak)


def _with_bonus(past: WKVState, u: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Add the current token to the sums over the past, with its bonus, and divide them."""
    peak = torch.maximum(past.peak, u + key).detach()
    old, new = torch.exp(past.peak - peak), torch.exp(u + key - peak)
    return (old * past.numerator + new * value) / (old * past.denominator + new)


def _check(w: Tensor, u: Tensor, k: Tensor, v: Tensor, axes: int) -> None:
    shapes = f"w {tuple(w.shape)}, u {tuple(u.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if k.ndim != axes or k.shape != v.shape or 0 in k.shape:
        layout = "(B, T, d)" if axes == 3 else "(B, d)"
        raise ValueError(
            f"expected k and v of one shape {layout}, nowhere empty, got {shapes}; keys and values have "
            "one width"
        )
    if not w.shape == u.shape == k.shape[-1:]:
        raise ValueError(
            f"expected w and u of shape ({k.shape[-1]},), got {shapes}; give one number per channel"
        )


def _check_state(state: WKVState | None, k: Tensor) -> None:
    if state is not None and any(x.shape != k.shape for x in state):
        raise ValueError(
            f"expected a state of three (B, d) = {tuple(k.shape)}, got {[tuple(x.shape) for x in state]}; "
            "pass what the same sequences left"
        )
