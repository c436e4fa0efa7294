"""What can be found out about a language model whose parameters nobody can name: facts, and how it learns.

A model is built from a fixed seed, and its matrices are moved away from their first values, so that nothing
is too small to be seen. What is found is put into words that do not depend on the numbers drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SEEN = 1e-4
"""A change of the logits above this part of their size is no rounding."""
NEAR = 1.5
"""How far, in nats, the first loss may lie above that of a guess among all tokens."""

Made = Callable[..., Any]
Init = dict[str, int]


def facts(made: Made, init: Init, tokens: Tensor, asked: list[str]) -> dict[str, Any]:
    """The facts asked for, each in words; see the functions of that name in `FACTS`."""
    return {name: FACTS[name](made, init, tokens) for name in asked}


def trained(
    made: Made,
    init: Init,
    batches: list[Tensor],
    held_out: Tensor,
    prompts: Tensor,
    settings: dict[str, float],
) -> dict[str, Any]:
    """A model taught to say the next token, and what it says then.

    Args:
        made: the class.
        init: its arguments.
        batches: tokens (B, T) for one step of Adam each; 0 is padding, which is not learned.
        held_out: tokens on which the loss is measured.
        prompts: tokens (B, T) that are continued, always by the likeliest token.
        settings: ``lr``, the learning rate, and ``new_tokens``, how many tokens to say.

    Returns:
        The held-out ``loss`` per token in nats, and the ``texts``, tokens (B, T + new_tokens).
    """
    model = _built(made, init)
    _teach(model, batches, settings["lr"])
    with torch.no_grad():
        loss = float(_loss(model, held_out))
        texts = prompts
        for _ in range(int(settings["new_tokens"])):
            texts = torch.cat([texts, model(texts)[:, -1:].argmax(dim=-1)], dim=1)
    return {"loss": loss, "texts": texts}


def _teach(model: nn.Module, batches: list[Tensor], lr: float) -> None:
    """One step of Adam for each batch; `torch.optim` would import the compiler first, for seconds."""
    moments = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    for step, tokens in enumerate(batches, 1):
        model.zero_grad()
        _loss(model, tokens).backward()
        with torch.no_grad():
            for p, mean, square in moments:
                if p.grad is not None:
                    mean.lerp_(p.grad, 0.1)
                    square.lerp_(p.grad**2, 0.001)
                    size = (square / (1 - 0.999**step)).sqrt() + 1e-8
                    p.sub_(lr / (1 - 0.9**step) * mean / size)


def _built(made: Made, init: Init, raised: bool = False) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = made(**init)
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected an nn.Module, got a {type(model).__name__}")
    if raised:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.add_(torch.randn(weight.shape, generator=generator) / weight.shape[-1] ** 0.5)
    return model


def _loss(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """Where logits (..., V) have moved, (...)."""
    moved = (after - before).abs().amax(dim=-1) > SEEN * before.abs().max()
    return moved | after.isnan().any(dim=-1)


def _other(tokens: Tensor, init: Init) -> Tensor:
    """Another token at each place, neither padding nor the one that is there."""
    return tokens % (init["vocab_size"] - 1) + 1


@torch.no_grad()
def logits(made: Made, init: Init, tokens: Tensor) -> str:
    """The form of what comes back."""
    found = _built(made, init, raised=True)(tokens)
    wanted = (*tokens.shape, init["vocab_size"])
    if not isinstance(found, Tensor):
        return f"a {type(found).__name__}"
    if tuple(found.shape) != wanted:
        return f"of shape {tuple(found.shape)}, not {wanted}"
    if not found.isfinite().all():
        return "not finite"
    if bool((found >= 0).all()) and torch.allclose(found.sum(dim=-1), torch.ones(tokens.shape), atol=1e-4):
        return "probabilities, which sum to 1"
    return "logits"


@torch.no_grad()
def repeats(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether the same call gives the same logits, in training and in use."""
    model = _built(made, init, raised=True)
    first = model(tokens).clone()
    if not torch.equal(first, model(tokens)):
        return "another each time"
    return "another after .eval()" if bool(_moved(first, model.eval()(tokens)).any()) else "the same"


@torch.no_grad()
def sees(made: Made, init: Init, tokens: Tensor) -> str:
    """Which places see what they should not, or do not see what they should."""
    model, length = _built(made, init, raised=True), tokens.shape[1]
    before = model(tokens)
    moved = torch.zeros(length, length, dtype=torch.bool)
    for j in range(length):
        changed = tokens.clone()
        changed[:, j] = _other(tokens, init)[:, j]
        moved[:, j] = _moved(before, model(changed)).any(dim=0)
    past = torch.ones_like(moved).tril()
    wrong = [f"place {i} sees token {j}, which comes after it" for i, j in (moved & ~past).nonzero().tolist()]
    wrong += [f"place {i} does not see token {j}" for i, j in (past & ~moved).nonzero().tolist()]
    return "; ".join(wrong) or "itself and the past"


