"""Language models that take nothing from the notebook of chapter 10, for tests that change a part of them."""

import torch
import torch.nn.functional as F
from torch import nn


class Written(nn.Module):
    """A right model that takes nothing from the notebook; tests change a part of it."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.embed = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.query, self.key, self.value, self.out = (
            nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(num_layers))
            for _ in range(4)
        )
        self.up = nn.ModuleList(nn.Linear(d_model, self.wide(d_model)) for _ in range(num_layers))
        self.down = nn.ModuleList(nn.Linear(self.wide(d_model), d_model) for _ in range(num_layers))
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    wide = staticmethod(lambda d_model: 4 * d_model)
    norm = staticmethod(lambda x: F.layer_norm(x, x.shape[-1:]))
    activation = staticmethod(F.relu)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, i, x):
        q, k, v = (self.split(layer[i](x)) for layer in (self.query, self.key, self.value))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, float("-inf"))
        return self.out[i](self.weighed(scores.softmax(dim=-1), k, v).transpose(1, 2).flatten(-2))

    def weighed(self, weights, k, v):
        return weights @ v

    def forward(self, tokens):
        x = self.embed(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for i in range(len(self.up)):
            x = x + self.attend(i, self.norm(x))
            x = x + self.down[i](self.activation(self.up[i](self.norm(x))))
        return F.layer_norm(x, x.shape[-1:]) @ self.embed.weight.T


def written(**parts):
    """The model that takes nothing from the notebook, with other parts."""
    return type("TinyGPT", (Written,), parts)


def fused(last):
    """One matrix for queries, keys and values; `last` says which of them is weighed."""

    class Fused(Written):
        def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
            super().__init__(vocab_size, d_model, num_heads, num_layers, max_len)
            del self.query, self.key, self.value
            self.qkv = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(num_layers))

        def attend(self, i, x):
            qkv = [self.split(part) for part in self.qkv[i](x).chunk(3, dim=-1)]
            y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[last], is_causal=True)
            return self.out[i](y.transpose(1, 2).flatten(-2))

    return Fused


class LikeLlama(nn.Module):
    """Rotary positions, one head of keys and values for all queries, RMS norms, a gate in the network."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads, self.each = num_heads, d_model // num_heads
        self.embed = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embed.weight, std=0.02)
        shapes = {
            "q": (d_model, d_model),
            "kv": (d_model, 2 * self.each),
            "o": (d_model, d_model),
            "gate": (d_model, 4 * d_model),
            "up": (d_model, 4 * d_model),
            "down": (4 * d_model, d_model),
        }
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: nn.Linear(*shape, bias=False) for name, shape in shapes.items()}
                | {name: nn.RMSNorm(d_model) for name in ("norm", "norm_ffn")}
            )
            for _ in range(num_layers)
        )
        self.norm = nn.RMSNorm(d_model)

    def turned(self, x):
        T, n = x.shape[-2], x.shape[-1] // 2
        places, pairs = torch.arange(T, device=x.device), torch.arange(n, device=x.device)
        angle = places[:, None] * 10000.0 ** (-pairs / n)
        one, other = x[..., :n], x[..., n : 2 * n]
        turned = (one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos())
        return torch.cat([*turned, x[..., 2 * n :]], dim=-1)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            y = layer["norm"](x)
            q = layer["q"](y).unflatten(-1, (self.num_heads, self.each)).transpose(1, 2)
            k, v = (z[:, None].expand_as(q) for z in layer["kv"](y).split(self.each, dim=-1))
            y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
            x = x + layer["o"](y.transpose(1, 2).flatten(-2))
            y = layer["norm_ffn"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.norm(x) @ self.embed.weight.T
