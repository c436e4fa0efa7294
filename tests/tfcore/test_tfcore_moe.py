"""Mixture of experts against Mixtral, against the dense limit and against loops; operations are counted."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.models import Decoder
from tfcore.moe import MixtureOfExperts, load_balancing_loss, route_top_k
from tfcore.testing import OperationCounter, raise_weights
from tfcore.train import decay_groups

B, T, D_MODEL, D_FF, E, K = 2, 7, 12, 20, 5, 3


def make_layer(top_k=K, num_experts=E, dtype=torch.float64):
    return raise_weights(MixtureOfExperts(D_MODEL, D_FF, num_experts, top_k)).to(dtype)


def make_x(*shape, dtype=torch.float64, seed=0):
    return torch.randn(
        *(shape or (B, T, D_MODEL)), generator=torch.Generator().manual_seed(seed), dtype=dtype
    )


def swiglu(x, gate, up, down):
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def every_expert_in_turn(layer, x):
    """Ask every expert about every token, one at a time, and weigh the answers of the best."""
    y = torch.zeros_like(x)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in x.shape[:-1])).reshape(-1, x.ndim - 1):
        token = x[tuple(index)]
        scores = (layer.router.weight @ token).tolist()
        best = sorted(range(len(scores)), key=lambda e: -scores[e])[: layer.top_k]
        total = sum(math.exp(scores[e]) for e in best)
        for e in best:
            answer = swiglu(token, layer.w_gate[e], layer.w_up[e], layer.w_down[e])
            y[tuple(index)] += math.exp(scores[e]) / total * answer
    return y


# --- the router


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 20.0]))
def test_the_router_by_hand(N, E, seed, spread):
    logits = make_x(N, E, seed=seed) * spread
    for k in range(1, E + 1):
        weights, experts = route_top_k(logits, k)
        assert weights.shape == experts.shape == (N, k)
        assert experts.dtype == torch.int64
        for n in range(N):
            row = logits[n].tolist()
            best = sorted(range(E), key=lambda e: -row[e])[:k]
            assert experts[n].tolist() == best
            total = math.fsum(math.exp(row[e] - row[best[0]]) for e in best)
            for i, e in enumerate(best):
                assert weights[n, i].item() == pytest.approx(
                    math.exp(row[e] - row[best[0]]) / total, abs=1e-14
                )


def test_choosing_before_or_after_the_softmax_is_the_same_once_renormalized():
    logits = make_x(7, 5)
    before = logits.clone()
    weights, experts = route_top_k(logits, 3)
    of_all, of_all_experts = logits.softmax(-1).topk(3)
    assert torch.equal(experts, of_all_experts)
    torch.testing.assert_close(weights, of_all / of_all.sum(-1, keepdim=True), rtol=0, atol=1e-14)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_router_keeps_dtype_axes_and_calm(dtype):
    logits = torch.tensor([[[1e4, 0.0, -1e4], [-1e4, -1e4, 1e4]]], dtype=dtype)
    weights, experts = route_top_k(logits, 2)
    assert weights.dtype == dtype
    assert weights.tolist() == [[[1, 0], [1, 0]]]
    assert experts[..., 0].tolist() == [[0, 2]]


def test_gradients_of_the_router():
    assert torch.autograd.gradcheck(lambda x: route_top_k(x, 3)[0], make_x(4, 5).requires_grad_())


# --- the layer


@pytest.mark.parametrize("top_k", [1, 3, 5])
@pytest.mark.parametrize("shape", [(2, 7, 12), (11, 12), (1, 1, 12), (2, 3, 4, 12)])
def test_against_every_expert_in_turn(shape, top_k):
    layer, x = make_layer(top_k), make_x(*shape)
    y, logits = layer(x, return_router_logits=True)
    torch.testing.assert_close(y, every_expert_in_turn(layer, x), rtol=0, atol=1e-12)
    torch.testing.assert_close(logits, x @ layer.router.weight.T, rtol=0, atol=1e-12)
    assert torch.equal(layer(x), y)


def test_the_dense_limit():
    """With k = E every expert answers, weighted by the plain softmax."""
    layer, x = make_layer(top_k=E), make_x()
    weights = layer.router(x).softmax(-1)
    dense = sum(
        weights[..., e, None] * swiglu(x, layer.w_gate[e], layer.w_up[e], layer.w_down[e]) for e in range(E)
    )
    torch.testing.assert_close(layer(x), dense, rtol=0, atol=1e-12)


def test_one_expert_is_a_plain_swiglu():
    layer, x = make_layer(top_k=1, num_experts=1), make_x()
    torch.testing.assert_close(
        layer(x), swiglu(x, layer.w_gate[0], layer.w_up[0], layer.w_down[0]), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_equal_experts_are_one_whatever_the_router_says(dtype):
    layer, x = make_layer(dtype=dtype), make_x(dtype=dtype)
    with torch.no_grad():
        for weight in (layer.w_gate, layer.w_up, layer.w_down):
            weight.copy_(weight[:1].expand_as(weight))
        y = layer(x)
        off = (y - swiglu(x, layer.w_gate[0], layer.w_up[0], layer.w_down[0])).abs() / y.abs()
    if dtype == torch.float64:
        assert off.max() <= 1e-10
    else:  # the weights sum to 1 before rounding, so most entries are the same to the last bit
        assert (off == 0).double().mean() > 0.95


def test_the_order_of_experts_is_no_matter():
    layer, x = make_layer(), make_x()
    before = layer(x)
    order = torch.tensor([3, 0, 4, 2, 1])
    with torch.no_grad():
        for weight in (layer.router.weight, layer.w_gate, layer.w_up, layer.w_down):
            weight.copy_(weight[order])
    torch.testing.assert_close(layer(x), before, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_finite_differences():
    layer, x = raise_weights(MixtureOfExperts(3, 4, 5, 2)).double(), make_x(2, 3, 3)
    parameters = dict(layer.named_parameters())
    margin = layer.router(x).sort(-1).values.diff(dim=-1).min()
    assert margin > 1e-4  # no step of the differences changes who is chosen

    def run(x, *values):
        y, logits = torch.func.functional_call(
            layer, dict(zip(parameters, values, strict=True)), (x,), {"return_router_logits": True}
        )
        return y, load_balancing_loss(logits, 2)

    leaves = [x, *(p.detach().clone() for p in parameters.values())]
    assert torch.autograd.gradcheck(run, [leaf.requires_grad_() for leaf in leaves])


def test_an_expert_that_nobody_visits_has_a_zero_gradient():
    layer, x = make_layer(top_k=1), make_x(1, 3, D_MODEL)
    y, logits = layer(x, return_router_logits=True)
    y.sum().backward()
    visited = logits.argmax(-1).flatten().bincount(minlength=E) > 0
    assert 1 < visited.sum() < E
    for weight in (layer.w_gate, layer.w_up, layer.w_down):
        assert torch.equal(weight.grad.abs().sum((1, 2)) > 0, visited)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision(dtype):
    layer, x = make_layer(dtype=dtype), make_x(dtype=dtype)
    before = x.clone()
    y, logits = layer(x, return_router_logits=True)
    assert y.dtype == logits.dtype == dtype
    assert torch.equal(x, before)
    want = layer.double()(x.double())
    bound = {torch.float32: 1e-6, torch.bfloat16: 2**-5}[dtype] * want.abs().max()
    assert (y.double() - want).abs().max() <= bound


@pytest.mark.parametrize(("num_experts", "top_k"), [(5, 1), (5, 3), (11, 3), (11, 11)])
def test_a_token_costs_what_k_experts_cost(num_experts, top_k):
    layer, x = make_layer(top_k, num_experts), make_x()
    with OperationCounter() as counter:
        layer(x)
    experts = B * T * top_k * 3 * 2 * D_MODEL * D_FF
    assert counter.products == experts + B * T * 2 * D_MODEL * num_experts


# --- the loss that balances


def test_even_and_uneven_use():
    even = torch.eye(4).repeat(3, 1) * 50
    assert load_balancing_loss(even, 1).item() == pytest.approx(1)
    assert load_balancing_loss(torch.zeros(6, 4), 2).item() == pytest.approx(2)
    crowd = torch.tensor([[50.0, 0, 0, 0]]).expand(6, 4)
    assert load_balancing_loss(crowd, 1).item() == pytest.approx(4)


def test_the_loss_spreads_the_tokens():
    logits = (make_x(60, 4) * 0.1 + torch.tensor([1.0, 0, 0, 0])).requires_grad_()
    assert logits.argmax(-1).bincount(minlength=4)[0] == 60
    optimizer = torch.optim.SGD([logits], lr=20.0)
    for _ in range(60):
        optimizer.zero_grad()
        load_balancing_loss(logits, 1).backward()
        optimizer.step()
    assert logits.argmax(-1).bincount(minlength=4).max() < 30


def test_padded_tokens_do_not_count():
    logits = make_x(3, 2, 7, 5)  # layers, batch, time, experts
    padding = torch.arange(7) < torch.tensor([[7], [4]])
    real = logits[:, padding]
    assert real.shape == (3, 11, 5)
    torch.testing.assert_close(load_balancing_loss(logits, 2, padding), load_balancing_loss(real, 2))
    wild = torch.where(padding[..., None], logits, 1e3)
    torch.testing.assert_close(load_balancing_loss(wild, 2, padding), load_balancing_loss(real, 2))
    assert load_balancing_loss(logits, 2, torch.zeros(2, 7).bool()) == 0


# --- Mixtral


@pytest.fixture(scope="module")
def mixtral():
    """Make a tiny Mixtral with large weights, and a batch with padding on the right."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=31,
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        num_local_experts=E,
        num_experts_per_tok=2,
    )
    return raise_weights(MixtralForCausalLM(config)).eval()


