"""BART: the first Transformer with learned positions, a norm after the embeddings, and GELU.

Its tables of positions begin with two rows that no token looks up.
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.table import Row, leading_axes, separate_qkv, unused_rows
from tfcore.models import EncoderDecoder

LAYER = "model.{stack}.layers.{layer}"
BLOCK_ROWS = (
    Row(
        "{stack}.blocks.{layer}.attention.W_qkv.*",
        f"{LAYER}.self_attn.{{q_proj,k_proj,v_proj}}.*",
        separate_qkv,
    ),
    Row("{stack}.blocks.{layer}.attention.W_o.*", f"{LAYER}.self_attn.out_proj.*"),
    Row("{stack}.blocks.{layer}.norm_attention.*", f"{LAYER}.self_attn_layer_norm.*"),
    Row(
        "{stack}.blocks.{layer}.cross_attention.W_qkv.*",
        f"{LAYER}.encoder_attn.{{q_proj,k_proj,v_proj}}.*",
        separate_qkv,
    ),
    Row("{stack}.blocks.{layer}.cross_attention.W_o.*", f"{LAYER}.encoder_attn.out_proj.*"),
    Row("{stack}.blocks.{layer}.norm_cross.*", f"{LAYER}.encoder_attn_layer_norm.*"),
    Row("{stack}.blocks.{layer}.ffn.W_up.*", f"{LAYER}.fc1.*"),
    Row("{stack}.blocks.{layer}.ffn.W_down.*", f"{LAYER}.fc2.*"),
    Row("{stack}.blocks.{layer}.norm_ffn.*", f"{LAYER}.final_layer_norm.*"),
)
ROWS = (
    Row("encoder.embedding.weight", "model.shared.weight"),
    Row("{stack}.positions.table", "model.{stack}.embed_positions.weight", unused_rows(2)),
    Row("{stack}.embedding_norm.*", "model.{stack}.layernorm_embedding.*"),
    *BLOCK_ROWS,
    Row("head.linear.weight", "lm_head.weight"),
    Row("head.linear.bias", "final_logits_bias", leading_axes(1)),
)


def config_from(json: Json) -> EncoderDecoderConfig:
    """Read two stacks with learned positions, norms after the sublayers and one after the embeddings."""
    positions = PositionConfig("learned", max_len=json["max_position_embeddings"])
    return stacks_from(json, positions, embedding_norm=True)


def stacks_from(json: Json, positions: PositionConfig, embedding_norm: bool) -> EncoderDecoderConfig:
    """Read the fields that BART and Marian share."""
    d_model = json["d_model"]

    def stack(side: str) -> ModelConfig:
        block = BlockConfig(
            AttentionConfig(d_model, num_heads=json[f"{side}_attention_heads"]),
            d_ff=json[f"{side}_ffn_dim"],
            activation=activation(json["activation_function"]),
            norm_place="post",
            dropout=json["dropout"],
        )
        return ModelConfig(
            json["vocab_size"],
            json[f"{side}_layers"],
            block,
            positions,
            embedding_norm=embedding_norm,
            embedding_scale=d_model**0.5 if json["scale_embedding"] else 1.0,
            tied=json["tie_word_embeddings"],
            logit_bias=True,
        )

    return EncoderDecoderConfig(stack("encoder"), stack("decoder"))


def json_from(config: EncoderDecoderConfig) -> Json:
    """Write layers, heads and inner width for each side, and all else once, as the decoder has it."""
    decoder = config.decoder
    sides = {
        f"{side}_{name}": value
        for side, stack in (("encoder", config.encoder), ("decoder", decoder))
        for name, value in {
            "layers": stack.num_layers,
            "attention_heads": stack.block.multi_head.num_heads,
            "ffn_dim": stack.block.d_ff,
        }.items()
    }
    return {
        "d_model": decoder.d_model,
        **sides,
        "activation_function": activation_name(decoder.block.activation),
        "dropout": decoder.block.dropout,
        "vocab_size": decoder.vocab_size,
        "max_position_embeddings": decoder.positions.max_len,
        "scale_embedding": decoder.embedding_scale != 1,
        "tie_word_embeddings": decoder.tied,
    }


FAMILY = Family(
    name="bart",
    architectures=("BartForConditionalGeneration", "BartModel"),
    model=EncoderDecoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "max_position_embeddings": 1024,
        "activation_function": "gelu",
        "dropout": 0.1,
        "scale_embedding": False,
        "tie_word_embeddings": True,
    },
    only={
        "is_encoder_decoder": (True,),
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "extra_pos_embeddings": (2,),
    },
    prefix="model.",
    copies={
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    },
    head="lm_head.weight",
    zero_if_missing=("final_logits_bias",),
)
