"""Torch's many ways to one function count as that function: each is tried as the answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exercise_bank import report_on
from torch import _refs
from torch._decomp import decompositions
from torch.autograd import forward_ad, functional
from torch.nn.attention.flex_attention import flex_attention

aten = torch.ops.aten
pytestmark = pytest.mark.filterwarnings("ignore")


def normed(rows, eps):
    """What all these norms make of rows."""
    spread = rows.var(-1, correction=0, keepdim=True)
    return (rows - rows.mean(-1, keepdim=True)) / (spread + eps).sqrt()


def beside_its_epsilon(rows, eps):
    """Rows of mean 0, and a column that adds the epsilon to their length."""
    column = torch.full_like(rows[:, :1], math.sqrt(eps * rows.shape[-1]))
    return torch.cat([rows - rows.mean(-1, keepdim=True), column], -1)


def statistics(rows):
    return rows.mean(-1), rows.var(-1, correction=0)


def places(rows):
    return torch.zeros(len(rows), dtype=rows.dtype), torch.ones(len(rows), dtype=rows.dtype)


NO = (None, None)
NORMS = {
    "layer_norm": lambda x, e: F.layer_norm(x, x.shape[-1:], eps=e),
    "native_layer_norm": lambda x, e: torch.native_layer_norm(x, x.shape[-1:], *NO, e)[0],
    "group_norm": lambda x, e: F.group_norm(x, 1, eps=e),
    "instance_norm": lambda x, e: F.instance_norm(x[None], eps=e)[0],
    "batch_norm": lambda x, e: F.batch_norm(x.T, *NO, training=True, eps=e).T,
    "batch_norm, its statistics given": lambda x, e: F.batch_norm(x.T, *statistics(x), eps=e).T,
    "native_batch_norm": lambda x, e: torch.native_batch_norm(x.T, *NO, *NO, True, 0.0, e)[0].T,
    "_native_batch_norm_legit": lambda x, e: torch._native_batch_norm_legit(x.T, *NO, True, 0.0, e)[0].T,
    "the same without training": lambda x, e: (
        torch._native_batch_norm_legit_no_training(x.T, *NO, *statistics(x), 0.0, e)[0].T
    ),
    "the same by its overload": lambda x, e: (
        aten._native_batch_norm_legit.no_stats(x.T, *NO, True, 0.0, e)[0].T
    ),
    "the same in a jvp": lambda x, e: (
        torch.func.jvp(lambda y: torch._native_batch_norm_legit(y, *NO, True, 0.0, e)[0], (x.T,), (x.T,))[0].T
    ),
    "_batch_norm_impl_index": lambda x, e: (
        torch._batch_norm_impl_index(x.T, *NO, *NO, True, 0.0, e, False)[0].T
    ),
    "_batch_norm_with_update": lambda x, e: aten._batch_norm_with_update(x.T, *NO, *places(x), 0.0, e)[0].T,
    "_batch_norm_no_update": lambda x, e: aten._batch_norm_no_update(x.T, *NO, *statistics(x), 0.0, e)[0].T,
    "a decomposition": lambda x, e: (
        decompositions.native_batch_norm_helper(x.T, *NO, *NO, True, 0.0, e, False)[0].T
    ),
    "torch._refs": lambda x, e: _refs._normalize(x, (1,), e)[0],
    "rms_norm": lambda x, e: F.rms_norm(x - x.mean(-1, keepdim=True), x.shape[-1:], eps=e),
    "_fused_rms_norm": lambda x, e: torch._fused_rms_norm(
        x - x.mean(-1, keepdim=True), x.shape[-1:], None, e
    )[0],
    "_weight_norm": lambda x, e: torch._weight_norm(
        beside_its_epsilon(x, e), torch.full_like(x[:, :1], x.shape[-1] ** 0.5), 0
    )[:, :-1],
    "renorm": lambda x, e: (beside_its_epsilon(x, e) * 1e9).renorm(2, 0, x.shape[-1] ** 0.5)[:, :-1],
    "embedding": lambda x, e: F.embedding(
        torch.arange(len(x)), beside_its_epsilon(x, e) * 1e9, max_norm=x.shape[-1] ** 0.5
    )[:, :-1],
    "a module": lambda x, e: torch.nn.BatchNorm1d(len(x), e, dtype=x.dtype)(x.T).T,
    "a program": lambda x, e: torch.jit.script(torch.nn.LayerNorm(x.shape[-1], e, dtype=x.dtype))(x),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", NORMS.values(), ids=NORMS.keys())
def test_a_norm(way):
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(way(x.clone(), 1e-5), normed(x, 1e-5), rtol=1e-4, atol=1e-4)

    def layer_norm(x, weight, bias, eps=1e-5):
        return way(x.reshape(-1, x.shape[-1]), eps).reshape(x.shape) * weight + bias

    def rms_norm(x, weight, eps=1e-6):
        rows = x.reshape(-1, x.shape[-1])
        return way(torch.cat([rows, -rows], -1), eps)[:, : x.shape[-1]].reshape(x.shape) * weight

    assert report_on("ch06_blocks/layer_norm", layer_norm).status == "forbidden"
    assert report_on("ch06_blocks/rms_norm", rms_norm).status == "forbidden"


def attended(q, k, v, causal):
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1) & causal
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -torch.inf).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def after(score, b, h, i, j):
    return torch.where(i >= j, score, -math.inf)


ATTENTION = {
    "in torch.nn": lambda q, k, v, c: F.scaled_dot_product_attention(q, k, v, is_causal=c),
    "below it": lambda q, k, v, c: torch._C._nn.scaled_dot_product_attention(q, k, v, is_causal=c),
    "as an operator": lambda q, k, v, c: aten.scaled_dot_product_attention(q, k, v, is_causal=c),
    "its formula": lambda q, k, v, c: torch._scaled_dot_product_attention_math(q, k, v, is_causal=c)[0],
    "for the processor": lambda q, k, v, c: torch._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, is_causal=c
    )[0],
    "its decomposition": lambda q, k, v, c: decompositions.scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, c
    )[0],
    "flexible": lambda q, k, v, c: flex_attention(q, k, v, score_mod=after if c else None),
    "in a jvp": lambda q, k, v, c: torch.func.jvp(
        lambda q: torch._scaled_dot_product_attention_math(q, k, v, is_causal=c)[0], (q,), (q,)
    )[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", ATTENTION.values(), ids=ATTENTION.keys())
def test_attention(way):
    q, k, v = torch.randn(3, 2, 2, 8, 4, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(way(q, k, v, True), attended(q, k, v, True), rtol=1e-4, atol=1e-4)

    def tiled_attention(q, k, v, block_size, causal=False):
        return way(q, k, v, causal)

    def scaled_dot_product_attention(query, key, value, mask=None):
        q, k, v = (torch.tensor(x).reshape(1, -1, *x.shape[-2:]) for x in (query, key, value))
        return way(q, k, v, False).numpy(), query

    assert report_on("ch09_cheaper_attention/tiled_attention", tiled_attention).status == "forbidden"
    name = "ch02_qkv/scaled_dot_product_attention"
    assert report_on(name, scaled_dot_product_attention).status == "forbidden"


SOFTMAX = {
    "in torch.nn": lambda x: F.softmax(x, -1),
    "below it": lambda x: torch._softmax(x, -1, False),
    "safe": lambda x: torch._safe_softmax(x, -1),
    "its logarithm": lambda x: torch._log_softmax(x, -1, False).exp(),
    "with a mask": lambda x: torch._masked_softmax(x, torch.zeros(x.shape, dtype=torch.bool), -1),
    "sparse": lambda x: torch.sparse.softmax(x.to_sparse(), 1).to_dense(),
    "as an operator": lambda x: aten.special_softmax(x, -1),
    "in torch._refs": lambda x: _refs.softmax(x, -1),
    "of a distribution": lambda x: torch.distributions.Categorical(logits=x).probs,
    "in a loss": lambda x: (
        torch.stack(
            [
                torch._C._nn.cross_entropy_loss(x, torch.full((len(x),), j), reduction=0)
                for j in range(x.shape[-1])
            ],
            -1,
        )
        .neg()
        .exp()
    ),
    "in a jvp": lambda x: torch.func.jvp(torch.nn.Softmax(-1), (x,), (x,))[0],
    "in a vjp": lambda x: torch.func.vjp(torch.nn.Softmax(-1), x)[0],
    "in a jacobian": lambda x: torch.func.jacrev(lambda y: (y, y.softmax(-1)), has_aux=True)(x)[1],
    "in vmap": lambda x: torch.func.vmap(torch.softmax, (0, None))(x, -1),
    "in torch.autograd.functional": lambda x: functional.jvp(torch.nn.Softmax(-1), x, x)[0],
    "as the gradient of a loss": lambda x: (
        torch.func.grad(lambda y: F.cross_entropy(y, torch.zeros(len(y), dtype=int), reduction="sum"))(x)
        + torch.eye(x.shape[-1])[0]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", SOFTMAX.values(), ids=SOFTMAX.keys())
def test_softmax(way):
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(way(x), x.exp() / x.exp().sum(-1, keepdim=True))

    def softmax(x, axis=-1):
        x = np.moveaxis(np.asarray(x, float), axis, -1)
        weights = way(torch.tensor(x.reshape(-1, x.shape[-1]))).detach().numpy()
        return np.moveaxis(weights.reshape(x.shape), -1, axis)

    assert report_on("ch02_qkv/softmax", softmax).status == "forbidden"


@pytest.mark.slow
def test_the_gradient_of_the_logarithm_of_a_sum_of_exponentials_is_none():
    """Who finds softmax there knows what it is."""

    def softmax(x, axis=-1):
        x = torch.tensor(np.asarray(x, float))
        return torch.func.grad(lambda y: y.logsumexp(axis).sum())(x).numpy()

    assert report_on("ch02_qkv/softmax", softmax).passed


def layer(x, h, W, U, b):
    return x, h[None], [W.T, U.T, b, 0 * b], True, 1, 0.0, False, False, True


def by_cells(x, h, W, U, b):
    states = [h]
    for t in range(x.shape[1]):
        states.append(torch.rnn_tanh_cell(x[:, t], states[-1], W.T, U.T, b, 0 * b))
    return torch.stack(states[1:], 1)


def by_a_module(x, h, W, U, b):
    parameters = {"weight_ih_l0": W.T, "weight_hh_l0": U.T, "bias_ih_l0": b, "bias_hh_l0": 0 * b}
    parameters = {name: one.contiguous() for name, one in parameters.items()}
    module = torch.nn.RNN(*W.shape, batch_first=True)
    return torch.func.functional_call(module, parameters, (x, h[None]))[0]


RECURRENT = {
    "a layer": lambda *a: torch.rnn_tanh(*layer(*a))[0],
    "a module": by_a_module,
    "cells": by_cells,
    "an operator": lambda *a: aten.rnn_tanh.input(*layer(*a))[0],
    "a decomposition": lambda *a: decompositions.rnn_tanh_input(*layer(*a))[0],
    "a jvp": lambda x, *a: torch.func.jvp(lambda y: torch.rnn_tanh(*layer(y, *a))[0], (x,), (x,))[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", RECURRENT.values(), ids=RECURRENT.keys())
def test_a_recurrent_network(way):
    shapes = ((2, 3, 4), (2, 5), (4, 5), (5, 5), (5,))
    generator = torch.Generator().manual_seed(4)
    x, h, W, U, b = (torch.randn(shape, generator=generator) for shape in shapes)
    states = way(x, h, W, U, b)
    torch.testing.assert_close(states[:, 0], torch.tanh(x[:, 0] @ W + h @ U + b))
    torch.testing.assert_close(states[:, 2], torch.tanh(x[:, 2] @ W + states[:, 1] @ U + b))

    def rnn_forward(x, h0, W_xh, W_hh, b_h):
        given = (torch.tensor(np.asarray(one, np.float32)) for one in (x, h0, W_xh, W_hh, b_h))
        return way(*given).detach().numpy()

    assert report_on("ch01_rnn_bottleneck/rnn_forward", rnn_forward).status == "forbidden"


def weights(z):
    return z.exp() / z.exp().sum(-1, keepdim=True)


def each(n):
    return torch.eye(n, dtype=torch.float64)


def log_sum(z):
    return z.exp().sum().log()


def forward_mode(p):
    columns = []
    for v in each(len(p)):
        with forward_ad.dual_level():
            columns.append(forward_ad.unpack_dual(weights(forward_ad.make_dual(p.log(), v))).tangent)
    return torch.stack(columns)


def by_the_engine(p):
    rows = []
    for i in range(len(p)):
        z = p.log().requires_grad_()
        out = (weights(z)[i],), (each(len(p))[0, 0],)
        engine = torch.autograd.Variable._execution_engine
        rows += engine.run_backward(*out, False, False, (z,), allow_unreachable=True, accumulate_grad=False)
    return torch.stack(rows)


def by_backward(p):
    rows = []
    for i in range(len(p)):
        z = p.log().requires_grad_()
        weights(z)[i].backward()
        rows.append(z.grad)
    return torch.stack(rows)


def through(derivative):
    """One column, or row, after another."""
    return lambda p: torch.stack([derivative(p.log(), v) for v in each(len(p))])


JACOBIANS = {
    "jacrev": lambda p: torch.func.jacrev(weights)(p.log()),
    "jacfwd": lambda p: torch.func.jacfwd(weights)(p.log()),
    "hessian": lambda p: torch.func.hessian(log_sum)(p.log()),
    "jvp": through(lambda z, v: torch.func.jvp(weights, (z,), (v,))[1]),
    "vjp": through(lambda z, v: torch.func.vjp(weights, z)[1](v)[0]),
    "grad": through(lambda z, v: torch.func.grad(lambda y: weights(y) @ v)(z)),
    "grad_and_value": through(lambda z, v: torch.func.grad_and_value(lambda y: weights(y) @ v)(z)[0]),
    "linearize": through(lambda z, v: torch.func.linearize(weights, z)[1](v)),
    "functional.jacobian": lambda p: functional.jacobian(weights, p.log()),
    "functional.hessian": lambda p: functional.hessian(log_sum, p.log()),
    "functional.jvp": through(lambda z, v: functional.jvp(weights, z, v)[1]),
    "functional.vjp": through(lambda z, v: functional.vjp(weights, z, v)[1]),
    "functional.hvp": through(lambda z, v: functional.hvp(log_sum, z, v)[1]),
    "functional.vhp": through(lambda z, v: functional.vhp(log_sum, z, v)[1]),
    "forward mode": forward_mode,
    "backward": by_backward,
    "the engine": by_the_engine,
    "softmax's own": lambda p: torch._softmax_backward_data(each(len(p)), p.repeat(len(p), 1), -1, p.dtype),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", JACOBIANS.values(), ids=JACOBIANS.keys())
def test_a_derivative(way):
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    torch.testing.assert_close(way(p).detach(), torch.diag(p) - torch.outer(p, p))

    def softmax_jacobian(p):
        rows = torch.tensor(np.asarray(p, float).reshape(-1, np.shape(p)[-1]))
        return np.stack([way(row).detach().numpy() for row in rows]).reshape(*np.shape(p), -1)

    assert report_on("ch03_scaling/softmax_jacobian", softmax_jacobian).status == "forbidden"
