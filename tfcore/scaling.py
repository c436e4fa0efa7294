"""Why attention divides by the root of d_k: the mathematics of chapter 3, in numpy.

A dot product of d_k independent components spreads like the root of d_k, and a softmax over widely spread
scores has almost no gradient. These functions measure the first and derive the second.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

Array = np.ndarray


def dot_product_stats(d_k: int, num_samples: int, rng: np.random.Generator) -> tuple[float, float]:
    r"""Measure the mean and the variance of the dot product of two random vectors.

    $q, k \sim \mathcal{N}(0, I_{d_k})$ drawn for each sample; $\mathbb{E}[q \cdot k] = 0$ and
    $\operatorname{Var}(q \cdot k) = d_k$.

    Args:
        d_k: number of components.
        num_samples: number of pairs to draw.
        rng: the generator to draw from.

    Returns:
        The mean and the variance over the samples.

    Raises:
        ValueError: d_k or num_samples below 1.

    From: Vaswani et al. (2017), *Attention Is All You Need*, footnote 4.

    >>> mean, variance = dot_product_stats(64, 100_000, np.random.default_rng(0))
    >>> print(abs(mean) < 0.2, abs(variance / 64 - 1) < 0.05)
    True True
    """
    _check_count("d_k", d_k)
    _check_count("num_samples", num_samples)
    q = rng.standard_normal((num_samples, d_k))
    k = rng.standard_normal((num_samples, d_k))
    dots = np.einsum("nd,nd->n", q, k)
    return float(dots.mean()), float(dots.var())


def dot_product_variance(
    d_k: int, var_q: float, var_k: float, mean_q: float = 0.0, mean_k: float = 0.0
) -> float:
    r"""Derive the variance of a dot product with independent components.

    $\operatorname{Var}(q \cdot k) = d_k (\sigma_q^2 \sigma_k^2 + \sigma_q^2 \mu_k^2 + \sigma_k^2 \mu_q^2)$.

    The d_k products are independent, so their variances add; for one of them
    $\operatorname{Var}(ab) = \mathbb{E}[a^2] \mathbb{E}[b^2] - \mathbb{E}[a]^2 \mathbb{E}[b]^2$.

    Args:
        d_k: number of components.
        var_q: variance of each component of q.
        var_k: variance of each component of k.
        mean_q: mean of each component of q.
        mean_k: mean of each component of k.

    Returns:
        The exact variance.

    Raises:
        ValueError: d_k below 1, or a negative variance.

    From: Goodman (1960), *On the Exact Variance of Products*, JASA 55.

    >>> dot_product_variance(64, var_q=1.0, var_k=1.0)
    64.0
    """
    _check_count("d_k", d_k)
    for name, variance in (("var_q", var_q), ("var_k", var_k)):
        if not variance >= 0:
            raise ValueError(
                f"expected {name} of 0 or more, got {variance!r}; give a variance, sigma squared"
            )
    return float(d_k * (var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2))


def softmax_jacobian(p: Float[Array, "... n"]) -> Float[Array, "... n n"]:
    r"""Differentiate softmax: the change of each weight with each score.

    $\partial p_i / \partial x_j = p_i (\delta_{ij} - p_j)$, which vanishes as p becomes one-hot.

    Args:
        p: the probabilities that softmax gave, not the scores it was given, (..., n).

    Returns:
        The Jacobian, (..., n, n).

    Raises:
        ValueError: p has no axis.

    From: Bridle (1990), *Training Stochastic Model Recognition Algorithms as Networks can Lead to Maximum
    Mutual Information Estimation of Parameters*, NeurIPS 2.

    >>> print(softmax_jacobian(np.array([0.5, 0.5])))
    [[ 0.25 -0.25]
     [-0.25  0.25]]
    """
    p = np.asarray(p)
    if p.ndim == 0:
        raise ValueError("expected p (..., n), got a single number; give all n probabilities of a row")
    identity = np.eye(p.shape[-1], dtype=p.dtype)
    return p[..., :, None] * (identity - p[..., None, :])


def attention_entropy(weights: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*rest"]:
    r"""Measure how widely a query spreads its attention, in nats.

    $H(p) = -\sum_i p_i \ln p_i$ with $0 \ln 0 = 0$: zero for one key, $\ln n$ for n keys alike.

    Args:
        weights: probabilities along ``axis``.
        axis: the axis of the keys.

    Returns:
        The entropy, in the shape of ``weights`` without ``axis``.

    Raises:
        ValueError: a weight below zero.

    From: Shannon (1948), *A Mathematical Theory of Communication*.

    >>> print(attention_entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4))
    [0.     0.6931]
    """
    weights = np.asarray(weights)
    if np.any(weights < 0):
        raise ValueError(
            f"expected weights of 0 or more, got {weights.min()!s}; give probabilities, after softmax"
        )
    log_weights = np.zeros(weights.shape, dtype=np.result_type(weights, np.float32))
    np.log(weights, out=log_weights, where=weights > 0)
    return 0.0 - np.sum(weights * log_weights, axis=axis)


def scale_for_unit_variance(d_k: int, var_q: float = 1.0, var_k: float = 1.0) -> float:
    r"""Find the factor that gives a dot product unit variance, for components of mean zero.

    $s = 1 / \sqrt{d_k \, \sigma_q^2 \, \sigma_k^2}$, so that $\operatorname{Var}(s \, q \cdot k) = 1$.

    Args:
        d_k: number of components.
        var_q: variance of each component of q.
        var_k: variance of each component of k.

    Returns:
        The factor s; $1 / \sqrt{d_k}$ for unit variances.

    Raises:
        ValueError: d_k below 1, or a variance that is not positive.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1.

    >>> scale_for_unit_variance(64)
    0.125
    """
    variance = dot_product_variance(d_k, var_q, var_k)
    if variance == 0:
        raise ValueError(
            f"expected variances above 0, got var_q={var_q!r} and var_k={var_k!r}; "
            "a dot product that never varies cannot be scaled to vary"
        )
    return 1.0 / math.sqrt(variance)


def _check_count(name: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"expected {name} of 1 or more, got {count!r}; give a positive whole number")
