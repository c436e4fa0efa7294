r"""The places of a model: each has a name that reads like the mathematics.

===========================  ================================================================================
``stream.l``                 $x^{(l)}$, what block l reads; ``stream.L`` is what the last block returns
``blocks.l.attention.X``     inside attention, where X is one of

  ``queries``                $q$ after its rotation, (B, H, T_q, d_head)
  ``keys``, ``values``       $k$ and $v$ of all tokens so far, (B, H_kv, T_k, d_head)
  ``scores``                 $s \, q \cdot k$ + bias, -inf where attending is forbidden, (B, H, T_q, T_k)
  ``weights``                their softmax, less the share of a sink, (B, H, T_q, T_k)
  ``heads``                  the output of each head, before $W_o$, (B, H, T, d_head)
  ``output``                 what attention adds to the stream, (B, T, d_model)

``blocks.l.ffn.hidden``      the inner channels of the feed-forward network, (B, T, d_ff)
``blocks.l.ffn.output``      what it adds to the stream, (B, T, d_model)
``logits``                   (B, T, V)
===========================  ================================================================================

Blocks that read a memory have the places of ``cross_attention`` too. In an encoder-decoder the names begin
with ``encoder.`` or ``decoder.``; a layer of attention alone has ``weights`` and the like. In names to
record, ``*`` matches any layer.

Nanda and Bloom (2022), *TransformerLens*, has such places for published models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tfcore.attention import attention
from tfcore.attention.explicit import masked_scores
from tfcore.attention.pattern import blank_unused, wide
from tfcore.attention.sinks import kept_share
from tfcore.layers import FeedForward, MultiHeadAttention
from tfcore.layers.heads import merge_heads, split_heads
from tfcore.masks import default_positions, position_mask
from tfcore.models.encoder_decoder import EncoderDecoder
from tfcore.moe import MixtureOfExperts

Change = Callable[[Tensor], Tensor | None]
Install = Callable[[Change], Callable[[], Any]]  # takes a change into a place, and returns how to remove it

INSIDE = ("queries", "keys", "values", "scores", "weights")
"""The places within the call of attention."""


def places(model: nn.Module) -> list[str]:
    """List the places of a model.

    >>> from tfcore.config import AttentionConfig
    >>> places(MultiHeadAttention(AttentionConfig(d_model=12, num_heads=3)))
    ['queries', 'keys', 'values', 'scores', 'weights', 'heads', 'output']
    """
    return list(_places(model))


def self_attention_layers(model: nn.Module) -> list[MultiHeadAttention]:
    """List the self-attention layers of a model, first to last.

    Raises:
        ValueError: a model without attention layers, or with two stacks of them.

    >>> from tfcore.models import EncoderDecoder
    >>> from tfcore.models.presets import t5
    >>> model = EncoderDecoder(t5(12, 3, 2, d_ff=32, d_head=4, vocab_size=50))
    >>> len(self_attention_layers(model.decoder))  # beside as many that attend to the encoder
    2
    """
    if isinstance(model, EncoderDecoder):
        raise ValueError("expected one stack, got an EncoderDecoder; look into its encoder or its decoder")
    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention) and not name.endswith("cross_attention")
    ]
    if not layers:
        raise ValueError(f"expected a model with attention layers, got {type(model).__name__} without any")
    return layers


@contextmanager
def changed(model: nn.Module, pattern: str, change: Callable[[str, Tensor], Tensor | None]) -> Iterator[None]:
    """Call a function with the name of each place that fits and what flows through it.

    What the function returns, unless None, flows on.

    Args:
        model: any model of tfcore.
        pattern: the name of a place; ``*`` matches any layer.
        change: is called while the context lasts.

    Raises:
        ValueError: no place of the model fits.
    """
    known = _places(model)
    names = [name for name in known if fnmatchcase(name, pattern)]
    if not names:
        near = get_close_matches(pattern, known, n=3) or list(known)[:3]
        raise ValueError(
            f"expected one of {len(known)} places such as {', '.join(near)}, got {pattern!r}; "
            "tfcore.interventions.places lists all"
        )
    with ExitStack() as undo:
        for name in names:
            undo.callback(known[name](partial(change, name)))
        yield


def _places(model: nn.Module) -> dict[str, Install]:
    """Return how a change gets into each place of a model."""
    found: dict[str, Install] = {}
    for path, module in model.named_modules():
        start = re.sub(r"^stack(\.|$)", "", path)
        start += "." if start else ""
        if isinstance(blocks := getattr(module, "blocks", None), nn.ModuleList):
            streams = [*map(_into, blocks), _out_of(blocks[-1])]
            found |= {f"{start}stream.{layer}": install for layer, install in enumerate(streams)}
        if isinstance(module, MultiHeadAttention):
            found |= {f"{start}{name}": install for name, install in _attention_places(module).items()}
        if isinstance(module, FeedForward):
            found[f"{start}hidden"] = _into(module.W_down)
        if isinstance(module, FeedForward | MixtureOfExperts):
            found[f"{start}output"] = _out_of(module)
    return found | ({"logits": _out_of(model)} if hasattr(model, "head") else {})


def _attention_places(layer: MultiHeadAttention) -> dict[str, Install]:
    num_heads = layer.config.num_heads

    def at_heads(change: Change) -> Callable[[], Any]:
        def by_head(x: Tensor) -> Tensor | None:
            new = change(split_heads(x, num_heads))  # (B, H, T, d_head)
            return None if new is None else merge_heads(new)

        return _into(layer.W_o)(by_head)

    inside: dict[str, Install] = {name: _into_call(layer, name) for name in INSIDE}
    return inside | {"heads": at_heads, "output": _out_of(layer)}


def _into(module: nn.Module) -> Install:
    """Change the first argument of a module."""

    def hook(change: Change) -> Any:
        def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
            new = change(inputs[0])
            return None if new is None else (new, *inputs[1:])

        return before

    return lambda change: module.register_forward_pre_hook(hook(change)).remove


def _out_of(module: nn.Module) -> Install:
    """Change the output of a module."""

    def hook(change: Change) -> Any:
        def after(module: nn.Module, inputs: Any, output: Any) -> Any:
            if isinstance(output, tuple):  # with a state behind it
                new = change(output[0])
                return None if new is None else (new, *output[1:])
            return change(output)

        return after

    return lambda change: module.register_forward_hook(hook(change)).remove


def _into_call(layer: MultiHeadAttention, name: str) -> Install:
    """Change what flows within the call of attention."""

    def install(change: Change) -> Callable[[], None]:
        own = vars(layer).get("attend")  # None: the class has the usual one
        watched = own if isinstance(own, _Watched) else _Watched(own)
        layer.attend = watched
        watched.changes.append((name, change))

        def remove() -> None:
            watched.changes.remove((name, change))
            if not watched.changes:
                del layer.attend
                vars(layer).update({} if watched.own is None else {"attend": watched.own})

        return remove

    return install


class _Watched:
    """Attention that calls functions with what flows through it.

    Args:
        own: the attention function that was set on this layer, or None. It computes the output, unless scores
            or weights are recorded or changed; then the equation below replaces it, since `own` does not show
            them.
    """

    def __init__(self, own: Callable[..., Tensor] | None) -> None:
        self.own = own
        self.changes: list[tuple[str, Change]] = []

    def at(self, name: str, x: Tensor) -> Tensor:
        for place, change in self.changes:
            if place == name and (new := change(x)) is not None:
                x = new
        return x

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        q, k, v = self.at("queries", q), self.at("keys", k), self.at("values", v)
        if not {"scores", "weights"} & {place for place, _ in self.changes}:
            output: Tensor = (self.own or attention)(q, k, v, **options)
            return output
        dtype, groups = q.dtype, q.shape[1] // k.shape[1]
        q, k, v = (x.to(wide(dtype)) for x in (q, k, v))
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))  # (B, H, T_k, d_head)
        q_pos, k_pos = default_positions(q.shape[2], k.shape[2], q.device)
        allowed = position_mask(q_pos, k_pos, causal=options["causal"], window=options["window"])
        if options["mask"] is not None:
            allowed = allowed & options["mask"]
        q, k, v = blank_unused(q, k, v, allowed)
        score_options = options["bias"], options["scale"], options["softcap"]
        scores = self.at("scores", masked_scores(q, k, allowed, *score_options))
        nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)  # (B, H, T_q, 1)
        weights = scores.softmax(dim=-1).masked_fill(nothing, 0.0)
        if options["sinks"] is not None:
            weights = weights * kept_share(scores.logsumexp(dim=-1), options["sinks"]).unsqueeze(-1)
        weights = self.at("weights", weights)
        return (weights @ v).to(dtype)  # (B, H, T_q, d_head)
