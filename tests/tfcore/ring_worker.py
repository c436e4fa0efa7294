"""What one process of a ring does in the tests: imported by the children, so it imports little."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import tfcore.attention.tiled
from tfcore.ring import distributed_ring_attention
from tfcore.testing import AllocationMeter, OperationCounter

BLOCK = 8
# Name: tokens of each rank, causal, dtype. As many processes take part as there are lengths.
CASES = {
    "one rank": ([11], True, torch.float64),
    "two ranks": ([5, 7], True, torch.float64),
    "two ranks, all see all": ([7, 5], False, torch.float64),
    "four ranks": ([5, 9, 1, 12], True, torch.float64),
    "four ranks, all see all": ([5, 9, 1, 12], False, torch.float64),
    "four ranks, half precision": ([5, 9, 3, 12], True, torch.bfloat16),
    "four ranks, long": ([32, 32, 32, 32], True, torch.float32),
}
B, H, H_KV, D_K, D_V = 2, 6, 3, 8, 10
GOOD = torch.ones(2, 3, 5, 4)
BAD = {  # on the last rank alone
    "keys": (GOOD, torch.ones(2, 3, 4, 4), torch.ones(2, 3, 4, 4)),
    "batch": (torch.ones(1, 3, 5, 4),) * 3,
    "axes": (GOOD[0],) * 3,
    "no token": (GOOD[:, :, :0],) * 3,
}


def make_inputs(name: str) -> list[torch.Tensor]:
    """Draw q, k, v and the gradient of the output, for the whole sequence."""
    lengths, _, dtype = CASES[name]
    generator = torch.Generator().manual_seed(sum(lengths))
    shapes = [(B, H, D_K), (B, H_KV, D_K), (B, H_KV, D_V), (B, H, D_V)]
    draws = (
        torch.randn(b, h, sum(lengths), d, generator=generator, dtype=torch.float64) for b, h, d in shapes
    )
    return [x.to(dtype) for x in draws]


def run(rank: int, size: int, folder: str) -> None:
    """Be one of ``size`` processes: run the cases that they suffice for, and leave the results in a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=120),
    )
    tfcore.attention.tiled.BLOCK = BLOCK
    # The last processes take part, so that a rank in the group is not the rank in the world.
    groups = {n: dist.new_group(list(range(size - n, size))) for n in (1, 2, 4) if n <= size}
    results: dict[str, Any] = {}
    for name, (lengths, causal, _) in CASES.items():
        group = groups.get(len(lengths))
        if group is not None and dist.get_rank(group) >= 0:
            results[name] = run_case(name, causal, dist.get_rank(group), group)
    results["told"] = {name: refusal(BAD[name] if rank == size - 1 else (GOOD, GOOD, GOOD)) for name in BAD}
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def run_case(name: str, causal: bool, rank: int, group: dist.ProcessGroup) -> dict[str, Any]:
    """Go forward and backward as one rank; return the output, the gradients and what they cost."""
    # Time before heads, as models have it: what is sent lies anything but contiguous.
    q, k, v, d_output = (
        x.split(CASES[name][0], dim=2)[rank].transpose(1, 2).contiguous().transpose(1, 2)
        for x in make_inputs(name)
    )
    leaves = [x.requires_grad_() for x in (q, k, v)]
    with AllocationMeter() as meter, OperationCounter() as counter:
        output = distributed_ring_attention(q, k, v, causal=causal, group=group)
        gradients = torch.autograd.grad(output, leaves, d_output)
    return {
        "tensors": [output.detach(), *gradients],
        "largest": meter.largest_elements,
        "peak": meter.peak_bytes,
        "comparisons": counter.calls["ge"],
    }


def refusal(arguments: tuple[torch.Tensor, ...]) -> str:
    try:
        distributed_ring_attention(*arguments)
    except ValueError as error:
        return str(error)
    return "nothing"
