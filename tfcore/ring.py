"""Ring attention: a sequence too long for one device, shared out over many.

Every rank holds the queries, keys and values of its own stretch of the sequence. The keys and values travel
round the ring of ranks, one shard at a time, and each rank merges the attention of its queries to each shard
as it comes by. No rank ever holds all keys, let alone a T x T matrix.

``ring_attention`` plays all ranks in one process; ``distributed_ring_attention`` is one rank of a real ring.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfcore.attention import attention, merge

Pair = tuple[Tensor, Tensor]


def ring_attention(
    q_shards: Sequence[Float[Tensor, "B H T_i d_k"]],
    k_shards: Sequence[Float[Tensor, "B H_kv T_i d_k"]],
    v_shards: Sequence[Float[Tensor, "B H_kv T_i d_v"]],
    causal: bool = False,
) -> list[Float[Tensor, "B H T_i d_v"]]:
    r"""Attend over a sequence that is cut into shards, every rank's turn in one process.

    $o_r = \operatorname{merge}_s \operatorname{attention}(q_r, k_s, v_s)$ over all shards s, its own first.

    Each rank reads each shard of keys and values once, and of those only one at a time.

    Args:
        q_shards: the queries of each rank, (B, H, T_i, d_k); ranks may hold different numbers of tokens.
        k_shards: the keys of the same tokens, (B, H_kv, T_i, d_k).
        v_shards: their values, (B, H_kv, T_i, d_v).
        causal: forbid keys that come after the query in the whole sequence.

    Returns:
        The outputs of each rank, (B, H, T_i, d_v).

    Raises:
        ValueError: lists of different lengths, or shards that do not fit each other.

    From: Liu, Zaharia and Abbeel (2023), *Ring Attention with Blockwise Transformers*.

    >>> x = torch.randn(1, 2, 7, 4)
    >>> shards = x.split([3, 4], dim=2)
    >>> output = torch.cat(ring_attention(shards, shards, shards, causal=True), dim=2)
    >>> print(torch.allclose(output, attention(x, x, x, causal=True), atol=1e-6))
    True
    """
    size = len(q_shards)
    if not size == len(k_shards) == len(v_shards) or not size:
        raise ValueError(
            f"expected one shard of q, k and v per rank, got {size}, {len(k_shards)} and {len(v_shards)}; "
            "split all three alike"
        )
    positions = _positions([q.shape[2] for q in q_shards], q_shards[0].device)

    def parts(rank: int) -> Iterator[Pair]:
        for source in _arrivals(rank, size):
            if source <= rank or not causal:
                k, v = k_shards[source], v_shards[source]
                _check_length(source, len(positions[source]), k)
                yield _attend(q_shards[rank], k, v, positions[rank], positions[source], causal)

    return [_merge_all(parts(rank))[0].to(q_shards[rank].dtype) for rank in range(size)]


def distributed_ring_attention(
    q: Float[Tensor, "B H T_i d_k"],
    k: Float[Tensor, "B H_kv T_i d_k"],
    v: Float[Tensor, "B H_kv T_i d_v"],
    causal: bool = False,
    group: dist.ProcessGroup | None = None,
) -> Float[Tensor, "B H T_i d_v"]:
    r"""Attend over a sequence that is cut into shards, as one rank of a ring of processes.

    $o_r = \operatorname{merge}_s \operatorname{attention}(q_r, k_s, v_s)$, as :func:`ring_attention`.

    Every rank of the group calls it at the same time; if one runs the backward pass, all must.

    While a rank computes with one shard, it sends that shard on and receives the next. Backward, the shards
    go round again, and the gradients of each travel with it until they are home.

    Args:
        q: the queries of this rank, (B, H, T_i, d_k); ranks may hold different numbers of tokens.
        k: the keys of the same tokens, (B, H_kv, T_i, d_k).
        v: their values, (B, H_kv, T_i, d_v).
        causal: forbid keys that come after the query in the whole sequence, in the order of ranks.
        group: the processes of the ring; all of them when None.

    Returns:
        The outputs of this rank, (B, H, T_i, d_v).

    Raises:
        ValueError: no process group, or shards that do not fit each other; then on every rank.

    From: Liu, Zaharia and Abbeel (2023), *Ring Attention with Blockwise Transformers*.

    >>> distributed_ring_attention(*torch.ones(3, 1, 1, 2, 4))
    Traceback (most recent call last):
    ValueError: expected a process group, got none; call torch.distributed.init_process_group first
    """
    if not dist.is_initialized():
        raise ValueError(
            "expected a process group, got none; call torch.distributed.init_process_group first"
        )
    ring = _Ring(group, _all_positions(q, k, v, group))
    return _DistributedRing.apply(q, k, v, causal, ring)


class _DistributedRing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, ring: _Ring) -> Tensor:
        here = ring.positions[ring.rank]
        output, lse = _merge_all(
            _attend(q, k_shard, v_shard, here, ring.positions[source], causal)
            for source, k_shard, v_shard in ring.travel(k, v)
            if source <= ring.rank or not causal
        )
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.causal, ctx.ring = causal, ring
        return output.to(q.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, output, lse = ctx.saved_tensors
        ring, causal = ctx.ring, ctx.causal
        here = ring.positions[ring.rank]
        dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (q, k, v))
        for source, k_shard, v_shard in ring.travel(k, v):
            if source <= ring.rank or not causal:
                there = ring.positions[source]
                parts = _attend_backward(q, k_shard, v_shard, here, there, causal, output, lse, d_output)
                dq, dk, dv = dq + parts[0], dk + parts[1], dv + parts[2]
            dk, dv = ring.pass_on((dk, dv), source)()  # with their shard, and at last home
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


@dataclass(frozen=True)
class _Ring:
    """The ranks in a circle: each sends to the next and receives from the one before."""

    group: dist.ProcessGroup | None
    positions: list[Tensor]  # of the tokens of each rank

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group)

    @property
    def size(self) -> int:
        return len(self.positions)

    def travel(self, k: Tensor, v: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the owner of the present shard, and the shard; send it on and receive the next meanwhile."""
        shard = k, v
        *sources, last = _arrivals(self.rank, self.size)
        for source in sources:
            next_shard = self.pass_on(shard, source)
            yield source, *shard
            shard = next_shard()
        yield last, *shard

    def pass_on(self, pair: Pair, source: int) -> Callable[[], Pair]:
        """Start to send the tensors of the shard of ``source``, and to receive the tensors of the next shard.

        Return a function that waits for the tensors.
        """
        if self.size == 1:
            return lambda: pair
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        length = len(self.positions[source - 1])
        first, second = (x.new_empty(*x.shape[:2], length, x.shape[3]) for x in pair)
        sends = [dist.P2POp(dist.isend, x.contiguous(), group=self.group, group_peer=after) for x in pair]
        receives = [dist.P2POp(dist.irecv, x, group=self.group, group_peer=before) for x in (first, second)]
        works = dist.batch_isend_irecv(sends + receives)

        def wait() -> Pair:
            for work in works:
                work.wait()
            return first, second

        return wait


