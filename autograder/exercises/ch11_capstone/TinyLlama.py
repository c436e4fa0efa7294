"""ch11_capstone/TinyLlama: the model of published weights, made of the functions of chapters 4 to 8.

The names of its parameters are given, so the grader sets them and compares logits with `tfcore`'s decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from autograder.cage import probes
from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch11_capstone import given_llama
from autograder.exercises.ch11_capstone.brought import OURS
from autograder.exercises.draw import linear, sizes, tensor
from autograder.exercises.laws import FIRST, LAST, elsewhere, on_any_device
from autograder.exercises.library import LAYERS
from tfcore.cache import Cache
from tfcore.models import Decoder
from tfcore.models.presets import llama

Init = dict[str, Any]
State = dict[str, Tensor]
SEEN = 1e-3
"""A change of logits above this is more than rounding."""


class TinyLlama(nn.Module):
    """The reference: `tfcore`'s decoder, with parameters under the names that the notebook gives."""

    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            given_llama.LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))
        config = llama(
            d_model, num_heads, num_layers, d_ff, num_kv_heads, vocab_size, base=base, norm_eps=eps, tied=True
        )
        self._decoder = [Decoder(config)]  # in a list, so that its parameters are not ours too

    def new_cache(self, batch: int, max_len: int) -> Cache:
        return self._decoder[0].to(self.norm.dtype).new_cache(batch, max_len)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        weights = as_in_tfcore(dict(self.named_parameters()))
        decoder = self._decoder[0].to(self.norm.dtype)
        logits: Tensor = functional_call(decoder, weights, (tokens,), {"cache": cache})
        return logits


def as_in_tfcore(state: State) -> State:
    """Return the parameters under the names that they have in `tfcore.models.Decoder`."""
    renamed = {"stack.embedding.weight": state["embed.weight"], "stack.final_norm.weight": state["norm"]}
    for i in range(sum(name.endswith("W_q.weight") for name in state)):
        own, theirs = f"blocks.{i}.", f"stack.blocks.{i}."
        for name in ("norm_attention", "norm_ffn"):
            renamed[f"{theirs}{name}.weight"] = state[own + name]
        fused = [state[f"{own}{name}.weight"] for name in ("W_q", "W_k", "W_v")]
        renamed[f"{theirs}attention.W_qkv.weight"] = torch.cat(fused)
        renamed[f"{theirs}attention.W_o.weight"] = state[f"{own}W_o.weight"]
        for name, place in (("W_g", "W_gate"), ("W_u", "W_up"), ("W_d", "W_down")):
            renamed[f"{theirs}ffn.{place}.weight"] = state[f"{own}{name}.weight"]
    return renamed


def weights(rng: np.random.Generator, init: Init, embed: float = 1.0) -> State:
    """Draw parameters of a model whose sublayers write as much as they read, with logits of about 1.

    Args:
        rng: the generator.
        init: the arguments of the class.
        embed: the size of the numbers in the embedding.
    """
    d, d_ff = init["d_model"], init["d_ff"]
    d_kv = d // init["num_heads"] * init["num_kv_heads"]
    maps = {"W_q": (d, d), "W_k": (d, d_kv), "W_v": (d, d_kv), "W_o": (d, d)}
    maps |= {"W_g": (d, d_ff), "W_u": (d, d_ff), "W_d": (d_ff, d)}
    drawn = {"embed.weight": embed * tensor(rng, init["vocab_size"], d)}
    for i in range(init["num_layers"]):
        for norm in ("norm_attention", "norm_ffn"):
            drawn[f"blocks.{i}.{norm}"] = 1 + 0.5 * tensor(rng, d)
        for name, (d_in, d_out) in maps.items():
            drawn |= linear(rng, f"blocks.{i}.{name}", d_in, d_out, bias=False, gain=1.2)
    return drawn | {"norm": (1 + 0.5 * tensor(rng, d)) / d**0.5 / embed}


def made(h: int, h_kv: int, d_head: int, d_ff: int, V: int, layers: int = 1, **more: float) -> Init:
    """Return the arguments of the class."""
    sizes = {"vocab_size": V, "d_model": h * d_head, "num_layers": layers, "num_heads": h}
    return sizes | {"num_kv_heads": h_kv, "d_ff": d_ff} | more


def tokens(rng: np.random.Generator, B: int, T: int, vocab_size: int) -> Tensor:
    """Draw tokens (B, T)."""
    return torch.from_numpy(rng.integers(vocab_size, size=(B, T)))


