"""What recurrent models have in common: one token after the other is the whole text, at a cost that stays."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from linear_time_oracle import WriteCounter, elements_written

import tfcore.selective_scan
import tfcore.state_space_duality
from tfcore.mamba import Mamba, MambaConfig
from tfcore.mamba2 import Mamba2, Mamba2Config
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import raise_weights

V = 13
CONFIGS = {RWKV: RWKVConfig, Mamba: MambaConfig, Mamba2: Mamba2Config}
MODELS = {
    "rwkv": lambda: RWKV(RWKVConfig(vocab_size=V, d_model=6, num_layers=3, d_attention=5, d_ff=7)),
    "mamba": lambda: Mamba(
        MambaConfig(vocab_size=V, d_model=6, num_layers=2, d_state=4, d_conv=5, dt_rank=3)
    ),
    "mamba without window": lambda: Mamba(MambaConfig(vocab_size=V, d_model=6, num_layers=2, d_conv=1)),
    "mamba2": lambda: Mamba2(
        Mamba2Config(V, d_model=6, num_layers=2, d_head=3, d_state=5, num_groups=2, d_conv=3)
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    return raised(request.param)


@functools.cache
def raised(name):
    model = raise_weights(MODELS[name]()).double().eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith(("dt_proj.bias", "dt_bias")):
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    return model.requires_grad_(False)


def draw_tokens(B=3, T=14, seed=0):
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


def feed(model, tokens, sizes, cache=None):
    cache = model.new_cache(tokens.shape[0]) if cache is None else cache
    return torch.cat([model(part, cache) for part in tokens.split(sizes, dim=1)], dim=1), cache


@pytest.mark.parametrize(
    "sizes", [[14], [1] * 14, [5, 9], [1, 13], [13, 1], [2, 1, 1, 3, 7]], ids=lambda x: "-".join(map(str, x))
)
def test_every_chunking_is_the_whole_text(model, sizes):
    tokens = draw_tokens()
    output, cache = feed(model, tokens, sizes)
    torch.testing.assert_close(output, model(tokens), rtol=0, atol=1e-11)
    assert cache.length == 14
    assert cache.batch == 3


def test_chunks_of_the_scan_do_not_show(monkeypatch):
    tokens = draw_tokens()
    want = raised("mamba")(tokens)
    monkeypatch.setattr(tfcore.selective_scan, "CHUNK", 3)
    torch.testing.assert_close(raised("mamba")(tokens), want, rtol=0, atol=1e-11)


def test_a_sequence_in_a_batch_is_as_if_alone(model):
    tokens = draw_tokens()
    together, _ = feed(model, tokens, [4, 1, 9])
    for b in range(3):
        alone, _ = feed(model, tokens[b : b + 1], [4, 1, 9])
        torch.testing.assert_close(together[b : b + 1], alone, rtol=0, atol=1e-11)


def test_no_token_shows_before_its_place_and_every_one_shows_after(model):
    tokens = draw_tokens(B=1)
    before = model(tokens)
    for j in range(13):
        changed = tokens.clone()
        changed[0, j] = (changed[0, j] + 1) % V
        moved = (model(changed) - before).abs().amax(dim=-1)[0]
        assert (moved[:j] == 0).all()
        assert (moved[j : j + 2] > 1e-6).all()


def test_the_cache_is_as_large_after_many_tokens_as_after_one(model):
    cache = model.new_cache(3, max_len=2)
    start = cache.num_bytes()
    for T in (1, 30, 1):
        model(draw_tokens(T=T), cache)
        held = sum(x.numel() * x.element_size() for state in cache.layers for x in state)
        assert cache.num_bytes() == held == start  # a view would hold on to all of what it was cut from
    assert cache.length == 32


@pytest.mark.slow
def test_a_step_costs_the_same_at_every_position(model):
    cache, costs = model.new_cache(2), []
    model(draw_tokens(B=2, T=2), cache)
    for _ in range(30):
        with WriteCounter() as counter:
            model(draw_tokens(B=2, T=1), cache)
        costs.append((counter.calls, counter.elements))
    assert len(set(costs)) == 1


@pytest.mark.slow
def test_cost_of_a_text_grows_linearly_forward_and_backward(monkeypatch):
    monkeypatch.setattr(tfcore.selective_scan, "CHUNK", 16)
    monkeypatch.setattr(tfcore.state_space_duality.ssd_carry, "__defaults__", (None, 16))
    for name in ("rwkv", "mamba", "mamba2"):
        model = MODELS[name]()

        def cost(T, model=model):
            return elements_written(lambda: model(draw_tokens(B=1, T=T)))

        assert cost(256) <= 2.05 * cost(128), name


def test_states_can_be_kept_and_gone_back_to(model):
    tokens = draw_tokens()
    _, cache = feed(model, tokens[:, :5], [5])
    layers, length = cache.layers, cache.length
    first, _ = feed(model, tokens[:, 5:], [9], cache)
    cache.layers, cache.length = layers, length
    again, _ = feed(model, tokens[:, 5:], [1] * 9, cache)
    torch.testing.assert_close(first, again, rtol=0, atol=1e-11)
    assert cache.length == 14


def test_beams_may_be_copied_and_dropped(model):
    tokens, rows = draw_tokens(), torch.tensor([2, 0, 0, 1])
    _, cache = feed(model, tokens[:, :5], [5])
    cache.reorder(rows)
    rest, _ = feed(model, tokens[rows, 5:], [3, 6], cache)
    assert cache.batch == 4
    torch.testing.assert_close(rest, model(tokens[rows])[:, 5:], rtol=0, atol=1e-11)


def test_a_cache_of_another_model_is_refused(model):
    cache = model.new_cache(2)
    cache.layers.append(cache.layers[0])
    with pytest.raises(ValueError, match=r"a cache of .* from new_cache of this model"):
        model(torch.zeros(2, 5, dtype=torch.long), cache)
    cache.layers = [(*state, state[0]) for state in cache.layers[:-1]]
    with pytest.raises(ValueError, match=r"a cache of .* from new_cache of this model"):
        model(torch.zeros(2, 5, dtype=torch.long), cache)


def test_a_state_that_is_to_forget_its_last_tokens_says_that_it_cannot(model):
    _, cache = feed(model, draw_tokens(), [14])
    layers = cache.layers
    cache.truncate(14)
    with pytest.raises(ValueError, match="keep the old layers"):
        cache.truncate(13)
    assert cache.layers is layers


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(5, dtype=torch.long), r"tokens\[None\]"),
        (torch.zeros(2, 0, dtype=torch.long), "T of 1 or more"),
        (torch.zeros(2, 5), "int64 or int32 of shape .* got torch.float32"),
        (torch.zeros(2, 5, dtype=torch.uint16), "int64 or int32 of shape .* got torch.uint16"),
        (torch.full((2, 5), 99), "expected token ids from 0 to .*, got 99"),
        (torch.zeros(3, 5, dtype=torch.long), r"the 2 sequences .* got 3"),
    ],
)
def test_bad_tokens_are_told_as_such_and_change_no_cache(model, tokens, message):
    _, cache = feed(model, draw_tokens(B=2), [14])
    layers = cache.layers
    with pytest.raises(ValueError, match=message):
        model(tokens, cache)
    assert cache.layers is layers
    assert cache.length == 14


@pytest.mark.parametrize("config", [RWKVConfig, MambaConfig, Mamba2Config])
@pytest.mark.parametrize("name", ["vocab_size", "d_model", "num_layers"])
@pytest.mark.parametrize("value", [0, 2.5])
def test_bad_sizes_are_told_as_such(config, name, value):
    sizes = {"vocab_size": 5, "d_model": 4, "num_layers": 1, name: value}
    with pytest.raises(ValueError, match=f"expected {name} as a whole number"):
        config(**sizes)


@pytest.mark.parametrize("name", ["rwkv", "mamba", "mamba2"])
def test_half_precision_keeps_its_type_and_wide_sums(name):
    model = raise_weights(MODELS[name]()).eval().requires_grad_(False)
    tokens = draw_tokens()
    want, scale = model(tokens), model(tokens).std()
    half = model.bfloat16()
    output, cache = feed(half, tokens, [4, 1, 9])
    assert output.dtype == torch.bfloat16
    for state in (cache.layers[0], half.new_cache(1).layers[0]):
        assert {x.dtype for x in state} == {torch.bfloat16, torch.float32}
    assert (output.float() - want).abs().mean() < 0.05 * scale


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("model", [RWKV, Mamba, Mamba2])
def test_a_tied_head_is_the_embedding_and_no_second_matrix(model, tied):
    small = {"d_head": 4} if model is Mamba2 else {}
    config = CONFIGS[model](V, 6, 1, tied=tied, **small)
    matrices = [name for name, x in model(config).state_dict().items() if tuple(x.shape) == (V, 6)]
    assert matrices == ["embedding.weight"] + ["head.weight"] * (not tied)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rwkv", "mamba", "mamba2"])
def test_gradients_of_the_model(name):
    config = {
        "rwkv": lambda: RWKV(RWKVConfig(3, 4, 1, d_attention=3, d_ff=2)),
        "mamba": lambda: Mamba(MambaConfig(3, 4, 1, d_state=2, d_conv=2, expand=1, dt_rank=2)),
        "mamba2": lambda: Mamba2(Mamba2Config(3, 4, 1, d_head=2, d_state=2, d_conv=2, expand=1)),
    }
    model = raise_weights(config[name]()).double()
    names = [n for n, _ in model.named_parameters()]
    tokens = torch.tensor([[0, 2, 1, 1]])

    def run(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, [p.detach().requires_grad_() for p in model.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("make", [RWKV, Mamba, Mamba2])
def test_a_model_learns_to_repeat(make):
    """Each token is the one two before it."""
    torch.manual_seed(0)
    small = {"d_head": 8, "d_state": 16} if make is Mamba2 else {}
    model = make(CONFIGS[make](vocab_size=V, d_model=24, num_layers=2, **small))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        tokens = torch.randint(V, (16, 2), generator=generator).repeat(1, 4)
        loss = F.cross_entropy(model(tokens)[:, 1:-1].flatten(0, 1), tokens[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3
