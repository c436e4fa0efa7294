"""Mamba-2's state space: the recurrence = attention with decays = chunks = the definition in loops."""

from __future__ import annotations

import os

import pytest
import torch
from linear_time_oracle import TOLERANCE, distance, elements_written, numbers, ssd_oracle

from tfcore.selective_scan import selective_scan
from tfcore.state_space_duality import ssd_attention, ssd_carry, ssd_chunked, ssd_recurrent, ssd_step
from tfcore.testing import AllocationMeter

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
CHUNKS = [1, 4, 11, 64]  # of one, with a ragged last one, that fits exactly, and larger than all
FORMS = {
    "recurrence": ssd_recurrent,
    "attention": ssd_attention,
    **{f"chunks of {size}": lambda *x, size=size: ssd_chunked(*x, chunk_size=size) for size in CHUNKS},
}


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def draw(batch=2, T=11, h=3, p=2, N=4, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    delta, A = normal(batch, T, h).exp() / 2, -normal(h).exp()
    inputs = [normal(batch, T, h, p) + 0.5, delta, A, normal(batch, T, N), normal(batch, T, N)]
    return [x.to(dtype).requires_grad_(grad) for x in inputs]


def cut(inputs, start, stop):
    return [x if x.ndim == 1 else x[:, start:stop] for x in inputs]


def by_steps(x, delta, A, B, C, state=None):
    outputs = []
    for t in range(x.shape[1]):
        output, state = ssd_step(x[:, t], delta[:, t], A, B[:, t], C[:, t], state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_form_matches_the_oracle(form, dtype):
    inputs = draw(dtype=dtype)
    got = form(*inputs)
    assert got.dtype == dtype
    assert distance(got, ssd_oracle(*numbers(*inputs))) <= TOLERANCE[dtype]


MUTANTS = {
    "x not discretised": {"drive": lambda delta, x, B: x[:, None] * B},
    "the token itself left out": {"read": lambda before, H, C: before @ C},
    "the new value decays as well": {"decay_after": True},
}
EXCHANGES = {
    "B and C exchanged": lambda x, delta, A, B, C: (x, delta, A, C, B),
    "memories that grow": lambda x, delta, A, B, C: (x, delta, -A, B, C),
    "no decay": lambda x, delta, A, B, C: (x, delta, 0 * A, B, C),
    "one rate for all heads": lambda x, delta, A, B, C: (x, delta, 0 * A + A.mean(), B, C),
    "step sizes ignored": lambda x, delta, A, B, C: (x, 0 * delta + 1, A, B, C),
}


@pytest.mark.parametrize("name", [*MUTANTS, *EXCHANGES])
def test_the_oracle_tells_mutants_apart(name):
    inputs = numbers(*draw())
    exchanged = EXCHANGES.get(name, lambda *x: x)(*inputs)
    mutant = ssd_oracle(*exchanged, **MUTANTS.get(name, {}))
    assert distance(mutant, ssd_oracle(*inputs)) > 0.01


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_leave_the_state_that_chunks_leave(dtype, chunk_size):
    inputs = draw(dtype=dtype)
    output, state = by_steps(*inputs)
    want, want_state = ssd_carry(*inputs, chunk_size=chunk_size)
    assert output.dtype == dtype
    assert distance(output, numbers(want)[0]) <= TOLERANCE[dtype]
    assert state.shape == (2, 3, 2, 4)  # (B, h, p, N)
    assert state.dtype == want_state.dtype == torch.promote_types(dtype, torch.float32)
    assert distance(state, numbers(want_state)[0]) <= TOLERANCE[state.dtype]


def test_a_state_goes_on_where_it_was_left_in_either_form():
    inputs = draw()
    outputs, state = [], None
    for carry, start, stop in ((ssd_carry, 0, 4), (by_steps, 4, 6), (ssd_carry, 6, 11)):
        output, state = carry(*cut(inputs, start, stop), state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=1), ssd_chunked(*inputs))


def test_the_beginning_of_a_text_does_not_depend_on_its_end(form):
    inputs = draw()
    for T in range(1, 11):
        torch.testing.assert_close(form(*cut(inputs, 0, T)), form(*inputs)[:, :T])


# --- relations to its neighbours


def test_heads_of_width_one_are_a_selective_scan_with_one_rate_per_channel(form):
    x, delta, A, B, C = draw(p=1)
    want = selective_scan(x.squeeze(-1), delta, A.unsqueeze(-1).expand(3, 4), B, C, torch.zeros_like(A))
    torch.testing.assert_close(form(x, delta, A, B, C).squeeze(-1), want)


def test_without_decay_it_is_linear_attention_that_only_adds(form):
    x, delta, A, B, C = draw()
    want = (C @ B.mT).tril().unsqueeze(1) @ x.transpose(1, 2)
    torch.testing.assert_close(form(x, torch.ones_like(delta), 0 * A, B, C), want.transpose(1, 2))


def test_a_very_long_step_forgets_everything_before_it(form):
    x, delta, A, B, C = inputs = draw(grad=True)
    delta = delta.detach().clone()
    delta[:, 6] = 1e6
    inputs[1] = delta.requires_grad_()
    got = form(x, delta, A, B, C)
    torch.testing.assert_close(got[:, 6:], form(*cut(inputs, 6, 11)))
    got.sum().backward()
    assert all(y.grad.isfinite().all() for y in inputs)


def test_after_a_long_step_short_ones_still_count(form):
    x, delta, A, B, C = draw(dtype=torch.float32)
    delta[:, 2] = 3e6  # a running sum from here on has steps of 1/4
    got = form(x, delta, A, B, C)
    assert distance(got[:, 3:], ssd_oracle(*numbers(x, delta, A, B, C))[:, 3:]) <= 5e-6


# --- gradients, costs, bad input


@pytest.mark.slow
def test_gradients(form):
    assert torch.autograd.gradcheck(form, draw(batch=1, T=5, h=2, p=2, N=3, grad=True))


def test_gradients_of_all_forms_are_equal(form):
    gradients = []
    for run in (form, ssd_recurrent):
        inputs = draw(grad=True)
        gradients.append(torch.autograd.grad(run(*inputs).square().sum(), inputs))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_state_passes_its_gradient_on():
    inputs = draw(batch=1, T=3, h=1)
    state = torch.randn(1, 1, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: ssd_carry(*inputs, s, chunk_size=2), [state])


@pytest.mark.parametrize("chunk_size", [16, 64])
def test_the_largest_tensor_of_chunks_is_linear_in_the_length(chunk_size):
    """Attention has T x T numbers for each head; chunks have no more than T x chunk_size."""
    for T in (512, 1024):
        inputs = draw(batch=1, T=T, h=2, p=4, N=4, dtype=torch.float32)
        largest = {}
        for name, run in (("chunks", ssd_chunked), ("attention", lambda *x, **_: ssd_attention(*x))):
            with AllocationMeter() as meter, torch.no_grad():
                run(*inputs, chunk_size=chunk_size)
            largest[name] = meter.largest_elements
        assert largest["chunks"] <= 2 * T * chunk_size
        assert largest["attention"] == 2 * T * T


def test_cost_grows_linearly_forward_and_backward():
    def cost(T):
        return elements_written(lambda: ssd_chunked(*draw(batch=1, T=T, grad=True), chunk_size=16))

    assert cost(256) <= 2.05 * cost(128)


def test_inputs_and_states_stay():
    inputs = draw()
    before = [x.clone() for x in inputs]
    for carry in (ssd_carry, by_steps):
        _, state = carry(*inputs)
        kept = state.clone()
        carry(*inputs, state)
        assert torch.equal(state, kept)
        assert all(map(torch.equal, inputs, before))


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda x: x[0], r"expected x \(B, T, h, p\)"),
        (0, lambda x: x[:, :0], "nowhere empty"),
        (1, lambda delta: delta[:, 1:], "expected delta of shape"),
        (2, lambda A: A[1:], "expected A of shape"),
        (3, lambda B: B.unsqueeze(2), "once for each group"),
        (3, lambda B: B[:, 1:], "expected B of shape"),
        (4, lambda C: C.mT, "expected C of shape"),
    ],
)
def test_bad_input_is_told_as_such(place, change, message, form):
    inputs = draw()
    inputs[place] = change(inputs[place])
    with pytest.raises(ValueError, match=message):
        form(*inputs)


