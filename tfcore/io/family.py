"""The description of a family, and how to find the family of a file or of a model."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import nn

from tfcore.config import (
    AttentionConfig,
    BlockConfig,
    EncoderDecoderConfig,
    LatentAttentionConfig,
    ModelConfig,
    PositionConfig,
)
from tfcore.io.table import Row

Json = dict[str, Any]

ACTIVATIONS = {  # theirs: ours; of several names, the first is written
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
HEAD = ("tied", "logit_scale", "logit_bias")  # fields that say nothing of a stack without a head
OF_POSITIONS = {  # fields of positions, and the methods that they say something of
    "base": ("sinusoidal", "rope"),
    "layout": ("sinusoidal", "rope"),
    "d_rotary": ("rope",),
    "rope_scaling": ("rope",),
    "num_buckets": ("t5",),
    "max_distance": ("t5", "shaw"),
}
NOWHERE_SUPPORTED: dict[str, tuple[Any, ...]] = {"quantization_config": (None,), "pruned_heads": (None, {})}


@dataclass(frozen=True)
class Family:
    """All there is to know about the files of one family.

    Args:
        name: its ``model_type`` in ``config.json``.
        architectures: classes of transformers whose files it reads; it writes files of the first class.
        model: our class.
        config_from: makes our configuration from the fields of ``config.json``.
        json_from: makes those fields from our configuration.
        rows: names and layouts of the parameters.
        defaults: fields that files may leave out.
        only: fields that change the mathematics, with the values that we compute, and the first of them for
            a missing field.
        prefix: an optional beginning of the names on disk.
        old_names: pieces of names in old files, and their names today.
        copies: names under which a file may hold a tensor again, and its proper name.
        head: the copy that is the head; if it differs, the head is not tied.
        harmless: patterns of further names in a file that can be left out without loss.
        left_out: patterns of the names of weights that the model has no place for; loading warns of them.
        zero_if_missing: names that a file may lack.

    >>> from tfcore.io.families import gpt2
    >>> json = {"n_embd": 12, "n_head": 3, "n_layer": 2, "vocab_size": 50, "n_positions": 20}
    >>> gpt2.FAMILY.config(json).block.d_ff
    48
    """

    name: str
    architectures: tuple[str, ...]
    model: Callable[[Any], nn.Module]
    config_from: Callable[[Json], Any]
    json_from: Callable[[Any], Json]
    rows: tuple[Row, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    prefix: str = ""
    old_names: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    head: str | None = None
    harmless: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    zero_if_missing: tuple[str, ...] = ()

    def config(self, json: Json) -> Any:
        """Make our configuration, or name the fields that our models cannot follow.

        Raises:
            ValueError: a field that is missing, or has a value that we do not know.
        """
        only = {**NOWHERE_SUPPORTED, **self.only}
        unknown = [
            f"{name} is {json[name]!r} and not {' or '.join(map(repr, values))}"
            for name, values in only.items()
            if name in json and json[name] not in values
        ]
        if unknown:
            raise ValueError(
                f"expected a {self.name} that tfcore computes, got one where {'; '.join(unknown)}; "
                "it would come out wrong: use transformers for it"
            )
        try:
            return self.config_from(_Fields({**self.defaults, **json}))
        except TypeError as error:
            raise ValueError(
                f"expected fields of the types that a {self.name} has, got one of another type: {error}; "
                "compare the file with another one of this family"
            ) from error


class _Fields(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise ValueError(f"expected the field {name!r}, got only {', '.join(sorted(self))}")


def altered(json: Json, **fields: Any) -> Json:
    """Return the fields of ``config.json`` with some of them changed.

    >>> dict(altered({"hidden_size": 12, "use_bias": True}, use_bias=False))
    {'hidden_size': 12, 'use_bias': False}
    """
    return cast(Json, ChainMap(fields, json))


def activation(name: str) -> Any:
    """Translate the name of an activation in ``config.json`` into ours.

    Raises:
        ValueError: a name that is not known.

    >>> activation("gelu_new")
    'gelu_tanh'
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"expected an activation out of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


def activation_name(ours: str) -> str:
    """Translate our name of an activation into the name in ``config.json``.

    >>> activation_name("gelu_tanh")
    'gelu_new'
    """
    return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)


