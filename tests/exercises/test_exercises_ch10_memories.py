"""Memories that replace: published forms get full marks, unknown mistakes meet a law, hints name slips."""

import pytest
import torch
import torch.nn.functional as F
from exercise_bank import named, report_on

from autograder import exercises
from autograder.checking.candidate import local
from autograder.checking.examination import examine
from autograder.student import PUBLIC_SEED


def naive_recurrence(query, key, value, beta):
    """As in flash-linear-attention's naive form: float32, a memory of d_k x d_v, written into the result."""
    q, k, v, beta = (x.float() for x in (query, key, value, beta))
    out, memory = torch.zeros_like(v), torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1]).to(v)
    for t in range(k.shape[2]):
        change = v[:, :, t] - (memory * k[:, :, t, :, None]).sum(dim=-2)
        memory = memory + k[:, :, t].unsqueeze(-1) * (beta[:, :, t, None] * change).unsqueeze(-2)
        out[:, :, t] = torch.einsum("bhk,bhkv->bhv", q[:, :, t], memory)
    return out.to(query.dtype)


def naive_chunks(query, key, value, beta, C=4):
    """As in its chunked form: the inverse by forward substitution, for values and keys, before any memory."""
    T, dtype = key.shape[2], query.dtype
    padded = [F.pad(x.float(), (0, 0, 0, -T % C)) for x in (query, key, value, beta.unsqueeze(-1))]
    q, k, v, beta = (x.unflatten(2, (-1, C)) for x in padded)
    A = -((beta * k) @ k.mT).tril(-1)
    rows = [A[..., 0, :]]
    for i in range(1, C):
        rows.append(A[..., i, :] + sum(A[..., i, j, None] * rows[j] for j in range(i)))
    inverse = torch.stack(rows, dim=-2) + torch.eye(C, device=q.device)
    u, w = inverse @ (beta * v), inverse @ (beta * k)
    S, outputs = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]), []
    for n in range(q.shape[2]):
        written = u[:, :, n] - w[:, :, n] @ S
        outputs.append(q[:, :, n] @ S + (q[:, :, n] @ k[:, :, n].mT).tril() @ written)
        S = S + k[:, :, n].mT @ written
    return torch.cat(outputs, dim=2)[:, :, :T].to(dtype)


def of_qwen3_next(function, **sizes):
    """transformers' gated delta rule, which scales the queries and has time before the heads."""

    def gated(query, key, value, beta, log_decay, chunk_size):
        inputs = (query * query.shape[-1] ** 0.5, key, value, log_decay, beta)
        turned = [x.transpose(1, 2) for x in inputs]
        return function(*turned, **({"chunk_size": chunk_size} if sizes else {}))[0].transpose(1, 2)

    return gated


def qwen3_next_recurrent(*inputs):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

    return of_qwen3_next(torch_recurrent_gated_delta_rule)(*inputs)


def qwen3_next_chunks(*inputs):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    return of_qwen3_next(torch_chunk_gated_delta_rule, chunk_size=True)(*inputs)


def naive_gated_chunks(query, key, value, beta, log_decay, chunk_size):
    """As in flash-linear-attention's naive gated form: decays in tril, exp, tril; the inverse row by row."""
    T, C, dtype = key.shape[2], chunk_size, query.dtype
    padded = [
        F.pad(x.float(), (0, 0, 0, -T % C))
        for x in (query, key, value, beta[..., None], log_decay[..., None])
    ]
    q, k, v, beta, g = (x.unflatten(2, (-1, C)) for x in padded)
    total = g[..., 0].cumsum(-1)
    L = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    A = -((beta * k) @ k.mT * L).tril(-1)
    rows = [A[..., 0, :]]
    for i in range(1, C):
        rows.append(A[..., i, :] + sum(A[..., i, j, None] * rows[j] for j in range(i)))
    inverse = torch.stack(rows, dim=-2) + torch.eye(C, device=q.device)
    u, w = inverse @ (beta * v), inverse @ (beta * k * total.exp()[..., None])
    S, outputs = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]), []
    for n in range(q.shape[2]):
        written = u[:, :, n] - w[:, :, n] @ S
        end, start = total[:, :, n, -1, None, None], total[:, :, n, :, None]
        outputs.append((q[:, :, n] * start.exp()) @ S + (q[:, :, n] @ k[:, :, n].mT * L[:, :, n]) @ written)
        S = end.exp() * S + (k[:, :, n] * (end - start).exp()).mT @ written
    return torch.cat(outputs, dim=2)[:, :, :T].to(dtype)


PUBLISHED = {
    naive_recurrence: "delta_rule",
    naive_chunks: "delta_rule",
    naive_gated_chunks: "gated_delta_rule",
    qwen3_next_recurrent: "gated_delta_rule",
    qwen3_next_chunks: "gated_delta_rule",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("function", PUBLISHED, ids=lambda function: function.__name__)
def test_what_is_published_gets_full_marks(function, seed):
    report = examine(exercises.find(named(PUBLISHED[function])), local(function), seed)
    assert report.passed, report


def replacing(query, key, value, beta, change=lambda b, v, old: b * (v - old)):
    S, outputs = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None]), []
    for t in range(query.shape[2]):
        k, b = key[:, :, t], beta[:, :, t, None]
        old = (S @ k[..., None])[..., 0]
        S = S + change(b, value[:, :, t], old)[..., None] * k[..., None, :]
        outputs.append((S @ query[:, :, t, :, None])[..., 0])
    return torch.stack(outputs, dim=2)


