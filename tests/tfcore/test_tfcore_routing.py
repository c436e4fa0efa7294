"""Routers against loops: scores, groups, weights, and a balance without a loss."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from tfcore.moe import MixtureOfExperts
from tfcore.routing import Router, RouterConfig
from tfcore.testing import raise_weights

N, D_MODEL, E, K = 7, 10, 8, 3


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_loops(logits, config, k, balance):
    """Choose for one token at a time, by sorting."""
    weights, experts = [], []
    for row in logits:
        scores = torch.softmax(row, 0) if config.score == "softmax" else 1 / (1 + torch.exp(-row))
        choice = (scores + balance).tolist()
        size = len(choice) // config.num_groups
        groups = [choice[g * size : (g + 1) * size] for g in range(config.num_groups)]
        merit = [sum(sorted(group)[::-1][: config.group_score]) for group in groups]
        best = sorted(range(config.num_groups), key=lambda g: -merit[g])[: config.top_groups]
        allowed = [e for e in range(len(choice)) if e // size in best]
        chosen = sorted(allowed, key=lambda e: -choice[e])[:k]
        w = scores[chosen]
        weights.append((w / w.sum() if config.normalised else w) * config.scale)
        experts.append(torch.tensor(chosen))
    return torch.stack(weights), torch.stack(experts)


SETTINGS = [
    RouterConfig(score, normalised, scale, *groups, balance)
    for score, normalised, scale, groups, balance in itertools.product(
        ("softmax", "sigmoid"), (True, False), (1.0, 2.5), ((1, 1, 1), (4, 2, 1), (2, 1, 2)), (False, True)
    )
]


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_choice_and_weights(config):
    router = Router(D_MODEL, E, K, config).double()
    balance = torch.zeros(E, dtype=torch.float64)
    if config.balance:
        balance = 0.5 * draw(E, seed=1)
        router.balance.data.copy_(balance)
    logits = draw(N, E)
    weights, experts = router.choose(logits.view(1, N, E))
    expected_weights, expected_experts = by_loops(logits, config, K, balance)
    assert torch.equal(experts[0], expected_experts)
    torch.testing.assert_close(weights[0], expected_weights)


def test_weights_are_in_float32_or_wider_and_have_a_gradient():
    router = Router(D_MODEL, E, K, RouterConfig("sigmoid", balance=True)).bfloat16()
    logits = draw(N, E).bfloat16().requires_grad_()
    weights, _ = router.choose(logits)
    assert weights.dtype == torch.float32
    (gradient,) = torch.autograd.grad(weights.square().sum(), logits)
    assert gradient.abs().max() > 0
    assert not router.balance.requires_grad


def test_balance_without_a_loss_evens_out_the_visits():
    torch.manual_seed(0)
    x = draw(2000, D_MODEL) + 1.0  # a direction that favours some experts
    router = Router(D_MODEL, E, K, RouterConfig("sigmoid", balance=True)).double()

    def busiest():
        _, experts = router.choose(router(x))
        return experts.flatten().bincount(minlength=E).max() / (len(x) * K / E), experts

    before, _ = busiest()
    weight = router.weight.clone()
    for _ in range(300):
        router.rebalance(busiest()[1], rate=0.002)
    after, _ = busiest()
    assert before > 1.5
    assert after < 1.1
    assert torch.equal(router.weight, weight)


def test_a_shared_network_is_visited_by_all_tokens():
    layer = raise_weights(MixtureOfExperts(D_MODEL, 12, E, K)).double()
    x, shared = draw(2, N, D_MODEL), torch.nn.Linear(D_MODEL, D_MODEL).double()
    alone = layer(x)
    layer.shared = shared
    torch.testing.assert_close(layer(x), alone + shared(x))


def test_bounded_gates_are_those_of_gpt_oss():
    layer = raise_weights(MixtureOfExperts(D_MODEL, 12, E, K, RouterConfig(bias=True), limit=0.7)).double()
    x, expected = draw(N, D_MODEL), []
    for token in x:
        logits = F.linear(token, layer.router.weight, layer.router.bias)
        best = logits.argsort(descending=True)[:K]
        y = torch.zeros(D_MODEL, dtype=torch.float64)
        for weight, e in zip(logits[best].softmax(0), best, strict=True):
            gate = torch.minimum(layer.w_gate[e] @ token + layer.b_gate[e], torch.tensor(0.7))
            up = (layer.w_up[e] @ token + layer.b_up[e]).clip(-0.7, 0.7)
            y = y + weight * (
                layer.w_down[e] @ ((up + 1) * gate / (1 + torch.exp(-1.702 * gate))) + layer.b_down[e]
            )
        expected.append(y)
    torch.testing.assert_close(layer(x), torch.stack(expected))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RouterConfig("relu"), r"expected the score softmax or sigmoid, got 'relu'"),
        (lambda: RouterConfig(num_groups=2, top_groups=3), r"top_groups from 1 to num_groups .* got 3 of 2"),
        (
            lambda: Router(4, 9, 2, RouterConfig(num_groups=2)),
            r"groups that divide 9 experts .* 1 of 2 groups",
        ),
        (lambda: Router(4, 8, 5, RouterConfig(num_groups=2)), r"whose best hold 5, got 1 of 2 groups"),
        (lambda: Router(4, 8, 9, RouterConfig()), r"top_k between 1 and num_experts=8, got 9"),
        (
            lambda: Router(4, 8, 2, RouterConfig()).rebalance(torch.zeros(3, 2, dtype=torch.long)),
            r"expected a router with balance, got one without",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_sigmoids_that_are_all_0_give_weights_of_0():
    weights, _ = Router(D_MODEL, E, K, RouterConfig("sigmoid")).choose(torch.full((1, E), -200.0))
    assert weights.tolist() == [[0.0] * K]
