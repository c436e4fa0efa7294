"""Steps of one token as one compiled program: small kernels take longer to start than to run."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from threading import Lock
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache, StaticCache, preallocated_layers
from tfcore.config import DeltaNetConfig
from tfcore.inspection import check_tokens
from tfcore.models.decoder import Decoder

KEPT = 4  # recorded programs, each with a memory as large as a cache
WHOLE: dict[str, Any] = {"fullgraph": True, "recompile_limit": 64}  # not cut into pieces
# The layers are not looked at again before each step: ``renew`` does it when another text's turn comes.
UNCHANGED: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
PACKED: dict[str, Any] = {  # weights in the order in which the fastest of several products reads them
    "cpp_wrapper": True,  # no Python runs between the kernels
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
    "autotune_num_choices_displayed": 0,
    "max_autotune_report_choices_stats": False,
}


class CompiledDecoder:
    r"""A decoder for :func:`tfcore.generate.generate`, whose steps of one token are one compiled program.

    $z_{t+1} = f(x_t, t; K, V)$ with the same f for all t.

    The prompt is read without a compiled program. The first step compiles, which takes up to a minute. Other
    texts may need a program of their own: :class:`PackedStep`, for a CPU, and :class:`RecordedStep`, for a
    GPU, say which. A change of the model is noticed when a text begins or its turn comes. A model with hooks,
    or one that records attention weights, is then run without a compiled program.

    Args:
        model: the decoder that runs.
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
        experts = next((block.num_experts for block in model.config.layers if block.num_experts), None)
        if experts is not None:
            raise ValueError(
                f"expected a model that computes the same for every token, got one with {experts} experts; "
                "generate with the model itself"
            )
        if any(isinstance(block.attention, DeltaNetConfig) for block in model.config.layers):
            raise ValueError(
                "expected attention in every layer, got gated delta rules; generate with the model itself"
            )
        self.model, self.static = model, static
        self._packed, self._recorded = PackedStep(model, backend), RecordedStep(model, backend)
        self._turn: Callable[[], Cache | None] = lambda: None  # the cache of the last step
        self._looked_into = False

    def new_cache(self, batch: int, max_len: int, kind: str = "preallocated") -> Cache:
        """Make an empty cache with room for so many tokens of so many sequences.

        Raises:
            ValueError: attention that sees less than that, or another kind.
        """
        window = min((w for w in self.model.config.windows if w is not None), default=None)
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
        keep_last: int | None = None,
    ) -> Float[Tensor, "B T_kept V"]:
        """Compute the logits of the next token at every place, as the model does; see its ``forward``.

        Raises:
            ValueError: arguments that the model would refuse, or a cache that is not from :meth:`new_cache`.
        """
        batch, num_new = check_tokens(tokens, self.model.config.vocab_size)
        if cache is None:
            return self.model(tokens, padding=padding, keep_last=keep_last)
        preallocated_layers(cache)
        alone = num_new == 1 and padding is None and keep_last in (None, 1)
        if not alone or not 2 <= cache.length < self._num_positions():  # torch compiles sizes 0 and 1 apart
            self._turn = lambda: None
            return self.model(tokens, cache, padding, keep_last)
        static = tokens.is_cuda if self.static is None else self.static
        step = self._recorded if static else self._packed
        if self._turn() is not cache:
            step.renew()
            self._turn, self._looked_into = weakref.ref(cache), _looked_into(self.model)
        if self._looked_into:
            return self.model(tokens, cache)
        cache.visible(1)  # raises the errors that a program cannot raise
        cache.check_batch(batch)
        if cache.real is not None:
            self.model.stack.check_gaps(F.pad(cache.real[:, : cache.length], (0, 1), value=True))
        length = cache.length
        try:
            return step(tokens, cache)
        except RuntimeError:
            self.model(tokens, cache)  # says what does not fit, if it is that
            cache.truncate(length)
            raise

    def _num_positions(self) -> float:
        positions = self.model.stack.positions
        return len(positions.table) if positions.config.kind == "learned" else float("inf")


