"""RNN, LSTM and GRU against torch.nn; additive attention against numpy and finite differences."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tfcore import bottleneck
from tfcore.masks import padding_mask
from tfcore.recurrent import GRU, LSTM, RNN, AdditiveAttention
from tfcore.testing import raise_weights

B, T, D_IN, D_HIDDEN = 3, 7, 4, 5
KINDS = [RNN, LSTM, GRU]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_depth = pytest.mark.parametrize("num_layers", [1, 2])


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make(kind, num_layers=1, dtype=torch.float64):
    torch.manual_seed(0)
    return raise_weights(kind(D_IN, D_HIDDEN, num_layers)).to(dtype)


def torch_twin(ours):
    """Make torch's module with the same weights: it has a second bias everywhere, ours only in the GRU."""
    num_layers = len(ours.W_x)
    theirs = getattr(nn, type(ours).__name__)(D_IN, D_HIDDEN, num_layers, batch_first=True).double()
    with torch.no_grad():
        for layer, (W_x, W_h) in enumerate(zip(ours.W_x, ours.W_h, strict=True)):
            second_bias = torch.zeros_like(W_x.bias) if W_h.bias is None else W_h.bias
            values = W_x.weight, W_h.weight, W_x.bias, second_bias
            names = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
            for name, value in zip(names, values, strict=True):
                getattr(theirs, f"{name}_l{layer}").copy_(value)
    return theirs


def to_torch(state):
    """Split the LSTM's state into the pair that torch has; any other is the same."""
    return tuple(x.contiguous() for x in state.chunk(2, -1)) if state.shape[-1] == 2 * D_HIDDEN else state


def from_torch(state):
    return torch.cat(state, dim=-1) if isinstance(state, tuple) else state


def state_for(module, seed=1):
    width = D_HIDDEN * (2 if isinstance(module, LSTM) else 1)
    return draw(len(module.W_x), B, width, seed=seed)


def close(got, want, atol=1e-13):
    torch.testing.assert_close(got, want, rtol=0, atol=atol)


# --- against torch.nn


@each_kind
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("given_state", [False, True])
def test_states_match_torch(kind, num_layers, given_state):
    ours, x = make(kind, num_layers), draw(B, T, D_IN)
    state = state_for(ours) if given_state else None
    states, last = ours(x, state)
    want, want_last = torch_twin(ours)(x, None if state is None else to_torch(state))
    close(states, want)
    close(last, from_torch(want_last))


