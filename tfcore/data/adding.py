"""The adding problem: two numbers out of many are marked, and the model returns their sum at the end."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tfcore.data.batch import integers


class Adding(NamedTuple):
    """``inputs[..., 0]`` are the numbers and ``inputs[..., 1]`` the marks; one target for each sequence.

    >>> inputs, targets = adding_batch(4, 30, torch.Generator().manual_seed(0))
    >>> numbers, marks = inputs.unbind(dim=-1)
    >>> torch.allclose(0.5 + (numbers * (marks == 1)).sum(dim=1) / 4, targets)
    True
    """

    inputs: Float[Tensor, "B T 2"]
    targets: Float[Tensor, " B"]


def adding_batch(batch_size: int, length: int, generator: torch.Generator) -> Adding:
    r"""Draw numbers from -1 to 1, two of them marked, and the scaled sum of the two.

    $y = \tfrac12 + \tfrac14 (x_a + x_b)$; always saying 1/2 costs a mean squared error of about 1/24.

    The one mark is among the first ten numbers, the other among the first T/2 - 1 of the rest, so that the
    model must keep the sum for at least half of the sequence. A mark is 1; the first and the last number
    carry -1, all others 0. If the first number itself is marked it becomes 0, as in the paper.

    Args:
        batch_size: number of sequences, B.
        length: numbers in each, T; the paper draws it from T to 1.1 T for each sequence, here a batch has
            one.
        generator: the source of randomness.

    Returns:
        Inputs (B, T, 2) and targets (B,), both float32.

    Raises:
        ValueError: an empty batch, or fewer than 22 numbers, which leave no half to keep the sum for.

    From: Hochreiter and Schmidhuber (1997), *Long Short-Term Memory*, section 5.4.

    >>> batch = adding_batch(4, 100, torch.Generator().manual_seed(0))
    >>> marked = batch.inputs[..., 1] == 1
    >>> print(marked.sum(dim=1))
    tensor([2, 2, 2, 2])
    """
    if batch_size < 1 or length < 22:
        raise ValueError(
            f"expected a batch of 1 or more and a length of 22 or more, got {batch_size} and {length}; "
            "one mark is among the first ten numbers, and both are in the first half"
        )
    one = integers(0, 10, (batch_size,), generator)
    other = integers(0, length // 2 - 1, (batch_size,), generator)
    other = other + (other >= one)  # the numbers that are still unmarked, counted over
    rows = torch.arange(batch_size, device=generator.device)
    values = torch.rand(batch_size, length, generator=generator, device=generator.device) * 2 - 1
    marks = torch.zeros_like(values)
    marks[:, 0] = marks[:, -1] = -1
    marks[rows, one] = marks[rows, other] = 1
    values[:, 0] = values[:, 0].masked_fill(marks[:, 0] == 1, 0)
    targets = 0.5 + (values[rows, one] + values[rows, other]) / 4
    return Adding(torch.stack([values, marks], dim=-1), targets)
