"""Mamba-2 against transformers: whole texts, pieces through its cache, groups, gate, limits of the steps."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import tempfile

import pytest
import torch

from tfcore.io import from_pretrained
from tfcore.mamba2 import GatedNorm, Mamba2, Mamba2Config, ssd_by_group
from tfcore.state_space_duality import ssd_carry
from tfcore.testing import raise_weights
from tfcore.train import decay_groups

SIZES = {
    "plain": {"head_dim": 6, "num_heads": 4, "n_groups": 1, "state_size": 7, "tie_word_embeddings": True},
    "every size its own": {
        "head_dim": 9,
        "num_heads": 4,
        "n_groups": 2,
        "state_size": 5,
        "conv_kernel": 3,
        "expand": 3,
        "use_bias": True,
        "layer_norm_epsilon": 1e-2,
        "chunk_size": 8,
    },
    "a group for each head, limited steps": {
        "head_dim": 8,
        "num_heads": 3,
        "n_groups": 3,
        "state_size": 5,
        "time_step_limit": (0.5, 2.0),
    },
    "no convolution, no bias of it": {
        "head_dim": 12,
        "num_heads": 2,
        "n_groups": 1,
        "state_size": 5,
        "conv_kernel": 1,
        "use_conv_bias": False,
    },
}
TOKENS = torch.randint(23, (2, 17), generator=torch.Generator().manual_seed(3))


@functools.cache
def both(name):
    """Return our model and theirs, with steps near 1 and rates from slow to fast."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import Mamba2Config, Mamba2ForCausalLM

    sizes = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, **SIZES[name]}
    theirs = raise_weights(Mamba2ForCausalLM(Mamba2Config(**sizes))).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for layer in theirs.backbone.layers:
        layer.mixer.dt_bias.normal_(generator=generator)
        layer.mixer.A_log.normal_(generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return from_pretrained(folder).requires_grad_(False), theirs


@pytest.mark.parametrize("name", SIZES)
def test_the_model_computes_what_transformers_computes(name):
    ours, theirs = both(name)
    want = theirs(TOKENS, use_cache=False).logits
    assert want.std() > 0.3
    torch.testing.assert_close(ours(TOKENS), want, rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("pieces", [[1] * 17, [5, 1, 8, 3]], ids=["steps", "pieces"])
def test_pieces_through_our_cache_are_pieces_through_theirs(name, pieces):
    """Their step of one token leaves out the limits, so that a limited model is compared with the whole."""
    ours, theirs = both(name)
    our_cache, their_cache, got, want = ours.new_cache(batch=2), None, [], []
    for piece in TOKENS.split(pieces, dim=1):
        got.append(ours(piece, our_cache))
        output = theirs(piece, cache_params=their_cache, use_cache=True)
        their_cache = output.cache_params
        want.append(output.logits)
    if "time_step_limit" in SIZES[name]:
        want = [theirs(TOKENS, use_cache=False).logits]
    torch.testing.assert_close(torch.cat(got, dim=1), torch.cat(want, dim=1), rtol=0, atol=5e-5)


def test_every_parameter_shows_in_the_logits():
    ours, _ = both("every size its own")
    before = ours(TOKENS)
    assert len(list(ours.parameters())) == 25
    for name, parameter in ours.named_parameters():
        kept = parameter.clone()
        parameter.add_(0.1 * torch.randn(kept.shape, generator=torch.Generator().manual_seed(2)))
        shown = (ours(TOKENS) - before).abs().max()
        parameter.copy_(kept)
        assert shown > 1e-3, name


def exchanging(change):
    return "ssd_by_group", lambda *x: ssd_by_group(*change(*x))


def norm_before_the_gate(self, y, gate):
    groups = y.unflatten(-1, (self.num_groups, -1))
    normed = torch.nn.functional.rms_norm(groups, groups.shape[-1:], eps=self.eps).flatten(-2)
    return self.weight * normed * torch.nn.functional.silu(gate)


def one_mean_for_all(self, y, gate):
    gated = y * torch.nn.functional.silu(gate)
    return self.weight * torch.nn.functional.rms_norm(gated, gated.shape[-1:], eps=self.eps)


FAULTS = {
    "B and C exchanged": exchanging(lambda u, dt, A, B, C, s: (u, dt, A, C, B, s)),
    "groups exchanged": exchanging(lambda u, dt, A, B, C, s: (u, dt, A, B.flip(2), C.flip(2), s)),
    "rates all alike": exchanging(lambda u, dt, A, B, C, s: (u, dt, 0 * A - 1, B, C, s)),
    "step sizes one and all": exchanging(lambda u, dt, A, B, C, s: (u, 0 * dt + 1, A, B, C, s)),
    "nothing remembered": exchanging(lambda u, dt, A, B, C, s: (u, dt, 1e9 * A, B, C, s)),
    "norm before the gate": ("GatedNorm.forward", norm_before_the_gate),
    "one mean for all groups": ("GatedNorm.forward", one_mean_for_all),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_tells_faults_apart(fault, monkeypatch):
    ours, theirs = both("every size its own")
    where, wrong = FAULTS[fault]
    monkeypatch.setattr(f"tfcore.mamba2.{where}", wrong)
    assert (ours(TOKENS) - theirs(TOKENS, use_cache=False).logits).abs().max() > 0.01


@pytest.mark.parametrize("limit", [(0.5, math.inf), (0.0, 2.0)])
def test_both_limits_of_the_steps_show(limit):
    ours, _ = both("a group for each head, limited steps")
    assert ours.config.step_limit == (0.5, 2.0)
    unlimited = Mamba2(dataclasses.replace(ours.config, step_limit=limit)).eval()
    unlimited.load_state_dict(ours.state_dict())
    assert (unlimited(TOKENS) - ours(TOKENS)).abs().max() > 0.01


# --- groups and the gated norm


def draw(T=6, h=6, p=2, groups=3, N=4):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    delta, A = normal(2, T, h).exp() / 2, -normal(h).exp()
    return [
        normal(2, T, h, p),
        delta,
        A,
        normal(2, T, groups, N),
        normal(2, T, groups, N),
        normal(2, h, p, N),
    ]


@pytest.mark.parametrize("T", [1, 6])
def test_each_head_reads_the_b_and_c_of_its_group(T):
    x, delta, A, B, C, state = draw(T=T)
    output, after = ssd_by_group(x, delta, A, B, C, state)
    for h in range(6):
        one, group = slice(h, h + 1), h // 2
        want, want_after = ssd_carry(
            x[:, :, one], delta[:, :, one], A[one], B[:, :, group], C[:, :, group], state[:, one]
        )
        torch.testing.assert_close(output[:, :, one], want)
        torch.testing.assert_close(after[:, one], want_after)


def test_the_gated_norm_gates_first_and_has_a_mean_for_each_group():
    norm = raise_weights(GatedNorm(width=6, num_groups=2, eps=0.1)).double()
    y, gate = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    gated = y * gate * gate.sigmoid()
    for part in (slice(0, 3), slice(3, 6)):
        mean = gated[:, part].square().mean(dim=-1, keepdim=True)
        want = norm.weight[part] * gated[:, part] / (mean + 0.1).sqrt()
        torch.testing.assert_close(norm(y, gate)[:, part], want)


# --- sizes and the start


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"d_head": 5}, "whole heads of d_head"),
        ({"d_head": 4, "num_groups": 2}, "groups of one size"),
        ({"d_head": 0}, "expected d_head as a whole number"),
        ({"num_groups": 0}, "expected num_groups as a whole number"),
        ({"d_head": 4, "step_limit": (0.2, 0.1)}, r"0 <= low < high, got \[0.2, 0.1\]"),
        ({"d_head": 4, "step_limit": (-0.2, 0.1)}, r"0 <= low < high"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Mamba2Config(vocab_size=7, d_model=6, num_layers=1, **sizes)


def test_a_model_starts_with_steps_from_a_thousandth_to_a_tenth_and_rates_from_1_to_16():
    mixer = Mamba2(Mamba2Config(vocab_size=7, d_model=64, num_layers=1, d_head=1, d_state=3)).blocks[0].mixer
    step, rate = torch.nn.functional.softplus(mixer.dt_bias), mixer.A_log.exp()
    assert 0.99e-3 <= step.min() < 2e-3
    assert 0.05 < step.max() <= 0.1001
    assert 1 <= rate.min() < 2
    assert 14 < rate.max() <= 16.001


def test_rates_and_shortcuts_do_not_decay():
    model = Mamba2(Mamba2Config(vocab_size=11, d_model=8, num_layers=1, d_head=4))
    decayed, plain = decay_groups(model, 0.1)
    mixer = model.blocks[0].mixer
    for parameter in (mixer.A_log, mixer.D, mixer.dt_bias, mixer.norm.weight):
        assert any(p is parameter for p in plain["params"])
        assert not any(p is parameter for p in decayed["params"])
