"""Attention in numpy: the mathematics of chapter 2, written to be read.

Every function takes any number of leading axes, never changes its inputs, and keeps float32 or float64.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray


def softmax(x: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    r"""Turn scores into weights that are positive and sum to one.

    $p_i = e^{x_i} / \sum_j e^{x_j}$, computed as $e^{x_i - \max x} / \sum_j e^{x_j - \max x}$.

    Subtracting the maximum changes nothing in exact arithmetic and keeps ``exp`` from overflowing.
    A score of ``-inf`` gets weight zero, and a row that holds nothing else is all zeros.

    Args:
        x: scores, of any shape.
        axis: the axis along which the weights sum to one.

    Returns:
        The weights, in the shape of ``x``.

    From: Bridle (1990), *Training Stochastic Model Recognition Algorithms as Networks can Lead to Maximum
    Mutual Information Estimation of Parameters*, NeurIPS 2.

    >>> weights = softmax(np.array([1e4, 1e4, -1e4]))
    >>> print(weights)
    [0.5 0.5 0. ]
    """
    x = np.asarray(x)
    if x.size == 0:
        return np.exp(x)  # no scores, no weights
    peak = np.max(x, axis=axis, keepdims=True)
    exp = np.exp(x - np.where(np.isneginf(peak), 0.0, peak))
    total = np.sum(exp, axis=axis, keepdims=True)
    return np.divide(exp, total, out=np.zeros_like(exp), where=total != 0)


def project_qkv(
    x: Float[Array, "... T d_model"],
    W_q: Float[Array, "d_model d_k"],
    W_k: Float[Array, "d_model d_k"],
    W_v: Float[Array, "d_model d_v"],
) -> tuple[Float[Array, "... T d_k"], Float[Array, "... T d_k"], Float[Array, "... T d_v"]]:
    r"""Ask each token for its query, its key and its value.

    $Q = X W_q, \; K = X W_k, \; V = X W_v$.

    Args:
        x: one vector per token, (..., T, d_model).
        W_q: query weights, (d_model, d_k).
        W_k: key weights, (d_model, d_k).
        W_v: value weights, (d_model, d_v).

    Returns:
        query (..., T, d_k), key (..., T, d_k) and value (..., T, d_v).

    Raises:
        ValueError: a weight is not a matrix with d_model rows.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.

    >>> x = np.ones((3, 4))
    >>> q, k, v = project_qkv(x, np.eye(4, 2), np.eye(4, 2), np.eye(4, 5))
    >>> print(q.shape, k.shape, v.shape)
    (3, 2) (3, 2) (3, 5)
    """
    x, W_q, W_k, W_v = np.asarray(x), np.asarray(W_q), np.asarray(W_k), np.asarray(W_v)
    for name, weight in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v)):
        if weight.ndim != 2 or x.ndim < 2 or weight.shape[0] != x.shape[-1]:
            raise ValueError(
                f"expected x (..., T, d_model) and {name} (d_model, d), got x {x.shape} and {name} "
                f"{weight.shape}; give {name} as many rows as x has columns (is it transposed?)"
            )
    return x @ W_q, x @ W_k, x @ W_v


def attention_scores(
    query: Float[Array, "... T_q d_k"], key: Float[Array, "... T_k d_k"]
) -> Float[Array, "... T_q T_k"]:
    r"""Compare every query with every key.

    $S = Q K^\top / \sqrt{d_k}$.

    Args:
        query: (..., T_q, d_k).
        key: (..., T_k, d_k).

    Returns:
        The scaled scores, (..., T_q, T_k): row i has the scores of query i with each key.

    Raises:
        ValueError: query and key differ in width, or their leading axes do not broadcast.

    From: Vaswani et al. (2017), *Attention Is All You Need*, equation 1.

    >>> tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> scores = attention_scores(tokens, tokens)
    >>> print(scores.round(2)[2])
    [0.71 0.71 1.41]
    """
    query, key = np.asarray(query), np.asarray(key)
    _check_query_key(query, key)
    return query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])  # (..., T_q, T_k)


def scaled_dot_product_attention(
    query: Float[Array, "... T_q d_k"],
    key: Float[Array, "... T_k d_k"],
    value: Float[Array, "... T_k d_v"],
    mask: Bool[Array, "*#batch #T_q #T_k"] | None = None,
) -> tuple[Float[Array, "... T_q d_v"], Float[Array, "... T_q T_k"]]:
    r"""Give each query the mean of the values, weighted by how well their keys match it.

    $\operatorname{softmax}(Q K^\top / \sqrt{d_k}) \, V$.

    A query that may attend to nothing gets zero weights and a zero output. What a key holds that no query
    may attend to, NaN included, changes nothing.

    Args:
        query: (..., T_q, d_k).
        key: (..., T_k, d_k).
        value: (..., T_k, d_v).
        mask: boolean, broadcastable to (..., T_q, T_k); True means that the query may attend to the key.

    Returns:
        The output (..., T_q, d_v) and the weights (..., T_q, T_k).

    Raises:
        ValueError: shapes that do not fit, or a mask that is not boolean.

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1.

    >>> tokens, causal = np.eye(3), np.tril(np.ones((3, 3), dtype=bool))
    >>> output, weights = scaled_dot_product_attention(tokens, tokens, tokens, mask=causal)
    >>> print(weights[0])
    [1. 0. 0.]
    """
    query, key, value = np.asarray(query), np.asarray(key), np.asarray(value)
    _check_query_key(query, key)
    _check_value(key, value)
    if mask is None:
        weights = softmax(attention_scores(query, key))
        return weights @ value, weights

    mask = _checked_mask(mask, query, key)
    attended = np.expand_dims(mask.any(axis=-2), -1)  # (..., T_k, 1)
    key, value = np.where(attended, key, 0), np.where(attended, value, 0)  # because 0 * NaN is NaN
    weights = softmax(np.where(mask, attention_scores(query, key), -np.inf))
    return weights @ value, weights


def soft_lookup(
    query: Float[Array, " d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n d_v"],
    temperature: float,
) -> Float[Array, " d_v"]:
    r"""Look a query up in a dictionary whose keys match by degree.

    $\sum_i \operatorname{softmax}_i(k_i \cdot q / \tau) \, v_i$, which tends to the best key's value as
    $\tau \to 0$ and to the mean of all values as $\tau \to \infty$.

    Args:
        query: (d,).
        keys: (n, d), one key per entry.
        values: (n, d_v), one value per entry.
        temperature: tau, above zero.

    Returns:
        The blended value, (d_v,).

    Raises:
        ValueError: a temperature that is not a positive number, or shapes that do not fit.

    From: Graves, Wayne and Danihelka (2014), *Neural Turing Machines*, section 3.3.1 (content addressing).

    >>> keys, values = np.eye(2), np.array([[10.0], [20.0]])
    >>> print(soft_lookup(np.array([1.0, 0.0]), keys, values, temperature=0.01))
    [10.]
    """
    query, keys, values = np.asarray(query), np.asarray(keys), np.asarray(values)
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"expected a finite temperature above 0, got {temperature!r}; "
            "for the best key's value alone use a small one such as 1e-3"
        )
    if query.ndim != 1 or keys.ndim != 2 or keys.shape[1] != query.shape[0]:
        raise ValueError(
            f"expected query (d,) and keys (n, d), got {query.shape} and {keys.shape}; "
            "look up one query at a time, as wide as the keys"
        )
    if values.ndim != 2 or values.shape[0] != keys.shape[0]:
        raise ValueError(
            f"expected values (n, d_v) with one row per key, got {values.shape} for {keys.shape[0]} keys; "
            "give each key its value"
        )
    scores = keys @ query
    with np.errstate(over="ignore"):  # a gap that is too large for a float is -inf, whose weight is 0
        return softmax((scores - scores.max()) / temperature) @ values  # (n,) @ (n, d_v) = (d_v,)


def _check_query_key(query: Array, key: Array) -> None:
    if query.ndim < 2 or key.ndim < 2:
        raise ValueError(
            f"expected query (..., T_q, d_k) and key (..., T_k, d_k), got {query.shape} and {key.shape}; "
            "add the missing axis, for one token with x[None, :]"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"expected query and key of the same width d_k, got {query.shape} and {key.shape}; "
            "project both to the same last axis"
        )
    _broadcast("query and key", query.shape[:-2], key.shape[:-2])


def _check_value(key: Array, value: Array) -> None:
    if value.ndim < 2 or value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"expected one value per key, value (..., T_k, d_v) for key {key.shape}, got {value.shape}; "
            "give key and value the same length T_k"
        )
    _broadcast("key and value", key.shape[:-2], value.shape[:-2])


def _checked_mask(mask: Array, query: Array, key: Array) -> Array:
    mask = np.asarray(mask)
    if mask.dtype != np.bool_:
        raise ValueError(
            f"expected a boolean mask, True = may attend, got dtype {mask.dtype}; "
            "convert it, for 0 and 1 with mask.astype(bool)"
        )
    leading = _broadcast("query and key", query.shape[:-2], key.shape[:-2])
    shape = (*leading, query.shape[-2], key.shape[-2])
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(
            f"expected a mask that broadcasts to (..., T_q, T_k) = {shape}, got {mask.shape}; "
            "a mask of padded keys (B, T_k) needs its query axis: mask[:, None, :]"
        ) from None


def _broadcast(names: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"expected leading axes of {names} that broadcast, got {' and '.join(map(str, shapes))}; "
            "make them equal, or 1 where one is shared"
        ) from None
