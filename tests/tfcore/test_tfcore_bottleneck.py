"""Chapter 1's mathematics against torch.nn.RNN, autograd, the longest path of a graph and plain loops."""

from __future__ import annotations

import functools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from tfcore.bottleneck import additive_attention, critical_path, gradient_norms, rnn_forward

pytestmark = pytest.mark.filterwarnings("error")
B, T, D_IN, D_H = 3, 7, 4, 5


def rnn_arguments(dtype=np.float64, B=B, T=T, d_in=D_IN, d_h=D_H, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (B, T, d_in), (B, d_h), (d_in, d_h), (d_h, d_h), (d_h,)
    return [(rng.standard_normal(shape) * 0.6).astype(dtype) for shape in shapes]


@pytest.mark.slow
def test_this_room_does_not_load_torch():
    code = "import sys, tfcore.bottleneck; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- rnn_forward


@pytest.mark.parametrize("sizes", [{}, {"T": 1}, {"B": 1, "d_in": 1, "d_h": 1}, {"T": 200}])
def test_rnn_matches_torch(sizes):
    x, h0, W_xh, W_hh, b_h = (torch.tensor(a) for a in rnn_arguments(**sizes))
    theirs = torch.nn.RNN(*W_xh.shape, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter, value in zip(theirs.parameters(), (W_xh.T, W_hh.T, b_h, 0 * b_h), strict=True):
            parameter.copy_(value)
        want, last = theirs(x, h0[None])
    h = rnn_forward(*(a.numpy() for a in (x, h0, W_xh, W_hh, b_h)))
    np.testing.assert_allclose(h, want, rtol=0, atol=1e-13)
    np.testing.assert_allclose(h[:, -1], last[0], rtol=0, atol=1e-13)


def test_rnn_step_by_step_is_rnn_at_once():
    x, h0, *weights = rnn_arguments()
    h = rnn_forward(x, h0, *weights)
    first = rnn_forward(x[:, :3], h0, *weights)
    second = rnn_forward(x[:, 3:], first[:, -1], *weights)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), h, rtol=0, atol=1e-15)


def test_rnn_keeps_its_arguments_and_float32():
    arguments = rnn_arguments(np.float32)
    before = [a.copy() for a in arguments]
    h = rnn_forward(*arguments)
    assert h.dtype == np.float32
    for a, b in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(h, rnn_forward(*(a.astype(np.float64) for a in arguments)), atol=1e-6)
    assert rnn_forward(*(np.ones_like(a, dtype=int) for a in arguments)).dtype == np.float64


# --- gradient_norms


def last_state_after(start, x, W_xh, W_hh, b_h):
    """Run the steps that follow a state in torch, so that autograd can say how the last answers to it."""
    state = start
    for token in x:
        state = torch.tanh(token @ W_xh + state @ W_hh + b_h)
    return state


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_gradient_norms_match_autograd(scale):
    x, h0, W_xh, W_hh, b_h = rnn_arguments()
    W_hh = W_hh * scale
    h = rnn_forward(x, h0, W_xh, W_hh, b_h)[1]
    norms = gradient_norms(h, W_hh)
    assert norms.shape == (T,)
    weights = [torch.tensor(a) for a in (W_xh, W_hh, b_h)]
    for t in range(T):
        rest = functools.partial(last_state_after, x=torch.tensor(x[1, t + 1 :]))
        jacobian = torch.autograd.functional.jacobian(
            lambda start, rest=rest: rest(start, W_xh=weights[0], W_hh=weights[1], b_h=weights[2]),
            torch.tensor(h[t]),
        )
        assert norms[t] == pytest.approx(torch.linalg.svdvals(jacobian)[0].item(), rel=1e-10)


def test_gradient_norms_match_finite_differences():
    x, h0, W_xh, W_hh, b_h = rnn_arguments(seed=1)
    h = rnn_forward(x, h0, W_xh, W_hh, b_h)[2]
    step = 1e-6
    for t, norm in enumerate(gradient_norms(h, W_hh)[:-1]):
        rest = np.broadcast_to(x[2, t + 1 :], (2 * D_H, T - 1 - t, D_IN))
        starts = h[t] + step * np.concatenate([np.eye(D_H), -np.eye(D_H)])
        ends = rnn_forward(rest, starts, W_xh, W_hh, b_h)[:, -1]
        jacobian = (ends[:D_H] - ends[D_H:]).T / (2 * step)
        assert norm == pytest.approx(math.sqrt(np.linalg.eigvalsh(jacobian.T @ jacobian)[-1]), rel=1e-7)


