"""Whisper's decoder: GPT-2's arrangement, and cross-attention to the states of the encoder.

The encoder, which reads spectrograms, is left out. Keys have no bias on disk.
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.table import Row, no_key_bias, separate_qkv
from tfcore.models import MemoryDecoder

LAYER = "model.decoder.layers.{layer}"
ROWS = (
    Row("stack.embedding.weight", "model.decoder.embed_tokens.weight"),
    Row("stack.positions.table", "model.decoder.embed_positions.weight"),
    Row("stack.blocks.{layer}.norm_attention.*", f"{LAYER}.self_attn_layer_norm.*"),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.weight",
        f"{LAYER}.self_attn.{{q_proj,k_proj,v_proj}}.weight",
        separate_qkv,
    ),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.bias", f"{LAYER}.self_attn.{{q_proj,v_proj}}.bias", no_key_bias
    ),
    Row("stack.blocks.{layer}.attention.W_o.*", f"{LAYER}.self_attn.out_proj.*"),
    Row("stack.blocks.{layer}.norm_cross.*", f"{LAYER}.encoder_attn_layer_norm.*"),
    Row(
        "stack.blocks.{layer}.cross_attention.W_qkv.weight",
        f"{LAYER}.encoder_attn.{{q_proj,k_proj,v_proj}}.weight",
        separate_qkv,
    ),
    Row(
        "stack.blocks.{layer}.cross_attention.W_qkv.bias",
        f"{LAYER}.encoder_attn.{{q_proj,v_proj}}.bias",
        no_key_bias,
    ),
    Row("stack.blocks.{layer}.cross_attention.W_o.*", f"{LAYER}.encoder_attn.out_proj.*"),
    Row("stack.blocks.{layer}.norm_ffn.*", f"{LAYER}.final_layer_norm.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", f"{LAYER}.fc1.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", f"{LAYER}.fc2.*"),
    Row("stack.final_norm.*", "model.decoder.layer_norm.*"),
    Row("head.linear.weight", "proj_out.weight"),
)


def config_from(json: Json) -> ModelConfig:
    """Read the decoder's fields alone; the table of positions has ``max_target_positions`` rows."""
    block = BlockConfig(
        AttentionConfig(json["d_model"], num_heads=json["decoder_attention_heads"]),
        d_ff=json["decoder_ffn_dim"],
        activation=activation(json["activation_function"]),
        dropout=json["dropout"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["decoder_layers"],
        block=block,
        positions=PositionConfig("learned", max_len=json["max_target_positions"]),
        tied=json["tie_word_embeddings"],
    )


def json_from(config: ModelConfig) -> Json:
    """Write the decoder's fields, and a ``pad_token_id`` within the vocabulary, however small that is."""
    return {
        "d_model": config.d_model,
        "decoder_attention_heads": config.block.multi_head.num_heads,
        "decoder_ffn_dim": config.block.d_ff,
        "activation_function": activation_name(config.block.activation),
        "dropout": config.block.dropout,
        "vocab_size": config.vocab_size,
        "decoder_layers": config.num_layers,
        "max_target_positions": config.positions.max_len,
        "tie_word_embeddings": config.tied,
        "pad_token_id": min(50_256, config.vocab_size - 1),
    }


FAMILY = Family(
    name="whisper",
    architectures=("WhisperForCausalLM", "WhisperForConditionalGeneration"),
    model=MemoryDecoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "activation_function": "gelu",
        "dropout": 0.0,
        "max_target_positions": 448,
        "tie_word_embeddings": True,
    },
    only={"scale_embedding": (False,)},  # which transformers ignores here
    prefix="model.",
    copies={"proj_out.weight": "model.decoder.embed_tokens.weight"},
    head="proj_out.weight",
    left_out=("encoder.*",),
)
