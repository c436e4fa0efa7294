"""RWKV-7's memory: a delta rule with a rate for every channel, which may read one key and write another."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide


def wkv7(
    query: Float[Tensor, "B H T d_k"],
    log_decay: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    removed: Float[Tensor, "B H T d_k"],
    rate: Float[Tensor, "B H T d_k"],
) -> Float[Tensor, "B H T d_v"]:
    r"""Let each channel of the keys decay, remove what one key finds, and write a value under another.

    $S_t = S_{t-1} \bigl( \operatorname{diag}(w_t) - \hat\kappa_t (a_t \odot \hat\kappa_t)^\top \bigr)
    + v_t k_t^\top, \; o_t = S_t q_t$, where $\log w$ is ``log_decay``, $\hat\kappa$ is ``removed`` and a is
    ``rate``.

    With $\hat\kappa = k / \lVert k \rVert$ and one rate for all channels it is the delta rule; see
    :func:`~tfcore.delta_rule.gated_delta_rule`. The paper calls the query receptance. This is the recurrence
    alone, token after token; RWKV-4's average is :func:`~tfcore.wkv.wkv`.

    Args:
        query: where to read, (B, H, T, d_k).
        log_decay: logarithm of the share of each channel that is kept, at most 0, (B, H, T, d_k).
        key: where to write, (B, H, T, d_k).
        value: what is written, (B, H, T, d_v).
        removed: the key whose old value is removed, of length 1, (B, H, T, d_k).
        rate: how much of it each channel loses, from 0 to 1, (B, H, T, d_k).

    Returns:
        The output, (B, H, T, d_v), in the type of ``query``. Memories are float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Peng et al. (2025), *RWKV-7 "Goose" with Expressive Dynamic State Evolution*.

    >>> # three values for one key: each replaces half of what is there
    >>> one = torch.ones(1, 1, 3, 1)
    >>> value = torch.tensor([[[[4.0], [6.0], [0.0]]]])
    >>> print(wkv7(one, 0 * one, 0.5 * one, value, removed=one, rate=0.5 * one).flatten())
    tensor([2., 4., 2.])
    """
    outputs, state = [], None
    steps = (x.unbind(dim=2) for x in (query, log_decay, key, value, removed, rate))
    for q, g, k, v, kappa, a in zip(*steps, strict=True):
        output, state = wkv7_step(q, g, k, v, kappa, a, state)
        outputs.append(output)
    return torch.stack(outputs, dim=2)


def wkv7_step(
    query: Float[Tensor, "B H d_k"],
    log_decay: Float[Tensor, "B H d_k"],
    key: Float[Tensor, "B H d_k"],
    value: Float[Tensor, "B H d_v"],
    removed: Float[Tensor, "B H d_k"],
    rate: Float[Tensor, "B H d_k"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
) -> tuple[Float[Tensor, "B H d_v"], Float[Tensor, "B H d_v d_k"]]:
    """Read one token more, as a recurrent network does: the cost is the same at every position.

    Args:
        query: where to read, (B, H, d_k).
        log_decay: logarithm of the share of each channel that is kept, (B, H, d_k).
        key: where to write, (B, H, d_k).
        value: what is written, (B, H, d_v).
        removed: the key whose old value is removed, of length 1, (B, H, d_k).
        rate: how much of it each channel loses, (B, H, d_k).
        state: the memory after the tokens before, (B, H, d_v, d_k); None at the first.

    Returns:
        The output, (B, H, d_v), in the type of ``query``, and the new memory, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> one = torch.ones(1, 1, 1)
    >>> changes = {"removed": one, "rate": one, "state": 8 * one[None]}
    >>> output, state = wkv7_step(one, 0 * one, one, 5 * one, **changes)
    >>> print(output, state)
    tensor([[[5.]]]) tensor([[[[5.]]]])
    """
    _check(query, log_decay, key, value, removed, rate, state)
    q, g, k, v, kappa, a = (x.to(wide(query.dtype)) for x in (query, log_decay, key, value, removed, rate))
    if state is None:
        state = k.new_zeros(*k.shape[:2], v.shape[-1], k.shape[-1])
    found = state @ kappa.unsqueeze(-1)  # (B, H, d_v, 1): the old value
    state = g.exp().unsqueeze(-2) * state - found * (a * kappa).unsqueeze(-2)  # (B, H, d_v, d_k)
    state = state + v.unsqueeze(-1) * k.unsqueeze(-2)
    return (state @ q.unsqueeze(-1)).squeeze(-1).to(query.dtype), state


def _check(
    query: Tensor,
    log_decay: Tensor,
    key: Tensor,
    value: Tensor,
    removed: Tensor,
    rate: Tensor,
    state: Tensor | None,
) -> None:
    alike = {"log_decay": log_decay, "key": key, "removed": removed, "rate": rate}
    wanted = {name: (x, tuple(query.shape)) for name, x in alike.items()}
    wanted["value"] = value, (*query.shape[:-1], value.shape[-1])
    if state is not None:
        wanted["state"] = state, (*query.shape[:-1], value.shape[-1], query.shape[-1])
    for name, (x, shape) in wanted.items():
        if query.ndim != 3 or x.shape != shape:
            raise ValueError(
                f"expected {name} of shape {tuple(shape)} beside a token's query (B, H, d_k) of shape "
                f"{tuple(query.shape)}, got {tuple(x.shape)}; a single head goes in as query[None, None]"
            )