def test_against_mixtral_from_its_weights_on_disk(mixtral, tmp_path):
    from safetensors.torch import load_file

    mixtral.save_pretrained(tmp_path)
    disk = load_file(tmp_path / "model.safetensors")
    prefix = "model.layers.1.block_sparse_moe"
    names = {"w_gate": "w1", "w_up": "w3", "w_down": "w2"}
    layer = MixtureOfExperts(D_MODEL, D_FF, E, top_k=2)
    layer.load_state_dict(
        {"router.weight": disk[f"{prefix}.gate.weight"]}
        | {
            ours: torch.stack([disk[f"{prefix}.experts.{e}.{theirs}.weight"] for e in range(E)])
            for ours, theirs in names.items()
        }
    )
    x = make_x(dtype=torch.float32)
    theirs = x.clone().requires_grad_()
    ours = x.clone().requires_grad_()
    want, got = mixtral.model.layers[1].mlp(theirs), layer(ours)
    assert want.abs().max() > 1
    torch.testing.assert_close(got, want, rtol=0, atol=5e-5)
    want.square().sum().backward()
    got.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=5e-4)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_against_the_loss_of_mixtral(mixtral, top_k, padded):
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = make_x(3, 2, 7, E, dtype=torch.float32)
    padding = torch.arange(7) < torch.tensor([[7], [4]]) if padded else None
    theirs = load_balancing_loss_func(
        tuple(logits.flatten(1, 2)), E, top_k, None if padding is None else padding.long()
    )
    torch.testing.assert_close(load_balancing_loss(logits, top_k, padding), theirs)


