"""Mamba's state space: a linear recurrence whose decay and input are chosen by the token itself."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide
from tfcore.scan import scan

CHUNK = 256  # tokens whose states, N times as large as their outputs, exist at a time


def selective_scan(
    u: Float[Tensor, "B T d"],
    delta: Float[Tensor, "B T d"],
    A: Float[Tensor, "d N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    D: Float[Tensor, " d"],
) -> Float[Tensor, "B T d"]:
    r"""Run N leaky memories per channel over time; each token chooses how fast they forget.

    $h_t = e^{\Delta_t A} \, h_{t-1} + \Delta_t B_t u_t, \; y_t = C_t \cdot h_t + D u_t$.

    A large $\Delta_t$ forgets the past and takes the token in, a $\Delta_t$ near 0 passes it over. B chooses
    the memories that are written, C those that are read.

    Args:
        u: inputs, (B, T, d).
        delta: step sizes, above 0, (B, T, d).
        A: rate of each memory, below 0 for one that decays, (d, N).
        B: where to write, shared by the channels, (B, T, N).
        C: where to read, shared by the channels, (B, T, N).
        D: share of the input that goes straight to the output, (d,).

    Returns:
        The outputs, (B, T, d), in the type of ``u``. States are float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Gu and Dao (2023), *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*, algorithm 2;
    B is discretised by Euler's rule, as in their code.

    >>> one = torch.ones(1, 3, 1)
    >>> half = torch.log(torch.tensor([[0.5]]))
    >>> print(selective_scan(one, one, half, one, one, torch.zeros(1)).flatten())
    tensor([1.0000, 1.5000, 1.7500])
    """
    return selective_scan_carry(u, delta, A, B, C, D)[0]


def selective_scan_carry(
    u: Float[Tensor, "B T d"],
    delta: Float[Tensor, "B T d"],
    A: Float[Tensor, "d N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    D: Float[Tensor, " d"],
    state: Float[Tensor, "B d N"] | None = None,
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "B d N"]]:
    """Go on from a state with T more tokens; see :func:`selective_scan`.

    Args:
        u: inputs, (B, T, d).
        delta: step sizes, (B, T, d).
        A: rates, (d, N).
        B: where to write, (B, T, N).
        C: where to read, (B, T, N).
        D: share of the input in the output, (d,).
        state: the state after the tokens before these, (B, d, N); None at the beginning.

    Returns:
        The outputs, (B, T, d), in the type of ``u``, and the state after the last token, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> x, A, D = torch.rand(1, 9, 4), -torch.ones(4, 4), torch.ones(4)
    >>> first, state = selective_scan_carry(x[:, :5], x[:, :5], A, x[:, :5], x[:, :5], D)
    >>> rest, _ = selective_scan_carry(x[:, 5:], x[:, 5:], A, x[:, 5:], x[:, 5:], D, state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), selective_scan(x, x, A, x, x, D), atol=1e-6)
    True
    """
    _check(u, delta, A, B, C, D, state, time=True)
    inputs, delta, A, B, C, D = (x.to(wide(u.dtype)) for x in (u, delta, A, B, C, D))
    state = inputs.new_zeros(u.shape[0], *A.shape) if state is None else state
    outputs = []
    for u_t, delta_t, B_t, C_t in zip(*(x.split(CHUNK, dim=1) for x in (inputs, delta, B, C)), strict=True):
        decay = torch.exp(delta_t.unsqueeze(-1) * A)  # (B, T, d, N)
        drive = (delta_t * u_t).unsqueeze(-1) * B_t.unsqueeze(-2)  # (B, T, d, N)
        states = scan(decay, drive, state)  # (B, T, d, N)
        outputs.append((states @ C_t.unsqueeze(-1)).squeeze(-1) + D * u_t)  # (B, T, d)
        state = states[:, -1].clone()  # a view would keep all T of them
    return torch.cat(outputs, dim=1).to(u.dtype), state


def selective_scan_step(
    u: Float[Tensor, "B d"],
    delta: Float[Tensor, "B d"],
    A: Float[Tensor, "d N"],
    B: Float[Tensor, "B N"],
    C: Float[Tensor, "B N"],
    D: Float[Tensor, " d"],
    state: Float[Tensor, "B d N"] | None = None,
) -> tuple[Float[Tensor, "B d"], Float[Tensor, "B d N"]]:
    """Read one token more, as a recurrent network does: the cost is the same at every position.

    Args:
        u: input, (B, d).
        delta: step sizes, (B, d).
        A: rates, (d, N).
        B: where to write, (B, N).
        C: where to read, (B, N).
        D: share of the input in the output, (d,).
        state: the state after the tokens before, (B, d, N); None at the first.

    Returns:
        The output, (B, d), in the type of ``u``, and the new state, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Gu and Dao (2023), *Mamba*, equation 2.

    >>> one = torch.ones(1, 1)
    >>> output, state = selective_scan_step(one, one, -one, one, one, torch.ones(1))
    >>> print(output, state)
    tensor([[2.]]) tensor([[[1.]]])
    """
    _check(u, delta, A, B, C, D, state, time=False)
    inputs, delta, A, B, C, D = (x.to(wide(u.dtype)) for x in (u, delta, A, B, C, D))
    drive = (delta * inputs).unsqueeze(-1) * B.unsqueeze(-2)  # (B, d, N)
    state = drive if state is None else torch.exp(delta.unsqueeze(-1) * A) * state + drive
    output = (state @ C.unsqueeze(-1)).squeeze(-1) + D * inputs  # (B, d)
    return output.to(u.dtype), state


def _check(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    state: Tensor | None,
    time: bool,
) -> None:
    axes = ("B", "T", "d") if time else ("B", "d")
    if u.ndim != len(axes) or A.ndim != 2 or 0 in u.shape:
        raise ValueError(
            f"expected u ({', '.join(axes)}) and A (d, N), nowhere empty, got {tuple(u.shape)} and "
            f"{tuple(A.shape)}; a single sequence goes in as u[None]"
        )
    d, N = u.shape[-1], A.shape[1]
    shapes = {"delta": (delta, u.shape), "A": (A, (d, N)), "D": (D, (d,))}
    shapes |= {name: (x, (*u.shape[:-1], N)) for name, x in (("B", B), ("C", C))}
    if state is not None:
        shapes["state"] = state, (u.shape[0], d, N)
    for name, (x, shape) in shapes.items():
        if x.shape != shape:
            raise ValueError(
                f"expected {name} of shape {tuple(shape)} for u {tuple(u.shape)} and A {tuple(A.shape)}, got "
                f"{tuple(x.shape)}; d is the number of channels and N of memories per channel"
            )
