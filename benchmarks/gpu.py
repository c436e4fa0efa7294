"""Time tfcore on a GPU against what its readers would use instead, all in one run.

    python benchmarks/gpu.py
    python benchmarks/gpu.py decode --rounds 20
    python benchmarks/gpu.py training --peer path/to/nanoGPT/model.py:GPT
    python benchmarks/gpu.py blocks

Compare ratios, not seconds: the last columns are the time over that of the contenders named there, medians
over rounds in which all take turns. "MiB" is the most memory that one call allocates at once, beside its
arguments. "off by" is the largest difference from what the first contender returned, relative to the largest
entry; bfloat16 alone leaves about 0.01.

To add a contest, write a function that yields it and name the function in ``GROUPS``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import peer
import torch
import torch.nn.functional as F
import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

from tfcore.attention import attention
from tfcore.attention.triton import HALF
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.generate import CompiledDecoder, generate
from tfcore.models import Decoder
from tfcore.models.presets import preset
from tfcore.train import decay_groups

BLOCKS_TO_TRY = {  # by the width of a head and the kernel, in the form of HALF
    64: {
        "forward": [(128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 4, 2), (128, 64, 4, 3)],
        "dq": [(128, 64, 4, 2), (64, 64, 4, 2), (128, 128, 8, 2)],
        "dk_dv": [(32, 128, 8, 2), (64, 64, 4, 2)],
    },
    128: {
        "forward": [(128, 128, 8, 2), (64, 64, 4, 2), (128, 64, 8, 3)],
        "dq": [(128, 64, 8, 2), (64, 64, 4, 2)],
        "dk_dv": [(16, 128, 8, 2), (64, 128, 8, 2)],
    },
}
DEVICE = "cuda"
DTYPE = torch.bfloat16
TURN = 0.05  # seconds that each contender runs before the next takes its turn

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Contest:
    """Several ways to do the same work; each is compared with its rivals, or else with the first."""

    title: str
    contenders: dict[str, Callable[[], Any]]
    work: float  # how much of ``unit`` times a second one call does
    unit: str  # "TFLOP/s", "TB/s", "k tokens/s"
    rivals: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What was measured of one contender; nothing is compared if it returns no tensor."""

    seconds: float
    peak_bytes: int
    off_by: float | None


# --- the contests


def self_attention(length: int = 4096, batch: int = 4, d_model: int = 2048) -> Iterator[Contest]:
    """Heads of 64 and of 128, causal and not, forward alone and with the backward pass."""
    for d_head in (64, 128):
        heads = d_model // d_head
        inputs = [draw(batch, heads, length, d_head).requires_grad_() for _ in range(3)]
        d_output = draw(batch, heads, length, d_head)
        for causal in (True, False):
            title = f"d {d_head}, T {length}, {'causal' if causal else 'all to all'}"
            product = 2e-12 * batch * heads * length**2 * d_head * (0.5 if causal else 1)
            attends = attention_functions(causal)
            yield Contest(
                f"forward, {title}",
                {name: forward(attend, inputs) for name, attend in attends.items()},
                work=2 * product,
                unit="TFLOP/s",
                rivals=RIVALS,
            )
            yield Contest(
                f"forward and backward, {title}",
                {name: forward_and_backward(attend, inputs, d_output) for name, attend in attends.items()},
                work=7 * product,  # backward has five, for it forms the scores again
                unit="TFLOP/s",
                rivals=RIVALS,
            )


def decode(length: int = 32768, batch: int = 8, heads: int = 32, kv_heads: int = 8) -> Iterator[Contest]:
    """One new token of each sequence against a long cache, which is read once: memory is the limit."""
    d_head = 128
    inputs = [draw(batch, heads, 1, d_head), *(draw(batch, kv_heads, length, d_head) for _ in range(2))]
    yield Contest(
        f"one token, cache of {length}, {heads} heads on {kv_heads}",
        {name: forward(attend, inputs) for name, attend in attention_functions(causal=False).items()},
        work=sum(x.numel() * x.element_size() for x in inputs) / 1e12,
        unit="TB/s",
        rivals=RIVALS,
    )