def _attend(
    q: Tensor, k: Tensor, v: Tensor, q_pos: Tensor, k_pos: Tensor, causal: bool
) -> tuple[Float[Tensor, "B H T_i d_v"], Float[Tensor, "B H T_i"]]:
    """Attend to one shard; output and lse come in float32 or wider, so that merging loses nothing."""
    output, lse = attention(
        q, k, v, causal=causal, q_pos=q_pos, k_pos=k_pos, backend="tiled", return_lse=True
    )
    return output.to(lse.dtype), lse


def _attend_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_pos: Tensor,
    k_pos: Tensor,
    causal: bool,
    output: Tensor,
    lse: Tensor,
    d_output: Tensor,
) -> tuple[Tensor, ...]:
    r"""Attend to one shard again, and give the gradients of q, k and v that come through it.

    The whole is $o = \sum_s e^{l_s - l} o_s$ with $l = \ln \sum_s e^{l_s}$, as in ``merge``. So the gradient
    of o_s is $e^{l_s - l} \, do$, and the gradient of l_s is $e^{l_s - l} \, do \cdot (o_s - o)$.
    """
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        part, part_lse = _attend(leaves[0], leaves[1], leaves[2], q_pos, k_pos, causal)
    d_part = torch.exp(part_lse - lse).unsqueeze(-1) * d_output
    d_part_lse = (d_part * (part - output)).sum(dim=-1)
    return torch.autograd.grad((part, part_lse), leaves, (d_part, d_part_lse))


def _merge_all(parts: Iterator[Pair]) -> Pair:
    return functools.reduce(lambda so_far, part: merge(*so_far, *part), parts)


def _arrivals(rank: int, size: int) -> list[int]:
    """List the shard that a rank holds at each step: its own, then the one of the rank before it, ..."""
    return [(rank - step) % size for step in range(size)]


def _check_length(source: int, length: int, k: Tensor) -> None:
    if k.shape[2] != length:
        raise ValueError(
            f"expected the keys of rank {source} to be of the same {length} tokens as its queries, got "
            f"{k.shape[2]}; split q, k and v alike"
        )


def _positions(lengths: list[int], device: torch.device) -> list[Tensor]:
    return list(torch.arange(sum(lengths), device=device).split(lengths))


def _all_positions(q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup | None) -> list[Tensor]:
    """Exchange shapes first, so that every rank refuses a wrong shape and none waits for ever."""
    own = torch.tensor([list(x.shape) if x.ndim == 4 else [0] * 4 for x in (q, k, v)], device=q.device)
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, own, group=group)
    shapes = torch.stack(everyone)  # (rank, 3, 4)
    lengths = shapes[:, :, 2]
    others = shapes[:, :, [0, 1, 3]]
    if (lengths != lengths[:, :1]).any() or (lengths == 0).any() or (others != others[0]).any():
        raise ValueError(
            "expected q, k and v (B, H, T_i, d) of the same tokens on each rank, with the same B, H and d on "
            f"all, got {shapes.tolist()}; split the sequence alone"
        )
    return _positions(lengths[:, 0].tolist(), q.device)
