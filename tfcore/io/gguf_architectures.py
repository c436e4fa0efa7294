"""What is different in GGUF files of each architecture: names of tensors, fields, layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

NAMES = {  # of a tensor in the file, without its ending: on the hub
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.*.attn_norm": "model.layers.*.input_layernorm",
    "blk.*.attn_q": "model.layers.*.self_attn.q_proj",
    "blk.*.attn_k": "model.layers.*.self_attn.k_proj",
    "blk.*.attn_v": "model.layers.*.self_attn.v_proj",
    "blk.*.attn_q_norm": "model.layers.*.self_attn.q_norm",
    "blk.*.attn_k_norm": "model.layers.*.self_attn.k_norm",
    "blk.*.attn_output": "model.layers.*.self_attn.o_proj",
    "blk.*.ffn_norm": "model.layers.*.post_attention_layernorm",
    "blk.*.ffn_gate": "model.layers.*.mlp.gate_proj",
    "blk.*.ffn_up": "model.layers.*.mlp.up_proj",
    "blk.*.ffn_down": "model.layers.*.mlp.down_proj",
}
SANDWICH = {
    **NAMES,
    "blk.*.post_attention_norm": "model.layers.*.post_attention_layernorm",
    "blk.*.ffn_norm": "model.layers.*.pre_feedforward_layernorm",
    "blk.*.post_ffw_norm": "model.layers.*.post_feedforward_layernorm",
}
FIELDS = {  # behind "llama." and the like: in config.json
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
EXPECTED: dict[str, Callable[[Json], Any]] = {  # further fields: the value that tfcore computes
    "rope.dimension_count": lambda json: json["head_dim"],
    "attention.value_length": lambda json: json["head_dim"],
    "expert_count": lambda json: 0,
    "expert_used_count": lambda json: 0,
}


@dataclass(frozen=True)
class Architecture:
    """The files of one architecture.

    Args:
        family: the class of transformers that has these weights, as config.json names it.
        names: names of tensors.
        fields: fields besides those that all have.
        more: further fields of config.json, from those that were read.
        in_pairs: whether neighbouring channels of queries and keys are rotated together, not halves.
        one_added: whether the 1 of the norms' gain is in the file already.

    >>> ARCHITECTURES["qwen2"].family
    'Qwen2ForCausalLM'
    """

    family: str
    names: Mapping[str, str] = field(default_factory=lambda: NAMES)
    fields: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[Json], Json] = lambda json: {}
    in_pairs: bool = False
    one_added: bool = False


def _scalar(layers: int) -> Callable[[Json], Json]:
    """Return Gemma's scale: by the width of a head, and in its largest model by the width for each head."""

    def more(json: Json) -> Json:
        largest = json.get("num_hidden_layers") == layers
        per_head = json["hidden_size"] // json["num_attention_heads"]
        return {"query_pre_attn_scalar": per_head if largest else json["head_dim"]}

    return more


WINDOW = {"attention.sliding_window": "sliding_window"}
CAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", in_pairs=True),
    "qwen2": Architecture("Qwen2ForCausalLM"),
    "qwen3": Architecture("Qwen3ForCausalLM"),
    "gemma": Architecture("GemmaForCausalLM", one_added=True),
    "gemma2": Architecture(
        "Gemma2ForCausalLM", SANDWICH, {**WINDOW, **CAPS}, more=_scalar(layers=46), one_added=True
    ),
    "gemma3": Architecture("Gemma3ForCausalLM", SANDWICH, WINDOW, more=_scalar(layers=62), one_added=True),
}
