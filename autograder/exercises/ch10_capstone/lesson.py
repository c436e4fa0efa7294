"""What a model is taught when it is graded: sentences of the coreference grammar, and what they look like."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import torch
from torch import Tensor

from tfcore.data import BOS, EOS, VOCABULARY, language_modeling_batch, sentences
from tfcore.data.coreference import ANIMALS, AUXILIARIES, CONNECTIVES, KINDS, MODIFIERS, PLACES

STEPS, BATCH, HELD_OUT = 70, 32, 128
SETTINGS = {"lr": 0.01, "new_tokens": 18}
SIZES = {"vocab_size": len(VOCABULARY), "d_model": 32, "num_heads": 2, "num_layers": 2, "max_len": 24}


@cache
def texts() -> Tensor:
    """All sentences of one length, each with its question, as tokens (N, T)."""
    return language_modeling_batch([s for s in sentences() if s.modifier]).tokens


def lesson(rng: np.random.Generator) -> tuple[list[Tensor], Tensor, Tensor]:
    """Batches to learn from, held-out texts, and beginnings to continue."""
    chosen = torch.from_numpy(rng.permutation(len(texts()))[: STEPS * BATCH + HELD_OUT])
    batches = texts()[chosen[HELD_OUT:]].reshape(STEPS, BATCH, -1)
    beginnings = [[BOS, *VOCABULARY.encode(f"the old {animal}")] for animal in ANIMALS]
    return list(batches), texts()[chosen[:HELD_OUT]], torch.tensor(beginnings)


def _one_of(words: object) -> str:
    return f"({'|'.join(sorted(map(str, words)))})"  # type: ignore[call-overload]


ADJECTIVE = r"\w+"
NOUN = _one_of({*ANIMALS, *PLACES})
FORM = re.compile(
    rf"the {_one_of(filter(None, MODIFIERS))} {_one_of(ANIMALS)} {_one_of(AUXILIARIES)} "
    rf"{_one_of({verb for kind in KINDS for verb in kind.verbs})} the {_one_of(PLACES)} "
    rf"{_one_of(CONNECTIVES)} it was too {ADJECTIVE} \. what was {ADJECTIVE} \? the {NOUN}"
)


def sentence(tokens: list[int]) -> str:
    """Tokens as a text, as far as its end; what is no word is left out."""
    end = tokens.index(EOS) if EOS in tokens else len(tokens)
    return VOCABULARY.decode(t for t in tokens[:end] if 0 <= t < len(VOCABULARY))
