"""BLOOM: ALiBi, norms before the sublayers and after the embedding.

On disk the rows of the fused projection go head by head: query, key and value of head 0, then of head 1, ...
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json
from tfcore.io.table import Row, qkv_by_head
from tfcore.models import Decoder

ROWS = (
    Row("stack.embedding.weight", "transformer.word_embeddings.weight"),
    Row("stack.embedding_norm.*", "transformer.word_embeddings_layernorm.*"),
    Row("stack.blocks.{layer}.norm_attention.*", "transformer.h.{layer}.input_layernorm.*"),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.*",
        "transformer.h.{layer}.self_attention.query_key_value.*",
        qkv_by_head,
    ),
    Row("stack.blocks.{layer}.attention.W_o.*", "transformer.h.{layer}.self_attention.dense.*"),
    Row("stack.blocks.{layer}.norm_ffn.*", "transformer.h.{layer}.post_attention_layernorm.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", "transformer.h.{layer}.mlp.dense_h_to_4h.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", "transformer.h.{layer}.mlp.dense_4h_to_h.*"),
    Row("stack.final_norm.*", "transformer.ln_f.*"),
    Row("head.linear.weight", "lm_head.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Read width, heads and layers by either name; the inner width, four times the other, has no field."""
    d_model = json.get("n_embed") or json["hidden_size"]  # first the names that the published files use
    attention = AttentionConfig(d_model, num_heads=json.get("num_attention_heads") or json["n_head"])
    block = BlockConfig(
        attention,
        d_ff=4 * d_model,
        activation="gelu_tanh",
        norm_eps=json["layer_norm_epsilon"],
        dropout=json["hidden_dropout"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json.get("num_hidden_layers") or json["n_layer"],
        block=block,
        positions=PositionConfig("alibi", max_len=json["seq_length"]),
        embedding_norm=True,
        tied=json["tie_word_embeddings"],
    )


def json_from(config: ModelConfig) -> Json:
    """Write what differs between models; 0 for the dropout of attention's weights, which ours do not have."""
    return {
        "hidden_size": config.d_model,
        "n_head": config.block.multi_head.num_heads,
        "layer_norm_epsilon": config.block.norm_eps,
        "hidden_dropout": config.block.dropout,
        "attention_dropout": 0.0,
        "vocab_size": config.vocab_size,
        "n_layer": config.num_layers,
        "seq_length": config.positions.max_len,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="bloom",
    architectures=("BloomForCausalLM", "BloomModel"),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "layer_norm_epsilon": 1e-5,
        "hidden_dropout": 0.0,
        "seq_length": 2048,
        "tie_word_embeddings": True,
    },
    only={"apply_residual_connection_post_layernorm": (False,), "n_inner": (None,)},
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.word_embeddings.weight"},
    head="lm_head.weight",
)
