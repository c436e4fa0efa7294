"""The delta rule: linear attention that replaces the old value of a key instead of adding to it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide
from tfcore.decay import decay_mask

CHUNK = 64  # tokens that are solved for at a time


def delta_rule(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    beta: Float[Tensor, "B H T"],
) -> Float[Tensor, "B H T d_v"]:
    r"""Look up the old value of each key, and replace a share of it by the new value.

    $S_t = S_{t-1} (I - \beta_t k_t k_t^\top) + \beta_t v_t k_t^\top, \; o_t = S_t q_t$.

    For a key of length 1, $\beta = 1$ replaces the old value by the new one, and $\beta = 0$ leaves the
    memory as it is. Keys are used as they are: normalise them first. With keys longer than
    $\sqrt{2 / \beta}$ the memory can grow without limit.

    Args:
        query: where to read, (B, H, T, d_k).
        key: where to write, (B, H, T, d_k).
        value: the new value of the key, (B, H, T, d_v).
        beta: the share of the old value that is replaced, from 0 to 1, (B, H, T).

    Returns:
        The output, (B, H, T, d_v), in the type of ``query``. Memories are float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    From: Schlag, Irie and Schmidhuber (2021), *Linear Transformers Are Secretly Fast Weight Programmers*;
    in chunks: Yang et al. (2024), *Parallelizing Linear Transformers with the Delta Rule over Sequence
    Length*.

    >>> key = torch.ones(1, 1, 3, 1)  # three values for one key
    >>> value = torch.tensor([[[[5.0], [7.0], [1.0]]]])
    >>> print(delta_rule(key, key, value, beta=torch.tensor([[[1.0, 1.0, 0.5]]])).flatten())
    tensor([5., 7., 4.])
    """
    return delta_rule_carry(query, key, value, beta)[0]


def delta_rule_carry(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    beta: Float[Tensor, "B H T"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
) -> tuple[Float[Tensor, "B H T d_v"], Float[Tensor, "B H d_v d_k"]]:
    """Go on from a memory with T more tokens; see :func:`delta_rule`.

    Args:
        query: where to read, (B, H, T, d_k).
        key: where to write, of length 1, (B, H, T, d_k).
        value: the new value of the key, (B, H, T, d_v).
        beta: the share that is replaced, (B, H, T).
        state: the memory after the tokens before these, (B, H, d_v, d_k); None at the beginning.

    Returns:
        The output, (B, H, T, d_v), and the memory after the last token, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> x, beta = torch.randn(1, 2, 9, 4), torch.rand(1, 2, 9)
    >>> key = torch.nn.functional.normalize(x, dim=-1)
    >>> first, state = delta_rule_carry(x[:, :, :5], key[:, :, :5], x[:, :, :5], beta[:, :, :5])
    >>> rest, _ = delta_rule_carry(x[:, :, 5:], key[:, :, 5:], x[:, :, 5:], beta[:, :, 5:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=2), delta_rule(x, key, x, beta), atol=1e-5)
    True
    """
    return gated_delta_rule_carry(query, key, value, beta, torch.zeros_like(beta), state)


def delta_rule_step(
    query: Float[Tensor, "B H d_k"],
    key: Float[Tensor, "B H d_k"],
    value: Float[Tensor, "B H d_v"],
    beta: Float[Tensor, "B H"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
) -> tuple[Float[Tensor, "B H d_v"], Float[Tensor, "B H d_v d_k"]]:
    """Read one token more, as a recurrent network does: the cost is the same at every position.

    Args:
        query: where to read, (B, H, d_k).
        key: where to write, of length 1, (B, H, d_k).
        value: the new value of the key, (B, H, d_v).
        beta: the share that is replaced, (B, H).
        state: the memory after the tokens before, (B, H, d_v, d_k); None at the first.

    Returns:
        The output, (B, H, d_v), in the type of ``query``, and the new memory, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> key, value = torch.tensor([[[0.6, 0.8]]]), torch.tensor([[[5.0]]])
    >>> output, state = delta_rule_step(key, key, value, beta=torch.ones(1, 1))
    >>> print(output, state)
    tensor([[[5.]]]) tensor([[[[3., 4.]]]])
    """
    return gated_delta_rule_step(query, key, value, beta, torch.zeros_like(beta), state)


def gated_delta_rule(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    beta: Float[Tensor, "B H T"],
    log_decay: Float[Tensor, "B H T"],
    chunk_size: int = CHUNK,
) -> Float[Tensor, "B H T d_v"]:
    r"""Let the whole memory decay before the delta rule replaces the value of one key.

    $S_t = \alpha_t S_{t-1} (I - \beta_t k_t k_t^\top) + \beta_t v_t k_t^\top, \; o_t = S_t q_t$, where
    $\log \alpha$ is ``log_decay``.

    Args:
        query: where to read, (B, H, T, d_k).
        key: where to write, of length 1, (B, H, T, d_k); see :func:`delta_rule`.
        value: the new value of the key, (B, H, T, d_v).
        beta: the share of the old value that is replaced, from 0 to 1, (B, H, T).
        log_decay: logarithm of the share of the memory that is kept, at most 0, (B, H, T).
        chunk_size: tokens that are solved for at a time; it changes the cost, and nothing else.

    Returns:
        The output, (B, H, T, d_v), in the type of ``query``. Memories are float32 or wider.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    From: Yang, Kautz and Hatamizadeh (2024), *Gated Delta Networks: Improving Mamba2 with Delta Rule*.

    >>> key, value = torch.eye(2).view(1, 1, 2, 2), torch.tensor([[[[8.0], [6.0]]]])
    >>> keep_half = torch.full((1, 1, 2), 0.5).log()
    >>> query = torch.ones(1, 1, 2, 2)  # reads the sum of both values
    >>> print(gated_delta_rule(query, key, value, torch.ones(1, 1, 2), keep_half).flatten())
    tensor([ 8., 10.])
    """
    return gated_delta_rule_carry(query, key, value, beta, log_decay, chunk_size=chunk_size)[0]


def gated_delta_rule_carry(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    beta: Float[Tensor, "B H T"],
    log_decay: Float[Tensor, "B H T"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
    chunk_size: int = CHUNK,
) -> tuple[Float[Tensor, "B H T d_v"], Float[Tensor, "B H d_v d_k"]]:
    r"""Go on from a memory with T more tokens; see :func:`gated_delta_rule`.

    Token i of a chunk writes $u_i = \beta_i (v_i - \alpha_i S_{i-1} k_i)$ under its key. The memory before it
    is the memory at the chunk's start plus the writings of the chunk's earlier tokens, both decayed. The rows
    of U therefore solve one triangular system:
    $(I + \beta K K^\top \odot L) \, U = \beta (V - \gamma K S_0^\top)$.
    Only the part of the product below the diagonal counts; $L$ is :func:`~tfcore.decay.decay_mask`, and
    $\gamma$ the decay since the chunk's start. With U known, the chunk is linear attention with decays. The
    papers solve for all chunks before they know $S_0$, with $\beta \gamma K$ as a second right side (the WY
    representation).

    Args:
        query: where to read, (B, H, T, d_k).
        key: where to write, of length 1, (B, H, T, d_k).
        value: the new value of the key, (B, H, T, d_v).
        beta: the share that is replaced, (B, H, T).
        log_decay: logarithm of the share that is kept, (B, H, T).
        state: the memory after the tokens before these, (B, H, d_v, d_k); None at the beginning.
        chunk_size: tokens that are solved for at a time.

    Returns:
        The output, (B, H, T, d_v), and the memory after the last token, float32 or wider.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    >>> x, beta, log_decay = torch.ones(1, 1, 5, 1), torch.rand(1, 1, 5), -torch.rand(1, 1, 5)
    >>> _, one = gated_delta_rule_carry(x, x, x, beta, log_decay, chunk_size=1)
    >>> _, other = gated_delta_rule_carry(x, x, x, beta, log_decay, chunk_size=4)
    >>> torch.allclose(one, other)
    True
    """
    _check(query, key, value, beta, log_decay, state, time=True)
    if chunk_size < 1:
        raise ValueError(f"expected a chunk_size of 1 or more, got {chunk_size}; {CHUNK} suits most lengths")
    operands = [x.to(wide(query.dtype)) for x in (query, key, value, beta, log_decay)]
    state = _empty(key, value) if state is None else state
    outputs = []
    for q, k, v, b, g in zip(*(x.split(chunk_size, dim=2) for x in operands), strict=True):
        b = b.unsqueeze(-1)  # (B, H, C, 1)
        since_start = g.cumsum(dim=-1).exp().unsqueeze(-1)  # (B, H, C, 1)
        between = decay_mask(g)  # (B, H, C, C)
        until_end = between[..., -1, :].unsqueeze(-1)  # (B, H, C, 1)

        missing = b * (v - since_start * (k @ state.mT))  # (B, H, C, d_v), if the chunk wrote nothing
        overlap = b * (k @ k.mT) * between  # (B, H, C, C)
        written = torch.linalg.solve_triangular(overlap.tril(-1), missing, upper=False, unitriangular=True)

        within = (q @ k.mT * between) @ written  # (B, H, C, d_v)
        outputs.append(since_start * (q @ state.mT) + within)
        state = since_start[..., -1:, :] * state + written.mT @ (until_end * k)  # (B, H, d_v, d_k)
    return torch.cat(outputs, dim=2).to(query.dtype), state


def gated_delta_rule_step(
    query: Float[Tensor, "B H d_k"],
    key: Float[Tensor, "B H d_k"],
    value: Float[Tensor, "B H d_v"],
    beta: Float[Tensor, "B H"],
    log_decay: Float[Tensor, "B H"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
) -> tuple[Float[Tensor, "B H d_v"], Float[Tensor, "B H d_v d_k"]]:
    r"""Read one token more, as a recurrent network does: decay, look up, write, read.

    $S_t = \bar S + \beta_t (v_t - \bar S k_t) k_t^\top, \; \bar S = \alpha_t S_{t-1}, \; o_t = S_t q_t$.

    Args:
        query: where to read, (B, H, d_k).
        key: where to write, of length 1, (B, H, d_k).
        value: the new value of the key, (B, H, d_v).
        beta: the share that is replaced, (B, H).
        log_decay: logarithm of the share that is kept, (B, H).
        state: the memory after the tokens before, (B, H, d_v, d_k); None at the first.

    Returns:
        The output, (B, H, d_v), in the type of ``query``, and the new memory, float32 or wider.

    Raises:
        ValueError: shapes that do not fit.

    >>> one, half = torch.ones(1, 1, 1), torch.full((1, 1), 0.5)
    >>> state = 8 * one[None]
    >>> output, state = gated_delta_rule_step(one, one, 2 * one, half, half.log(), state)
    >>> print(output, state)  # (8 / 2 + 2) / 2
    tensor([[[3.]]]) tensor([[[[3.]]]])
    """
    _check(query, key, value, beta, log_decay, state, time=False)
    q, k, v, b, g = (x.to(wide(query.dtype)) for x in (query, key, value, beta, log_decay))
    state = _empty(key, value) if state is None else state
    state = g.exp()[..., None, None] * state  # (B, H, d_v, d_k)
    found = (state @ k.unsqueeze(-1)).squeeze(-1)  # (B, H, d_v)
    written = b.unsqueeze(-1) * (v - found)
    state = state + written.unsqueeze(-1) * k.unsqueeze(-2)  # (B, H, d_v, d_k)
    return (state @ q.unsqueeze(-1)).squeeze(-1).to(query.dtype), state


def _empty(key: Tensor, value: Tensor) -> Tensor:
    shape = (*key.shape[:2], value.shape[-1], key.shape[-1])
    return key.new_zeros(shape, dtype=wide(key.dtype))


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    log_decay: Tensor,
    state: Tensor | None,
    time: bool,
) -> None:
    axes = ("B", "H", "T", "d") if time else ("B", "H", "d")
    if not query.ndim == value.ndim == len(axes) or 0 in query.shape:
        raise ValueError(
            f"expected query and value of axes ({', '.join(axes)}), none empty, got {tuple(query.shape)} and "
            f"{tuple(value.shape)}; a single head goes in as query[None, None]"
        )
    shapes = {"key": (key, query.shape), "value": (value, (*query.shape[:-1], value.shape[-1]))}
    shapes |= {name: (x, query.shape[:-1]) for name, x in (("beta", beta), ("log_decay", log_decay))}
    if state is not None:
        shapes["state"] = state, (*query.shape[:2], value.shape[-1], query.shape[-1])
    for name, (x, shape) in shapes.items():
        if x.shape != shape:
            raise ValueError(
                f"expected {name} of shape {tuple(shape)} for query {tuple(query.shape)} and value "
                f"{tuple(value.shape)}, got {tuple(x.shape)}; repeat shared heads first, and pass the state "
                "that the same sequences left"
            )
