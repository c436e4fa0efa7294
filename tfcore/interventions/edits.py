"""Record, patch and ablate: what flows through a place is kept or replaced while a context lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from numbers import Integral
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from tfcore.interventions.places import Change, changed, self_attention_layers


@contextmanager
def record(model: nn.Module, *names: str) -> Iterator[dict[str, Tensor]]:
    r"""Keep what flows through some places while the context lasts.

    Args:
        model: an encoder or a decoder, one stack of an encoder-decoder, or a layer of attention.
        names: places; ``*`` matches any layer, as in ``blocks.*.attention.weights``.

    Yields:
        What the last call had in each place, by its name. Gradients flow through it.

    Raises:
        ValueError: a place that the model does not have.

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> model = Decoder(preset("gpt2-tiny"))
    >>> with record(model, "blocks.1.attention.weights", "stream.*") as seen:
    ...     logits = model(torch.tensor([[7, 1, 4]]))
    >>> print(seen["blocks.1.attention.weights"].shape, len(seen))
    torch.Size([1, 4, 3, 3]) 4
    """
    seen: dict[str, Tensor] = {}
    with ExitStack() as undo:
        for name in names:
            undo.enter_context(changed(model, name, seen.__setitem__))
        yield seen


@contextmanager
def patch(model: nn.Module, name: str, value: Any, at: Any = ...) -> Iterator[None]:
    r"""Put something else in a place while the context lasts: $x[\text{at}] \leftarrow$ value.

    Args:
        model: as for :func:`record`.
        name: a place; ``*`` matches any layer.
        value: a number or a tensor that broadcasts to what is replaced, or a function of what is there.
        at: which part is replaced, as an index, such as ``(0, -1)`` for the last token of the first sequence.

    Raises:
        ValueError: a place that the model does not have.
        RuntimeError: in the model's call, a value that does not fit.

    From: Meng et al. (2022), *Locating and Editing Factual Associations in GPT*.

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> model = Decoder(preset("gpt2-tiny"))
    >>> tokens, other = torch.tensor([[7, 1]]), torch.tensor([[3, 2]])
    >>> with record(model, "stream.2") as seen:
    ...     theirs = model(other)
    >>> with patch(model, "stream.2", seen["stream.2"]):
    ...     print(torch.equal(model(tokens), theirs))
    True
    """

    def replace(name: str, x: Tensor) -> Tensor:
        new = x.clone()
        new[at] = value(x[at]) if callable(value) else value
        return new

    with changed(model, name, replace):
        yield


@contextmanager
def ablate(
    model: nn.Module,
    head: tuple[int, int] | Sequence[tuple[int, int]],
    by: Literal["zero", "mean", "resample"] = "zero",
) -> Iterator[None]:
    r"""Remove the output of some heads from the stream while the context lasts.

    The three ask different things. ``zero`` also takes away what the head adds to every text: $o_h
    \leftarrow 0$. ``mean`` removes only what differs from its mean: $o_h \leftarrow$ its mean over the
    sequences and places of the call. In a causal model this mean has read the later tokens too; for a loss
    take the mean over other texts with :func:`record` and :func:`patch`. ``resample`` may mislead: each
    sequence gets the $o_h$ of the one before it in the batch.

    Args:
        model: as for :func:`record`.
        head: layer and head, both from 0, or several of them.
        by: the replacement.

    Raises:
        ValueError: a head that the model does not have, an unknown replacement, or one sequence to resample.

    From: Michel, Levy and Neubig (2019), *Are Sixteen Heads Really Better than One?*; Chan et al. (2022),
    *Causal Scrubbing*.

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> model, tokens = Decoder(preset("gpt2-tiny")), torch.tensor([[7, 1, 4]])
    >>> before = model(tokens)
    >>> with ablate(model, head=(1, 2)):
    ...     print(torch.equal(model(tokens), before))
    False
    """
    if by not in REPLACEMENTS:
        raise ValueError(f"expected one of {', '.join(REPLACEMENTS)}, got {by!r}")
    pairs = cast(list[tuple[int, int]], [head] if len(head) and isinstance(head[0], Integral) else head)
    layers = self_attention_layers(model)
    with ExitStack() as undo:
        for layer, index in pairs:
            if not (0 <= layer < len(layers) and 0 <= index < layers[layer].config.num_heads):
                raise ValueError(
                    f"expected a layer below {len(layers)} and a head below {layers[0].config.num_heads}, "
                    f"got layer {layer}, head {index}; both count from 0"
                )
            replaced = patch(layers[layer], "heads", REPLACEMENTS[by], at=(slice(None), index))
            undo.enter_context(replaced)
        yield


def _resampled(x: Tensor) -> Tensor:
    if len(x) < 2:
        raise ValueError("expected two sequences or more to resample from, got one; put more into the batch")
    return x.roll(1, dims=0)


REPLACEMENTS: dict[str, Change] = {  # of the output of a head, (B, T, d_head)
    "zero": torch.zeros_like,
    "mean": lambda x: x.mean(dim=(0, 1), keepdim=True),
    "resample": _resampled,
}