@torch.no_grad()
def order(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether one layer tells two earlier tokens apart by their places."""
    model = _built(made, init | {"num_layers": 1}, raised=True)
    exchanged = tokens.clone()
    exchanged[:, [0, 1]] = tokens[:, [1, 0]]
    return "matters" if _moved(model(tokens), model(exchanged))[:, -1].any() else "does not matter"


@torch.no_grad()
def batch(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether the first sequence of a batch sees another."""
    model = _built(made, init, raised=True)
    changed = tokens.clone()
    changed[1:] = _other(tokens, init)[1:]
    return "shared" if _moved(model(tokens), model(changed))[0].any() else "kept apart"


@torch.no_grad()
def embedding(made: Made, init: Init, tokens: Tensor) -> dict[str, Any]:
    """How many matrices have a row for each token, and what moves with a row of the first."""
    model = _built(made, init)
    size = init["vocab_size"]
    matrices = [p for p in model.parameters() if p.dim() == 2 and size in p.shape]
    alike = len(matrices) > 1 and matrices[0].shape == matrices[1].shape and torch.equal(*matrices[:2])
    found = {"matrices": len(matrices), "alike at first": alike, "reads": False, "writes": False}
    if matrices:
        row = matrices[0] if matrices[0].shape[0] == size else matrices[0].T
        before, absent = model(tokens), int(_absent(tokens, init))
        push = torch.linspace(-1, 1, row.shape[1]) ** 3
        row[absent] += push
        found["writes"] = bool((model(tokens)[..., absent] - before[..., absent]).abs().max() > SEEN)
        row[absent] -= push
        row[tokens[0, 0]] += push
        others = [i for i in range(size) if i != int(tokens[0, 0])]
        found["reads"] = bool((model(tokens) - before)[0, 0, others].abs().max() > SEEN * before.abs().max())
    return found


def _absent(tokens: Tensor, init: Init) -> Tensor:
    """A token that does not occur."""
    every = torch.arange(init["vocab_size"])
    return every[~torch.isin(every, tokens)][-1]


def layers(made: Made, init: Init, tokens: Tensor) -> str:
    """What another layer adds."""
    counts = [_size(_built(made, init | {"num_layers": n})) for n in (1, 2, 3)]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    if first == second == 0:
        with torch.no_grad():
            one, two = (_built(made, init | {"num_layers": n}, raised=True)(tokens) for n in (1, 2))
        return "nothing" if torch.equal(one, two) else "the same layer again"
    if first != second:
        return "more each time"
    return "attention alone" if first < 5 * init["d_model"] ** 2 else "its own parameters"


def _size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def heads(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether the number of heads changes anything."""
    one, other = (_built(made, init | {"num_heads": n}, raised=True) for n in (1, init["num_heads"]))
    if [p.shape for p in one.parameters()] != [p.shape for p in other.parameters()]:
        return "used"
    return "used" if _moved(one(tokens), other(tokens)).any() else "ignored"


@torch.no_grad()
def residual(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether a token comes through when all matrices inside the layers are zero."""
    model = _built(made, init)
    outside = (init["vocab_size"], init["max_len"])
    for p in model.parameters():
        if p.dim() == 2 and not any(n in p.shape for n in outside):
            p.zero_()
    return "comes through" if _moved(model(tokens), model(_other(tokens, init))).any() else "is lost"


def gradient(made: Made, init: Init, tokens: Tensor) -> str:
    """Whether a gradient reaches every parameter."""
    model = _built(made, init, raised=True)
    _loss(model, tokens).backward()
    missing = sum(p.grad is None for p in model.parameters())
    return "all of them" if not missing else f"all but {missing}"


@torch.no_grad()
def start(made: Made, init: Init, tokens: Tensor) -> str:
    """The first loss, beside that of a guess among all tokens."""
    loss, guess = float(_loss(_built(made, init), tokens)), math.log(init["vocab_size"])
    return "near that of a guess" if loss < guess + NEAR else "far above that of a guess"


FACTS: dict[str, Callable[[Made, Init, Tensor], Any]] = {
    fact.__name__: fact
    for fact in (
        logits,
        repeats,
        sees,
        order,
        batch,
        embedding,
        layers,
        heads,
        residual,
        gradient,
        start,
    )
}
