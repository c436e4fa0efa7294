"""Generation token by token: the loop that every language model is used through."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tfcore.generate.reader import Model, Reader, make_room
from tfcore.generate.sampling import choose_token


def generate(
    model: Model,
    prompt: Int[Tensor, "B T"],
    max_new_tokens: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    context_len: int | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    eos: int | None = None,
    pad: int | None = None,
    padding: Bool[Tensor, "B T"] | None = None,
    *,
    cache: Any = None,
    chunk: int | None = None,
) -> Int[Tensor, "B T_total"]:
    r"""Go on with a text: choose a token, append it, read it, and so on.

    $x_{t+1} = \arg\max_v z_{t,v}$ at temperature 0, else $x_{t+1} \sim \text{softmax}(z_t / \tau)$.

    A model with ``new_cache`` reads the prompt once and then one token per step; the last token is not read.
    Dropout draws here too unless ``model.eval()`` was called.

    Args:
        model: maps token ids (B, T) to logits (B, T, V); see :class:`tfcore.generate.reader.Reader`.
        prompt: token ids, (B, T).
        max_new_tokens: n, tokens to append.
        temperature: $\tau$; 0 takes the likeliest token, whatever ``top_k`` and ``top_p``.
        generator: source of the draws, one multinomial over (B, V) per step.
        context_len: tokens that the model can see; a longer text is cut to its last ones, read again at each
            step.
        top_k: draw from the k likeliest alone.
        top_p: draw from the likeliest that make up this probability.
        eos: the token that ends a text; None for texts that go on.
        pad: the token written after ``eos``; ``eos`` itself when None.
        padding: True at real tokens of the prompt, (B, T). Prompts of several lengths are padded on the left.
        cache: a cache of the model that may have seen the beginning of this very prompt, which is not
            checked; a new one when None.
        chunk: tokens of the prompt to read at a time, for less memory; the whole when None.

    Returns:
        Prompt and continuation, (B, T + n).

    Raises:
        ValueError: arguments that do not fit.

    From: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    >>> def successor(tokens):
    ...     return torch.nn.functional.one_hot((tokens + 1) % 7, 7).float()
    >>> print(generate(successor, torch.tensor([[1, 2]]), max_new_tokens=3))
    tensor([[1, 2, 3, 4, 5]])
    """
    prompt_len = prompt.shape[-1]
    end = eos if pad is None else pad
    tokens = make_room(prompt, max_new_tokens, 0 if end is None else end, padding)
    with torch.inference_mode():
        options = {"padding": padding, "context_len": context_len, "chunk": chunk, "cache": cache}
        read = Reader(model, len(prompt), tokens.shape[1], **options)
        if eos is None and tokens.shape[1] > prompt_len:  # else it may end before
            read.reserve(tokens.shape[1] - 1)
        going = torch.ones_like(tokens[:, 0], dtype=torch.bool)
        for t in range(prompt_len, tokens.shape[1]):
            chosen = choose_token(read(tokens[:, :t])[:, 0], temperature, generator, top_k, top_p)
            tokens[:, t] = torch.where(going, chosen, tokens[:, t])
            if eos is not None:
                going &= chosen != eos
                if not going.any():
                    break
    return tokens