def read(rng: np.random.Generator, says: str, init: Init, B: int, T: int, embed: float = 1.0) -> Case:
    """Make a case of a model with drawn parameters that reads B texts of T tokens at once."""
    own = weights(rng, init, embed)
    return Case(says, (init, own, tokens(rng, B, T, init["vocab_size"])), probe="module")


def in_chunks(rng: np.random.Generator, says: str, init: Init, B: int, *texts: tuple[int, ...]) -> Case:
    """Make a case of a model that reads texts in chunks of these lengths, each text with its own cache."""
    own = weights(rng, init)
    drawn = [[tokens(rng, B, T, init["vocab_size"]) for T in chunks] for chunks in texts]
    return Case(says, (init, own, drawn, max(map(sum, texts))), probe="module_chunks")


def any_sizes(rng: np.random.Generator, layers: int) -> Init:
    """Draw the arguments of a class with grouped heads, in sizes that all differ."""
    h_kv, d_ff, V = (int(rng.choice((2, 3))), *sizes(rng, (9, 11), (17, 23)))
    return made(6, h_kv, 4, d_ff, V, layers)


def one_token(rng: np.random.Generator) -> Iterator[Case]:
    yield read(rng, "2 texts of one token, 1 layer, d_model = 4", made(1, 1, 4, 3, 7), B=2, T=1)
    d_ff, V = sizes(rng, (9, 11), (17, 22))
    yield read(rng, "5 texts of one token, 1 layer, 2 heads", made(2, 2, 4, d_ff, V), B=5, T=1)
    yield read(rng, "3 texts of one token, 2 layers", made(2, 2, 6, 7, 13, layers=2), B=3, T=1)


def several(rng: np.random.Generator) -> Iterator[Case]:
    yield read(rng, "3 tokens, 1 layer, one head", made(1, 1, 4, 5, 7), B=1, T=3)
    B, T, d_ff, V = sizes(rng, (2, 3), (5, 7), (9, 11), (17, 22))
    yield read(rng, f"{B} texts of {T} tokens, 2 heads", made(2, 2, 4, d_ff, V), B, T)
    yield read(rng, "4 texts of 6 tokens, 3 layers", made(2, 2, 8, 7, 13, layers=3), B=4, T=6)
    yield read(rng, "a text of 40 tokens", made(3, 3, 4, 7, 11), B=2, T=40)
    case = read(rng, "tokens that are not contiguous", made(2, 2, 6, 5, 9), B=3, T=7)
    yield replace(case, args=(*case.args[:2], strided(case.args[2])))


def grouped(rng: np.random.Generator) -> Iterator[Case]:
    yield read(rng, "4 heads share 2 heads of keys and values", made(4, 2, 2, 5, 7), B=1, T=3)
    init = any_sizes(rng, layers=2)
    says = f"6 heads share {init['num_kv_heads']}, 2 layers"
    yield read(rng, says, init, B=4, T=5)
    yield read(rng, "6 heads share one", made(6, 1, 4, 9, 13), B=2, T=7)


def constants(rng: np.random.Generator) -> Iterator[Case]:
    yield read(rng, "base = 50", made(1, 1, 4, 3, 7, base=50.0), B=1, T=5)
    yield read(rng, "eps = 0.02, a small embedding", made(2, 2, 4, 5, 9, eps=0.02), B=3, T=4, embed=0.1)
    yield read(rng, "the default of eps", made(2, 2, 4, 5, 9), B=2, T=3, embed=3e-3)
    init = made(6, 3, 4, 7, 13, layers=2, base=200.0, eps=0.1)
    yield read(rng, "base = 200, eps = 0.1, 2 layers, grouped heads", init, B=4, T=8, embed=0.5)


def at_once(rng: np.random.Generator) -> Iterator[Case]:
    yield in_chunks(rng, "a text of 4 tokens, with a cache", made(1, 1, 4, 3, 7), 1, (4,))
    yield in_chunks(rng, "texts of 5 tokens, 2 layers", made(2, 2, 4, 7, 11, layers=2), 3, (5,))
    yield in_chunks(rng, "texts of 7 tokens, grouped heads", any_sizes(rng, layers=2), 4, (7,))


def piece_by_piece(rng: np.random.Generator) -> Iterator[Case]:
    yield in_chunks(rng, "3 tokens, then one", made(1, 1, 4, 5, 7), 1, (3, 1))
    yield in_chunks(rng, "a token at a time, 2 layers", made(2, 2, 4, 7, 11, layers=2), 3, (1, 1, 1, 1))
    yield in_chunks(rng, "4 tokens, then 3, then 2", any_sizes(rng, layers=2), 3, (4, 3, 2))
    init = made(4, 2, 4, 7, 13, base=100.0)
    yield in_chunks(rng, "two texts in turn, each with its cache", init, 2, (5, 1, 3), (3, 4, 1))


