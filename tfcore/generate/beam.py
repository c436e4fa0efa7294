"""Beam search: keep the likeliest few texts, and go on with all of them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.generate.reader import Model, Reader, make_room


def beam_search(
    model: Model,
    prompt: Int[Tensor, "B T"],
    beams: int,
    max_new_tokens: int,
    length_penalty: float = 1.0,
    eos: int | None = None,
    pad: int | None = None,
    padding: Bool[Tensor, "B T"] | None = None,
) -> tuple[Int[Tensor, "B beams T_total"], Float[Tensor, "B beams"]]:
    r"""Search for the continuations of the highest score.

    $\text{score}(y) = \frac{1}{n^{\alpha}} \sum_t \ln p(y_t \mid x, y_{<t})$, where n counts the new tokens,
    the one that ends the text among them.

    Each step ranks all ways to go on by one token. Of the first ``beams``, those that end the text are kept
    by their score; of the first 2 x ``beams``, the likeliest ``beams`` that do not end it go on. The search
    is over after ``max_new_tokens``, or when nothing that goes on can beat the worst text that is kept.
    (Transformers has this as ``early_stopping="never"``.) With as many beams as there are texts it finds the
    best of all.

    Args:
        model: as in :func:`tfcore.generate.generate`.
        prompt: token ids, (B, T).
        beams: texts to keep for each prompt.
        max_new_tokens: tokens to append at most.
        length_penalty: $\alpha$; 0 compares the probabilities of whole texts, 1 their means per token, which
            favours longer texts.
        eos: the token that ends a text; None for texts that are all of one length.
        pad: what follows it; ``eos`` itself when None.
        padding: True at real tokens of the prompt, (B, T).

    Returns:
        The best texts of each prompt, best first, (B, beams, T + max_new_tokens), and scores (B, beams).
        Where there are fewer texts than beams, the rest is left out or has score $-\infty$.

    Raises:
        ValueError: arguments that do not fit.

    From: Graves (2012), *Sequence Transduction with Recurrent Neural Networks*; Wu et al. (2016), *Google's
    Neural Machine Translation System*, section 7, which divides by a power of the length.

    >>> after = torch.tensor([[0.0, 0.6, 0.4], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])  # greedy: 0, 1, 1
    >>> texts, scores = beam_search(lambda tokens: after[tokens].log(), torch.tensor([[0]]), 2, 2)
    >>> print(texts[0, 0], (2 * scores[0, 0]).exp())
    tensor([0, 2, 2]) tensor(0.4000)
    """
    if beams < 1 or max_new_tokens < 1:
        raise ValueError(
            f"expected 1 beam and 1 new token or more, got {beams} and {max_new_tokens}; ask for some"
        )
    end = eos if pad is None else pad
    texts = make_room(prompt, max_new_tokens, 0 if end is None else end, padding)
    batch, prompt_len = prompt.shape
    with torch.inference_mode():
        read = Reader(model, batch, texts.shape[1], padding=padding)
        prompts = torch.arange(batch, device=prompt.device).unsqueeze(1)
        total = torch.zeros(batch, 1, device=prompt.device)  # log-probability of the texts that go on
        best, best_score = texts.new_empty(batch, 0, texts.shape[1]), total[:, :0]
        for length in range(1, max_new_tokens + 1):
            t = prompt_len + length - 1
            logits = read(texts[:, :t])[:, 0]
            step = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
            ways = (total.unsqueeze(-1) + step.unflatten(0, total.shape)).flatten(1)
            likeliest, way = ways.topk(min(2 * beams, ways.shape[1]))
            rows = prompts * total.shape[1] + way // step.shape[-1]
            token = way % step.shape[-1]
            longer = texts[rows]
            longer[:, :, t] = token

            ends = torch.full_like(token, length == max_new_tokens, dtype=torch.bool)
            if eos is not None:
                ends |= token == eos
            score = (likeliest / length**length_penalty).masked_fill(~ends, -math.inf)
            best_score, chosen = _top(torch.cat([best_score, score[:, :beams]], dim=1), beams)
            best = torch.cat([best, longer[:, :beams]], dim=1).take_along_dim(chosen.unsqueeze(-1), dim=1)

            total, chosen = _top(likeliest.masked_fill(ends, -math.inf), beams)
            # Totals only fall: a text can at best keep its own until the kindest length.
            hope = total[:, 0] / (max_new_tokens if length_penalty > 0 else length) ** length_penalty
            if best.shape[1] == beams and bool((hope <= best_score[:, -1]).all()):
                break
            texts = longer.take_along_dim(chosen.unsqueeze(-1), dim=1).flatten(0, 1)
            read.reorder(rows.take_along_dim(chosen, dim=1).flatten())
    return best.clone(), best_score.clone()  # usable in training, which tensors of inference mode are not


def _top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Take the k largest of each row, largest first, or all if there are fewer."""
    values, index = x.topk(min(k, x.shape[1]))
    return values, index
