"""The code that the notebook gives: the attention of chapter 4, as short as possible."""

import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attend with several heads side by side; True in the mask means may attend.

    forward(x, memory=None, mask=None): queries from x (B, T_q, d_model), keys and values from memory
    (B, T_k, d_model), or from x itself; a mask that broadcasts to (B, num_heads, T_q, T_k).
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = self.heads(self.W_q(x)), self.heads(self.W_k(memory)), self.heads(self.W_v(memory))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(y.transpose(1, 2).flatten(-2))
