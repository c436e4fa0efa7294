"""Qwen 3: Llama with a norm of each head's queries and keys; later layers may have a window."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig, QKNorm
from tfcore.io.families import llama, qwen2
from tfcore.io.family import Json, altered


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields; the norm of queries and keys has the epsilon of the others."""
    config = llama.config_from(altered(json, sliding_window=None))
    norm = QKNorm("head", "rms", json["rms_norm_eps"])
    config = dataclasses.replace(config, block=config.block.with_attention(qk_norm=norm))
    return qwen2.with_later_windows(config, json)


FAMILY = dataclasses.replace(
    qwen2.FAMILY,
    name="qwen3",
    architectures=("Qwen3ForCausalLM",),
    config_from=config_from,
    rows=(*llama.ROWS, *llama.QK_NORM_ROWS),
    defaults={**qwen2.FAMILY.defaults, "head_dim": 128},
)
