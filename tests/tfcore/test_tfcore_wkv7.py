"""RWKV-7's memory: chunks = steps = products of its matrices, and the rules that it contains."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from linear_time_oracle import TOLERANCE, distance, elements_written, numbers

from tfcore.delta_rule import delta_rule_carry, gated_delta_rule_carry
from tfcore.testing import AllocationMeter, OperationCounter
from tfcore.wkv7 import wkv7, wkv7_carry, wkv7_step

B, H, T, K, V = 2, 3, 13, 5, 4
CHUNKS = [1, 4, 13, 64]  # of one, with a ragged last one, that fits exactly, and larger than all


def draw(T=T, K=K, dtype=torch.float64, grad=False):
    g = torch.Generator().manual_seed(0)
    query, key, removed = torch.randn(3, B, H, T, K, generator=g, dtype=torch.float64)
    value = torch.randn(B, H, T, V, generator=g, dtype=torch.float64)
    decay, rate = torch.rand(2, B, H, T, K, generator=g, dtype=torch.float64)
    inputs = query, -decay, key, value, F.normalize(removed + 0.3, dim=-1), rate  # removed keys overlap
    return [x.to(dtype).requires_grad_(grad) for x in inputs]


def ordinary(inputs):
    return inputs


def everything_kept(inputs):
    query, log_decay, *rest = inputs
    return [query, 1e-6 * log_decay, *rest]


def almost_nothing_kept(inputs):
    query, log_decay, *rest = inputs
    return [query, 60 * log_decay, *rest]  # 13 of these decays: a share of exp(-400)


def channels_that_keep_all_or_nothing(inputs):
    query, log_decay, *rest = inputs
    log_decay = log_decay.clone()
    log_decay[..., 0] = 0.0
    log_decay[..., 1] = -torch.inf
    log_decay[:, :, 6] = -torch.inf
    return [query, log_decay, *rest]


def one_strong_key(inputs):
    query, log_decay, key, value, removed, rate = inputs
    same = F.normalize(removed[:, :, :1] + 0.01 * removed, dim=-1)
    return [query, 0.01 * log_decay, 10 * same + 0 * key, value, same, 1 + 0 * rate]


def nothing_removed(inputs):
    *rest, rate = inputs
    return [*rest, 0 * rate]


REGIMES = [
    ordinary,
    everything_kept,
    almost_nothing_kept,
    channels_that_keep_all_or_nothing,
    one_strong_key,
    nothing_removed,
]


def cut(inputs, start, stop):
    return [x[:, :, start:stop] for x in inputs]


def by_steps(*inputs, state=None):
    outputs = []
    for one in zip(*(x.unbind(dim=2) for x in inputs), strict=True):
        output, state = wkv7_step(*one, state)
        outputs.append(output)
    return torch.stack(outputs, dim=2), state


def in_parallel(query, log_decay, key, value, removed, rate):
    """Weigh the value of token j for token i by the product of the transition matrices in between."""
    step = torch.diag_embed(log_decay.exp()) - removed.unsqueeze(-1) * (rate * removed).unsqueeze(-2)
    weights = query.new_zeros(*query.shape[:3], query.shape[2])  # (B, H, T, T)
    for j in range(query.shape[2]):
        row = key[:, :, j, None]  # (B, H, 1, d_k)
        for i in range(j, query.shape[2]):
            row = row if i == j else row @ step[:, :, i]
            weights[:, :, i, j] = (row @ query[:, :, i, :, None]).flatten(2).squeeze(-1)
    return weights @ value


# --- recurrent = chunked = parallel


@pytest.mark.parametrize("regime", REGIMES)
def test_steps_are_the_products_of_the_matrices(regime):
    inputs = regime(draw())
    assert distance(by_steps(*inputs)[0], numbers(in_parallel(*inputs))[0]) <= 1e-12


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("regime", REGIMES)
def test_chunks_give_what_steps_give_and_leave_the_same_state(regime, chunk_size):
    inputs = regime(draw())
    output, state = wkv7_carry(*inputs, chunk_size=chunk_size)
    want, want_state = by_steps(*inputs)
    assert distance(output, numbers(want)[0]) <= 1e-12
    assert distance(state, numbers(want_state)[0]) <= 1e-12
    assert torch.equal(wkv7(*inputs, chunk_size=chunk_size), output)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_longer_text_in_each_type(dtype):
    inputs = draw(T=70, dtype=dtype)
    got, state = wkv7_carry(*inputs)
    assert got.dtype == dtype
    assert state.dtype == by_steps(*inputs)[1].dtype == torch.promote_types(dtype, torch.float32)
    assert distance(got, numbers(in_parallel(*(x.double() for x in inputs)))[0]) <= TOLERANCE[dtype]


def test_after_a_strong_decay_small_ones_still_count():
    inputs = draw(dtype=torch.float32)
    inputs[1][:, :, 2] = -3e5  # a running sum from here on has steps of 1/32
    want = numbers(in_parallel(*(x.double() for x in inputs)))[0]
    assert distance(wkv7(*inputs), want) <= 5e-6


@pytest.mark.parametrize("chunk_size", [1, 4, 13])
@pytest.mark.parametrize("regime", REGIMES)
def test_gradients_of_chunks_are_those_of_steps(regime, chunk_size):
    gradients = []
    for form in (lambda *x: wkv7_carry(*x, chunk_size=chunk_size), by_steps):
        inputs = draw(grad=True)
        output, state = form(*regime(inputs))
        gradients.append(torch.autograd.grad(output.square().sum() + state.sum(), inputs))
    for one, other in zip(*gradients, strict=True):
        assert distance(one, numbers(other)[0]) <= 1e-12


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    inputs = [x[:1, :1, :7].detach().requires_grad_() for x in draw()]
    state = torch.randn(1, 1, V, K, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: wkv7_carry(*x, chunk_size=3), [*inputs, state])


# --- states


def test_a_state_goes_on_where_it_was_left_in_either_form():
    inputs = draw()
    first, state = wkv7_carry(*cut(inputs, 0, 6), chunk_size=4)
    second, state = by_steps(*cut(inputs, 6, 8), state=state)
    third, state = wkv7_carry(*cut(inputs, 8, 13), state, chunk_size=3)
    want, want_state = by_steps(*inputs)
    torch.testing.assert_close(torch.cat([first, second, third], dim=2), want)
    torch.testing.assert_close(state, want_state)


def test_the_beginning_of_a_text_does_not_depend_on_its_end():
    inputs = draw()
    want = wkv7(*inputs, chunk_size=4)
    for end in range(1, 13):
        torch.testing.assert_close(wkv7(*cut(inputs, 0, end), chunk_size=4), want[:, :, :end])


def test_no_input_changes():
    inputs = draw()
    before = [x.clone() for x in inputs]
    for form in (wkv7_carry, by_steps):
        _, state = form(*inputs)
        kept = state.clone()
        form(*inputs, state=state)
        assert torch.equal(state, kept)
        assert all(map(torch.equal, inputs, before))


# --- the rules that it contains


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("keeps_all", [True, False])
def test_with_one_key_and_one_rate_it_is_the_delta_rule(keeps_all, chunk_size):
    query, log_decay, _, value, k, rate = draw()
    log_decay, beta = (0 if keeps_all else 1) * log_decay[..., :1], rate[..., :1]
    inputs = query, log_decay.expand_as(k), beta * k, value, k, (log_decay.exp() * beta).expand_as(k)
    ours, state = wkv7_carry(*inputs, chunk_size=chunk_size)
    if keeps_all:
        theirs, their_state = delta_rule_carry(query, k, value, beta.squeeze(-1))
    else:
        theirs, their_state = gated_delta_rule_carry(query, k, value, beta.squeeze(-1), log_decay.squeeze(-1))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    torch.testing.assert_close(state, their_state, atol=1e-12, rtol=0)


def test_without_decay_and_removal_it_adds_up_like_attention_without_a_softmax():
    query, log_decay, key, value, removed, rate = draw()
    ours = wkv7(query, 0 * log_decay, key, value, removed, 0 * rate, chunk_size=4)
    theirs = (query @ key.mT).tril() @ value
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


# --- costs, bad input


def test_only_a_chunk_is_solved_for_at_a_time():
    inputs = [x.repeat(1, 1, 1024 // T + 1, 1)[:, :, :1024] for x in draw(dtype=torch.float32)]
    with AllocationMeter() as meter, torch.no_grad():
        wkv7(*inputs, chunk_size=16)
    assert meter.largest_elements <= B * H * 1024 * K  # as large as the queries


def test_cost_grows_linearly_forward_and_backward():
    def cost(T):
        inputs = draw(T=T, dtype=torch.float32, grad=True)
        return elements_written(lambda: wkv7(*inputs))

    assert cost(256) <= 2.05 * cost(128)


def test_chunks_take_far_fewer_calls_than_steps():
    inputs = draw(T=256)
    calls = []
    for form in (lambda *x: wkv7(*x, chunk_size=64), by_steps):
        with OperationCounter() as counter:
            form(*inputs)
        calls.append(sum(counter.calls.values()))
    assert 10 * calls[0] < calls[1]


def test_shapes_that_do_not_fit_are_named():
    query, log_decay, key, value, removed, rate = inputs = draw()
    one = [x[:, :, 0] for x in inputs]
    with pytest.raises(ValueError, match="expected rate of shape"):
        wkv7_step(*one[:5], rate[:, :, 0, :-1])
    with pytest.raises(ValueError, match="expected state of shape"):
        wkv7_step(*one, torch.zeros(B, H, K, V))
    with pytest.raises(ValueError, match="expected state of shape"):
        wkv7_carry(*inputs, torch.zeros(B, H, K, V))
    with pytest.raises(ValueError, match=r"axes \(B, H, d_k\)"):
        wkv7_step(*inputs)
    with pytest.raises(ValueError, match=r"axes \(B, H, T, d_k\), none empty"):
        wkv7(*cut(inputs, 0, 0))
    with pytest.raises(ValueError, match="expected value of shape"):
        wkv7(query, log_decay, key, value[:, :, 1:], removed, rate)
    with pytest.raises(ValueError, match="chunk_size of 1 or more, got 0"):
        wkv7(*inputs, chunk_size=0)


# --- transformers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recurrent_kimi_delta_attention", "chunk_kimi_delta_attention"])
def test_kimi_linear_computes_the_same_with_one_key(name):
    """It looks up in the decayed memory: a removed key of w * k and a rate of beta / w are the same."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.models.kimi_linear import modeling_kimi_linear

    query, log_decay, _, value, k, rate = draw(T=70, dtype=torch.float32)
    beta, w = rate[..., :1], log_decay.exp()
    inputs = query, log_decay, beta * k, value, w * k, beta / w
    state = wkv7_carry(*inputs)[1]
    want, want_state = getattr(modeling_kimi_linear, name)(
        *(x.transpose(1, 2) for x in (query * K**0.5, k, value, log_decay, beta.squeeze(-1))),
        initial_state=state.mT,
        output_final_state=True,
    )
    got, got_state = wkv7_carry(*inputs, state)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=0, atol=1e-5)
    torch.testing.assert_close(got_state, want_state.mT, rtol=0, atol=1e-5)
