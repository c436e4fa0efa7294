"""Masks: which keys a query may attend to. Boolean, **True = may attend**, as in torch's SDPA.

(``torch.nn.MultiheadAttention`` has it the other way round: there True means masked.)
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def position_mask(
    q_pos: Int[Tensor, "*#batch T_q"],
    k_pos: Int[Tensor, "*#batch T_k"],
    *,
    causal: bool = True,
    window: int | None = None,
) -> Bool[Tensor, "*batch T_q T_k"]:
    r"""Decide by position, not by index, which query may attend to which key.

    Causal: $p^k_j \le p^q_i$. Window w: $|p^q_i - p^k_j| < w$, so that a window of 1 is the token itself.

    Args:
        q_pos: position of each query in its sequence, (..., T_q).
        k_pos: position of each key in the same sequence, (..., T_k).
        causal: forbid keys that come after the query.
        window: forbid keys that are this far away or farther; None for no limit.

    Returns:
        The mask, (..., T_q, T_k).

    Raises:
        ValueError: a window below 1.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.3 (causal); Beltagy, Peters and
    Cohan (2020), *Longformer: The Long-Document Transformer* (window).

    >>> cache = torch.arange(4)
    >>> print(position_mask(torch.tensor([2]), cache, window=2).int())
    tensor([[0, 1, 1, 0]], dtype=torch.int32)
    """
    if window is not None and window < 1:
        raise ValueError(
            f"expected a window of 1 or more, got {window!r}; a window counts the token itself, "
            "so 1 is the smallest and None means no window"
        )
    distance = q_pos.long().unsqueeze(-1) - k_pos.long().unsqueeze(-2)
    allowed = torch.ones_like(distance, dtype=torch.bool)
    if causal:
        allowed &= distance >= 0
    if window is not None:
        allowed &= distance.abs() < window
    return allowed


def causal_mask(
    q_len: int, k_len: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "q_len k_len"]:
    r"""Let each token attend to itself and to the tokens before it; the queries are the last of the keys.

    $\text{mask}_{ij} = [\, j \le i + (T_k - T_q) \,]$, so that the last query sees the last key.

    Args:
        q_len: number of queries, T_q.
        k_len: number of keys, T_k; as many as queries when None.
        device: where the mask lives.

    Returns:
        The mask, (T_q, T_k).

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.3.

    >>> print(causal_mask(2, 3).int())
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    q_pos, k_pos = default_positions(q_len, q_len if k_len is None else k_len, device)
    return position_mask(q_pos, k_pos)


