"""The indexer of sparse attention against transformers' own, and what it is trained for."""

from __future__ import annotations

import math

import pytest
import torch
from transformers.models.deepseek_v32.configuration_deepseek_v32 import DeepseekV32Config
from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Indexer

from tfcore.attention import attention
from tfcore.layers import Indexer, indexer_loss, top_keys_mask
from tfcore.masks import causal_mask
from tfcore.testing import raise_weights

D_MODEL, H, D, D_ROPE, T, B = 22, 3, 10, 4, 13, 2


def rotation(channels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines as transformers hands them to a layer, (1, T, channels)."""
    angles = torch.outer(torch.arange(T), 10_000.0 ** (-torch.arange(0, channels, 2) / channels))
    return torch.cat([angles, angles], -1)[None].cos(), torch.cat([angles, angles], -1)[None].sin()


@pytest.fixture
def pair() -> tuple[Indexer, DeepseekV32Indexer]:
    torch.manual_seed(3)
    ours = Indexer(D_MODEL, H, D, d_rope=D_ROPE)
    raise_weights(ours)
    config = DeepseekV32Config(
        hidden_size=D_MODEL, q_lora_rank=D_MODEL, index_n_heads=H, index_head_dim=D, qk_rope_head_dim=D_ROPE
    )
    theirs = DeepseekV32Indexer(config, 0)
    for name, module in {
        "wq_b": ours.W_q,
        "wk": ours.W_k,
        "k_norm": ours.norm_k,
        "weights_proj": ours.W_w,
    }.items():
        getattr(theirs, name).load_state_dict(module.state_dict())
    return ours, theirs


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_the_same_keys_are_chosen_as_by_transformers(pair, count):
    ours, theirs = pair
    theirs.index_topk = count
    x, causal = torch.randn(B, T, D_MODEL), causal_mask(T)
    chosen = theirs(x, x, rotation(D_ROPE), causal.expand(B, T, T), torch.arange(T)[None]).long()
    expected = torch.zeros(B, T, T, dtype=torch.bool).scatter(-1, chosen, True) & causal
    assert torch.equal(top_keys_mask(ours(x), count, causal), expected)


def test_scores_are_the_sum_of_their_definition(pair):
    ours, _ = pair
    x = torch.randn(1, T, D_MODEL, dtype=torch.float64)
    ours.double()
    W_q, W_k, W_w = (layer.weight.detach().T for layer in (ours.W_q, ours.W_k, ours.W_w))
    q = (x[0] @ W_q).view(T, H, D)
    k, w = ours.norm_k(x[0] @ W_k).detach(), x[0] @ W_w
    expected = [
        [sum(w[t, j] * max(q[t, j] @ k[s], 0.0) for j in range(H)) / math.sqrt(H * D) for s in range(T)]
        for t in range(T)
    ]
    same_place = torch.zeros(T, dtype=torch.long)  # no rotation
    torch.testing.assert_close(ours(x, same_place)[0], torch.tensor(expected), atol=1e-12, rtol=0)


def test_scores_depend_on_distance_and_not_on_place(pair):
    ours, _ = pair
    x = torch.randn(B, T, D_MODEL)
    torch.testing.assert_close(ours(x), ours(x, torch.arange(T) + 40), atol=2e-4, rtol=1e-4)
    assert (ours(x) - ours(x, 2 * torch.arange(T))).abs().max() > 0.1


def test_as_many_keys_as_asked_for_or_all_that_are_allowed():
    scores, allowed = torch.randn(B, T, T), torch.rand(B, T, T) < 0.6
    for count in (1, 4, T, T + 3):
        mask = top_keys_mask(scores, count, allowed)
        assert torch.equal(mask.sum(-1), allowed.sum(-1).clamp(max=count))
        assert not (mask & ~allowed).any()
        worst, best_left = scores.masked_fill(~mask, math.inf), scores.masked_fill(mask | ~allowed, -math.inf)
        assert (worst.amin(-1) >= best_left.amax(-1)).all()
    assert top_keys_mask(torch.zeros(5, 9), 4).sum(-1).tolist() == [4] * 5  # ties too
    with pytest.raises(ValueError, match="count of 1 or more, got 0"):
        top_keys_mask(scores, 0)


def test_the_loss_is_the_divergence_from_the_mean_of_the_heads():
    torch.manual_seed(5)
    causal = causal_mask(T)
    weights = torch.randn(B, 4, T, T, dtype=torch.float64).masked_fill(~causal, -math.inf).softmax(-1)
    scores = torch.randn(B, T, T, dtype=torch.float64, requires_grad=True)
    p, i = weights.mean(1), scores.masked_fill(~causal, -math.inf).softmax(-1)
    expected = (p * (p / i).log()).nansum(-1).mean()
    loss = indexer_loss(scores, weights, causal)
    torch.testing.assert_close(loss, expected, atol=1e-12, rtol=0)
    loss.backward()
    torch.testing.assert_close(scores.grad, ((i - p) / (B * T)).detach(), atol=1e-12, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_trained_indexer_finds_the_keys_that_a_layer_attends_to(seed):
    """The layer has two heads that share their keys; the indexer has four heads."""
    torch.manual_seed(seed)
    W_q, W_k = torch.randn(2, D_MODEL, 4) / 2, torch.randn(1, D_MODEL, 4) / 2
    causal, found = causal_mask(T), []
    ours = Indexer(D_MODEL, 4, 8)
    optimizer = torch.optim.Adam(ours.parameters(), 0.01)

    def example() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(8, T, D_MODEL)
        q, k = (x[:, None] @ W for W in (W_q, W_k))
        weights = attention(q, k, k, mask=causal, return_weights=True)[1]
        return x, weights

    for step in range(301):
        x, weights = example()
        scores = ours(x)
        if step in (0, 300):
            best = top_keys_mask(weights.mean(1), 1, causal)[:, 4:]
            found.append((top_keys_mask(scores, 3, causal)[:, 4:] & best).any(-1).float().mean())
        loss = indexer_loss(scores, weights, causal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    before, after = found

    assert before < 0.5
    assert after > 0.7
