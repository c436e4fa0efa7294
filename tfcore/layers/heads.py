"""Heads: cut the width of the stream into h pieces, put them together again, share keys among groups."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def split_heads(x: Float[Tensor, "B T d"], num_heads: int) -> Float[Tensor, "B h T d_head"]:
    r"""Give each head its own slice of the channels, and the head axis its place before time.

    $x_{b,t,\,h d_{head} + i} \mapsto x_{b,h,t,i}$.

    Args:
        x: (B, T, d).
        num_heads: h, which divides d.

    Returns:
        The heads, (B, h, T, d / h), a view.

    Raises:
        ValueError: a number of heads that does not divide d.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.2.

    >>> import torch
    >>> print(split_heads(torch.arange(4).view(1, 1, 4), num_heads=2).tolist())
    [[[[0, 1]], [[2, 3]]]]
    """
    if num_heads < 1 or x.shape[-1] % num_heads:
        raise ValueError(
            f"expected a number of heads that divides the width, got {num_heads} heads and {tuple(x.shape)}; "
            "every head takes the same number of channels"
        )
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, T, h, d_head), then (B, h, T, d_head)


def merge_heads(x: Float[Tensor, "B h T d_head"]) -> Float[Tensor, "B T d"]:
    r"""Put the heads side by side again: the inverse of :func:`split_heads`.

    $x_{b,h,t,i} \mapsto x_{b,t,\,h d_{head} + i}$.

    Args:
        x: (B, h, T, d_head).

    Returns:
        (B, T, h * d_head).

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.2.

    >>> import torch
    >>> x = torch.randn(2, 5, 12)
    >>> torch.equal(merge_heads(split_heads(x, num_heads=3)), x)
    True
    """
    return x.transpose(1, 2).flatten(2)  # (B, T, h, d_head), then (B, T, h d_head)


def repeat_kv(x: Float[Tensor, "B h_kv T d"], num_groups: int) -> Float[Tensor, "B h T d"]:
    r"""Copy each key or value head for the query heads that share it, copies side by side.

    $y_{b,h} = x_{b,\lfloor h / g \rfloor}$.

    Args:
        x: (B, h_kv, T, d).
        num_groups: g, copies of each.

    Returns:
        (B, h_kv * g, T, d).

    From: Ainslie et al. (2023), *GQA: Training Generalized Multi-Query Transformer Models*.

    >>> import torch
    >>> print(repeat_kv(torch.tensor([1, 2]).view(1, 2, 1, 1), num_groups=2).flatten())
    tensor([1, 1, 2, 2])
    """
    return x.repeat_interleave(num_groups, dim=1)
