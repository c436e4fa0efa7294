"""The code that the notebook gives: the block of chapter 6, with weights to read and heads to silence."""

import torch
from torch import nn


class Block(nn.Module):
    """Pre-norm attention and feed-forward network; True in the mask means may attend.

    forward(x, mask=None): x (B, T, d_model), a mask that broadcasts to (B, num_heads, T, T).
    weights: the attention of the last call, (B, num_heads, T, T).
    silenced: the numbers of the heads whose output is zero, a set; empty at first.
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.num_heads = num_heads
        self.norm_attention = nn.LayerNorm(d_model)
        self.W_qkv = nn.Linear(d_model, 3 * d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.silenced = set()

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_attention(x), mask)
        return x + self.ffn(self.norm_ffn(x))

    def attention(self, x, mask):
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.W_qkv(x).chunk(3, -1)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        self.weights = weights.detach()
        y = weights @ v
        if self.silenced:
            heard = [head not in self.silenced for head in range(self.num_heads)]
            y = y * torch.tensor(heard, device=x.device).view(-1, 1, 1)
        return self.W_o(y.transpose(1, 2).flatten(-2))
