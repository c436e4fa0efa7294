"""Facts about the parts of a language model: its layers, their sizes, norms and gradients.

As in `facts`, the names of the parameters are unknown. A layer's parameters are those that a model gains with
another layer; the parameters of positions grow with `max_len`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.cage.tensors import is_tensor
from autograder.exercises.ch11_capstone.facts import SEEN, Model, moved, other_tokens

STEP = 1e-3
"""How far parameters are moved, as a part of their size, to see what becomes of the loss."""
ASTRAY = 0.1
"""How far a gradient may be from the measured slope of the loss, relative to it; rounding gives 0.01."""
PART = 0.12
"""If more than this part of a matrix's rows has no gradient, the matrix holds weights that are not used."""
BENT = 0.01
"""The least deviation of a layer with an activation from a linear one, as a share of its output."""
MORE_PLACES = 5
"""By how much `max_len` is raised, to see which parameters grow with it."""
FAR, FARTHER = 1e3, 1e4
"""Two sizes of the stream; with a norm, nothing grows from the first to the second."""
ALIKE = 2.0
"""Two growths within this factor of each other are the same; without a norm one is 10 times as large."""


def layers(model: Model, tokens: Tensor) -> str:
    """Find the parameters that another layer adds."""
    one, two, three = (model.like(num_layers=n) for n in (1, 2, 3))
    counts = [sum(p.numel() for p in each.first.values()) for each in (one, two, three)]
    added, again = counts[1] - counts[0], counts[2] - counts[1]
    if added == again == 0:
        if torch.equal(*one.logits(tokens), *two.logits(tokens)):
            return "nothing"
        return "the same layer again" if inside(model) else "no parameters that PyTorch finds"
    if added != again:
        return "more each time"
    most = 8 * model.init["d_model"]  # more rows are a table of places
    first, both = (sum(p.numel() for p in inside(m).values() if max(p.shape) <= most) for m in (one, two))
    if not both - first < 2 * first < 4 * (both - first):
        return "its own parameters, but there are more or fewer layers than num_layers"
    return "attention alone" if added < 5 * model.init["d_model"] ** 2 else "its own parameters"


def heads(model: Model, tokens: Tensor) -> str:
    """Find out whether the number of heads changes anything."""
    single = model.like(num_heads=1)
    if [p.shape for p in single.first.values()] != [p.shape for p in model.first.values()]:
        return "used"
    return "used" if moved(*single.logits(tokens), *model.logits(tokens)).any() else "ignored"


def width(model: Model, tokens: Tensor) -> str:
    """Find out if the feed-forward network of a layer is four times as wide as the stream."""
    hidden = 4 * model.init["d_model"]
    one, two = (model.like(num_layers=n).first for n in (1, 2))
    added = [p for name, p in two.items() if name not in one or one[name].shape != p.shape]
    return "four times as wide" if any(hidden in p.shape for p in added) else "not four times as wide"


def places(model: Model, tokens: Tensor) -> str:
    """Find out if learned positions have max_len rows, or one per distance, and are added to the tokens."""
    few = model.init["max_len"]
    grow = {}
    for name, p in model.like(max_len=few + MORE_PLACES).first.items():
        before = model.first.get(name, p).shape
        changed = [old for old, new in zip(before, p.shape, strict=False) if old != new]
        if any(rows not in (few, 2 * few - 1, 2 * few + 1) for rows in changed):
            return "another number of rows than max_len"
        if changed:
            grow[name] = torch.zeros_like(model.first[name])
    sizes = [model.init["d_model"] * n for n in (1, 2, 3, 4)]
    for name, p in model.like(num_layers=1).first.items():
        outside = p.dim() == 2 and p.shape[1] == sizes[0] and name not in model.vocabulary
        if outside and p.shape[0] > few and p.shape[0] not in sizes:
            return "another number of rows than max_len"
    texts = (tokens, other_tokens(tokens, model.init))
    if grow and not moved(*model.logits(*texts, parameters=model.raised | grow)).any():
        return "rows that a token is multiplied with"
    return "a row for each place"


