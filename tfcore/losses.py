"""Losses: the sum over the targets that count, and their number, for each kind of batch of the course."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcore.inspection import can_look

if TYPE_CHECKING:
    from tfcore.data import Classification, Induction, LanguageModeling, SequenceToSequence, Tagging

PAD = 0  # as in tfcore.data

SumAndNumber = tuple[Float[Tensor, ""], Int[Tensor, ""]]


def summed_cross_entropy(
    logits: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"], ignore_index: int = -100
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    r"""Sum the loss over the targets that count, and count them; their quotient is the mean.

    $\left( -\sum_i \ln p_i(y_i), \; |\{ i : y_i \ne \text{ignore} \}| \right)$.

    Sums and counts of several batches add up to the sum and count of one big batch. Means do not, unless the
    batches have equally many targets: the mean of means weighs a target of a short batch more than one of a
    long batch.

    Args:
        logits: (..., V).
        targets: classes, (...).
        ignore_index: the target that does not count, such as padding.

    Returns:
        The sum, in float32 or wider, and the number.

    Raises:
        ValueError: shapes that do not fit, targets that are not whole numbers, or, where looking is cheap, a
            target that is none of the classes.

    >>> total, count = summed_cross_entropy(torch.zeros(3, 2), torch.tensor([1, -100, 0]))
    >>> print(round(float(total), 3), int(count))
    1.386 2
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"expected logits (..., V) and targets (...), got {tuple(logits.shape)} and "
            f"{tuple(targets.shape)}; give one class per row of logits"
        )
    if targets.is_floating_point():
        raise ValueError(
            f"expected targets as whole numbers, got {targets.dtype}; give the index of each class"
        )
    targets = targets.long()
    if targets.numel() and can_look(targets):
        low, high = map(int, targets.masked_fill(targets == ignore_index, 0).aminmax())
        if low < 0 or high >= logits.shape[-1]:
            raise ValueError(
                f"expected targets from 0 to {logits.shape[-1] - 1}, got {low if low < 0 else high}; give "
                f"the model a logit for each class, and the target {ignore_index} to what does not count"
            )
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))  # half precision would round the sum
    rows = wide.reshape(-1, wide.shape[-1])  # (N, V)
    total = F.cross_entropy(rows, targets.reshape(-1), ignore_index=ignore_index, reduction="sum")
    return total, (targets != ignore_index).sum()


def language_model_loss(
    model: nn.Module, tokens: Int[Tensor, "B T"], ignore_index: int = -100
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Let a model of logits predict each token from those before it.

    Args:
        model: maps tokens (B, T) to logits (B, T, V).
        tokens: (B, T).
        ignore_index: the token that is not to be predicted.

    Returns:
        As :func:`summed_cross_entropy`.

    >>> model = nn.Embedding(5, 5)
    >>> print(int(language_model_loss(model, torch.tensor([[1, 2, 0]]), ignore_index=0)[1]))
    1
    """
    if not isinstance(tokens, Tensor):
        raise ValueError(
            f"expected tokens (B, T), got {type(tokens).__name__}; the losses of tfcore.losses take batches "
            "with labels"
        )
    return summed_cross_entropy(model(tokens)[:, :-1], tokens[:, 1:], ignore_index)


def next_token_loss(
    logits: Float[Tensor, "B T V"], tokens: Int[Tensor, "B T"], ignore_index: int = -100
) -> Float[Tensor, ""]:
    r"""Average the loss of predicting each token from those before it.

    $-\frac{1}{N} \sum_{b, t} \ln p_{b, t}(x_{b, t+1})$ over the N tokens after the first, less the ignored.

    Args:
        logits: (B, T, V); those at t are about the token at t + 1.
        tokens: (B, T).
        ignore_index: the token that is not to be predicted, such as padding.

    Returns:
        The mean in the type of the logits; 0, with gradient 0, when there is nothing to predict.

    From: Bengio et al. (2003), *A Neural Probabilistic Language Model*.

    >>> print(next_token_loss(torch.zeros(1, 3, 8), torch.tensor([[1, 2, 3]])))
    tensor(2.0794)
    """
    total, count = summed_cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index)
    return (total / count.clamp(min=1)).to(logits.dtype)


def labeled_loss(model: nn.Module, batch: LanguageModeling | Induction) -> SumAndNumber:
    """Let a model of logits predict the tokens that are labeled, each from those before it.

    Args:
        model: maps tokens (B, T) to logits (B, T, V).
        batch: tokens and, at the tokens themselves, labels.

    Returns:
        As :func:`summed_cross_entropy`.

    >>> from tfcore.data import LanguageModeling
    >>> batch = LanguageModeling(torch.tensor([[1, 2, 3]]), torch.tensor([[-100, -100, 3]]))
    >>> print(int(labeled_loss(nn.Embedding(5, 5), batch)[1]))
    1
    """
    tokens, labels = _fields(batch, "tokens", "labels")
    return summed_cross_entropy(model(tokens)[:, :-1], labels[..., 1:])


def sequence_to_sequence_loss(model: nn.Module, batch: SequenceToSequence) -> SumAndNumber:
    """Let an encoder-decoder predict each token of a target that it is given (teacher forcing).

    Args:
        model: maps source (B, S), target (B, T) and the source's padding to logits (B, T, V).
        batch: source and target.

    Returns:
        As :func:`summed_cross_entropy`.

    >>> from tfcore.data import SequenceToSequence
    >>> batch = SequenceToSequence(torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 6, 5, 2, 0]]))
    >>> uniform = lambda source, target, padding: torch.zeros(*target.shape, 8)
    >>> total, number = sequence_to_sequence_loss(uniform, batch)
    >>> # ln 8 for each token after the first, padding left out
    >>> print(f"{total / number:.4f}", int(number))
    2.0794 3
    """
    *inputs, labels = _fields(batch, "source", "decoder_input", "source_padding", "labels")
    return summed_cross_entropy(model(*inputs), labels)


def classification_loss(model: nn.Module, batch: Classification) -> SumAndNumber:
    """Let a classifier name the class of each text.

    Args:
        model: maps tokens (B, T) and padding to logits (B, C).
        batch: tokens and one label for each row.

    Returns:
        As :func:`summed_cross_entropy`.

    >>> from tfcore.data import Classification
    >>> batch = Classification(torch.tensor([[1, 5, 7], [1, 6, 0]]), labels=torch.tensor([3, 0]))
    >>> uniform = lambda tokens, padding: torch.zeros(len(tokens), 4)
    >>> total, number = classification_loss(uniform, batch)
    >>> print(f"{total / number:.4f}", int(number))  # ln 4 for each text
    1.3863 2
    """
    tokens, labels = _fields(batch, "tokens", "labels")
    return summed_cross_entropy(model(tokens, tokens != PAD), labels)


def tagging_loss(model: nn.Module, batch: Tagging) -> SumAndNumber:
    """Let a tagger tag each token.

    Args:
        model: maps tokens (B, T) and padding to logits (B, T, C).
        batch: tokens and one tag for each.

    Returns:
        As :func:`summed_cross_entropy`.

    >>> from tfcore.data import Tagging
    >>> tags = torch.tensor([[-100, 1, 0], [-100, 2, -100]])
    >>> batch = Tagging(torch.tensor([[1, 5, 7], [1, 6, 0]]), tags)
    >>> total, number = tagging_loss(lambda tokens, padding: torch.zeros(*tokens.shape, 4), batch)
    >>> print(f"{total / number:.4f}", int(number))  # ln 4 for each token that has a tag
    1.3863 3
    """
    tokens, tags = _fields(batch, "tokens", "tags")
    return summed_cross_entropy(model(tokens, tokens != PAD), tags)


def _fields(batch: Any, *names: str) -> tuple[Tensor, ...]:
    if not all(hasattr(batch, name) for name in names):
        raise ValueError(
            f"expected a batch with {', '.join(names)}, got {type(batch).__name__}; take the loss of its kind"
        )
    return tuple(getattr(batch, name) for name in names)