def test_gradient_norms_of_one_state_and_of_float32():
    _, _, _, W_hh, _ = rnn_arguments()
    assert gradient_norms(np.full((1, D_H), 0.3), W_hh).tolist() == [1.0]
    h = np.zeros((160, D_H), dtype=np.float32)
    norms = gradient_norms(h, np.float32(0.5) * np.eye(D_H, dtype=np.float32))
    assert norms[0] == 0.5**159  # below the smallest float32


def test_gradient_norms_stay_below_the_bound():
    x, h0, W_xh, W_hh, b_h = rnn_arguments(T=40)
    norms = gradient_norms(rnn_forward(x, h0, W_xh, W_hh, b_h)[0], W_hh)
    bound = np.linalg.norm(W_hh, 2) ** np.arange(39, -1, -1)
    assert np.all(norms <= bound * (1 + 1e-12))
    assert norms[-1] == 1


# --- critical_path


def longest_chain(seq_len, num_layers, kind):
    """Follow every dependency of every step, as a scheduler with unlimited processors would."""

    @functools.cache
    def finish(layer, t):
        below = [] if layer == 0 else [(layer - 1, s) for s in range(seq_len)]
        if kind == "rnn":
            below = [step for step in below if step[1] == t] + ([(layer, t - 1)] if t > 0 else [])
        return 1 + max((finish(*step) for step in below), default=0)

    return max(finish(layer, t) for layer in range(num_layers) for t in range(seq_len))


@pytest.mark.parametrize("kind", ["rnn", "attention"])
@pytest.mark.parametrize(("seq_len", "num_layers"), [(1, 1), (1, 5), (6, 1), (2, 2), (7, 3), (3, 7), (20, 4)])
def test_critical_path_is_the_longest_chain(seq_len, num_layers, kind):
    length = critical_path(seq_len, num_layers, kind)
    assert length == longest_chain(seq_len, num_layers, kind)
    assert type(length) is int


# --- additive_attention

D_Q, D_K, D_V, D_A = 4, 5, 6, 8


