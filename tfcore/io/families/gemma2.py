"""Gemma 2: norms around the sublayers, a window in every second layer, soft caps on scores and logits."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import gemma, llama
from tfcore.io.family import Json
from tfcore.io.table import Row
from tfcore.io.windows import FULL, SLIDING, json_of_windows, windows_from

NORMS = {
    "norm_attention": "input_layernorm",
    "norm_attention_output": "post_attention_layernorm",
    "norm_ffn": "pre_feedforward_layernorm",
    "norm_ffn_output": "post_feedforward_layernorm",
}
ROWS = (
    *(row for row in llama.ROWS if row.ours.split(".")[-2] not in NORMS),
    *(
        Row(f"stack.blocks.{{layer}}.{ours}.weight", f"model.layers.{{layer}}.{theirs}.weight")
        for ours, theirs in NORMS.items()
    ),
)


def config_from(json: Json) -> ModelConfig:
    """Read Gemma's fields, caps and windows; the scale is the root of ``query_pre_attn_scalar``, inverted."""
    config = sandwiched(gemma.config_from(json), json)
    usual = [FULL if layer % 2 else SLIDING for layer in range(config.num_layers)]
    return config.with_windows(windows_from(json, usual))


def sandwiched(config: ModelConfig, json: Json) -> ModelConfig:
    """Add what Gemma 2 and 3 share to a Gemma."""
    block = config.block.with_attention(
        scale=json["query_pre_attn_scalar"] ** -0.5, softcap=json["attn_logit_softcapping"]
    )
    block = dataclasses.replace(block, norm_place="sandwich")
    return dataclasses.replace(config, block=block, logit_softcap=json["final_logit_softcapping"])


def json_from(config: ModelConfig) -> Json:
    """Write Gemma's fields, the caps, and the kind of each layer."""
    attention = config.block.multi_head
    scale = attention.width**-0.5 if attention.scale is None else attention.scale
    whole = round(scale**-2)
    return {
        **gemma.json_from(config),
        **json_of_windows(config),
        "query_pre_attn_scalar": whole if whole and whole**-0.5 == scale else scale**-2,
        "attn_logit_softcapping": attention.softcap,
        "final_logit_softcapping": config.logit_softcap,
    }


FAMILY = dataclasses.replace(
    gemma.FAMILY,
    name="gemma2",
    architectures=("Gemma2ForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        **gemma.FAMILY.defaults,
        "num_key_value_heads": 4,
        "sliding_window": 4096,
        "query_pre_attn_scalar": 256,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    only={"mlp_bias": (False,), "use_bidirectional_attention": (None, False)},
)
