"""Meters: count the operations of a piece of torch code, and the memory that it allocates."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


def _two_per_entry(matrix: Tensor, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * matrix.numel()


def _linear(x: Tensor, weight: Tensor, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * x.numel() * weight.shape[0]


@cache
def products() -> dict[Any, Callable[..., int]]:
    """Return the operators made of products and sums, with a count for each.

    Torch knows those of ``flop_registry``, which leaves the others out. It is imported only here, since it
    imports triton where there is one.
    """
    from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

    def attention(q: Tensor, k: Tensor, v: Tensor, *_: Any, out_val: Any, **__: Any) -> int:
        return sdpa_flop_count(q.shape, k.shape, v.shape)

    def attention_backward(
        d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any, out_val: Any, **__: Any
    ) -> int:
        return sdpa_backward_flop_count(d_out.shape, q.shape, k.shape, v.shape)

    return {
        **flop_registry,
        aten._scaled_dot_product_flash_attention_for_cpu: attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
        aten._weight_int8pack_mm: _linear,
        aten.mv: _two_per_entry,
        aten.dot: _two_per_entry,
    }


# One kernel for what would be several steps: operations per element of the first argument.
FUSED = {
    aten._softmax: 5,  # maximum, difference, exponential, sum, quotient
    aten._safe_softmax: 5,
    aten._softmax_backward_data: 4,  # p * (g - sum(p * g))
    aten._log_softmax: 5,
    aten._log_softmax_backward_data: 4,
    aten.logsumexp: 4,
    aten.native_layer_norm: 7,  # sum, difference, square, sum, quotient, gain, bias
    aten.native_layer_norm_backward: 13,
    aten.cumsum: 1,
}


class _Meter(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it would import it, which takes seconds


class OperationCounter(_Meter):
    r"""Count the arithmetic of a piece of torch code, in its forward and its backward pass.

    A product of (m, n) and (n, p) matrices is $2mnp$ operations; an elementwise operator is one per element
    of its result, whatever the function; a reduction is one per element that goes in. Fused softmax and norms
    count as the steps they combine. Fused attention counts its matrix products alone, $2 T_q T_k (d_k +
    d_v)$ for each head and 2.5 times that backwards at equal widths, and a causal one counts as a full one.

    Views, copies, indexing, sorting and drawing of random numbers are not arithmetic. Operations without a
    rule here are not counted either: torch's own recurrent layers, its fused optimizers, numpy, a compiled
    kernel.

    Attributes:
        total: all operations, products and the rest.
        products: operations of matrix products, convolutions and fused attention, as ``FlopCounterMode`` has
            them.
        by_operator: operations of each operator, by its name in ``torch.ops.aten``.
        calls: how often each operator was called, those without arithmetic too.

    From: the method of ``torch.utils.flop_counter``, which counts products alone and no attention on a CPU.

    >>> with OperationCounter() as counter:
    ...     result = torch.relu(torch.ones(2, 3) @ torch.ones(3, 5))
    >>> print(dict(counter.by_operator), counter.products, counter.total)
    {'mm': 60, 'relu': 10} 60 70
    """

    def __init__(self) -> None:
        super().__init__()
        self.products = 0
        self.by_operator: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Count all operations so far, products and the rest."""
        return self.by_operator.total()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = func.overloadpacket
        if packet not in products():
            with self:  # without autograd, torch hands over operators such as linear whole
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.calls[packet.__name__] += 1
        if packet in products():
            operations = products()[packet](*args, **kwargs, out_val=result)
            self.products += operations
        else:
            operations = _steps(func, args, result)
        if operations:
            self.by_operator[packet.__name__] += operations
        return result


def _steps(func: Any, args: tuple[Any, ...], result: Any) -> int:
    """Count an operator that is not a product."""
    packet = func.overloadpacket
    if packet in FUSED:
        return FUSED[packet] * args[0].numel()
    if torch.Tag.reduction in func.tags:
        return sum(x.numel() for x in _tensors(args[:1]))
    if torch.Tag.pointwise in func.tags and packet is not aten.clone:
        return max((x.numel() for x in _tensors((result,))), default=0)
    return 0


class AllocationMeter(_Meter):
    """Measure the tensors that a piece of torch code allocates, in its forward and its backward pass.

    Memory is counted once per storage: views and in-place writes are free, ``expand`` is free until something
    copies it. Memory that a compiled kernel allocates for itself and does not return is not counted.

    Attributes:
        largest_elements: elements of the largest storage that was allocated.
        largest_shape: shape of the tensor that needed it.
        live_bytes: bytes allocated since the start and not freed yet.
        peak_bytes: the largest that ``live_bytes`` ever was.
        total_bytes: bytes allocated since the start, whether freed or not.

    From: the method of ``torch.utils._python_dispatch``, which torch's own flop counter uses.

    >>> column, row = torch.ones(1000, 1), torch.ones(1000)
    >>> with AllocationMeter() as meter:
    ...     total = (column * row).sum()
    >>> print(meter.largest_elements, meter.largest_shape, meter.live_bytes)
    1000000 (1000, 1000) 4
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest_elements = 0
        self.largest_shape: tuple[int, ...] = ()
        self.live_bytes = 0
        self.peak_bytes = 0
        self.total_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = () if func.overloadpacket is aten.lift_fresh else (*args, *kwargs.values())  # new to torch
        size_before = {_key(x): x.untyped_storage().nbytes() for x in _tensors(given)}
        result = func(*args, **kwargs)
        for x in _tensors((result,)):
            grown = x.untyped_storage().nbytes() - size_before.get(_key(x), 0)
            if grown > 0:
                size_before[_key(x)] = x.untyped_storage().nbytes()
                self._record(x, grown)
        return result

    def _record(self, x: Tensor, grown: int) -> None:
        elements = x.untyped_storage().nbytes() // x.element_size()
        if elements > self.largest_elements:
            self.largest_elements, self.largest_shape = elements, tuple(x.shape)
        self.live_bytes += grown
        self.total_bytes += grown
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(x.untyped_storage(), self._free, grown)

    def _free(self, size: int) -> None:
        self.live_bytes -= size


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among an operator's values and in its lists; nothing else holds tensors."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _key(x: Tensor) -> int:
    return x.untyped_storage()._cdata
