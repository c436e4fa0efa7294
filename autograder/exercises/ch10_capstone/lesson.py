"""What a model is taught when it is graded, sentences of the coreference grammar, and how it is examined.

The words are numbered anew for each lesson, so that only who has learned from it knows what they are.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.exercise import Lent
from tfcore.data import BOS, EOS, VOCABULARY, language_modeling_batch, sentences
from tfcore.data.coreference import ANIMALS, AUXILIARIES, CONNECTIVES, KINDS, MODIFIERS, PLACES

STEPS, BATCH, HELD_OUT = 70, 32, 64
LEARNING_RATE = 0.01
NEW_TOKENS = 18
SIZES = {"vocab_size": len(VOCABULARY), "d_model": 32, "num_heads": 2, "num_layers": 2, "max_len": 24}


@cache
def texts() -> Tensor:
    """All sentences of one length, each with its question, as tokens (N, T)."""
    return language_modeling_batch([s for s in sentences() if s.modifier]).tokens


def lesson(rng: np.random.Generator) -> tuple[list[Tensor], float, Lent]:
    """Batches to learn from, the learning rate, and an examiner with texts that are not among them."""
    chosen = texts()[torch.from_numpy(rng.permutation(len(texts()))[: STEPS * BATCH + HELD_OUT])]
    numbers = torch.from_numpy(np.append(0, 1 + rng.permutation(len(VOCABULARY) - 1)))  # 0 is padding
    batches = numbers[chosen[HELD_OUT:]].reshape(STEPS, BATCH, -1)
    return list(batches), LEARNING_RATE, Lent("an examiner", lambda: Examiner(chosen[:HELD_OUT], numbers))


class Examiner:
    """Asks a model for the next token, place by place: what comes is never told before it is guessed.

    The first of its texts are held out, the others begin as sentences do and go on as the model says.

    Args:
        held_out: texts as tokens (N, T).
        numbers: for each token the number that it has in this lesson.

    Attributes:
        texts: all texts as far as they have come, in the numbers of the lesson.
    """

    serves = ("__call__",)

    def __init__(self, held_out: Tensor, numbers: Tensor) -> None:
        self._held_out, self._numbers = numbers[held_out], numbers
        self._beginnings = numbers[
            torch.tensor([[BOS, *VOCABULARY.encode(f"the old {animal}")] for animal in ANIMALS])
        ]
        self.texts = torch.cat([self._held_out[:, :1], self._beginnings[:, :1]])
        self._losses: list[float] = []

    def __call__(self, logits: Tensor | None = None) -> Tensor | None:
        """The tokens (B, t) to be asked about next, None at the end; `logits` (B, V) are for those before."""
        if logits is not None and self._place <= self._length:
            wanted = (len(self.texts), len(self._numbers))
            if tuple(logits.shape) != wanted:
                raise ValueError(f"the logits of the last places should be of shape {wanted}")
            self._hear(logits.double())
        return self.texts if self._place <= self._length else None

    @property
    def _place(self) -> int:
        """How many tokens the texts have, and so which is guessed next."""
        return self.texts.shape[1]

    @property
    def _length(self) -> int:
        """How many of them the model is called with at most."""
        return self._beginnings.shape[1] + NEW_TOKENS - 1

    def _hear(self, logits: Tensor) -> None:
        known, place = len(self._held_out), self._place
        follow = torch.zeros(known, dtype=torch.long)  # padding, after the end
        if place < self._held_out.shape[1]:
            follow = self._held_out[:, place]
            self._losses.append(float(F.cross_entropy(logits[:known], follow)))
        begun = place < self._beginnings.shape[1]
        said = self._beginnings[:, place] if begun else logits[known:].argmax(dim=-1)
        self.texts = torch.cat([self.texts, torch.cat([follow, said])[:, None]], dim=1)

    def result(self) -> dict[str, Any]:
        """The held-out "loss" per token in nats, and the "texts" that the model wrote.

        Raises:
            ValueError: the examination was broken off.
        """
        if self._place <= self._length:
            raise ValueError("the examination was broken off")
        names = torch.argsort(self._numbers)
        return {"loss": float(np.mean(self._losses)), "texts": names[self.texts[len(self._held_out) :]]}


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
