"""GPT-NeoX, and with it Pythia: both sublayers read the same input, a quarter of each head is rotated.

On disk the rows of the fused projection go head by head: query, key and value of head 0, then of head 1, ...
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.io.family import Family, Json, activation, activation_name, altered
from tfcore.io.rope import json_of_partial_rope, partial_rope_from
from tfcore.io.table import Row, qkv_by_head
from tfcore.models import Decoder

LAYER = "gpt_neox.layers.{layer}"
ROWS = (
    Row("stack.embedding.weight", "gpt_neox.embed_in.weight"),
    Row("stack.blocks.{layer}.norm_attention.*", f"{LAYER}.input_layernorm.*"),
    Row("stack.blocks.{layer}.attention.W_qkv.*", f"{LAYER}.attention.query_key_value.*", qkv_by_head),
    Row("stack.blocks.{layer}.attention.W_o.*", f"{LAYER}.attention.dense.*"),
    Row("stack.blocks.{layer}.norm_ffn.*", f"{LAYER}.post_attention_layernorm.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", f"{LAYER}.mlp.dense_h_to_4h.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", f"{LAYER}.mlp.dense_4h_to_h.*"),
    Row("stack.final_norm.*", "gpt_neox.final_layer_norm.*"),
    Row("head.linear.weight", "embed_out.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Read base and fraction of the rotation by the names of today or by the older ones."""
    attention = AttentionConfig(json["hidden_size"], json["num_attention_heads"], bias=json["attention_bias"])
    block = BlockConfig(
        attention,
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_act"]),
        norm_eps=json["layer_norm_eps"],
        parallel="two norms" if json["use_parallel_residual"] else None,
        dropout=json["hidden_dropout"],
    )
    older = {"rope_theta": json["rotary_emb_base"], "partial_rotary_factor": json["rotary_pct"]}
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["num_hidden_layers"],
        block=block,
        positions=partial_rope_from(altered(json, **older), attention),
        tied=json["tie_word_embeddings"],
    )


def json_from(config: ModelConfig) -> Json:
    """Write the rotation as transformers 5 does; 0 for the dropout of attention's weights."""
    block = config.block
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": block.multi_head.num_heads,
        "attention_bias": block.multi_head.bias,
        "attention_dropout": 0.0,
        "intermediate_size": block.d_ff,
        "hidden_act": activation_name(block.activation),
        "layer_norm_eps": block.norm_eps,
        "use_parallel_residual": block.parallel is not None,
        "hidden_dropout": block.dropout,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": config.positions.max_len,
        "rope_parameters": json_of_partial_rope(config),
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="gpt_neox",
    architectures=("GPTNeoXForCausalLM",),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "attention_bias": True,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "hidden_dropout": 0.0,
        "use_parallel_residual": True,
        "max_position_embeddings": 2048,
        "rotary_emb_base": 10_000.0,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
    },
    prefix="gpt_neox.",
    old_names={"lm_head.": "embed_out."},
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
    head="embed_out.weight",
    harmless=(
        "layers.*.attention.bias",
        "layers.*.attention.masked_bias",
        "layers.*.attention.rotary_emb.inv_freq",
    ),
)
