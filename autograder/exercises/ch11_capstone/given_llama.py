"""The code that the notebook gives: the parameters of a block of Llama, under names of their own."""

import torch
from torch import nn


class LlamaBlock(nn.Module):
    """The parameters of one block. It has no forward: TinyLlama computes with them.

    norm_attention, norm_ffn: the weights of two norms, (d_model,).
    W_q, W_k, W_v, W_o: linear layers without bias. Keys and values are num_kv_heads heads wide.
    W_g, W_u, W_d: the gate, up and down layers of the feed-forward network, linear, without bias.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, d_ff):
        super().__init__()
        d_kv = d_model // num_heads * num_kv_heads
        self.norm_attention = nn.Parameter(torch.ones(d_model))
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_kv, bias=False)
        self.W_v = nn.Linear(d_model, d_kv, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)
        self.norm_ffn = nn.Parameter(torch.ones(d_model))
        self.W_g = nn.Linear(d_model, d_ff, bias=False)
        self.W_u = nn.Linear(d_model, d_ff, bias=False)
        self.W_d = nn.Linear(d_ff, d_model, bias=False)