def training(batch: int = 12, length: int = 1024) -> Iterator[Contest]:
    """Steps of GPT-2 124M: forward, loss and backward in bfloat16, and AdamW.

    The vocabulary is nanoGPT's own, 50,304 tokens: those of GPT-2, filled up to a multiple of 64.
    """
    tokens = torch.randint(50_257, (batch, length + 1), device=DEVICE)
    model = Decoder(replace(preset("gpt2"), vocab_size=50_304)).to(DEVICE)
    losses: dict[str, tuple[nn.Module, Loss]] = {
        "tfcore": (model, lambda x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
    }
    if PEER:
        other = peer.load(PEER, block_size=length, vocab_size=50_304).to(DEVICE)
        losses["peer"] = (other, lambda x, y: other(x, y)[1])
    steps = {}
    for name, (module, loss) in losses.items():
        steps[name] = training_step(module, loss, tokens)
        steps[f"{name}, compiled"] = training_step(module, torch.compile(loss), tokens)
    rivals = {"tfcore": ("peer",), "tfcore, compiled": ("peer, compiled",)} if PEER else {}
    yield Contest(f"training, {batch} x {length}", steps, batch * length / 1e3, "k tokens/s", rivals)


def generation(prompt_len: int = 16, new: int = 256) -> Iterator[Contest]:
    """Greedy text of one sequence, with drawn weights: GPT-2 124M, and a Llama of 0.85B."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    gpt2 = GPT2LMHeadModel(GPT2Config(eos_token_id=None))
    yield texts("GPT-2 124M", Decoder(preset("gpt2")), gpt2, prompt_len, new)
    sizes = {"vocab_size": 32_000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 16}
    shape = LlamaConfig(**sizes, num_attention_heads=16, num_key_value_heads=4, eos_token_id=None)
    block = BlockConfig(
        AttentionConfig(2048, 16, num_kv_heads=4, bias=False),
        d_ff=5632,
        gated=True,
        activation="silu",
        norm="rms",
        ffn_bias=False,
    )
    llama = Decoder(ModelConfig(32_000, 16, block, PositionConfig("rope"), tied=False))
    yield texts("Llama 0.85B", llama, LlamaForCausalLM(shape), prompt_len, new)


def block_sizes(length: int = 4096, batch: int = 4, d_model: int = 2048) -> Iterator[Contest]:
    """Other settings of our kernels than those in ``tfcore.attention.triton``, which stand first."""
    for d_head, kernels in BLOCKS_TO_TRY.items():
        heads = d_model // d_head
        inputs = [draw(batch, heads, length, d_head).requires_grad_() for _ in range(3)]
        d_output = draw(batch, heads, length, d_head)
        attend = attention_functions(causal=True)["tfcore, triton"]
        product = 1e-12 * batch * heads * length**2 * d_head
        for kernel, others in kernels.items():
            whole = kernel != "forward"
            run = forward_and_backward(attend, inputs, d_output) if whole else forward(attend, inputs)
            settings = [HALF[d_head][kernel], *others]
            yield Contest(
                f"{'forward and backward' if whole else 'forward'}, d {d_head}, blocks of {kernel}",
                {str(setting): with_blocks(run, d_head, kernel, setting) for setting in settings},
                work=(7 if whole else 2) * product,
                unit="TFLOP/s",
            )


def with_blocks(
    run: Callable[[], Any], d_head: int, kernel: str, setting: tuple[int, ...]
) -> Callable[[], Any]:
    def changed() -> Any:
        kept = HALF[d_head][kernel]
        HALF[d_head][kernel] = setting
        try:
            return run()
        finally:
            HALF[d_head][kernel] = kept

    return changed


def texts(name: str, ours: Decoder, theirs: nn.Module, prompt_len: int, new: int) -> Contest:
    """What a user would call to have a text written; only lengths are compared, as weights differ."""
    prompt = torch.randint(30_000, (1, prompt_len), device=DEVICE)
    ours, theirs = ours.to(DEVICE, DTYPE).eval(), theirs.to(DEVICE, DTYPE).eval()
    compiled = CompiledDecoder(ours)

    def transformers(**options: str) -> Callable[[], torch.Size]:
        fixed = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        mask = torch.ones_like(prompt)
        return lambda: theirs.generate(prompt, attention_mask=mask, **fixed, **options).shape

    runs = {
        "transformers, dynamic cache": transformers(),
        "transformers, static cache, compiled": transformers(cache_implementation="static"),
        "tfcore": lambda: generate(ours, prompt, new).shape,
        "tfcore, compiled": lambda: generate(compiled, prompt, new).shape,
    }
    others = ("transformers, dynamic cache", "transformers, static cache, compiled")
    rivals = {"tfcore": others[:1], "tfcore, compiled": others}
    return Contest(f"{new} new tokens, {name}", runs, new / 1e3, "k tokens/s", rivals)


GROUPS: dict[str, Callable[[], Iterator[Contest]]] = {
    "attention": self_attention,
    "decode": decode,
    "training": training,
    "generation": generation,
    "blocks": block_sizes,
}
PEER: str | None = None


# --- what the contests are made of

RIVALS = {"tfcore, triton": ("torch SDPA, flash",)}


def attention_functions(causal: bool) -> dict[str, Attend]:
    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return sdpa(q, k, v)

    def ours(backend: str) -> Attend:
        return lambda q, k, v: attention(q, k, v, causal=causal, backend=backend)

    return {
        "torch SDPA": sdpa,
        "tfcore": ours("auto"),
        "torch SDPA, flash": flash,
        "tfcore, triton": ours("triton"),
    }


def training_step(model: nn.Module, loss: Loss, tokens: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), fused=True)

    def step() -> None:
        with torch.autocast(DEVICE, DTYPE):
            total = loss(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        total.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def forward(attend: Attend, inputs: list[Tensor]) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with torch.no_grad():
            return attend(*inputs)

    return run


def forward_and_backward(
    attend: Attend, inputs: list[Tensor], d_output: Tensor
) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: torch.autograd.grad(attend(*inputs), inputs, d_output)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE, dtype=DTYPE)


# --- measuring and printing


def measure(contest: Contest, rounds: int) -> dict[str, Result]:
    """Call each contender twice to compile, to compare and to see its memory; then time them in turns."""
    first: list[Tensor] | None = None
    peak_bytes, off_by, calls = {}, {}, {}
    times: dict[str, list[float]] = {name: [] for name in contest.contenders}
    for name, run in contest.contenders.items():
        run()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        results = [x for x in tree_leaves(run()) if isinstance(x, Tensor)]
        peak_bytes[name] = torch.cuda.max_memory_allocated() - before
        first = results if first is None else first
        off_by[name] = max(map(difference, results, first), default=None)
        del results
        calls[name] = max(1, round(TURN / seconds(run, calls=1)))
    del first
    for _ in range(rounds):
        for name, run in contest.contenders.items():
            times[name].append(seconds(run, calls[name]))
    return {
        name: Result(statistics.median(times[name]), peak_bytes[name], off_by[name])
        for name in contest.contenders
    }


def seconds(run: Callable[[], Any], calls: int) -> float:
    """Time one call, the mean of several, until the device has finished."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def difference(x: Tensor, y: Tensor) -> float:
    return ((x.float() - y.float()).abs().max() / y.float().abs().max()).item()


def table(contest: Contest, results: dict[str, Result]) -> str:
    lines = [f"{contest.title:46}{'ms':>10}{contest.unit:>12}{'MiB':>10}{'off by':>10}{'ratio':>8}"]
    baseline = next(iter(results))
    for name, result in results.items():
        off_by = "-" if result.off_by is None else f"{result.off_by:.4f}"
        rivals = contest.rivals.get(name, (baseline,) if name != baseline else ())
        ratios = [f"{result.seconds / results[rival].seconds:8.2f} x {rival}" for rival in rivals]
        lines.append(
            f"  {name:44}{result.seconds * 1e3:10.3f}{contest.work / result.seconds:12.2f}"
            f"{result.peak_bytes / 2**20:10.0f}{off_by:>10}{','.join(ratios)}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help=f"out of {', '.join(GROUPS)}; all unless given")
    parser.add_argument("--peer", metavar="FILE:CLASS", help="of training, with nanoGPT's interface")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    global PEER
    PEER = args.peer
    unknown = [name for name in args.groups if name not in GROUPS]
    if unknown:
        parser.error(f"expected groups out of {', '.join(GROUPS)}, got {', '.join(unknown)}")
    if not torch.cuda.is_available():
        parser.error("this needs a CUDA device and finds none; benchmarks/attention.py runs on a CPU")

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {DTYPE}")
    for name in args.groups or GROUPS:
        for contest in GROUPS[name]():
            print("\n" + table(contest, measure(contest, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
