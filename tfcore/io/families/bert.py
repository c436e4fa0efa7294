"""BERT: an encoder with learned positions and segments, norms after the sublayers and after the embeddings.

The pooler and the heads of pretraining and of later tasks are left out.
"""

from __future__ import annotations

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.io.family import Family, Json, activation, activation_name
from tfcore.io.table import Row, separate_qkv
from tfcore.models import Encoder

ROWS = (
    Row("stack.embedding.weight", "embeddings.word_embeddings.weight"),
    Row("stack.segments.weight", "embeddings.token_type_embeddings.weight"),
    Row("stack.positions.table", "embeddings.position_embeddings.weight"),
    Row("stack.embedding_norm.*", "embeddings.LayerNorm.*"),
    Row(
        "stack.blocks.{layer}.attention.W_qkv.*",
        "encoder.layer.{layer}.attention.self.{query,key,value}.*",
        separate_qkv,
    ),
    Row("stack.blocks.{layer}.attention.W_o.*", "encoder.layer.{layer}.attention.output.dense.*"),
    Row("stack.blocks.{layer}.norm_attention.*", "encoder.layer.{layer}.attention.output.LayerNorm.*"),
    Row("stack.blocks.{layer}.ffn.W_up.*", "encoder.layer.{layer}.intermediate.dense.*"),
    Row("stack.blocks.{layer}.ffn.W_down.*", "encoder.layer.{layer}.output.dense.*"),
    Row("stack.blocks.{layer}.norm_ffn.*", "encoder.layer.{layer}.output.LayerNorm.*"),
)


def config_from(json: Json) -> ModelConfig:
    """Make ``intermediate_size`` the inner width and ``type_vocab_size`` the number of segments."""
    block = BlockConfig(
        AttentionConfig(d_model=json["hidden_size"], num_heads=json["num_attention_heads"]),
        d_ff=json["intermediate_size"],
        activation=activation(json["hidden_act"]),
        norm_eps=json["layer_norm_eps"],
        norm_place="post",
        dropout=json["hidden_dropout_prob"],
    )
    return ModelConfig(
        vocab_size=json["vocab_size"],
        num_layers=json["num_hidden_layers"],
        block=block,
        positions=PositionConfig("learned", max_len=json["max_position_embeddings"]),
        num_segments=json["type_vocab_size"],
        embedding_norm=True,
    )


def json_from(config: ModelConfig) -> Json:
    """Write one dropout, and 0 for the dropout of attention's weights, which our models do not have."""
    block = config.block
    return {
        "hidden_size": config.d_model,
        "num_attention_heads": block.multi_head.num_heads,
        "intermediate_size": block.d_ff,
        "hidden_act": activation_name(block.activation),
        "layer_norm_eps": block.norm_eps,
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": 0.0,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": config.positions.max_len,
        "type_vocab_size": config.num_segments,
    }


FAMILY = Family(
    name="bert",
    architectures=(
        "BertModel",
        "BertForMaskedLM",
        "BertForPreTraining",
        "BertForNextSentencePrediction",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
    ),
    model=Encoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "hidden_dropout_prob": 0.1,
        "type_vocab_size": 2,
    },
    only={
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
    },
    prefix="bert.",
    old_names={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    harmless=("embeddings.position_ids",),
    left_out=("pooler.*", "cls.*", "classifier.*", "qa_outputs.*"),
)
