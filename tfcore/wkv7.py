"""RWKV-7's memory: a delta rule with a rate for every channel, which may read one key and write another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tfcore.attention.pattern import wide
from tfcore.decay import decay_mask

CHUNK = 16  # tokens that are solved for at a time; the decays between them are CHUNK * CHUNK * d_k numbers


def wkv7(
    query: Float[Tensor, "B H T d_k"],
    log_decay: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    removed: Float[Tensor, "B H T d_k"],
    rate: Float[Tensor, "B H T d_k"],
    chunk_size: int = CHUNK,
) -> Float[Tensor, "B H T d_v"]:
    r"""Let each channel of the keys decay, remove what one key finds, and write a value under another.

    $S_t = S_{t-1} \bigl( \operatorname{diag}(w_t) - \hat\kappa_t (a_t \odot \hat\kappa_t)^\top \bigr)
    + v_t k_t^\top, \; o_t = S_t q_t$, where $\log w$ is ``log_decay``, $\hat\kappa$ is ``removed`` and a is
    ``rate``.

    The paper calls the query receptance. With $w = \alpha$, $a = \alpha \beta$ and the key
    $\beta \hat\kappa$ this is :func:`~tfcore.delta_rule.gated_delta_rule`. RWKV-4's average is
    :func:`~tfcore.wkv.wkv`.

    Args:
        query: where to read, (B, H, T, d_k).
        log_decay: logarithm of the share of each channel that is kept, at most 0, (B, H, T, d_k).
        key: where to write, (B, H, T, d_k).
        value: what is written, (B, H, T, d_v).
        removed: the key whose old value is removed, of length 1, (B, H, T, d_k).
        rate: how much of it each channel loses, from 0 to 1, (B, H, T, d_k).
        chunk_size: tokens that are solved for at a time; it changes the cost, and nothing else.

    Returns:
        The output, (B, H, T, d_v), in the type of ``query``. Memories are float32 or wider.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    From: Peng et al. (2025), *RWKV-7 "Goose" with Expressive Dynamic State Evolution*; in chunks as the delta
    rule of Yang et al. (2024), *Parallelizing Linear Transformers with the Delta Rule over Sequence Length*.

    >>> # three values for one key: each replaces half of what is there
    >>> one = torch.ones(1, 1, 3, 1)
    >>> value = torch.tensor([[[[4.0], [6.0], [0.0]]]])
    >>> print(wkv7(one, 0 * one, 0.5 * one, value, removed=one, rate=0.5 * one).flatten())
    tensor([2., 4., 2.])
    """
    return wkv7_carry(query, log_decay, key, value, removed, rate, chunk_size=chunk_size)[0]


def wkv7_carry(
    query: Float[Tensor, "B H T d_k"],
    log_decay: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H T d_k"],
    value: Float[Tensor, "B H T d_v"],
    removed: Float[Tensor, "B H T d_k"],
    rate: Float[Tensor, "B H T d_k"],
    state: Float[Tensor, "B H d_v d_k"] | None = None,
    chunk_size: int = CHUNK,
) -> tuple[Float[Tensor, "B H T d_v"], Float[Tensor, "B H d_v d_k"]]:
    r"""Go on from a memory with T more tokens; see :func:`wkv7`.

    Token i finds $u_i = S_{i-1} \hat\kappa_i$ and writes two values: $v_i$ under $k_i$, and $-u_i$ under
    $r_i = a_i \odot \hat\kappa_i$. Let the diagonal matrix $D_{ij}$ be the decays of tokens j + 1 to i,
    multiplied, and $S_0$ the memory at the chunk's start. Then the rows of U solve one triangular system, as
    in :func:`~tfcore.delta_rule.gated_delta_rule_carry`:
    $u_i + \sum_{j<i} (\hat\kappa_i^\top D_{i-1,j} r_j) \, u_j
    = S_0 D_{i-1,0} \hat\kappa_i + \sum_{j<i} (\hat\kappa_i^\top D_{i-1,j} k_j) \, v_j$.

    Args:
        query: where to read, (B, H, T, d_k).
        log_decay: logarithm of the share of each channel that is kept, (B, H, T, d_k).
        key: where to write, (B, H, T, d_k).
        value: what is written, (B, H, T, d_v).
        removed: the key whose old value is removed, of length 1, (B, H, T, d_k).
        rate: how much of it each channel loses, (B, H, T, d_k).
        state: the memory after the tokens before these, (B, H, d_v, d_k); None at the beginning.
        chunk_size: tokens that are solved for at a time.

    Returns:
        The output, (B, H, T, d_v), and the memory after the last token, float32 or wider.

    Raises:
        ValueError: shapes that do not fit, or a chunk size below 1.

    >>> inputs = torch.ones(1, 1, 5, 1), -torch.rand(1, 1, 5, 1), *torch.rand(4, 1, 1, 5, 1)
    >>> _, one = wkv7_carry(*inputs, chunk_size=1)
    >>> _, other = wkv7_carry(*inputs, chunk_size=4)
    >>> torch.allclose(one, other)
    True
    """
    _check(query, log_decay, key, value, removed, rate, state, time=True)
    if chunk_size < 1:
        raise ValueError(f"expected a chunk_size of 1 or more, got {chunk_size}; {CHUNK} suits most lengths")
    q, g, k, v, kappa, a = (x.to(wide(query.dtype)) for x in (query, log_decay, key, value, removed, rate))
    state = _empty(key, value) if state is None else state
    outputs = []
    chunks = zip(*(x.split(chunk_size, dim=2) for x in (q, g, k, v, kappa, a * kappa)), strict=True)
    for q, g, k, v, kappa, r in chunks:
        output, state = _chunk(q, g, k, v, kappa, r, state)
        outputs.append(output)
    return torch.cat(outputs, dim=2).to(query.dtype), state


def _chunk(
    q: Tensor, g: Tensor, k: Tensor, v: Tensor, kappa: Tensor, r: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Read and write the C tokens of a chunk; their cards are v under k, and -U under r."""
    since_start = g.cumsum(dim=2).exp()  # (B, H, C, d_k)
    until_token = F.pad(since_start[:, :, :-1], (0, 0, 1, 0), value=1.0)  # without the token's own decay
    # To scale queries by since_start and keys by 1 / since_start would need no array of C * C * d_k numbers,
    # but overflows where a channel keeps almost nothing. The decay from one token to another is at most 1.
    between = decay_mask(g.mT).movedim(2, -1)  # (B, H, C, C, d_k)
    keys, erasures = (between * x.unsqueeze(2) for x in (k, r))  # (B, H, C, C, d_k): key j after token i

    query_keys, kappa_keys = _scores(q, kappa, keys)  # (B, H, C, C)
    query_erasures, kappa_erasures = _scores(q, kappa, erasures)
    # If the chunk erased nothing, its tokens would find (B, H, C, d_v):
    unerased = (until_token * kappa) @ state.mT + kappa_keys @ v
    found = torch.linalg.solve_triangular(kappa_erasures, unerased, upper=False, unitriangular=True)

    output = (since_start * q) @ state.mT + query_keys @ v - query_erasures @ found  # (B, H, C, d_v)
    state = since_start[:, :, -1:] * state + v.mT @ keys[:, :, -1] - found.mT @ erasures[:, :, -1]
    return output, state