class PackedStep:
    """A step for a CPU, whose program has a copy of the weights in the order that suits it.

    It reads the filled part of the cache, of any length. It is compiled for one sequence, for several, and
    once more for all other numbers of them; then again for texts with padding, and if the model has changed.
    Beside the model's own there are two copies of the weights.

    Args:
        model: the decoder that runs.
        backend: as in ``torch.compile``.

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> print(PackedStep(model, backend="eager")(torch.tensor([[7]]), model.new_cache(1, 8)).shape)
    torch.Size([1, 1, 50])
    """

    def __init__(self, model: Decoder, backend: str | Callable[..., Any]) -> None:
        self.model, self.backend = model, backend
        self._copy = model
        self._program: Callable[..., Tensor] | None = None
        self._made: list[Any] = []
        self._seen: set[Any] = set()

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        if self._program is None:
            self._copy, self._made, self._seen = _copy(self.model), _make(self.model), set()
            self._program = torch.compile(
                _own(self._copy), dynamic=True, backend=self.backend, options=UNCHANGED, **WHOLE
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
        """Forget the program if the model has changed since it was compiled, even by one number."""
        if self._program is not None and not (
            self._made == _make(self.model)
            and all(map(torch.equal, _tensors(self._copy), _tensors(self.model)))
        ):
            self._copy, self._program = self.model, None


class RecordedStep:
    """A step for a GPU, recorded as a CUDA graph: no shape and no address changes from one to the next.

    It attends to all places of the cache and hides the empty ones, so make the cache as long as the text. It
    is compiled again for another number of sequences or another length, and if the model got another type,
    place or mode; the last few programs are kept. Other changes of the weights are seen at once.

    Args:
        model: the decoder that runs.
        backend: as in ``torch.compile``.

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> model = Decoder(ModelConfig(vocab_size=50, num_layers=2, block=block))
    >>> step = RecordedStep(model, backend="eager")
    >>> print(step(torch.tensor([[7]]), model.new_cache(1, 8)).shape)
    torch.Size([1, 1, 50])
    """

    def __init__(self, model: Decoder, backend: str | Callable[..., Any]) -> None:
        self.model, self.backend = model, backend
        self._made: list[Any] = []
        self._programs: list[tuple[StaticCache, Callable[[Tensor], Tensor]]] = []  # with their memories
        self._lock = Lock()  # each memory is one for all threads

    def __call__(self, tokens: Int[Tensor, "B 1"], cache: Cache) -> Float[Tensor, "B 1 V"]:
        """Read one token of each sequence."""
        with self._lock:
            end = cache.length + 1
            real = cache.note_padding(None, len(tokens), 1, tokens.device)
            memory, program = self._find(cache) or self._compile(cache)
            memory.take(cache)
            memory.place.fill_(cache.length)
            memory.real[:, :end] = True if real is None else real
            logits = program(tokens).clone()  # a CUDA graph writes the next ones to the same memory
            for layer in cache.layers:
                layer.length = end
            return logits

    def renew(self) -> None:
        """Forget all programs if the model is no longer of the make that was compiled."""
        if self._made != _make(self.model):
            self._made, self._programs = _make(self.model), []

    def _find(self, cache: Cache) -> tuple[StaticCache, Callable[[Tensor], Tensor]] | None:
        for suits in (StaticCache.holds, StaticCache.fits):
            for found in self._programs:
                if suits(found[0], cache):
                    return found
        return None

    def _compile(self, cache: Cache) -> tuple[StaticCache, Callable[[Tensor], Tensor]]:
        with torch.inference_mode(False):
            memory = StaticCache(cache)
        recorded = self.backend == "inductor" and memory.place.is_cuda
        options = {**UNCHANGED, **({"triton.cudagraphs": True} if recorded else {})}
        step = _own(partial(self.model, cache=memory))
        program = torch.compile(step, dynamic=False, backend=self.backend, options=options, **WHOLE)
        self._programs = [*self._programs, (memory, program)][-KEPT:]
        return memory, program


def _own(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Give a program code of its own: torch keeps and counts its compiled versions with the code."""

    def step(*inputs: Any) -> Tensor:
        return run(*inputs)

    return FunctionType(step.__code__.replace(), globals(), closure=step.__closure__)


def _looked_into(model: Decoder) -> bool:
    """Return whether a model's user waits for more than its logits."""
    return any(
        module._forward_hooks or module._forward_pre_hooks or "attend" in vars(module)
        for module in model.modules()
    )


def _tensors(model: Decoder) -> list[Tensor]:
    fixed = [x for x in vars(model.stack.positions).values() if isinstance(x, Tensor)]
    return [*model.parameters(), *model.buffers(), *fixed]


def _make(model: Decoder) -> list[Any]:
    """List the properties of a model that a program is compiled for, besides the numbers in its tensors."""

    def plain(module: nn.Module) -> dict[str, Any]:
        kinds = bool | int | float | str | None
        return {name: x for name, x in vars(module).items() if isinstance(x, kinds) or name == "forward"}

    kinds: list[Any] = [(x.shape, x.dtype, x.device) for x in _tensors(model)]
    return kinds + [(type(module), plain(module)) for module in model.modules()]


@torch.inference_mode(False)
def _copy(model: Decoder) -> Decoder:
    """Copy a model, each tensor of it to a storage of its own, as a compiler of constants expects it."""
    copied = copy.deepcopy(model)
    for x in _tensors(copied):
        x.data = x.data.clone()
    return copied
