"""Latent attention: keys and values are made from one short vector for each token."""

from __future__ import annotations

from dataclasses import dataclass

from tfcore.config.checks import check_eps, check_sizes


@dataclass(frozen=True)
class LatentAttentionConfig:
    r"""One layer of latent attention (MLA): a cache holds $c_t$ and one rotated key instead of all heads.

    Args:
        d_model: width of the residual stream.
        num_heads: heads, h.
        d_latent: width of the vector c that keys and values are made from.
        d_nope: channels of a head's query and key that are not rotated.
        d_rope: channels that are; the rotated part of the key is shared by all heads.
        d_value: width of a head's value.
        d_query: width of the vector that queries are made from; they are made from the stream when None.
        bias: whether the projections from and to the stream add a bias; those of the heads never do.
        scale: multiplies the scores; $1 / \sqrt{d_{nope} + d_{rope}}$ when None.
        norm_eps: of the norms of both vectors.

    Raises:
        ValueError: a size below 1, an odd number of channels to rotate, or an eps below 0.

    From: DeepSeek-AI (2024), *DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language
    Model*, section 2.1.

    >>> widths = {"d_latent": 10, "d_nope": 6, "d_rope": 4, "d_value": 7}
    >>> LatentAttentionConfig(d_model=24, num_heads=3, **widths).width
    10
    """

    d_model: int
    num_heads: int
    d_latent: int
    d_nope: int
    d_rope: int
    d_value: int
    d_query: int | None = None
    bias: bool = False
    scale: float | None = None
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "num_heads", "d_latent", "d_nope", "d_rope", "d_value", "d_query")
        check_eps("norm_eps", self.norm_eps)
        if self.d_rope % 2:
            raise ValueError(f"expected an even d_rope, got {self.d_rope}; a turn takes two channels")

    @property
    def width(self) -> int:
        """Width of a head's query and key, both parts."""
        return self.d_nope + self.d_rope

    @property
    def rotated(self) -> int:
        """Channels of a head that a rotation turns."""
        return self.d_rope

    @property
    def window(self) -> None:
        """Every token is seen."""
        return None

    @property
    def cached(self) -> tuple[int, int, int]:
        """Heads that a cache keeps, and the widths of what it keeps in place of keys and of values."""
        return 1, self.d_latent, self.d_rope
