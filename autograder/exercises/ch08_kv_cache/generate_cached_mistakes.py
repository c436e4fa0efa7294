"""Mistakes that people make in `generate_cached`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_kv_cache.generate_cached import EXERCISE


@EXERCISE.misconception(
    "The model reads the whole text at each step, though the cache holds most of it, so those tokens are "
    "read twice. After the prompt, pass the newest token alone."
)
def whole_text_into_the_cache(model, prompt, max_new_tokens):
    tokens = prompt
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    for _ in range(max_new_tokens):
        logits = model(tokens, cache)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The tokens are right, but the model reads the whole text again at each step, without a cache. Make one "
    "with model.new_cache, and pass it in every call."
)
def without_a_cache(model, prompt, max_new_tokens):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@EXERCISE.misconception(
    "You make a new cache in every step, so the model has to read the whole text again. Make one cache "
    "before the loop."
)
def new_cache_each_step(model, prompt, max_new_tokens):
    tokens = prompt
    for _ in range(max_new_tokens):
        cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
        logits = model(tokens, cache)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@EXERCISE.misconception(
    "After the prompt the model is called without its cache, so it sees a single token and nothing of the "
    "text. Pass the cache in every call."
)
def cache_forgotten_in_the_loop(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens = prompt
    logits = model(prompt, cache)
    for step in range(max_new_tokens):
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
        if step < max_new_tokens - 1:
            logits = model(tokens[:, -1:])
    return tokens


@EXERCISE.misconception(
    "The model reads the last token of the prompt twice. Take the first new token from the logits of the "
    "call that reads the prompt."
)
def last_prompt_token_twice(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    model(prompt, cache)
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -1:], cache)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads only the last token of the prompt. Pass the whole prompt in the first call.",
    gravity="useless",
)
def prompt_not_read(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -1:], cache)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@EXERCISE.misconception(
    "Every step reads the last token of the *prompt* again. Pass the token that was just chosen.",
    gravity="useless",
)
def same_token_each_step(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens = prompt
    logits = model(prompt, cache)
    for step in range(max_new_tokens):
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
        if step < max_new_tokens - 1:
            logits = model(prompt[:, -1:], cache)
    return tokens


@EXERCISE.misconception(
    "The model reads the prompt token by token, in one call for each. Read all of it in one call, "
    "model(prompt, cache), and take the next token from the last logits."
)
def prompt_token_by_token(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    for t in range(prompt.shape[1]):
        logits = model(prompt[:, t : t + 1], cache)
    tokens = prompt
    for step in range(max_new_tokens):
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
        if step < max_new_tokens - 1:
            logits = model(tokens[:, -1:], cache)
    return tokens


@EXERCISE.misconception(
    "The text is one token short: the last token that is chosen is never appended. Append each token as soon "
    "as it is chosen.",
    gravity="slip",
)
def last_token_forgotten(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens = prompt
    new = model(prompt, cache)[:, -1].argmax(dim=-1, keepdim=True)
    for _ in range(max_new_tokens - 1):
        tokens = torch.cat([tokens, new], dim=1)
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
    return tokens


@EXERCISE.misconception(
    "You append one token too many. The prompt's logits give the first new token, so choose "
    "max_new_tokens - 1 more after it.",
    gravity="slip",
)
def one_token_too_many(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    new = model(prompt, cache)[:, -1].argmax(dim=-1, keepdim=True)
    tokens = torch.cat([prompt, new], dim=1)
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.misconception(
    "You take the logits of the *first* token that was read. Take the logits of the last: logits[:, -1]."
)
def logits_of_the_first_token(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, 0].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.misconception(
    "You return the new tokens without the prompt. Return the whole text: torch.cat([prompt, new], dim=1).",
    gravity="slip",
)
def prompt_left_out(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    chosen, new = [], prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        chosen.append(new)
    return torch.cat(chosen, dim=1)


@EXERCISE.misconception(
    "Your cache has room for the new tokens alone, but the model reads the prompt into it too. Ask for "
    "prompt.shape[1] + max_new_tokens places.",
    gravity="slip",
)
def no_room_for_the_prompt(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), max_new_tokens)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.misconception(
    "You ask for more room than the text will fill, and a cache reserves its memory in full. Ask for "
    "prompt.shape[1] + max_new_tokens places."
)
def too_much_room(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), 1024)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.misconception(
    "Your cache is made for a single sequence, but the prompts come as a batch. Write "
    "model.new_cache(prompt.shape[0], ...).",
    gravity="slip",
)
def batch_of_one(model, prompt, max_new_tokens):
    cache = model.new_cache(1, prompt.shape[1] + max_new_tokens)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


@EXERCISE.misconception(
    "You write into the caller's prompt, as `prompt[:, -1] = ...` does. Keep the new tokens in a tensor of "
    "their own."
)
def prompt_overwritten(model, prompt, max_new_tokens):
    cache = model.new_cache(len(prompt), prompt.shape[1] + max_new_tokens)
    tokens = prompt.clone()
    logits = model(prompt, cache)
    for step in range(max_new_tokens):
        prompt[:, -1] = logits[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, prompt[:, -1:]], dim=1)
        if step < max_new_tokens - 1:
            logits = model(prompt[:, -1:], cache)
    return tokens


@EXERCISE.misconception(
    "You make a tensor on the cpu, wherever the prompt is. Make it on the device of the prompt, with "
    "device=prompt.device.",
    gravity="slip",
)
def left_on_the_cpu(model, prompt, max_new_tokens):
    B, T = prompt.shape
    tokens = torch.zeros(B, T + max_new_tokens, dtype=torch.long)
    tokens[:, :T] = prompt
    cache = model.new_cache(B, T + max_new_tokens)
    new = prompt
    for t in range(T, T + max_new_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1, keepdim=True)
        tokens[:, t : t + 1] = new
    return tokens


@EXERCISE.misconception(
    "You choose the least likely token. Take the largest logit: logits[:, -1].argmax(dim=-1, keepdim=True).",
)
def least_likely(model, prompt, max_new_tokens):
    cache = model.new_cache(prompt.shape[0], prompt.shape[1] + max_new_tokens)
    tokens, new = prompt, prompt
    for _ in range(max_new_tokens):
        new = model(new, cache)[:, -1].argmin(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens
