"""ModernBERT: an encoder with rotations, norms before the sublayers, gates of GELU, windows in most layers.

The heads of pretraining and of later tasks are left out.
"""

from __future__ import annotations

import dataclasses

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.io.family import Family, Json, activation, activation_name, altered
from tfcore.io.rope import json_of_ropes, ropes_from
from tfcore.io.table import Row
from tfcore.io.windows import FULL, SLIDING, json_of_windows, windows_from
from tfcore.models import Encoder

LAYER = "layers.{layer}"
ROWS = (
    Row("stack.embedding.weight", "embeddings.tok_embeddings.weight"),
    Row("stack.embedding_norm.*", "embeddings.norm.*"),
    Row("stack.blocks.{layer}.norm_attention.*", f"{LAYER}.attn_norm.*"),
    Row("stack.blocks.{layer}.attention.W_qkv.*", f"{LAYER}.attn.Wqkv.*"),
    Row("stack.blocks.{layer}.attention.W_o.*", f"{LAYER}.attn.Wo.*"),
    Row("stack.blocks.{layer}.norm_ffn.*", f"{LAYER}.mlp_norm.*"),
    Row("stack.blocks.{layer}.ffn.{W_gate,W_up}.*", f"{LAYER}.mlp.Wi.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", f"{LAYER}.mlp.Wo.*"),
    Row("stack.final_norm.*", "final_norm.*"),
)


def config_from(json: Json) -> ModelConfig:
    """Read a window to both sides from its whole width; the first block leaves out the norm of its input."""
    attention = AttentionConfig(json["hidden_size"], json["num_attention_heads"], bias=json["attention_bias"])
    block = BlockConfig(
        attention,
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_activation"]),
        gated=True,
        ffn_bias=json["mlp_bias"],
        norm_eps=json["norm_eps"],
        norm_bias=json["norm_bias"],
        dropout=json["mlp_dropout"],
    )
    number = json["num_hidden_layers"]
    positions, window_positions = ropes_from(
        json, ("global_rope_theta", "local_rope_theta"), scaled=(FULL, SLIDING)
    )
    config = ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=number,
        block=block,
        blocks=(dataclasses.replace(block, norm_input=False), *(block,) * (number - 1)),
        positions=positions,
        window_positions=window_positions,
        embedding_norm=True,
    )
    every = json["global_attn_every_n_layers"]
    usual = [SLIDING if layer % every else FULL for layer in range(number)]
    one_side = json["local_attention"] // 2 + 1  # with the token itself
    return config.with_windows(windows_from(altered(json, sliding_window=one_side), usual))


def json_from(config: ModelConfig) -> Json:
    """Write one dropout, and 0 for the dropout of attention's weights, which our models do not have."""
    block, windows = config.block, json_of_windows(config)
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": block.multi_head.num_heads,
        "attention_bias": block.multi_head.bias,
        "attention_dropout": 0.0,
        "intermediate_size": block.d_ff,
        "hidden_activation": activation_name(block.activation),
        "mlp_bias": block.ffn_bias,
        "norm_eps": block.norm_eps,
        "norm_bias": block.norm_bias,
        "mlp_dropout": block.dropout,
        "embedding_dropout": block.dropout,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": config.positions.max_len,
        "layer_types": windows["layer_types"],
        "local_attention": 2 * ((windows["sliding_window"] or 1) - 1),
        "rope_parameters": json_of_ropes(config),
        "pad_token_id": None,  # the usual one is beyond a small vocabulary
    }


FAMILY = Family(
    name="modernbert",
    architectures=(
        "ModernBertModel",
        "ModernBertForMaskedLM",
        "ModernBertForSequenceClassification",
        "ModernBertForTokenClassification",
        "ModernBertForQuestionAnswering",
    ),
    model=Encoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "attention_bias": False,
        "hidden_activation": "gelu",
        "mlp_bias": False,
        "norm_eps": 1e-5,
        "norm_bias": False,
        "mlp_dropout": 0.0,
        "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0,
        "global_attn_every_n_layers": 3,
        "local_attention": 128,
        "max_position_embeddings": 8192,
    },
    prefix="model.",
    left_out=("head.*", "decoder.*", "classifier.*"),
)
