"""Right answers to `TransformerBlock`, each in a style of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch06_blocks.given import MultiHeadAttention
from autograder.exercises.ch06_blocks.TransformerBlock import EXERCISE


@EXERCISE.style("both forms written out")
class two_branches(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = x + self.attention(self.norm_attention(x), mask=mask)
            return x + self.ffn(self.norm_ffn(x))
        x = self.norm_attention(x + self.attention(x, mask=mask))
        return self.norm_ffn(x + self.ffn(x))


@EXERCISE.style("a method that adds any sublayer")
class a_method_that_adds(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def add(self, x, sublayer, norm):
        if self.norm == "pre":
            return x + sublayer(norm(x))
        return norm(x + sublayer(x))

    def forward(self, x, mask=None):
        x = self.add(x, lambda h: self.attention(h, mask=mask), self.norm_attention)
        return self.add(x, self.ffn, self.norm_ffn)


@EXERCISE.style("with residuals kept aside, as GPT-2's code has it")
class as_in_gpt_2(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        pre = self.norm == "pre"
        residual = x
        hidden = self.norm_attention(x) if pre else x
        hidden = residual + self.attention(hidden, mask=mask)
        hidden = hidden if pre else self.norm_attention(hidden)
        residual = hidden
        hidden = self.norm_ffn(hidden) if pre else hidden
        hidden = residual + self.ffn(hidden)
        return hidden if pre else self.norm_ffn(hidden)


@EXERCISE.style("one expression for each form")
class one_expression(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "post":
            h = self.norm_attention(self.attention(x, x, mask) + x)
            return self.norm_ffn(self.ffn(h) + h)
        return (h := x + self.attention(self.norm_attention(x), None, mask)) + self.ffn(self.norm_ffn(h))


@EXERCISE.style("norms before and after, of which one does nothing")
class norms_before_and_after(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.before = norm == "pre"
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.norm_ffn = nn.LayerNorm(d_model)
        self.norm_attention = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(num_heads=num_heads, d_model=d_model)

    def forward(self, x, mask=None):
        for norm, sublayer in ((self.norm_attention, self.attend), (self.norm_ffn, self.ffn)):
            nothing = nn.Identity()
            before, after = (norm, nothing) if self.before else (nothing, norm)
            x = after(x + sublayer(before(x), *([mask] if norm is self.norm_attention else [])))
        return x

    def attend(self, h, mask):
        return self.attention(h, mask=mask)


@EXERCISE.style("the ffn applied layer by layer, sums by torch.add")
class layer_by_layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def feed(self, h):
        return self.ffn[2](F.gelu(self.ffn[0](h)))

    def forward(self, x, mask=None):
        if self.norm == "pre":
            x = torch.add(x, self.attention(self.norm_attention(x), mask=mask))
            return torch.add(x, self.feed(self.norm_ffn(x)))
        x = self.norm_attention(torch.add(x, self.attention(x, mask=mask)))
        return self.norm_ffn(torch.add(x, self.feed(x)))
