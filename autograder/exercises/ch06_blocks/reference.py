"""The reference blocks: `tfcore`'s blocks, behind parameters that a student can name."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from autograder.exercises.ch06_blocks.given import MultiHeadAttention
from tfcore.config import AttentionConfig, BlockConfig
from tfcore.layers import block


class TransformerBlock(nn.Module):
    """Attention and a feed-forward network, each added to its input."""

    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.config = BlockConfig(AttentionConfig(d_model, num_heads), d_ff, norm_place=norm)

    def forward(self, x, mask=None):
        return functional_call(block.TransformerBlock(self.config), in_tfcore(self), (x, mask))


class DecoderBlock(nn.Module):
    """A block with attention to a memory in between; every norm is before its sublayer."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.config = BlockConfig(AttentionConfig(d_model, num_heads), d_ff)

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        given = (x, memory, self_mask, memory_mask)
        return functional_call(block.DecoderBlock(self.config), in_tfcore(self), given)


def in_tfcore(module: nn.Module) -> dict[str, Tensor]:
    """Return the module's parameters under the names of `tfcore`, which has W_q, W_k and W_v in one."""
    own: dict[str, Tensor] = dict(module.named_parameters())
    named = {
        name.replace("ffn.0", "ffn.W_up").replace("ffn.2", "ffn.W_down"): value for name, value in own.items()
    }
    for name in own:
        if "W_q" in name:
            parts = [named.pop(name.replace("W_q", part)) for part in ("W_q", "W_k", "W_v")]
            named[name.replace("W_q", "W_qkv")] = torch.cat(parts)
    return named
