"""Steps of one token as one compiled program: small kernels take longer to start than to run."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.cache import Cache, StaticCache, preallocated_layers
from tfcore.models.decoder import Decoder
from tfcore.models.stack import check_tokens

WHOLE: dict[str, Any] = {"fullgraph": True, "isolate_recompiles": True}  # no limit shared with other programs
PACKED: dict[str, Any] = {  # weights in the order in which the fastest of several products reads them
    "cpp_wrapper": True,  # nor is there Python between the kernels
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
    "autotune_num_choices_displayed": 0,
    "max_autotune_report_choices_stats": False,
}


class CompiledDecoder:
    r"""A decoder for :func:`tfcore.generate.generate`, whose steps of one token are one compiled program.

    $z_{t+1} = f(x_t, t; K, V)$ with the same f for all t.

    The prompt is read as ever. The first step compiles, which takes up to a minute, and so does the
    first for sequences of another number; :class:`PackedStep` and :class:`RecordedStep` say when.

    Args:
        model: what runs.
        static: whether a step is recorded, with shapes that stay the same; when None on a GPU alone.
        backend: as in ``torch.compile``; "eager" runs the program without a compiler.

    Raises:
        ValueError: a model with experts.

    From: the compiled steps of gpt-fast and transformers.

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> from tfcore.generate import generate
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block)).eval()
    >>> prompt, compiled = torch.tensor([[7, 1, 4]]), CompiledDecoder(model, backend="eager")
    >>> torch.equal(generate(compiled, prompt, 5), generate(model, prompt, 5))
    True
    """

    def __init__(
        self, model: Decoder, static: bool | None = None, backend: str | Callable[..., Any] = "inductor"
    ) -> None:
        experts = model.config.block.num_experts
        if experts is not None:
            raise ValueError(
                f"expected a model that computes the same for every token, got one with {experts} experts; "
                "generate with the model itself"
            )
        self.model, self.static = model, static
        self._packed, self._recorded = PackedStep(model, backend), RecordedStep(model, backend)

    def new_cache(self, batch: int, max_len: int) -> Cache:
        """Make an empty cache with room for so many tokens of so many sequences, for the weights of now.

        Raises:
            ValueError: attention that sees less than that.
        """
        window = self.model.config.block.attention.window
        if window is not None and window < max_len:
            raise ValueError(
                f"expected a window of at least {max_len}, the tokens of the text, got {window}; "
                "generate with the model itself"
            )
        self._packed.renew()
        return self.model.new_cache(batch, max_len, "preallocated")

    @torch.inference_mode()
    def __call__(
        self,
        tokens: Int[Tensor, "B T"],
        cache: Cache | None = None,
        padding: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Compute the logits of the next token at every place, as the model does; see its ``forward``.

        Raises:
            ValueError: what the model would refuse, or a cache that is not from :meth:`new_cache`.
        """
        batch, num_new = check_tokens(tokens, self.model.config.vocab_size)
        if cache is None or num_new > 1 or padding is not None or cache.length >= self._num_positions():
            return self.model(tokens, cache, padding=padding)
        preallocated_layers(cache)
        cache.visible(1)
        cache.check_batch(batch)
        static = tokens.is_cuda if self.static is None else self.static
        return (self._recorded if static else self._packed)(tokens, cache)

    def _num_positions(self) -> float:
        positions = self.model.stack.positions
        return len(positions.table) if positions.config.kind == "learned" else float("inf")


class PackedStep:
    """A step for a CPU, whose program has a copy of the weights in the order that suits it.

    It reads what the cache holds, however much that is. It is compiled for one sequence, for several, and for
    any number when that changes; and each anew where there is padding. Weights may change between two texts,
    which compiles it anew, but not within one.

    Args:
        model: what runs.
        backend: as in ``torch.compile``.

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(PackedStep(model, backend="eager")(torch.tensor([[7]]), model.new_cache(1, 8)).shape)
    torch.Size([1, 1, 50])
    """

    def __init__(self, model: Decoder, backend: str | Callable[..., Any]) -> None:
        self.model, self.backend = model, backend
        self._program: Callable[..., Tensor] | None = None
        self._seen: set[tuple[bool, bool]] = set()
        self._weights: list[tuple[int, int]] = []  # where they were, and how often they had changed

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        if self._program is None:
            self._weights, self._seen = self._versions(), set()
            self._program = torch.compile(self.model, dynamic=True, backend=self.backend, **WHOLE)
        kind = len(tokens) > 1, cache.real is None  # what tells one compiled program from another
        if kind in self._seen:
            return self._program(tokens, cache)
        from torch._inductor import config

        quiet = warnings.catch_warnings(action="ignore")  # the compiler's, of torch's own old functions
        with quiet, config.patch(PACKED):  # as options they would come too late for the tracing
            logits = self._program(tokens, cache)
        self._seen.add(kind)
        return logits

    def renew(self) -> None:
        """Forget a program whose weights have changed."""
        if self._program is not None and self._weights != self._versions():
            self._program = None

    def _versions(self) -> list[tuple[int, int]]:
        tensors = chain(self.model.parameters(), self.model.buffers())
        return [(x.data_ptr(), 0 if x.is_inference() else x._version) for x in tensors]


class RecordedStep:
    """A step for a GPU, recorded as a CUDA graph: no shape and no address changes from one to the next.

    It attends to all places of the cache and hides the empty ones, so make the cache as long as the text. It
    is compiled anew for another number of sequences or another length. Changes of the weights are seen.

    Args:
        model: what runs.
        backend: as in ``torch.compile``.

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(RecordedStep(model, backend="eager")(torch.tensor([[7]]), model.new_cache(1, 8)).shape)
    torch.Size([1, 1, 50])
    """

    def __init__(self, model: Decoder, backend: str | Callable[..., Any]) -> None:
        self.model, self.backend = model, backend
        self._memory: StaticCache | None = None
        self._program: Callable[[Tensor], Tensor] = model
        self._taken: weakref.ref[Cache] | None = None  # the cache that shares this memory

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        end = cache.length + 1
        real = cache.note_padding(None, len(tokens), 1, tokens.device)
        memory = self._share(cache)
        memory.place.fill_(cache.length)
        memory.real[:, :end] = True if real is None else real
        logits = self._program(tokens).clone()  # a CUDA graph writes the next ones to the same memory
        for layer in cache.layers:
            layer.length = end
        return logits

    def _share(self, cache: Cache) -> StaticCache:
        """Let the program's memory be that of the cache; the cache before gets tensors of its own again."""
        memory, before = self._memory, None if self._taken is None else self._taken()
        if memory is not None and before is not None and memory.holds(before):
            if before is cache:
                return memory
            memory.leave(before)
        if memory is None or not memory.fits(cache):
            memory = self._memory = StaticCache(cache)
            self._program = self._compile(memory)
        memory.take(cache)
        self._taken = weakref.ref(cache)
        return memory

    def _compile(self, memory: StaticCache) -> Callable[[Tensor], Tensor]:
        recorded = self.backend == "inductor" and memory.place.is_cuda
        mode = "reduce-overhead" if recorded else None
        step = partial(self.model, cache=memory)
        return torch.compile(step, dynamic=False, backend=self.backend, mode=mode, **WHOLE)
