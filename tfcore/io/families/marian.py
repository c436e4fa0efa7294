"""Marian: the first Transformer, with a bias on the logits; sinusoids have all sines before the cosines."""

from __future__ import annotations

import dataclasses

from tfcore.config import EncoderDecoderConfig, PositionConfig
from tfcore.io.families import bart
from tfcore.io.family import Family, Json


def config_from(json: Json) -> EncoderDecoderConfig:
    """Read the fields of BART; positions are sinusoids, and no norm follows the embeddings.

    Raises:
        ValueError: another vocabulary for the target than for the source.
    """
    if json.get("decoder_vocab_size") not in (None, json["vocab_size"]):
        raise ValueError(
            f"expected one vocabulary for source and target, got {json['vocab_size']} and "
            f"{json['decoder_vocab_size']} tokens; use transformers for two"
        )
    positions = PositionConfig("sinusoidal", max_len=json["max_position_embeddings"], layout="half")
    return bart.stacks_from(json, positions, embedding_norm=False)


def json_from(config: EncoderDecoderConfig) -> Json:
    """Write the fields of BART, and the last token as the one that pads and that starts a translation."""
    last = config.decoder.vocab_size - 1  # the token that pads and that starts a translation
    return {**bart.json_from(config), "pad_token_id": last, "decoder_start_token_id": last}


FAMILY: Family = dataclasses.replace(
    bart.FAMILY,
    name="marian",
    architectures=("MarianMTModel",),
    config_from=config_from,
    json_from=json_from,
    rows=tuple(row for row in bart.ROWS if "embedding_norm" not in row.ours and "positions" not in row.ours),
    only={
        "is_encoder_decoder": (True,),
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "share_encoder_decoder_embeddings": (True,),
    },
    harmless=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),  # the sinusoids
)
