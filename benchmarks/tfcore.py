"""Time tfcore's GPT against what its readers would use instead, all in one run at one thread.

    python benchmarks/tfcore.py
    python benchmarks/tfcore.py --peer path/to/nanoGPT/model.py:GPT

The same model everywhere: 4 layers, width 256, 4 heads, vocabulary 512. "x" is the speed over that of the
contender in the heading, from the best of several rounds in which the contenders take turns; compare these,
not the milliseconds. "tfcore compiled" writes with ``CompiledDecoder``, which compiles before the first round
(a minute). Contenders that are not installed are named and left out. transformers comes with the
tests; x-transformers does not, nor does litgpt, which wants an older numpy: install it with ``pip install
--no-deps --target FOLDER litgpt lightning lightning-utilities pytorch-lightning torchmetrics jsonargparse
typeshed-client docstring-parser`` and put that folder on PYTHONPATH.

``peer.py`` says what a ``--peer FILE:CLASS`` must have; it keeps its own optimizer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import peer
import torch
import torch.nn.functional as F
import turns
import unshadow  # noqa: F401  # first, or tfcore.py of this folder is found as the package
from torch import Tensor, nn

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.generate import CompiledDecoder, generate
from tfcore.models import Decoder

LAYERS, D_MODEL, HEADS, VOCAB, CONTEXT, BATCH = 4, 256, 4, 512, 256, 8
PROMPT, NEW = 16, 256
MAX_LEN = PROMPT + NEW


@dataclass
class Contender:
    """A model and the three things that are timed: its logits, a step of training, tokens of greedy text."""

    model: nn.Module
    logits: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    generate: Callable[[Tensor], Tensor]
    optimizer: torch.optim.Optimizer

    def forward(self, tokens: Tensor) -> None:
        with torch.no_grad():
            self.logits(tokens[:, :-1])

    def train(self, tokens: Tensor) -> None:
        self.loss(tokens[:, :-1], tokens[:, 1:]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def cross_entropy(logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: F.cross_entropy(logits(x).flatten(0, 1), y.flatten())


def fused_adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), fused=True)


def tfcore() -> Contender:
    block = BlockConfig(AttentionConfig(D_MODEL, HEADS), d_ff=4 * D_MODEL)
    model = Decoder(ModelConfig(VOCAB, LAYERS, block, PositionConfig("learned", max_len=MAX_LEN)))
    return Contender(
        model, model, cross_entropy(model), lambda prompt: generate(model, prompt, NEW), fused_adamw(model)
    )


def transformers() -> Contender:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=MAX_LEN,
        n_embd=D_MODEL,
        n_layer=LAYERS,
        n_head=HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPT2LMHeadModel(config)

    def logits(x: Tensor) -> Tensor:
        return model(x, use_cache=False).logits

    def generate(prompt: Tensor) -> Tensor:
        return model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=0,
        )

    return Contender(model, logits, cross_entropy(logits), generate, fused_adamw(model))


def x_transformers() -> Contender:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=VOCAB,
        max_seq_len=MAX_LEN,
        tie_embedding=True,
        attn_layers=Decoder(
            dim=D_MODEL, depth=LAYERS, heads=HEADS, attn_dim_head=D_MODEL // HEADS, attn_flash=True
        ),
    )
    writer = AutoregressiveWrapper(model)

    def generate(prompt: Tensor) -> Tensor:
        return writer.generate(prompt, NEW, temperature=0.0, cache_kv=True)

    return Contender(model, model, cross_entropy(model), generate, fused_adamw(model))


def litgpt() -> Contender:
    from litgpt.config import Config
    from litgpt.model import GPT

    config = Config(
        block_size=MAX_LEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_embd=D_MODEL,
        vocab_size=VOCAB,
        padded_vocab_size=VOCAB,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=True,
    )
    model = GPT(config)

    def logits(x: Tensor) -> Tensor:
        model.clear_kv_cache()
        model.max_seq_length = x.shape[1]
        return model(x)

    @torch.no_grad()
    def generate(prompt: Tensor) -> Tensor:
        model.max_seq_length = MAX_LEN
        model.set_kv_cache(batch_size=prompt.shape[0])
        text, position = prompt, torch.arange(prompt.shape[1])
        new = prompt
        for _ in range(NEW):
            new = model(new, position)[:, -1].argmax(dim=-1, keepdim=True)
            text = torch.cat([text, new], dim=1)
            position = position[-1:] + 1
        return text

    return Contender(model, logits, cross_entropy(logits), generate, fused_adamw(model))


def peer_at(path: str) -> Contender:
    sizes = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": D_MODEL, "vocab_size": VOCAB}
    model = peer.load(path, block_size=MAX_LEN, **sizes)
    return Contender(
        model,
        lambda x: model(x.contiguous(), x.contiguous())[0],  # without targets: the last place alone
        lambda x, y: model(x.contiguous(), y.contiguous())[1],
        lambda prompt: model.generate(prompt, NEW, top_k=1),
        model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", metavar="FILE:CLASS", help="one more contender, with nanoGPT's interface")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)

    builders: dict[str, Callable[[], Contender]] = {
        "tfcore": tfcore,
        "transformers": transformers,
        "x-transformers": x_transformers,
        "litgpt": litgpt,
    }
    if args.peer:
        builders[args.peer.rpartition(":")[2]] = partial(peer_at, args.peer)
    contenders = {}
    for name, build in builders.items():
        try:
            contenders[name] = build()
        except ImportError as error:
            print(f"{name} is left out: {error}")
    for name, contender in contenders.items():
        contender.model.eval()
        count = sum(p.numel() for p in contender.model.parameters())
        print(f"{name:16}{count:12,} parameters")

    tokens = torch.randint(VOCAB, (BATCH, CONTEXT + 1))
    measures: dict[str, Callable[[Contender], Any]] = {
        f"forward, {BATCH} x {CONTEXT}": lambda c: c.forward(tokens),
        f"training step, {BATCH} x {CONTEXT}": lambda c: c.train(tokens),
    }
    for heading, work in measures.items():
        report(heading, {name: partial(work, c) for name, c in contenders.items()}, args.rounds)
    compiled = CompiledDecoder(contenders["tfcore"].model)
    writers = {"tfcore compiled": lambda prompt: generate(compiled, prompt, NEW)}
    writers |= {name: contender.generate for name, contender in contenders.items()}
    for heading, batch in (("one sequence", 1), ("eight sequences", 8)):
        prompt = tokens[:batch, :PROMPT]
        works = {name: partial(write, prompt) for name, write in writers.items()}
        report(f"{NEW} new tokens, {heading}", works, args.rounds)


def report(heading: str, works: dict[str, Callable[[], Any]], num_rounds: int) -> None:
    """Print the time of each and its speed over that of every other one."""
    times = turns.best_times(works, num_rounds)
    print(f"\n{heading:36}{'ms':>10}" + "".join(f"{'x ' + name:>18}" for name in times))
    for name, own in times.items():
        ratios = "".join(f"{other / own:18.2f}" for other in times.values())
        print(f"{name:36}{own * 1e3:10.1f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
