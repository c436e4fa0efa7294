"""Mamba: the selective scan against loops in both forms, and the model against transformers'."""

from __future__ import annotations

import functools
import os

import pytest
import torch
from linear_time_oracle import TOLERANCE, distance, elements_written, numbers, selective_scan_oracle

import tfcore.mamba
import tfcore.selective_scan
from tfcore.mamba import Mamba, MambaConfig
from tfcore.selective_scan import selective_scan, selective_scan_carry, selective_scan_step
from tfcore.testing import AllocationMeter, raise_weights
from tfcore.train import decay_groups

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def draw(B=2, T=11, d=3, N=4, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    delta, A = normal(B, T, d).exp() / 2, -normal(d, N).exp()
    inputs = [normal(B, T, d) + 0.5, delta, A, normal(B, T, N), normal(B, T, N), normal(d)]
    return [x.to(dtype).requires_grad_(grad) for x in inputs]


def by_steps(u, delta, A, B, C, D, state=None):
    outputs = []
    for t in range(u.shape[1]):
        output, state = selective_scan_step(u[:, t], delta[:, t], A, B[:, t], C[:, t], D, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


@pytest.fixture(params=[1, 4, 11, 256])
def chunk(request, monkeypatch):
    monkeypatch.setattr(tfcore.selective_scan, "CHUNK", request.param)
    return request.param


# --- the selective scan


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scan_matches_the_oracle(dtype, chunk):
    inputs = draw(dtype=dtype)
    got = selective_scan(*inputs)
    assert got.dtype == dtype
    assert distance(got, selective_scan_oracle(*numbers(*inputs))) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps_give_what_the_scan_gives_and_leave_the_same_state(dtype, chunk):
    inputs = draw(dtype=dtype)
    output, state = by_steps(*inputs)
    want, want_state = selective_scan_carry(*inputs)
    assert output.dtype == dtype
    assert distance(output, numbers(want)[0]) <= TOLERANCE[dtype]
    assert state.dtype == want_state.dtype == torch.promote_types(dtype, torch.float32)
    assert distance(state, numbers(want_state)[0]) <= TOLERANCE[state.dtype]


MUTANTS = {
    "B not discretised": {"drive": lambda delta, B, u: B * u},
    "input left out of the state": {"drive": lambda delta, B, u: delta * B},
    "state before the update": {"read": lambda C, before, h: C @ before},
    "C left out": {"read": lambda C, before, h: h.sum()},
}
EXCHANGES = {
    "D left out": lambda u, delta, A, B, C, D: (u, delta, A, B, C, 0 * D),
    "B and C exchanged": lambda u, delta, A, B, C, D: (u, delta, A, C, B, D),
    "memories that grow": lambda u, delta, A, B, C, D: (u, delta, -A, B, C, D),
    "no decay": lambda u, delta, A, B, C, D: (u, delta, 0 * A, B, C, D),
    "step sizes ignored": lambda u, delta, A, B, C, D: (u, 0 * delta + 1, A, B, C, D),
}


@pytest.mark.parametrize("name", [*MUTANTS, *EXCHANGES, "reversed in time"])
def test_the_oracle_tells_mutants_apart(name):
    inputs = numbers(*draw())
    want = selective_scan_oracle(*inputs)
    if name == "reversed in time":
        u, delta, A, B, C, D = inputs
        backwards = selective_scan_oracle(u[:, ::-1], delta[:, ::-1], A, B[:, ::-1], C[:, ::-1], D)
        mutant = backwards[:, ::-1]
    else:
        exchanged = EXCHANGES.get(name, lambda *x: x)(*inputs)
        mutant = selective_scan_oracle(*exchanged, **MUTANTS.get(name, {}))
    assert distance(mutant, want) > 0.01


def test_a_state_goes_on_where_it_was_left_in_either_form():
    u, delta, A, B, C, D = draw()
    outputs, state = [], None
    for form, start, stop in (
        (selective_scan_carry, 0, 4),
        (by_steps, 4, 6),
        (selective_scan_carry, 6, 11),
    ):
        cut = [x[:, start:stop] for x in (u, delta, B, C)]
        output, state = form(cut[0], cut[1], A, cut[2], cut[3], D, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=1), selective_scan(u, delta, A, B, C, D))


@pytest.mark.parametrize("form", [selective_scan, lambda *x: by_steps(*x)[0]], ids=["scan", "steps"])
def test_gradients_of_the_scan(form, monkeypatch):
    monkeypatch.setattr(tfcore.selective_scan, "CHUNK", 3)
    assert torch.autograd.gradcheck(form, draw(B=1, T=5, d=3, N=2, grad=True))


def test_long_gaps_and_strong_decays_give_no_nan():
    u, delta, A, B, C, D = draw(dtype=torch.float32)
    inputs = [x.requires_grad_() for x in (u * 1e4, delta * 1e4, A * 10, B, C, D)]
    output = selective_scan(*inputs)
    assert distance(output, selective_scan_oracle(*numbers(*inputs))) <= 5e-6
    output.sum().backward()
    assert output.isfinite().all()


def test_cost_grows_linearly_forward_and_backward(monkeypatch):
    monkeypatch.setattr(tfcore.selective_scan, "CHUNK", 16)

    def cost(T):
        return elements_written(lambda: selective_scan(*draw(T=T, grad=True)))

    assert cost(256) <= 2.05 * cost(128)


def test_only_a_chunk_of_states_exists_at_a_time():
    inputs = draw(B=1, T=2048, d=3, N=8, dtype=torch.float32)
    with AllocationMeter() as meter, torch.no_grad():
        selective_scan(*inputs)
    assert meter.largest_elements <= 2048 * 8  # as large as B and C, not 3 times that


def test_inputs_and_states_stay():
    inputs = draw()
    before = [x.clone() for x in inputs]
    for carry in (selective_scan_carry, by_steps):
        _, state = carry(*inputs)
        kept = state.clone()
        carry(*inputs, state)
        assert torch.equal(state, kept)
        assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda u: u[0], r"expected u \(B, T, d\)"),
        (1, lambda delta: delta[:, 1:], "expected delta of shape"),
        (2, lambda A: A[0], r"A \(d, N\)"),
        (2, lambda A: A.T, "expected A of shape"),
        (3, lambda B: B[..., 1:], "expected B of shape"),
        (4, lambda C: C.mT, "expected C of shape"),
        (5, lambda D: D[1:], "expected D of shape"),
    ],
)
def test_bad_input_to_the_scan_is_told_as_such(place, change, message):
    inputs = draw()
    inputs[place] = change(inputs[place])
    with pytest.raises(ValueError, match=message):
        selective_scan(*inputs)


