"""Right answers to `MultiHeadAttention`, each in a style of its own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch04_multi_head.MultiHeadAttention import EXERCISE


@EXERCISE.style("-1e9 where forbidden, then the mask once more")
class filled_and_zeroed(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.style("torch's fused attention behind the split")
class fused_kernel(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.style("einsum, -inf where forbidden, NaN replaced by nan_to_num")
class infinite_fill(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).reshape(*x.shape[:2], self.num_heads, self.d_head)
        k = self.W_k(memory).reshape(*memory.shape[:2], self.num_heads, self.d_head)
        v = self.W_v(memory).reshape(*memory.shape[:2], self.num_heads, self.d_head)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.d_head**-0.5
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        return self.W_o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(-2))


@EXERCISE.style("a loop over the heads, slices of the channels, joined by cat")
class head_by_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = self.W_q(x), self.W_k(memory), self.W_v(memory)
        shape = (x.shape[0], self.num_heads, x.shape[1], memory.shape[1])
        allowed = torch.ones(shape, dtype=torch.bool, device=x.device) if mask is None else mask.expand(shape)
        heads = []
        for i in range(self.num_heads):
            own = slice(i * self.d_head, (i + 1) * self.d_head)
            scores = q[..., own] @ k[..., own].transpose(1, 2) / self.d_head**0.5
            scores = scores.masked_fill(~allowed[:, i], torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, dim=-1) * allowed[:, i]
            heads.append(weights @ v[..., own])
        return self.W_o(torch.cat(heads, dim=-1))


@EXERCISE.style("heads folded into the batch, bmm, softmax in float32 and cast back")
class folded_into_batch(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        (B, T_q, d), T_k, h = x.shape, memory.shape[1], self.num_heads
        q = self.W_q(x).view(B, T_q, h, -1).transpose(1, 2).reshape(B * h, T_q, -1)
        k = self.W_k(memory).view(B, T_k, h, -1).transpose(1, 2).reshape(B * h, T_k, -1)
        v = self.W_v(memory).view(B, T_k, h, -1).transpose(1, 2).reshape(B * h, T_k, -1)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_head)
        if mask is not None:
            mask = mask.expand(B, h, T_q, T_k).reshape(B * h, T_q, T_k)
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0)
        heads = torch.bmm(weights, v).view(B, h, T_q, -1)
        return self.W_o(heads.permute(0, 2, 1, 3).contiguous().view(B, T_q, d))


@EXERCISE.style("each head through its own columns of W_o, added up")
class sum_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        output = 0 if self.W_o.bias is None else self.W_o.bias
        for i in range(self.num_heads):
            own = slice(i * self.d_head, (i + 1) * self.d_head)
            q, k, v = self.W_q(x)[..., own], self.W_k(memory)[..., own], self.W_v(memory)[..., own]
            scores = q @ k.mT / math.sqrt(self.d_head)
            weights = torch.softmax(scores, dim=-1)
            if mask is not None:
                own_mask = mask if mask.ndim < 4 else mask[:, i if mask.shape[1] > 1 else 0]
                scores = scores.masked_fill(~own_mask, -1e30)
                weights = torch.softmax(scores, dim=-1).masked_fill(~own_mask, 0)
            output = output + (weights @ v) @ self.W_o.weight[:, own].T
        return output


@EXERCISE.style("exponentials by hand, the sum divided out at the end")
class exponentials_by_hand(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        if mask is not None:
            weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        heads = (weights @ v) / torch.where(total == 0, 1, total)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.style("one product with the three matrices stacked, where x reads itself")
class weights_stacked(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        projections = [self.W_q, self.W_k, self.W_v]
        if memory is None:
            bias = None if self.W_q.bias is None else torch.cat([W.bias for W in projections])
            q, k, v = F.linear(x, torch.cat([W.weight for W in projections]), bias).chunk(3, dim=-1)
        else:
            q, k, v = self.W_q(x), self.W_k(memory), self.W_v(memory)
        q, k, v = (t.unflatten(2, (self.num_heads, self.d_head)).permute(0, 2, 1, 3) for t in (q, k, v))
        scores = torch.matmul(q * self.d_head**-0.5, k.transpose(-2, -1))
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e9)
        weights = scores.log_softmax(dim=-1).exp()
        if mask is not None:
            weights = torch.where(mask, weights, 0)
        heads = weights.matmul(v)
        return self.W_o(torch.cat(heads.unbind(dim=1), dim=-1))
