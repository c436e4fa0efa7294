"""When numbers in a tensor may be looked at."""

from __future__ import annotations

import torch
from torch import Tensor


def can_look(x: Tensor) -> bool:
    """Tell whether looking at numbers is cheap: other devices would be waited for, a compiled program cut.

    >>> can_look(torch.zeros(3))
    True
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()