def test_the_state_of_another_batch_is_refused():
    u, delta, A, B, C, D = draw()
    _, state = selective_scan_carry(u, delta, A, B, C, D)
    with pytest.raises(ValueError, match="expected state of shape"):
        selective_scan_carry(u[:1], delta[:1], A, B[:1], C[:1], D, state)
    with pytest.raises(ValueError, match="expected state of shape"):
        selective_scan_step(u[:1, 0], delta[:1, 0], A, B[:1, 0], C[:1, 0], D, state)


# --- the model

SIZES = {
    "plain": {},
    "every size its own": {
        "state_size": 5,
        "conv_kernel": 3,
        "expand": 3,
        "time_step_rank": 7,
        "use_bias": True,
        "layer_norm_epsilon": 1e-2,
    },
    "no convolution, no bias of it, untied": {
        "conv_kernel": 1,
        "use_conv_bias": False,
        "tie_word_embeddings": False,
    },
}
NAMES = {  # theirs on disk: ours
    "backbone.": "",
    "embeddings": "embedding",
    "layers": "blocks",
    "norm_f": "norm_final",
    "conv1d": "conv",
    "lm_head": "head",
}


def ours_from(theirs):
    """Build our model with their weights: names exchanged, a tied head left out."""
    config, state = theirs.config, {}
    for name, x in theirs.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        state[name] = x.clone()
    if config.tie_word_embeddings:
        del state["head.weight"]
    model = Mamba(
        MambaConfig(
            vocab_size=config.vocab_size,
            d_model=config.hidden_size,
            num_layers=config.num_hidden_layers,
            d_state=config.state_size,
            d_conv=config.conv_kernel,
            expand=config.expand,
            dt_rank=config.time_step_rank,
            bias=config.use_bias,
            conv_bias=config.use_conv_bias,
            norm_eps=config.layer_norm_epsilon,
            tied=config.tie_word_embeddings,
        )
    )
    model.load_state_dict(state)
    return model.eval()


