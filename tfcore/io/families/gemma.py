"""Gemma: embeddings that are scaled, norms that multiply by 1 + weight, and a gate of GELU.

Gemma 2 and 3 have norms before and after the sublayers and windows in some of the layers; the fields of the
three are read together.
"""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import llama
from tfcore.io.family import Json, altered


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields and set what all Gemmas share."""
    name = json.get("hidden_activation") or json["hidden_act"]
    act = "gelu_pytorch_tanh" if name == "gelu" else name  # files of the first Gemma say gelu and mean tanh
    config = llama.config_from(altered(json, hidden_act=act, sliding_window=None))
    block = dataclasses.replace(config.block, norm="rms_plus_one")
    return dataclasses.replace(config, block=block, embedding_scale=config.d_model**0.5)


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields, and the activation by both of its names."""
    json = llama.json_from(config)
    return {**json, "hidden_activation": json["hidden_act"]}


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="gemma",
    architectures=("GemmaForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    defaults={
        **llama.FAMILY.defaults,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    only={**llama.FAMILY.only, "mlp_bias": (False,), "use_bidirectional_attention": (None, False)},
)
