"""When numbers in a tensor may be looked at."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def can_look(x: Tensor) -> bool:
    """Tell whether looking at numbers is cheap: other devices would be waited for, a compiled program cut.

    Nor are there numbers to look at in what ``vmap`` and other kinds of tensors stand for.

    >>> can_look(torch.zeros(3))
    True
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return type(x) in (Tensor, nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(x)
