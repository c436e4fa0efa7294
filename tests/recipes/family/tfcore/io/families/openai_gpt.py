"""The first GPT: GPT-2's matrices, with the norms after the sublayers and none at the end."""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json
from tfcore.io.table import Row, transposed
from tfcore.models import Decoder

ROWS = (
    Row("stack.embedding.weight", "transformer.tokens_embed.weight"),
    Row("stack.positions.table", "transformer.positions_embed.weight"),
    Row("stack.blocks.{layer}.attention.W_qkv.*", "transformer.h.{layer}.attn.c_attn.*", transposed),
    Row("stack.blocks.{layer}.attention.W_o.*", "transformer.h.{layer}.attn.c_proj.*", transposed),
    Row("stack.blocks.{layer}.norm_attention.*", "transformer.h.{layer}.ln_1.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", "transformer.h.{layer}.mlp.c_fc.*", transposed),
    Row("stack.blocks.{layer}.ffn.W_down.*", "transformer.h.{layer}.mlp.c_proj.*", transposed),
    Row("stack.blocks.{layer}.norm_ffn.*", "transformer.h.{layer}.ln_2.*"),
    Row("head.linear.weight", "lm_head.weight"),
)


def config_from(json: Json) -> ModelConfig:
    block = BlockConfig(
        AttentionConfig(d_model=json["n_embd"], num_heads=json["n_head"]),
        d_ff=4 * json["n_embd"],
        activation="gelu_tanh",
        norm_eps=json["layer_norm_epsilon"],
        norm_place="post",
        dropout=json["resid_pdrop"],
    )
    positions = PositionConfig("learned", max_len=json["n_positions"])
    return ModelConfig(
        json["vocab_size"], json["n_layer"], block, positions, tied=json["tie_word_embeddings"]
    )


def json_from(config: ModelConfig) -> Json:
    return {
        "n_embd": config.d_model,
        "n_head": config.block.attention.num_heads,
        "afn": "gelu",
        "layer_norm_epsilon": config.block.norm_eps,
        "resid_pdrop": config.block.dropout,
        "embd_pdrop": config.block.dropout,
        "attn_pdrop": 0.0,
        "vocab_size": config.vocab_size,
        "n_layer": config.num_layers,
        "n_positions": config.positions.max_len,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="openai-gpt",
    architectures=("OpenAIGPTLMHeadModel",),
    model=Decoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={"layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "tie_word_embeddings": True},
    only={"afn": ("gelu",)},  # by which transformers means the approximation by tanh
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.tokens_embed.weight"},
    head="lm_head.weight",
    harmless=("h.*.attn.bias",),  # the causal mask
)