def sliding_window_mask(
    q_len: int, window: int, k_len: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "q_len k_len"]:
    r"""Let each token attend to itself and to the ``window - 1`` tokens before it.

    $\text{mask}_{ij} = [\, 0 \le i + (T_k - T_q) - j < w \,]$.

    Args:
        q_len: number of queries, T_q.
        window: how many tokens a query sees, itself included.
        k_len: number of keys, T_k; as many as queries when None.
        device: where the mask lives.

    Returns:
        The mask, (T_q, T_k).

    Raises:
        ValueError: a window below 1.

    From: Child et al. (2019), *Generating Long Sequences with Sparse Transformers*; Jiang et al. (2023),
    *Mistral 7B*.

    >>> print(sliding_window_mask(3, window=2).int())
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    q_pos, k_pos = default_positions(q_len, q_len if k_len is None else k_len, device)
    return position_mask(q_pos, k_pos, window=window)


def block_sparse_mask(
    q_pos: Int[Tensor, "*#batch T_q"],
    k_pos: Int[Tensor, "*#batch T_k"],
    block: int,
    *,
    local: int = 1,
    stride: int | None = None,
    num_global: int = 0,
    causal: bool = True,
) -> Bool[Tensor, "*batch T_q T_k"]:
    r"""Cut the sequence into blocks, and let each attend to a few of them: near, every n-th, global.

    With $b = \lfloor p / \text{block} \rfloor$ and $\Delta = b^q - b^k$: $|\Delta| < \text{local}$, or
    $\Delta \bmod \text{stride} = 0$, or $\min(b^q, b^k) < \text{global}$; and causality inside all of them.

    Whole blocks are open or closed, so that an implementation in tiles can skip the closed ones. With local =
    stride, two layers reach every earlier token, and with stride near the root of the number of blocks the
    cost grows as $T^{1.5}$. The blocks that BigBird opens at random can be or-ed to the mask.

    Args:
        q_pos: position of each query in its sequence, (..., T_q).
        k_pos: position of each key in the same sequence, (..., T_k).
        block: number of tokens in a block.
        local: number of blocks that are open to either side, the query's own included.
        stride: open every block at a multiple of this distance; None for none.
        num_global: number of blocks at the start that see all and that all see.
        causal: forbid keys that come after the query, in open blocks and to global queries too.

    Returns:
        The mask, (..., T_q, T_k).

    Raises:
        ValueError: a block, local or stride below 1, or num_global below 0.

    From: Child et al. (2019), *Generating Long Sequences with Sparse Transformers* (strided); Beltagy, Peters
    and Cohan (2020), *Longformer* (global); Zaheer et al. (2020), *Big Bird* (by blocks).

    >>> token = torch.arange(6)
    >>> print(block_sparse_mask(token, token, block=1, local=2, stride=4).int()[5])
    tensor([0, 1, 0, 0, 1, 1], dtype=torch.int32)
    """
    least = {"block": (block, 1), "local": (local, 1), "stride": (stride, 1), "num_global": (num_global, 0)}
    for name, (value, lowest) in least.items():
        if value is not None and value < lowest:
            raise ValueError(
                f"expected {name} of {lowest} or more, got {value}; it is a number of tokens or blocks"
            )
    q_pos, k_pos = q_pos.long(), k_pos.long()  # differences of unsigned numbers would wrap around
    q_block, k_block = (q_pos // block).unsqueeze(-1), (k_pos // block).unsqueeze(-2)
    distance = q_block - k_block
    allowed = distance.abs() < local
    if stride is not None:
        allowed |= distance % stride == 0
    allowed |= torch.minimum(q_block, k_block) < num_global
    return allowed & position_mask(q_pos, k_pos, causal=causal)


def padding_mask(lengths: Int[Tensor, " B"], max_len: int) -> Bool[Tensor, "B max_len"]:
    r"""Mark the real tokens of sequences that were padded on the right.

    $\text{mask}_{bj} = [\, j < \ell_b \,]$.

    Args:
        lengths: number of real tokens of each sequence, (B,).
        max_len: length that the batch was padded to, T.

    Returns:
        The mask, (B, T), True = real token.

    From: Vaswani et al. (2017); the batches of every implementation since.

    >>> print(padding_mask(torch.tensor([1, 3]), 3).int())
    tensor([[1, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    return torch.arange(max_len, device=lengths.device) < lengths.unsqueeze(-1)


def combine_masks(
    causal: Bool[Tensor, "T_q T_k"], padding: Bool[Tensor, "B T_k"]
) -> Bool[Tensor, "B 1 T_q T_k"]:
    r"""Allow the pairs that both masks allow: keys that are not padding and do not come later.

    $\text{mask}_{b1ij} = \text{causal}_{ij} \wedge \text{padding}_{bj}$.

    Args:
        causal: (T_q, T_k), shared by the batch.
        padding: (B, T_k), shared by heads and queries.

    Returns:
        The mask, (B, 1, T_q, T_k), ready to broadcast over heads.

    Raises:
        ValueError: masks that are not boolean, or whose T_k differ.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.3.

    >>> print(combine_masks(causal_mask(2), torch.tensor([[False, True]])).int())
    tensor([[[[0, 0],
              [0, 1]]]], dtype=torch.int32)
    """
    for name, mask in (("causal", causal), ("padding", padding)):
        if mask.dtype != torch.bool:
            raise ValueError(
                f"expected a boolean {name} mask, True = may attend, got {mask.dtype}; use .bool()"
            )
    if causal.ndim != 2 or padding.ndim != 2 or causal.shape[1] != padding.shape[1]:
        raise ValueError(
            f"expected causal (T_q, T_k) and padding (B, T_k), got {tuple(causal.shape)} and "
            f"{tuple(padding.shape)}; give both the same number of keys"
        )
    return causal & padding[:, None, None, :]


def default_positions(
    q_len: int, k_len: int, device: torch.device | str | None = None
) -> tuple[Int[Tensor, " q_len"], Int[Tensor, " k_len"]]:
    r"""Number keys from 0 and let the queries be the last of them, as when decoding against a cache.

    $p^k_j = j, \; p^q_i = i + (T_k - T_q)$.

    Args:
        q_len: number of queries, T_q.
        k_len: number of keys, T_k.
        device: where the positions live.

    Returns:
        The positions of queries (T_q,) and of keys (T_k,).

    From: the cached decoding of every decoder-only model; torch calls it ``causal_lower_right``.

    >>> q_pos, k_pos = default_positions(2, 5)
    >>> print(q_pos)
    tensor([3, 4])
    """
    return torch.arange(k_len - q_len, k_len, device=device), torch.arange(k_len, device=device)
