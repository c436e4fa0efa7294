"""OLMo 2: Llama with norms of the sublayers' outputs, and one norm over the queries (keys) of all heads."""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig, QKNorm
from tfcore.io.families import llama
from tfcore.io.family import Json
from tfcore.io.table import Row

NORMS = {"norm_attention": "post_attention_layernorm", "norm_ffn": "post_feedforward_layernorm"}


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields; all norms have one epsilon."""
    config = llama.config_from(json)
    norm = QKNorm("layer", "rms", json["rms_norm_eps"])
    block = dataclasses.replace(config.block.with_attention(qk_norm=norm), norm_place="output")
    return dataclasses.replace(config, block=block)


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="olmo2",
    architectures=("Olmo2ForCausalLM",),
    config_from=config_from,
    rows=(
        *(row for row in llama.ROWS if row.ours.split(".")[-2] not in NORMS),
        *llama.QK_NORM_ROWS,
        *(
            Row(f"stack.blocks.{{layer}}.{ours}.weight", f"model.layers.{{layer}}.{theirs}.weight")
            for ours, theirs in NORMS.items()
        ),
    ),
    defaults={**llama.FAMILY.defaults, "rms_norm_eps": 1e-5},
    only={**llama.FAMILY.only, "mlp_bias": (False,)},
)
