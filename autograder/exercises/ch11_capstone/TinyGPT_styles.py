"""Right answers to `TinyGPT`, each in a style of its own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch11_capstone.given import Block
from autograder.exercises.ch11_capstone.TinyGPT import EXERCISE


@EXERCISE.style("learned positions, a mask for each length")
class as_asked(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("sines and cosines for positions")
class sines(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        angle = torch.arange(max_len)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
        waves = torch.zeros(max_len, d_model)
        waves[:, 0::2], waves[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("waves", 0.02 * waves)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.waves[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("one mask kept as a buffer, positions by their numbers, a tied linear head")
class tied_linear_head(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(max_len, max_len).tril().bool())
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position(torch.arange(T, device=tokens.device))
        for block in self.blocks:
            x = block(x, self.mask[:T, :T])
        return self.head(self.norm(x))


@EXERCISE.style("F.linear for the head, a mask that compares places")
class head_by_linear(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        places = torch.arange(T, device=tokens.device)
        mask = places[:, None] >= places
        for block in self.blocks:
            x = block(x, mask)
        return F.linear(self.norm(x), self.embedding.weight)


@EXERCISE.style("the embedding scaled by the root of the width, as in the first Transformer")
class scaled_embedding(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.05)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("everything written out: fused attention, heads, a SiLU network")
class written_out(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.E = nn.Parameter(0.02 * torch.randn(vocab_size, d_model))
        self.P = nn.Parameter(0.02 * torch.randn(max_len, d_model))
        self.qkv = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(num_layers))
        self.out = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(num_layers))
        self.up = nn.ModuleList(nn.Linear(d_model, 4 * d_model) for _ in range(num_layers))
        self.down = nn.ModuleList(nn.Linear(4 * d_model, d_model) for _ in range(num_layers))

    def forward(self, tokens):
        B, T = tokens.shape
        x = self.E[tokens] + self.P[:T]
        for qkv, out, up, down in zip(self.qkv, self.out, self.up, self.down, strict=True):
            y = F.layer_norm(x, x.shape[-1:])
            q, k, v = qkv(y).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(y.transpose(1, 2).reshape(B, T, -1))
            x = x + down(F.silu(up(F.layer_norm(x, x.shape[-1:]))))
        return F.layer_norm(x, x.shape[-1:]) @ self.E.T


@EXERCISE.style("rotary positions: queries and keys are turned, nothing is added")
class turned(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.LayerNorm(d_model),
                    "qkv": nn.Linear(d_model, 3 * d_model),
                    "out": nn.Linear(d_model, d_model),
                    "ffn": nn.Sequential(
                        nn.LayerNorm(d_model),
                        nn.Linear(d_model, 4 * d_model),
                        nn.GELU(),
                        nn.Linear(4 * d_model, d_model),
                    ),
                }
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        pairs = torch.arange(0, d_model // num_heads, 2) / (d_model // num_heads)
        angle = torch.arange(max_len)[:, None] / 10_000**pairs
        self.register_buffer("turns", torch.polar(torch.ones_like(angle), angle))

    def forward(self, tokens):
        B, T = tokens.shape
        x = self.embedding(tokens)
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["first"](x)).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            q, k = (
                torch.view_as_real(
                    torch.view_as_complex(y.unflatten(-1, (-1, 2)).contiguous()) * self.turns[:T]
                ).flatten(-2)
                for y in (q, k)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](y.transpose(1, 2).reshape(B, T, -1))
            x = x + layer["ffn"](x)
        return self.norm(x) @ self.embedding.weight.T
