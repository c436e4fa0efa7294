"""Functions that draw the parts of cases: sizes that all differ, tensors, masks and weights of modules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import is_tensor, mapped
from autograder.checking.declaration import Case
from autograder.exercises.draw_masks import some_of_each_row


def sizes(rng: np.random.Generator, *bounds: tuple[int, int]) -> list[int]:
    """Draw a size between each pair of bounds, both included; all differ, so that a wrong axis shows.

    Raises:
        ValueError: there are not enough different sizes.
    """
    for _ in range(1000):
        found = [int(rng.integers(low, high + 1)) for low, high in bounds]
        if len(set(found)) == len(found):
            return found
    raise ValueError(f"there are no different sizes within {bounds}")


def tensor(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw standard normal numbers."""
    return torch.from_numpy(rng.normal(size=shape)).to(dtype)


def mask(rng: np.random.Generator, *shape: int) -> Tensor:
    """Draw the mask of `some_of_each_row` as a tensor."""
    return torch.from_numpy(some_of_each_row(rng, *shape))


def linear(
    rng: np.random.Generator, name: str, d_in: int, d_out: int, bias: bool = True, gain: float = 1.0
) -> dict[str, Tensor]:
    """Draw the parameters of an ``nn.Linear`` called `name`, large enough to show in every result."""
    drawn = {f"{name}.weight": gain * tensor(rng, d_out, d_in) / d_in**0.5}
    return drawn | ({f"{name}.bias": 0.5 * tensor(rng, d_out)} if bias else {})


def norm(rng: np.random.Generator, name: str, d_model: int) -> dict[str, Tensor]:
    """Draw the parameters of an ``nn.LayerNorm`` called `name`, far from ones and zeros."""
    return {f"{name}.weight": 1 + 0.5 * tensor(rng, d_model), f"{name}.bias": 0.5 * tensor(rng, d_model)}


def cast(case: Case, dtype: torch.dtype) -> Case:
    """Return the case with all its floating tensors, parameters too, in another dtype."""

    def converted(value: Any) -> Any:
        return value.to(dtype) if is_tensor(value) and value.is_floating_point() else value

    return replace(case, args=mapped(converted, case.args), kwargs=mapped(converted, case.kwargs))
