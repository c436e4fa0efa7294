"""T5: an encoder and a decoder with learned biases for distances, RMSNorm, and scores that are not scaled.

The first blocks hold the biases for all. Version 1.0 has ReLU and a scaled, tied head; version 1.1 a gated
GELU and a head of its own, not scaled.
"""

from __future__ import annotations

from tfcore.config import (
    Activation,
    AttentionConfig,
    BlockConfig,
    EncoderDecoderConfig,
    ModelConfig,
    PositionConfig,
)
from tfcore.io.family import Family, Json, activation
from tfcore.io.table import Row, separate_qkv
from tfcore.layers import FeedForward
from tfcore.models import EncoderDecoder


def is_gated(ffn: FeedForward) -> bool:
    """Return whether a network has a gate, as in version 1.1; its matrix up is ``wi_1`` then."""
    return ffn.W_gate is not None


def is_plain(ffn: FeedForward) -> bool:
    """Return whether a network has no gate, as in version 1.0; its matrix up is ``wi`` then."""
    return ffn.W_gate is None


def feed_forward(stack: str, place: int) -> tuple[Row, ...]:
    """Number the feed-forward network: the second sublayer of the encoder, the third of the decoder."""
    ours, theirs = f"{stack}.blocks.{{layer}}", f"{stack}.block.{{layer}}.layer.{place}"
    return (
        Row(f"{ours}.norm_ffn.weight", f"{theirs}.layer_norm.weight"),
        Row(f"{ours}.ffn.W_up.weight", f"{theirs}.DenseReluDense.wi.weight", when=is_plain),
        Row(f"{ours}.ffn.W_gate.weight", f"{theirs}.DenseReluDense.wi_0.weight"),
        Row(f"{ours}.ffn.W_up.weight", f"{theirs}.DenseReluDense.wi_1.weight", when=is_gated),
        Row(f"{ours}.ffn.W_down.weight", f"{theirs}.DenseReluDense.wo.weight"),
    )


SELF = "{stack}.block.{layer}.layer.0"
CROSS = "decoder.block.{layer}.layer.1"
ROWS = (
    Row("encoder.embedding.weight", "shared.weight"),
    Row("{stack}.positions.table", "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    Row("{stack}.blocks.{layer}.norm_attention.weight", f"{SELF}.layer_norm.weight"),
    Row(
        "{stack}.blocks.{layer}.attention.W_qkv.weight",
        f"{SELF}.SelfAttention.{{q,k,v}}.weight",
        separate_qkv,
    ),
    Row("{stack}.blocks.{layer}.attention.W_o.weight", f"{SELF}.SelfAttention.o.weight"),
    Row("decoder.blocks.{layer}.norm_cross.weight", f"{CROSS}.layer_norm.weight"),
    Row(
        "decoder.blocks.{layer}.cross_attention.W_qkv.weight",
        f"{CROSS}.EncDecAttention.{{q,k,v}}.weight",
        separate_qkv,
    ),
    Row("decoder.blocks.{layer}.cross_attention.W_o.weight", f"{CROSS}.EncDecAttention.o.weight"),
    *feed_forward("encoder", place=1),
    *feed_forward("decoder", place=2),
    Row("{stack}.final_norm.weight", "{stack}.final_layer_norm.weight"),
    Row("head.linear.weight", "lm_head.weight"),
)
ACTIVATIONS: dict[str, tuple[Activation, bool]] = {  # feed_forward_proj: activation, gated
    "relu": ("relu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
}


def config_from(json: Json) -> EncoderDecoderConfig:
    """Make ``feed_forward_proj`` activation and gate; logits are scaled where the head is tied, unless said.

    Raises:
        ValueError: a ``feed_forward_proj`` that is not known, or fields that say otherwise beside it.
    """
    if json["feed_forward_proj"] not in ACTIVATIONS:
        raise ValueError(
            f"expected a feed_forward_proj out of {', '.join(ACTIVATIONS)}, got {json['feed_forward_proj']!r}"
        )
    nonlinearity, gated = ACTIVATIONS[json["feed_forward_proj"]]
    said = activation(json["dense_act_fn"]) if "dense_act_fn" in json else nonlinearity
    if said != nonlinearity or bool(json.get("is_gated_act", gated)) != gated:
        raise ValueError(
            f"expected dense_act_fn and is_gated_act as feed_forward_proj {json['feed_forward_proj']!r} has "
            f"them, got {json.get('dense_act_fn')!r} and {json.get('is_gated_act')!r}; "
            "use transformers for it"
        )
    tied = json["tie_word_embeddings"]
    attention = AttentionConfig(
        json["d_model"], num_heads=json["num_heads"], d_head=json["d_kv"], bias=False, scale=1.0
    )
    block = BlockConfig(
        attention,
        d_ff=json["d_ff"],
        activation=nonlinearity,
        gated=gated,
        ffn_bias=False,
        norm="rms",
        norm_eps=json["layer_norm_epsilon"],
        dropout=json["dropout_rate"],
    )
    positions = PositionConfig(
        "t5",
        max_len=json["n_positions"],
        num_buckets=json["relative_attention_num_buckets"],
        max_distance=json["relative_attention_max_distance"],
    )

    def stack(num_layers: int) -> ModelConfig:
        return ModelConfig(
            json["vocab_size"],
            num_layers,
            block,
            positions,
            tied=tied,
            logit_scale=json["d_model"] ** -0.5 if json.get("scale_decoder_outputs", tied) else 1.0,
        )

    return EncoderDecoderConfig(
        stack(json["num_layers"]), stack(json["num_decoder_layers"] or json["num_layers"])
    )


def json_from(config: EncoderDecoderConfig) -> Json:
    """Write activation and gate as one ``feed_forward_proj``, null where T5 has no name for the two."""
    decoder, block = config.decoder, config.decoder.block
    feed_forwards = {value: name for name, value in ACTIVATIONS.items()}
    return {
        "d_model": decoder.d_model,
        "num_heads": block.multi_head.num_heads,
        "d_kv": block.multi_head.width,
        "d_ff": block.d_ff,
        "feed_forward_proj": feed_forwards.get((block.activation, block.gated)),
        "layer_norm_epsilon": block.norm_eps,
        "dropout_rate": block.dropout,
        "n_positions": decoder.positions.max_len,
        "relative_attention_num_buckets": decoder.positions.num_buckets,
        "relative_attention_max_distance": decoder.positions.max_distance,
        "vocab_size": decoder.vocab_size,
        "num_layers": config.encoder.num_layers,
        "num_decoder_layers": decoder.num_layers,
        "tie_word_embeddings": decoder.tied,
        "scale_decoder_outputs": decoder.logit_scale != 1,
        "decoder_start_token_id": 0,
    }


FAMILY = Family(
    name="t5",
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    model=EncoderDecoder,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "feed_forward_proj": "relu",
        "layer_norm_epsilon": 1e-6,
        "dropout_rate": 0.1,
        "n_positions": 512,
        "num_decoder_layers": None,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "tie_word_embeddings": True,
    },
    only={"is_encoder_decoder": (True,)},
    copies={
        "lm_head.weight": "shared.weight",
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
    head="lm_head.weight",
    # left over in the first published files, which never used it
    harmless=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
)
