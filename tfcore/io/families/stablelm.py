"""StableLM: Llama with LayerNorm, a quarter of each head rotated, and in some sizes parallel blocks."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import llama
from tfcore.io.family import Json, altered
from tfcore.io.rope import json_of_partial_rope, partial_rope_from


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields by StableLM's names."""
    fields = altered(json, attention_bias=json["use_qkv_bias"], rms_norm_eps=json["layer_norm_eps"])
    config = llama.config_from(altered(fields, rope_parameters=None, rope_scaling=None))
    block = dataclasses.replace(
        config.block.with_attention(output_bias=False),
        norm="layer",
        parallel="one norm" if json["use_parallel_residual"] else None,
        dropout=json["hidden_dropout"],
    )
    return dataclasses.replace(config, block=block, positions=partial_rope_from(json, block.multi_head))


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields by StableLM's names; 0 for the dropout of attention's weights."""
    json = llama.json_from(config)
    return {
        **{name: value for name, value in json.items() if name not in ("rope_theta", "rope_scaling")},
        "use_qkv_bias": config.block.multi_head.bias,
        "layer_norm_eps": config.block.norm_eps,
        "use_parallel_residual": config.block.parallel is not None,
        "hidden_dropout": config.block.dropout,
        "attention_dropout": 0.0,
        "rope_parameters": json_of_partial_rope(config),
    }


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="stablelm",
    architectures=("StableLmForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=tuple(
        dataclasses.replace(
            row, ours=row.ours.replace(".weight", ".*"), theirs=row.theirs.replace(".weight", ".*")
        )
        if "norm" in row.ours
        else row
        for row in llama.ROWS
    ),
    defaults={
        **llama.FAMILY.defaults,
        "num_key_value_heads": 32,
        "layer_norm_eps": 1e-5,
        "use_qkv_bias": False,
        "use_parallel_residual": False,
        "hidden_dropout": 0.0,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 4096,
    },
    only={**llama.FAMILY.only, "mlp_bias": (False,), "qk_layernorm": (False,)},
)
