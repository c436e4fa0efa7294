"""Right answers to `delta_rule`, each in a style of its own."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from autograder.exercises.ch10_beyond_attention.delta_rule import EXERCISE


@EXERCISE.style("look up, write the difference, read: one token after another")
def look_up_and_replace(query, key, value, beta):
    S = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None])
    outputs = []
    for t in range(query.shape[2]):
        q, k, v, b = query[:, :, t], key[:, :, t], value[:, :, t], beta[:, :, t]
        old = (S @ k[..., None]).squeeze(-1)
        S = S + (b[..., None] * (v - old))[..., :, None] * k[..., None, :]
        outputs.append((S @ q[..., None]).squeeze(-1))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("the formula with its matrix I - beta k k^T")
def matrix_form(query, key, value, beta):
    S = key.new_zeros(*key.shape[:2], value.shape[-1], key.shape[-1])
    eye = torch.eye(key.shape[-1], dtype=key.dtype, device=key.device)
    outputs = []
    for q, k, v, b in zip(*(x.unbind(dim=2) for x in (query, key, value, beta)), strict=True):
        k, b = k.unsqueeze(-1), b[..., None, None]
        S = S @ (eye - b * k @ k.mT) + b * v.unsqueeze(-1) @ k.mT
        outputs.append(S @ q.unsqueeze(-1))
    return torch.cat(outputs, dim=-1).mT


@EXERCISE.style("einsum, with the memory the other way round, d_k x d_v")
def einsum(query, key, value, beta):
    memory, outputs = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1]), []
    for t in range(key.shape[2]):
        change = value[:, :, t] - torch.einsum("bhkv,bhk->bhv", memory, key[:, :, t])
        memory = memory + torch.einsum("bh,bhk,bhv->bhkv", beta[:, :, t], key[:, :, t], change)
        outputs.append(torch.einsum("bhkv,bhk->bhv", memory, query[:, :, t]))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("all tokens at once: a triangular system gives what each token writes")
def solved_at_once(query, key, value, beta):
    overlap = beta[..., None] * (key @ key.mT)
    T = key.shape[2]
    system = (overlap.tril(-1) + torch.eye(T, dtype=key.dtype, device=key.device)).double()
    written = torch.linalg.solve_triangular(system, (beta[..., None] * value).double(), upper=False)
    return (query @ key.mT).tril() @ written.to(value.dtype)


@EXERCISE.style("in chunks: a memory from the chunks before, a system inside")
def in_chunks(query, key, value, beta):
    dtype = query.dtype
    query, key, value, beta = (x.double() for x in (query, key, value, beta.unsqueeze(-1)))
    S, outputs = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1]), []
    for q, k, v, b in zip(*(x.split(4, dim=2) for x in (query, key, value, beta)), strict=True):
        missing = b * (v - k @ S)
        u = torch.linalg.solve_triangular((b * k @ k.mT).tril(-1), missing, upper=False, unitriangular=True)
        outputs.append(q @ S + torch.tril(q @ k.mT) @ u)
        S = S + k.mT @ u
    return torch.cat(outputs, dim=2).to(dtype)


@EXERCISE.style("head by head in float32, written into the result")
def written_into_the_result(query, key, value, beta):
    out = torch.empty_like(value)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            S = torch.zeros(value.shape[-1], key.shape[-1], device=value.device)
            for t in range(query.shape[2]):
                q, k, v = (x[b, h, t].float() for x in (query, key, value))
                S = S + beta[b, h, t].float() * torch.outer(v - S @ k, k)
                out[b, h, t] = (S @ q).to(out.dtype)
    return out


@EXERCISE.style("a list of what was written: each token reads what all earlier tokens left under its key")
def list_of_writings(query, key, value, beta):
    written, outputs = [], []
    for t in range(key.shape[2]):
        change = value[:, :, t]
        for i, u in enumerate(written):
            change = change - (key[:, :, i] * key[:, :, t]).sum(-1, keepdim=True) * u
        written.append(beta[:, :, t, None] * change)
        overlap = (key[:, :, : t + 1] * query[:, :, t, None]).sum(-1, keepdim=True)
        outputs.append((overlap * torch.stack(written, dim=2)).sum(dim=2))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("keys normalised once more, which changes nothing")
def normalised_again(query, key, value, beta):
    key = F.normalize(key, dim=-1)
    S, outputs = 0, []
    for q, k, v, b in zip(*(x.unbind(2) for x in (query, key, value, beta[..., None, None])), strict=True):
        S = S - b * (S * k[..., None, :]).sum(-1, keepdim=True) * k[..., None, :] if outputs else 0
        S = S + b * v[..., :, None] * k[..., None, :]
        outputs.append((S * q[..., None, :]).sum(-1))
    return torch.stack(outputs, dim=2)
