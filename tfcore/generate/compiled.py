"""Steps of one token as one compiled program: small kernels take longer to start than to run."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.cache import Cache, StaticCache, preallocated_layers
from tfcore.models.decoder import Decoder
from tfcore.models.stack import check_tokens

# Not cut into pieces, and with a limit of programs that is not shared with other models.
WHOLE: dict[str, Any] = {"fullgraph": True, "isolate_recompiles": True, "recompile_limit": 64}
PACKED: dict[str, Any] = {  # weights in the order in which the fastest of several products reads them
    "cpp_wrapper": True,  # nor is there Python between the kernels
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
    "autotune_num_choices_displayed": 0,
    "max_autotune_report_choices_stats": False,
}
# A layer's attributes are not looked at again before each step.
UNCHANGED = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}


class CompiledDecoder:
    r"""A decoder for :func:`tfcore.generate.generate`, whose steps of one token are one compiled program.

    $z_{t+1} = f(x_t, t; K, V)$ with the same f for all t.

    The prompt is read as ever. The first step compiles, which takes up to a minute. Other texts may need a
    program of their own: :class:`PackedStep`, for a CPU, and :class:`RecordedStep`, for a GPU, say which.

    Args:
        model: what runs.
        static: whether a step is recorded, with shapes that stay the same; when None on a GPU alone.
        backend: as in ``torch.compile``; "eager" runs the program without a compiler.

    Raises:
        ValueError: another model than a ``Decoder``, or one with experts.

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
        if not isinstance(model, Decoder):
            raise ValueError(
                f"expected a tfcore.models.Decoder, got {type(model).__name__}; "
                "generate with the model itself"
            )
        experts = model.config.block.num_experts
        if experts is not None:
            raise ValueError(
                f"expected a model that computes the same for every token, got one with {experts} experts; "
                "generate with the model itself"
            )
        self.model, self.static = model, static
        self._packed, self._recorded = PackedStep(model, backend), RecordedStep(model, backend)

    def new_cache(self, batch: int, max_len: int, kind: str = "preallocated") -> Cache:
        """Make an empty cache with room for so many tokens of so many sequences.

        Raises:
            ValueError: attention that sees less than that, or another kind.
        """
        window = self.model.config.block.attention.window
        if kind != "preallocated" or (window is not None and window < max_len):
            raise ValueError(
                f"expected a preallocated cache and a window of at least {max_len}, the tokens of the text, "
                f"got {kind} and {window}; generate with the model itself"
            )
        return self.model.new_cache(batch, max_len, kind)

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
        if cache is not None:
            preallocated_layers(cache)
            if cache.length == 0:
                self._packed.renew()
        if (
            cache is None
            or num_new > 1
            or padding is not None
            or not 2 <= cache.length < self._num_positions()
        ):
            return self.model(tokens, cache, padding=padding)
        cache.visible(1)  # what a program cannot refuse is refused here
        cache.check_batch(batch)
        self.model.stack.check_gaps(cache.real)
        static = tokens.is_cuda if self.static is None else self.static
        length = cache.length
        try:
            return (self._recorded if static else self._packed)(tokens, cache)
        except RuntimeError:
            self.model(tokens, cache)  # says what does not fit, if it is that
            cache.truncate(length)
            raise

    def _num_positions(self) -> float:
        positions = self.model.stack.positions
        return len(positions.table) if positions.config.kind == "learned" else float("inf")


class PackedStep:
    """A step for a CPU, whose program has a copy of the weights in the order that suits it.

    It reads what the cache holds, however much that is. It is compiled for one sequence, for several, and
    once more for all other numbers of them; then again for texts with padding. A text is written with the
    weights that the model had when it began: if they have changed since the last one, it is compiled anew.
    Beside the model's own there are two copies of the weights. Hooks that are added later are not called, and
    no attention weights kept.

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
        self._copy: Decoder | None = None
        self._program: Callable[..., Tensor] | None = None
        self._seen: set[Any] = set()

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        if self._program is None:
            self._copy, self._seen = _copy(self.model), set()
            self._program = torch.compile(
                self._copy, dynamic=True, backend=self.backend, options=dict(UNCHANGED), **WHOLE
            )
        keys = preallocated_layers(cache)[0].keys
        kind = len(tokens), cache.real is None, keys.is_inference()  # what may take a program of its own
        if kind in self._seen:
            return self._program(tokens, cache)
        from torch._inductor import config

        quiet = warnings.catch_warnings(action="ignore")  # the compiler's, of torch's own old functions
        with quiet, config.patch(PACKED):  # as options they would come too late for the tracing
            logits = self._program(tokens, cache)
        self._seen.add(kind)
        return logits

    def renew(self) -> None:
        """Forget the program if the model is no longer what was compiled."""
        if self._copy is not None and not _same(self._copy, self.model):
            self._copy = self._program = None


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
        self._lock = Lock()  # one memory for all threads

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        with self._lock:
            end = cache.length + 1
            real = cache.note_padding(None, len(tokens), 1, tokens.device)
            if self._memory is None or not self._memory.fits(cache):
                with torch.inference_mode(False):
                    self._memory = StaticCache(cache)
                self._program = self._compile(self._memory)
            memory = self._memory
            memory.take(cache)
            memory.place.fill_(cache.length)
            memory.real[:, :end] = True if real is None else real
            logits = self._program(tokens).clone()  # a CUDA graph writes the next ones to the same memory
            for layer in cache.layers:
                layer.length = end
            return logits

    def _compile(self, memory: StaticCache) -> Callable[[Tensor], Tensor]:
        recorded = self.backend == "inductor" and memory.place.is_cuda
        mode = "reduce-overhead" if recorded else None
        step = partial(self.model, cache=memory)
        return torch.compile(step, dynamic=False, backend=self.backend, mode=mode, **WHOLE)


def _tensors(model: Decoder) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


@torch.inference_mode(False)
def _copy(model: Decoder) -> Decoder:
    """Copy a model, each tensor of it to a storage of its own, as a compiler of constants expects it."""
    copied = copy.deepcopy(model)
    for x in _tensors(copied):
        x.data = x.data.clone()
    return copied


def _same(a: Decoder, b: Decoder) -> bool:
    """Compare two models by the numbers in them: an optimizer need not leave another trace."""
    ours, theirs = _tensors(a), _tensors(b)
    return (
        [module.training for module in a.modules()] == [module.training for module in b.modules()]
        and [(x.shape, x.dtype, x.device) for x in ours] == [(x.shape, x.dtype, x.device) for x in theirs]
        and all(map(torch.equal, ours, theirs))
    )