def bend(model: Model, tokens: Tensor) -> str:
    """Find out if the feed-forward network has an activation between its matrices.

    A token alone reads itself, so that all of a layer but the activation is linear. Three rows of the
    embedding are chosen that a norm leaves as they are, the third the sum of the others over the root of 2,
    and their negatives. The output of the layer is read along a row at right angles to all of them.
    """
    model = model.like(num_layers=1)
    width, size = model.init["d_model"], model.init["vocab_size"]
    generator = torch.Generator().manual_seed(6)
    centred = torch.randn(width, 3, generator=generator, dtype=torch.float64)
    rows = torch.linalg.qr(centred - centred.mean(dim=0))[0].T.float() * width**0.5
    table = torch.randn(size, width, generator=generator)
    pairs = [1, 2, 3, 4, 5, 6]
    three = torch.stack([rows[0], rows[1], (rows[0] + rows[1]) / 2**0.5])
    table[pairs] = torch.cat([three, -three])
    table[size - 1] = rows[2]
    large = model.raised | {
        name: FARTHER * (table if p.shape == table.shape else table.T) for name, p in model.vocabulary.items()
    }
    nothing = {name: torch.zeros_like(p) for name, p in inside(model).items()}
    text = torch.tensor(pairs)[:, None]
    (one,), (bare,) = (model.logits(text, parameters=given) for given in (large, large | nothing))
    added = (one - bare)[:, 0, size - 1]
    even, odd = added[:3] + added[3:], added[:3] - added[3:]
    astray = torch.stack([*(even - even.mean()), odd[2] - (odd[0] + odd[1]) / 2**0.5])
    return "bends what it reads" if astray.abs().max() > BENT * added.abs().max() else "is linear"


def inside(model: Model) -> dict[str, Tensor]:
    """Return the model's matrices inside the layers, without those of vocabulary and places."""
    outside = (model.init["vocab_size"], model.init["max_len"])
    return {
        name: p for name, p in model.first.items() if p.dim() >= 2 and not any(n in p.shape for n in outside)
    }


def residual(model: Model, tokens: Tensor) -> str:
    """Find out if a token reaches the logits when all matrices inside the layers are zero."""
    nothing = {name: torch.zeros_like(p) for name, p in inside(model).items()}
    found = model.logits(tokens, other_tokens(tokens, model.init), parameters=model.first | nothing)
    return "comes through" if moved(*found).any() else "is lost"


def gradient(model: Model, tokens: Tensor) -> str:
    """Find out if a gradient of the loss reaches every parameter, and is right.

    All parameters but the matrices of the vocabulary are moved a little, in directions drawn here, and must
    change the loss as their gradients predict. The lesson tests how the embedding learns.
    """
    found = model.slopes(tokens)
    missing = sum(not is_tensor(found.get(name)) for name in model.raised)
    if missing:
        return f"all but {missing}"
    kept = {name: p for name, p in model.raised.items() if name not in model.vocabulary}
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):
        directions = {
            name: torch.randn(p.shape, generator=generator) * p.square().mean().sqrt().clamp(min=0.1)
            for name, p in kept.items()
        }
        told = sum(float((found[name] * d).sum()) for name, d in directions.items())
        size = math.sqrt(sum(float((found[name] * d).square().sum()) for name, d in directions.items()))
        ahead, back = (
            model.loss(tokens, {name: p + sign * STEP * directions[name] for name, p in kept.items()})
            for sign in (1, -1)
        )
        if math.isfinite(ahead) and not abs((ahead - back) / (2 * STEP) - told) <= ASTRAY * size + SEEN:
            return "only a part"
    return "all of them"


def use(model: Model, tokens: Tensor) -> str:
    """Find out if every matrix inside the layers is used, as far as its gradient shows."""
    return "only a part of a matrix" if unused(model) else "every matrix"


