"""The linear recurrence, which RWKV and Mamba both are: one step after the other, or all in parallel."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def scan(
    decay: Float[Tensor, "B T *#features"],
    drive: Float[Tensor, "B T *features"],
    start: Float[Tensor, "B *features"] | None = None,
    parallel: bool | None = None,
) -> Float[Tensor, "B T *features"]:
    r"""Let a state decay and add the drive at every step, and return all the states.

    $h_t = a_t \, h_{t-1} + b_t$, by component.

    In order, that is T small operations. In parallel it is a few large ones for each doubling of T, which do
    more work in all, but still work linear in T: an accelerator would idle between the small ones.

    Args:
        decay: $a$, (B, T, ...); any axis may be 1 for the same value at all of its steps, sequences or
            components.
        drive: $b$, (B, T, ...).
        start: $h_0$, the state before the first step, (B, ...); zero when None.
        parallel: whether to go in parallel; when None, on any device but the CPU.

    Returns:
        The states $h_1 ... h_T$, (B, T, ...).

    Raises:
        ValueError: no step, or a decay whose shape does not fit the drive.

    From: Blelloch (1990), *Prefix Sums and Their Applications*; Martin and Cundy (2018), *Parallelizing
    Linear Recurrent Neural Nets Over Sequence Length*.

    >>> half, one = torch.full((1, 3), 0.5), torch.ones(1, 3)
    >>> print(scan(half, one), scan(half, one, start=torch.tensor([2.0]), parallel=True))
    tensor([[1.0000, 1.5000, 1.7500]]) tensor([[2., 2., 2.]])
    """
    T = drive.shape[1]
    fits = decay.ndim == drive.ndim and all(
        a in (1, n) for a, n in zip(decay.shape, drive.shape, strict=True)
    )
    if T == 0 or not fits:
        raise ValueError(
            f"expected one decay for each of 1 or more steps, got decay {tuple(decay.shape)} and drive "
            f"{tuple(drive.shape)}; the second axis is time, and each axis of decay is 1 or as long"
        )
    decay = decay.expand(-1, T, *decay.shape[2:])
    parallel = drive.device.type != "cpu" if parallel is None else parallel
    if parallel:
        if start is not None:
            first = drive[:, :1] + decay[:, :1] * start.unsqueeze(1)
            drive = torch.cat([first, drive[:, 1:]], dim=1)
        return _in_parallel(decay, drive)

    state = torch.zeros_like(drive[:, 0]) if start is None else start
    states = []
    # unbind and not an index per step: the gradient of x[:, t] is as large as x, and there are T of them.
    for a, b in zip(decay.unbind(dim=1), drive.unbind(dim=1), strict=True):
        state = torch.addcmul(b, a, state)
        states.append(state)
    return torch.stack(states, dim=1)  # (B, T, ...)


def _in_parallel(decay: Tensor, drive: Tensor) -> Tensor:
    """Join steps in pairs, scan the half as many double steps, then fill in the states between them."""
    T = drive.shape[1]
    if T == 1:
        return drive
    pairs = slice(0, T // 2 * 2, 2)
    a, b = decay[:, pairs], drive[:, pairs]  # the steps 0, 2, 4, ...: (B, T // 2, ...)
    a_next, b_next = decay[:, 1::2], drive[:, 1::2]  # the steps 1, 3, 5, ...
    # Two steps in a row are one step: a' (a h + b) + b' = (a' a) h + (a' b + b').
    after_pairs = _in_parallel(a_next * a, a_next * b + b_next)  # (B, T // 2, ...)

    states = torch.empty_like(drive)
    states[:, 0] = drive[:, 0]
    states[:, 1::2] = after_pairs
    states[:, 2::2] = decay[:, 2::2] * after_pairs[:, : (T - 1) // 2] + drive[:, 2::2]
    return states
