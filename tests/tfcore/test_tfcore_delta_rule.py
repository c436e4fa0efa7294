"""The delta rule: chunks = one token after the other = the definition in loops; and the values it stores."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from linear_time_oracle import TOLERANCE, delta_rule_oracle, distance, elements_written, numbers

from tfcore.decay import decay_mask
from tfcore.delta_rule import (
    delta_rule,
    delta_rule_carry,
    delta_rule_step,
    gated_delta_rule,
    gated_delta_rule_carry,
    gated_delta_rule_step,
)
from tfcore.testing import AllocationMeter

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
CHUNKS = [1, 4, 13, 64]  # of one, with a ragged last one, that fits exactly, and larger than all


def draw(B=2, H=3, T=13, d_k=5, d_v=4, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(B, H, T, *shape, generator=generator, dtype=torch.float64)

    key = F.normalize(normal(d_k) + 0.3, dim=-1)  # keys overlap
    inputs = [normal(d_k), key, normal(d_v), normal().sigmoid(), -normal().exp() / 3]
    return [x.to(dtype).requires_grad_(grad) for x in inputs]


def cut(inputs, start, stop):
    return [x[:, :, start:stop] for x in inputs]


def by_steps(query, key, value, beta, log_decay, state=None):
    outputs = []
    for t in range(query.shape[2]):
        one = (x[:, :, t] for x in (query, key, value, beta, log_decay))
        output, state = gated_delta_rule_step(*one, state)
        outputs.append(output)
    return torch.stack(outputs, dim=2), state


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_it_matches_the_oracle(dtype, chunk_size):
    inputs = draw(dtype=dtype)
    got = gated_delta_rule(*inputs, chunk_size=chunk_size)
    assert got.dtype == dtype
    assert distance(got, delta_rule_oracle(*numbers(*inputs))) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_decay_it_is_the_delta_rule(dtype):
    *inputs, log_decay = draw(dtype=dtype, T=70)
    got = delta_rule(*inputs)
    assert got.dtype == dtype
    assert distance(got, delta_rule_oracle(*numbers(*inputs, 0 * log_decay))) <= TOLERANCE[dtype]
    assert torch.equal(got, gated_delta_rule(*inputs, 0 * log_decay))
    assert torch.equal(delta_rule_carry(*inputs)[0], got)


MUTANTS = {
    "nothing forgotten": {"erase": lambda S, k, beta: S},
    "erased as if beta were 1": {"erase": lambda S, k, beta: S - S @ k[:, None] * k},
    "beta at the erasure only": {"write": lambda beta, v, a: v},
    "read before the write": {"read": lambda before, after, q: before @ q},
    "decay after the write": {"decay_before": lambda a: 1.0, "decay_after": lambda a: a},
    "decay of the new value too": {"write": lambda beta, v, a: a * beta * v},
    "memory transposed": {"read": lambda before, after, q: after.T @ q},
    "no decay": {"decay_before": lambda a: 1.0},
}


@pytest.mark.parametrize("name", [*MUTANTS, "query and key exchanged"])
def test_the_oracle_tells_mutants_apart(name):
    query, key, value, beta, log_decay = numbers(*draw(d_v=5))
    want = delta_rule_oracle(query, key, value, beta, log_decay)
    if name == "query and key exchanged":
        query, key = key, query
    assert (
        distance(delta_rule_oracle(query, key, value, beta, log_decay, **MUTANTS.get(name, {})), want) > 0.01
    )


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_give_what_chunks_give_and_leave_the_same_state(dtype, chunk_size):
    inputs = draw(dtype=dtype)
    output, state = by_steps(*inputs)
    want, want_state = gated_delta_rule_carry(*inputs, chunk_size=chunk_size)
    assert output.dtype == dtype
    assert distance(output, numbers(want)[0]) <= TOLERANCE[dtype]
    assert state.shape == (2, 3, 4, 5)  # (B, H, d_v, d_k)
    assert state.dtype == want_state.dtype == torch.promote_types(dtype, torch.float32)
    assert distance(state, numbers(want_state)[0]) <= TOLERANCE[state.dtype]


def test_a_step_of_the_delta_rule_is_a_gated_step_that_keeps_everything():
    query, key, value, beta, log_decay = (x[:, :, 0] for x in draw())
    _, state = gated_delta_rule_step(query, key, value, beta, log_decay)
    for start in (None, state):
        got = delta_rule_step(query, key, value, beta, start)
        want = gated_delta_rule_step(query, key, value, beta, 0 * log_decay, start)
        assert all(map(torch.equal, got, want))


def test_a_state_goes_on_where_it_was_left_in_either_form():
    inputs = draw()
    outputs, state = [], None
    for form, start, stop in (
        (gated_delta_rule_carry, 0, 5),
        (by_steps, 5, 7),
        (gated_delta_rule_carry, 7, 13),
    ):
        output, state = form(*cut(inputs, start, stop), state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=2), gated_delta_rule(*inputs))


def test_the_plain_state_goes_on_too():
    inputs = draw()[:4]
    first, state = delta_rule_carry(*cut(inputs, 0, 4))
    rest, _ = delta_rule_carry(*cut(inputs, 4, 13), state)
    torch.testing.assert_close(torch.cat([first, rest], dim=2), delta_rule(*inputs))


def test_the_beginning_of_a_text_does_not_depend_on_its_end():
    inputs = draw()
    for T in range(1, 13):
        want = gated_delta_rule(*inputs, chunk_size=4)[:, :, :T]
        torch.testing.assert_close(gated_delta_rule(*cut(inputs, 0, T), chunk_size=4), want)


# --- the values in the memory


def test_orthonormal_keys_store_exactly_whatever_the_order():
    value = draw(T=5)[2]
    key = torch.linalg.qr(draw(T=5)[0])[0].mT
    _, state = delta_rule_carry(key, key, value, torch.ones(2, 3, 5, dtype=torch.float64))
    torch.testing.assert_close(key @ state.mT, value)


def test_beta_of_one_overwrites_the_value_of_a_key_and_keeps_those_across():
    value = draw(T=3)[2]
    first, second = torch.linalg.qr(draw(T=2)[0].mT)[0].mT[:, :, :2].unbind(dim=2)
    key = torch.stack([first, second, first], dim=2)
    _, state = delta_rule_carry(key, key, value, torch.ones(2, 3, 3, dtype=torch.float64))
    torch.testing.assert_close((state @ first.unsqueeze(-1)).squeeze(-1), value[:, :, 2])
    torch.testing.assert_close((state @ second.unsqueeze(-1)).squeeze(-1), value[:, :, 1])


def test_beta_between_is_the_share_that_is_replaced():
    key = F.normalize(torch.randn(1, 1, 1, 5, dtype=torch.float64), dim=-1).expand(1, 1, 2, 5)
    value = draw(B=1, H=1, T=2)[2]
    beta = torch.tensor([[[1.0, 0.25]]], dtype=torch.float64)
    got = delta_rule(key, key, value, beta)
    torch.testing.assert_close(got[:, :, 1], 0.75 * value[:, :, 0] + 0.25 * value[:, :, 1])


def test_beta_of_zero_writes_nothing():
    query, key, value, beta, log_decay = draw()
    _, state = gated_delta_rule_carry(query, key, value, beta, log_decay)
    _, same = delta_rule_carry(query, key, value, 0 * beta, state)
    torch.testing.assert_close(same, state)


def test_small_beta_is_linear_attention_that_only_adds():
    query, key, value, _, _ = draw()
    beta = torch.full((2, 3, 13), 1e-7, dtype=torch.float64)
    got = delta_rule(query, key, value, beta) / beta.unsqueeze(-1)
    torch.testing.assert_close(got, (query @ key.mT).tril() @ value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("chunk_size", [1, 4, 13])
def test_a_decay_to_nothing_begins_afresh(chunk_size):
    inputs = draw(grad=True)
    log_decay = inputs[4].detach().clone()
    log_decay[:, :, 6] = -torch.inf
    got, state = gated_delta_rule_carry(*inputs[:4], log_decay.requires_grad_(), chunk_size=chunk_size)
    want, want_state = gated_delta_rule_carry(*cut([*inputs[:4], log_decay], 6, 13))
    torch.testing.assert_close(got[:, :, 6:], want)
    torch.testing.assert_close(state, want_state)
    got.sum().backward()
    assert all(x.grad.isfinite().all() for x in (*inputs[:4], log_decay))


def test_after_a_strong_decay_small_ones_still_count():
    inputs = draw(dtype=torch.float32)
    inputs[4][:, :, 2] = -3e5  # a running sum from here on has steps of 1/32
    got = gated_delta_rule(*inputs)
    assert distance(got, delta_rule_oracle(*numbers(*inputs))) <= 5e-6


def test_the_mask_is_the_product_of_the_decays_in_between():
    log_decay = draw()[4]
    mask = decay_mask(log_decay)
    assert mask.shape == (2, 3, 13, 13)
    assert (mask.triu(1) == 0).all()
    for i in range(13):
        for j in range(i + 1):
            torch.testing.assert_close(mask[..., i, j], log_decay[..., j + 1 : i + 1].exp().prod(dim=-1))


# --- gradients, costs, bad input


@pytest.mark.slow
@pytest.mark.parametrize("chunk_size", [1, 3, 7])
def test_gradients(chunk_size):
    inputs = draw(B=1, H=2, T=7, d_k=3, d_v=2, grad=True)
    assert torch.autograd.gradcheck(lambda *x: gated_delta_rule(*x, chunk_size=chunk_size), inputs)


def test_gradients_of_chunks_are_those_of_steps():
    gradients = []
    for form in (lambda *x: gated_delta_rule_carry(*x, chunk_size=4), by_steps):
        inputs = draw(grad=True)
        output, state = form(*inputs)
        gradients.append(torch.autograd.grad(output.square().sum() + state.sum(), inputs))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_state_passes_its_gradient_on():
    *inputs, _ = draw(B=1, H=1, T=3, d_k=3, d_v=2)
    state = torch.randn(1, 1, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: delta_rule_carry(*inputs, s), [state])


def test_only_a_chunk_is_solved_for_at_a_time():
    inputs = draw(B=1, H=2, T=1024, d_k=8, d_v=6, dtype=torch.float32)
    with AllocationMeter() as meter, torch.no_grad():
        gated_delta_rule(*inputs, chunk_size=64)
    assert meter.largest_elements <= 2 * 1024 * 8  # as large as the queries


def test_cost_grows_linearly_forward_and_backward():
    def cost(T):
        inputs = draw(B=1, H=1, T=T, dtype=torch.float32, grad=True)
        return elements_written(lambda: gated_delta_rule(*inputs, chunk_size=16))

    assert cost(256) <= 2.05 * cost(128)


def test_no_input_changes():
    inputs = draw()
    before = [x.clone() for x in inputs]
    for form in (gated_delta_rule_carry, by_steps):
        _, state = form(*inputs)
        kept = state.clone()
        form(*inputs, state)
        assert torch.equal(state, kept)
        assert all(map(torch.equal, inputs, before))


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda query: query[0], r"axes \(B, H, T, d\)"),
        (0, lambda query: query[:, :, :0], "none empty"),
        (1, lambda key: key[:, :1], "expected key of shape"),
        (1, lambda key: key[..., 1:], "expected key of shape"),
        (2, lambda value: value[0], r"axes \(B, H, T, d\)"),
        (2, lambda value: value[:, :, 1:], "expected value of shape"),
        (3, lambda beta: beta.unsqueeze(-1), "expected beta of shape"),
        (4, lambda log_decay: log_decay[..., 1:], "expected log_decay of shape"),
    ],
)
def test_bad_input_is_told_as_such(place, change, message):
    inputs = draw()
    inputs[place] = change(inputs[place])
    with pytest.raises(ValueError, match=message):
        gated_delta_rule(*inputs)


def test_bad_states_and_chunks_are_refused():
    inputs = draw()
    _, state = gated_delta_rule_carry(*inputs)
    one = [x[:1, :, 0] for x in inputs]
    with pytest.raises(ValueError, match="expected state of shape"):
        gated_delta_rule_carry(*(x[:1] for x in inputs), state)
    with pytest.raises(ValueError, match="expected state of shape"):
        gated_delta_rule_step(*one, state)
    with pytest.raises(ValueError, match="expected state of shape"):
        delta_rule_step(*one[:4], state[:1].mT)
    with pytest.raises(ValueError, match=r"axes \(B, H, d\)"):
        delta_rule_step(*inputs[:4])
    with pytest.raises(ValueError, match="chunk_size of 1 or more, got 0"):
        gated_delta_rule(*inputs, chunk_size=0)


# --- transformers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"])
def test_transformers_computes_the_same(name):
    """Its time is before its heads, its state is transposed, and it divides queries by a root of d_k."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.models.qwen3_next import modeling_qwen3_next

    query, key, value, beta, log_decay = draw(T=70, dtype=torch.float32)
    state = gated_delta_rule_carry(query, key, value, beta, log_decay)[1]
    want, want_state = getattr(modeling_qwen3_next, name)(
        *(x.transpose(1, 2) for x in (query * 5**0.5, key, value)),
        g=log_decay.mT,
        beta=beta.mT,
        initial_state=state.mT,
        output_final_state=True,
    )
    got, got_state = gated_delta_rule_carry(query, key, value, beta, log_decay, state, chunk_size=32)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=0, atol=1e-5)
    torch.testing.assert_close(got_state, want_state.mT, rtol=0, atol=1e-5)
