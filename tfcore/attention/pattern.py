"""Which keys each query may attend to, worked out for one tile of the score matrix at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from tfcore.masks import position_mask

ALL = slice(None)


@dataclass(frozen=True)
class Pattern:
    """The and of a mask, a causal rule and a window.

    Args:
        mask: boolean, four axes, each of full size or 1; True = may attend.
        causal: whether a key must not come after its query.
        window: how many positions a query sees to either side, itself included; None for all.
        q_pos: position of each query, (T_q,) or (B, T_q); may be None if no rule needs it.
        k_pos: position of each key, (T_k,) or (B, T_k); likewise.
        positions_given: whether the caller chose the positions, or they are the default ones.

    >>> pattern = Pattern(None, True, None, torch.arange(4), torch.arange(4), positions_given=False)
    >>> print(pattern.tile(slice(0, 2), slice(1, 4)).int())
    tensor([[[[0, 0, 0],
              [1, 0, 0]]]], dtype=torch.int32)
    """

    mask: Bool[Tensor, "#B #H #T_q #T_k"] | None
    causal: bool
    window: int | None
    q_pos: Int[Tensor, "*#B T_q"] | None
    k_pos: Int[Tensor, "*#B T_k"] | None
    positions_given: bool

    def tile(self, rows: slice = ALL, cols: slice = ALL) -> Bool[Tensor, "#B #H #rows #cols"] | None:
        """Work out one tile of the combined mask; None where everything is allowed."""
        allowed = None if self.mask is None else cut(self.mask, rows, cols)
        if self.causal or self.window is not None:
            assert self.q_pos is not None
            assert self.k_pos is not None
            q_pos, k_pos = self.q_pos[..., rows], self.k_pos[..., cols]
            by_position = position_mask(q_pos, k_pos, causal=self.causal, window=self.window)
            by_position = by_position.unsqueeze(-3)  # the head axis
            allowed = by_position if allowed is None else allowed & by_position
        if allowed is not None and allowed.ndim == 3:
            allowed = allowed.unsqueeze(0)
        return allowed


def cut(
    x: Shaped[Tensor, "#B #H #T_q #T_k"], rows: slice, cols: slice
) -> Shaped[Tensor, "#B #H #rows #cols"]:
    """Take a tile of a matrix that may be broadcast: an axis of size 1 stays whole.

    >>> print(cut(torch.zeros(1, 2, 6, 1), rows=slice(0, 4), cols=slice(2, 5)).shape)
    torch.Size([1, 2, 4, 1])
    """
    rows = rows if x.shape[-2] > 1 else ALL
    cols = cols if x.shape[-1] > 1 else ALL
    return x[..., rows, cols]


def blank_unused(
    q: Float[Tensor, "B H T_q d_k"],
    k: Float[Tensor, "B H_kv T_k d_k"],
    v: Float[Tensor, "B H_kv T_k d_v"],
    allowed: Bool[Tensor, "#B #H #T_q #T_k"] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Zero the queries that may attend to nothing, and the keys and values that no query may attend to.

    Weight zero does not hide them: 0 x NaN is NaN, in the output and in every gradient.

    >>> q, v = torch.ones(1, 1, 1, 1), torch.tensor([[[[5.0], [torch.nan]]]])
    >>> _, _, seen = blank_unused(q, v, v, allowed=torch.tensor([[[[True, False]]]]))
    >>> print(seen.flatten())
    tensor([5., 0.])
    """
    if allowed is None:
        return q, k, v
    idle = ~allowed.any(dim=-1, keepdim=True)  # (B, H, T_q, 1)
    unseen = ~allowed.any(dim=-2, keepdim=True).mT  # (B, H, T_k, 1)
    if unseen.shape[1] > 1 and k.shape[1] != unseen.shape[1]:  # all the heads of a group must agree
        unseen = unseen.unflatten(1, (k.shape[1], -1)).all(dim=2)  # (B, H_kv, T_k, 1)
    return q.masked_fill(idle, 0.0), k.masked_fill(unseen, 0.0), v.masked_fill(unseen, 0.0)


def in_type(bias: Float[Tensor, "#B #H #T_q #T_k"], dtype: torch.dtype) -> Float[Tensor, "#B #H #T_q #T_k"]:
    """Convert a bias to another type. A finite bias stays finite in a narrower type.

    >>> print(in_type(torch.tensor([[[[-1e5, -torch.inf]]]]), torch.float16))
    tensor([[[[-65504.,    -inf]]]], dtype=torch.float16)
    """
    if bias.dtype == dtype:
        return bias
    limits = torch.finfo(dtype)
    return bias.to(dtype).clamp(limits.min, limits.max).masked_fill(bias == -torch.inf, -torch.inf)


def wide(dtype: torch.dtype) -> torch.dtype:
    """Name the type that scores, softmax and lse are computed in: float32 or wider.

    >>> wide(torch.bfloat16), wide(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)
