"""Native sparse attention: the compressed blocks, the selected blocks, and the window."""

from __future__ import annotations

from dataclasses import dataclass

from tfcore.config.checks import check_sizes


@dataclass(frozen=True)
class NativeSparseConfig:
    r"""One layer of native sparse attention: three branches that look at few keys, and a gate for each.

    Args:
        d_model: width of the residual stream.
        num_heads: query heads.
        num_kv_heads: heads of keys and values; the query heads of one group read the same blocks.
        d_head: width of a head.
        compress_block: tokens that are compressed into one key and one value, $B_c$; l in the paper.
        compress_stride: tokens from the start of one block to the start of the next, r; d in the paper. The
            blocks overlap if this is below ``compress_block``.
        select_block: tokens in a block that can be selected, $B_s$; l' in the paper.
        num_selected: blocks that each query selects, $n_s$, the fixed ones included; n in the paper.
        window: tokens that a query sees in the window, itself included, w.
        num_first: blocks at the start of the text that every query selects.
        num_local: blocks that every query selects at its own place: its own block and those before it.

    Raises:
        ValueError: a size below 1, groups that do not divide the heads, a stride that would skip tokens, or
            more fixed blocks than selected ones.

    From: Yuan et al. (2025), *Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
    Attention*, section 3. The defaults are the paper's sizes and fixed blocks.

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
                f"expected num_first from 0 to {self.num_selected - self.num_local}, got {self.num_first}; "
                f"these blocks and {self.num_local} local ones are among the {self.num_selected} selected"
            )

    def keys_read(self, length: int) -> int:
        r"""Count the keys that the last token of a text reads at most, in all three branches.

        $\lfloor (T - B_c) / r \rfloor + 1 + n_s B_s + w$ for a long text. A key that two branches read counts
        twice.

        Args:
            length: tokens of the text, T.
        """
        compressed = max(0, (length - self.compress_block) // self.compress_stride + 1)
        return compressed + min(length, self.num_selected * self.select_block) + min(length, self.window)
