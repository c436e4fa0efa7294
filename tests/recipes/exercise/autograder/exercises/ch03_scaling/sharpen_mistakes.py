"""Mistakes that people make in `sharpen`, each with the hint for its author."""

from __future__ import annotations

from autograder.exercises.ch03_scaling.sharpen import EXERCISE


@EXERCISE.misconception("You do not divide by the sum. Weights of a row sum to 1: divide by theirs.")
def not_normalised(weights, power=2.0):
    return weights**power


@EXERCISE.misconception("You always square. Use the `power` that was passed.")
def power_ignored(weights, power=2.0):
    return weights**2 / (weights**2).sum(axis=-1, keepdims=True)


@EXERCISE.misconception("You divide by the sum of all rows. Each row must sum to 1 by itself.")
def one_sum_for_all(weights, power=2.0):
    return weights**power / (weights**power).sum()


@EXERCISE.misconception("You multiply by `power`, which the division by the sum takes back. Raise to it.")
def multiplied(weights, power=2.0):
    return weights * power / (weights * power).sum(axis=-1, keepdims=True)


@EXERCISE.misconception("You normalise the columns. The weights of a row sum to 1: take axis=-1.")
def columns(weights, power=2.0):
    return weights**power / (weights**power).sum(axis=0, keepdims=True)
