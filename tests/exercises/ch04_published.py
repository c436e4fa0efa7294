"""Attention layers that libraries have published, in the form of the exercise of chapter 4."""

from importlib import import_module
from types import SimpleNamespace

import torch
from torch import nn

PROJECTIONS = ("W_q", "W_k", "W_v", "W_o")


def without_empty_rows(heads, mask):
    """What the heads found, (B, T, h, d_head), with zeros where a query may attend to nothing."""
    return heads if mask is None else heads * mask.any(dim=-1).transpose(1, 2)[..., None]


class Published(nn.Module):
    """Four projections by the names of the course, and somebody else's attention between them."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("the heads do not divide d_model")
        self.num_heads = num_heads
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))
        self.layer = [self.published(d_model)]  # in a list, so that no parameter counts twice

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        if mask is not None:
            mask = mask.expand(x.shape[0], self.num_heads, x.shape[1], memory.shape[1])
        return self.attend(self.layer[0], x, memory, mask)

    def published(self, d_model):
        return None

    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)


class Bert(Published):
    """BERT's cross-attention, which reads x itself where there is no memory."""

    def published(self, d_model):
        bert = import_module("transformers.models.bert.modeling_bert")
        config = bert.BertConfig(
            hidden_size=d_model, num_attention_heads=self.num_heads, attention_probs_dropout_prob=0.0
        )
        config._attn_implementation = "sdpa"
        layer = bert.BertCrossAttention(config)
        layer.query, layer.key, layer.value = self.W_q, self.W_k, self.W_v
        return layer

    def attend(self, layer, x, memory, mask):
        return self.W_o(layer(x, memory, mask)[0])


class GPT2(Published):
    """GPT-2's cross-attention, whose keys and values come from one projection."""

    def published(self, d_model):
        gpt2 = import_module("transformers.models.gpt2.modeling_gpt2")
        config = gpt2.GPT2Config(n_embd=d_model, n_head=self.num_heads, attn_pdrop=0.0, resid_pdrop=0.0)
        config._attn_implementation = "sdpa"
        layer = gpt2.GPT2Attention(config, is_cross_attention=True)
        layer.q_attn, layer.c_proj = self.W_q, self.W_o
        del layer.c_attn
        layer.c_attn = lambda memory: torch.cat([self.W_k(memory), self.W_v(memory)], dim=-1)
        return layer

    def attend(self, layer, x, memory, mask):
        return layer(x, encoder_hidden_states=memory, encoder_attention_mask=mask)[0]


class Llama(Published):
    """Llama's attention without its rotation: the mask added, softmax in float32, cast back."""

    def attend(self, layer, x, memory, mask):
        llama = import_module("transformers.models.llama.modeling_llama")
        added = None if mask is None else torch.where(mask, 0.0, -1e9).to(x.dtype)
        heads, _ = llama.eager_attention_forward(
            SimpleNamespace(num_key_value_groups=1, training=self.training),
            *(self.split(t) for t in (self.W_q(x), self.W_k(memory), self.W_v(memory))),
            added,
            scaling=(x.shape[-1] // self.num_heads) ** -0.5,
        )
        return self.W_o(without_empty_rows(heads, mask).flatten(2))


class XTransformers(Published):
    """The attention of x-transformers."""

    def published(self, d_model):
        attention = import_module("x_transformers.x_transformers").Attention
        layer = attention(d_model, dim_head=d_model // self.num_heads, heads=self.num_heads)
        layer.to_q, layer.to_k, layer.to_v, layer.to_out = self.W_q, self.W_k, self.W_v, nn.Identity()
        return layer

    def attend(self, layer, x, memory, mask):
        opened = None if mask is None else mask | ~mask.any(dim=-1, keepdim=True)
        heads = layer(x, context=memory, attn_mask=opened).unflatten(-1, (self.num_heads, -1))
        return self.W_o(without_empty_rows(heads, mask).flatten(2))
