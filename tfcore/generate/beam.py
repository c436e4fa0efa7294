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

    Each step ranks all continuations by one token. Among the first ``beams``, texts that end are kept with
    their score; among the first 2 x ``beams``, the likeliest ``beams`` that do not end go on. The search is
    over after ``max_new_tokens``, or when no open text can beat the worst text that is kept. (Transformers
    has this as ``early_stopping="never"``.) With as many beams as there are texts it finds the best of all.

    Args:
        model: as in :func:`tfcore.generate.generate`.
        prompt: token ids, (B, T).
        beams: texts to keep for each prompt.
        max_new_tokens: tokens to append at most.
        length_penalty: $\alpha$; 0 compares the probabilities of whole texts, 1 their means per token, which
            favours longer texts.
        eos: the token that ends a text; None for texts that are all of one length.
        pad: the token written after ``eos``; ``eos`` itself when None.
        padding: True at real tokens of the prompt, (B, T).

    Returns:
        The best texts of each prompt, best first, (B, beams, T + max_new_tokens), and scores (B, beams).
        If there are fewer texts than beams, the rest is left out or has score $-\infty$.

    Raises:
        ValueError: arguments that do not fit.

    From: Graves (2012), *Sequence Transduction with Recurrent Neural Networks*; Wu et al. (2016), *Google's
    Neural Machine Translation System*, section 7, which divides by a power of the length.

    >>> after = torch.tensor([[0.0, 0.6, 0.4], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])  # greedy: 0, 1, 1
    >>> texts, scores = beam_search(lambda tokens: after[tokens].log(), torch.tensor([[0]]), 2, 2)
    >>> print(texts[0, 0], (2 * scores[0, 0]).exp())
    tensor([0, 2, 2]) tensor(0.4000)
    """
    if beams < 1 or max_new_tokens < 1 or not float(beams).is_integer():
        raise ValueError(
            f"expected a whole number of beams and of new tokens from 1 on, got {beams} and "
            f"{max_new_tokens}; ask for some"
        )
    end = eos if pad is None else pad
    texts = make_room(prompt, max_new_tokens, 0 if end is None else end, padding)
    with torch.inference_mode():
        read = Reader(model, len(texts), texts.shape[1], padding=padding)
        best, score = _search(read, texts, prompt.shape[1], beams, length_penalty, eos)
    return best.clone(), score.clone()  # usable in training, which tensors of inference mode are not


def _search(
    read: Reader, texts: Tensor, prompt_len: int, beams: int, length_penalty: float, eos: int | None
) -> tuple[Tensor, Tensor]:
    """Search from prompts (B, T_total) with room behind them; return the best texts and their scores."""
    batch, total_len = texts.shape
    total = torch.zeros(batch, 1, device=texts.device)  # log-probability of the texts that go on
    best, best_score = texts.new_empty(batch, 0, total_len), total[:, :0]
    for t in range(prompt_len, total_len):
        likeliest, rows, token = _likeliest_ways(total, read(texts[:, :t])[:, 0], 2 * beams)
        longer = texts[rows]  # (B, 2 beams, T_total)
        longer[:, :, t] = token
        ends = torch.full_like(token, t == total_len - 1, dtype=torch.bool)
        if eos is not None:
            ends |= token == eos

        length = t + 1 - prompt_len
        score = (likeliest / length**length_penalty).masked_fill(~ends, -math.inf)
        best_score, chosen = _top(torch.cat([best_score, score[:, :beams]], dim=1), beams)
        best = torch.cat([best, longer[:, :beams]], dim=1).take_along_dim(chosen.unsqueeze(-1), dim=1)

        total, chosen = _top(likeliest.masked_fill(ends, -math.inf), beams)
        # Totals only fall: a text can at best keep its own until the kindest length.
        kindest = total_len - prompt_len if length_penalty > 0 else length
        hope = total[:, 0] / kindest**length_penalty
        if best.shape[1] == beams and bool((hope <= best_score[:, -1]).all()):
            break
        texts = longer.take_along_dim(chosen.unsqueeze(-1), dim=1).flatten(0, 1)
        read.reorder(rows.take_along_dim(chosen, dim=1).flatten())
    return best, best_score


def _likeliest_ways(total: Tensor, logits: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rank all ways to go on by one token.

    Args:
        total: log-probabilities of each prompt's texts, (B, texts).
        logits: logits of the next token of each text, (B texts, V).
        k: ways to keep for each prompt.

    Returns:
        Their log-probabilities, the rows of the texts that they go on from, and their tokens, each (B, k).
    """
    step = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    ways = (total.unsqueeze(-1) + step.unflatten(0, total.shape)).flatten(1)  # (B, texts V)
    likeliest, way = _top(ways, k)
    first_row = torch.arange(len(total), device=total.device).unsqueeze(1) * total.shape[1]
    return likeliest, first_row + way // step.shape[-1], way % step.shape[-1]


def _top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Take the k largest of each row, largest first, or all if there are fewer."""
    values, index = x.topk(min(k, x.shape[1]))
    return values, index
