"""Probes: make a model's every part show, and find out which positions see which."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def raise_weights(model: nn.Module, std: float = 0.3, seed: int = 0) -> nn.Module:
    r"""Draw new weights for a model, so large that every part of it shows in the output.

    Matrices become $\mathcal{N}(0, \text{std}^2)$; vectors (biases, the weights of norms) move by as much.
    With the small weights that models start from, a comparison of two models is blind: without scale, without
    rotation or with uniform attention they agree to 1e-2.

    Args:
        model: any module; tied weights are drawn once.
        std: standard deviation of the draws.
        seed: of the generator that all draws come from.

    Returns:
        The model itself, changed.

    >>> layer = raise_weights(nn.LayerNorm(3))
    >>> print(bool((layer.bias != 0).all()))
    True
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            draw = torch.randn(parameter.shape, generator=generator) * std
            parameter.copy_(draw if parameter.ndim > 1 else parameter.cpu() + draw)
    return model


def find_leaks(
    model: Callable[[Int[Tensor, "1 T"]], Float[Tensor, "1 T V"]],
    tokens: Int[Tensor, " T"],
    vocab_size: int,
    atol: float = 1e-4,
) -> set[tuple[int, int]]:
    r"""Find the positions whose output depends on a later token.

    $\{(i, j) : j > i, \; |f(x)_i - f(x')_i| > \text{atol}\}$, where x' is x with another token at j.

    Each position but the first is changed once, to the next token of the vocabulary. A model that draws at
    random (dropout in training) seems to leak everywhere.

    Args:
        model: maps token numbers (1, T) to logits (1, T, V).
        tokens: one sequence, (T,).
        vocab_size: number of tokens, V.
        atol: the largest change of an output that counts as none; NaN that comes or goes always counts.

    Returns:
        Every pair (i, j) where the output at i sees the token at j > i; a causal model has none.

    Raises:
        ValueError: tokens of another shape, or a vocabulary without a second token.

    From: the definition of a causal model, $p(x_t \mid x_{<t})$; compare Radford et al. (2018).

    >>> one_hot = lambda tokens: nn.functional.one_hot(tokens, 4).float()
    >>> sees_the_next = lambda tokens: one_hot(tokens.roll(-1, dims=1))
    >>> tokens = torch.tensor([2, 0, 3])
    >>> print(find_leaks(one_hot, tokens, 4), sorted(find_leaks(sees_the_next, tokens, 4)))
    set() [(0, 1), (1, 2)]
    """
    if tokens.ndim != 1:
        raise ValueError(
            f"expected tokens (T,), got {tuple(tokens.shape)}; pass one sequence, without a batch axis"
        )
    if vocab_size < 2:
        raise ValueError(
            f"expected a vocabulary of 2 or more, got {vocab_size}; there is no other token to try"
        )

    def changed_at(j: int) -> Tensor:
        return tokens.index_fill(0, torch.tensor(j, device=tokens.device), int(tokens[j] + 1) % vocab_size)

    return _moved_before(lambda sequence: model(sequence[None])[0], tokens, changed_at, atol)


def find_input_leaks(
    layer: Callable[[Float[Tensor, "1 T d"]], Float[Tensor, "1 T d_out"]],
    x: Float[Tensor, "T d"],
    atol: float = 1e-4,
) -> set[tuple[int, int]]:
    r"""Find the positions whose output depends on a later vector: :func:`find_leaks` for a layer.

    $\{(i, j) : j > i, \; |f(x)_i - f(x')_i| > \text{atol}\}$, where x' is x moved at j.

    Args:
        layer: maps vectors (1, T, d) to (1, T, d_out).
        x: one sequence, (T, d).
        atol: the largest change of an output that counts as none.

    Returns:
        Every pair (i, j) where the output at i sees the vector at j > i.

    Raises:
        ValueError: x of another shape.

    From: as :func:`find_leaks`.

    >>> x = torch.randn(3, 5)
    >>> cumulative = lambda x: x.cumsum(dim=1)
    >>> mean = lambda x: x.mean(dim=1, keepdim=True).expand_as(x)
    >>> print(find_input_leaks(cumulative, x), len(find_input_leaks(mean, x)))
    set() 3
    """
    if x.ndim != 2:
        raise ValueError(f"expected x (T, d), got {tuple(x.shape)}; pass one sequence, without a batch axis")
    step = torch.linspace(-1, 2, x.shape[1], dtype=x.dtype, device=x.device)  # a norm would hide a constant

    def changed_at(j: int) -> Tensor:
        return x.index_add(0, torch.tensor([j], device=x.device), step[None])

    return _moved_before(lambda sequence: layer(sequence[None])[0], x, changed_at, atol)


@torch.no_grad()
def _moved_before(
    run: Callable[[Tensor], Tensor], sequence: Tensor, changed_at: Callable[[int], Tensor], atol: float
) -> set[tuple[int, int]]:
    """Change one position after the other, and note the outputs before it that move."""
    before = run(sequence).clone()
    leaks = set()
    for j in range(1, len(sequence)):
        same = (
            torch.isclose(run(changed_at(j)), before, rtol=0.0, atol=atol, equal_nan=True)
            .flatten(1)
            .all(dim=1)
        )
        leaks |= {(i, j) for i in range(j) if not same[i]}
    return leaks
