"""Right answers to `sinusoidal_encoding`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch05_positions.sinusoidal_encoding import EXERCISE


@EXERCISE.style("angles first, then every second column")
def every_second_column(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError(f"d_model must be even, not {d_model}")
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe = np.zeros((max_seq_len, d_model))
    pe[:, 0::2] = np.sin(angles)
    pe[:, 1::2] = np.cos(angles)
    return pe


@EXERCISE.style("number by number, in loops")
def in_loops(max_seq_len, d_model):
    if d_model % 2 == 1:
        raise ValueError
    pe = np.empty((max_seq_len, d_model))
    for pos in range(max_seq_len):
        for i in range(d_model // 2):
            pe[pos, 2 * i] = math.sin(pos / 10000 ** (2 * i / d_model))
            pe[pos, 2 * i + 1] = math.cos(pos / 10000 ** (2 * i / d_model))
    return pe


@EXERCISE.style("frequencies through the exponential, in float32")
def through_exp(max_seq_len, d_model):
    if d_model % 2 != 0:
        raise ValueError("an even number of channels, please")
    positions = np.arange(max_seq_len, dtype=np.float32)[:, None]
    div_term = np.exp(np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / d_model))
    pe = np.zeros((max_seq_len, d_model), dtype=np.float32)
    pe[:, 0::2] = np.sin(positions * div_term)
    pe[:, 1::2] = np.cos(positions * div_term)
    return pe


@EXERCISE.style("one angle for each channel, and np.where")
def chosen_by_where(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    channel = np.arange(d_model)
    angles = np.outer(np.arange(max_seq_len), 10000.0 ** (-(channel - channel % 2) / d_model))
    return np.where(channel % 2 == 0, np.sin(angles), np.cos(angles))


@EXERCISE.style("stacked and flattened")
def stacked(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = np.einsum("t,i->ti", np.arange(max_seq_len), 1e4 ** (-2 * np.arange(d_model // 2) / d_model))
    return np.dstack([np.sin(angles), np.cos(angles)]).reshape(max_seq_len, d_model)


@EXERCISE.style("a cosine is a sine a quarter turn ahead")
def quarter_turn(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    rates = np.repeat(np.power(10000, -np.arange(0, d_model, 2) / d_model), 2)
    phases = np.tile([0.0, np.pi / 2], d_model // 2)
    return np.sin(np.arange(max_seq_len)[:, None] * rates + phases)


@EXERCISE.style("real and imaginary parts of a complex exponential")
def complex_exponential(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    turned = np.ascontiguousarray(np.exp(1j * angles))
    return turned.view(np.float64).reshape(max_seq_len, -1, 2)[..., ::-1].reshape(max_seq_len, d_model)
