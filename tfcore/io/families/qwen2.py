"""Qwen 2 and 2.5: Llama with biases on queries, keys and values alone; later layers may have a window."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import llama
from tfcore.io.family import Json, altered
from tfcore.io.windows import FULL, SLIDING, json_of_windows, windows_from


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields; the bias has no field, and the output has none."""
    config = llama.config_from(altered(json, attention_bias=True, sliding_window=None))
    config = dataclasses.replace(config, block=config.block.with_attention(output_bias=False))
    return with_later_windows(config, json)


def with_later_windows(config: ModelConfig, json: Json) -> ModelConfig:
    """Give the layers from ``max_window_layers`` on a window, where ``use_sliding_window`` asks for it."""
    first, used = json["max_window_layers"], json["use_sliding_window"]
    usual = [SLIDING if used and layer >= first else FULL for layer in range(config.num_layers)]
    return config.with_windows(windows_from(json, usual))


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields, and the kind of each layer."""
    windows = json_of_windows(config)
    return {
        **llama.json_from(config),
        **windows,
        "use_sliding_window": windows["sliding_window"] is not None,
    }


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="qwen2",
    architectures=("Qwen2ForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    defaults={
        **llama.FAMILY.defaults,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32_768,
        "sliding_window": 4096,
        "use_sliding_window": False,
        "max_window_layers": 28,
    },
    only={"mlp_bias": (False,), "num_local_experts": (None,)},
)
