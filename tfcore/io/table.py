"""How parameters are written on disk: a table of names and layouts that is read in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Transform:
    """A change of layout, and its inverse. Both are given the layer that the parameter belongs to."""

    to_disk: Callable[[Tensor, Any], Sequence[Tensor]]
    from_disk: Callable[[Sequence[Tensor], Any], Tensor]


same = Transform(
    lambda x, layer: [x],
    lambda parts, layer: parts[0],
)
transposed = Transform(  # (in, out) on disk; a bias stays as it is
    lambda x, layer: [x.mT if x.ndim == 2 else x],
    lambda parts, layer: parts[0].mT if parts[0].ndim == 2 else parts[0],
)
separate_qkv = Transform(  # a matrix each for queries, keys and values
    lambda x, layer: x.split([layer.q_size, layer.kv_size, layer.kv_size]),
    lambda parts, layer: torch.cat(list(parts)),
)
no_key_bias = Transform(  # a bias of the keys adds the same to all scores of a query: the softmax undoes it
    lambda x, layer: x.split([layer.q_size, layer.kv_size, layer.kv_size])[::2],
    lambda parts, layer: torch.cat([parts[0], torch.zeros_like(parts[1]), parts[1]]),
)
qkv_by_head = Transform(  # query, key and value of head 0, then of head 1, ...
    lambda x, layer: [x.unflatten(0, (3, layer.config.num_heads, -1)).transpose(0, 1).flatten(0, 2)],
    lambda parts, layer: parts[0].unflatten(0, (layer.config.num_heads, 3, -1)).transpose(0, 1).flatten(0, 2),
)
one_each = Transform(  # a matrix for each expert
    lambda x, layer: x.unbind(),
    lambda parts, layer: torch.stack(list(parts)),
)


def unused_rows(count: int) -> Transform:
    """Write rows in front of a table that no token ever looks up."""
    return Transform(
        lambda x, layer: [F.pad(x, (0, 0, count, 0))],
        lambda parts, layer: parts[0][count:],
    )


def leading_axes(count: int) -> Transform:
    """Write a vector with axes of size 1 before it."""
    return Transform(
        lambda x, layer: [x[(None,) * count]],
        lambda parts, layer: parts[0].flatten(),
    )


@dataclass(frozen=True)
class Row:
    """One line of the table: our name, the name on disk, and what happens on the way.

    In both names ``*`` matches weight and bias, and ``{layer}`` or any other word in braces matches the same
    text in both. In the name on disk, ``{q,k,v}`` lists one part after the other, and a word in braces that
    our name lacks counts the parts from 0. ``{gate,up}`` in our name lists parameters of one layer that are
    laid one behind the other on disk.

    Args:
        ours: name of the parameter in the model, or of several.
        theirs: its name, or the names of its parts, on disk.
        transform: from our layout to the one on disk, and back.
        when: a condition on the layer; the row is used where it is true.

    >>> row = Row("blocks.{layer}.W_qkv.*", "h.{layer}.{q,k,v}.*", separate_qkv)
    >>> row.names("blocks.7.W_qkv.bias", count=3)
    ['h.7.q.bias', 'h.7.k.bias', 'h.7.v.bias']
    """

    ours: str
    theirs: str
    transform: Transform = same
    when: Callable[[Any], bool] = lambda layer: True

    def matches(self, name: str, layer: nn.Module) -> bool:
        """Return whether the row is about the parameter ``name`` of this layer."""
        return self._match(name) is not None and self.when(layer)

    def names(self, name: str, count: int) -> list[str]:
        """List the names on disk of the parts of our parameter ``name``."""
        found = self._match(name)
        assert found is not None
        theirs = self.theirs
        for word, value in found.groupdict().items():
            theirs = theirs.replace("*" if word == "kind" else f"{{{word}}}", value)
        braces = re.search(r"\{([\w,]+)\}", theirs)
        if braces is None:
            return [theirs]
        listed = braces[1].split(",")
        parts = listed if len(listed) > 1 else [str(i) for i in range(count)]
        return [theirs.replace(braces[0], part) for part in parts]

    def together(self, name: str) -> list[str]:
        """List the parameters that go to disk with the parameter ``name``, itself included.

        >>> Row("ffn.{gate,up}.weight", "gate_up").together("ffn.up.weight")
        ['ffn.gate.weight', 'ffn.up.weight']
        """
        listed = re.search(r"\{(\w+(?:,\w+)+)\}", self.ours)
        if listed is None:
            return [name]
        own = len(self.ours[: listed.start()].split(".")) - 1  # which part of the name is listed
        parts = name.split(".")
        return [".".join([*parts[:own], word, *parts[own + 1 :]]) for word in listed[1].split(",")]

    def _match(self, name: str) -> re.Match[str] | None:
        words = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\w+)", re.escape(self.ours))
        words = re.sub(r"\\\{(\w+(?:,\w+)+)\\\}", lambda m: f"(?:{m[1].replace(',', '|')})", words)
        return re.fullmatch(words.replace(r"\*", "(?P<kind>weight|bias)"), name)


@dataclass(frozen=True)
class Link:
    """A parameter of a model, or several one behind the other, and the tensors on disk."""

    ours: dict[str, int]  # the parameters, and the length of each along its first axis
    theirs: list[str]
    transform: Transform
    layer: nn.Module

    def to_disk(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Lay the parameters out as they are on disk: the parts by their names there."""
        parts = self.transform.to_disk(_behind_each_other(parameters, self.ours), self.layer)
        return dict(zip(self.theirs, parts, strict=True))

    def from_disk(self, read: Callable[[str], Tensor]) -> dict[str, Tensor]:
        """Put the parameters together from the parts; ``read`` returns a part by its name on disk."""
        whole = self.transform.from_disk([read(name) for name in self.theirs], self.layer)
        if len(self.ours) == 1:
            return dict.fromkeys(self.ours, whole)
        return dict(zip(self.ours, whole.split(list(self.ours.values())), strict=True))


def _behind_each_other(parameters: Mapping[str, Tensor], names: Iterable[str]) -> Tensor:
    one, *others = (parameters[name] for name in names)
    return torch.cat([one, *others]) if others else one


def link(rows: Iterable[Row], model: nn.Module) -> list[Link]:
    """Find the row of each parameter of a model; of tied parameters, the row of the first.

    Raises:
        ValueError: a parameter without a row, or numbers that are not parameters.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if others := [name for name in model.state_dict() if name not in parameters]:
        raise ValueError(
            f"expected a model of parameters alone, got the buffers {', '.join(others[:3])}, ...; "
            "a quantized model is quantized again from the saved one"
        )
    links: list[Link] = []
    done: set[str] = set()
    for name, _ in model.named_parameters():
        if name in done:
            continue
        layer = model.get_submodule(".".join(name.split(".")[:-2]))
        row = next((row for row in rows if row.matches(name, layer)), None)
        if row is None:
            raise ValueError(f"expected a row for each parameter, got none for {name}; add it to the table")
        ours = {each: len(parameters[each]) for each in row.together(name)}
        count = len(row.transform.to_disk(_behind_each_other(parameters, ours), layer))
        links.append(Link(ours, row.names(name, count), row.transform, layer))
        done |= set(ours)
    return links
