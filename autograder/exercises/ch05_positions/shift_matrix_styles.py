"""Right answers to `shift_matrix`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np

from autograder.exercises.ch05_positions.shift_matrix import EXERCISE


@EXERCISE.style("block by block along the diagonal")
def block_by_block(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    return M


@EXERCISE.style("every second row and column")
def every_second(k, d_model):
    angles = k * 10000 ** (-np.arange(0, d_model, 2) / d_model)
    M = np.zeros((d_model, d_model))
    M[0::2, 0::2] = M[1::2, 1::2] = np.diag(np.cos(angles))
    M[0::2, 1::2] = np.diag(np.sin(angles))
    M[1::2, 0::2] = -np.diag(np.sin(angles))
    return M


@EXERCISE.style("three diagonals")
def three_diagonals(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    beside = np.zeros(d_model)
    beside[0::2] = np.sin(angles)
    beside = beside[:-1]
    return np.diag(np.repeat(np.cos(angles), 2)) + np.diag(beside, 1) - np.diag(beside, -1)


@EXERCISE.style("read off the encoding of position k")
def from_the_encoding(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe_k = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    M = np.zeros((d_model, d_model))
    for i, (sin, cos) in enumerate(pe_k):
        M[2 * i, 2 * i : 2 * i + 2] = cos, sin
        M[2 * i + 1, 2 * i : 2 * i + 2] = -sin, cos
    return M


@EXERCISE.style("a power of the matrix of one step")
def power_of_one_step(k, d_model):
    step = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = 10000.0 ** (-i / d_model)
        step[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return np.linalg.matrix_power(step, k)


@EXERCISE.style("blocks spread by einsum")
def spread_by_einsum(k, d_model):
    angles = k / 10000 ** (2 * np.arange(d_model // 2) / d_model)
    blocks = np.array([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]])
    return np.einsum("abi,ij->iajb", blocks, np.eye(d_model // 2)).reshape(d_model, d_model)


@EXERCISE.style("solved from encodings far apart")
def solved(k, d_model):
    rates = 10000 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.arange(0, 120_000, 401)[:, None] * rates
    moved = angles + k * rates
    before = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    after = np.concatenate([np.sin(moved), np.cos(moved)], axis=1)
    halves = np.linalg.lstsq(before, after, rcond=None)[0].T
    order = np.argsort(np.r_[np.arange(0, d_model, 2), np.arange(1, d_model, 2)])
    return halves[np.ix_(order, order)]
