"""Phi 1, 1.5 and 2: both sublayers read the input after one norm, half of each head is rotated."""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.rope import json_of_partial_rope, partial_rope_from
from tfcore.io.table import Row, separate_qkv
from tfcore.models import Decoder

LAYER = "model.layers.{layer}"
ROWS = (
    Row("stack.embedding.weight", "model.embed_tokens.weight"),
    Row("stack.blocks.{layer}.norm_attention.*", f"{LAYER}.input_layernorm.*"),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.*",
        f"{LAYER}.self_attn.{{q_proj,k_proj,v_proj}}.*",
        separate_qkv,
    ),
    Row("stack.blocks.{layer}.attention.W_o.*", f"{LAYER}.self_attn.dense.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", f"{LAYER}.mlp.fc1.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", f"{LAYER}.mlp.fc2.*"),
    Row("stack.final_norm.*", "model.final_layernorm.*"),
    Row("head.linear.*", "lm_head.*"),
)


def config_from(json: Json) -> ModelConfig:
    """Read a parallel block with one norm; the head has a bias."""
    attention = AttentionConfig(
        json["hidden_size"], json["num_attention_heads"], num_kv_heads=json["num_key_value_heads"]
    )
    block = BlockConfig(
        attention,
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_act"]),
        norm_eps=json["layer_norm_eps"],
        parallel="one norm",
        dropout=json["resid_pdrop"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["num_hidden_layers"],
        block=block,
        positions=partial_rope_from(json, attention),
        tied=json["tie_word_embeddings"],
        logit_bias=True,
    )


def json_from(config: ModelConfig) -> Json:
    """Write the rotation as transformers 5 does, and one dropout."""
    block = config.block
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": block.multi_head.num_heads,
        "num_key_value_heads": block.multi_head.kv_heads,
        "intermediate_size": block.d_ff,
        "hidden_act": activation_name(block.activation),
        "layer_norm_eps": block.norm_eps,
        "resid_pdrop": block.dropout,
        "embd_pdrop": block.dropout,
        "attention_dropout": 0.0,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": config.positions.max_len,
        "rope_parameters": json_of_partial_rope(config),
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="phi",
    architectures=("PhiForCausalLM",),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "num_key_value_heads": None,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "resid_pdrop": 0.0,
        "max_position_embeddings": 2048,
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "tie_word_embeddings": False,
    },
    only={"qk_layernorm": (False,)},
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    head="lm_head.weight",
)
