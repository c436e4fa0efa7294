"""Phi 3 and 4: Llama with its projections in two matrices on disk; longer contexts by "longrope"."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import llama
from tfcore.io.family import Json, altered
from tfcore.io.rope import json_of_partial_rope, partial_rope_from
from tfcore.io.table import Row

LAYER = "model.layers.{layer}"
FUSED = (
    Row("stack.blocks.{layer}.attention.W_qkv.weight", f"{LAYER}.self_attn.qkv_proj.weight"),
    Row("stack.blocks.{layer}.ffn.{W_gate,W_up}.weight", f"{LAYER}.mlp.gate_up_proj.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields; a window holds for all layers."""
    config = llama.config_from(altered(json, rope_parameters=None, rope_scaling=None))
    block = dataclasses.replace(config.block, dropout=json["resid_pdrop"])
    positions = partial_rope_from(_by_todays_name(json), config.block.multi_head)
    return dataclasses.replace(config, block=block, positions=positions)


def _by_todays_name(json: Json) -> Json:
    """Call the scaling "longrope": files from before transformers 5 have other names for it."""
    fields = {name: dict(json.get(name) or {}) for name in ("rope_parameters", "rope_scaling")}
    for field in fields.values():
        for name in ("type", "rope_type"):
            if field.get(name) in ("su", "yarn"):
                field[name] = "longrope"
    return altered(json, **fields)


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields, and the rotation as transformers 5 does."""
    json = llama.json_from(config)
    return {
        **{name: value for name, value in json.items() if name not in ("rope_theta", "rope_scaling")},
        "rope_parameters": json_of_partial_rope(config),
        "original_max_position_embeddings": dict(config.positions.rope_scaling or {}).get(
            "original_max_position_embeddings", config.positions.max_len
        ),
        "resid_pdrop": config.block.dropout,
        "embd_pdrop": config.block.dropout,
        "attention_dropout": 0.0,
        "pad_token_id": None,  # the usual one is beyond a small vocabulary
    }


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="phi3",
    architectures=("Phi3ForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=(*FUSED, *(row for row in llama.ROWS if not {"W_qkv", "W_gate", "W_up"} & set(row.ours.split(".")))),
    defaults={
        **llama.FAMILY.defaults,
        "rms_norm_eps": 1e-5,
        "resid_pdrop": 0.0,
        "partial_rotary_factor": 1.0,
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
    },
    only={"attention_bias": (False,), "mlp_bias": (False,), "num_local_experts": (None,)},
)
