"""Make a student's language model, set its parameters, train it, and return its raw numbers.

This code runs in the student's process, where any result can be forged, so it judges nothing. The grader
interprets the numbers; see `autograder.exercises.ch11_capstone.facts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .probes import NONE

ModelClass = Callable[..., Any]
Init = dict[str, int]


def first_parameters(model_class: ModelClass, init: Init) -> dict[str, Tensor]:
    """Return the parameters of a new model, by their names."""
    return {name: p.detach() for name, p in _build(model_class, init).named_parameters()}


@torch.no_grad()
def outputs(
    model_class: ModelClass, init: Init, parameters: dict[str, Tensor], texts: list[Tensor], in_use: bool
) -> list[Any]:
    """Return the outputs of a new model for each of the texts, called one after another.

    Args:
        model_class: the class of the model.
        init: the arguments of the class.
        parameters: the parameters to set, by name; all others keep their first values.
        texts: the inputs of the model, tokens (B, T).
        in_use: whether the model is called after ``.eval()``.
    """
    model = _build(model_class, init, parameters)
    model.train(not in_use)
    return [_copy(model(tokens)) for tokens in texts]


def gradients(
    model_class: ModelClass, init: Init, parameters: dict[str, Tensor], tokens: Tensor
) -> dict[str, Any]:
    """Return the gradient of the loss at each parameter, or `NONE` for a parameter without a gradient."""
    model = _build(model_class, init, parameters)
    loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    return {name: NONE if p.grad is None else p.grad for name, p in model.named_parameters()}


def trained(
    model_class: ModelClass, init: Init, batches: list[Tensor], lr: float, examiner: Callable[..., Any]
) -> None:
    """Train a model to predict the next token, and let the examiner test it.

    Args:
        model_class: the class of the model.
        init: the arguments of the class.
        batches: tokens (B, T) for one step of Adam each; 0 is padding, which is not learned.
        lr: the learning rate.
        examiner: a function that first returns tokens (B, T). It is then called with the logits
            (B, vocab_size) at their last place, and returns further tokens, or None at the end.
    """
    model = _build(model_class, init)
    _train(model, batches, lr)
    with torch.no_grad():
        tokens = examiner()
        while tokens is not None:
            tokens = examiner(model(tokens)[:, -1])


ASKED: dict[str, Callable[..., Any]] = {
    question.__name__: question for question in (first_parameters, outputs, gradients)
}


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss in nats per token, without padding, of logits (B, T, vocab_size) and targets (B, T)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


def _build(model_class: ModelClass, init: Init, parameters: dict[str, Tensor] | None = None) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = model_class(**init)
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected an nn.Module, got a {type(model).__name__}")
    model_parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in (parameters or {}).items():
            model_parameters[name].copy_(value)
    return model


def _copy(value: Any) -> Any:
    """Return a copy of a model's output, which later calls of the model cannot change."""
    return value.clone() if isinstance(value, Tensor) else value


def _train(model: nn.Module, batches: list[Tensor], lr: float) -> None:
    """Take a step of Adam for each batch; `torch.optim` would import torch's compiler for seconds."""
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
