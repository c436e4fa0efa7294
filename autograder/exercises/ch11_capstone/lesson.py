"""The lesson and the examination of a graded model: sentences of the coreference grammar.

Each lesson numbers the words in another order, so that only a model that has learned from it knows them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checking.declaration import Lent
from tfcore.data import VOCABULARY, language_modeling_batch, sentences

STEPS, BATCH, HELD_OUT = 70, 32, 64
LEARNING_RATE = 0.01
SIZES = {"vocab_size": len(VOCABULARY), "d_model": 32, "num_heads": 2, "num_layers": 2, "max_len": 24}


@cache
def texts() -> Tensor:
    """Return all sentences of one length, each with its question, as tokens (N, T)."""
    return language_modeling_batch([s for s in sentences() if s.modifier]).tokens


def lesson(rng: np.random.Generator) -> tuple[list[Tensor], float, Lent]:
    """Return batches to learn from, the learning rate, and an examiner with other texts."""
    chosen = texts()[torch.from_numpy(rng.permutation(len(texts()))[: STEPS * BATCH + HELD_OUT])]
    numbers = torch.from_numpy(np.append(0, 1 + rng.permutation(len(VOCABULARY) - 1)))  # 0 is padding
    batches = numbers[chosen[HELD_OUT:]].reshape(STEPS, BATCH, -1)
    return list(batches), LEARNING_RATE, Lent("an examiner", lambda: Examiner(chosen[:HELD_OUT], numbers))


class Examiner:
    """Ask a model for the next token, place by place; a token is given only after its prediction.

    Args:
        held_out: texts as tokens (N, T).
        numbers: for each token the number that it has in this lesson.
    """

    serves = ("__call__",)

    def __init__(self, held_out: Tensor, numbers: Tensor) -> None:
        self._texts, self._words = numbers[held_out], len(numbers)
        self._losses: list[float] = []

    def __call__(self, logits: Tensor | None = None) -> Tensor | None:
        """Take `logits` (N, V) of the last tokens; return tokens (N, t) to predict from, None at the end."""
        if logits is not None and not self._is_over:
            if tuple(logits.shape) != (wanted := (len(self._texts), self._words)):
                raise ValueError(f"the logits of the last places should be of shape {wanted}")
            self._losses.append(
                float(F.cross_entropy(logits.double(), self._texts[:, len(self._losses) + 1]))
            )
        return None if self._is_over else self._texts[:, : len(self._losses) + 1]

    @property
    def _is_over(self) -> bool:
        return len(self._losses) == self._texts.shape[1] - 1

    def result(self) -> dict[str, float]:
        """Return the "loss" per token in nats.

        Raises:
            ValueError: the examination was broken off.
        """
        if not self._is_over:
            raise ValueError("the examination was broken off")
        return {"loss": float(np.mean(self._losses))}