@each_kind
def test_the_weights_of_torch_load(kind):
    """The two biases of torch add up to one, save in the GRU, where the reset gate multiplies the second."""
    torch.manual_seed(0)
    theirs = raise_weights(getattr(nn, kind.__name__)(D_IN, D_HIDDEN, 2, batch_first=True)).double()
    ours, x, given = kind(D_IN, D_HIDDEN, 2).double(), draw(B, T, D_IN), theirs.state_dict()
    for layer in range(2):
        W_x, W_h, b_x, b_h = (
            given[f"{n}_l{layer}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        ours.W_x[layer].load_state_dict({"weight": W_x, "bias": b_x if kind is GRU else b_x + b_h})
        ours.W_h[layer].load_state_dict({"weight": W_h, "bias": b_h} if kind is GRU else {"weight": W_h})
    close(ours(x)[0], theirs(x)[0])


@each_kind
@each_depth
def test_gradients_match_torch(kind, num_layers):
    ours = make(kind, num_layers)
    theirs, weight = torch_twin(ours), draw(B, T, D_HIDDEN, seed=2)
    found = []
    for module, given, back in ((ours, lambda s: s, lambda s: s), (theirs, to_torch, from_torch)):
        x, state = draw(B, T, D_IN).requires_grad_(), state_for(ours).requires_grad_()
        states, last = module(x, given(state))
        ((states * weight).sum() + (back(last) ** 2).sum()).backward()
        found.append([x.grad, state.grad])
    for got, want in zip(*found, strict=True):
        close(got, want, atol=1e-12)
    for layer, (W_x, W_h) in enumerate(zip(ours.W_x, ours.W_h, strict=True)):
        for got, name in ((W_x.weight, "weight_ih"), (W_h.weight, "weight_hh"), (W_x.bias, "bias_ih")):
            close(got.grad, getattr(theirs, f"{name}_l{layer}").grad, atol=1e-12)


@each_kind
def test_float32_matches_torch_in_float64(kind):
    ours, x = make(kind, 2), draw(B, T, D_IN)
    want, _ = torch_twin(ours)(x)
    close(ours.float()(x.float())[0].double(), want, atol=5e-6)


@each_kind
def test_padding_matches_packed_sequences(kind):
    ours, x, lengths = make(kind, 2), draw(B, T, D_IN), torch.tensor([4, 7, 1])
    padding = padding_mask(lengths, T)
    states, last = ours(x, padding=padding)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    want, want_last = torch_twin(ours)(packed)
    want = pad_packed_sequence(want, batch_first=True, total_length=T)[0]
    close(states * padding[..., None], want)
    close(last, from_torch(want_last))


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("num_layers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gradcheck(kind, num_layers):
    torch.manual_seed(0)
    module = raise_weights(kind(2, 3, num_layers)).double()
    names = [name for name, _ in module.named_parameters()]
    padding = torch.tensor([[True, True, False], [False, True, True]])

    def run(x, state, *parameters):
        return functional_call(module, dict(zip(names, parameters, strict=True)), (x, state, padding))

    width = 3 * module.state_width
    inputs = [draw(2, 3, 2), draw(num_layers, 2, width, seed=1), *module.parameters()]
    assert torch.autograd.gradcheck(run, [a.detach().requires_grad_() for a in inputs])


# --- reading on, padding


@each_kind
@each_depth
def test_reading_in_pieces_is_reading_at_once(kind, num_layers):
    module, x = make(kind, num_layers), draw(B, T, D_IN)
    states, last = module(x)
    pieces, state = [], None
    for piece in x.split([1, 4, 2], dim=1):
        piece_states, state = module(piece, state)
        pieces.append(piece_states)
    close(torch.cat(pieces, dim=1), states)
    close(state, last)


@each_kind
@each_depth
@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_padding_changes_nothing(kind, num_layers, side):
    module, lengths = make(kind, num_layers), [4, 7, 1]
    starts = [{"left": T - n, "right": 0, "both": (T - n) // 2}[side] for n in lengths]
    x, padding = torch.full((B, T, D_IN), torch.nan, dtype=torch.float64), torch.zeros(B, T, dtype=torch.bool)
    for b, (start, n) in enumerate(zip(starts, lengths, strict=True)):
        x[b, start : start + n] = draw(n, D_IN, seed=b)
        padding[b, start : start + n] = True
    x.requires_grad_()
    states, last = module(x, padding=padding)
    for b, (start, n) in enumerate(zip(starts, lengths, strict=True)):
        alone, alone_last = module(x[b : b + 1, start : start + n])
        close(states[b, start : start + n], alone[0])
        close(last[:, b], alone_last[:, 0])
    (states.sum() + last.sum()).backward()
    assert not x.grad[~padding].any()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@each_kind
def test_a_sequence_of_padding_leaves_the_state_as_it_was(kind):
    module = make(kind, 2)
    x, state = draw(B, T, D_IN).requires_grad_(), state_for(make(kind, 2)).requires_grad_()
    padding = torch.tensor([True, False, True])[:, None].expand(B, T)
    states, last = module(x, state, padding)
    assert torch.equal(last[:, 1], state[:, 1])
    assert torch.equal(states[1], state[-1, 1, :D_HIDDEN].expand(T, -1))
    assert not module(x, padding=padding)[1][:, 1].any()
    states.sum().backward()
    assert x.grad.isfinite().all()
    assert not x.grad[1].any()


# --- types, devices, cost


@each_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_types_are_kept_and_arguments_too(kind, dtype):
    module, x = make(kind, 2, dtype), draw(B, T, D_IN, dtype=dtype)
    state = state_for(module).to(dtype)
    padding = padding_mask(torch.tensor([4, 7, 1]), T)
    before = x.clone(), state.clone(), padding.clone()
    states, last = module(x, state, padding)
    assert states.dtype == last.dtype == dtype
    for now, then in zip((x, state, padding), before, strict=True):
        assert torch.equal(now, then)


@each_kind
def test_everything_happens_on_the_device_of_the_weights(kind):
    module, x = make(kind, 2).to("meta"), draw(B, T, D_IN).to("meta")
    for padding in (None, torch.ones(B, T, dtype=torch.bool, device="meta")):
        states, last = module(x, padding=padding)
        assert states.device.type == last.device.type == "meta"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_kind
def test_the_gpu_gives_the_same(kind):
    module, x = make(kind, 2), draw(B, T, D_IN)
    padding = padding_mask(torch.tensor([4, 7, 1]), T)
    want = module(x, padding=padding)
    got = module.cuda()(x.cuda(), padding=padding.cuda())
    for ours, expected in zip(got, want, strict=True):
        close(ours.cpu(), expected, atol=1e-12)


@each_kind
def test_only_what_needs_the_state_is_computed_step_by_step(kind):
    module, calls = make(kind, 2), {"W_x": 0, "W_h": 0}
    for name in calls:
        for linear in getattr(module, name):
            linear.register_forward_hook(lambda *_, name=name: calls.update({name: calls[name] + 1}))
    module(draw(B, T, D_IN))
    assert calls == {"W_x": 2, "W_h": 2 * T}


@each_kind
def test_nothing_is_drawn_at_random_by_a_call(kind):
    module = make(kind)
    before = torch.get_rng_state()
    module(draw(B, T, D_IN))
    assert torch.equal(torch.get_rng_state(), before)


# --- what the equations are for


def test_a_cell_whose_forget_gate_is_open_keeps_its_content_and_its_gradient():
    """f = 1 and i = 0 leave c as it was for 200 steps, where an RNN of the same weights has lost it."""
    torch.manual_seed(0)
    lstm = LSTM(D_IN, D_HIDDEN).double()
    with torch.no_grad():
        lstm.W_x[0].bias.copy_(torch.tensor([-40.0, 40.0, 0.0, 0.0]).repeat_interleave(D_HIDDEN))
        lstm.W_h[0].weight.mul_(0.1)
    state = state_for(lstm).requires_grad_()
    _, last = lstm(draw(B, 200, D_IN), state)
    close(last[..., D_HIDDEN:], state[..., D_HIDDEN:], atol=1e-12)
    (gradient,) = torch.autograd.grad(last[..., D_HIDDEN:].sum(), state)
    close(gradient[..., D_HIDDEN:], torch.ones(1, B, D_HIDDEN, dtype=torch.float64), atol=1e-12)

    rnn = RNN(D_IN, D_HIDDEN).double()
    start = state_for(rnn).requires_grad_()
    (gradient,) = torch.autograd.grad(rnn(draw(B, 200, D_IN), start)[1].sum(), start)
    assert gradient.abs().max() < 1e-6


def test_a_gru_whose_update_gate_is_open_keeps_its_state():
    gru = make(GRU)
    with torch.no_grad():
        gru.W_x[0].bias.copy_(torch.tensor([0.0, 40.0, 0.0]).repeat_interleave(D_HIDDEN))
    state = state_for(gru)
    close(gru(draw(B, 200, D_IN), state)[1], state, atol=1e-12)


def test_rnn_is_the_numpy_reference():
    module, x = make(RNN), draw(B, T, D_IN)
    W_x, W_h = module.W_x[0], module.W_h[0]
    arguments = x, x.new_zeros(B, D_HIDDEN), W_x.weight.T, W_h.weight.T, W_x.bias
    want = bottleneck.rnn_forward(*(a.detach().numpy() for a in arguments))
    close(module(x)[0].detach(), torch.tensor(want))


# --- additive attention

D_Q, D_K, D_V, D_A = 4, 5, 6, 8


def make_attention(dtype=torch.float64):
    return raise_weights(AdditiveAttention(D_Q, D_K, D_A), std=1.0).to(dtype)


def attention_arguments(dtype=torch.float64):
    shapes = (B, D_Q), (B, T, D_K), (B, T, D_V)
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def some_mask():
    mask = torch.rand(B, T, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[1] = False
    return mask


def reference(attention, query, keys, values, mask=None):
    weights = (w.weight.detach().double().numpy() for w in (attention.W_q, attention.W_k, attention.v))
    W_q, W_k, v = weights
    query, keys, values = (x.detach().double().numpy() for x in (query, keys, values))
    mask = None if mask is None else mask.numpy()
    return bottleneck.additive_attention(query, keys, values, W_q.T, W_k.T, v[0], mask)


@pytest.mark.parametrize("mask", [None, some_mask()], ids=["full", "masked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_additive_attention_matches_the_numpy_reference(mask, dtype):
    attention, arguments = make_attention(dtype), attention_arguments(dtype)
    before = [x.clone() for x in arguments]
    context, weights = attention(*arguments, mask=mask)
    want, want_weights = reference(attention, *arguments, mask=mask)
    atol = {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 2**-4}[dtype]
    close(context.double(), torch.tensor(want), atol=atol)
    close(weights.double(), torch.tensor(want_weights), atol=atol)
    assert context.dtype == dtype
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    assert all(torch.equal(x, y) for x, y in zip(arguments, before, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("mask", [None, some_mask()], ids=["full", "masked"])
def test_gradcheck_of_additive_attention(mask):
    attention = make_attention()
    names = [name for name, _ in attention.named_parameters()]

    def run(query, keys, values, *parameters):
        arguments = query, keys, values, mask
        return functional_call(attention, dict(zip(names, parameters, strict=True)), arguments)

    inputs = [*attention_arguments(), *attention.parameters()]
    assert torch.autograd.gradcheck(run, [a.detach().requires_grad_() for a in inputs])


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_an_empty_row_gives_zeros_and_zero_gradients():
    attention, mask = make_attention(), some_mask()
    arguments = [x.requires_grad_() for x in attention_arguments()]
    with torch.autograd.detect_anomaly(check_nan=True):
        context, weights = attention(*arguments, mask=mask)
        (context.sum() + weights.square().sum()).backward()
    assert not context[1].any()
    assert not weights[1].any()
    assert all(x.grad.isfinite().all() and not x.grad[1].any() for x in arguments)
    close(weights.sum(-1), mask.any(-1).double())


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_garbage_that_the_mask_forbids_changes_nothing(garbage):
    attention, mask = make_attention(), some_mask()
    query, keys, values = attention_arguments()
    want = attention(query, keys, values, mask)
    dirty = [x.masked_fill(~mask[..., None], garbage).requires_grad_() for x in (keys, values)]
    got = attention(query, *dirty, mask)
    assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))
    got[0].sum().backward()
    for x in dirty:
        assert not x.grad[~mask].any()
        assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in attention.parameters())


def test_scores_of_ten_thousand():
    attention, arguments, mask = make_attention(), attention_arguments(), some_mask()
    with torch.no_grad():
        attention.v.weight.mul_(1e4)
    context, weights = attention(*arguments, mask=mask)
    assert context.isfinite().all()
    close(weights.sum(-1), mask.any(-1).double())


def test_prepared_keys_serve_many_queries_and_are_projected_once():
    attention, (_, keys, values), mask = make_attention(), attention_arguments(), some_mask()
    calls = []
    attention.W_k.register_forward_hook(lambda *_: calls.append(1))
    attend = attention.prepare(keys, values, mask)
    queries = draw(9, B, D_Q, seed=5)
    prepared = [attend(query) for query in queries]
    assert len(calls) == 1
    for query, got in zip(queries, prepared, strict=True):
        for one, want in zip(got, attention(query, keys, values, mask), strict=True):
            assert torch.equal(one, want)


def test_additive_attention_happens_on_the_device_of_the_weights():
    context, weights = make_attention().to("meta")(*(x.to("meta") for x in attention_arguments()))
    assert context.device.type == weights.device.type == "meta"


# --- arguments that do not fit

x = draw(B, T, D_IN)
query, keys, values = attention_arguments()
BAD = {
    "x of one sequence": (lambda: make(GRU)(x[0]), "x (B, T, 4) with at least one token, got (7, 4)"),
    "x of another width": (
        lambda: make(RNN)(x[..., 1:]),
        "x (B, T, 4) with at least one token, got (3",
    ),
    "no token": (lambda: make(LSTM)(x[:, :0]), "at least one token, got (3, 0, 4)"),
    "a state without layers": (
        lambda: make(GRU)(x, x.new_zeros(B, D_HIDDEN)),
        "a state (L, B, d_state) = (1, 3, 5), got (3, 5)",
    ),
    "h without c": (
        lambda: make(LSTM)(x, x.new_zeros(1, B, 5)),
        "(L, B, d_state) = (1, 3, 10), got",
    ),
    "padding of numbers": (
        lambda: make(GRU)(x, padding=torch.ones(B, T)),
        "a boolean padding (B, T) = (3, 7), True at real tokens, got torch.float32 (3, 7)",
    ),
    "lengths for padding": (
        lambda: make(GRU)(x, padding=torch.tensor([True, True, True])),
        "a boolean padding (B, T) = (3, 7), True at real tokens, got torch.bool (3,)",
    ),
    "no layer": (lambda: RNN(4, 5, num_layers=0), "num_layers of 1 or more, got 0"),
    "no width": (lambda: LSTM(4, 0), "d_hidden of 1 or more, got 0"),
    "queries with a time axis": (
        lambda: make_attention()(query[:, None], keys, values),
        "query (B, d_query) = (3, 4), got (3, 1, 4)",
    ),
    "batch of queries": (lambda: make_attention()(query[1:], keys, values), "= (3, 4), got (2, 4)"),
    "keys of another width": (
        lambda: make_attention()(query, values, values),
        "keys (B, T, 5) and values (B, T, d_v), got (3, 7, 6) and (3, 7, 6)",
    ),
    "values too few": (lambda: make_attention()(query, keys, values[:, 1:]), "(3, 7, 5) and (3, 6, 6)"),
    "mask with a query axis": (
        lambda: make_attention()(query, keys, values, some_mask()[:, None]),
        "a boolean mask (B, T) = (3, 7), True at real tokens, got torch.bool (3, 1, 7)",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
