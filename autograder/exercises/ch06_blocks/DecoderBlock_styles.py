"""Right answers to `DecoderBlock`, each in a style of its own."""

from __future__ import annotations

import torch
from torch import nn

from autograder.exercises.ch06_blocks.DecoderBlock import EXERCISE
from autograder.exercises.ch06_blocks.given import MultiHeadAttention


@EXERCISE.style("one line for each sublayer")
class three_lines(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = x + self.attention(self.norm_attention(x), mask=self_mask)
        x = x + self.cross_attention(self.norm_cross(x), memory, memory_mask)
        return x + self.ffn(self.norm_ffn(x))


@EXERCISE.style("a method that adds any sublayer")
class a_method_that_adds(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def add(self, x, norm, sublayer):
        return x + sublayer(norm(x))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.add(x, self.norm_attention, lambda h: self.attention(h, mask=self_mask))
        x = self.add(x, self.norm_cross, lambda h: self.cross_attention(h, memory, memory_mask))
        return self.add(x, self.norm_ffn, self.ffn)


@EXERCISE.style("a name for every step")
class named_steps(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        normed = self.norm_attention(x)
        after_self = x + self.attention(normed, memory=normed, mask=self_mask)
        asked = self.cross_attention(self.norm_cross(after_self), memory=memory, mask=memory_mask)
        after_cross = after_self + asked
        inner = self.ffn[1](self.ffn[0](self.norm_ffn(after_cross)))
        return after_cross + self.ffn[2](inner)


@EXERCISE.style("all outputs are collected, and added at the end")
class what_is_added_is_collected(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        added = [self.attention(self.norm_attention(x), None, self_mask)]
        added += [self.cross_attention(self.norm_cross(x + added[0]), memory, memory_mask)]
        added += [self.ffn(self.norm_ffn(x + added[0] + added[1]))]
        return x + torch.stack(added).sum(dim=0)


@EXERCISE.style("with residuals kept aside")
class residuals_kept_aside(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        residual = x
        x = self.attention(self.norm_attention(x), mask=self_mask)
        x = residual + x
        residual = x
        x = self.cross_attention(self.norm_cross(x), memory=memory, mask=memory_mask)
        x = residual + x
        residual = x
        x = self.ffn(self.norm_ffn(x))
        return residual + x
