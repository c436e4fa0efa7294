"""Right answers to `wkv`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch10_beyond_attention.wkv import EXERCISE


@EXERCISE.style("step by step, with a running maximum")
def step_by_step(w, u, k, v):
    peak = torch.full_like(k[:, 0], -torch.inf)
    num, den = torch.zeros_like(peak), torch.zeros_like(peak)
    outputs = []
    for t in range(k.shape[1]):
        k_t, v_t = k[:, t], v[:, t]
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        num, den, peak = old * num + new * v_t, old * den + new, top
    return torch.stack(outputs, dim=1)


@EXERCISE.style("all exponents of all pairs, and a softmax over the tokens seen")
def softmax_over_pairs(w, u, k, v):
    T = k.shape[1]
    t = torch.arange(T, device=k.device)
    age = (t[:, None] - 1 - t).clamp(min=0)[..., None]
    exponents = k[:, None] - age * w
    now = torch.eye(T, dtype=torch.bool, device=k.device)[..., None]
    exponents = torch.where(now, (u + k)[:, None], exponents)
    later = (t > t[:, None])[..., None]
    weights = torch.softmax(exponents.masked_fill(later, -torch.inf), dim=2)
    return torch.einsum("btid,bid->btd", weights, v)


@EXERCISE.style("each token by itself: a softmax over its own past")
def token_by_token(w, u, k, v):
    outputs = []
    for t in range(k.shape[1]):
        steps_back = torch.arange(t - 1, -1, -1, device=k.device, dtype=k.dtype)
        past = k[:, :t] - steps_back[:, None] * w
        exponents = torch.cat([past, (u + k[:, t]).unsqueeze(1)], dim=1)
        outputs.append((torch.softmax(exponents, 1) * v[:, : t + 1]).sum(1))
    return torch.stack(outputs, 1)


@EXERCISE.style("the state is a mean and the logarithm of its weight")
def running_mean(w, u, k, v):
    mean, log_weight = torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e30)
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append(mean + torch.sigmoid(u + k_t - log_weight) * (v_t - mean))
        log_weight = log_weight - w
        mean = mean + torch.sigmoid(k_t - log_weight) * (v_t - mean)
        log_weight = torch.logaddexp(log_weight, k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.style("in float64, written into the result")
def written_into_the_result(w, u, k, v):
    out = torch.empty_like(v)
    w, u, key, value = (x.to(torch.float64) for x in (w, u, k, v))
    a = b = torch.zeros_like(key[:, 0])
    p = torch.full_like(a, -1e38)
    for t in range(k.shape[1]):
        q = torch.maximum(p, u + key[:, t])
        e1, e2 = torch.exp(p - q), torch.exp(u + key[:, t] - q)
        out[:, t] = ((e1 * a + e2 * value[:, t]) / (e1 * b + e2)).to(out.dtype)
        q = torch.maximum(p - w, key[:, t])
        e1, e2 = torch.exp(p - w - q), torch.exp(key[:, t] - q)
        a, b, p = e1 * a + e2 * value[:, t], e1 * b + e2, q
    return out


@EXERCISE.style("positive and negative parts of the values as logarithms, summed by logcumsumexp")
def logarithms(w, u, k, v):
    dtype = k.dtype
    w, u, k, v = (x.double() for x in (w, u, k, v))
    shift = v.detach().abs().max() + 1
    ages = torch.arange(k.shape[1], device=k.device)[:, None] * w
    nothing = torch.full_like(k[:, :1], -1e30)

    def past(x):
        sums = torch.logcumsumexp(x + ages, dim=1)[:, :-1]
        return torch.cat([nothing, sums], dim=1) - ages + w

    top, bottom = past(k + torch.log(v + shift)), past(k)
    num = torch.logaddexp(top, u + k + torch.log(v + shift))
    den = torch.logaddexp(bottom, u + k)
    return (torch.exp(num - den) - shift).to(dtype)