@functools.cache
def both(name):
    """Return our model, tokens, and the logits of theirs."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import MambaConfig, MambaForCausalLM

    sizes = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, **SIZES[name]}
    theirs = raise_weights(MambaForCausalLM(MambaConfig(**sizes))).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in theirs.backbone.layers:  # steps near 1, and rates from slow to fast
            layer.mixer.dt_proj.bias.normal_(generator=generator)
            layer.mixer.A_log.add_(torch.arange(1.0, theirs.config.state_size + 1).log())
    tokens = torch.randint(23, (2, 17), generator=generator)
    with torch.no_grad():
        return ours_from(theirs), tokens, theirs(tokens, use_cache=False).logits


@pytest.mark.parametrize("name", SIZES)
def test_the_model_computes_what_transformers_computes(name):
    ours, tokens, want = both(name)
    assert want.std() > 0.3
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), want, rtol=0, atol=5e-5)


def test_every_parameter_shows_in_the_logits():
    ours, tokens, want = both("every size its own")
    assert len(list(ours.parameters())) == 26
    for name, parameter in ours.named_parameters():
        with torch.no_grad():
            kept = parameter.clone()
            parameter.add_(0.1 * torch.randn(kept.shape, generator=torch.Generator().manual_seed(2)))
            shown = (ours(tokens) - want).abs().max()
            parameter.copy_(kept)
        assert shown > 1e-3, name


def exchanging(change):
    return "selective_scan_carry", lambda *x: selective_scan_carry(*change(*x))


FAULTS = {
    "D left out": exchanging(lambda u, dt, A, B, C, D, s: (u, dt, A, B, C, 0 * D, s)),
    "B and C exchanged": exchanging(lambda u, dt, A, B, C, D, s: (u, dt, A, C, B, D, s)),
    "rates all alike": exchanging(lambda u, dt, A, B, C, D, s: (u, dt, 0 * A - 1, B, C, D, s)),
    "step sizes one and all": exchanging(lambda u, dt, A, B, C, D, s: (u, 0 * dt + 1, A, B, C, D, s)),
    "nothing remembered": exchanging(lambda u, dt, A, B, C, D, s: (u, dt, 1e9 * A, B, C, D, s)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_tells_faults_apart(fault, monkeypatch):
    ours, tokens, want = both("plain")
    monkeypatch.setattr(tfcore.mamba, *FAULTS[fault])
    with torch.no_grad():
        assert (ours(tokens) - want).abs().max() > 0.01


def test_a_model_starts_with_steps_from_a_thousandth_to_a_tenth():
    model = Mamba(MambaConfig(vocab_size=7, d_model=64, num_layers=1, d_state=3))
    mixer = model.blocks[0].mixer
    step = torch.nn.functional.softplus(mixer.dt_proj.bias)
    assert 0.99e-3 <= step.min() < 2e-3
    assert 0.05 < step.max() <= 0.1001
    torch.testing.assert_close(mixer.A_log.exp(), torch.tensor([1.0, 2.0, 3.0]).expand(128, 3))


def test_rates_do_not_decay():
    model = Mamba(MambaConfig(vocab_size=11, d_model=8, num_layers=1))
    decayed, plain = decay_groups(model, 0.1)
    A_log = model.blocks[0].mixer.A_log
    assert any(p is A_log for p in plain["params"])
    assert not any(p is A_log for p in decayed["params"])