# --- arguments that do not fit

BAD = {
    "no expert": (
        lambda: route_top_k(torch.zeros(2, 4), 0),
        "k between 1 and the number of experts, 4, got 0",
    ),
    "too many": (
        lambda: route_top_k(torch.zeros(2, 4), 5),
        "k between 1 and the number of experts, 4, got 5",
    ),
    "layer": (lambda: MixtureOfExperts(3, 4, 5, 6), "top_k between 1 and num_experts=5, got 6"),
    "padding": (lambda: load_balancing_loss(torch.zeros(2, 4), 1, torch.ones(2)), "expected boolean padding"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_biases_of_experts_begin_at_zero_and_do_not_decay():
    attention = AttentionConfig(D_MODEL, 3)
    block = BlockConfig(
        attention,
        D_FF,
        activation="silu",
        gated=True,
        ffn_bias=False,
        num_experts=E,
        top_k=K,
        expert_limit=7.0,
    )
    model = Decoder(ModelConfig(31, 2, block, PositionConfig("rope")))
    biases = {name: p for name, p in model.named_parameters() if ".b_" in name}
    assert len(biases) == 6
    assert all(p.ndim == 2 and not p.any() for p in biases.values())
    decayed = {id(p) for group in decay_groups(model, 0.1) if group["weight_decay"] for p in group["params"]}
    assert decayed
    assert not decayed & set(map(id, biases.values()))
