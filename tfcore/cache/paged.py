"""A cache in blocks, which many texts share: a small allocator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.cache.protocol import check_fits, check_pair, count_bytes


class PagedCache:
    r"""Room for the keys and values of many sequences, in blocks that a sequence takes when it needs one.

    A sequence of n tokens has $\lceil n / b \rceil$ blocks of b tokens, anywhere in the room, and a list of
    their numbers. Only the end of its last block is empty. A fork has the same list: it costs nothing until
    one of the two writes into a block that they share, which is copied then. A block that no list names is
    free.

    Args:
        num_blocks: blocks in all.
        block_size: tokens in a block, b.
        num_kv_heads: heads of keys and values.
        d_head: width of one head.
        dtype: of keys and values.
        device: where they live.

    Raises:
        ValueError: a number of blocks or tokens below 1.

    From: Kwon et al. (2023), *Efficient Memory Management for Large Language Model Serving with
    PagedAttention*.

    >>> cache = PagedCache(num_blocks=3, block_size=2, num_kv_heads=1, d_head=1)
    >>> cache.append("question", torch.ones(1, 3, 1), torch.ones(1, 3, 1))
    >>> cache.fork("question", "second answer")
    >>> cache.num_free, cache.gather("second answer")[0].shape
    (1, torch.Size([1, 3, 1]))
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        d_head: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(
                f"expected 1 or more blocks and tokens in each, got {num_blocks} and {block_size}"
            )
        self.block_size = block_size
        self.keys = torch.zeros(num_kv_heads, num_blocks, block_size, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.blocks: dict[Hashable, list[int]] = {}  # the block table: the blocks of each sequence, in order
        self.lengths: dict[Hashable, int] = {}
        self._free = list(range(num_blocks - 1, -1, -1))  # block 0 is taken first
        self._users: Counter[int] = Counter()  # how many sequences have a block

    @property
    def num_free(self) -> int:
        """Count the blocks that no sequence has."""
        return len(self._free)

    def append(
        self, sequence: Hashable, k: Float[Tensor, "H_kv T d_head"], v: Float[Tensor, "H_kv T d_head"]
    ) -> None:
        """Write the keys and values of T new tokens behind those of a sequence; an unknown name begins one.

        Args:
            sequence: its name.
            k: keys, (H_kv, T, d_head).
            v: values, likewise.

        Raises:
            ValueError: too few free blocks (nothing has changed), or not the keys the cache was made for.
        """
        check_pair(k.unsqueeze(0), v.unsqueeze(0))
        check_fits(k.unsqueeze(0), self.keys[None, :, 0])
        check_fits(v.unsqueeze(0), self.values[None, :, 0])
        begin = self.lengths.get(sequence, 0)
        end, mine = begin + k.shape[1], self.blocks.get(sequence, [])
        new = -(-end // self.block_size) - len(mine)
        shared = begin % self.block_size > 0 and self._users[mine[-1]] > 1  # the block that is half full
        if new + shared > self.num_free:
            raise ValueError(
                f"expected {new + shared} free blocks for {k.shape[1]} tokens of {sequence!r}, got "
                f"{self.num_free}; free a sequence, or make a larger cache"
            )
        mine = list(mine)
        if shared:
            mine[-1] = self._copy(mine[-1])
        mine += [self._take() for _ in range(new)]
        self.blocks[sequence], self.lengths[sequence] = mine, end
        places = torch.arange(begin, end, device=k.device)  # (T,)
        numbers = torch.tensor(mine, dtype=torch.long, device=k.device)[places // self.block_size]
        self.keys[:, numbers, places % self.block_size] = k
        self.values[:, numbers, places % self.block_size] = v

    def gather(
        self, sequence: Hashable
    ) -> tuple[Float[Tensor, "H_kv n d_head"], Float[Tensor, "H_kv n d_head"]]:
        """Bring the keys and values of a sequence together, in order; this copies them.

        Raises:
            KeyError: an unknown sequence.
        """
        table, length = self.blocks[sequence], self.lengths[sequence]
        keys, values = (x[:, table].flatten(1, 2)[:, :length] for x in (self.keys, self.values))
        return keys, values

    def fork(self, sequence: Hashable, new: Hashable) -> None:
        """Begin a sequence with all the tokens of another, and share its blocks.

        Raises:
            KeyError: an unknown sequence.
            ValueError: a name that is taken.
        """
        if new in self.blocks:
            raise ValueError(f"expected a new name, got {new!r}, which has {self.lengths[new]} tokens")
        self.blocks[new], self.lengths[new] = list(self.blocks[sequence]), self.lengths[sequence]
        self._users.update(self.blocks[new])

    def free(self, sequence: Hashable) -> None:
        """Forget a sequence; its blocks are free unless another has them too.

        Raises:
            KeyError: an unknown sequence.
        """
        for block in reversed(self.blocks.pop(sequence)):
            self._give_back(block)
        del self.lengths[sequence]

    def num_bytes(self) -> int:
        """Count the bytes of all blocks, free ones too."""
        return count_bytes(self.keys, self.values)

    def _take(self) -> int:
        block = self._free.pop()
        self._users[block] = 1
        return block

    def _give_back(self, block: int) -> None:
        self._users[block] -= 1
        if not self._users[block]:
            self._free.append(block)

    def _copy(self, block: int) -> int:
        """Copy a shared block for one of its users, who gives it up."""
        own = self._take()
        self.keys[:, own], self.values[:, own] = self.keys[:, block], self.values[:, block]
        self._give_back(block)
        return own
