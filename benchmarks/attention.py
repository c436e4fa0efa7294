"""Time the backends of ``tfcore.attention`` against plain torch SDPA, all in one run.

    python benchmarks/attention.py
    python benchmarks/attention.py --length 2048 --causal
    python benchmarks/attention.py --device cuda --dtype bfloat16 --batch 4 --length 4096

Compare ratios, not seconds: "x SDPA" is the time over that of torch's function called directly, the best
of several rounds in which the contenders take turns. "largest" is the largest tensor that was allocated,
in elements, and "peak" all that was allocated at once; neither sees inside a compiled kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package
from torch import Tensor

from tfcore.attention import attention
from tfcore.testing import AllocationMeter

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def contenders(causal: bool) -> dict[str, Attend]:
    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    def ours(backend: str) -> Attend:
        return lambda q, k, v: attention(q, k, v, causal=causal, backend=backend)

    return {"torch SDPA": plain, **{name: ours(name) for name in ("fused", "tiled", "explicit")}}


def forward(attend: Attend, inputs: list[Tensor]) -> None:
    with torch.no_grad():
        attend(*inputs)


def forward_and_backward(attend: Attend, inputs: list[Tensor]) -> None:
    output = attend(*inputs)
    torch.autograd.grad(output, inputs, torch.ones_like(output))


def seconds(work: Callable[[Attend, list[Tensor]], None], attend: Attend, inputs: list[Tensor]) -> float:
    """Time one call, until the device has finished it."""
    wait = torch.cuda.synchronize if inputs[0].is_cuda else lambda: None
    wait()
    start = time.perf_counter()
    work(attend, inputs)
    wait()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float64"], default="float32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, help="as many as heads, unless given")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64, help="of one head")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device here; use --device cpu")
    torch.set_num_threads(args.threads)

    generator = torch.Generator(args.device).manual_seed(0)
    inputs = [
        torch.randn(
            (args.batch, heads, args.length, args.width),
            generator=generator,
            device=args.device,
            dtype=getattr(torch, args.dtype),
        ).requires_grad_()
        for heads in (args.heads, args.kv_heads or args.heads, args.kv_heads or args.heads)
    ]
    q_shape, k_shape = (tuple(x.shape) for x in inputs[:2])
    print(f"q {q_shape}, k and v {k_shape}, {args.dtype}, {args.device}, causal {args.causal}")
    print(f"one T x T matrix for all heads: {args.batch * args.heads * args.length**2:,} elements")

    for work in (forward, forward_and_backward):
        print(
            f"\n{work.__name__.replace('_', ' '):24}{'ms':>10}{'x SDPA':>10}{'largest':>16}{'peak MiB':>12}"
        )
        table = contenders(args.causal)
        meters, best = {}, dict.fromkeys(table, float("inf"))
        for name, attend in table.items():
            with AllocationMeter() as meters[name]:
                work(attend, inputs)
        for _ in range(args.rounds):
            for name, attend in table.items():
                best[name] = min(best[name], seconds(work, attend, inputs))
        for name, meter in meters.items():
            ratio = best[name] / best["torch SDPA"]
            print(
                f"{name:24}{best[name] * 1e3:10.1f}{ratio:10.2f}{meter.largest_elements:16,}"
                f"{meter.peak_bytes / 2**20:12.1f}"
            )


if __name__ == "__main__":
    main()
