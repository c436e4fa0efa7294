"""Attention without the softmax: the past fits into one matrix, so that the cost is linear in T."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide

CHUNK = 64  # tokens whose scores are written out at a time


class LinearState(NamedTuple):
    r"""All that linear attention keeps of the past.

    Attributes:
        memory: $S = \sum_j \phi(k_j) \, v_j^\top$, (..., d_k, d_v).
        total: $z = \sum_j \phi(k_j)$, (..., d_k).

    >>> x, v = torch.zeros(4, 2), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    >>> _, state = linear_attention_carry(x, x, v)  # all features are 1
    >>> print(state.memory.tolist(), state.total.tolist())
    [[10.0], [10.0]] [4.0, 4.0]
    """

    memory: Float[Tensor, "*batch d_k d_v"]
    total: Float[Tensor, "*batch d_k"]


def linear_attention(
    q: Float[Tensor, "*batch T_q d_k"],
    k: Float[Tensor, "*batch T_k d_k"],
    v: Float[Tensor, "*batch T_k d_v"],
    causal: bool = True,
) -> Float[Tensor, "*batch T_q d_v"]:
    r"""Average the values by a weight that is a product of features, not an exponential.

    $o_i = \dfrac{\phi(q_i)^\top \sum_j \phi(k_j) v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}, \;
    \phi(x) = \operatorname{elu}(x) + 1$; causal: $j \le i$.

    The sums over j do not depend on the query, so that no score is needed; causal, they grow from chunk to
    chunk, and only within a chunk are scores written out. A query whose weights all underflow gives 0.

    Args:
        q: queries, (..., T_q, d_k).
        k: keys, (..., T_k, d_k).
        v: values, (..., T_k, d_v).
        causal: whether a query sees only keys at its own and at earlier positions; T_q is T_k then.

    Returns:
        The output, (..., T_q, d_v), in the type of ``q``. Sums are float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Katharopoulos et al. (2020), *Transformers are RNNs*; in chunks: Hua et al. (2022), *Transformer
    Quality in Linear Time*.

    >>> x = torch.zeros(1, 3, 2)
    >>> v = torch.tensor([[[1.0], [2.0], [6.0]]])
    >>> causal, all_pairs = linear_attention(x, x, v), linear_attention(x, x, v, causal=False)
    >>> print(causal.flatten(), all_pairs.flatten())
    tensor([1.0000, 1.5000, 3.0000]) tensor([3., 3., 3.])
    """
    _check(q, k, v, causal)
    if causal:
        return linear_attention_carry(q, k, v)[0]
    phi_q, phi_k, values = _operands(q, k, v)
    total = phi_k.sum(dim=-2).unsqueeze(-1)  # (..., d_k, 1)
    return _normalise(phi_q @ (phi_k.mT @ values), phi_q @ total).to(q.dtype)


def linear_attention_carry(
    q: Float[Tensor, "*batch T d_k"],
    k: Float[Tensor, "*batch T d_k"],
    v: Float[Tensor, "*batch T d_v"],
    state: LinearState | None = None,
) -> tuple[Float[Tensor, "*batch T d_v"], LinearState]:
    """Go on from a state with T more tokens, causally; see :func:`linear_attention`.

    Args:
        q: queries, (..., T, d_k).
        k: keys, (..., T, d_k).
        v: values, (..., T, d_v).
        state: the state after the tokens before these; None at the beginning.

    Returns:
        The output, (..., T, d_v), and the state after the last token.

    Raises:
        ValueError: shapes that do not fit.

    >>> x = torch.randn(1, 9, 4)
    >>> first, state = linear_attention_carry(x[:, :5], x[:, :5], x[:, :5])
    >>> rest, _ = linear_attention_carry(x[:, 5:], x[:, 5:], x[:, 5:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), linear_attention(x, x, x), atol=1e-6)
    True
    """
    _check(q, k, v, causal=True)
    phi_q, phi_k, values = _operands(q, k, v)
    _check_state(state, phi_k, values)
    if state is None:
        memory = torch.zeros_like(phi_k[..., :1, :].mT @ values[..., :1, :])
        state = LinearState(memory, torch.zeros_like(phi_k[..., 0, :]))
    memory, total = state

    outputs = []
    chunks = zip(*(x.split(CHUNK, dim=-2) for x in (phi_q, phi_k, values)), strict=True)
    for q_chunk, k_chunk, v_chunk in chunks:
        scores = (q_chunk @ k_chunk.mT).tril()  # (..., CHUNK, CHUNK), causal
        weighted = q_chunk @ memory + scores @ v_chunk  # (..., CHUNK, d_v): the past, and this chunk
        weights = q_chunk @ total.unsqueeze(-1) + scores.sum(dim=-1, keepdim=True)  # (..., CHUNK, 1)
        outputs.append(_normalise(weighted, weights))
        memory = memory + k_chunk.mT @ v_chunk  # (..., d_k, d_v)
        total = total + k_chunk.sum(dim=-2)  # (..., d_k)
    return torch.cat(outputs, dim=-2).to(q.dtype), LinearState(memory, total)


def linear_attention_step(
    q: Float[Tensor, "*batch d_k"],
    k: Float[Tensor, "*batch d_k"],
    v: Float[Tensor, "*batch d_v"],
    state: LinearState | None = None,
) -> tuple[Float[Tensor, "*batch d_v"], LinearState]:
    r"""Read one token more, as a recurrent network does: the cost is the same at every position.

    $S_t = S_{t-1} + \phi(k_t) v_t^\top, \; z_t = z_{t-1} + \phi(k_t), \;
    o_t = \dfrac{\phi(q_t)^\top S_t}{\phi(q_t)^\top z_t}$.

    Args:
        q: query, (..., d_k).
        k: key, (..., d_k).
        v: value, (..., d_v).
        state: the state after the tokens before; None at the first.

    Returns:
        The output, (..., d_v), in the type of ``q``, and the new state, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Katharopoulos et al. (2020), *Transformers are RNNs*, section 3.4.

    >>> output, state = linear_attention_step(torch.zeros(2), torch.zeros(2), torch.tensor([5.0]))
    >>> print(output, state.total)
    tensor([5.]) tensor([1., 1.])
    """
    _check(q.unsqueeze(-2), k.unsqueeze(-2), v.unsqueeze(-2), causal=True)
    _check_state(state, k.unsqueeze(-2), v.unsqueeze(-2))
    phi_q, phi_k, value = _operands(q, k, v)
    memory, total = phi_k.unsqueeze(-1) * value.unsqueeze(-2), phi_k  # (..., d_k, d_v), (..., d_k)
    if state is not None:
        memory, total = state.memory + memory, state.total + total
    weighted = (phi_q.unsqueeze(-2) @ memory).squeeze(-2)  # (..., d_v)
    weights = (phi_q * total).sum(dim=-1, keepdim=True)
    return _normalise(weighted, weights).to(q.dtype), LinearState(memory, total)


def elu_plus_one(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Map to features above zero: $\phi(x) = x + 1$ where x > 0, else $e^x$.

    ``F.elu(x) + 1`` is the same number but loses it: below -17.4 in float32 it is 0.

    >>> print(elu_plus_one(torch.tensor([2.0, 0.0])), bool(elu_plus_one(torch.tensor(-50.0)) > 0))
    tensor([3., 1.]) True
    """
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def _operands(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dtype = wide(q.dtype)
    return elu_plus_one(q.to(dtype)), elu_plus_one(k.to(dtype)), v.to(dtype)


def _normalise(weighted: Tensor, weights: Tensor) -> Tensor:
    return weighted / weights.masked_fill(weights == 0, 1.0)


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim >= 2 or 0 in k.shape:
        raise ValueError(
            f"expected q, k, v of as many axes (..., T, d), none empty, got {shapes}; add what is missing"
        )
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(f"expected the same leading axes, got {shapes}; repeat shared key heads first")
    if k.shape[-2] != v.shape[-2] or q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"expected one value per key, and q and k of one width, got {shapes}; project them to fit"
        )
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"expected as many queries as keys where causal, got {shapes}; to go on after earlier tokens, "
            "pass their state to linear_attention_carry"
        )


def _check_state(state: LinearState | None, k: Tensor, v: Tensor) -> None:
    expected = (*k.shape[:-2], k.shape[-1], v.shape[-1])
    if state is not None and (state.memory.shape != expected or state.total.shape != expected[:-1]):
        raise ValueError(
            f"expected a state of memory {expected} and total {expected[:-1]}, got "
            f"{tuple(state.memory.shape)} and {tuple(state.total.shape)}; pass what the same sequences left"
        )
