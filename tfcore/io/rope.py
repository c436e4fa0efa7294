"""RoPE as ``config.json`` states it: scaled, of a part of each head, or one for each kind of layer."""

from __future__ import annotations

import dataclasses

from tfcore.config import AttentionConfig, ModelConfig, PositionConfig
from tfcore.io.family import Json, altered
from tfcore.io.windows import FULL, SLIDING
from tfcore.rope_scaling import scaling_pairs

FRACTION = "partial_rotary_factor"


def rope_from(json: Json) -> PositionConfig:
    """Read the rotation: files from before transformers 5 have two fields in place of today's one."""
    fields = [dict(json.get(name) or {}) for name in ("rope_parameters", "rope_scaling")]
    for field in fields:
        if "type" in field:
            field.setdefault("rope_type", field.pop("type"))
    given, other = fields if fields[0] else fields[::-1]
    if other and {"rope_theta": json["rope_theta"], **given} != {"rope_theta": json["rope_theta"], **other}:
        raise ValueError(
            f"expected one rotation, got rope_parameters {fields[0]} and rope_scaling {fields[1]}; "
            "delete the field that the model was not trained with"
        )
    base = given.pop("rope_theta", json["rope_theta"])
    given.setdefault("rope_type", "default")
    longest, original = json["max_position_embeddings"], json.get("original_max_position_embeddings")
    scaled = given != {"rope_type": "default"}
    scaling = scaling_pairs(_with_lengths(given, longest, original)) if scaled else None
    return PositionConfig("rope", longest, base=base, rope_scaling=scaling)


def _with_lengths(given: Json, longest: int, beside: int | None) -> Json:
    """Complete a scaling by the lengths that the file has beside it, where transformers does so.

    The field ``original_max_position_embeddings`` beside the scaling counts more than the entry in it.
    """
    kind = given["rope_type"]
    original = given.get("original_max_position_embeddings")
    if kind in ("llama3", "yarn", "longrope"):
        original = beside or original or longest
        given = {**given, "original_max_position_embeddings": original}
    if kind in ("yarn", "longrope") and given.get("factor") is None and isinstance(original, int | float):
        given = {**given, "factor": longest / original}
    if kind == "dynamic":
        if original not in (None, longest):
            raise ValueError(
                "expected rope_type 'dynamic' with max_position_embeddings as its original length, "
                f"{longest}, got {original}; delete it from the scaling: transformers does not read it there"
            )
        given = {**given, "original_max_position_embeddings": longest}
    return given


def scaling_json(positions: PositionConfig) -> Json | None:
    """Write the scaling of the rotations; for "dynamic", transformers reads the length from another field."""
    scaling = dict(positions.rope_scaling or ())
    if scaling.get("rope_type") == "dynamic":
        del scaling["original_max_position_embeddings"]
    return scaling or None


def partial_rope_from(json: Json, attention: AttentionConfig) -> PositionConfig:
    """Read the rotation and the fraction, from beside ``rope_theta`` or, in files of today, within.

    >>> json = {"rope_theta": 500.0, "partial_rotary_factor": 0.25, "max_position_embeddings": 64}
    >>> partial_rope_from(json, AttentionConfig(d_model=48, num_heads=3)).d_rotary
    4
    """
    fields = {name: dict(json.get(name) or {}) for name in ("rope_parameters", "rope_scaling")}
    inside = [value.pop(FRACTION) for value in fields.values() if FRACTION in value]
    fraction = inside[0] if inside else json[FRACTION]
    positions = rope_from(altered(json, **fields))
    width = int(attention.width * fraction)
    return dataclasses.replace(positions, d_rotary=None if width == attention.width else width)


def json_of_partial_rope(config: ModelConfig) -> Json:
    """Write the rotation as transformers 5 does: scaling, base and fraction in one dictionary.

    >>> from tfcore.models.presets import preset
    >>> json_of_partial_rope(preset("llama-tiny"))
    {'rope_type': 'default', 'rope_theta': 10000.0, 'partial_rotary_factor': 1.0}
    """
    width, positions = config.block.multi_head.width, config.positions
    return {
        "rope_type": "default",
        **(scaling_json(positions) or {}),
        "rope_theta": positions.base,
        FRACTION: (positions.d_rotary or width) / width,
    }


def ropes_from(
    json: Json, names: tuple[str, str], scaled: tuple[str, ...] = (FULL,)
) -> tuple[PositionConfig, PositionConfig]:
    """Read the rotations of layers that see all tokens, and of layers that see a window.

    Args:
        json: the fields.
        names: fields with the two bases, for files from before transformers 5.
        scaled: the kinds of layers to which ``rope_scaling`` in those files applies.

    Raises:
        ValueError: rotations that are not given by kind of layer, or two for one kind.

    >>> json = {"rope_theta": 500.0, "rope_local_base_freq": 10.0, "max_position_embeddings": 64}
    >>> [positions.base for positions in ropes_from(json, ("rope_theta", "rope_local_base_freq"))]
    [500.0, 10.0]
    """
    by_kind = json.get("rope_parameters") or {}
    if set(by_kind) - {FULL, SLIDING}:
        raise ValueError(
            f"expected rope_parameters by kind of layer, {FULL} and {SLIDING}, got {by_kind}; "
            "give each kind its own"
        )
    full, sliding = (
        rope_from(
            altered(
                json,
                rope_theta=(by_kind.get(kind) or {}).get("rope_theta", json[name]),
                rope_parameters=by_kind.get(kind),
                rope_scaling=json.get("rope_scaling") if kind in scaled else None,
            )
        )
        for kind, name in zip((FULL, SLIDING), names, strict=True)
    )
    return full, sliding


def json_of_ropes(config: ModelConfig) -> Json:
    """Write both rotations as transformers 5 does.

    >>> from tfcore.models.presets import preset
    >>> json_of_ropes(preset("llama-tiny"))["sliding_attention"]
    {'rope_type': 'default', 'rope_theta': 10000.0}
    """
    both = {FULL: config.positions, SLIDING: config.window_positions or config.positions}
    return {
        kind: {"rope_type": "default", **(scaling_json(rope) or {}), "rope_theta": rope.base}
        for kind, rope in both.items()
    }
