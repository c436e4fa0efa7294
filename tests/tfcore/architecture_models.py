"""A model that is built from an architecture, by the book and with nothing of tfcore."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfcore.costs import Architecture


class Attention(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.heads, self.kv, self.width = a.num_heads, a.kv_heads, a.head_width
        self.q = nn.Linear(a.d_model, self.heads * self.width, bias=a.bias)
        self.k = nn.Linear(a.d_model, self.kv * self.width, bias=a.bias)
        self.v = nn.Linear(a.d_model, self.kv * self.width, bias=a.bias)
        self.o = nn.Linear(self.heads * self.width, a.d_model, bias=a.bias)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        (B, T, _), S = x.shape, memory.shape[1]
        groups = self.heads // self.kv
        q = self.q(x).view(B, T, self.kv, groups, self.width).permute(0, 2, 3, 1, 4)
        q = q.reshape(B * self.kv, groups * T, self.width)
        k, v = (
            linear(memory).view(B, S, self.kv, self.width).transpose(1, 2).reshape(B * self.kv, S, self.width)
            for linear in (self.k, self.v)
        )
        weights = (q @ k.mT).mul(0.3).softmax(-1)
        out = (weights @ v).view(B, self.kv, groups, T, self.width).permute(0, 3, 1, 2, 4)
        return self.o(out.reshape(B, T, -1))


class FeedForward(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.gate = nn.Linear(a.d_model, a.d_ff, bias=a.bias) if a.gated else None
        self.up = nn.Linear(a.d_model, a.d_ff, bias=a.bias)
        self.down = nn.Linear(a.d_ff, a.d_model, bias=a.bias)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.down(inner)


class Experts(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.router = nn.Linear(a.d_model, a.num_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(a) for _ in range(a.num_experts))
        self.top_k = a.top_k

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        share, chosen = self.router(rows).softmax(-1).topk(self.top_k)
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, row, expert(rows[row]) * share[row, place, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, a: Architecture, cross: bool = False) -> None:
        super().__init__()
        norm = nn.LayerNorm if a.norm == "layer" else nn.RMSNorm
        self.attention = Attention(a)
        self.cross = Attention(a) if cross else None
        self.ffn = Experts(a) if a.num_experts > 1 else FeedForward(a)
        self.norms = nn.ModuleList(norm(a.d_model) for _ in range(3 if cross else 2))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.ffn(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.embedding = nn.Embedding(a.vocab_size, a.d_model)
        self.positions = nn.Embedding(a.max_len, a.d_model) if a.learned_positions else None
        self.encoder = nn.ModuleList(Block(a) for _ in range(a.num_encoder_layers))
        self.blocks = nn.ModuleList(Block(a, a.num_encoder_layers > 0) for _ in range(a.num_layers))
        norm = nn.LayerNorm if a.norm == "layer" else nn.RMSNorm
        self.norms = nn.ModuleList(norm(a.d_model) for _ in range(a.extra_norms))
        self.head = nn.Linear(a.d_model, a.vocab_size, bias=False) if a.head != "none" else None
        if a.head == "tied":
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, source: Tensor | None = None) -> Tensor:
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        memory = None
        if source is not None:
            memory = self.embedding(source)
            for block in self.encoder:
                memory = block(memory)
            memory = self.norms[1](memory)
        for block in self.blocks:
            x = block(x, memory)
        x = self.norms[0](x)
        return x if self.head is None else self.head(x)


GPT = Architecture(3, 20, 5, 52, vocab_size=71, max_len=33, learned_positions=True)
LLAMA = Architecture(
    *(2, 24, 6, 38, 67, 40, 3), bias=False, gated=True, norm="rms", head="own"
)  # no width, length or count occurs twice
TINY = {
    "gpt": GPT,
    "llama": LLAMA,
    "own width of heads": replace(LLAMA, d_head=7, num_heads=4, num_kv_heads=2),
    "one key head": replace(GPT, num_kv_heads=1),
    "gated with biases": replace(GPT, gated=True),
    "bert": replace(GPT, head="none", extra_norms=1),
    "experts": replace(LLAMA, num_experts=5, top_k=2),
    "encoder and decoder": replace(
        LLAMA, num_encoder_layers=3, extra_norms=2, gated=False, head="tied", d_head=5
    ),
}
BATCH, LENGTH, SOURCE = 2, 9, 14


def build(name: str) -> tuple[Model, Architecture, list[Tensor], dict[str, int]]:
    torch.manual_seed(0)
    a = TINY[name]
    lengths = [LENGTH, SOURCE] if a.num_encoder_layers else [LENGTH]
    tokens = [torch.randint(a.vocab_size, (BATCH, length)) for length in lengths]
    return Model(a), a, tokens, {"source_len": SOURCE} if a.num_encoder_layers else {}
