"""Linear attention: by chunks = one token after the other = the T x T weights that it never writes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from linear_time_oracle import (
    TOLERANCE,
    distance,
    elements_written,
    elu_plus_one,
    linear_attention_oracle,
    numbers,
)

import tfcore.linear_attention
from tfcore.linear_attention import linear_attention, linear_attention_carry, linear_attention_step
from tfcore.testing import AllocationMeter

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def draw(B=2, h=3, T=13, d_k=5, d_v=4, T_k=None, dtype=torch.float64, spread=1.5, grad=False):
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, h, T, d_k), (B, h, T_k or T, d_k), (B, h, T_k or T, d_v)]
    return [
        (torch.randn(shape, generator=generator, dtype=torch.float64) * spread + 0.2)
        .to(dtype)
        .requires_grad_(grad)
        for shape in shapes
    ]


def by_steps(q, k, v):
    outputs, state = [], None
    for t in range(q.shape[-2]):
        output, state = linear_attention_step(q[..., t, :], k[..., t, :], v[..., t, :], state)
        outputs.append(output)
    return torch.stack(outputs, dim=-2), state


@pytest.fixture(params=[1, 4, 13, 64])
def chunk(request, monkeypatch):
    """Chunks of one, that leave a ragged last one, that fit exactly, and larger than all."""
    monkeypatch.setattr(tfcore.linear_attention, "CHUNK", request.param)
    return request.param


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_it_matches_the_oracle(causal, dtype, chunk):
    q, k, v = draw(dtype=dtype)
    got = linear_attention(q, k, v, causal=causal)
    assert got.dtype == dtype
    assert distance(got, linear_attention_oracle(*numbers(q, k, v), causal)) <= TOLERANCE[dtype]


def test_it_is_causal_by_default():
    q, k, v = draw()
    torch.testing.assert_close(linear_attention(q, k, v), linear_attention(q, k, v, causal=True))


MUTANTS = {
    "no normaliser": {"normalise": False},
    "future included": {"first_unseen": 100},
    "one step into the future": {"first_unseen": 2},
    "without the token itself": {"first_unseen": 0},
    "no features of q": {"phi_q": lambda x: x},
    "no features of k": {"phi_k": lambda x: x},
    "elu without the one": {f"phi_{x}": lambda x: elu_plus_one(x) - 1 for x in "qk"},
    "relu": {f"phi_{x}": lambda x: np.maximum(x, 0) for x in "qk"},
    "exp": {f"phi_{x}": np.exp for x in "qk"},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_tells_mutants_apart(name):
    inputs = numbers(*draw())
    with np.errstate(divide="ignore", invalid="ignore"):
        mutant = linear_attention_oracle(*inputs, True, **MUTANTS[name])
    assert distance(mutant, linear_attention_oracle(*inputs, True)) > 0.01


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_give_what_chunks_give_and_leave_the_same_state(dtype, chunk):
    q, k, v = draw(dtype=dtype)
    output, state = by_steps(q, k, v)
    want, want_state = linear_attention_carry(q, k, v)
    assert output.dtype == dtype
    assert distance(output, numbers(want)[0]) <= TOLERANCE[dtype]
    for got, expected in zip(state, want_state, strict=True):
        assert got.dtype == expected.dtype == torch.promote_types(dtype, torch.float32)
        assert distance(got, numbers(expected)[0]) <= TOLERANCE[got.dtype]


def test_a_state_goes_on_where_it_was_left(chunk):
    q, k, v = draw()
    outputs, state = [], None
    for part in (slice(0, 1), slice(1, 6), slice(6, 13)):
        output, state = linear_attention_carry(q[..., part, :], k[..., part, :], v[..., part, :], state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=-2), linear_attention(q, k, v))


def test_leading_axes_are_free_and_lengths_may_differ_unless_causal():
    q, k, v = draw(T=6, T_k=9)
    got = linear_attention(q, k, v, causal=False)
    assert distance(got, linear_attention_oracle(*numbers(q, k, v), False)) <= 1e-13
    torch.testing.assert_close(linear_attention(q[1, 2], k[1, 2], v[1, 2], causal=False), got[1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_gradients(causal, monkeypatch):
    monkeypatch.setattr(tfcore.linear_attention, "CHUNK", 3)
    q, k, v = draw(B=1, h=2, T=7, d_k=3, d_v=2, grad=True)
    assert torch.autograd.gradcheck(lambda *x: linear_attention(*x, causal=causal), (q, k, v))
    if causal:
        assert torch.autograd.gradcheck(lambda *x: by_steps(*x)[0], (q, k, v))


@pytest.mark.parametrize("causal", [True, False])
def test_extreme_inputs_give_neither_nan_nor_infinity(causal):
    q, k, v = draw(dtype=torch.float32, spread=1e4, grad=True)
    output = linear_attention(q, k, v, causal=causal)
    output.sum().backward()
    assert all(x.isfinite().all() for x in (output, q.grad, k.grad, v.grad))
    low = torch.full((1, 1, 3, 2), -1e3, requires_grad=True)
    output = linear_attention(low, low, low, causal=causal)
    output.sum().backward()
    assert (output == 0).all()  # all weights underflow
    assert low.grad.isfinite().all()


def test_features_below_zero_keep_their_precision():
    q, k, v = draw(dtype=torch.float32)
    q, k = q - 25, k - 25  # elu + 1 in float32 is 0 here
    got = linear_attention(q, k, v)
    assert distance(got, linear_attention_oracle(*numbers(q, k, v), True)) <= 5e-6


def test_no_score_matrix_is_ever_written():
    q, k, v = draw(B=1, h=2, T=1024, d_k=8, d_v=6, dtype=torch.float32, grad=True)
    with AllocationMeter() as meter:
        linear_attention(q, k, v).sum().backward()
    assert meter.largest_elements <= 2 * 1024 * 8  # as large as q
    with AllocationMeter() as meter, torch.no_grad():
        linear_attention(q, k, v, causal=False)
    assert meter.largest_elements <= 2 * 1024 * 8


def test_cost_grows_linearly_forward_and_backward():
    def cost(T):
        q, k, v = draw(B=1, h=1, T=T, dtype=torch.float32, grad=True)
        return elements_written(lambda: linear_attention(q, k, v))

    assert cost(1024) <= 2.05 * cost(512)


def test_a_step_costs_the_same_at_every_position():
    q, k, v = (x[..., 0, :] for x in draw(T=1))
    _, early = linear_attention_step(q, k, v)
    late = early
    for _ in range(50):
        _, late = linear_attention_step(q, k, v, late)

    def cost(state):
        return elements_written(lambda: linear_attention_step(q, k, v, state)[0], backward=False)

    assert cost(early) == cost(late)


def test_no_input_changes():
    inputs = draw()
    before = [x.clone() for x in inputs]
    _, state = linear_attention_carry(*inputs)
    kept = [x.clone() for x in state]
    linear_attention_carry(*inputs, state)
    linear_attention_step(*(x[..., 0, :] for x in inputs), state)
    assert all(torch.equal(x, y) for x, y in zip([*inputs, *state], [*before, *kept], strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q[0], k, v), "as many axes"),
        (lambda q, k, v: (q, k[:, :1], v), "same leading axes"),
        (lambda q, k, v: (q, k, v[..., 1:, :]), "one value per key"),
        (lambda q, k, v: (q, k[..., 1:], v), "one width"),
        (lambda q, k, v: (q[..., 1:, :], k, v), "linear_attention_carry"),
    ],
)
def test_bad_input_is_told_as_such(change, message):
    with pytest.raises(ValueError, match=message):
        linear_attention(*change(*draw()))


def test_the_state_of_another_batch_is_refused():
    q, k, v = draw()
    _, state = linear_attention_carry(q, k, v)
    with pytest.raises(ValueError, match="expected a state of memory"):
        linear_attention_carry(q[:1], k[:1], v[:1], state)
    with pytest.raises(ValueError, match="expected a state of memory"):
        linear_attention_step(q[:1, :, 0], k[:1, :, 0], v[:1, :, 0], state)
    with pytest.raises(ValueError, match="same leading axes"):
        linear_attention_step(q[:, :, 0], k[:1, :, 0], v[:, :, 0])
    with pytest.raises(ValueError, match="none empty"):
        linear_attention(q[..., :0, :], k[..., :0, :], v[..., :0, :])
