"""Queries, keys and values for the exercises that compute attention at another cost."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from autograder.exercises.draw import tensor

CAUSAL = {"causal": True}


def qkv(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Draw queries, keys and values, (B, h, T, d) each, whose scores are moderate."""
    return tuple(tensor(rng, *shape, dtype=dtype) for _ in range(3))


def levelled(
    rng: np.random.Generator, levels: np.ndarray, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Draw queries, keys and values of two heads whose scaled scores are about `levels` (T, T)."""
    T = len(levels)
    q, k, v = qkv(rng, 1, 2, T, 3 + T, dtype=dtype)
    q[..., 3:] = torch.eye(T)
    k[..., 3:] = torch.from_numpy((3 + T) ** 0.5 * levels.T)
    return q, k, v
