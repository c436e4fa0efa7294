"""Mamba-2's state space in three forms: a recurrence, attention with decays, and both in chunks."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide
from tfcore.decay import decay_mask

CHUNK = 64  # tokens whose scores are written out at a time


def ssd_recurrent(
    x: Float[Tensor, "B T h p"],
    delta: Float[Tensor, "B T h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
) -> Float[Tensor, "B T h p"]:
    r"""Run one memory per head over time, token after token; the whole memory of a head decays alike.

    $H_t = e^{\Delta_t A} \, H_{t-1} + \Delta_t x_t B_t^\top, \; y_t = H_t C_t$.

    In :func:`~tfcore.selective_scan.selective_scan` each number of the memory has its own rate. With one rate
    for a whole head, the same function is also a form of attention: :func:`ssd_attention`. Here all heads
    share B and C; where Mamba-2 has groups of heads, call this once for each group.

    Args:
        x: inputs, (B, T, h, p).
        delta: step sizes, above 0, (B, T, h).
        A: rate of each head, below 0 for a memory that decays, (h,).
        B: where to write, shared by the heads, (B, T, N).
        C: where to read, shared by the heads, (B, T, N).

    Returns:
        The outputs, (B, T, h, p), in the type of ``x``. Memories are float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 2; B is discretised by Euler's rule, as in their
    code.

    >>> x, delta, half = torch.ones(1, 3, 1, 1), torch.ones(1, 3, 1), torch.tensor([0.5]).log()
    >>> print(ssd_recurrent(x, delta, half, B=delta, C=delta).flatten())
    tensor([1.0000, 1.5000, 1.7500])
    """
    _check(x, delta, A, B, C, None, time=True)
    outputs, state = [], None
    for x_t, delta_t, B_t, C_t in zip(*(y.unbind(dim=1) for y in (x, delta, B, C)), strict=True):
        output, state = ssd_step(x_t, delta_t, A, B_t, C_t, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


def ssd_attention(
    x: Float[Tensor, "B T h p"],
    delta: Float[Tensor, "B T h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
) -> Float[Tensor, "B T h p"]:
    r"""Compute the recurrence as attention: C is the query, B the key, and decays replace the softmax.

    $Y = (C B^\top \odot L) \, \Delta X, \; L_{ij} = e^{A (\Delta_{j+1} + \dots + \Delta_i)}$ for $j \le i$.

    This form computes all tokens at once, at a cost that is quadratic in T.

    Args:
        x: inputs, the values of this attention, (B, T, h, p).
        delta: step sizes, (B, T, h).
        A: rates, (h,).
        B: keys, (B, T, N).
        C: queries, (B, T, N).

    Returns:
        The outputs, (B, T, h, p), in the type of ``x``.

    Raises:
        ValueError: shapes that do not fit.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 5 (the duality).

    >>> x, delta, half = torch.ones(1, 3, 1, 1), torch.ones(1, 3, 1), torch.tensor([0.5]).log()
    >>> print(ssd_attention(x, delta, half, B=delta, C=delta).flatten())
    tensor([1.0000, 1.5000, 1.7500])
    """
    _check(x, delta, A, B, C, None, time=True)
    values, log_decay, keys, queries = _by_head(x, delta, A, B, C)
    scores = queries @ keys.mT * decay_mask(log_decay)  # (B, h, T, T)
    return (scores @ values).transpose(1, 2).to(x.dtype)


def ssd_chunked(
    x: Float[Tensor, "B T h p"],
    delta: Float[Tensor, "B T h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    chunk_size: int = CHUNK,
) -> Float[Tensor, "B T h p"]:
    r"""Attend within chunks and recur from chunk to chunk: large products, at a cost linear in T.

    $y_i = \gamma_i H_0 C_i + \sum_{j \le i} L_{ij} (C_i \cdot B_j) \, \Delta_j x_j$ within a chunk, where
    $H_0$ is the memory at its start and $\gamma_i$ the decay since then.

    Args:
        x: inputs, (B, T, h, p).
        delta: step sizes, above 0, (B, T, h).
        A: rates, (h,).
        B: where to write, (B, T, N).
        C: where to read, (B, T, N).
        chunk_size: tokens whose scores are written out at a time; it changes the cost, and nothing else.

    Returns:
        The outputs, (B, T, h, p), in the type of ``x``; see :func:`ssd_recurrent`.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 6 (the SSD algorithm).

    >>> x, delta, half = torch.ones(1, 3, 1, 1), torch.ones(1, 3, 1), torch.tensor([0.5]).log()
    >>> print(ssd_chunked(x, delta, half, B=delta, C=delta, chunk_size=2).flatten())
    tensor([1.0000, 1.5000, 1.7500])
    """
    return ssd_carry(x, delta, A, B, C, chunk_size=chunk_size)[0]


def ssd_carry(
    x: Float[Tensor, "B T h p"],
    delta: Float[Tensor, "B T h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    state: Float[Tensor, "B h p N"] | None = None,
    chunk_size: int = CHUNK,
) -> tuple[Float[Tensor, "B T h p"], Float[Tensor, "B h p N"]]:
    """Go on from a state with T more tokens, in chunks; see :func:`ssd_chunked`.

    Args:
        x: inputs, (B, T, h, p).
        delta: step sizes, (B, T, h).
        A: rates, (h,).
        B: where to write, (B, T, N).
        C: where to read, (B, T, N).
        state: the memory after the tokens before these, (B, h, p, N); None at the beginning.
        chunk_size: tokens whose scores are written out at a time.

    Returns:
        The outputs, (B, T, h, p), and the memory after the last token, float32 or wider.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    >>> x, delta = torch.randn(1, 9, 3, 2), torch.rand(1, 9, 3)
    >>> A, B = -torch.ones(3), torch.randn(1, 9, 4)
    >>> first, state = ssd_carry(x[:, :5], delta[:, :5], A, B[:, :5], B[:, :5])
    >>> rest, _ = ssd_carry(x[:, 5:], delta[:, 5:], A, B[:, 5:], B[:, 5:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), ssd_chunked(x, delta, A, B, B), atol=1e-5)
    True
    """
    _check(x, delta, A, B, C, state, time=True)
    if chunk_size < 1:
        raise ValueError(f"expected a chunk_size of 1 or more, got {chunk_size}; {CHUNK} suits most lengths")
    operands = _by_head(x, delta, A, B, C)
    state = _empty(x, B) if state is None else state
    outputs = []
    for values, log_decay, keys, queries in zip(*(y.split(chunk_size, dim=2) for y in operands), strict=True):
        since_start = log_decay.cumsum(dim=-1).exp().unsqueeze(-1)  # (B, h, chunk_size, 1)
        between = decay_mask(log_decay)  # (B, h, chunk_size, chunk_size)
        until_end = between[..., -1, :].unsqueeze(-1)  # (B, h, chunk_size, 1)

        within = (queries @ keys.mT * between) @ values  # (B, h, chunk_size, p)
        outputs.append(within + since_start * (queries @ state.mT))
        state = since_start[..., -1:, :] * state + (until_end * values).mT @ keys  # (B, h, p, N)
    return torch.cat(outputs, dim=2).transpose(1, 2).to(x.dtype), state


def ssd_step(
    x: Float[Tensor, "B h p"],
    delta: Float[Tensor, "B h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B N"],
    C: Float[Tensor, "B N"],
    state: Float[Tensor, "B h p N"] | None = None,
) -> tuple[Float[Tensor, "B h p"], Float[Tensor, "B h p N"]]:
    """Read one token more, as a recurrent network does: the cost is the same at every position.

    Args:
        x: input, (B, h, p).
        delta: step sizes, (B, h).
        A: rates, (h,).
        B: where to write, (B, N).
        C: where to read, (B, N).
        state: the memory after the tokens before, (B, h, p, N); None at the first.

    Returns:
        The output, (B, h, p), in the type of ``x``, and the new memory, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> one = torch.ones(1, 1)
    >>> output, state = ssd_step(torch.tensor([[[3.0]]]), one, -one[0], B=one, C=2 * one)
    >>> print(output, state)
    tensor([[[6.]]]) tensor([[[[3.]]]])
    """
    _check(x, delta, A, B, C, state, time=False)
    dtype = x.dtype
    x, delta, A, B, C = (y.to(wide(dtype)) for y in (x, delta, A, B, C))
    state = _empty(x, B) if state is None else state
    decay = torch.exp(delta * A)[..., None, None]  # (B, h, 1, 1)
    drive = (delta.unsqueeze(-1) * x).unsqueeze(-1) * B[:, None, None]  # (B, h, p, N)
    state = decay * state + drive
    return (state @ C[:, None, :, None]).squeeze(-1).to(dtype), state


def _by_head(x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> list[Tensor]:
    """Return values (B, h, T, p), log decays (B, h, T), keys and queries (B, 1, T, N): heads before time."""
    x, delta, A, B, C = (y.to(wide(x.dtype)) for y in (x, delta, A, B, C))
    values = (delta.unsqueeze(-1) * x).transpose(1, 2)
    return [values, (delta * A).mT, B.unsqueeze(1), C.unsqueeze(1)]


def _empty(x: Tensor, B: Tensor) -> Tensor:
    return x.new_zeros(len(x), *x.shape[-2:], B.shape[-1], dtype=wide(x.dtype))


def _check(
    x: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    state: Tensor | None,
    time: bool,
) -> None:
    axes = ("B", "T", "h", "p") if time else ("B", "h", "p")
    if x.ndim != len(axes) or B.ndim != len(axes) - 1 or 0 in x.shape:
        raise ValueError(
            f"expected x ({', '.join(axes)}), nowhere empty, and B ({', '.join(axes[:-2])}, N), got "
            f"{tuple(x.shape)} and {tuple(B.shape)}; call once for each group of heads with its B and C"
        )
    h, N = x.shape[-2], B.shape[-1]
    shapes = {"delta": (delta, x.shape[:-1]), "A": (A, (h,))}
    shapes |= {name: (y, (*x.shape[:-2], N)) for name, y in (("B", B), ("C", C))}
    if state is not None:
        shapes["state"] = state, (x.shape[0], *x.shape[-2:], N)
    for name, (y, shape) in shapes.items():
        if y.shape != shape:
            raise ValueError(
                f"expected {name} of shape {tuple(shape)} for x {tuple(x.shape)} and B {tuple(B.shape)}, got "
                f"{tuple(y.shape)}; h is the number of heads, p their width and N the width of B and C"
            )
