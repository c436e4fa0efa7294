"""Speculative decoding: a small model guesses several tokens, the large one checks them in one call.

The text has exactly the distribution of the large model alone; the small model only decides how many calls
this takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcore.generate.reader import Model, Reader, make_room
from tfcore.generate.sampling import token_probabilities


def speculative_accept(
    p_target: Float[Tensor, "n+1 V"],
    p_draft: Float[Tensor, "n V"],
    draft_tokens: Int[Tensor, " n"],
    u: Float[Tensor, " n"],
) -> tuple[int, Float[Tensor, " V"]]:
    r"""Decide how many guesses are accepted, and the distribution of the token after them.

    Guess $x_i$ is accepted if $u_i < p_i(x_i) / q_i(x_i)$. After the first rejected guess, the token is drawn
    from $\max(p_i - q_i, 0)$, normalised; if all are accepted, from $p_{n+1}$. Then each token has the
    distribution p, since $\min(p, q) + \max(p - q, 0) = p$.

    Args:
        p_target: probabilities p of the large model at each guess and after the last, (n + 1, V).
        p_draft: probabilities q that the guesses were drawn with, (n, V).
        draft_tokens: the guesses x, (n,).
        u: uniform on [0, 1), (n,).

    Returns:
        How many guesses are accepted, 0 ... n, and the distribution of the next token, (V,).

    Raises:
        ValueError: shapes that do not fit.

    From: Leviathan, Kalman and Matias (2023), *Fast Inference from Transformers via Speculative Decoding*,
    algorithm 1; Chen et al. (2023), *Accelerating Large Language Model Decoding with Speculative Sampling*.

    >>> p = torch.tensor([[0.5, 0.5], [0.9, 0.1]])
    >>> q = torch.tensor([[1.0, 0.0]])
    >>> guess = torch.tensor([0])
    >>> print(speculative_accept(p, q, guess, u=torch.tensor([0.4])))
    (1, tensor([0.9000, 0.1000]))
    >>> print(speculative_accept(p, q, guess, u=torch.tensor([0.6])))
    (0, tensor([0., 1.]))
    """
    n = len(draft_tokens)
    if p_draft.shape != (n, p_target.shape[-1]) or len(p_target) != n + 1 or u.shape != (n,):
        raise ValueError(
            f"expected p_target (n + 1, V), p_draft (n, V) and u (n,) for n = {n} guesses, got "
            f"{tuple(p_target.shape)}, {tuple(p_draft.shape)} and {tuple(u.shape)}; "
            "both models need one vocabulary, and the large one also looks beyond the last guess"
        )
    guessed = draft_tokens.unsqueeze(1)
    accepted = u * p_draft.gather(1, guessed).squeeze(1) < p_target[:n].gather(1, guessed).squeeze(1)
    num_accepted = int(accepted.long().cumprod(dim=0).sum())
    if num_accepted == n:
        return n, p_target[n]
    return num_accepted, residual(p_target[num_accepted], p_draft[num_accepted])


def residual(p: Float[Tensor, " V"], q: Float[Tensor, " V"]) -> Float[Tensor, " V"]:
    r"""Return the distribution of the token that replaces a rejected guess.

    $\max(p - q, 0)$, divided by its sum.

    Args:
        p: the distribution that the token must have, (V,).
        q: the distribution that the guess was drawn from, (V,).

    Returns:
        A distribution, (V,); p itself where nothing remains. Equal distributions reject nothing, but their
        rounded values may.

    From: Leviathan, Kalman and Matias (2023), section 2.3; Chen et al. (2023), section 2.2.

    >>> print(residual(torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])))
    tensor([0., 1.])
    """
    remaining = (p - q).clamp(min=0)
    total = remaining.sum()
    return torch.where(total > 0, remaining / total, p)


def speculative_generate(
    target: Model,
    draft: Model,
    prompt: Int[Tensor, "1 T"],
    max_new_tokens: int,
    num_draft: int = 4,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Int[Tensor, "1 T_total"]:
    r"""Generate as ``target`` would, in fewer of its calls the better ``draft`` guesses.

    A round drafts k tokens, checks them in one call of the target and adds one more: if all guesses
    are accepted, n tokens take $\lceil n / (k + 1) \rceil$ calls. At temperature 0 the text is the greedy one
    of the target.

    Both models keep a cache, and read only tokens that they have not read yet. For the draft these are two
    tokens where all guesses were accepted: it has not read its own last guess. After each round both forget
    the rejected tokens.

    Args:
        target: the large model, as in :func:`tfcore.generate.generate`; a cache must be able to go back.
        draft: the small model, with the same vocabulary.
        prompt: token ids of one text, (1, T).
        max_new_tokens: tokens to append.
        num_draft: k, guesses per round.
        temperature: of both models.
        generator: source of the draws.
        top_k: as in :func:`tfcore.generate.generate`, for both models.
        top_p: likewise.

    Returns:
        Prompt and continuation, (1, T + max_new_tokens).

    Raises:
        ValueError: more than one text (they would accept different numbers of guesses), or no guesses.

    From: Leviathan, Kalman and Matias (2023); Chen et al. (2023).

    >>> def successor(tokens):
    ...     return torch.nn.functional.one_hot((tokens + 1) % 7, 7).float()
    >>> print(speculative_generate(successor, successor, torch.tensor([[1, 2]]), max_new_tokens=3))
    tensor([[1, 2, 3, 4, 5]])
    """
    if len(prompt) != 1 or num_draft < 1:
        raise ValueError(
            f"expected one prompt (1, T) and 1 guess or more, got {tuple(prompt.shape)} and {num_draft}; "
            "texts accept different numbers of guesses: go through them one by one"
        )

    choice = _Choice(temperature, generator, top_k, top_p)
    tokens = make_room(prompt, max_new_tokens, pad=0)
    t, total = prompt.shape[1], tokens.shape[1]
    with torch.inference_mode():
        # Not the default kind: a sliding cache could not go back.
        read_target, read_draft = (Reader(model, 1, total, kind="preallocated") for model in (target, draft))
        while t < total:
            t = _round(read_target, read_draft, tokens, t, min(num_draft, total - t - 1), choice)
    return tokens


@dataclass(frozen=True)
class _Choice:
    """How both models choose a token."""

    temperature: float
    generator: torch.Generator | None
    top_k: int | None
    top_p: float | None

    def probabilities(self, read: Reader, seen: Tensor, last: int = 1) -> Tensor:
        """Read a text (1, T); give the distribution of the token after each of its last places, (last, V)."""
        return token_probabilities(read(seen, last)[0], self.temperature, self.top_k, self.top_p)

    def draw(self, p: Tensor) -> Tensor:
        """Draw a token from a distribution (V,), or take the likeliest at temperature 0."""
        if self.temperature == 0:
            return p.argmax(-1, keepdim=True)
        return torch.multinomial(p, 1, generator=self.generator)

    def uniform(self, like: Tensor, n: int) -> Tensor:
        """Draw n numbers from [0, 1); at temperature 0 all is certain, and zeros decide as any others."""
        u = like.new_zeros(n)
        return u if self.temperature == 0 else u.uniform_(generator=self.generator)


def _round(read_target: Reader, read_draft: Reader, tokens: Tensor, t: int, k: int, choice: _Choice) -> int:
    """Draft k tokens after the first t, check them, add one more; return the new length of the text."""
    p_draft = []
    for i in range(t, t + k):
        p_draft.append(choice.probabilities(read_draft, tokens[:, :i])[0])
        tokens[:, i] = choice.draw(p_draft[-1])
    p_target = choice.probabilities(read_target, tokens[:, : t + k], last=k + 1)  # (k + 1, V)
    u = choice.uniform(p_target, k)
    p_guesses = torch.stack(p_draft) if k else p_target[:0]  # (k, V)
    accepted, p_next = speculative_accept(p_target, p_guesses, tokens[0, t : t + k], u)
    t += accepted
    tokens[:, t] = choice.draw(p_next)
    read_target.rewind(t)
    read_draft.rewind(t)
    return t + 1
