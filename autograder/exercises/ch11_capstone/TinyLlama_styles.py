"""Right answers to `TinyLlama`, each in a style of its own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch11_capstone.brought import (
    KVCache,
    apply_rope,
    causal_mask,
    merge_heads,
    repeat_kv,
    rms_norm,
    split_heads,
    swiglu,
)
from autograder.exercises.ch11_capstone.given_llama import LlamaBlock
from autograder.exercises.ch11_capstone.TinyLlama import EXERCISE


@EXERCISE.style("the functions of chapters 4 to 8, and a method for attention")
class as_asked(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.base, self.eps = base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        E = self.embed.weight
        d_head = E.shape[1] // self.num_heads
        return [KVCache(batch, self.num_kv_heads, max_len, d_head, E.dtype, E.device) for _ in self.blocks]

    def forward(self, tokens, cache=None):
        T = tokens.shape[1]
        start = 0 if cache is None else cache[0].length
        positions = torch.arange(start, start + T, device=tokens.device)
        mask = causal_mask(T, start + T).to(tokens.device)
        x = self.embed(tokens)
        for i, block in enumerate(self.blocks):
            h = rms_norm(x, block.norm_attention, self.eps)
            x = x + self.attention(block, h, positions, mask, None if cache is None else cache[i])
            h = rms_norm(x, block.norm_ffn, self.eps)
            x = x + swiglu(h, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)
        return rms_norm(x, self.norm, self.eps) @ self.embed.weight.T

    def attention(self, block, x, positions, mask, cache):
        q = apply_rope(split_heads(block.W_q(x), self.num_heads), positions, self.base)
        k = apply_rope(split_heads(block.W_k(x), self.num_kv_heads), positions, self.base)
        v = split_heads(block.W_v(x), self.num_kv_heads)
        if cache is not None:
            k, v = cache.update(k, v)
        num_groups = self.num_heads // self.num_kv_heads
        k, v = repeat_kv(k, num_groups), repeat_kv(v, num_groups)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        return block.W_o(merge_heads(weights @ v))


@EXERCISE.style("one forward with torch's fused attention, always with a cache")
class fused_attention(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.h, self.h_kv, self.d_head = num_heads, num_kv_heads, d_model // num_heads
        self.base, self.eps = base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.norm = nn.Parameter(torch.ones(d_model))
        self.blocks = nn.ModuleList(
            [LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)]
        )

    def new_cache(self, batch, max_len):
        given = {"dtype": self.embed.weight.dtype, "device": self.embed.weight.device}
        return [KVCache(batch, self.h_kv, max_len, self.d_head, **given) for _ in range(len(self.blocks))]

    def forward(self, tokens, cache=None):
        B, T = tokens.shape
        if cache is None:
            cache = self.new_cache(B, T)
        seen = cache[0].length
        places = torch.arange(seen + T, device=tokens.device)
        mask = places[None, :] <= places[seen:, None]
        x = F.embedding(tokens, self.embed.weight)
        for block, memory in zip(self.blocks, cache, strict=True):
            y = rms_norm(x, block.norm_attention, eps=self.eps)
            q, k, v = (
                W(y).view(B, T, -1, self.d_head).transpose(1, 2) for W in (block.W_q, block.W_k, block.W_v)
            )
            q, k = (apply_rope(part, places[seen:], base=self.base) for part in (q, k))
            k, v = memory.update(k, v)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
            x = x + block.W_o(y.transpose(1, 2).reshape(B, T, -1))
            y = rms_norm(x, block.norm_ffn, eps=self.eps)
            x = x + block.W_d(F.silu(block.W_g(y)) * block.W_u(y))
        return F.linear(rms_norm(x, self.norm, eps=self.eps), self.embed.weight)


@EXERCISE.style("everything written out, with rotate_half and expanded heads, as in transformers")
class as_in_transformers(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_model // num_heads
        self.variance_epsilon = eps
        inv_freq = 1.0 / (base ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            [LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)]
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        like = self.embed.weight
        return [
            KVCache(batch, self.num_kv_heads, max_len, self.head_dim, dtype=like.dtype, device=like.device)
            for _ in self.blocks
        ]

    def normed(self, hidden_states, weight):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))

    def rotate_half(self, x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    def repeat(self, hidden_states):
        B, num_kv_heads, T, head_dim = hidden_states.shape
        n_rep = self.num_heads // num_kv_heads
        hidden_states = hidden_states[:, :, None, :, :].expand(B, num_kv_heads, n_rep, T, head_dim)
        return hidden_states.reshape(B, num_kv_heads * n_rep, T, head_dim)

    def forward(self, tokens, cache=None):
        B, T = tokens.shape
        past = cache[0].length if cache is not None else 0
        position_ids = torch.arange(past, past + T, device=tokens.device)
        freqs = torch.outer(position_ids.to(self.inv_freq.dtype), self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        added = torch.full((T, past + T), -torch.inf, device=tokens.device).triu(past + 1)
        hidden_states = self.embed(tokens)
        for idx, layer in enumerate(self.blocks):
            residual = hidden_states
            hidden_states = self.normed(hidden_states, layer.norm_attention)
            query_states = layer.W_q(hidden_states).view(B, T, -1, self.head_dim).transpose(1, 2)
            key_states = layer.W_k(hidden_states).view(B, T, -1, self.head_dim).transpose(1, 2)
            value_states = layer.W_v(hidden_states).view(B, T, -1, self.head_dim).transpose(1, 2)
            query_states = (query_states * cos) + (self.rotate_half(query_states) * sin)
            key_states = (key_states * cos) + (self.rotate_half(key_states) * sin)
            if cache is not None:
                key_states, value_states = cache[idx].update(key_states, value_states)
            key_states, value_states = self.repeat(key_states), self.repeat(value_states)
            attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * self.head_dim**-0.5
            attn_weights = nn.functional.softmax(attn_weights + added.to(attn_weights), dim=-1)
            attn_output = torch.matmul(attn_weights, value_states).transpose(1, 2).contiguous()
            hidden_states = residual + layer.W_o(attn_output.reshape(B, T, -1))
            residual = hidden_states
            hidden_states = self.normed(hidden_states, layer.norm_ffn)
            down = layer.W_d(F.silu(layer.W_g(hidden_states)) * layer.W_u(hidden_states))
            hidden_states = residual + down
        return self.normed(hidden_states, self.norm) @ self.embed.weight.t()


@EXERCISE.style("complex rotation, heads grouped by einsum and never repeated")
class einsum_in_groups(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.kv, self.groups = num_kv_heads, num_heads // num_kv_heads
        self.width, self.base, self.eps = d_model // num_heads, base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        E = self.embed.weight
        return [KVCache(batch, self.kv, max_len, self.width, E.dtype, E.device) for _ in self.blocks]

    def turned(self, x, places):
        half = self.width // 2
        rates = self.base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angles = places[:, None] * rates
        wide = torch.promote_types(x.dtype, torch.float32)
        z = torch.complex(x[..., :half].to(wide), x[..., half:].to(wide))
        z = z * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)

    def forward(self, tokens, cache=None):
        (B, T), start = tokens.shape, cache[0].length if cache else 0
        places = start + torch.arange(T, device=tokens.device)
        hidden = places[:, None] < torch.arange(start + T, device=tokens.device)
        x = self.embed(tokens)
        for i, block in enumerate(self.blocks):
            y = rms_norm(x, block.norm_attention, self.eps)
            q, k, v = (
                W(y).unflatten(-1, (self.kv, -1, self.width)).permute(0, 2, 3, 1, 4)
                for W in (block.W_q, block.W_k, block.W_v)
            )
            q, k, v = self.turned(q, places), self.turned(k[:, :, 0], places), v[:, :, 0]
            if cache:
                k, v = cache[i].update(k, v)
            scores = torch.einsum("bhgqd,bhkd->bhgqk", q, k) / math.sqrt(self.width)
            weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
            y = torch.einsum("bhgqk,bhkd->bqhgd", weights, v).reshape(B, T, -1)
            x = x + block.W_o(y)
            y = rms_norm(x, block.norm_ffn, self.eps)
            x = x + swiglu(y, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)
        return torch.einsum("btd,vd->btv", rms_norm(x, self.norm, self.eps), self.embed.weight)


@EXERCISE.style("a block class with its own forward, a tied nn.Linear as the head")
class a_block_of_its_own(nn.Module):
    class Block(nn.Module):
        def __init__(self, d_model, num_heads, num_kv_heads, d_ff, base, eps):
            super().__init__()
            self.num_heads, self.num_kv_heads, self.base, self.eps = num_heads, num_kv_heads, base, eps
            d_kv = d_model * num_kv_heads // num_heads
            sizes = {"W_q": (d_model, d_model), "W_k": (d_model, d_kv), "W_v": (d_model, d_kv)}
            sizes |= {"W_o": (d_model, d_model), "W_g": (d_model, d_ff), "W_u": (d_model, d_ff)}
            for name, (d_in, d_out) in (sizes | {"W_d": (d_ff, d_model)}).items():
                setattr(self, name, nn.Linear(d_in, d_out, bias=False))
            self.norm_attention = nn.Parameter(torch.ones(d_model))
            self.norm_ffn = nn.Parameter(torch.ones(d_model))

        def forward(self, x, positions, mask, cache=None):
            x = x + self.attention(rms_norm(x, self.norm_attention, self.eps), positions, mask, cache)
            h = rms_norm(x, self.norm_ffn, self.eps)
            return x + self.W_d(F.silu(self.W_g(h)) * self.W_u(h))

        def attention(self, h, positions, mask, cache):
            q = split_heads(self.W_q(h), self.num_heads)
            k, v = (split_heads(W(h), self.num_kv_heads) for W in (self.W_k, self.W_v))
            q, k = apply_rope(q, positions, self.base), apply_rope(k, positions, self.base)
            k, v = cache.update(k, v) if cache is not None else (k, v)
            k, v = (repeat_kv(x, self.num_heads // self.num_kv_heads) for x in (k, v))
            scores = torch.where(mask, q @ k.transpose(-1, -2) / q.size(-1) ** 0.5, -1e9)
            return self.W_o(merge_heads(F.softmax(scores, dim=-1) @ v))

    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            self.Block(d_model, num_heads, num_kv_heads, d_ff, base, eps) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embed.weight
        self.cache_size, self.eps = (num_kv_heads, d_model // num_heads), eps

    def new_cache(self, batch, max_len):
        num_kv_heads, d_head = self.cache_size
        E = self.embed.weight
        return [KVCache(batch, num_kv_heads, max_len, d_head, E.dtype, E.device) for _ in self.blocks]

    def forward(self, tokens, cache=None):
        T, seen = tokens.shape[1], cache[0].length if cache else 0
        positions = torch.arange(seen + T, device=tokens.device)[seen:]
        mask = causal_mask(T, seen + T).to(tokens.device)
        x = self.embed(tokens)
        for block, memory in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = block(x, positions, mask, memory)
        return self.head(rms_norm(x, self.norm, self.eps))


@EXERCISE.style("a cache of its own that grows by cat, keys turned when they are read")
class keys_turned_when_read(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.base, self.eps = num_heads, num_kv_heads, base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        return [{} for _ in self.blocks]

    def forward(self, tokens, cache=None):
        cache = self.new_cache(*tokens.shape) if cache is None else cache
        x = self.embed(tokens)
        for block, memory in zip(self.blocks, cache, strict=True):
            h = rms_norm(x, block.norm_attention, self.eps)
            for name, W in (("k", block.W_k), ("v", block.W_v)):
                new = split_heads(W(h), self.num_kv_heads)
                memory[name] = torch.cat([memory[name], new], dim=2) if name in memory else new
            x = x + block.W_o(self.read(block.W_q(h), memory["k"], memory["v"]))
            h = rms_norm(x, block.norm_ffn, self.eps)
            x = x + swiglu(h, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)
        return rms_norm(x, self.norm, self.eps) @ self.embed.weight.T

    def read(self, q, k, v):
        T, total = q.shape[1], k.shape[2]
        positions = torch.arange(total, device=q.device)
        q = apply_rope(split_heads(q, self.num_heads), positions[-T:], self.base)
        k = apply_rope(k, positions, self.base)
        k, v = (x.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1) for x in (k, v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores + torch.zeros_like(scores).masked_fill(~causal_mask(T, total).to(q.device), -1e9)
        return merge_heads(scores.softmax(-1) @ v)


@EXERCISE.style("head by head in a loop")
class head_by_head(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.base, self.eps = num_heads, num_kv_heads, base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        E = self.embed.weight
        d_head = E.size(1) // self.num_heads
        return [
            KVCache(batch, self.num_kv_heads, max_len, d_head, dtype=E.dtype, device=E.device)
            for _ in self.blocks
        ]

    def forward(self, tokens, cache=None):
        start, d_head = 0, self.embed.weight.size(1) // self.num_heads
        if cache is not None:
            start = cache[0].length
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.embed.weight[tokens]
        for i in range(len(self.blocks)):
            block = self.blocks[i]
            h = rms_norm(x, block.norm_attention, self.eps)
            keys = torch.stack(block.W_k(h).split(d_head, dim=-1), dim=1)
            keys = apply_rope(keys, positions, self.base)
            values = torch.stack(block.W_v(h).split(d_head, dim=-1), dim=1)
            if cache is not None:
                keys, values = cache[i].update(keys, values)
            mask = causal_mask(len(positions), keys.shape[2]).to(x.device)
            heads = []
            for number, query in enumerate(block.W_q(h).split(d_head, dim=-1)):
                shared = number * self.num_kv_heads // self.num_heads
                query = apply_rope(query, positions, self.base)
                scores = query @ keys[:, shared].transpose(1, 2) / d_head**0.5
                weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=2)
                heads.append(weights @ values[:, shared])
            x = x + block.W_o(torch.cat(heads, dim=-1))
            h = rms_norm(x, block.norm_ffn, self.eps)
            x = x + swiglu(h, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)
        return rms_norm(x, self.norm, self.eps) @ self.embed.weight.T


@EXERCISE.style("batch and time first until attention, is_causal where there is no cache")
class causal_by_flag(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.groups, self.kv, self.base, self.eps = num_heads // num_kv_heads, num_kv_heads, base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.norm = nn.Parameter(torch.ones(d_model))
        blocks = [LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)]
        self.blocks = nn.ModuleList(blocks)

    def new_cache(self, batch, max_len):
        E = self.embed.weight
        sizes = batch, self.kv, max_len, E.shape[1] // (self.groups * self.kv)
        return [KVCache(*sizes, dtype=E.dtype, device=E.device) for _ in self.blocks]

    def forward(self, tokens, cache=None):
        x = self.embed(tokens)
        for number, block in enumerate(self.blocks):
            x = x + self.attend(block, x, cache and cache[number])
            y = F.rms_norm(x, x.shape[-1:], block.norm_ffn, self.eps)
            x = x + F.linear(F.silu(block.W_g(y)) * block.W_u(y), block.W_d.weight)
        return F.rms_norm(x, x.shape[-1:], self.norm, self.eps).matmul(self.embed.weight.T)

    def attend(self, block, x, memory):
        y = F.rms_norm(x, x.shape[-1:], block.norm_attention, self.eps)
        q = split_heads(block.W_q(y), self.kv * self.groups)
        k, v = split_heads(block.W_k(y), self.kv), split_heads(block.W_v(y), self.kv)
        start = memory.length if memory else 0
        places = torch.arange(start, start + x.shape[1], device=x.device)
        q, k = apply_rope(q, places, self.base), apply_rope(k, places, self.base)
        mask = None
        if memory:
            k, v = memory.update(k, v)
            mask = causal_mask(q.shape[2], k.shape[2]).to(x.device)
        k, v = repeat_kv(k, self.groups), repeat_kv(v, self.groups)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return block.W_o(merge_heads(y))


@EXERCISE.style("token by token: a text is read through a cache of its own")
class token_by_token(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.base, self.eps = num_heads, num_kv_heads, base, eps
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, num_heads, num_kv_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        return [[] for _ in self.blocks]

    def forward(self, tokens, cache=None):
        cache = self.new_cache(*tokens.shape) if cache is None else cache
        return torch.cat([self.step(column, cache) for column in tokens.split(1, dim=1)], dim=1)

    def step(self, token, cache):
        x, position = self.embed(token), torch.tensor([len(cache[0])], device=token.device)
        for block, seen in zip(self.blocks, cache, strict=True):
            h = rms_norm(x, block.norm_attention, self.eps)
            q, k = split_heads(block.W_q(h), self.num_heads), split_heads(block.W_k(h), self.num_kv_heads)
            q, k = (apply_rope(part, position, self.base) for part in (q, k))
            seen.append((k, split_heads(block.W_v(h), self.num_kv_heads)))
            k, v = (torch.cat(parts, dim=2) for parts in zip(*seen, strict=True))
            k, v = (repeat_kv(part, self.num_heads // self.num_kv_heads) for part in (k, v))
            weights = (q @ k.mT / k.shape[-1] ** 0.5).softmax(dim=-1)
            x = x + block.W_o(merge_heads(weights @ v))
            h = rms_norm(x, block.norm_ffn, self.eps)
            x = x + swiglu(h, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)
        return rms_norm(x, self.norm, self.eps) @ self.embed.weight.T


@EXERCISE.style("turned as complex numbers by a table in a buffer, maps read by name")
class by_name(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, num_kv_heads, d_ff, base=10000.0, eps=1e-5
    ):
        super().__init__()
        self.sizes = {"W_q": num_heads, "W_k": num_kv_heads, "W_v": num_kv_heads}
        self.eps, d_head = eps, d_model // num_heads
        angles = torch.outer(torch.arange(256), base ** (torch.arange(0, d_head, 2) / -d_head))
        self.register_buffer("turns", torch.exp(1j * angles), persistent=False)
        self.embed = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(num_layers):
            self.blocks.append(LlamaBlock(d_model, num_heads, num_kv_heads, d_ff))
        self.norm = nn.Parameter(torch.ones(d_model))

    def new_cache(self, batch, max_len):
        E, h_kv = self.embed.weight, self.sizes["W_k"]
        d_head = E.shape[1] // self.sizes["W_q"]
        return [KVCache(batch, h_kv, max_len, d_head, E.dtype, E.device) for _ in self.blocks]

    def forward(self, tokens, cache=None):
        caches = [None] * len(self.blocks) if cache is None else cache
        stream = self.embed(tokens)
        for block, memory in zip(self.blocks, caches, strict=True):
            stream = torch.add(stream, self.attention(block, stream, memory))
            normed = rms_norm(stream, block.norm_ffn, self.eps)
            stream = torch.add(
                stream, swiglu(normed, *(W.weight.mT for W in (block.W_g, block.W_u, block.W_d)))
            )
        return torch.matmul(rms_norm(stream, self.norm, self.eps), self.embed.weight.mT)

    def attention(self, block, stream, memory):
        normed, seen = rms_norm(stream, block.norm_attention, self.eps), memory.length if memory else 0
        heads = {W: split_heads(getattr(block, W)(normed), h) for W, h in self.sizes.items()}
        places = seen + torch.arange(stream.shape[1], device=stream.device)
        q, k = (self.turned(heads[W], places) for W in ("W_q", "W_k"))
        k, v = memory.update(k, heads["W_v"]) if memory else (k, heads["W_v"])
        k, v = (repeat_kv(x, q.shape[1] // k.shape[1]) for x in (k, v))
        mask = causal_mask(q.shape[2], k.shape[2]).to(q.device)
        scores = torch.where(mask, q @ k.mT * (q.shape[-1] ** -0.5), float("-inf"))
        return block.W_o(merge_heads(torch.softmax(scores, -1) @ v))

    def turned(self, x, places):
        pairs = torch.complex(*x.float().chunk(2, dim=-1)) * self.turns[places]
        return torch.cat([pairs.real, pairs.imag], dim=-1).type_as(x)
