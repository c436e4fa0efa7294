"""RWKV: wkv against its definition in both forms, and the model against transformers'."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
import torch
from linear_time_oracle import TOLERANCE, distance, elements_written, numbers, wkv_oracle

import tfcore.rwkv
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import raise_weights
from tfcore.wkv import WKVState, wkv, wkv_carry, wkv_step

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def draw(B=2, T=11, d=3, dtype=torch.float64, spread=1.5, grad=False):
    generator = torch.Generator().manual_seed(0)
    w = torch.rand(d, generator=generator, dtype=torch.float64) * 2 + 0.1
    u, k, v = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((d,), (B, T, d), (B, T, d))
    )
    return [x.to(dtype).requires_grad_(grad) for x in (w, u + 0.5, k * spread, v + 1)]


def by_steps(w, u, k, v, state=None):
    outputs = []
    for t in range(k.shape[1]):
        output, state = wkv_step(w, u, k[:, t], v[:, t], state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


# --- wkv


@pytest.mark.parametrize("form", [wkv, lambda *x: by_steps(*x)[0]], ids=["scan", "steps"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wkv_matches_the_oracle(dtype, form):
    inputs = draw(dtype=dtype)
    got = form(*inputs)
    assert got.dtype == dtype
    assert distance(got, wkv_oracle(*numbers(*inputs))) <= TOLERANCE[dtype]


@pytest.mark.parametrize("form", [wkv, lambda *x: by_steps(*x)[0]], ids=["scan", "steps"])
@pytest.mark.parametrize("shift", [1e3, -1e3, 0.0])
def test_wkv_is_stable_for_keys_of_any_size(shift, form):
    inputs = draw(dtype=torch.float32, spread=400, grad=True)
    w, u, k, v = inputs
    changed = w, u * 400, k + shift, v
    output = form(*changed)
    output.sum().backward()
    assert distance(output, wkv_oracle(*numbers(*changed))) <= 2e-4  # exponents of 1,000 in float32
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-6, 0.3, 20.0])
def test_wkv_is_exact_over_long_texts(rate):
    w, u, k, v = draw(B=1, T=3000, d=2, dtype=torch.float32)
    w = w * rate
    want, _ = by_steps(*(x.double() for x in (w, u, k, v)))
    assert distance(wkv(w, u, k, v), numbers(want)[0]) <= 5e-5


MUTANTS = {
    "bonus left out": lambda w, u, k, t, i: k - (t - 1 - i) * w if i < t else k,
    "bonus on every token": lambda w, u, k, t, i: k - (t - 1 - i) * w + u if i < t else k + u,
    "decay on the last token": lambda w, u, k, t, i: k - (t - i) * w if i < t else k + u,
    "grows for decays": lambda w, u, k, t, i: k + (t - 1 - i) * w if i < t else k + u,
    "decay of exp(w)": lambda w, u, k, t, i: k - (t - 1 - i) * np.exp(w) if i < t else k + u,
    "no decay": lambda w, u, k, t, i: k if i < t else k + u,
    "current token left out": lambda w, u, k, t, i: k - (t - 1 - i) * w if i < t else k + u - 1e9 * (t > 0),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_tells_mutants_of_wkv_apart(name):
    inputs = numbers(*draw())
    mutant = wkv_oracle(*inputs, exponent=MUTANTS[name])
    assert distance(mutant, wkv_oracle(*inputs)) > 0.01


def test_a_state_goes_on_where_it_was_left_in_either_form():
    w, u, k, v = draw()
    first, state = wkv_carry(w, u, k[:, :4], v[:, :4])
    second, state = by_steps(w, u, k[:, 4:6], v[:, 4:6], state)
    third, state = wkv_carry(w, u, k[:, 6:], v[:, 6:], state)
    torch.testing.assert_close(torch.cat([first, second, third], dim=1), wkv(w, u, k, v))
    _, want = by_steps(w, u, k, v)
    for name in ("numerator", "denominator"):  # each is relative to its own peak
        got, expected = (getattr(s, name) * torch.exp(s.peak) for s in (state, want))
        torch.testing.assert_close(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("form", [wkv, lambda *x: by_steps(*x)[0]], ids=["scan", "steps"])
def test_gradients_of_wkv(form):
    assert torch.autograd.gradcheck(form, draw(B=2, T=5, d=3, grad=True))


@pytest.mark.slow
def test_gradients_pass_through_a_state():
    w, u, k, v = draw(B=2, T=6, d=3, grad=True)

    def in_two(w, u, k, v):
        first, state = wkv_carry(w, u, k[:, :3], v[:, :3])
        return torch.cat([first, wkv_carry(w, u, k[:, 3:], v[:, 3:], state)[0]], dim=1)

    assert torch.autograd.gradcheck(in_two, (w, u, k, v))


@pytest.mark.slow
def test_cost_of_wkv_grows_linearly_forward_and_backward():
    def cost(T):
        return elements_written(lambda: wkv(*draw(T=T, grad=True)))

    assert cost(512) <= 2.05 * cost(256)


def test_states_of_wkv_are_wide_and_inputs_stay():
    inputs = draw(dtype=torch.bfloat16)
    before = [x.clone() for x in inputs]
    for carry in (wkv_carry, by_steps):
        _, state = carry(*inputs)
        assert {x.dtype for x in state} == {torch.float32}
        kept = [x.clone() for x in state]
        carry(*inputs, WKVState(*state))
        assert all(torch.equal(x, y) for x, y in zip([*inputs, *state], [*before, *kept], strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, u, k, v: (w, u, k, v[:, 1:]), r"of one shape \(B, T, d\)"),
        (lambda w, u, k, v: (w, u, k[0], v[0]), r"of one shape \(B, T, d\)"),
        (lambda w, u, k, v: (w[1:], u, k, v), "one number per channel"),
        (lambda w, u, k, v: (w, u[None], k, v), "one number per channel"),
        (lambda w, u, k, v: (-w, u, k, v), r"goes in as exp\(w\)"),
    ],
)
def test_bad_input_to_wkv_is_told_as_such(change, message):
    with pytest.raises(ValueError, match=message):
        wkv(*change(*draw()))


def test_the_state_of_another_batch_is_refused():
    w, u, k, v = draw()
    _, state = wkv_carry(w, u, k, v)
    with pytest.raises(ValueError, match="expected a state of three"):
        wkv_carry(w, u, k[:1], v[:1], state)
    with pytest.raises(ValueError, match="expected a state of three"):
        wkv_step(w, u, k[:1, 0], v[:1, 0], state)


# --- the model

SIZES = {
    "plain": {},
    "every width its own": {"attention_hidden_size": 20, "intermediate_size": 28, "layer_norm_epsilon": 1e-2},
}
NAMES = {  # theirs on disk: ours
    "rwkv.": "",
    "embeddings": "embedding",
    "blocks.0.pre_ln": "norm_embedding",
    "ln_out": "norm_final",
    "ln1": "norm_time",
    "ln2": "norm_channel",
    "attention.": "time_mixing.",
    "feed_forward": "channel_mixing",
    "time_decay": "log_decay",
    "time_first": "bonus",
    "time_mix_key": "mix_k",
    "time_mix_value": "mix_v",
    "time_mix_receptance": "mix_r",
    "receptance": "W_r",
    "key": "W_k",
    "value": "W_v",
    "output": "W_o",
}


def ours_from(theirs):
    """Build our model with their weights: names exchanged, the mixes without their axes of size 1."""
    config, state = theirs.config, {}
    for name, x in theirs.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        state[name] = x.clone().flatten() if "mix_" in name else x.clone()
    model = RWKV(
        RWKVConfig(
            vocab_size=config.vocab_size,
            d_model=config.hidden_size,
            num_layers=config.num_hidden_layers,
            d_attention=config.attention_hidden_size,
            d_ff=config.intermediate_size,
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
    from transformers import RwkvConfig, RwkvForCausalLM

    sizes = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 3, **SIZES[name]}
    theirs = raise_weights(RwkvForCausalLM(RwkvConfig(**sizes))).eval()
    ours = ours_from(theirs)  # before their first call, which halves weights in place
    tokens = torch.randint(23, (2, 17), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return ours, tokens, theirs(tokens, use_cache=False).logits


def without_eps(model):
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-12
    return model


@pytest.mark.parametrize("name", SIZES)
def test_the_model_computes_what_transformers_computes(name):
    ours, tokens, want = both(name)
    assert want.std() > 0.3
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), want, rtol=0, atol=5e-5)


def test_rescaling_weights_in_memory_changes_no_more_than_the_eps_of_norms():
    from transformers import RwkvConfig, RwkvForCausalLM

    config = RwkvConfig(vocab_size=23, hidden_size=12, num_hidden_layers=5, rescale_every=2)
    theirs = raise_weights(RwkvForCausalLM(config))
    ours, tokens = ours_from(theirs), both("plain")[1]
    with torch.no_grad():
        logits = theirs.train()(tokens, use_cache=False).logits  # in training they rescale nothing
        torch.testing.assert_close(ours(tokens), logits, rtol=0, atol=5e-5)
        rescaled = without_eps(theirs.eval())(tokens, use_cache=False).logits
        torch.testing.assert_close(without_eps(ours)(tokens), rescaled, rtol=0, atol=5e-5)
    theirs_now = theirs.rwkv.blocks[4].attention.output.weight
    torch.testing.assert_close(theirs_now * 4, ours.blocks[4].time_mixing.W_o.weight)  # so it did rescale


@pytest.mark.slow
def test_every_parameter_shows_in_the_logits():
    ours, tokens, want = both("every width its own")
    assert len(list(ours.parameters())) == 60
    for name, parameter in ours.named_parameters():
        with torch.no_grad():
            kept = parameter.clone()
            parameter.add_(0.1 * torch.randn(kept.shape, generator=torch.Generator().manual_seed(2)))
            shown = (ours(tokens) - want).abs().max()
            parameter.copy_(kept)
        assert shown > 1e-3, name


FAULTS = {
    "tokens not shifted": ("shift", lambda x, last: x),
    "shifted the wrong way": ("shift", lambda x, last: torch.cat([x[:, 1:], last[:, None]], dim=1)),
    "mixed the other way round": ("mix", lambda x, before, share: (1 - share) * x + share * before),
    "decay not exponentiated": ("wkv_carry", lambda w, *x: wkv_carry(w.log().abs() + 1e-3, *x)),
    "no bonus": ("wkv_carry", lambda w, u, *x: wkv_carry(w, 0 * u, *x)),
    "keys and values exchanged": ("wkv_carry", lambda w, u, k, v, s: wkv_carry(w, u, v, k, s)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_tells_faults_apart(fault, monkeypatch):
    ours, tokens, want = both("plain")
    monkeypatch.setattr(tfcore.rwkv, *FAULTS[fault])
    with torch.no_grad():
        assert (ours(tokens) - want).abs().max() > 0.01


def test_a_model_starts_with_decays_from_slow_to_fast():
    model = RWKV(RWKVConfig(vocab_size=7, d_model=6, num_layers=3, d_attention=5))
    for block in model.blocks:
        decay = block.time_mixing.log_decay
        assert decay[0] == -5
        assert decay[-1] == 3
        assert (decay.diff() > 0).all()
    RWKV(RWKVConfig(vocab_size=7, d_model=1, num_layers=1))  # the smallest divides nothing by zero
