"""Right answers to `generate_cached`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.generate_cached import EXERCISE


@EXERCISE.style("what to read next: first the prompt, then the new token")
def feed(model, prompt, max_new_tokens):
    cache = model.new_cache(prompt.shape[0], prompt.shape[1] + max_new_tokens)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        logits = model(new, cache)
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.style("a tensor for the whole text, the last new token not read")
def written_into_place(model, prompt, max_new_tokens):
    B, T = prompt.shape
    tokens = torch.empty(B, T + max_new_tokens, dtype=prompt.dtype, device=prompt.device)
    tokens[:, :T] = prompt
    cache = model.new_cache(batch=B, max_len=T + max_new_tokens - 1)
    logits = model(prompt, cache=cache)
    for t in range(T, T + max_new_tokens):
        tokens[:, t] = torch.max(logits[:, -1, :], dim=-1).indices
        if t + 1 < tokens.shape[1]:
            logits = model(tokens[:, t : t + 1], cache=cache)
    return tokens


@EXERCISE.style("a list of columns; the last token is read as well")
@torch.no_grad()
def columns(model, prompt, max_new_tokens):
    model.eval()
    cache = model.new_cache(max_len=prompt.size(1) + max_new_tokens, batch=prompt.size(0))
    scores = model(prompt, cache)
    text = [prompt]
    while len(text) <= max_new_tokens:
        text.append(torch.topk(scores[:, -1], 1, dim=-1)[1])
        scores = model(text[-1], cache)
    return torch.hstack(text)


@EXERCISE.style("whatever the cache has not seen is read next")
def unread(model, prompt, max_new_tokens):
    tokens = prompt.clone()
    total = prompt.shape[1] + max_new_tokens
    cache = model.new_cache(len(prompt), total)
    with torch.inference_mode():
        while tokens.shape[1] < total:
            logits = model(tokens[:, cache.length :], cache)
            probabilities = torch.softmax(logits[:, -1], dim=-1)
            tokens = torch.cat((tokens, probabilities.argmax(-1)[:, None]), dim=-1)
    return tokens


@EXERCISE.style("step by step, as a function that calls itself")
def recursive(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)

    def more(new, left):
        if not left:
            return []
        chosen = model(new, cache)[:, -1].argmax(-1, keepdim=True)
        return [chosen, *more(chosen, left - 1)]

    return torch.cat([prompt, *more(prompt, max_new_tokens)], dim=1)
