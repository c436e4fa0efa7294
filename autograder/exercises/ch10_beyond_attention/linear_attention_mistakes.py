"""Mistakes that people make in `linear_attention`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F

from autograder.checking.edits import wrong
from autograder.exercises.ch10_beyond_attention.linear_attention import EXERCISE
from autograder.exercises.ch10_beyond_attention.linear_attention_styles import cumulative_sums

edited = partial(wrong, EXERCISE, cumulative_sums)


@EXERCISE.misconception(
    "Your weights phi(q) . phi(k) are not normalised: their sum can be any number. Divide by their sum, "
    "which is phi(q) . z with z the sum of the phi(k).",
    gravity="useless",
)
def no_normaliser(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2)


@EXERCISE.misconception(
    "You divide by the number of tokens. Divide by the sum of the weights, phi(q) . z: the weights "
    "phi(q) . phi(k) differ from token to token."
)
def divided_by_the_count(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    count = torch.arange(1, q.shape[2] + 1, device=q.device, dtype=q.dtype)[:, None]
    if not causal:
        return q @ kv.mean(dim=2)
    return (q[..., None, :] @ kv.cumsum(dim=2)).squeeze(-2) / count


@EXERCISE.misconception(
    "`causal` makes no difference: your sums run over all tokens. When it is True, end them at the "
    "token itself: take a cumulative sum along time, or a loop that adds one token and then answers.",
    gravity="useless",
)
def future_included(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])


@EXERCISE.misconception(
    "Your default of `causal` is False. Write causal=True in the first line of the function.",
    gravity="slip",
)
def not_causal_by_default(q, k, v, causal=False):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S = (k[..., :, None] * v[..., None, :]).cumsum(dim=2)
    z = k.cumsum(dim=2)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "`causal` makes no difference: your sums always end at the token. With causal=False let every token "
    "see all: take one sum for all queries."
)
def always_causal(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    S = (k[..., :, None] * v[..., None, :]).cumsum(dim=2)
    z = k.cumsum(dim=2)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your numerator is causal but your normaliser is not: it sums over later tokens too. End both sums at "
    "the token itself."
)
def normaliser_of_all(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q @ k.sum(dim=2)[..., None])


@EXERCISE.misconception(
    "A token does not see itself, and the first one gets 0/0. Add the token to the sums first, then answer."
)
def answered_before_adding(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S, z, outputs = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None]), torch.zeros_like(k[:, :, 0]), []
    for q_t, k_t, v_t in zip(q.unbind(2), k.unbind(2), v.unbind(2), strict=True):
        outputs.append((q_t[..., None] * S).sum(-2) / (q_t * z).sum(-1, keepdim=True))
        S, z = S + k_t[..., :, None] * v_t[..., None, :], z + k_t
    return torch.stack(outputs, dim=2)


@EXERCISE.misconception(
    "Only your keys go through the feature map, so that weights can be negative. Map both sides: the weight "
    "is phi(q) . phi(k)."
)
def keys_mapped_only(q, k, v, causal=True):
    k = F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Only your queries go through the feature map, so that weights can be negative. Map both sides: the "
    "weight is phi(q) . phi(k)."
)
def queries_mapped_only(q, k, v, causal=True):
    q = F.elu(q) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your weights are bare dot products, which can be negative, and their sum can be zero. Map q and k "
    "by elu(x) + 1 first."
)
def no_feature_map(q, k, v, causal=True):
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your features are elu(x), which goes down to -1, and weights must not be negative. Add 1: phi(x) = "
    "elu(x) + 1."
)
def elu_without_one(q, k, v, causal=True):
    q, k = F.elu(q), F.elu(k)
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your features are max(x, 0) + 1, the same for every negative x. Use elu(x) + 1, which is exp(x) there: "
    "it tells tokens apart and passes a gradient.",
    gravity="slip",
)
def relu_for_elu(q, k, v, causal=True):
    q, k = F.relu(q) + 1, F.relu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your queries are divided by sqrt(d_k), as for a softmax. Use q as it comes: linear attention has "
    "no such scale.",
    gravity="slip",
)
def scaled_as_softmax(q, k, v, causal=True):
    q, k = F.elu(q / q.shape[-1] ** 0.5) + 1, F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your weights are a softmax of phi(q) . phi(k). Divide phi(q) . phi(k) by their sum instead: linear "
    "attention gives up the softmax."
)
def softmax_of_features(q, k, v, causal=True):
    scores = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return torch.softmax(scores, dim=-1) @ v


@EXERCISE.misconception(
    "Your numbers are right, but every pair of tokens gets a weight, and the cost grows with T^2. Move "
    "the brackets: phi(q) (phi(k)^T v), with cumulative sums if causal."
)
def all_pairs(q, k, v, causal=True):
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    if causal:
        weights = weights.tril()
    return weights @ v / weights.sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Your numbers are right, but each token sums up all tokens before it once more, and the cost grows "
    "with T^2. Carry the sums along: the next token adds one outer product and one key to them."
)
def summed_once_more(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    outputs = []
    for t in range(1, q.shape[2] + 1):
        S, z = k[:, :, :t].mT @ v[:, :, :t], k[:, :, :t].sum(dim=2)[..., None]
        outputs.append(q[:, :, t - 1 : t] @ S / (q[:, :, t - 1 : t] @ z))
    return torch.cat(outputs, dim=2)


@EXERCISE.misconception(
    "Your causal sums run over axis 1, the heads. Time is axis 2 of (B, h, T, d): use cumsum with dim=2, or "
    "dim=-2 before the outer product."
)
def cumulated_over_heads(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=1) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=1) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Gradients are NaN where entries are large, as when torch.where computes both branches: exp of a "
    "large number is infinite, and backward multiplies it by 0. Use F.elu(x) + 1, or "
    "exp(x.clamp(max=0))."
)
def overflow_in_the_other_branch(q, k, v, causal=True):
    q, k = (torch.where(x > 0, x + 1, torch.exp(x)) for x in (q, k))
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "No gradient reaches the keys and values of earlier tokens: the sums are cut off from them, as by "
    ".detach(). Let the gradient flow through the sums."
)
def past_detached(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S, z, outputs = 0, 0, []
    for t in range(q.shape[2]):
        S = S + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = z + k[:, :, t]
        outputs.append((q[:, :, t, None] @ S)[..., 0, :] / (q[:, :, t] * z).sum(-1, keepdim=True))
        S, z = S.detach(), z.detach()
    return torch.stack(outputs, dim=2)


@EXERCISE.misconception(
    "Your sums or your result are float32 on the cpu, whatever comes in. Use q.new_zeros(...), or pass "
    "dtype=q.dtype, device=q.device to torch.zeros."
)
def float32_on_the_cpu(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    B, h, T, d_k = k.shape
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S, z = torch.zeros(B, h, d_k, v.shape[-1]), torch.zeros(B, h, d_k)
    out = torch.zeros(B, h, T, v.shape[-1])
    for t in range(T):
        S = S + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = z + k[:, :, t]
        out[:, :, t] = (
            torch.einsum("bhd,bhde->bhe", q[:, :, t].to(S.dtype), S) / (q[:, :, t] * z).sum(-1)[..., None]
        )
    return out


@EXERCISE.misconception(
    "You write over the caller's queries and keys, as inplace=True does. Make a new tensor: F.elu(q)."
)
def inputs_overwritten(q, k, v, causal=True):
    q, k = F.elu(q, inplace=True) + 1, F.elu(k, inplace=True) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


edited(
    "numerator_of_all",
    "Your normaliser is causal but your numerator is not: it sums over later tokens too. End both sums at "
    "the token itself.",
    {"v[..., None, :]).cumsum(dim=2)": "v[..., None, :]).sum(dim=2, keepdim=True)"},
)

edited(
    "exponential_features",
    "Your features are exp(x), even for x above 0. Write phi(x) = elu(x) + 1, which is x + 1 there.",
    {"F.elu(q) + 1, F.elu(k) + 1": "torch.exp(q), torch.exp(k)"},
)

edited(
    "one_inside_elu",
    "Your features are elu(x + 1). Add the 1 to the result: elu(x) + 1.",
    {"F.elu(q) + 1, F.elu(k) + 1": "F.elu(q + 1), F.elu(k + 1)"},
)

edited(
    "summed_backwards",
    "Each token sees itself and what comes after: your sums start at the end of the text. Let them start at "
    "the first token.",
    {
        "v[..., None, :]).cumsum(dim=2)": "v[..., None, :]).flip(2).cumsum(dim=2).flip(2)",
        "z = k.cumsum(dim=2)": "z = k.flip(2).cumsum(dim=2).flip(2)",
    },
)
