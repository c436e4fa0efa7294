"""Qwen3-Next: three layers of gated delta rules for one of attention, which has a gate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tfcore.config import BlockConfig, DeltaNetConfig, ModelConfig, QKNorm
from tfcore.io.families import llama
from tfcore.io.family import Json, altered
from tfcore.io.rope import json_of_partial_rope, partial_rope_from
from tfcore.io.table import Row, Transform, one_each
from tfcore.io.windows import FULL
from tfcore.routing import RouterConfig

LINEAR = "linear_attention"


def _gate_beside_query(x: Tensor, layer: Any) -> list[Tensor]:
    """Put the rows of the gate of each head behind the rows of its query; keys and values come alone."""
    q, k, v, gate = x.split([layer.q_size, layer.kv_size, layer.kv_size, layer.q_size])
    heads = [part.unflatten(0, (layer.config.num_heads, -1)) for part in (q, gate)]
    return [torch.cat(heads, dim=1).flatten(0, 1), k, v]


def _gate_behind_values(parts: Sequence[Tensor], layer: Any) -> Tensor:
    both, k, v = parts
    q, gate = both.unflatten(0, (layer.config.num_heads, -1)).chunk(2, dim=1)
    return torch.cat([q.flatten(0, 1), k, v, gate.flatten(0, 1)])


def _by_key_head(x: Tensor, sizes: list[int], layer: Any) -> list[Tensor]:
    """Lay parts, one behind the other, out by key head: what belongs to head 0, then to head 1, ..."""
    heads = [part.unflatten(0, (layer.config.num_key_heads, -1)) for part in x.split(sizes)]
    return [torch.cat(heads, dim=1).flatten(0, 1)]


def _by_part(x: Tensor, sizes: list[int], layer: Any) -> Tensor:
    number = layer.config.num_key_heads
    heads = x.unflatten(0, (number, -1)).split([size // number for size in sizes], dim=1)
    return torch.cat([part.flatten(0, 1) for part in heads])


def _qkvz(layer: Any) -> list[int]:
    c = layer.config
    keys, values = c.num_key_heads * c.d_key, c.num_value_heads * c.d_value
    return [keys, keys, values, values]


def _ba(layer: Any) -> list[int]:
    return [layer.config.num_value_heads] * 2


gated_queries = Transform(_gate_beside_query, _gate_behind_values)
qkvz_by_head = Transform(
    lambda x, layer: _by_key_head(x, _qkvz(layer), layer),
    lambda parts, layer: _by_part(parts[0], _qkvz(layer), layer),
)
ba_by_head = Transform(
    lambda x, layer: _by_key_head(x, _ba(layer), layer),
    lambda parts, layer: _by_part(parts[0], _ba(layer), layer),
)

OURS = "stack.blocks.{layer}"
LAYER = "model.layers.{layer}"
MLP = {"W_gate": "gate_proj", "W_up": "up_proj", "W_down": "down_proj"}
ROWS = (
    Row(
        f"{OURS}.attention.{{W_qkv,W_gate}}.*",
        f"{LAYER}.self_attn.{{q_proj,k_proj,v_proj}}.*",
        gated_queries,
    ),
    Row(f"{OURS}.attention.W_qkvz.weight", f"{LAYER}.linear_attn.in_proj_qkvz.weight", qkvz_by_head),
    Row(f"{OURS}.attention.W_ba.weight", f"{LAYER}.linear_attn.in_proj_ba.weight", ba_by_head),
    Row(f"{OURS}.attention.conv.weight", f"{LAYER}.linear_attn.conv1d.weight"),
    Row(f"{OURS}.attention.A_log", f"{LAYER}.linear_attn.A_log"),
    Row(f"{OURS}.attention.b_alpha", f"{LAYER}.linear_attn.dt_bias"),
    Row(f"{OURS}.attention.norm.weight", f"{LAYER}.linear_attn.norm.weight"),
    Row(
        f"{OURS}.attention.W_o.weight",
        f"{LAYER}.linear_attn.out_proj.weight",
        when=lambda layer: isinstance(layer.config, DeltaNetConfig),
    ),
    *(row for row in llama.ROWS if "W_qkv" not in row.ours),
    *llama.QK_NORM_ROWS,
    Row(f"{OURS}.ffn.router.weight", f"{LAYER}.mlp.gate.weight"),
    Row(f"{OURS}.ffn.shared_gate.weight", f"{LAYER}.mlp.shared_expert_gate.weight"),
    *(
        Row(f"{OURS}.ffn.shared.{ours}.weight", f"{LAYER}.mlp.shared_expert.{theirs}.weight")
        for ours, theirs in MLP.items()
    ),
    *(
        Row(f"{OURS}.ffn.{ours.lower()}", f"{LAYER}.mlp.experts.{{expert}}.{theirs}.weight", one_each)
        for ours, theirs in MLP.items()
    ),
)


def config_from(json: Json) -> ModelConfig:
    """Read Llama's fields, the delta rules, and the experts, which some layers may leave out."""
    plain = llama.config_from(altered(json, rope_parameters=None, rope_scaling=None))
    norm = QKNorm("head", "rms_plus_one", json["rms_norm_eps"])
    dense = dataclasses.replace(plain.block.with_attention(qk_norm=norm, gated=True), norm="rms_plus_one")
    experts = dataclasses.replace(
        dense,
        d_ff=json["moe_intermediate_size"],
        num_experts=json["num_experts"],
        top_k=json["num_experts_per_tok"],
        router=RouterConfig(normalised=json["norm_topk_prob"]),
        shared_d_ff=json["shared_expert_intermediate_size"],
        shared_gate=True,
    )
    delta_net = DeltaNetConfig(
        d_model=json["hidden_size"],
        num_key_heads=json["linear_num_key_heads"],
        num_value_heads=json["linear_num_value_heads"],
        d_key=json["linear_key_head_dim"],
        d_value=json["linear_value_head_dim"],
        d_conv=json["linear_conv_kernel_dim"],
        norm_eps=json["rms_norm_eps"],
    )
    every, number = json["full_attention_interval"], plain.num_layers
    kinds = json["layer_types"] or [FULL if (i + 1) % every == 0 else LINEAR for i in range(number)]
    if len(kinds) != number or not set(kinds) <= {FULL, LINEAR}:
        raise ValueError(f"expected layer_types as {number} times {FULL} or {LINEAR}, got {kinds}")

    def block(layer: int, kind: str) -> BlockConfig:
        sparse = (layer + 1) % json["decoder_sparse_step"] == 0
        sparse = sparse and layer not in (json["mlp_only_layers"] or ())
        chosen = experts if sparse else dense
        return chosen if kind == FULL else dataclasses.replace(chosen, attention=delta_net)

    return dataclasses.replace(
        plain,
        block=dense,
        blocks=tuple(block(layer, kind) for layer, kind in enumerate(kinds)),
        positions=partial_rope_from(json, dense.multi_head),
    )


