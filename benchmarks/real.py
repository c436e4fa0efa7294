"""Time SmolLM2-135M by tfcore against transformers and llama.cpp, all in one run: tokens a second.

    python benchmarks/real.py                       one thread, then two
    python benchmarks/real.py --compiled            also by CompiledDecoder, which compiles for minutes
    python benchmarks/real.py --only tfcore         contenders whose name has this text

"read" is a prompt of 512 tokens and one new token; "write" is 128 new tokens after a short prompt, without
the time that reading it took. Each figure is the best of several rounds in which the contenders take turns;
compare figures of one run. "bound" is the rate at which one sequence could be written if each token took no
more than one read of the weights, at the fastest rate at which this run read them. "products" is that rate if
each token took no more than torch's products of one vector with the weights. Between the two lies how torch
reads a matrix; between "products" and "write" lie the small operations around the products.

bfloat16 and 8-bit weights are worth their name on a processor that has instructions for them (the first lines
say). llama.cpp takes part where ``llama-cpp-python`` is installed, which compiles for minutes; its Q8_0 file
is made from the published one, in Q4_1, whose numbers all contenders compute with.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import llama_cpp_peer as llama_cpp
import torch
import turns
import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package
from torch import Tensor, nn

from tfcore import zoo
from tfcore.generate import CompiledDecoder, generate
from tfcore.io import save_pretrained
from tfcore.quantize import Int8Linear, quantize_weights

NAME = "smollm2-135m"
PROMPT, READ, NEW = 16, 512, 128
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")


@dataclass(frozen=True)
class Contender:
    """A way to go on with prompts (B, T), the bytes of weights that a token reads, and the model in torch."""

    name: str
    generate: Callable[[Tensor, int], Tensor]
    num_bytes: int
    model: nn.Module | None = None


def weight_bytes(model: nn.Module) -> int:
    """Count the bytes of the weights; a tied matrix counts once."""
    return sum({x.data_ptr(): x.nbytes for x in (*model.parameters(), *model.buffers())}.values())


def ours(model: nn.Module, compiled: bool) -> Iterator[Contender]:
    """Yield tfcore's contenders: the types of numbers, each with the model as it is or compiled."""
    half = zoo.load(NAME)[0].bfloat16()
    kinds = {"float32": model, "bfloat16": half, "8-bit weights": quantize_weights(half)}
    for kind, one in kinds.items():
        yield Contender(f"tfcore, {kind}", partial(generate, one), weight_bytes(one), one)
        if compiled:
            run = CompiledDecoder(one)
            yield Contender(f"tfcore compiled, {kind}", partial(generate, run), weight_bytes(one))


def transformers(model: nn.Module, folder: Path) -> Iterator[Contender]:
    """Yield transformers with its two caches, with the same weights in float32 and bfloat16."""
    from transformers import AutoModelForCausalLM

    save_pretrained(model, folder)
    for kind, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()

        def write(prompt: Tensor, new: int, cache: str, theirs: nn.Module = theirs) -> Tensor:
            return theirs.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=new,
                min_new_tokens=new,
                do_sample=False,
                pad_token_id=2,
                cache_implementation=cache,
            )

        for cache in ("dynamic", "static") if kind == "float32" else ("dynamic",):
            name = f"transformers, {kind}, {cache} cache"
            yield Contender(name, partial(write, cache=cache), weight_bytes(theirs), theirs)


def read_rate(weights: list[Tensor]) -> float:
    """Measure the bytes a second at which all matrices are read once, by the fastest of three ways."""
    vectors = [torch.randn(weight.shape[1], dtype=weight.dtype) for weight in weights]
    works = {
        "product": lambda: [torch.mv(w, x) for w, x in zip(weights, vectors, strict=True)],
        "sum": lambda: [w.sum() for w in weights],
        "largest": lambda: [w.max() for w in weights],
    }
    return sum(w.nbytes for w in weights) / min(turns.best_times(works, 5).values())


