"""RoBERTa: BERT trained longer; one kind of segment, and two unused rows before the positions.

In its mathematics it is a BERT, so a model that was read here is written as one.
"""

from __future__ import annotations

import dataclasses

from tfcore.config import ModelConfig
from tfcore.io.families import bert
from tfcore.io.family import Json, altered
from tfcore.io.table import Row, unused_rows

UNUSED = 2  # positions are counted from the padding token's id, 1


def config_from(json: Json) -> ModelConfig:
    """Read BERT's fields; two of the positions are never looked up."""
    return bert.config_from(altered(json, max_position_embeddings=json["max_position_embeddings"] - UNUSED))


def json_from(config: ModelConfig) -> Json:
    """Write BERT's fields, with the two further positions."""
    json = bert.json_from(config)
    return altered(json, max_position_embeddings=json["max_position_embeddings"] + UNUSED, pad_token_id=1)


FAMILY = dataclasses.replace(
    bert.FAMILY,
    name="roberta",
    architectures=(
        "RobertaModel",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "RobertaForTokenClassification",
        "RobertaForQuestionAnswering",
    ),
    config_from=config_from,
    json_from=json_from,
    rows=(
        Row("stack.positions.table", "embeddings.position_embeddings.weight", unused_rows(UNUSED)),
        *(row for row in bert.ROWS if row.ours != "stack.positions.table"),
    ),
    only={**bert.FAMILY.only, "pad_token_id": (1,)},
    prefix="roberta.",
    left_out=("pooler.*", "lm_head.*", "classifier.*", "qa_outputs.*"),
)