def learnt(rng: np.random.Generator) -> Iterator[Case]:
    for case in (*grouped(rng), *several(rng)):
        if case.says.startswith(("4 heads", "6 heads share one", "3 tokens")):
            yield replace(case, probe="module_gradients")


def in_float64(rng: np.random.Generator) -> Iterator[Case]:
    cases = (
        read(rng, "float64, 2 layers, grouped heads", any_sizes(rng, layers=2), B=2, T=5),
        in_chunks(rng, "float64, 3 tokens, then one", made(4, 2, 4, 7, 11), 2, (3, 1)),
    )
    for case in cases:
        init, own, *given = case.args
        yield replace(case, args=(init, {name: p.double() for name, p in own.items()}, *given))


def one_of_each(rng: np.random.Generator) -> Iterator[Case]:
    yield read(rng, "4 heads share 2 heads of keys and values", made(4, 2, 2, 5, 7), B=1, T=3)
    yield in_chunks(rng, "4 tokens, then 3, then 2", made(6, 3, 4, 7, 13, layers=2), 2, (4, 3, 2))


def fits(case: Case) -> bool:
    """Return whether the parameters have the sizes of the model, and all tokens are in its vocabulary."""
    init, own, texts, *_ = case.args
    d, d_head = init["d_model"], init["d_model"] // init["num_heads"]
    wanted = weights(np.random.default_rng(0), init)
    right = own.keys() == wanted.keys() and all(own[name].shape == p.shape for name, p in wanted.items())
    chunks = [texts] if isinstance(texts, Tensor) else [chunk for text in texts for chunk in text]
    inside = all(chunk.numel() and 0 <= chunk.min() <= chunk.max() < init["vocab_size"] for chunk in chunks)
    alike = isinstance(texts, Tensor) or all(len(a) == len(b) for text in texts for a, b in pairwise(text))
    return right and inside and alike and d_head * init["num_heads"] == d and d_head % 2 == 0


def _apart(one: Tensor, other: Tensor) -> Tensor:
    """Return where two logits (B, T, V) differ beyond rounding, place by place (B, T)."""
    return (one.double() - other.double()).abs().amax(dim=-1) > SEEN


def sees_the_past_alone(trial: Trial) -> str | None:
    init, own, text, *_ = trial.case.args
    if trial.case.probe != "module" or text.shape[1] == 1:
        return None
    for j in range(1, text.shape[1]):
        other = text.clone()
        other[:, j] = (other[:, j] + 1) % init["vocab_size"]
        moved = _apart(trial.call(replace(trial.case, args=(init, own, other))).value, trial.value)[:, :j]
        if bool(moved.any()):
            i = int(torch.nonzero(moved)[0][1])
            return f"place {i} sees token {j}, which comes after it: where is the causal mask?"
    return None


def _is_wrong_without(trial: Trial, *silent: str) -> bool:
    """Return whether the logits are wrong with these matrices at zero."""
    init, own, text = trial.case.args
    quiet = {name: p * 0 if any(part in name for part in silent) else p for name, p in own.items()}
    right = probes.module(TinyLlama, init, quiet, text)
    return bool(_apart(trial.call(replace(trial.case, args=(init, quiet, text))).value, right).any())


def the_stream_between(trial: Trial) -> str | None:
    """Look at the stream: with W_o and W_d at zero, a block leaves it as it is."""
    if trial.case.probe != "module" or not _is_wrong_without(trial, "W_o", "W_d"):
        return None
    init, own, text = trial.case.args
    ends = {name: p for name, p in own.items() if not name.startswith("blocks.")}
    quiet = {name: p if name in ends else p * 0 for name, p in own.items()}
    right = probes.module(TinyLlama, init, quiet, text)
    outcome = trial.call(replace(trial.case, args=(init | {"num_layers": 0}, ends, text)))
    if outcome.error or _apart(outcome.value, right).any():
        return None
    return (
        "with W_o and W_d at zero a block adds nothing, but yours changes the stream. Give the normed stream "
        "another name, and add to the stream itself: x = x + f(norm(x))"
    )


def the_ends(trial: Trial) -> str | None:
    """Test what comes before and after the blocks: with W_o and W_d at zero, the blocks change nothing."""
    if trial.case.probe != "module" or not _is_wrong_without(trial, "W_o", "W_d"):
        return None
    return (
        "with W_o and W_d at zero the blocks add nothing, and the logits are wrong already: look at the "
        "embedding, the last norm and the tied head, which is self.embed.weight itself"
    )


