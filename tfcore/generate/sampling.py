"""From logits to the next token: which tokens may be drawn, their probabilities, and the draw."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def filter_logits(
    logits: Float[Tensor, "*batch V"], top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "*batch V"]:
    r"""Rule out unlikely tokens: all but the k likeliest, then all beyond the share p of the rest.

    A token stays under p if those before it, likeliest first, sum to less than p: the one that crosses p
    stays, and the likeliest always does.

    Args:
        logits: (..., V).
        top_k: how many tokens stay, exactly; all when None.
        top_p: share of the probability, above 0, at most 1; all when None.

    Returns:
        The logits, with $-\infty$ for tokens that are ruled out.

    Raises:
        ValueError: a top_k other than 1, 2 ... V, or a top_p outside (0, 1].

    From: Fan, Lewis and Dauphin (2018), *Hierarchical Neural Story Generation* (top k); Holtzman et al.
    (2020), *The Curious Case of Neural Text Degeneration* (top p).

    >>> print(filter_logits(torch.tensor([0.5, 0.1, 0.4]).log(), top_p=0.6).exp())
    tensor([0.5000, 0.0000, 0.4000])
    """
    if top_k is not None:
        if top_k not in range(1, logits.shape[-1] + 1):
            raise ValueError(
                f"expected a whole top_k from 1 to {logits.shape[-1]}, got {top_k}; None keeps all"
            )
        chosen = logits.topk(int(top_k), dim=-1).indices
        out = torch.ones_like(logits, dtype=torch.bool).scatter(-1, chosen, False)
        logits = logits.masked_fill(out, -math.inf)
    if top_p is not None:
        if not 0 < top_p <= 1:
            raise ValueError(f"expected a top_p above 0 and at most 1, got {top_p}; None keeps all")
        probabilities, order = _wide(logits).softmax(dim=-1).sort(dim=-1, descending=True)
        before = F.pad(probabilities.cumsum(dim=-1)[..., :-1], (1, 0))
        out = (before >= top_p) & (top_p < 1)  # a sum of 1 may be reached early by rounding
        logits = logits.masked_fill(torch.empty_like(out).scatter(-1, order, out), -math.inf)
    return logits


def min_p_filter(logits: Float[Tensor, "*batch V"], min_p: float) -> Float[Tensor, "*batch V"]:
    r"""Rule out the tokens whose probability is below a share of the largest.

    $p_i \ge m \max_j p_j$, which is $z_i \ge \max_j z_j + \ln m$: no softmax is needed.

    Args:
        logits: z, (..., V).
        min_p: m, above 0, at most 1.

    Returns:
        The logits, with $-\infty$ for tokens that are ruled out; the likeliest stays.

    Raises:
        ValueError: a min_p outside (0, 1].

    From: Nguyen et al. (2024), *Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs*.

    >>> print(min_p_filter(torch.tensor([0.5, 0.1, 0.4]).log(), min_p=0.3).exp())
    tensor([0.5000, 0.0000, 0.4000])
    """
    if not 0 < min_p <= 1:
        raise ValueError(f"expected a min_p above 0 and at most 1, got {min_p}; leave the filter out")
    threshold = _wide(logits).amax(dim=-1, keepdim=True) + math.log(min_p)
    return logits.masked_fill(logits < threshold, -math.inf)


def token_probabilities(
    logits: Float[Tensor, "*batch V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch V"]:
    r"""Turn logits into the probabilities that the next token is drawn with.

    $p = \text{softmax}(\text{filter}(z / \tau))$; its limit at $\tau = 0$ is 1 for the largest logit.

    Args:
        logits: z, (..., V); each row needs a finite logit, and no logit may be plus infinity.
        temperature: $\tau$, finite, 0 or more: below 1 likely tokens become likelier.
        top_k: as in :func:`filter_logits`.
        top_p: as in :func:`filter_logits`.

    Returns:
        Probabilities, (..., V), float32 or wider.

    Raises:
        ValueError: a temperature that is negative or not finite, or an argument that :func:`filter_logits`
            refuses.

    From: Ackley, Hinton and Sejnowski (1985), *A Learning Algorithm for Boltzmann Machines*.

    >>> z = torch.tensor([0.0, 1.0])
    >>> print(token_probabilities(z), token_probabilities(z, temperature=0.0))
    tensor([0.2689, 0.7311]) tensor([0., 1.])
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"expected a finite temperature of 0 or more, got {temperature}; 0 takes the likeliest"
        )
    logits = _wide(logits)
    if temperature == 0:
        return torch.zeros_like(logits).scatter(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    below = logits - logits.amax(dim=-1, keepdim=True)  # a small temperature makes no infinity of the largest
    smallest = max(temperature, torch.finfo(below.dtype).tiny)  # less would round to 0, and 0/0 is NaN
    return filter_logits(below / smallest, top_k, top_p).softmax(dim=-1)


def choose_token(
    logits: Float[Tensor, "B V"],
    temperature: float,
    generator: torch.Generator | None,
    top_k: int | None,
    top_p: float | None,
) -> Int[Tensor, " B"]:
    """Take the likeliest token at temperature 0, else draw one for each row.

    >>> print(choose_token(torch.tensor([[0.0, 3.0], [1.0, 0.0]]), 0.0, None, None, None))
    tensor([1, 0])
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = token_probabilities(logits, temperature, top_k, top_p)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)


def _wide(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
