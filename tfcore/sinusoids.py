"""Sinusoidal positions in numpy: the encoding, and the rotation that moves it along."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def frequencies(d_model: int, base: float = 10_000.0) -> Float[np.ndarray, " d_model/2"]:
    r"""List the angle per position of each pair of channels, from 1 down to nearly 1 / base.

    $\omega_i = \text{base}^{-2i/d}, \; i = 0 \dots d/2 - 1$.

    Args:
        d_model: number of channels, even.
        base: of the geometric series.

    Returns:
        Radians per position, (d_model / 2,), float64.

    Raises:
        ValueError: a number of channels that is odd or below 2.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.5.

    >>> print(frequencies(4))
    [1.   0.01]
    """
    if d_model < 2 or d_model % 2:
        raise ValueError(
            f"expected an even d_model of 2 or more, got {d_model}; each frequency takes two channels"
        )
    return base ** (-np.arange(0, d_model, 2) / d_model)


def sinusoidal_encoding(max_seq_len: int, d_model: int) -> Float[np.ndarray, "max_seq_len d_model"]:
    r"""Give each position a vector of sines and cosines, from fast to slow.

    $PE_{p,2i} = \sin(p \, \omega_i), \; PE_{p,2i+1} = \cos(p \, \omega_i)$.

    Args:
        max_seq_len: number of positions, counted from 0.
        d_model: number of channels, even.

    Returns:
        The encodings, (max_seq_len, d_model), float64.

    Raises:
        ValueError: a number of channels that is odd or below 2.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.5.

    >>> print(sinusoidal_encoding(2, 4).round(2))
    [[0.   1.   0.   1.  ]
     [0.84 0.54 0.01 1.  ]]
    """
    angles = np.arange(max_seq_len)[:, None] * frequencies(d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_seq_len, d_model)


def shift_matrix(k: int, d_model: int) -> Float[np.ndarray, "d_model d_model"]:
    r"""Build the one matrix that moves every position's encoding on by k positions.

    $M_k \, PE_p = PE_{p+k}$, a rotation by $k \omega_i$ in each pair of channels.

    Args:
        k: how many positions to move, negative to move back.
        d_model: number of channels, even.

    Returns:
        The matrix, (d_model, d_model), float64, orthogonal.

    Raises:
        ValueError: a number of channels that is odd or below 2.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.5, which states it without the matrix.

    >>> pe = sinusoidal_encoding(10, 6)
    >>> print(np.allclose(shift_matrix(3, 6) @ pe[4], pe[7]))
    True
    """
    cos, sin = np.cos(k * frequencies(d_model)), np.sin(k * frequencies(d_model))
    even, odd = np.arange(0, d_model, 2), np.arange(1, d_model, 2)
    matrix = np.zeros((d_model, d_model))
    matrix[even, even], matrix[even, odd] = cos, sin
    matrix[odd, even], matrix[odd, odd] = -sin, cos
    return matrix
