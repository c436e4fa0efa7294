"""Mistakes that people make in `generate`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch07_causal_masking.generate import EXERCISE


@EXERCISE.misconception(
    "At temperature 0 a token is drawn, as if the temperature were 1. At 0 take the "
    "argmax: as the temperature falls to 0, the likeliest token gets all the probability."
)
def samples_at_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        p = torch.softmax(model(read)[:, -1] / (temperature or 1.0), dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
    return tokens


@EXERCISE.misconception(
    "At temperature 0 the logits are divided by 0, and softmax of inf and NaN is NaN. Take the argmax there, "
    "without dividing."
)
def divides_by_0(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        p = torch.softmax(model(read)[:, -1] / temperature, dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The likeliest token is taken at every temperature. Above 0, draw the next token: torch.multinomial(p, "
    "1, generator=generator)."
)
def always_greedy(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        read = tokens if context_len is None else tokens[:, -context_len:]
        chosen = model(read)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "You read the logits of the *first* place, which predict the second token. Read the logits of the last "
    "place, which predict the token after the text: logits[:, -1].",
    gravity="useless",
)
def first_position(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, 0]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Every step reads the prompt alone, so the model does not know what was chosen. Append the new token and "
    "read the longer text.",
    gravity="useless",
)
def reads_the_prompt_alone(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(prompt if context_len is None else prompt[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads its last token alone, so it has forgotten the text. Without a cache, let it read the "
    "whole text again at each step.",
    gravity="useless",
)
def reads_the_last_token_alone(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, -1:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Two calls with the same seed of the generator give different tokens, so nobody can repeat a text. "
    "Pass the generator on: torch.multinomial(p, 1, generator=generator)."
)
def global_randomness(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            chosen = torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "Every call draws the same tokens, whatever generator is passed, as with a fixed seed. Draw with the "
    "generator that is passed."
)
def generator_of_its_own(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens, generator = prompt, torch.Generator().manual_seed(0)
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "If no generator is passed, every text is the same, as with a fixed seed. Pass None on: "
    "torch.multinomial(p, 1, generator=None) draws from torch's own source."
)
def seeded_where_none_is_passed(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens, generator = prompt, generator or torch.Generator().manual_seed(0)
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The logits are multiplied by the temperature, so that a high temperature makes the model sure. Divide "
    "by it: a temperature below 1 makes likely tokens likelier."
)
def temperature_multiplied(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits * temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The temperature has no effect, as when *probabilities* are divided by it: multinomial normalises them "
    "again. Divide the logits, before the softmax."
)
def temperature_after_softmax(
    model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None
):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits, dim=-1) / temperature
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "multinomial gets logits, which are not probabilities and can be negative. Take the softmax first."
)
def draws_from_logits(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            chosen = torch.multinomial(logits / temperature, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The softmax runs over the batch. The probabilities of all tokens of *one* sequence sum to 1: dim=-1."
)
def softmax_over_the_batch(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=0)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads more than `context_len` tokens. A model with learned positions has no row for a "
    "longer text: let it read the last ones alone, tokens[:, -context_len:]."
)
def context_not_cut(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The model reads the *first* context_len tokens, so it never reads its newest tokens. Let it read "
    "the last: tokens[:, -context_len:]."
)
def first_tokens_kept(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens[:, :context_len])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The text itself is cut, and its beginning is missing from the result. Cut only what the model reads, "
    "and append to the whole."
)
def text_cut(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        tokens = tokens if context_len is None else tokens[:, -context_len:]
        logits = model(tokens)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "You return the new tokens alone. Return the whole text, the prompt in front: (B, T + n).",
    gravity="slip",
)
def new_tokens_alone(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens[:, prompt.shape[1] :]


@EXERCISE.misconception(
    "You stop when the whole text, with the prompt, has max_new_tokens tokens. Append max_new_tokens tokens: "
    "repeat the step that many times.",
    gravity="slip",
)
def length_of_the_whole(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    while tokens.shape[1] < max_new_tokens:
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


@EXERCISE.misconception(
    "The first sequence's token is appended to all. Choose a token for each sequence: argmax and multinomial "
    "over (B, V)."
)
def first_sequence_for_all(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[0, -1]
        if temperature == 0:
            chosen = logits.argmax().reshape(1)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen.expand(len(tokens), 1)], dim=1)
    return tokens


@EXERCISE.misconception(
    "The caller's prompt is overwritten: tokens[:, -context_len:] is a view of it, so do not write into it. "
    "Cut again from the whole text at each step."
)
def window_moved_in_place(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    window = prompt if context_len is None else prompt[:, -context_len:]
    for _ in range(max_new_tokens):
        logits = model(window)[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
        if window.shape[1] != context_len:
            window = torch.cat([window, chosen], dim=1)
        else:
            window[:, :-1] = window[:, 1:].clone()
            window[:, -1:] = chosen
    return tokens


@EXERCISE.misconception(
    "A choice of the shape (B,) cannot be joined to (B, T). argmax drops the axis it runs over: keep it, "
    "argmax(dim=-1, keepdim=True).",
    gravity="slip",
)
def keepdim_forgotten(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    tokens = prompt
    for _ in range(max_new_tokens):
        logits = model(tokens if context_len is None else tokens[:, -context_len:])[:, -1]
        if temperature == 0:
            chosen = logits.argmax(dim=-1)
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            chosen = torch.multinomial(p, 1, generator=generator)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens
