"""Mistakes that people make in `MultiHeadAttention`, each with the sentence for its author."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch04_multi_head.MultiHeadAttention import EXERCISE


@EXERCISE.misconception(
    "You do not scale the scores. They spread like sqrt(d_head), so softmax picks one key: divide by the "
    "root of a head's width.",
    gravity="slip",
)
class scale_missing(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You divide by the root of d_model. A head's dot product has only d_head = d_model / num_heads terms: "
    "divide by sqrt(q.shape[-1]), with q already split.",
    gravity="slip",
)
class scale_by_d_model(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your scores are divided by d_head itself, or twice by its root, which makes all keys nearly alike. "
    "Divide once by sqrt(d_head); F.scaled_dot_product_attention does it for you.",
    gravity="slip",
)
class d_head_not_its_root(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / q.shape[-1]
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You divide by the root of the number of keys. Divide by sqrt(d_head), the last axis of q: the scale "
    "has nothing to do with the length of the sequence.",
    gravity="slip",
)
class root_of_T(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(k.shape[-2])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your heads mix tokens, as a view straight to (B, h, T, d_head) does, also where the shapes fit. Cut "
    "the channels first, (B, T, h, d_head), then exchange axes 1 and 2."
)
class view_without_transpose(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        B, T, d = x.shape
        q = self.W_q(x).reshape(B, self.num_heads, T, -1)
        k = self.W_k(memory).reshape(B, self.num_heads, memory.shape[1], -1)
        v = self.W_v(memory).reshape(B, self.num_heads, memory.shape[1], -1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.reshape(B, T, d))


@EXERCISE.misconception(
    "You split the heads rightly and put them together wrongly: (B, h, T, d_head) reshaped to (B, T, d) "
    "mixes tokens with heads. Exchange axes 1 and 2 first."
)
class merged_without_transpose(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.reshape(x.shape))


@EXERCISE.misconception(
    "Your head 0 takes every h-th channel, as a cut into (d_head, h) gives. Make each head a block of "
    "neighbours, in q, k and v and in what W_o gets: cut into (h, d_head).",
    gravity="slip",
)
class heads_interleaved(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        k = self.W_k(memory).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        v = self.W_v(memory).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.permute(0, 2, 3, 1).flatten(2))


@EXERCISE.misconception(
    "One head of the full width does all the work, and num_heads changes nothing. Cut q, k and v into heads "
    "before the scores.",
    gravity="useless",
)
class one_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unsqueeze(1)
        k = self.W_k(memory).unsqueeze(1)
        v = self.W_v(memory).unsqueeze(1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Each token's heads attend to each other, and no token sees another: the heads stand behind the tokens. "
    "Bring the heads to axis 1 before q @ k.mT.",
    gravity="useless",
)
class attends_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1))
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1))
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).flatten(2))


@EXERCISE.misconception(
    "You leave out W_o, so the heads never meet. End with self.W_o(...), which mixes what they found."
)
class no_W_o(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return heads.transpose(1, 2).flatten(2)


@EXERCISE.misconception(
    "You use the tokens themselves as values. Project what a token gives, too: self.W_v(memory)."
)
class values_not_projected(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = memory.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You make the keys with W_q, so that each token looks for what it is, and W_k is never used. Use "
    "self.W_k(memory)."
)
class key_is_query(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You average the keys, and W_v is never used. Average the values, self.W_v(memory); the keys only "
    "decide how much of each."
)
class keys_for_values(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from W_v and your values from W_k. The two have one shape, so nothing fails: exchange "
    "the names.",
    gravity="slip",
)
class keys_and_values_swapped(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You add x to the result. Return what W_o gives; the residual connection belongs to the block around "
    "the layer (chapter 6).",
    gravity="slip",
)
class residual_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You return the weights as well. Return one tensor, the output (B, T_q, d_model).",
    gravity="slip",
)
class output_and_weights(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2)), weights


@EXERCISE.misconception(
    "`memory` has no effect: keys and values always come from x. Where a memory is passed, make them from it."
)
class memory_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You make the queries from the memory too, so that x has no effect. Make the queries from x, keys and "
    "values from the memory."
)
class all_from_memory(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        x = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your queries come from the memory, keys and values from x. Exchange them: x asks, and there is one "
    "output for each token of x.",
    gravity="slip",
)
class x_and_memory_swapped(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from x and your values from the memory. Make both from the memory: a key and its value "
    "belong to the same token."
)
class keys_from_x(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from the memory and your values from x. Make both from the memory: a key and its value "
    "belong to the same token."
)
class values_from_x(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`memory or x` asks a whole tensor for one truth value, which torch refuses. Write: x if memory is None "
    "else memory.",
    gravity="slip",
)
class asks_if_memory(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = memory or x
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The mask has no effect. Fill the scores with -inf where it is False, before softmax.",
    gravity="useless",
)
class mask_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your queries attend where the mask is False. True means *may* attend: fill the scores where it is "
    "False, masked_fill(~mask, ...).",
    gravity="useless",
)
class mask_inverted(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * ~mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You mask after softmax, when the forbidden keys have already taken their share and the rest sums to "
    "less than 1. Fill the scores before softmax."
)
class mask_after_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You mask after softmax and divide again. On paper that is right, but where a forbidden key scores far "
    "above the others they underflow to zero. Fill the scores before softmax."
)
class renormalised_after_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You set forbidden scores to 0. exp(0) is 1, so they still get a share: fill with -inf, whose "
    "exponential is 0.",
    gravity="useless",
)
class filled_with_zero(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, 0.0)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Forbidden keys win where the allowed scores are below -10,000, which is what you fill in. Fill with "
    "-inf or -1e9."
)
class fill_of_minus_10_000(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -10_000.0)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask.any(dim=-1, keepdim=True)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a little. "
    "Fill with -inf where it is False.",
    gravity="useless",
)
class mask_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`if mask:` asks a whole tensor for one truth value, which torch refuses. Ask whether there is a mask: "
    "`if mask is not None:`.",
    gravity="slip",
)
class asks_if_mask(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A mask that indexes the scores, as in scores[~mask], needs their full shape (B, h, T_q, T_k); one for "
    "all heads or all sequences has fewer axes. Use masked_fill or torch.where, which broadcast.",
    gravity="slip",
)
class mask_as_index(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores[~mask] = -1e9
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Every mask gets one more axis, as by unsqueeze(1), which shifts the axes of a mask that has its own "
    "for the heads. Use the mask as it comes: it broadcasts to (B, h, T_q, T_k).",
    gravity="slip",
)
class head_axis_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            mask = mask.unsqueeze(1)
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the mask of head 0 for all heads. A mask (B, h, T_q, T_k) has one for each: let it broadcast "
    "as it is."
)
class first_head_s_mask(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None and mask.ndim == 4:
            mask = mask[:, :1]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the mask of sequence 0 for the whole batch. Each sequence has padding of its own: let (B, 1, "
    "T_q, T_k) broadcast as it is."
)
class first_mask_for_all(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None and mask.ndim == 4:
            mask = mask[0]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The last two axes of the mask are exchanged, so that it forbids queries instead of keys. Use it as it "
    "comes: its axes are those of the scores, (T_q, T_k)."
)
class mask_turned(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None:
            mask = mask.mT
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A row of -inf alone gives NaN in softmax, and W_o spreads it over the token. Where a query may attend "
    "to nothing, set its weights to zero."
)
class nan_rows(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A query that may attend to nothing sees everything: a row that is filled with -1e9 throughout becomes "
    "uniform. Set its weights to zero after softmax."
)
class uniform_rows(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You set the output of an empty row to zero, after W_o. Set the zeros in front of W_o, whose bias is "
    "added to every token."
)
class zero_after_W_o(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        output = self.W_o(heads.transpose(1, 2).flatten(2))
        if mask is None:
            return output
        seen = mask.expand(*q.shape[:3], k.shape[2]).any(dim=-1).any(dim=1)
        return output * seen.unsqueeze(-1)


@EXERCISE.misconception(
    "You change the caller's own mask: its empty rows are open afterwards, as after `mask |= ...`. Write "
    "`mask = mask | empty`, which makes a new mask."
)
class empty_rows_opened_in_place(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            empty = ~mask.any(dim=-1, keepdim=True)
            mask |= empty
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * ~empty
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You multiply q by k as it is. A score is the dot product of a query and a key: transpose the keys in "
    "their last two axes, q @ k.transpose(-2, -1)."
)
class keys_not_transposed(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You normalise over the queries. Each query spreads one unit over the keys, the last axis of the "
    "scores: write dim=-1.",
    gravity="useless",
)
class softmax_over_queries(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-2)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The heads share one unit, not the keys: you normalise over axis 1 of four, which F.softmax takes "
    "without `dim`. Write dim=-1.",
    gravity="useless",
)
class softmax_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "exp overflows for scores beyond 88 in float32, 709 in float64. Use torch.softmax, or subtract each "
    "row's maximum first: the weights stay the same."
)
class no_maximum(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.exp(scores)
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You do not check that the heads divide d_model. Raise a ValueError in __init__, where the mistake is "
    "made, before the first batch comes."
)
class no_error(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`."
)
class asserted(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        assert d_model % num_heads == 0, "the heads do not divide d_model"
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The projections have biases even with bias=False. Pass the argument on: nn.Linear(d_model, d_model, "
    "bias=bias)."
)
class bias_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "One matrix for q, k and v is how large models store it. Make the four that are asked for by name, W_q, "
    "W_k, W_v and W_o, each an nn.Linear(d_model, d_model)."
)
class one_fused_projection(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        W_q, W_k, W_v = self.W_qkv.weight.chunk(3)
        q = F.linear(x, W_q).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = F.linear(memory, W_k).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = F.linear(memory, W_v).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "No parameter is found: layers in a plain Python list are invisible to nn.Module, and none is trained. "
    "Make each an attribute: self.W_q = nn.Linear(...)."
)
class in_a_list(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.projections = [nn.Linear(d_model, d_model, bias) for _ in range(4)]

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        W_q, W_k, W_v, W_o = self.projections
        q = W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your W_q, W_k and W_v give a single head's width, which all heads would share. Make each d_model wide: "
    "h heads of d_head, side by side."
)
class wide_as_one_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        d_head = d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_head, bias) for _ in range(3))
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = (W.unsqueeze(1) for W in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.squeeze(1).repeat(1, 1, self.num_heads))


@EXERCISE.misconception(
    "You compute the softmax in float32 and go on with it. That is good for precision, but the values have "
    "the dtype of x: cast the weights back with .to(v.dtype)."
)
class float32_inside(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores.float(), dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A tensor is made on the cpu, whatever x is, as torch.zeros does. Pass the device on: torch.zeros(..., "
    "dtype=x.dtype, device=x.device), or x.new_zeros(...)."
)
class made_on_the_cpu(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        merged = torch.zeros(x.shape, dtype=x.dtype)
        for i in range(self.num_heads):
            merged[..., i * q.shape[-1] : (i + 1) * q.shape[-1]] = heads[:, i]
        return self.W_o(merged)


@EXERCISE.misconception(
    "No gradient reaches W_q and W_k: the weights are cut off from the scores, as by `.detach()` or "
    "`.data`, and the heads never learn where to look. Work on the scores themselves."
)
class weights_cut_off(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1).detach()
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The output is right, its gradient is NaN: you add -inf and replace the NaN after softmax, and the way "
    "back leads through it. masked_fill (or torch.where) lets no gradient into filled scores."
)
class nan_gradients(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            allowed = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
            scores = scores + allowed.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the scores as weights. Put them through softmax over the keys, so that the weights of a query "
    "are positive and sum to 1.",
    gravity="useless",
)
class no_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        weights = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Without a mask no token sees a later one: you forbid the future though nobody asked. Where `mask` is "
    "None, leave the scores as they are; the caller passes a causal mask where one is wanted."
)
class causal_unasked(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is None:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril()
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`view` cannot join axes of an x whose numbers do not lie in memory in their order. nn.Linear works on "
    "the last axis and keeps the others, so x needs no view; else use reshape.",
    gravity="slip",
)
class view_of_what_came(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        (B, T_q, d), T_k = x.shape, memory.shape[1]
        q = self.W_q(x.view(B * T_q, d)).view(B, T_q, self.num_heads, -1).transpose(1, 2)
        k = self.W_k(memory.view(B * T_k, d)).view(B, T_k, self.num_heads, -1).transpose(1, 2)
        v = self.W_v(memory.view(B * T_k, d)).view(B, T_k, self.num_heads, -1).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so the mask must have four axes. Let a mask broadcast as it is: "
    "(T_q, T_k) is one for all sequences and heads.",
    gravity="slip",
)
class mask_of_four_sizes(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            _B, _h, _T_q, _T_k = mask.shape
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your layer has no biases unless they are asked for. Write bias=True as the default.", gravity="slip"
)
class no_bias_by_default(nn.Module):
    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception("You make the values with W_q, and W_v is never used. Use self.W_v(memory).")
class value_is_query(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))