@torch.inference_mode()
def product_rate(model: nn.Module) -> float:
    """Measure how often a second each matrix of a model can be multiplied by one vector."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | Int8Linear)]
    dtype = next(model.parameters()).dtype  # a norm's weight where matrices are in 8 bits
    vectors = [torch.randn(1, layer.in_features, dtype=dtype) for layer in layers]
    work = {"products": lambda: [layer(x) for layer, x in zip(layers, vectors, strict=True)]}
    return 1 / turns.best_times(work, 5)["products"]


def rates(contenders: list[Contender], tokens: Tensor, new: int, rounds: int) -> dict[str, float]:
    """Measure the tokens a second that each contender writes, or reads where none is new."""
    first = turns.best_times({c.name: partial(c.generate, tokens, 1) for c in contenders}, rounds)
    if not new:
        return {name: tokens.numel() / seconds for name, seconds in first.items()}
    more = turns.best_times({c.name: partial(c.generate, tokens, 1 + new) for c in contenders}, rounds)
    return {name: len(tokens) * new / (more[name] - first[name]) for name in first}


def run(threads: int, rounds: int, compiled: bool, only: str) -> None:
    """Time all contenders at so many threads."""
    torch.set_num_threads(threads)
    model, _ = zoo.load(NAME)
    matrices = [x.detach() for x in model.parameters() if x.ndim == 2]
    rate = read_rate(matrices)
    print(f"\n{threads} thread(s); memory is read at {rate / 1e9:.1f} GB a second", flush=True)
    tokens = torch.randint(49_000, (8, READ), generator=torch.Generator().manual_seed(0))
    work = {
        f"read {READ}": (tokens[:1], 0),
        f"write {NEW}": (tokens[:1, :PROMPT], NEW),
        f"write 8 x {NEW}": (tokens[:, :PROMPT], NEW),
    }
    with tempfile.TemporaryDirectory() as folder:
        contenders = [*ours(model, compiled), *transformers(model, Path(folder))]
        engines: dict[str, llama_cpp.LlamaCpp] = {}
        try:
            for name in llama_cpp.FORMATS:
                file = llama_cpp.in_format(zoo.find(NAME), name, Path(folder))
                engine = engines[name] = llama_cpp.LlamaCpp(file, 8, max(READ, PROMPT + NEW + 2), threads)
                contenders.append(Contender(f"llama.cpp, {name}", engine.generate, file.stat().st_size))
        except ImportError as error:
            print(f"llama.cpp is left out: {error}")
        contenders = [c for c in contenders if only in c.name]
        table = {}
        for heading, task in work.items():
            table[heading] = rates(contenders, *task, rounds)
            print(f"{heading}: measured", file=sys.stderr, flush=True)
        for engine in engines.values():
            engine.close()
    headings = (*table, "products", "bound")
    print(f"{'tokens a second':36}" + "".join(f"{heading:>16}" for heading in headings))
    for c in contenders:
        row = "".join(f"{rates_[c.name]:16.1f}" for rates_ in table.values())
        products = f"{product_rate(c.model):16.1f}" if c.model else f"{'':16}"
        print(f"{c.name:36}{row}{products}{rate / c.num_bytes:16.1f}", flush=True)
    peer = "transformers, float32, dynamic cache"
    if any(c.name == peer for c in contenders):
        print(f"x {peer}")
        for c in contenders:
            print(f"{c.name:36}" + "".join(f"{r[c.name] / r[peer]:16.2f}" for r in table.values()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="time CompiledDecoder too")
    parser.add_argument("--only", default="", metavar="TEXT", help="contenders whose name has this text")
    args = parser.parse_args()
    try:
        zoo.find(NAME)
    except zoo.MissingModelError as error:
        raise SystemExit(str(error)) from error
    cpu = Path("/proc/cpuinfo")
    known = cpu.read_text().split() if cpu.exists() else []
    print("instructions:", ", ".join(name for name in INSTRUCTIONS if name in known) or "unknown")
    start = time.perf_counter()
    for threads in args.threads:
        run(threads, args.rounds, args.compiled, args.only)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
