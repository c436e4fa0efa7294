"""gpt-oss: Llama with sinks, biases, a window in every second layer, and experts with bounded gates.

The published weights of the experts are in 4 bits; a copy in bfloat16 can be read.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from tfcore.config import ModelConfig
from tfcore.io.families import llama
from tfcore.io.family import Json, altered
from tfcore.io.table import Row, Transform
from tfcore.io.windows import FULL, SLIDING, json_of_windows, windows_from
from tfcore.routing import RouterConfig


def _weave(x: Tensor, layer: Any) -> list[Tensor]:
    """Turn gates behind gated values, (2 E, d_ff, ...), into channels that take turns, (E, ..., 2 d_ff)."""
    both = x.unflatten(0, (2, -1))  # (2, E, d_ff, ...)
    return [both.movedim((0, 2), (-1, -2)).flatten(-2)]


def _unweave(parts: Any, layer: Any) -> Tensor:
    both = parts[0].unflatten(-1, (-1, 2))  # (E, ..., d_ff, 2)
    return both.movedim((-1, -2), (0, 2)).flatten(0, 1)


woven = Transform(_weave, _unweave)
each_transposed = Transform(lambda x, layer: [x.mT], lambda parts, layer: parts[0].mT)

MLP = "model.layers.{layer}.mlp"
FFN = "stack.blocks.{layer}.ffn"
ROWS = (
    *(row for row in llama.ROWS if ".ffn." not in row.ours),
    Row("stack.blocks.{layer}.attention.sinks", "model.layers.{layer}.self_attn.sinks"),
    Row(f"{FFN}.router.*", f"{MLP}.router.*"),
    Row(f"{FFN}.{{w_gate,w_up}}", f"{MLP}.experts.gate_up_proj", woven),
    Row(f"{FFN}.{{b_gate,b_up}}", f"{MLP}.experts.gate_up_proj_bias", woven),
    Row(f"{FFN}.w_down", f"{MLP}.experts.down_proj", each_transposed),
    Row(f"{FFN}.b_down", f"{MLP}.experts.down_proj_bias"),
)


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields, the windows, and the bound of the gates."""
    config = llama.config_from(altered(json, sliding_window=None))
    block = dataclasses.replace(
        config.block.with_attention(sinks=True),
        router=RouterConfig(bias=True),
        expert_limit=json["swiglu_limit"],
    )
    config = dataclasses.replace(config, block=block)
    usual = [FULL if layer % 2 else SLIDING for layer in range(config.num_layers)]
    return config.with_windows(windows_from(json, usual))


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields, the kind of each layer, and the bound of the gates."""
    return {
        **llama.json_from(config),
        **json_of_windows(config),
        "swiglu_limit": config.block.expert_limit,
    }


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="gpt_oss",
    architectures=("GptOssForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        **llama.FAMILY.defaults,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "attention_bias": True,
        "rms_norm_eps": 1e-5,
        "rope_theta": 150_000.0,
        "sliding_window": 128,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "swiglu_limit": 7.0,
        "max_position_embeddings": 131_072,
    },
    only={"mlp_bias": (False,), "hidden_act": ("silu",), "swiglu_alpha": (1.702,)},
)