def the_sublayer_at_fault(trial: Trial) -> str | None:
    """Name the sublayer that is wrong even when the other adds nothing."""
    if trial.case.probe != "module":
        return None
    for part, silent in (("attention", "W_d"), ("the feed-forward network", "W_o")):
        if _is_wrong_without(trial, silent):
            return f"with {silent} at zero, what {part} adds is wrong: look at what it reads and at each step"
    return "attention and feed-forward network are right alone, but not together: look at the order"


def texts_kept_apart(trial: Trial) -> str | None:
    """Read each of several texts by itself, and see whether its logits are right then."""
    if trial.case.probe != "module_chunks" or len(trial.case.args[2]) == 1:
        return None
    init, own, texts, room = trial.case.args
    for text in texts:
        right = probes.module_chunks(TinyLlama, init, own, [text], room)
        outcome = trial.call(replace(trial.case, args=(init, own, [text], room)))
        if outcome.error or any(_apart(*pair).any() for pair in zip(outcome.value, right, strict=True)):
            return None
    return (
        "each text alone is right, but texts that are read in turn are not: the model keeps something of a "
        "text in itself. Keep keys, values and the number of tokens seen in what new_cache returns"
    )


def as_without_a_cache(trial: Trial) -> str | None:
    """Compare the logits of chunks with the logits of the whole text, from the same model."""
    if trial.case.probe != "module_chunks":
        return None
    init, own, texts, _ = trial.case.args
    outcomes = iter(trial.value)
    parts: list[list[Tensor]] = [[] for _ in texts]
    for turn in range(max(map(len, texts))):
        for number, text in enumerate(texts):
            if turn < len(text):
                parts[number].append(next(outcomes))
    for text, read_in_parts in zip(texts, parts, strict=True):
        case = Case("", (init, own, torch.cat(text, dim=1)), probe="module")
        whole = trial.call(case).value
        if (wrong := _apart(torch.cat(read_in_parts, dim=1), whole)).any():
            return (
                f"with the cache, chunks of {[chunk.shape[1] for chunk in text]} tokens, the logits differ "
                f"from those without it, from place {int(torch.nonzero(wrong)[0][1])} on. Positions go on "
                "after cache[0].length; the mask has a row for each new token and a column for every token"
            )
    return None


def learns_everywhere(trial: Trial) -> str | None:
    if trial.case.probe != "module_gradients":
        return None
    missing = [name for name, slope in trial.value.items() if isinstance(slope, str)]
    return f"no gradient reaches `{missing[0]}`, so it cannot learn" if missing else None


EXERCISE = Exercise(
    name="ch11_capstone/TinyLlama",
    drawn_as="ch10_capstone/TinyLlama",
    signature=(
        "TinyLlama(vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-05)"
    ),
    goal="Build the model of Llama out of your own functions, so that it can take published weights.",
    section="In a real model",
    minutes=45,
    difficulty="hard",
    reference=TinyLlama,
    criteria=(
        Criterion("a token alone: embedding, norms, values, SwiGLU, tied head", 1, one_token, tolerance=5e-3),
        Criterion("each place reads the past, with rotated queries and keys", 0.75, several, tolerance=5e-3),
        Criterion("heads in groups share keys and values", 0.5, grouped, tolerance=5e-3),
        Criterion("base and eps are the ones asked for", 0.25, constants, tolerance=5e-3),
        Criterion("with a cache, a text read at once", 0.25, at_once, tolerance=5e-3),
        Criterion("with a cache, a text read piece by piece", 0.5, piece_by_piece, tolerance=5e-3),
        Criterion("gradients reach every parameter", 0.25, learnt, tolerance=2e-2),
        Criterion("float64 stays float64, in the cache too", 0.25, in_float64, tolerance=5e-3),
        Criterion("works on any device", 0.125, elsewhere(one_of_each), test=on_any_device),
        Criterion("the tokens are left as they were", 0.125, one_of_each, observes="arguments"),
    ),
    properties=(
        Property("a place sees itself and the past", sees_the_past_alone),
        Property("each text has its own cache", texts_kept_apart),
        Property("a cache changes nothing", as_without_a_cache),
        Property("gradients reach every parameter", learns_everywhere),
        Property("a block adds to the stream", the_stream_between),
        Property("the ends are right", the_ends),
        *FIRST,
        Property("a sublayer is at fault", the_sublayer_at_fault),
        *LAST,
    ),
    forbidden=LAYERS,
    given=given_llama,
    brings=OURS,
    domain=fits,
)
