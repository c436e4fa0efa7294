"""Right answers to `gated_delta_rule`, each in a style of its own."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from autograder.exercises.ch10_beyond_attention.gated_delta_rule import EXERCISE


@EXERCISE.style("one token after another; the size of the chunks is not needed")
def token_by_token(query, key, value, beta, log_decay, chunk_size):
    S = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None])
    outputs = []
    for t in range(query.shape[2]):
        q, k, v, b = query[:, :, t], key[:, :, t], value[:, :, t], beta[:, :, t, None]
        S = torch.exp(log_decay[:, :, t])[..., None, None] * S
        old = (S @ k[..., None]).squeeze(-1)
        S = S + (b * (v - old))[..., :, None] * k[..., None, :]
        outputs.append((S @ q[..., None]).squeeze(-1))
    return torch.stack(outputs, dim=2)


@EXERCISE.style("chunk by chunk: a triangular system inside, a memory from chunk to chunk")
def in_chunks(query, key, value, beta, log_decay, chunk_size):
    inputs = [x.double() for x in (query, key, value, beta[..., None], log_decay[..., None])]
    S = inputs[0].new_zeros(*key.shape[:2], value.shape[-1], key.shape[-1])
    outputs = []
    for q, k, v, b, g in zip(*(x.split(chunk_size, dim=2) for x in inputs), strict=True):
        total = g.cumsum(dim=2)
        start = torch.exp(total)
        later = torch.ones(g.shape[2], g.shape[2], dtype=torch.bool, device=g.device).triu(1)
        between = (total - total.mT).masked_fill(later, -torch.inf).exp()
        missing = b * (v - start * (k @ S.mT))
        system = b * (k @ k.mT) * between
        written = torch.linalg.solve_triangular(system.tril(-1), missing, upper=False, unitriangular=True)
        outputs.append(start * (q @ S.mT) + (q @ k.mT * between) @ written)
        end = torch.exp(total[:, :, -1:] - total)
        S = start[:, :, -1:] * S + written.mT @ (end * k)
    return torch.cat(outputs, dim=2).to(query.dtype)


@EXERCISE.style("the formula with its matrix alpha (I - beta k k^T)")
def matrix_form(query, key, value, beta, log_decay, chunk_size):
    eye = torch.eye(key.shape[-1], dtype=key.dtype, device=key.device)
    S, outputs = key.new_zeros(*key.shape[:2], value.shape[-1], key.shape[-1]), []
    alpha = log_decay.exp()
    for q, k, v, b, a in zip(*(x.unbind(dim=2) for x in (query, key, value, beta, alpha)), strict=True):
        k, b = k.unsqueeze(-1), b[..., None, None]
        S = S @ (a[..., None, None] * (eye - b * k @ k.mT)) + b * v.unsqueeze(-1) @ k.mT
        outputs.append(S @ q.unsqueeze(-1))
    return torch.cat(outputs, dim=-1).mT


@EXERCISE.style("as published: padded, all chunks solved before any memory is known")
def solved_before_the_memory(query, key, value, beta, log_decay, chunk_size):
    T = query.shape[2]
    pad = -T % chunk_size
    q, k, v = (F.pad(x.float(), (0, 0, 0, pad)).unflatten(2, (-1, chunk_size)) for x in (query, key, value))
    b, g = (F.pad(x.float(), (0, pad)).unflatten(2, (-1, chunk_size)) for x in (beta, log_decay))
    total = g.cumsum(dim=-1)
    gap = total[..., :, None] - total[..., None, :]
    between = torch.tril(torch.exp(torch.tril(gap)))
    system = torch.tril((b[..., None] * k) @ k.mT * between, -1)
    system = system + torch.eye(chunk_size, device=q.device)
    b, total = b[..., None], total[..., None]
    u = torch.linalg.solve_triangular(system, b * v, upper=False)
    w = torch.linalg.solve_triangular(system, b * total.exp() * k, upper=False)
    S = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0])
    out = []
    for c in range(q.shape[2]):
        written = u[:, :, c] - w[:, :, c] @ S
        inside = q[:, :, c] @ k[:, :, c].mT * between[:, :, c]
        out.append((q * total.exp())[:, :, c] @ S + inside @ written)
        last = total[:, :, c, -1:]
        S = last.exp() * S + (k[:, :, c] * (last - total[:, :, c]).exp()).mT @ written
    return torch.cat(out, dim=2)[:, :, :T].to(query.dtype)


@EXERCISE.style("a chunk at a time, token after token inside it, einsum, written into the result")
def written_into_the_result(query, key, value, beta, log_decay, chunk_size):
    out = torch.empty_like(value)
    memory = torch.zeros(*key.shape[:2], key.shape[-1], value.shape[-1], device=key.device)
    q, k, v, b, alpha = (x.to(torch.float32) for x in (query, key, value, beta, log_decay.exp()))
    for start in range(0, query.shape[2], chunk_size):
        for t in range(start, min(start + chunk_size, query.shape[2])):
            memory = torch.einsum("bh,bhkv->bhkv", alpha[:, :, t], memory)
            change = v[:, :, t] - torch.einsum("bhkv,bhk->bhv", memory, k[:, :, t])
            memory = memory + torch.einsum("bh,bhk,bhv->bhkv", b[:, :, t], k[:, :, t], change)
            out[:, :, t] = torch.einsum("bhkv,bhk->bhv", memory, q[:, :, t]).to(out.dtype)
    return out


@EXERCISE.style("one system for all tokens, decays as differences of summed logarithms")
def solved_at_once(query, key, value, beta, log_decay, chunk_size):
    total = log_decay.double().cumsum(dim=-1)
    later = torch.ones_like(total[0, 0, :, None] * total[0, 0]).triu(1).bool()
    decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, float("-inf")).exp()
    q, k, v = (x.double() for x in (query, key, value))
    b = beta.double().unsqueeze(-1)
    written = torch.linalg.solve_triangular(
        torch.tril(b * k @ k.transpose(-1, -2) * decay, -1), b * v, upper=False, unitriangular=True
    )
    return (q @ k.transpose(-1, -2) * decay @ written).to(query.dtype)
