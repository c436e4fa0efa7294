"""The encoder-decoder against torch's own GRUs, and its two contexts against each other on reversal."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from tfcore.bottleneck import additive_attention
from tfcore.masks import padding_mask
from tfcore.seq2seq import CONTEXTS, Seq2Seq, StaticContext
from tfcore.testing import raise_weights

B, T_SOURCE, T_TARGET, V, D, BOS = 3, 7, 5, 11, 6, 1
LENGTHS = torch.tensor([4, 7, 1])
each_context = pytest.mark.parametrize("context", CONTEXTS)


def make(context, dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    model = Seq2Seq(**{"vocab_size": V, "d_hidden": D, **sizes}, context=context)
    return raise_weights(model, std=1.0).to(dtype)


def tokens(*shape, seed=0):
    return torch.randint(2, V, shape, generator=torch.Generator().manual_seed(seed))


def close(got, want, atol=1e-13):
    torch.testing.assert_close(got, want, rtol=0, atol=atol)


# --- against torch's GRU and the numpy reference of attention


def torch_gru(ours):
    theirs = nn.GRU(ours.d_in, ours.d_hidden, batch_first=True).double()
    values = ours.W_x[0].weight, ours.W_h[0].weight, ours.W_x[0].bias, ours.W_h[0].bias
    with torch.no_grad():
        for parameter, value in zip(theirs.parameters(), values, strict=True):
            parameter.copy_(value)
    return theirs


@torch.no_grad()
def by_hand(model, source, target):
    """Read one source and its target without padding, one token at a time."""
    memory, state = torch_gru(model.encoder)(model.embed_source(source)[None])
    decoder, all_logits, all_weights = torch_gru(model.decoder), [], []
    for token in target:
        if isinstance(model.context, StaticContext):
            context, weights = memory[:, -1], F.one_hot(torch.tensor([len(source) - 1])).double()
        else:
            W_q, W_k, v = (w.T.numpy() for w in model.context.parameters())
            pair = additive_attention(state[0].numpy(), memory.numpy(), memory.numpy(), W_q, W_k, v[:, 0])
            context, weights = map(torch.tensor, pair)
        _, state = decoder(torch.cat([model.embed_target(token)[None], context], -1)[None], state)
        all_logits.append(model.readout(torch.cat([state[0], context], -1))[0])
        all_weights.append(weights[0])
    return torch.stack(all_logits), torch.stack(all_weights)


@each_context
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_weights_match_each_source_by_hand(context, side):
    model, source, target = make(context), tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)
    padding = padding_mask(LENGTHS, T_SOURCE)
    padding = padding.flip(1) if side == "left" else padding
    logits, weights = model(source, target, padding, return_weights=True)
    assert torch.equal(model(source, target, padding), logits)
    assert not weights.masked_select(~padding[:, None]).any()
    for b in range(B):
        want, want_weights = by_hand(model, source[b, padding[b]], target[b])
        close(logits[b], want)
        close(weights[b][:, padding[b]], want_weights)


@pytest.mark.slow
@each_context
def test_gradcheck(context):
    model = make(context, vocab_size=3, d_hidden=2)
    names = [name for name, _ in model.named_parameters()]
    source, target = torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([[0, 1], [2, 2]])
    padding = torch.tensor([[True, True, False], [True, True, True]])

    def run(*parameters):
        return functional_call(model, dict(zip(names, parameters, strict=True)), (source, target, padding))

    assert torch.autograd.gradcheck(run, tuple(model.parameters()))


# --- time and padding


@each_context
def test_logits_depend_on_the_target_up_to_their_token_and_no_further(context):
    model, source, target = make(context), tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)
    logits = model(source, target)
    for t in range(T_TARGET):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % V
        moved = model(source, changed)
        assert torch.equal(moved[:, :t], logits[:, :t])
        assert (moved[:, t:] != logits[:, t:]).any(-1).all()


@each_context
def test_every_source_token_matters_and_no_padding_does(context):
    model, source, target = make(context), tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)
    padding = padding_mask(LENGTHS, T_SOURCE)
    logits = model(source, target, padding)
    for j in range(T_SOURCE):
        changed = source.clone()
        changed[:, j] = (changed[:, j] + 1) % V
        moved = (model(changed, target, padding) != logits).flatten(1).any(1)
        assert torch.equal(moved, padding[:, j])


@each_context
def test_a_source_of_padding_gives_finite_logits_and_gradients(context):
    model, source, target = make(context), tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)
    padding = padding_mask(torch.tensor([4, 0, 7]), T_SOURCE)
    logits, weights = model(source, target, padding, return_weights=True)
    assert logits.isfinite().all()
    assert not weights[1].any()
    logits.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    others = torch.tensor([0, 2])
    close(logits[others], model(source[others], target[others], padding[others]))


@each_context
def test_every_parameter_gets_a_gradient(context):
    model = make(context)
    model(tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)).square().sum().backward()
    assert all(p.grad.abs().max() > 1e-6 for p in model.parameters())


# --- the contexts


def test_the_static_context_never_moves_and_the_dynamic_one_does():
    source, target = tokens(B, T_SOURCE), tokens(B, T_TARGET, seed=1)
    padding = padding_mask(LENGTHS, T_SOURCE)
    _, static = make("static")(source, target, padding, return_weights=True)
    want = F.one_hot(LENGTHS - 1, T_SOURCE).double()
    assert torch.equal(static, want[:, None].expand(-1, T_TARGET, -1))
    _, dynamic = make("dynamic")(source, target, padding, return_weights=True)
    close(dynamic.sum(-1), torch.ones(B, T_TARGET, dtype=torch.float64))
    assert (dynamic[:2, 1:] - dynamic[:2, :-1]).abs().amax(-1).min() > 1e-3


def test_the_static_context_is_the_last_value_that_may_be_seen():
    values = torch.randn(4, T_SOURCE, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(4, T_SOURCE, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[1] = False
    dirty = values.masked_fill(~mask[..., None], torch.nan)
    context, weights = StaticContext().prepare(dirty, dirty, mask)(torch.zeros(4, 2))
    for b in range(4):
        seen = np.flatnonzero(mask[b])
        assert torch.equal(context[b], values[b, seen[-1]] if len(seen) else torch.zeros(3))
        assert weights[b].nonzero().flatten().tolist() == list(seen[-1:])
    assert torch.equal(StaticContext().prepare(values, values)(torch.zeros(4, 2))[0], values[:, -1])


def test_both_contexts_start_from_the_same_weights_under_one_seed():
    models = []
    for context in CONTEXTS:
        torch.manual_seed(3)
        models.append(Seq2Seq(V, D, context).state_dict())
    static, dynamic = models
    assert set(dynamic) - set(static) == {f"context.{name}.weight" for name in ("W_q", "W_k", "v")}
    assert all(torch.equal(static[name], dynamic[name]) for name in static)


def test_keys_are_projected_once_however_long_the_target():
    model, calls = make("dynamic"), []
    model.context.W_k.register_forward_hook(lambda *_: calls.append(1))
    model(tokens(B, T_SOURCE), tokens(B, T_TARGET))
    assert len(calls) == 1
    model.translate(tokens(B, T_SOURCE), BOS, 9)
    assert len(calls) == 2


# --- translate


@each_context
def test_translate_is_greedy_and_agrees_with_teacher_forcing(context):
    model, source = make(context, d_hidden=24), tokens(B, T_SOURCE)
    padding = padding_mask(LENGTHS, T_SOURCE)
    translated = model.translate(source, BOS, 6, padding)
    target = torch.full((B, 1), BOS)
    for _ in range(6):
        following = model(source, target, padding)[:, -1].argmax(-1, keepdim=True)
        target = torch.cat([target, following], dim=1)
    assert torch.equal(translated, target[:, 1:])
    assert len(translated.unique()) > 4
    for b, length in enumerate(LENGTHS):
        assert torch.equal(model.translate(source[b : b + 1, :length], BOS, 6)[0], translated[b])


# --- types, devices


@each_context
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_types_are_kept_and_arguments_too(context, dtype):
    arguments = tokens(B, T_SOURCE), tokens(B, T_TARGET), padding_mask(LENGTHS, T_SOURCE)
    before = [a.clone() for a in arguments]
    logits, weights = make(context, dtype)(*arguments, return_weights=True)
    assert logits.dtype == dtype
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    assert (logits.shape, weights.shape) == ((B, T_TARGET, V), (B, T_TARGET, T_SOURCE))
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))
    atol = {torch.float64: 1e-14, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    close(logits.double(), make(context)(*arguments), atol=atol)


@pytest.mark.slow
@each_context
def test_everything_happens_on_the_device_of_the_weights(context):
    model, source = make(context).to("meta"), tokens(B, T_SOURCE).to("meta")
    padding = torch.ones(B, T_SOURCE, dtype=torch.bool, device="meta")
    for given in (None, padding):
        assert model(source, tokens(B, T_TARGET).to("meta"), given).device.type == "meta"
    assert model.translate(source, BOS, 4, padding).device.type == "meta"


# --- what is compared

SHORT, LONG, WORDS = 8, 10, 20


def reversal(num, generator):
    """Draw sources of SHORT to LONG words and the same words backwards, none twice in one source."""
    lengths = torch.randint(SHORT, LONG + 1, (num, 1), generator=generator)
    real = torch.arange(LONG) < lengths
    source = 2 + torch.rand(num, WORDS, generator=generator).argsort(dim=1)[:, :LONG]
    target = source.gather(1, (lengths - 1 - torch.arange(LONG)).clamp(min=0))
    return source, target, real


def learn_reversal(context, steps=200):
    """Train; of the words of new sources, say how many come out right and how many are looked for rightly."""
    torch.manual_seed(0)
    model, generator = Seq2Seq(2 + WORDS, 32, context), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.015 * (1 - step / steps)
        source, target, real = reversal(64, generator)
        logits = model(source, F.pad(target, (1, -1), value=BOS), real)
        optimizer.zero_grad()
        F.cross_entropy(logits[real], target[real]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    source, target, real = reversal(200, torch.Generator().manual_seed(1))
    right = model.translate(source, BOS, LONG, real) == target
    _, weights = model(source, F.pad(target, (1, -1), value=BOS), real, return_weights=True)
    off = weights.argmax(-1) - (real.sum(1, keepdim=True) - 1 - torch.arange(LONG))
    looked = (off == 0) | (off == 1)  # the state behind the next word knows that word as well
    return [share[real].double().mean().item() for share in (right, looked)]


@pytest.mark.slow
def test_the_dynamic_context_learns_reversal_where_the_static_one_fails():
    dynamic, looked = learn_reversal("dynamic")
    static, stared = learn_reversal("static")
    assert dynamic > 0.95
    assert looked > 0.9
    assert static < 0.65
    assert stared < 0.3


# --- arguments that do not fit

source, target = tokens(B, T_SOURCE), tokens(B, T_TARGET)
BAD = {
    "context": (lambda: Seq2Seq(V, D, "bahdanau"), "a context out of static, dynamic, got 'bahdanau'"),
    "one source": (lambda: make("static")(source[0], target), "source (B, T) as whole numbers"),
    "one target": (lambda: make("static")(source, target[0]), "target (B, T) as whole numbers"),
    "no target": (
        lambda: make("dynamic")(source, target[:, :0]),
        "at least one token long, got",
    ),
    "embedded": (lambda: make("dynamic")(source * 1.0, target), "got torch.float32 (3, 7)"),
    "batch": (lambda: make("dynamic")(source, target[1:]), "one target per source, got 2 for 3"),
    "padding of the target": (
        lambda: make("dynamic")(source, target, torch.ones(B, T_TARGET, dtype=torch.bool)),
        "a boolean padding (B, T) = (3, 7), True at real tokens, got torch.bool (3, 5)",
    ),
    "bos": (lambda: make("dynamic").translate(source, V, 4), "a bos of 0 to 10, got 11"),
    "max_len": (lambda: make("dynamic").translate(source, BOS, 0), "max_len of 1 or more, got 0"),
    "mask of a static context": (
        lambda: StaticContext().prepare(torch.ones(2, 3, 4), torch.ones(2, 3, 4), torch.ones(2, 3)),
        "a boolean mask (B, T) = (2, 3)",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
