"""Mistakes that people make in `shift_matrix`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch05_positions.shift_matrix import EXERCISE


@EXERCISE.misconception(
    "Your matrix is transposed: it turns the other way and moves *back* by k. Make (cos, sin) the row "
    "of the sine and (-sin, cos) the row of the cosine.",
    gravity="slip",
)
def transposed(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), -np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Both sines of each block have the same sign, so your matrix changes lengths and is not a rotation. "
    "Put a minus on the sine in the second row: cos(a + b) = cos a cos b - sin a sin b."
)
def no_minus(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "In the second row of each block the minus is at the cosine: that is a reflection, not a rotation. "
    "Put it at the sine of that row: (-sin, cos)."
)
def a_mirror(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = np.sin(angle), -np.cos(angle)
    return M


@EXERCISE.misconception(
    "You turn all pairs by the same angle k. Turn pair i by k / 10000^(2i/d_model): each pair has its "
    "own frequency."
)
def one_frequency_for_all(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        M[i, i], M[i, i + 1] = np.cos(k), np.sin(k)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(k), np.cos(k)
    return M


@EXERCISE.misconception(
    "Your frequencies are 10000^(-i/d_model). Use the exponent -2i/d_model for pair i, as in the encoding.",
    gravity="slip",
)
def i_for_2i(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000 ** (i / d_model)
        M[2 * i, 2 * i], M[2 * i, 2 * i + 1] = np.cos(angle), np.sin(angle)
        M[2 * i + 1, 2 * i], M[2 * i + 1, 2 * i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Your later pairs turn faster and faster: their angles are k times 10000^(2i/d_model). Divide k by "
    "this power, as in the encoding."
)
def multiplied_by_the_power(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k * 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "Your pairs are channels i and i + d_model/2. In this encoding the sine and the cosine of one "
    "frequency are neighbours, 2i and 2i + 1: put the blocks along the diagonal.",
    gravity="slip",
)
def sines_and_cosines_in_halves(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    C, S = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[C, S], [-S, C]])


@EXERCISE.misconception(
    "Your matrix moves *channels* to other places, as np.eye(d_model, k=k) does. Move the position "
    "instead: turn each pair of channels by k times its frequency.",
    gravity="useless",
)
def moves_channels(k, d_model):
    return np.eye(d_model, k=k)


@EXERCISE.misconception(
    "You scale each channel by cos(k w) and leave out the other channel of its pair. Write both into "
    "each row: sin(a + b) = sin a cos b + cos a sin b needs the cosine of a as well."
)
def cosines_on_the_diagonal(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.diag(np.repeat(np.cos(angles), 2))


@EXERCISE.misconception(
    "Your matrix takes position 0 to position k, but moves no other position by k. Make one "
    "that does not depend on the position: use the addition formulas for sin(a + b) and cos(a + b)."
)
def right_for_position_0_only(k, d_model):
    rates = 10000 ** (-np.arange(0, d_model, 2) / d_model)
    start, end = np.zeros(d_model), np.zeros(d_model)
    start[1::2] = 1
    end[0::2], end[1::2] = np.sin(k * rates), np.cos(k * rates)
    return np.outer(end, start) / (start @ start)


@EXERCISE.misconception(
    "For a negative k nothing moves, as in a loop over range(k), which is then empty. Put k into the "
    "angle, or step back with the transposed matrix."
)
def a_loop_of_k_steps(k, d_model):
    step = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = 1 / 10000 ** (i / d_model)
        step[i, i], step[i, i + 1] = np.cos(angle), np.sin(angle)
        step[i + 1, i], step[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    M = np.eye(d_model)
    for _ in range(k):
        M = step @ M
    return M


@EXERCISE.misconception(
    "For a negative k your matrix moves forward by |k|. Keep the sign of k and it moves back: sin(-a) = "
    "-sin(a) does the rest."
)
def sign_of_k_dropped(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = abs(k) / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.cos(angle), np.sin(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.sin(angle), np.cos(angle)
    return M


@EXERCISE.misconception(
    "You return the 2 x 2 blocks as a stack, (d_model/2, 2, 2). Put them along the diagonal of one "
    "matrix of zeros, (d_model, d_model)."
)
def blocks_not_assembled(k, d_model):
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.array([[cos, sin], [-sin, cos]]).transpose(2, 0, 1)


@EXERCISE.misconception(
    "Your blocks fill the whole matrix, so that every pair mixes with every other. Put block i at rows "
    "and columns 2i and 2i + 1, and zeros everywhere else."
)
def blocks_everywhere(k, d_model):
    M = np.zeros((d_model, d_model))
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    M[0::2, 0::2], M[0::2, 1::2] = np.cos(angles), np.sin(angles)
    M[1::2, 0::2], M[1::2, 1::2] = -np.sin(angles), np.cos(angles)
    return M


@EXERCISE.misconception(
    "Sine and cosine are exchanged: for k = 0 your matrix makes a quarter turn. Put the cosine on the "
    "diagonal.",
    gravity="slip",
)
def sine_and_cosine_exchanged(k, d_model):
    M = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        M[i, i], M[i, i + 1] = np.sin(angle), np.cos(angle)
        M[i + 1, i], M[i + 1, i + 1] = -np.cos(angle), np.sin(angle)
    return M
