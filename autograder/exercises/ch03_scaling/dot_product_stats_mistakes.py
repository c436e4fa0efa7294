"""Mistakes that people make in `dot_product_stats`, each with the hint for its author."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.dot_product_stats import EXERCISE


@EXERCISE.misconception(
    "You draw one query, or one key, for all samples. Then you measure how far dot products with *that* "
    "vector spread, |q|^2, which differs from query to query: draw a new q and k for every sample."
)
def one_query_for_all(d_k, num_samples, rng):
    q = rng.standard_normal(d_k)
    k = rng.standard_normal((num_samples, d_k))
    dots = k @ q
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your variance is 1 whatever d_k is: you have divided by sqrt(d_k) already. Measure q . k itself; its "
    "spread is the reason for the scale."
)
def scaled_already(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1) / np.sqrt(d_k)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You take the variance of the single products q_i k_i, which is 1. Add up the d_k products of each "
    "pair first: one dot product per sample."
)
def products_not_summed(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    return (q * k).mean(), (q * k).var()


@EXERCISE.misconception(
    "d_k and num_samples are exchanged: in what you draw, or in the axis that you sum along. One sample "
    "is one row of d_k numbers: sum along the row."
)
def sizes_swapped(d_k, num_samples, rng):
    q = rng.standard_normal((d_k, num_samples))
    k = rng.standard_normal((d_k, num_samples))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your key is the query itself, so you measure |q|^2, which is never negative and has mean d_k. Draw k "
    "separately from q."
)
def key_is_query(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    dots = (q * q).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You return the standard deviation. The variance is its square: dots.var().",
    gravity="slip",
)
def standard_deviation(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.std()


@EXERCISE.misconception(
    "You return the variance first. The order is mean, variance: `return dots.mean(), dots.var()`.",
    gravity="slip",
)
def variance_first(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.var(), dots.mean()


@EXERCISE.misconception(
    "You draw uniform numbers between 0 and 1, whose mean is 0.5. The components are standard normal: "
    "rng.standard_normal(...)."
)
def uniform_components(d_k, num_samples, rng):
    q = rng.random((num_samples, d_k))
    k = rng.random((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You compare every query with every key. That makes num_samples^2 dot products that share their vectors: "
    "pair row i of q with row i of k, (q * k).sum(axis=1)."
)
def every_pair(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = q @ k.T
    return dots.mean(), dots.var()


@EXERCISE.misconception("You always draw 500 samples, however many were asked for. Use num_samples.")
def always_500_samples(d_k, num_samples, rng):
    q = rng.standard_normal((500, d_k))
    k = rng.standard_normal((500, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You return the values of theory, 0 and d_k. Measure them here: draw the vectors, and see whether "
    "theory is right.",
    gravity="useless",
)
def theory_returned(d_k, num_samples, rng):
    return 0.0, float(d_k)


@EXERCISE.misconception(
    "Every caller gets the same sample, as from a generator with a fixed seed. Draw from the rng that is "
    "passed."
)
def seed_of_its_own(d_k, num_samples, rng):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "The same rng gives another result each time: np.random.randn, for example, draws from numpy's global "
    "state. Call the methods of the rng that is passed."
)
def global_state(d_k, num_samples, rng):
    q = np.random.randn(num_samples, d_k)
    k = np.random.randn(num_samples, d_k)
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "`randn` is a function of the old np.random. `rng` is a Generator: its method is "
    "rng.standard_normal(size), or rng.normal(size=size)."
)
def randn_of_the_generator(d_k, num_samples, rng):
    q = rng.randn(num_samples, d_k)
    k = rng.randn(num_samples, d_k)
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw components of +1 and -1. Mean and variance are the same, but the dot product of normal "
    "vectors can take any value: draw with rng.standard_normal(...)."
)
def plus_or_minus_one(d_k, num_samples, rng):
    q = rng.choice([-1.0, 1.0], size=(num_samples, d_k))
    k = rng.choice([-1.0, 1.0], size=(num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw the dot products themselves, with the variance d_k that you are to find. Draw q and k, and "
    "multiply them: then the variance is measured, not put in."
)
def dot_products_drawn(d_k, num_samples, rng):
    dots = rng.normal(0.0, np.sqrt(d_k), size=num_samples)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "You draw only half of num_samples pairs. One sample is one dot product, and it takes a q *and* a k: "
    "draw num_samples of each."
)
def half_of_the_samples(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples // 2, d_k))
    k = rng.standard_normal((num_samples // 2, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your queries are the same in every call, as a generator with a fixed seed gives them, and only the "
    "keys are new. Draw both from the rng that is passed."
)
def queries_of_a_fixed_seed(d_k, num_samples, rng):
    q = np.random.default_rng(0).standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.misconception(
    "Your variance is the mean of the squares. Subtract the mean before you square: dots.var(), or ((dots "
    "- dots.mean()) ** 2).mean().",
    gravity="slip",
)
def mean_not_subtracted(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), (dots**2).mean()
