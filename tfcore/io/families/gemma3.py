"""Gemma 3, the language model: Gemma 2 with norms of queries and keys, and two rotations.

Five layers of six see a window and turn faster than the sixth, which sees all tokens.
"""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig, QKNorm
from tfcore.io.families import gemma, gemma2, llama
from tfcore.io.family import Json, altered
from tfcore.io.rope import json_of_ropes, ropes_from
from tfcore.io.windows import FULL, SLIDING, windows_from


def config_from(json: Json) -> ModelConfig:
    """Read Gemma 2's fields and the two rotations."""
    positions, window_positions = ropes_from(json, ("rope_theta", "rope_local_base_freq"))
    config = gemma.config_from(altered(json, rope_parameters=None, rope_scaling=None))
    config = gemma2.sandwiched(config, json)
    norm = QKNorm("head", "rms_plus_one", json["rms_norm_eps"])
    block = config.block.with_attention(qk_norm=norm)
    config = dataclasses.replace(config, block=block, positions=positions, window_positions=window_positions)
    every = json["sliding_window_pattern"]
    usual = [SLIDING if (layer + 1) % every else FULL for layer in range(config.num_layers)]
    return config.with_windows(windows_from(json, usual))


def json_from(config: ModelConfig) -> Json:
    """Write Gemma 2's fields and the two rotations."""
    json = {**gemma2.json_from(config), "rope_parameters": json_of_ropes(config)}
    return {name: value for name, value in json.items() if name not in ("rope_theta", "rope_scaling")}


FAMILY = dataclasses.replace(
    gemma2.FAMILY,
    name="gemma3_text",
    architectures=("Gemma3ForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=(*gemma2.ROWS, *llama.QK_NORM_ROWS),
    defaults={
        **gemma2.FAMILY.defaults,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131_072,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    },
)
