"""Native sparse attention: the blocks that are compressed, the blocks that are selected, and the window."""

from __future__ import annotations

from dataclasses import dataclass

from tfcore.config.checks import check_sizes


@dataclass(frozen=True)
class NativeSparseConfig:
    r"""One layer of native sparse attention: three ways to look at few keys, and a gate for each.

    Args:
        d_model: width of the residual stream.
        num_heads: query heads, h.
        num_kv_heads: heads of keys and values; the query heads of one group read the same blocks.
        d_head: width of a head.
        compress_block: how many tokens are compressed into one key and one value, $B_c$ (l in the paper).
        compress_stride: tokens from the start of one such block to the start of the next, r (d in the paper);
            below ``compress_block`` they overlap.
        select_block: tokens in a block that can be selected, $B_s$ (l' in the paper).
        num_selected: how many of these blocks a query reads, $n_s$ (n in the paper), the fixed ones included.
        window: how many tokens a query sees in the window, itself included, w.
        num_first: how many blocks at the start every query reads.
        num_local: how many blocks every query reads at its own place: its own block and those before it.

    Raises:
        ValueError: a size below 1, groups that do not divide the heads, a stride that would skip tokens, or
            more fixed blocks than selected ones.

    From: Yuan et al. (2025), *Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
    Attention*, section 3; the blocks' sizes by default are the paper's.

    >>> NativeSparseConfig(d_model=24, num_heads=4, num_kv_heads=2, d_head=6).keys_read(65_536)
    5631
    """

    d_model: int
    num_heads: int
    num_kv_heads: int
    d_head: int
    compress_block: int = 32
    compress_stride: int = 16
    select_block: int = 64
    num_selected: int = 16
    window: int = 512
    num_first: int = 1
    num_local: int = 2

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "num_heads", "num_kv_heads", "d_head", "compress_block")
        check_sizes(self, "compress_stride", "select_block", "num_selected", "window", "num_local")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"expected num_kv_heads that divides {self.num_heads} heads, got {self.num_kv_heads}; "
                "every group has the same number of query heads"
            )
        if self.compress_stride > self.compress_block:
            raise ValueError(
                f"expected a compress_stride of at most {self.compress_block}, got {self.compress_stride}; "
                "a longer one leaves tokens out"
            )
        if not 0 <= self.num_first <= self.num_selected - self.num_local:
            raise ValueError(
                "expected num_first of at least 0 and num_first + num_local of at most "
                f"{self.num_selected}, got {self.num_first} and {self.num_local}; the fixed blocks are among "
                "the selected ones"
            )

    def keys_read(self, length: int) -> int:
        r"""Count the keys that the last token of a text reads at most; a compressed key counts as one.

        $\lfloor (T - B_c) / r \rfloor + 1 + n_s B_s + w$ for a long text.
        """
        compressed = max(0, (length - self.compress_block) // self.compress_stride + 1)
        return compressed + min(length, self.num_selected * self.select_block) + min(length, self.window)