def test_bad_states_and_chunks_are_refused():
    x, delta, A, B, C = inputs = draw()
    _, state = ssd_carry(*inputs)
    with pytest.raises(ValueError, match="expected state of shape"):
        ssd_carry(*cut(inputs, 0, 3), state[:1])
    with pytest.raises(ValueError, match="expected state of shape"):
        ssd_step(x[:, 0], delta[:, 0], A, B[:, 0], C[:, 0], state.mT)
    with pytest.raises(ValueError, match=r"expected x \(B, h, p\)"):
        ssd_step(*inputs)
    with pytest.raises(ValueError, match="chunk_size of 1 or more, got 0"):
        ssd_chunked(*inputs, chunk_size=0)


# --- transformers


@pytest.mark.slow
def test_transformers_computes_the_same():
    """Its B and C have an axis for groups, of which there is one here."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.models.mamba2 import modeling_mamba2

    x, delta, A, B, C = inputs = draw(T=70, dtype=torch.float32)
    state = ssd_carry(*inputs)[1]
    want, want_state = modeling_mamba2.mamba2_chunk_scan(
        x,
        delta,
        A,
        B.unsqueeze(2),
        C.unsqueeze(2),
        chunk_size=16,
        initial_states=state,
        return_final_states=True,
    )
    got, got_state = ssd_carry(*inputs, state)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    torch.testing.assert_close(got_state, want_state, rtol=0, atol=1e-5)