def _scores(q: Tensor, kappa: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply the queries by the keys after their tokens, and the removed keys by those before theirs."""
    # The removed key of token i + 1 reads what the query of token i reads: one product for both.
    following = F.pad(kappa[:, :, 1:], (0, 0, 0, 1))  # (B, H, C, d_k)
    readers = torch.stack([q, following], dim=3)  # (B, H, C, 2, d_k)
    of_query, of_following = (readers @ keys.mT).unbind(dim=3)  # (B, H, C, C)
    return of_query, F.pad(of_following[:, :, :-1], (0, 0, 1, 0))


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
    _check(query, log_decay, key, value, removed, rate, state, time=False)
    q, g, k, v, kappa, a = (x.to(wide(query.dtype)) for x in (query, log_decay, key, value, removed, rate))
    state = _empty(key, value) if state is None else state
    found = state @ kappa.unsqueeze(-1)  # (B, H, d_v, 1): the old value
    state = g.exp().unsqueeze(-2) * state - found * (a * kappa).unsqueeze(-2)  # (B, H, d_v, d_k)
    state = state + v.unsqueeze(-1) * k.unsqueeze(-2)
    return (state @ q.unsqueeze(-1)).squeeze(-1).to(query.dtype), state


def _empty(key: Tensor, value: Tensor) -> Tensor:
    shape = (*key.shape[:2], value.shape[-1], key.shape[-1])
    return key.new_zeros(shape, dtype=wide(key.dtype))


def _check(
    query: Tensor,
    log_decay: Tensor,
    key: Tensor,
    value: Tensor,
    removed: Tensor,
    rate: Tensor,
    state: Tensor | None,
    time: bool,
) -> None:
    axes = ("B", "H", "T", "d_k") if time else ("B", "H", "d_k")
    if query.ndim != len(axes) or 0 in query.shape:
        raise ValueError(
            f"expected a query of axes ({', '.join(axes)}), none empty, got {tuple(query.shape)}; "
            "a single head goes in as query[None, None]"
        )
    alike = {"log_decay": log_decay, "key": key, "removed": removed, "rate": rate}
    wanted = {name: (x, tuple(query.shape)) for name, x in alike.items()}
    wanted["value"] = value, (*query.shape[:-1], value.shape[-1])
    if state is not None:
        wanted["state"] = state, (*query.shape[:2], value.shape[-1], query.shape[-1])
    for name, (x, shape) in wanted.items():
        if x.shape != shape:
            raise ValueError(
                f"expected {name} of shape {tuple(shape)} for query {tuple(query.shape)} and value "
                f"{tuple(value.shape)}, got {tuple(x.shape)}; repeat shared heads first, and pass the state "
                "that the same sequences left"
            )
