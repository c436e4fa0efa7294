"""Mistral: Llama whose attention looks back over a window."""

from __future__ import annotations

import dataclasses

from tfcore.io.families import llama

FAMILY = dataclasses.replace(
    llama.FAMILY,
    name="mistral",
    architectures=("MistralForCausalLM",),
    defaults={
        **llama.FAMILY.defaults,
        "num_key_value_heads": 8,
        "sliding_window": 4096,
        "max_position_embeddings": 131_072,
    },
    only={
        "attention_bias": (False,),
        "mlp_bias": (False,),
        "num_local_experts": (None,),
        "layer_types": (None,),
    },
)