def families() -> list[Family]:
    """List the families, one for each file in ``families/``.

    >>> len(families()) >= 12
    True
    """
    package = importlib.import_module("tfcore.io.families")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(f"{package.__name__}.{name}").FAMILY for name in names]


def family_of_json(json: Json) -> Family:
    """Find the family that reads these files: by architecture, or by model_type where none is named.

    Raises:
        ValueError: no family does.

    >>> family_of_json({"model_type": "llama", "architectures": ["MistralForCausalLM"]}).name
    'mistral'
    """
    asked = json.get("architectures") or []
    for family in families():
        if set(asked) & set(family.architectures) or (not asked and json.get("model_type") == family.name):
            return family
    served = ", ".join(name for family in families() for name in family.architectures)
    raise ValueError(
        f"expected an architecture out of {served}, got {asked or json.get('model_type')}; "
        "load it with transformers, or add a file to tfcore/io/families"
    )


def family_of_model(model: nn.Module) -> tuple[Family, Json]:
    """Find the first family whose ``config.json`` can express all of the model's configuration.

    Raises:
        ValueError: none can; the message says what each would lose.

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> family, json = family_of_model(Decoder(preset("llama-tiny")))
    >>> print(family.name, json["num_key_value_heads"])
    llama 2
    """
    lost = []
    for family in families():
        if family.model is not type(model):
            continue
        try:
            json = family.json_from(model.config)
            changes = _changes(spelled_out(model.config), spelled_out(family.config(json)))
        except ValueError as error:
            changes = [str(error)]
        if not changes:
            return family, {"model_type": family.name, "architectures": [family.architectures[0]], **json}
        lost.append(f"  {family.name}: {'; '.join(changes)}")
    raise ValueError(
        f"expected a model that some family of transformers describes, got one of type "
        f"{type(model).__name__} that none does; save its state_dict instead\n" + "\n".join(lost)
    )


def spelled_out(config: Any) -> Any:
    """Fill in the defaults of a configuration, and empty the fields that it does not use.

    Two that mean the same are equal then.

    >>> brief = AttentionConfig(12, num_heads=4)
    >>> long = AttentionConfig(12, 4, num_kv_heads=4, d_head=3)
    >>> brief == long, spelled_out(brief) == spelled_out(long)
    (False, True)
    """
    if not dataclasses.is_dataclass(config):
        return config
    known = {f.name: spelled_out(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, AttentionConfig):
        scale = config.width**-0.5 if config.scale is None else config.scale
        known |= {"num_kv_heads": config.kv_heads, "d_head": config.width, "scale": scale}
        known["output_bias"] = config.has_output_bias
    elif isinstance(config, LatentAttentionConfig):
        known["scale"] = config.width**-0.5 if config.scale is None else config.scale
    elif isinstance(config, ModelConfig):
        known |= {"final_norm": config.has_final_norm, "blocks": tuple(map(spelled_out, config.layers))}
    elif isinstance(config, EncoderDecoderConfig):
        known["encoder"] |= dict.fromkeys(HEAD)
    elif isinstance(config, BlockConfig) and config.num_experts is None:
        known["top_k"] = None
    elif isinstance(config, PositionConfig):
        known["rope_scaling"] = tuple(sorted(config.rope_scaling or ())) or None
        known |= {name: None for name, kinds in OF_POSITIONS.items() if config.kind not in kinds}
    known.pop("dropout", None)  # of training alone
    return known


def _changes(before: Any, after: Any, path: str = "") -> list[str]:
    """Say which entries of nested dictionaries differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [line for name in before for line in _changes(before[name], after[name], f"{path}{name}.")]
    return [] if before == after else [f"{path[:-1]} {before!r} would become {after!r}"]


def untied(config: Any) -> Any:
    """Let the head have a matrix of its own.

    >>> from tfcore.models.presets import preset
    >>> preset("gpt2-tiny").tied, untied(preset("gpt2-tiny")).tied
    (True, False)
    """
    if isinstance(config, EncoderDecoderConfig):
        return EncoderDecoderConfig(untied(config.encoder), untied(config.decoder))
    return dataclasses.replace(config, tied=False)