def gated(query, key, value, beta, log_decay, chunk_size, kept=torch.exp, fades=None):
    S, outputs = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None]), []
    for t in range(query.shape[2]):
        k, b = key[:, :, t], beta[:, :, t, None]
        S = S * kept(log_decay[:, :, t])[..., None, None] if fades is None or fades(t, chunk_size) else S
        S = S + (b * (value[:, :, t] - (S @ k[..., None])[..., 0]))[..., None] * k[..., None, :]
        outputs.append((S @ query[:, :, t, :, None])[..., 0])
    return torch.stack(outputs, dim=2)


WRONG = {
    "delta: half of the old value": (
        "delta_rule",
        lambda query, key, value, beta: replacing(
            query, key, value, beta, change=lambda b, v, old: b * (v - old / 2)
        ),
        "with beta = 1, and the query of token 1 equal to its key, your output is",
    ),
    "delta: the key before": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key.roll(1, 2), value, beta),
        "with beta = 1, and the query of token 0 equal to its key, your output is",
    ),
    "delta: betas of at least a half": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value, beta.clamp(min=0.5)),
        "with beta = 0 everywhere your output is",
    ),
    "delta: the beta of the next token": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value, beta.roll(-1, 2)),
        "at that token; beta (k . q) is",
    ),
    "delta: a memory of two tokens": (
        "delta_rule",
        lambda query, key, value, beta: torch.cat(
            [
                replacing(*parts)
                for parts in zip(*(x.split(2, dim=2) for x in (query, key, value, beta)), strict=True)
            ],
            dim=2,
        ),
        "a token later; each later token replaces the share beta of what its key finds, which leaves",
    ),
    "delta: heads mixed": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value + value.mean(1, keepdim=True), beta),
        "with values in head 0 alone there is an output",
    ),
    "delta: channels mixed": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value + value.mean(-1, keepdim=True), beta),
        "with values in channel 0 alone there is an output",
    ),
    "gated: half of the decay": (
        "gated_delta_rule",
        lambda *inputs: gated(*inputs, kept=lambda g: (g / 2).exp()),
        "a token later; each later token multiplies the memory by exp(log_decay), then replaces",
    ),
    "gated: the gate shut at the first token of a chunk": (
        "gated_delta_rule",
        lambda *inputs: gated(*inputs, fades=lambda t, chunk_size: t % chunk_size),
        "in one chunk your output is right; with chunk_size =",
    ),
    "gated: the key before": (
        "gated_delta_rule",
        lambda query, key, *rest: gated(query, key.roll(1, 2), *rest),
        "with beta = 1, and the query of token 0 equal to its key, your output is",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_an_unknown_mistake_is_told_by_a_law(name):
    exercise, function, says = WRONG[name]
    report = report_on(named(exercise), function, shrinking=True)
    assert not report.passed
    assert says in str(report), report


NAMED = {
    "delta, without forgetting": (
        "delta_rule",
        lambda query, key, value, beta: (query @ key.mT).tril() @ (beta[..., None] * value),
        "nothing_forgotten",
    ),
    "delta, scaled": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value, beta) / query.shape[-1] ** 0.5,
        "scaled_as_softmax",
    ),
    "delta, betas through a sigmoid": (
        "delta_rule",
        lambda query, key, value, beta: replacing(query, key, value, 1 / (1 + (-beta).exp())),
        "sigmoid_of_beta",
    ),
    "gated, without a gate": (
        "gated_delta_rule",
        lambda query, key, value, beta, log_decay, chunk_size: replacing(query, key, value, beta),
        "no_decay",
    ),
    "gated, the logarithm for the decay": (
        "gated_delta_rule",
        lambda *inputs: gated(*inputs, kept=lambda g: g),
        "exponential_forgotten",
    ),
    "gated, each chunk by itself": (
        "gated_delta_rule",
        lambda *inputs: torch.cat(
            [
                gated(*parts, chunk_size=0)
                for parts in zip(*(x.split(inputs[-1], dim=2) for x in inputs[:-1]), strict=True)
            ],
            dim=2,
        ),
        "memory_not_carried",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("slip", NAMED)
def test_a_mistake_in_other_words_is_named(slip):
    name, function, mistake = NAMED[slip]
    assert report_on(named(name), function).diagnosis == mistake


def test_of_the_keys_gradient_only_the_part_along_the_sphere_counts():
    """The formula itself is right; so is code that normalises keys of length 1 once more."""
    exercise = "ch10_beyond_attention/delta_rule"
    assert report_on(exercise, replacing).passed
    assert report_on(
        exercise, lambda query, key, value, beta: replacing(query, F.normalize(key, dim=-1), value, beta)
    ).passed
    report = report_on(exercise, lambda query, key, value, beta: replacing(query, key.detach(), value, beta))
    assert "no gradient reaches `key`" in str(report)
