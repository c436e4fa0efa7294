"""Right answers to `dot_product_stats`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch03_scaling.dot_product_stats import EXERCISE


@EXERCISE.style("two matrices, multiplied and summed along the rows")
def rows(d_k, num_samples, rng):
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = (q * k).sum(axis=1)
    return dots.mean(), dots.var()


@EXERCISE.style("einsum, the variance with ddof=1, Python floats")
def unbiased(d_k, num_samples, rng):
    q, k = rng.normal(0.0, 1.0, size=(2, num_samples, d_k))
    dots = np.einsum("nd,nd->n", q, k)
    return float(np.mean(dots)), float(np.var(dots, ddof=1))


@EXERCISE.style("sample by sample, in a loop, keys first")
def sample_by_sample(d_k, num_samples, rng):
    dots = []
    for _ in range(num_samples):
        k = rng.standard_normal(d_k)
        q = rng.standard_normal(d_k)
        dots.append(q @ k)
    mean = sum(dots) / num_samples
    return mean, sum((dot - mean) ** 2 for dot in dots) / num_samples


@EXERCISE.style("pairs in columns, the variance as E[x^2] - E[x]^2, an array")
def columns(d_k, num_samples, rng):
    both = rng.standard_normal((d_k, num_samples, 2))
    dots = both.prod(axis=-1).sum(axis=0)
    return np.array([dots.mean(), (dots**2).mean() - dots.mean() ** 2])


@EXERCISE.style("in float32, component by component; 0-d arrays")
def component_by_component(d_k, num_samples, rng):
    dots = np.zeros(num_samples)
    for _ in range(d_k):
        q = rng.standard_normal(num_samples, dtype=np.float32)
        dots += q * rng.standard_normal(num_samples, dtype=np.float32)
    return np.asarray(dots.mean()), np.asarray(dots.var())


@EXERCISE.style("as a batch of 1x1 matrix products, np.cov")
def batched_matmul(d_k, num_samples, rng):
    q, k = (rng.normal(size=(num_samples, 1, d_k)) for _ in range(2))
    dots = (q @ np.swapaxes(k, -1, -2)).ravel()
    return np.average(dots), np.cov(dots)
