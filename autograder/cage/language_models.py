"""A language model as it is asked about: made, its parameters set, taught, and its raw numbers handed over.

This runs in the student's own process, where anything can be forged, so nothing is concluded here. What the
numbers mean is found where they arrive; see `autograder.exercises.ch10_capstone.facts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .probes import NONE

Made = Callable[..., Any]
Init = dict[str, int]


def first(made: Made, init: Init) -> dict[str, Tensor]:
    """The parameters of a new model, by their names."""
    return {name: p.detach() for name, p in _built(made, init).named_parameters()}


@torch.no_grad()
def said(
    made: Made, init: Init, parameters: dict[str, Tensor], texts: list[Tensor], in_use: bool
) -> list[Any]:
    """What a new model with these parameters says of each of the texts, tokens (B, T), one after another.

    Args:
        made: the class.
        init: its arguments.
        parameters: by name; the others keep their first values.
        texts: what the model is called with.
        in_use: whether it is asked after ``.eval()``.
    """
    model = _built(made, init, parameters)
    model.train(not in_use)
    return [_kept(model(tokens)) for tokens in texts]


def slopes(made: Made, init: Init, parameters: dict[str, Tensor], tokens: Tensor) -> dict[str, Any]:
    """The gradient of the loss at each parameter; `NONE` where none arrives."""
    model = _built(made, init, parameters)
    loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    return {name: NONE if p.grad is None else p.grad for name, p in model.named_parameters()}


def trained(made: Made, init: Init, batches: list[Tensor], lr: float, examiner: Callable[..., Any]) -> None:
    """Teaches a model to say the next token, and has it examined.

    Args:
        made: the class.
        init: its arguments.
        batches: tokens (B, T) for one step of Adam each; 0 is padding, which is not learned.
        lr: the learning rate.
        examiner: is told the logits (B, vocab_size) of the last place of the tokens that it asked about, and
            asks about others; at first it is told nothing, at the end it gives None.
    """
    model = _built(made, init)
    _teach(model, batches, lr)
    with torch.no_grad():
        asked = examiner()
        while asked is not None:
            asked = examiner(model(asked)[:, -1])


ASKED: dict[str, Callable[..., Any]] = {question.__name__: question for question in (first, said, slopes)}


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Nats per token, (B, T, vocab_size) against (B, T); padding is left out."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


def _built(made: Made, init: Init, parameters: dict[str, Tensor] | None = None) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = made(**init)
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected an nn.Module, got a {type(model).__name__}")
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in (parameters or {}).items():
            own[name].copy_(value)
    return model


def _kept(value: Any) -> Any:
    """What a model said, safe from what it does next."""
    return value.clone() if isinstance(value, Tensor) else value


def _teach(model: nn.Module, batches: list[Tensor], lr: float) -> None:
    """One step of Adam for each batch; `torch.optim` would import the compiler first, for seconds."""
    moments = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    for step, tokens in enumerate(batches, 1):
        model.zero_grad()
        loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
        with torch.no_grad():
            for p, mean, square in moments:
                if p.grad is not None:
                    mean.lerp_(p.grad, 0.1)
                    square.lerp_(p.grad**2, 0.001)
                    size = (square / (1 - 0.999**step)).sqrt() + 1e-8
                    p.sub_(lr / (1 - 0.9**step) * mean / size)
