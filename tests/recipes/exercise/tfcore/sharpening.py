"""Weights made sharper or flatter after the softmax."""

from __future__ import annotations

import numpy as np


def sharpen(weights: np.ndarray, power: float = 2.0) -> np.ndarray:
    """Raise weights to a power, and let each row sum to 1 again.

    >>> sharpen(np.array([0.75, 0.25])).tolist()
    [0.9, 0.1]
    """
    raised = weights**power
    result: np.ndarray = raised / raised.sum(axis=-1, keepdims=True)
    return result
