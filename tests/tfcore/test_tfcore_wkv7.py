"""RWKV-7's memory against the matrices of its definition, the gated delta rule and linear attention."""

import pytest
import torch
import torch.nn.functional as F

from tfcore.delta_rule import gated_delta_rule
from tfcore.wkv7 import wkv7, wkv7_step

B, H, T, K, V = 2, 3, 7, 5, 4


def drawn(dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    query, key, removed = torch.randn(3, B, H, T, K, generator=g, dtype=dtype)
    value = torch.randn(B, H, T, V, generator=g, dtype=dtype)
    log_decay, rate = (
        -torch.rand(B, H, T, K, generator=g, dtype=dtype),
        torch.rand(B, H, T, K, generator=g, dtype=dtype),
    )
    return query, log_decay, key, value, F.normalize(removed, dim=-1), rate


def by_matrices(query, log_decay, key, value, removed, rate):
    """Multiply out the transition matrix of each token, head by head."""
    out = torch.zeros(B, H, T, V, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            S = torch.zeros(V, K, dtype=torch.float64)
            for t in range(T):
                kappa = removed[b, h, t]
                step = log_decay[b, h, t].exp().diag() - torch.outer(kappa, rate[b, h, t] * kappa)
                S = S @ step + torch.outer(value[b, h, t], key[b, h, t])
                out[b, h, t] = S @ query[b, h, t]
    return out


def test_it_is_its_definition():
    inputs = drawn()
    torch.testing.assert_close(wkv7(*inputs), by_matrices(*inputs), atol=1e-12, rtol=0)


def test_with_one_key_and_one_rate_it_is_the_gated_delta_rule():
    query, _, _, value, k, _ = drawn()
    g = torch.Generator().manual_seed(1)
    beta, alpha = torch.rand(2, B, H, T, 1, generator=g, dtype=torch.float64)
    wide_alpha, wide_rate = alpha.expand_as(k), (alpha * beta).expand_as(k)
    ours = wkv7(query, wide_alpha.log(), beta * k, value, k, wide_rate)
    theirs = gated_delta_rule(query, k, value, beta.squeeze(-1), alpha.squeeze(-1).log())
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


def test_without_decay_and_removal_it_adds_up_like_attention_without_a_softmax():
    query, log_decay, key, value, removed, rate = drawn()
    ours = wkv7(query, 0 * log_decay, key, value, removed, 0 * rate)
    theirs = (query @ key.mT).tril() @ value
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_dtype_gradient_and_state():
    inputs = [x.bfloat16() for x in drawn(torch.float32)]
    assert wkv7(*inputs).dtype == torch.bfloat16
    inputs = [x.requires_grad_() for x in drawn()]
    wkv7(*inputs).square().sum().backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in inputs)
    _, state = wkv7_step(*(x[:, :, 0].bfloat16() for x in drawn(torch.float32)))
    assert state.dtype == torch.float32
    assert state.shape == (B, H, V, K)


def test_shapes_that_do_not_fit_are_named():
    query, log_decay, key, value, removed, rate = (x[:, :, 0] for x in drawn())
    with pytest.raises(ValueError, match="expected rate of shape"):
        wkv7_step(query, log_decay, key, value, removed, rate[..., :-1])
    with pytest.raises(ValueError, match="expected state of shape"):
        wkv7_step(query, log_decay, key, value, removed, rate, torch.zeros(B, H, K, V))
