"""A cache in 8 bits: less to keep, and less to read at each step, for a small error."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from tfcore.cache.protocol import KeysAndValues, check_fits, check_pair, check_truncation, count_bytes
from tfcore.quantize import quantize_absmax


class QuantizedCache:
    r"""A cache in 8 bits: about a quarter of the memory of float32, with an error of at most half a step.

    In bfloat16, rounding the result to the type of the keys adds an error of up to half a step.

    Tokens are rounded in groups, each channel of a group with a scale of its own. Tokens that do not fill a
    group yet are not rounded. Attention sees new tokens before they are rounded, so a text that is read in
    one piece gives the very output that it gives without a cache.

    Args:
        group: tokens that share their scales.

    From: Liu et al. (2024), *KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache*, whose grouping
    this is, for keys and values alike and in 8 bits.

    >>> cache = QuantizedCache(group=4)
    >>> k, v = cache.update(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))
    >>> print(cache.length, k.shape, cache.num_bytes() < k.nbytes + v.nbytes)
    5 torch.Size([2, 3, 5, 4]) True
    """

    def __init__(self, group: int = 32) -> None:
        if group < 1:
            raise ValueError(
                f"expected a group of 1 token or more, got {group}; larger ones take less memory"
            )
        self.group, self.length = group, 0
        # Keys and values side by side, 2 H heads of them.
        self.rounded: Int8[Tensor, "B 2H groups group d"] | None = None
        self.scale: Float[Tensor, "B 2H groups 1 d"] | None = None
        self.recent: Float[Tensor, "B 2H less_than_group d"] | None = None

    def update(self, k: Tensor, v: Tensor) -> KeysAndValues:
        """Give back all keys and values: the rounded groups as numbers again, then the others as they came.

        After that, new whole groups are rounded. New keys and values are (B, H_kv, T, d_head).

        Raises:
            ValueError: keys and values of two shapes, or not of the batch, heads, width and type of the old.
        """
        check_pair(k, v)
        check_fits(v, k)
        new = torch.cat([k, v], dim=1)  # (B, 2H, T, d)
        if self.recent is not None:
            check_fits(k, self.recent.chunk(2, dim=1)[0])
            new = torch.cat([self.recent, new], dim=2)
        seen = new
        if self.rounded is not None and self.scale is not None:
            seen = torch.cat([dequantize_kv(self.rounded, self.scale).flatten(2, 3), new], dim=2)
        self.length += k.shape[2]
        self._store(new)
        keys, values = seen.chunk(2, dim=1)  # (B, H, length, d) each
        return keys, values

    def _store(self, new: Tensor) -> None:
        """Round all whole groups, and keep the rest."""
        whole = new.shape[2] // self.group * self.group
        if whole:
            rounded, scale = quantize_kv(new[:, :, :whole].unflatten(2, (-1, self.group)))
            if self.rounded is not None and self.scale is not None:
                rounded, scale = torch.cat([self.rounded, rounded], 2), torch.cat([self.scale, scale], 2)
            self.rounded, self.scale = rounded, scale
        self.recent = new[:, :, whole:].clone() if whole else new

    def visible(self, num_new: int) -> int:
        """Count all tokens seen and the new ones, rounded or not: there is room for any number."""
        return self.length + num_new

    def reorder(self, rows: Tensor) -> None:
        """Make row b a copy of row ``rows[b]``, in the rounded groups and in the other tokens."""
        if self.rounded is not None and self.scale is not None:
            self.rounded, self.scale = self.rounded[rows], self.scale[rows]
        if self.recent is not None:
            self.recent = self.recent[rows]

    def truncate(self, length: int) -> None:
        """Forget all but the first tokens, as long as those forgotten are not rounded yet.

        Raises:
            ValueError: a length that would cut a rounded group, or above the number of tokens seen.
        """
        check_truncation(length, self.length)
        if self.recent is None:
            return
        whole = self.length - self.recent.shape[2]
        if length < whole:
            raise ValueError(
                f"expected a cache that can go back to {length} tokens, got one that has rounded the first "
                f"{whole} in groups; use a preallocated cache"
            )
        self.recent = self.recent[:, :, : length - whole]
        self.length = length

    def num_bytes(self) -> int:
        """Count the bytes of the groups, of their scales, and of the tokens that are not rounded yet."""
        return count_bytes(self.rounded, self.scale, self.recent)


def quantize_kv(
    x: Float[Tensor, "*batch T d"],
) -> tuple[Int8[Tensor, "*batch T d"], Float[Tensor, "*batch 1 d"]]:
    r"""Round each channel to 8 bits, in steps of its own size.

    $s = \max_t |x_t| / 127, \; q = \text{round}(x / s)$.

    Args:
        x: keys or values, (B, h, T, d).

    Returns:
        The rounded numbers from -127 to 127, int8, and the steps (B, h, 1, d); a channel of zeros has step 0.

    From: Dettmers et al. (2022), *LLM.int8()*, section 2 (absolute-maximum quantisation); Liu et al. (2024),
    *KIVI* (by channel).

    >>> q, scale = quantize_kv(torch.tensor([-1.0, 0.5]).view(1, 1, 2, 1))
    >>> print(q.flatten())
    tensor([-127,   64], dtype=torch.int8)
    """
    return quantize_absmax(x, dim=-2)


def dequantize_kv(
    q: Int8[Tensor, "*batch T d"], scale: Float[Tensor, "*batch 1 d"]
) -> Float[Tensor, "*batch T d"]:
    r"""Turn steps into numbers again: the inverse of :func:`quantize_kv` up to half a step.

    $\hat x = s \, q, \; |\hat x - x| \le s / 2$, before the product is rounded to its type.

    Args:
        q: rounded numbers, int8.
        scale: size of a step, (B, h, 1, d).

    Returns:
        Keys or values in the type of ``scale``.

    From: Dettmers et al. (2022), *LLM.int8()*.

    >>> two = torch.tensor([[[[2]]]], dtype=torch.int8)
    >>> print(dequantize_kv(two, torch.tensor([[[[0.25]]]])).item())
    0.5
    """
    return q * scale
