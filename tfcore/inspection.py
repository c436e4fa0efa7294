"""Checks of the numbers in a tensor: is it cheap to read them, and are they token ids?"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def can_look(x: Tensor) -> bool:
    """Return whether reading numbers is cheap: other devices make Python wait, and a compiled program is cut.

    The tensors of ``vmap``, and other kinds of tensors, have no numbers to read.

    >>> can_look(torch.zeros(3))
    True
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return type(x) in (Tensor, nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def check_tokens(tokens: Tensor, vocab_size: int) -> tuple[int, int]:
    """Return B and T of token ids (B, T); refuse any other tensor.

    Raises:
        ValueError: another shape, another type of numbers, or ids outside the vocabulary.

    >>> check_tokens(torch.tensor([[7, 1, 4]]), vocab_size=50)
    (1, 3)
    """
    whole = tokens.dtype in (torch.int64, torch.int32)  # torch's embeddings accept no other type
    if tokens.ndim != 2 or not whole or tokens.shape[1] == 0:
        raise ValueError(
            "expected token ids as int64 or int32 of shape (B, T) with T of 1 or more, got "
            f"{tokens.dtype} {tuple(tokens.shape)}; other whole numbers become ids with .long(), a single "
            "sequence goes in as tokens[None]"
        )
    if tokens.numel() and can_look(tokens):
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"expected token ids from 0 to {vocab_size - 1}, got {low if low < 0 else high}; "
                "use the tokenizer that belongs to the model"
            )
    return tokens.shape[0], tokens.shape[1]