def attention_arguments(dtype=np.float64, B=B, T=T, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (B, D_Q), (B, T, D_K), (B, T, D_V), (D_Q, D_A), (D_K, D_A), (D_A,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def by_loops(query, keys, values, W_q, W_k, v, mask):
    context, weights = np.zeros((len(query), D_V)), np.zeros(mask.shape)
    for b in range(len(query)):
        seen = [t for t in range(mask.shape[1]) if mask[b, t]]
        scores = {}
        for t in seen:
            units = [
                math.tanh(
                    math.fsum(query[b, i] * W_q[i, a] for i in range(D_Q))
                    + math.fsum(keys[b, t, i] * W_k[i, a] for i in range(D_K))
                )
                for a in range(D_A)
            ]
            scores[t] = math.fsum(v[a] * units[a] for a in range(D_A))
        total = math.fsum(math.exp(s) for s in scores.values())
        for t in seen:
            weights[b, t] = math.exp(scores[t]) / total
            context[b] += weights[b, t] * values[b, t]
    return context, weights


def some_mask():
    mask = np.random.default_rng(3).random((B, T)) < 0.6
    mask[1] = False
    return mask


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("masked", [False, True])
def test_additive_attention_by_loops(masked, dtype):
    arguments = attention_arguments(dtype)
    before = [a.copy() for a in arguments]
    mask = some_mask() if masked else None
    context, weights = additive_attention(*arguments, mask=mask)
    everything = np.ones((B, T), dtype=bool)
    want, want_weights = by_loops(*arguments, everything if mask is None else mask)
    tolerance = 1e-14 if dtype == np.float64 else 3e-6
    np.testing.assert_allclose(context, want, rtol=0, atol=tolerance * 10)
    np.testing.assert_allclose(weights, want_weights, rtol=0, atol=tolerance)
    assert context.dtype == weights.dtype == dtype
    for a, b in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_empty_row_gives_zeros():
    context, weights = additive_attention(*attention_arguments(), mask=some_mask())
    assert not context[1].any()
    assert not weights[1].any()
    np.testing.assert_allclose(weights.sum(-1), [1, 0, 1])


def test_one_key_gets_all_the_weight():
    arguments = attention_arguments(T=1)
    context, weights = additive_attention(*arguments)
    np.testing.assert_array_equal(weights, np.ones((B, 1)))
    np.testing.assert_array_equal(context, arguments[2][:, 0])


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_garbage_that_the_mask_forbids_changes_nothing(garbage):
    query, keys, values, *weights = attention_arguments()
    mask = some_mask()
    want = additive_attention(query, keys, values, *weights, mask=mask)
    keys, values = (np.where(mask[..., None], a, garbage) for a in (keys, values))
    for got, clean in zip(additive_attention(query, keys, values, *weights, mask=mask), want, strict=True):
        np.testing.assert_array_equal(got, clean)


def test_scores_of_ten_thousand():
    query, keys, values, W_q, W_k, v = attention_arguments()
    context, weights = additive_attention(query, keys, values, W_q, W_k, v * 1e4)
    assert np.isfinite(context).all()
    np.testing.assert_allclose(weights.sum(-1), 1)


# --- arguments that do not fit

x, h0, W_xh, W_hh, b_h = rnn_arguments()
query, keys, values, W_q, W_k, v = attention_arguments()
full = np.ones((B, T), dtype=bool)
BAD = {
    "x of one sequence": (lambda: rnn_forward(x[0], h0, W_xh, W_hh, b_h), "x (B, T, d_in) with at least"),
    "no token": (lambda: rnn_forward(x[:, :0], h0, W_xh, W_hh, b_h), "at least one token, got (3, 0, 4)"),
    "h0 shared": (lambda: rnn_forward(x, h0[0], W_xh, W_hh, b_h), "h0 (B, d_h) = (3, 5), got (5,)"),
    "h0 a number": (lambda: rnn_forward(x, 0.0, W_xh, W_hh, b_h), "h0 (B, d_h) = (3, 5), got ()"),
    "W_xh": (lambda: rnn_forward(x, h0, W_xh.T, W_hh, b_h), "W_xh (d_in, d_h) = (4, 5), got (5, 4)"),
    "W_hh": (lambda: rnn_forward(x, h0, W_xh, W_hh[:4], b_h), "W_hh (d_h, d_h) = (5, 5), got (4, 5)"),
    "b_h": (lambda: rnn_forward(x, h0, W_xh, W_hh, b_h[None]), "b_h (d_h) = (5,), got (1, 5)"),
    "h of a batch": (lambda: gradient_norms(x, W_hh), "h (T, d_h) with at least one state, got (3, 7, 4)"),
    "no state": (lambda: gradient_norms(h0[:0], W_hh), "at least one state, got (0, 5)"),
    "W_hh of another width": (lambda: gradient_norms(x[0], W_hh), "W_hh (d_h, d_h) = (4, 4), got (5, 5)"),
    "kind": (lambda: critical_path(3, 2, "lstm"), "a kind out of rnn, attention, got 'lstm'"),
    "seq_len": (lambda: critical_path(0, 2, "rnn"), "seq_len of 1 or more, got 0"),
    "num_layers": (lambda: critical_path(3, -1, "rnn"), "num_layers of 1 or more, got -1"),
    "two queries": (
        lambda: additive_attention(query[:, None], keys, values, W_q, W_k, v),
        "query (B, d_q), keys (B, T, d_k) and values (B, T, d_v), got (3, 1, 4)",
    ),
    "batch": (
        lambda: additive_attention(query[:1], keys, values, W_q, W_k, v),
        "keys (B, T, d_k) = (1, 7, 5), got (3, 7, 5)",
    ),
    "values": (
        lambda: additive_attention(query, keys, values[:, 1:], W_q, W_k, v),
        "values (B, T, d_v) = (3, 7, 6), got (3, 6, 6)",
    ),
    "W_q": (lambda: additive_attention(query, keys, values, W_k, W_k, v), "W_q (d_q, d_a) = (4, 8)"),
    "W_k": (lambda: additive_attention(query, keys, values, W_q, W_k.T, v), "W_k (d_k, d_a) = (5, 8)"),
    "v": (
        lambda: additive_attention(query, keys, values, W_q, W_k, v[:, None]),
        "v (d_a) = (8,)",
    ),
    "mask": (
        lambda: additive_attention(query, keys, values, W_q, W_k, v, full[:, None]),
        "mask (B, T) = (3, 7), got (3, 1, 7)",
    ),
    "mask of numbers": (
        lambda: additive_attention(query, keys, values, W_q, W_k, v, full * 1.0),
        "a boolean mask, True = may attend, got dtype float64",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
