"""Llama: rotary positions, RMSNorm before the sublayers, SwiGLU, no biases, keys shared by groups of queries.

Mistral adds a window to it and Mixtral experts, so that the fields of the three are read together.
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.rope import rope_from, scaling_json
from tfcore.io.table import Row, separate_qkv
from tfcore.models import Decoder

ROWS = (
    Row("stack.embedding.weight", "model.embed_tokens.weight"),
    Row("stack.blocks.{layer}.norm_attention.weight", "model.layers.{layer}.input_layernorm.weight"),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.*",
        "model.layers.{layer}.self_attn.{q_proj,k_proj,v_proj}.*",
        separate_qkv,
    ),
    Row("stack.blocks.{layer}.attention.W_o.*", "model.layers.{layer}.self_attn.o_proj.*"),
    Row("stack.blocks.{layer}.norm_ffn.weight", "model.layers.{layer}.post_attention_layernorm.weight"),
    Row("stack.blocks.{layer}.ffn.W_gate.*", "model.layers.{layer}.mlp.gate_proj.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", "model.layers.{layer}.mlp.up_proj.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", "model.layers.{layer}.mlp.down_proj.*"),
    Row("stack.final_norm.weight", "model.norm.weight"),
    Row("head.linear.weight", "lm_head.weight"),
)
QK_NORM_ROWS = (
    Row("stack.blocks.{layer}.attention.norm_q.weight", "model.layers.{layer}.self_attn.q_norm.weight"),
    Row("stack.blocks.{layer}.attention.norm_k.weight", "model.layers.{layer}.self_attn.k_norm.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Read the fields that Llama, Mistral and Mixtral share: ``sliding_window`` and experts may be null."""
    attention = AttentionConfig(
        d_model=json["hidden_size"],
        num_heads=json["num_attention_heads"],
        num_kv_heads=json["num_key_value_heads"],
        d_head=json["head_dim"],
        bias=json["attention_bias"],
        window=json["sliding_window"],
    )
    block = BlockConfig(
        attention,
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_act"]),
        gated=True,
        ffn_bias=json["mlp_bias"],
        norm="rms",
        norm_eps=json["rms_norm_eps"],
        num_experts=json["num_local_experts"],
        top_k=json["num_experts_per_tok"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["num_hidden_layers"],
        block=block,
        positions=rope_from(json),
        tied=json["tie_word_embeddings"],
    )


def json_from(config: ModelConfig) -> Json:
    """Write one set of fields for the three families, key heads and ``head_dim`` always as numbers."""
    block, attention, positions = config.block, config.block.multi_head, config.positions
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.width,
        "attention_bias": attention.bias,
        "sliding_window": attention.window,
        "intermediate_size": block.d_ff,
        "hidden_act": activation_name(block.activation),
        "mlp_bias": block.ffn_bias,
        "rms_norm_eps": block.norm_eps,
        "num_local_experts": block.num_experts,
        "num_experts_per_tok": block.top_k,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": positions.max_len,
        "rope_theta": positions.base,
        "rope_scaling": scaling_json(positions),
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="llama",
    architectures=("LlamaForCausalLM",),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "num_key_value_heads": None,
        "head_dim": None,
        "attention_bias": False,
        "sliding_window": None,
        "hidden_act": "silu",
        "mlp_bias": False,
        "rms_norm_eps": 1e-6,
        "num_local_experts": None,
        "num_experts_per_tok": 2,
        "rope_theta": 10_000.0,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
    only={"sliding_window": (None,), "num_local_experts": (None,), "layer_types": (None,)},
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    head="lm_head.weight",
    harmless=("layers.*.self_attn.rotary_emb.inv_freq",),
)