def json_from(config: ModelConfig) -> Json:
    """Write Llama's fields, one set of experts, and the kind of each layer."""
    experts = next((block for block in config.layers if block.num_experts), None)
    delta_net = next((b.attention for b in config.layers if isinstance(b.attention, DeltaNetConfig)), None)
    if experts is None or delta_net is None:
        raise ValueError("expected layers of delta rules, and experts, got a model without")
    json = llama.json_from(config)
    return {
        **{name: value for name, value in json.items() if name not in ("rope_theta", "rope_scaling")},
        "rope_parameters": json_of_partial_rope(config),
        "moe_intermediate_size": experts.d_ff,
        "num_experts": experts.num_experts,
        "num_experts_per_tok": experts.top_k,
        "norm_topk_prob": experts.router.normalised,
        "shared_expert_intermediate_size": experts.shared_d_ff,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [i for i, block in enumerate(config.layers) if not block.num_experts],
        "linear_num_key_heads": delta_net.num_key_heads,
        "linear_num_value_heads": delta_net.num_value_heads,
        "linear_key_head_dim": delta_net.d_key,
        "linear_value_head_dim": delta_net.d_value,
        "linear_conv_kernel_dim": delta_net.d_conv,
        "layer_types": [LINEAR if isinstance(b.attention, DeltaNetConfig) else FULL for b in config.layers],
    }


FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="qwen3_next",
    architectures=("Qwen3NextForCausalLM",),
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        **llama.FAMILY.defaults,
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts_per_tok": 10,
        "num_experts": 512,
        "norm_topk_prob": True,
        "mlp_only_layers": None,
        "layer_types": None,
        "full_attention_interval": 4,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 32_768,
    },
    only={"sliding_window": (None,), "mlp_bias": (False,), "hidden_act": ("silu",)},
)
