"""Right answers to `ssd_chunked`, each in a style of its own."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from autograder.exercises.ch10_beyond_attention.ssd_chunked import EXERCISE


@EXERCISE.style("chunk by chunk: attention with decays inside, a memory from chunk to chunk")
def chunk_by_chunk(x, delta, A, B, C, chunk_size):
    H = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], B.shape[2])
    outputs = []
    for first in range(0, x.shape[1], chunk_size):
        chunk = slice(first, first + chunk_size)
        v = (delta[:, chunk, :, None] * x[:, chunk]).transpose(1, 2)
        k, q = B[:, None, chunk], C[:, None, chunk]
        total = (delta[:, chunk] * A).cumsum(dim=1).transpose(1, 2)[..., None]
        later = torch.ones(v.shape[2], v.shape[2], dtype=torch.bool, device=x.device).triu(1)
        L = (total - total.mT).masked_fill(later, -torch.inf).exp()
        inside = (q @ k.mT * L) @ v
        outputs.append(inside + total.exp() * (q @ H.mT))
        left = (total[:, :, -1:] - total).exp()
        H = total[:, :, -1:].exp() * H + (left * v).mT @ k
    return torch.cat(outputs, dim=2).transpose(1, 2)


@EXERCISE.style("as published: padded, all chunks at once, einsum, one decay matrix between the chunks")
def all_chunks_at_once(x, delta, A, B, C, chunk_size):
    def segment_sums(a):
        n = a.shape[-1]
        a = a[..., None].expand(*a.shape, n)
        a = a.masked_fill(torch.ones(n, n, device=a.device).triu().bool(), 0).cumsum(dim=-2)
        return a.masked_fill(torch.ones(n, n, device=a.device).triu(1).bool(), -torch.inf)

    T = x.shape[1]
    pad = -T % chunk_size
    x = F.pad(delta[..., None] * x, (0, 0, 0, 0, 0, pad)).unflatten(1, (-1, chunk_size))
    a = F.pad(delta * A, (0, 0, 0, pad)).unflatten(1, (-1, chunk_size)).permute(0, 3, 1, 2)
    B, C = (F.pad(y, (0, 0, 0, pad)).unflatten(1, (-1, chunk_size)) for y in (B, C))
    total = a.cumsum(dim=-1)
    scores = torch.einsum("bcin,bcjn->bcij", C, B)[:, None] * segment_sums(a).exp()
    inside = torch.einsum("bhcij,bcjhp->bcihp", scores, x)
    states = torch.einsum("bcjn,bhcj,bcjhp->bchpn", B, (total[..., -1:] - total).exp(), x)
    between = segment_sums(F.pad(total[..., -1], (1, 0))).exp()[:, :, :-1, 1:]
    before = torch.einsum("bhzc,bchpn->bzhpn", between, states)
    across = torch.einsum("bcin,bchpn,bhci->bcihp", C, before, total.exp())
    return (inside + across).flatten(1, 2)[:, :T]


@EXERCISE.style("in float32 or wider, head by head, written into the result")
def head_by_head(x, delta, A, B, C, chunk_size):
    y = torch.empty_like(x)
    for head in range(x.shape[2]):
        H = torch.zeros(x.shape[0], x.shape[3], B.shape[2], dtype=torch.float64, device=x.device)
        for first in range(0, x.shape[1], chunk_size):
            part = slice(first, min(first + chunk_size, x.shape[1]))
            k, q = B[:, part].double(), C[:, part].double()
            step = delta[:, part, head].double()
            v = step[..., None] * x[:, part, head].double()
            sums = torch.cumsum(step * A[head].double(), dim=1)
            gap = sums[:, :, None] - sums[:, None, :]
            decay = torch.exp(torch.tril(gap)).tril()
            scores = torch.bmm(q, k.transpose(1, 2)) * decay
            old = torch.exp(sums)[..., None] * torch.bmm(q, H.transpose(1, 2))
            y[:, part, head] = (torch.bmm(scores, v) + old).to(y.dtype)
            rest = torch.exp(sums[:, -1:] - sums)[..., None]
            H = torch.exp(sums[:, -1])[:, None, None] * H + torch.bmm((rest * v).transpose(1, 2), k)
    return y


@EXERCISE.style("chunks as a batch, and a loop over their memories only")
def memories_in_a_loop(x, delta, A, B, C, chunk_size):
    b, T, h, p = x.shape
    pad = (chunk_size - T % chunk_size) % chunk_size
    a = F.pad(delta * A, (0, 0, 0, pad)).reshape(b, -1, chunk_size, h).movedim(3, 1)
    v = F.pad(delta[..., None] * x, (0, 0, 0, 0, 0, pad)).reshape(b, -1, chunk_size, h, p).movedim(3, 1)
    k, q = (F.pad(y, (0, 0, 0, pad)).reshape(b, 1, -1, chunk_size, y.shape[-1]) for y in (B, C))
    total = a.cumsum(-1)
    decay = total[..., :, None] - total[..., None, :]
    decay = torch.where(torch.ones_like(decay).tril().bool(), decay, float("-inf")).exp()
    y = q @ k.mT * decay @ v
    written = (v * (total[..., -1:] - total).exp()[..., None]).mT @ k
    H, before = torch.zeros_like(written[:, :, 0]), []
    for c in range(written.shape[2]):
        before.append(H)
        H = H * total[:, :, c, -1, None, None].exp() + written[:, :, c]
    y = y + total.exp()[..., None] * (q @ torch.stack(before, 2).mT)
    return y.movedim(1, 3).reshape(b, -1, h, p)[:, :T]


@EXERCISE.style("the memory enters a chunk as a token before all others, chunks cut by split")
def memory_as_a_first_token(x, delta, A, B, C, chunk_size):
    outputs, H = [], torch.zeros_like(x[:, 0, :, :, None] * B[:, 0, None, None])
    for u, step, k, q in zip(*(y.split(chunk_size, dim=1) for y in (x, delta, B, C)), strict=True):
        rates = step * A
        n = rates.shape[1]
        sums = torch.cat([torch.zeros_like(rates[:, :1]), rates.cumsum(dim=1)], dim=1)
        hidden = torch.ones(n + 1, n + 1, device=x.device).triu(1).bool()[..., None]
        L = (sums[:, :, None] - sums[:, None]).masked_fill(hidden, -torch.inf).exp()
        drive = torch.einsum("bjh,bjhp->bjhp", step, u)
        y = torch.einsum("bin,bjn,bijh,bjhp->bihp", q, k, L[:, 1:, 1:], drive)
        outputs.append(y + torch.einsum("bin,bih,bhpn->bihp", q, L[:, 1:, 0], H))
        H = torch.einsum("bh,bhpn->bhpn", L[:, n, 0], H)
        H = H + torch.einsum("bjn,bjh,bjhp->bhpn", k, L[:, n, 1:], drive)
    return torch.cat(outputs, dim=1)
