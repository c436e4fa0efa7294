"""What a recurrent network loses over distance: the mathematics of chapter 1, in numpy.

An RNN hands everything it has read from step to step in one state. The gradient shrinks or grows with each
step, the steps have to wait for each other, and a sentence must fit into one vector; additive attention was
the first way around that vector.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from tfcore.ops import softmax

Array = np.ndarray


def rnn_forward(
    x: Float[Array, "B T d_in"],
    h0: Float[Array, "B d_h"],
    W_xh: Float[Array, "d_in d_h"],
    W_hh: Float[Array, "d_h d_h"],
    b_h: Float[Array, " d_h"],
) -> Float[Array, "B T d_h"]:
    r"""Read a sequence token by token into a state.

    $h_t = \tanh(x_t W_{xh} + h_{t-1} W_{hh} + b_h)$.

    Args:
        x: the sequences, (B, T, d_in).
        h0: the state before the first token, (B, d_h).
        W_xh: how a token enters the state, (d_in, d_h).
        W_hh: how the state before enters the state, (d_h, d_h).
        b_h: bias, (d_h,).

    Returns:
        The state after each token, (B, T, d_h).

    Raises:
        ValueError: shapes that do not fit, or sequences without a token.

    From: Elman (1990), *Finding Structure in Time*, Cognitive Science 14.

    >>> x, W_xh, W_hh = np.ones((1, 3, 1)), np.array([[1.0]]), np.array([[0.0]])
    >>> print(rnn_forward(x, np.zeros((1, 1)), W_xh, W_hh, b_h=np.array([-1.0])).ravel())
    [0. 0. 0.]
    """
    x, h0, W_xh, W_hh, b_h = (np.asarray(a) for a in (x, h0, W_xh, W_hh, b_h))
    if x.ndim != 3 or x.shape[1] == 0:
        raise ValueError(
            f"expected x (B, T, d_in) with at least one token, got {x.shape}; "
            "one sequence alone goes in as x[None]"
        )
    (B, T, d_in), d_h = x.shape, b_h.size
    axes = {"h0": "B d_h", "W_xh": "d_in d_h", "W_hh": "d_h d_h", "b_h": "d_h"}
    _check_shapes(axes, (h0, W_xh, W_hh, b_h), B=B, d_in=d_in, d_h=d_h)

    state, states = h0, []
    for t in range(T):
        state = np.tanh(x[:, t] @ W_xh + state @ W_hh + b_h)  # (B, d_h)
        states.append(state)
    return np.stack(states, axis=1)  # (B, T, d_h)


def gradient_norms(h: Float[Array, "T d_h"], W_hh: Float[Array, "d_h d_h"]) -> Float[Array, " T"]:
    r"""Measure how much of each state is still felt in the last one.

    $\left\| \partial h_T / \partial h_t \right\|_2 = \left\| J_T J_{T-1} \cdots J_{t+1} \right\|_2$ with
    $J_s = \partial h_s / \partial h_{s-1} = \operatorname{diag}(1 - h_s^2) \, W_{hh}^\top$.

    The norm is the spectral one: by how much the strongest of all small changes to $h_t$ arrives in $h_T$.
    It is at most $\sigma_{\max}(W_{hh})^{T-t}$, for $1 - h_s^2$ never exceeds 1. Computed in float64, where a
    vanishing gradient stays above zero for longer.

    Args:
        h: the states of one sequence, as ``rnn_forward`` gives them, (T, d_h).
        W_hh: the weights from state to state, (d_h, d_h).

    Returns:
        One norm per state, (T,), the last one being 1.

    Raises:
        ValueError: shapes that do not fit, or no state.

    From: Bengio, Simard and Frasconi (1994), *Learning Long-Term Dependencies with Gradient Descent Is
    Difficult*; Pascanu, Mikolov and Bengio (2013), *On the Difficulty of Training Recurrent Neural Networks*.

    >>> print(gradient_norms(np.zeros((4, 2)), 0.5 * np.eye(2)))
    [0.125 0.25  0.5   1.   ]
    """
    h, W_hh = np.asarray(h, dtype=np.float64), np.asarray(W_hh, dtype=np.float64)
    if h.ndim != 2 or h.size == 0:
        raise ValueError(
            f"expected h (T, d_h) with at least one state, got {h.shape}; "
            "give the states of one sequence, such as h[0] of a batch"
        )
    T, d_h = h.shape
    _check_shapes({"W_hh": "d_h d_h"}, (W_hh,), d_h=d_h)

    from_here = np.eye(d_h)  # dh_T/dh_t, which grows by one factor on its right for each step back
    norms = np.ones(T)
    for t in range(T - 2, -1, -1):
        step = (1 - h[t + 1] ** 2)[:, None] * W_hh.T  # dh_{t+1}/dh_t, (d_h, d_h)
        from_here = from_here @ step
        norms[t] = np.linalg.norm(from_here, ord=2)
    return norms


def critical_path(seq_len: int, num_layers: int, kind: str) -> int:
    r"""Count the layer steps that have to wait for each other, however many processors there are.

    $T + L - 1$ for an RNN, where step t of layer l needs step t - 1 of its layer and step t of the layer
    below, so that the layers can work side by side, each one step behind the one below it; $L$ for attention,
    where it needs the layer below alone.

    Args:
        seq_len: number of tokens, T.
        num_layers: number of layers, L.
        kind: ``"rnn"`` or ``"attention"``.

    Returns:
        The length of the longest chain of steps in which each step needs the step before it.

    Raises:
        ValueError: another kind, or a length or number of layers below 1.

    From: Vaswani et al. (2017), *Attention Is All You Need*, table 1 (sequential operations).

    >>> critical_path(100, 4, "rnn"), critical_path(100, 4, "attention")
    (103, 4)
    """
    for name, count in (("seq_len", seq_len), ("num_layers", num_layers)):
        if count < 1:
            raise ValueError(f"expected {name} of 1 or more, got {count!r}; give a positive whole number")
    lengths = {"rnn": seq_len + num_layers - 1, "attention": num_layers}
    if kind not in lengths:
        raise ValueError(f"expected a kind out of {', '.join(lengths)}, got {kind!r}; name one of these")
    return lengths[kind]


def additive_attention(
    query: Float[Array, "B d_q"],
    keys: Float[Array, "B T d_k"],
    values: Float[Array, "B T d_v"],
    W_q: Float[Array, "d_q d_a"],
    W_k: Float[Array, "d_k d_a"],
    v: Float[Array, " d_a"],
    mask: Bool[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B d_v"], Float[Array, "B T"]]:
    r"""Give a query the mean of the values, weighted by how a small network rates their keys.

    $s_t = v \cdot \tanh(q W_q + k_t W_k)$, the weights are $a = \operatorname{softmax}(s)$ and the context is
    the sum of $a_t$ times the value at t.

    A query that may attend to nothing gets zero weights and a zero context. What a key or a value holds that
    the mask forbids, NaN included, changes nothing.

    Args:
        query: one for each sequence, (B, d_q); in translation the state of the decoder.
        keys: (B, T, d_k); in translation the states of the encoder.
        values: (B, T, d_v); in translation the keys again.
        W_q: query weights, (d_q, d_a).
        W_k: key weights, (d_k, d_a).
        v: weights of the d_a hidden units in the score, (d_a,).
        mask: boolean, (B, T); True means that the query may attend to the key.

    Returns:
        The context (B, d_v) and the weights (B, T).

    Raises:
        ValueError: shapes that do not fit, or a mask that is not boolean.

    From: Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align and
    Translate*.

    >>> query, keys, values = np.zeros((1, 1)), np.zeros((1, 2, 1)), np.array([[[10.0], [20.0]]])
    >>> context, weights = additive_attention(query, keys, values, np.eye(1), np.eye(1), np.ones(1))
    >>> print(context, weights)
    [[15.]] [[0.5 0.5]]
    """
    query, keys, values, W_q, W_k, v = (np.asarray(a) for a in (query, keys, values, W_q, W_k, v))
    if query.ndim != 2 or keys.ndim != 3 or values.ndim != 3:
        raise ValueError(
            f"expected query (B, d_q), keys (B, T, d_k) and values (B, T, d_v), got {query.shape}, "
            f"{keys.shape} and {values.shape}; one sequence alone goes in with x[None]"
        )
    mask = np.ones(keys.shape[:2], dtype=bool) if mask is None else np.asarray(mask)
    axes = {
        "keys": "B T d_k",
        "values": "B T d_v",
        "W_q": "d_q d_a",
        "W_k": "d_k d_a",
        "v": "d_a",
        "mask": "B T",
    }
    (B, d_q), (T, d_k), d_v, d_a = query.shape, keys.shape[1:], values.shape[-1], v.size
    _check_shapes(axes, (keys, values, W_q, W_k, v, mask), B=B, T=T, d_q=d_q, d_k=d_k, d_v=d_v, d_a=d_a)
    if mask.dtype != np.bool_:
        raise ValueError(
            f"expected a boolean mask, True = may attend, got dtype {mask.dtype}; "
            "convert it, for 0 and 1 with mask.astype(bool)"
        )

    keys, values = (np.where(mask[..., None], a, 0) for a in (keys, values))  # because 0 * NaN is NaN
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v  # (B, 1, d_a) + (B, T, d_a), then (B, T)
    weights = softmax(np.where(mask, scores, -np.inf))
    return np.einsum("bt,btd->bd", weights, values), weights  # (B, d_v), (B, T)


def _check_shapes(axes: dict[str, str], arrays: tuple[Array, ...], **sizes: int) -> None:
    """Refuse an array without the axes that its signature names."""
    for (name, names), array in zip(axes.items(), arrays, strict=True):
        expected = tuple(sizes[axis] for axis in names.split())
        if array.shape != expected:
            raise ValueError(
                f"expected {name} ({', '.join(names.split())}) = {expected}, got {array.shape}; "
                "make it fit the other arguments (is it transposed?)"
            )
