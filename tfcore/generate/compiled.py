"""Steps of one token as one compiled program: on a GPU, small kernels take longer to start than to run."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.cache import Cache, StaticCache
from tfcore.models.decoder import Decoder
from tfcore.models.stack import check_tokens


class CompiledDecoder:
    r"""A decoder for :func:`tfcore.generate.generate`, each of whose steps is the same compiled program.

    $z_{t+1} = f(x_t, t; K, V)$ with K and V of one shape for all t.

    The prompt is read as ever. The first step compiles, which takes half a minute; so does the first with
    another number of sequences or another length. A step attends to all places of the cache and hides the
    empty ones: make it as long as the text.

    Args:
        model: what runs; changes of its weights are seen.
        backend: as in ``torch.compile``; "eager" runs the program without a compiler.
        mode: as in ``torch.compile``; when None "reduce-overhead" on a GPU, which records a CUDA graph.

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
        self, model: Decoder, backend: str | Callable[..., Any] = "inductor", mode: str | None = None
    ) -> None:
        self.model, self.backend, self.mode = model, backend, mode
        self._memory: StaticCache | None = None
        self._program: Callable[[Tensor], Tensor] = model
        self._taken: weakref.ref[Cache] | None = None  # the cache that shares this memory

    def new_cache(self, batch: int, max_len: int) -> Cache:
        """Make an empty cache with room for so many tokens of so many sequences.

        Raises:
            ValueError: attention that sees less than that.
        """
        window = self.model.config.block.attention.window
        if window is not None and window < max_len:
            raise ValueError(
                f"expected a window of at least {max_len}, the tokens of the text, got {window}; "
                "generate with the model itself"
            )
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
        if cache is None or num_new > 1 or cache.length >= self._num_positions():
            return self.model(tokens, cache, padding=padding)
        cache.visible(1)
        end = cache.length + 1
        real = cache.note_padding(padding, batch, 1, tokens.device)
        memory = self._share(cache)
        memory.place.fill_(cache.length)
        memory.real[:, :end] = True if real is None else real
        logits = self._program(tokens).clone()  # a CUDA graph writes the next ones to the same memory
        for layer in cache.layers:
            layer.length = end
        return logits

    def _num_positions(self) -> float:
        positions = self.model.stack.positions
        return len(positions.table) if positions.config.kind == "learned" else float("inf")

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
        mode = self.mode
        if mode is None and self.backend == "inductor" and memory.place.is_cuda:
            mode = "reduce-overhead"
        step = partial(self.model, cache=memory)
        return torch.compile(step, fullgraph=True, dynamic=False, backend=self.backend, mode=mode)