def unused(model: Model) -> str:
    """Name a matrix with a large part without gradient; empty if there is none.

    Two kinds of parameters are left out: a matrix of another shape than the heads have is a table that a few
    texts need not use up, and a bias of keys has no gradient at all, since softmax does not see it.
    """
    generator = torch.Generator().manual_seed(4)
    shape, each = (8, model.init["max_len"]), model.init["d_model"] // model.init["num_heads"]
    texts = torch.randint(1, model.init["vocab_size"], shape, generator=generator)
    found = model.slopes(texts)
    for name in inside(model):
        slope: Any = found.get(name)
        if not is_tensor(slope) or any(size % each for size in slope.shape[-2:]):
            continue
        for axis, kind in ((-2, "rows"), (-1, "columns")):
            idle = (slope.transpose(axis, 0).flatten(1) == 0).all(dim=1)
            if idle.float().mean() > PART:
                return f"{int(idle.sum())} of the {len(idle)} {kind} of `{name}`"
    return ""


def norms(model: Model, tokens: Tensor) -> str:
    """Find out if the output of the layers stays the same when the stream is 10 times as large.

    A norm before each sublayer brings the stream to its usual size, so the output is the same; the effect of
    the last norm and the head is taken into account. Norms after each sublayer are right as well: then the
    biases of the last layer, which a growing stream would hide, keep their effect.
    """
    model = model.like(num_layers=2)
    nothing = {name: torch.zeros_like(p) for name, p in inside(model).items()}
    elsewhere = other_tokens(tokens, model.init)
    elsewhere[:, -1] = tokens[:, -1]
    seen = []
    for size in (FAR, FARTHER):
        large = _enlarged(model, size)
        one, other = model.logits(tokens, elsewhere, parameters=large)
        (bare,) = model.logits(tokens, parameters=large | nothing)
        (biased,) = model.logits(tokens, parameters=large | _other_biases(model, large))
        changes = (one - bare, (one - other)[:, -1], biased - one)
        seen.append([float(change.abs().max()) for change in changes] + [float(one.abs().max())])
    added, of_others, of_biases, whole = (
        after / before if before else math.nan for before, after in zip(*seen, strict=True)
    )
    wanted = whole / (FARTHER / FAR)
    if all(wanted / ALIKE < growth < wanted * ALIKE for growth in (added, of_others)):
        return "stays as it is"
    if whole / ALIKE < of_biases < whole * ALIKE:
        return "stays as it is"
    return "shrinks" if max(added, of_others) < wanted else "grows with it"


def last_norm(model: Model, tokens: Tensor) -> str:
    """Find out if the stream, of any size, has the same size where the head reads it."""
    sizes = [
        float(model.logits(tokens, parameters=_enlarged(model, size))[0].abs().max())
        for size in (FAR, FARTHER)
    ]
    growth = sizes[1] / sizes[0] / (FARTHER / FAR)
    return "normed" if 1 / ALIKE < growth < ALIKE else "as large as it has become"


def _enlarged(model: Model, size: float) -> dict[str, Tensor]:
    """Return the raised parameters with an embedding so many times as large."""
    return model.raised | {name: model.raised[name] * size for name in model.vocabulary}


def _other_biases(model: Model, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Move the vectors of the last layer, but not vectors of ones, such as a norm's factors."""
    fewer = model.like(num_layers=model.init["num_layers"] - 1).first
    generator = torch.Generator().manual_seed(5)
    return {
        name: p + torch.randn(p.shape, generator=generator)
        for name, p in given.items()
        if p.dim() == 1 and name not in fewer and not (p == 1).all()
    }


PARTS: dict[str, Callable[[Model, Tensor], Any]] = {
    fact.__name__: fact
    for fact in (layers, heads, width, bend, places, residual, gradient, use, norms, last_norm)
}
