"""Gated DeltaNet: a layer that keeps a memory of fixed size in place of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from tfcore.config.checks import check_eps, check_sizes


@dataclass(frozen=True)
class DeltaNetConfig:
    r"""One layer of gated delta rules: $h_v$ memories of $d_v \times d_k$ numbers.

    Args:
        d_model: width of the residual stream.
        num_key_heads: heads of queries and keys; each serves the same number of value heads.
        num_value_heads: heads of values, that is memories.
        d_key: width of a query and of a key.
        d_value: width of a value.
        d_conv: tokens that the convolution before the rule sees, the token itself included.
        norm_eps: of the norm of each head's output.

    Raises:
        ValueError: a size below 1, an eps below 0, or key heads that do not divide the value heads.

    From: Yang, Kautz and Hatamizadeh (2024), *Gated Delta Networks: Improving Mamba2 with Delta Rule*.

    >>> DeltaNetConfig(d_model=24, num_key_heads=2, num_value_heads=4, d_key=5, d_value=7).channels
    48
    """

    d_model: int
    num_key_heads: int
    num_value_heads: int
    d_key: int
    d_value: int
    d_conv: int = 4
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "num_key_heads", "num_value_heads", "d_key", "d_value", "d_conv")
        check_eps("norm_eps", self.norm_eps)
        if self.num_value_heads % self.num_key_heads:
            raise ValueError(
                f"expected key heads that divide the value heads, got {self.num_key_heads} and "
                f"{self.num_value_heads}; each key head serves the same number of value heads"
            )

    @property
    def channels(self) -> int:
        """Channels of queries, keys and values, which the convolution sees."""
        return 2 * self.num_key_heads * self.d_key + self.num_value_heads * self.d_value

    @property
    def num_heads(self) -> int:
        """Memories of the layer."""
        return self.num_value_heads

    @property
    def rotated(self) -> int:
        """Width of a query, none of which is rotated."""
        return self.d_key

    @property
    def window(self) -> None:
        """Every token leaves its trace."""
        return None
