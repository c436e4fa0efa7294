"""Mixtral: Mistral whose feed-forward networks are experts; each token visits two of them."""

from __future__ import annotations

import dataclasses

from tfcore.io.families import llama, mistral
from tfcore.io.table import Row, one_each

EXPERT = "model.layers.{layer}.block_sparse_moe.experts.{expert}"
ROWS = (
    *(row for row in llama.ROWS if ".ffn." not in row.ours),
    Row("stack.blocks.{layer}.ffn.router.weight", "model.layers.{layer}.block_sparse_moe.gate.weight"),
    Row("stack.blocks.{layer}.ffn.w_gate", f"{EXPERT}.w1.weight", one_each),
    Row("stack.blocks.{layer}.ffn.w_up", f"{EXPERT}.w3.weight", one_each),
    Row("stack.blocks.{layer}.ffn.w_down", f"{EXPERT}.w2.weight", one_each),
)

FAMILY = dataclasses.replace(
    mistral.FAMILY,
    name="mixtral",
    architectures=("MixtralForCausalLM",),
    rows=ROWS,
    defaults={
        **mistral.FAMILY.defaults,
        "sliding_window": None,
        "num_local_experts": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1_000_000.0,
    },
    only={
        "hidden_act": ("silu",),
        "attention_bias": (False,),
        "mlp_bias": (False,),
        "router_jitter_noise": (0.0,),
        "layer_types": (None,),
    },
)
