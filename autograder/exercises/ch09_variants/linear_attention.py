"""ch09_variants/linear_attention: the softmax gone, the past fits into one matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import IN_FLOAT32, ROUGH
from autograder.exercises.ch09_variants.weighing import (
    nothing_from_the_future,
    out_of_proportion,
    slack,
    something_from,
    sum_to_one,
    weights_of,
)
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from tfcore import linear_attention as linear
from tfcore.linear_attention import elu_plus_one

ALL = {"causal": False}


def drawn(
    rng: np.random.Generator, *shape: int, d_v: int, dtype: torch.dtype = torch.float32, gain: float = 1.0
) -> tuple[Tensor, ...]:
    """q and k (B, h, T, d_k), times `gain`, and v (B, h, T, d_v)."""
    q, k = (gain * tensor(rng, *shape, dtype=dtype) for _ in range(2))
    return q, k, tensor(rng, *shape[:-1], d_v, dtype=dtype)


def without_order(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, d_k = 2, d_v = 4", drawn(rng, 1, 5, 3, 2, d_v=4), ALL)
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    yield Case(f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}", drawn(rng, B, h, T, d_k, d_v=d_v), ALL)
    yield Case("a single token", drawn(rng, 2, 3, 1, 4, d_v=5), ALL)
    yield Case("keys of width 1", drawn(rng, 2, 3, 4, 1, d_v=5), ALL)
    yield Case("50 tokens", drawn(rng, 1, 2, 50, 4, d_v=3), ALL)
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 3, 2, 5, 4, d_v=6))), ALL)


def causal(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens, d_k = 3, d_v = 4", drawn(rng, 1, 5, 2, 3, d_v=4))
    B, h, T, d_k, d_v = sizes(rng, (2, 3), (2, 4), (5, 8), (3, 6), (4, 7))
    says = f"B = {B}, h = {h}, T = {T}, d_k = {d_k}, d_v = {d_v}"
    yield Case(says, drawn(rng, B, h, T, d_k, d_v=d_v))
    yield Case("causal=True is the default", drawn(rng, 2, 3, 5, 4, d_v=1), {"causal": True})
    yield Case("a single token", drawn(rng, 2, 3, 1, 4, d_v=5))
    yield Case("50 tokens", drawn(rng, 1, 2, 50, 4, d_v=3))


def large(rng: np.random.Generator) -> Iterator[Case]:
    """One channel of each token is far above zero, so that no weight vanishes."""
    for says, kwargs in (("entries of 1,000", {}), ("entries of 1,000, not causal", ALL)):
        q, k, v = drawn(rng, 2, 3, 5, 4, d_v=6, gain=1000)
        q[..., 0], k[..., 0] = q[..., 0].abs() + 500, k[..., 0].abs() + 500
        yield Case(says, (q, k, v), kwargs)


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    for dtype, name in (
        (torch.float64, "float64"),
        (torch.bfloat16, "bfloat16"),
        (torch.float16, "float16"),
    ):
        yield Case(name, drawn(rng, 1, 2, 5, 3, d_v=4, dtype=dtype))
        yield Case(f"{name}, not causal", drawn(rng, 2, 3, 4, 5, d_v=6, dtype=dtype), ALL)


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens", drawn(rng, 1, 2, 4, 3, d_v=5))
    yield Case("5 tokens, not causal", drawn(rng, 2, 3, 5, 4, d_v=6, dtype=torch.float64), ALL)


def soft_and_large(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    yield from large(rng)


def long(rng: np.random.Generator) -> Iterator[Case]:
    T = int(rng.integers(128, 136))
    given = drawn(rng, 1, 2, T, 3, d_v=4)
    yield Case(f"{T} tokens", given, metered=True)
    yield Case(f"{T} tokens, not causal", given, ALL, metered=True)


def linear_in_time(trial: Trial) -> str | None:
    """No tensor has T x T numbers, and twice the tokens take about twice the operations, not four times.

    Half of T x T leaves room for the sums of every token, and for chunks of 64.
    """
    if unseen := too_little(trial):
        return unseen
    T, cost = trial.case.args[0].shape[2], trial.outcome.cost
    if cost["largest"] > T * T / 2:
        shape = tuple(int(n) for n in cost["largest_shape"])
        return (
            f"your largest tensor has the shape {shape}: it grows with T^2, as for a softmax. Sum phi(k) v^T "
            "over the keys first; no pair of tokens needs a number of its own"
        )
    twice = trial.call(replace(trial.case, args=tuple(torch.cat([x, x], dim=2) for x in trial.case.args)))
    if twice.error or twice.cost["operations"] <= 3 * cost["operations"]:
        return None
    return (
        f"{T} tokens take {cost['operations']:,} operations, {2 * T} take {twice.cost['operations']:,}: the "
        "cost grows with T^2. Keep the sums over the tokens so far; the next token adds to them"
    )


def as_features_meet(trial: Trial) -> str | None:
    q, k, _ = trial.case.args
    right = numbers(elu_plus_one(q.double()) @ elu_plus_one(k.double()).mT)
    right = np.tril(right) if _is_causal(trial) else right
    return out_of_proportion(weights_of(trial, 2), right, "phi(q) . phi(k)", slack(trial))


def _is_causal(trial: Trial) -> bool:
    return bool(trial.case.kwargs.get("causal", True))


EXERCISE = Exercise(
    name="ch09_variants/linear_attention",
    signature="linear_attention(q, k, v, causal=True)",
    goal="Average the values with weights phi(q) . phi(k), phi = elu + 1, at a cost that is linear in T.",
    section="Moving the brackets",
    reference=linear.linear_attention,
    criteria=(
        Criterion("the weighted mean over all tokens, causal=False", 0.875, without_order),
        Criterion("causal: over the token itself and those before it", 0.875, causal),
        Criterion("a cost that is linear in T, nothing of size T x T", 0.25, long, "cost", linear_in_time),
        Criterion("queries and keys of 1,000", 0.25, large),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach q, k and v", 0.25, differentiated(soft_and_large), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.125, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.125, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("weights sum to 1", sum_to_one(2)),
        Property("nothing comes from the future", nothing_from_the_future(2, _is_causal)),
        Property("every token that may be seen has a share", something_from(2, linear.linear_attention)),
        Property("weights are in proportion to phi(q) . phi(k)", as_features_meet),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "Your weights phi(q) . phi(k) are not normalised: they sum to anything. Divide by their sum, which "
    "is phi(q) . z with z the sum of the phi(k).",
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
    "Your numerator is causal and your normaliser is not: it sums over later tokens too. End both sums "
    "at the token itself."
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
    "Only your keys go through the feature map, so that weights turn negative. Map both sides: the "
    "weight is phi(q) . phi(k)."
)
def keys_mapped_only(q, k, v, causal=True):
    k = F.elu(k) + 1
    kv = k[..., :, None] * v[..., None, :]
    S = kv.cumsum(dim=2) if causal else kv.sum(dim=2, keepdim=True)
    z = k.cumsum(dim=2) if causal else k.sum(dim=2, keepdim=True)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.misconception(
    "Only your queries go through the feature map, so that weights turn negative. Map both sides: the "
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
    "Your features are max(x, 0) + 1, the same for all that is negative. Use elu(x) + 1, which is "
    "exp(x) there: it tells tokens apart and passes a gradient.",
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
    "the brackets: phi(q) (phi(k)^T v), with cumulative sums where it is causal."
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
    "Your causal sums run over axis 1, the heads. Time is axis 2 of (B, h, T, d): cumulate over dim=2, "
    "or over dim=-2 before the outer product."
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


@EXERCISE.style("cumulative sums of outer products")
def cumulative_sums(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.mT @ v) / (q @ k.sum(dim=2)[..., None])
    S = (k[..., :, None] * v[..., None, :]).cumsum(dim=2)
    z = k.cumsum(dim=2)
    return (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)


@EXERCISE.style("as a recurrent network: one token after another")
def token_by_token(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    B, h, T, d_k = k.shape
    if not causal:
        S, z = torch.einsum("bhtd,bhte->bhde", k, v), k.sum(2, keepdim=True)
        return torch.einsum("bhtd,bhde->bhte", q, S) / (q * z).sum(-1, keepdim=True)
    S, z = k.new_zeros(B, h, d_k, v.shape[-1]), k.new_zeros(B, h, d_k)
    outputs = []
    for t in range(T):
        S = S + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = z + k[:, :, t]
        outputs.append((q[:, :, t, :, None] * S).sum(-2) / (q[:, :, t] * z).sum(-1, keepdim=True))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("einsum, with the small number in the normaliser that published code has")
def einsum_with_epsilon(q, k, v, causal=True):
    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    if causal:
        numerator = torch.einsum("bhtd,bhtde->bhte", q, torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2))
        total = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2))
    else:
        numerator = torch.einsum("bhtd,bhde->bhte", q, torch.einsum("bhtd,bhte->bhde", k, v))
        total = torch.einsum("bhtd,bhd->bht", q, k.sum(2))
    return numerator / (total + 1e-6)[..., None]


@EXERCISE.style("a column of ones beside the values makes numerator and normaliser at once")
def ones_beside_the_values(q, k, v, causal=True):
    q, k = (x.clamp(max=0).exp() + x.clamp(min=0) for x in (q, k))
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    sums = k.unsqueeze(-1) * v.unsqueeze(-2)
    sums = torch.cumsum(sums, dim=-3) if causal else sums.sum(dim=-3, keepdim=True)
    both = (q.unsqueeze(-1) * sums).sum(dim=-2)
    return both[..., :-1] / both[..., -1:]


@EXERCISE.style("in chunks: sums of the chunks before, small triangles inside")
def in_chunks(q, k, v, causal=True):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        return q @ (k.transpose(-2, -1) @ v) / (q @ k.transpose(-2, -1).sum(-1, keepdim=True))
    S = z = 0
    outputs = []
    for q_c, k_c, v_c in zip(q.split(16, 2), k.split(16, 2), v.split(16, 2), strict=True):
        inside = torch.tril(q_c @ k_c.mT)
        numerator, total = inside @ v_c, inside.sum(-1, keepdim=True)
        if outputs:
            numerator, total = numerator + q_c @ S, total + q_c @ z
        outputs.append(numerator / total)
        S, z = S + k_c.mT @ v_c, z + k_c.sum(2).unsqueeze(-1)
    return torch.cat(outputs, 2)


@EXERCISE.style("in float32 or wider, head by head")
def head_by_head(q, k, v, causal=True):
    out = torch.empty_like(v)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            phi_q, phi_k = (F.elu(x[b, h].double()) + 1 for x in (q, k))
            outer = phi_k[:, :, None] * v[b, h, :, None].double()
            S = outer.cumsum(0) if causal else outer.sum(0).expand_as(outer)
            z = phi_k.cumsum(0) if causal else phi_k.sum(0).expand_as(phi_k)
            weighted = torch.bmm(phi_q[:, None], S)[:, 0]
            out[b, h] = (weighted / (phi_q * z).sum(1, keepdim=True)).to(v.dtype)
    return out
