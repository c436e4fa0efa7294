"""Right answers to `generate`, each in a style of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from autograder.exercises.ch07_causal_masking.generate import EXERCISE


@EXERCISE.style("choose, append, read again")
def plain(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.style("as in nanoGPT, with the model in evaluation mode and without gradients")
def as_in_nanogpt(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    model.eval()
    idx = prompt.to(next(model.parameters()).device)
    with torch.no_grad():
        for _ in range(max_new_tokens):
            short = context_len is None or idx.size(1) <= context_len
            idx_cond = idx if short else idx[:, -context_len:]
            logits = model(idx_cond)[:, -1, :]
            if temperature > 0:
                probs = F.softmax(logits / temperature, dim=-1)
                idx_next = torch.multinomial(probs, num_samples=1, generator=generator)
            else:
                _, idx_next = torch.topk(logits, k=1, dim=-1)
            idx = torch.cat((idx, idx_next), dim=1)
    return idx


@EXERCISE.style("into a tensor that has room for all, from unnormalised weights in float64")
def room_for_all(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    B, T = prompt.shape
    tokens = torch.zeros(B, T + max_new_tokens, dtype=prompt.dtype, device=prompt.device)
    tokens[:, :T] = prompt
    for t in range(T, T + max_new_tokens):
        start = 0 if context_len is None else max(0, t - context_len)
        logits = model(tokens[:, start:t])[:, -1].double()
        if temperature == 0.0:
            tokens[:, t] = torch.max(logits, dim=-1).indices
        else:
            z = logits / temperature
            weights = torch.exp(z - z.max(dim=-1, keepdim=True).values)
            tokens[:, t] = torch.multinomial(weights, 1, generator=generator).squeeze(1)
    return tokens


@EXERCISE.style("a hair above 0 for 0, and exp of log_softmax")
def a_hair_above_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt.clone()
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -(context_len or tokens.shape[1]) :])[:, -1]
        p = torch.log_softmax(logits / max(temperature, 1e-6), dim=-1).exp()
        tokens = torch.hstack([tokens, torch.multinomial(p, 1, generator=generator)])
    return tokens


@EXERCISE.style("new tokens in a list, joined at the end")
def in_a_list(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    columns = list(prompt.unbind(dim=1))
    for _ in range(max_new_tokens):
        seen = columns if context_len is None else columns[-context_len:]
        logits = model(torch.stack(seen, dim=1))[:, -1, :]
        if not temperature:
            columns.append(logits.argsort(dim=-1, descending=True)[:, 0])
        else:
            p = (logits / temperature).softmax(dim=-1)
            columns.append(torch.multinomial(p, 1, generator=generator)[:, 0])
    return torch.stack(columns, dim=1)
