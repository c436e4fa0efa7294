"""Mixture of experts: many feed-forward networks; each token visits only a few of them.

The parameters grow with the number of experts, the operations for a token do not. A linear router scores the
experts for each token; the token visits the k best and takes the mean of their outputs, weighted by a softmax
over those k scores. Nothing makes the router use all its experts, so a loss is added that does.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.routing import Router, RouterConfig, route_top_k


class MixtureOfExperts(nn.Module):
    r"""Send each token through the k of E SwiGLU networks that a router chooses for it.

    $y = \sum_{i \in \text{top}_k} w_i \, W^i_{\text{down}} (\operatorname{SiLU}(W^i_{\text{gate}} x) \odot
    W^i_{\text{up}} x)$, with w from :func:`tfcore.routing.route_top_k` of $W_{\text{router}} x$.

    Args:
        d_model: width of the tokens.
        d_ff: width inside each expert.
        num_experts: number of experts, E.
        top_k: number of experts that a token visits.
        router: how experts are chosen and weighed.
        shared: a network that every token visits besides.
        shared_gate: whether each token multiplies its output by a gate, $\sigma(w^\top x)$.
        limit: bounds the gate from above and the gated values from both sides, as gpt-oss does, whose experts
            compute $(u + 1) \, g \, \sigma(1.702 g)$ and have biases; None for SwiGLU.

    Raises:
        ValueError: top_k below 1 or above num_experts.

    From: Jiang et al. (2024), *Mixtral of Experts*; Shazeer (2020), *GLU Variants Improve Transformer*.

    >>> layer = MixtureOfExperts(d_model=4, d_ff=6, num_experts=5, top_k=2)
    >>> y, router_logits = layer(torch.randn(2, 3, 4), return_router_logits=True)
    >>> print(y.shape, router_logits.shape)
    torch.Size([2, 3, 4]) torch.Size([2, 3, 5])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_experts: int,
        top_k: int,
        router: RouterConfig | None = None,
        shared: nn.Module | None = None,
        shared_gate: bool = False,
        limit: float | None = None,
    ) -> None:
        super().__init__()
        self.top_k, self.limit, self.shared = top_k, limit, shared
        self.shared_gate = nn.Linear(d_model, 1, bias=False) if shared_gate else None
        self.router = Router(d_model, num_experts, top_k, router or RouterConfig())
        self.w_gate = nn.Parameter(torch.empty(num_experts, d_ff, d_model))
        self.w_up = nn.Parameter(torch.empty(num_experts, d_ff, d_model))
        self.w_down = nn.Parameter(torch.empty(num_experts, d_model, d_ff))
        for weight in (self.w_gate, self.w_up, self.w_down):
            bound = 1 / math.sqrt(weight.shape[-1])  # as nn.Linear draws its weight
            nn.init.uniform_(weight, -bound, bound)
        self.b_gate = self.b_up = self.b_down = None
        if limit is not None:
            self.b_gate, self.b_up = (nn.Parameter(torch.zeros(num_experts, d_ff)) for _ in range(2))
            self.b_down = nn.Parameter(torch.zeros(num_experts, d_model))

    def forward(
        self, x: Float[Tensor, "*B T d_model"], return_router_logits: bool = False
    ) -> Float[Tensor, "*B T d_model"] | tuple[Float[Tensor, "*B T d_model"], Float[Tensor, "*B T E"]]:
        """Route the tokens; if asked for, return the router's logits too, for :func:`load_balancing_loss`."""
        tokens = x.flatten(0, -2)  # (N, d_model)
        logits = self.router(tokens)  # (N, E)
        weights, experts = self.router.choose(logits)

        # A visit is one token at one expert. Sorted by expert, the visits of each lie next to each other.
        order = experts.flatten().argsort()  # (N top_k,), the visits in the order of their experts
        visits_of = experts.flatten().bincount(minlength=len(self.w_gate)).tolist()
        visitors = tokens[order // self.top_k].split(visits_of)  # one (visits, d_model) for each expert
        answers = torch.cat([self._expert(*visit) for visit in zip(visitors, *self._bank(), strict=True)])
        answers = answers[order.argsort()].unflatten(0, (-1, self.top_k))  # back in the order of the tokens

        y = (weights.unsqueeze(-1) * answers).sum(dim=1).to(x.dtype).view_as(x)  # (N, top_k, d_model) summed
        y = y if self.shared is None else y + self._share(x, self.shared)
        return (y, logits.unflatten(0, x.shape[:-1])) if return_router_logits else y

    def _share(self, x: Tensor, shared: nn.Module) -> Tensor:
        """Let the shared network answer, through its gate where there is one."""
        return shared(x) if self.shared_gate is None else self.shared_gate(x).sigmoid() * shared(x)

    def _bank(self) -> list[list[Tensor]]:
        """List the matrices of each expert, then its biases."""
        # unbind, since the gradient of w[i] would be as large as w for each i
        parts = self.w_gate, self.w_up, self.w_down, self.b_gate, self.b_up, self.b_down
        return [list(part.unbind()) for part in parts if part is not None]

    def _expert(self, x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, *biases: Tensor) -> Tensor:
        """Let one expert answer its visitors, (visits, d_model)."""
        if self.limit is None:
            return F.linear(F.silu(F.linear(x, w_gate)) * F.linear(x, w_up), w_down)
        b_gate, b_up, b_down = biases
        gate = F.linear(x, w_gate, b_gate).clamp(max=self.limit)  # (visits, d_ff)
        up = F.linear(x, w_up, b_up).clamp(-self.limit, self.limit)
        return F.linear((up + 1) * gate * torch.sigmoid(1.702 * gate), w_down, b_down)


def load_balancing_loss(
    router_logits: Float[Tensor, "*tokens E"], top_k: int, padding: Bool[Tensor, "*#tokens"] | None = None
) -> Float[Tensor, ""]:
    r"""Measure how unevenly a router uses its experts.

    $E \sum_i f_i P_i$, where f_i is the share of tokens that visit expert i and P_i its mean probability.

    Even use gives top_k, the use of the same top_k experts alone up to E. The shares have no gradient; the
    probabilities have, and lowering the probabilities of busy experts moves tokens elsewhere. Models add
    about 0.01 of it to their loss.

    Args:
        router_logits: scores of any tokens, (..., E); stack several layers to balance them together.
        top_k: number of experts that a token visits.
        padding: True at real tokens, broadcastable to (...); others do not count.

    Returns:
        The loss, a number; 0 without real tokens.

    Raises:
        ValueError: top_k below 1 or above the number of experts, or padding that is not boolean.

    From: Fedus, Zoph and Shazeer (2021), *Switch Transformers*, equations 4 to 6; with all k visits of a
    token as in Mixtral.

    >>> even, uneven = torch.eye(4) * 9, torch.tensor([[9.0, 0, 0, 0]]).expand(4, 4)
    >>> print(load_balancing_loss(even, top_k=1), load_balancing_loss(uneven, top_k=1))
    tensor(1.) tensor(3.9985)
    """
    if padding is not None and padding.dtype != torch.bool:
        raise ValueError(f"expected boolean padding, True = real token, got {padding.dtype}; use .bool()")
    _, experts = route_top_k(router_logits, top_k)
    probabilities = router_logits.softmax(
        dim=-1, dtype=torch.promote_types(router_logits.dtype, torch.float32)
    )
    visits = torch.zeros_like(probabilities).scatter(-1, experts, 1.0)  # (..., E), 1 where a token goes
    if padding is None:
        real = torch.ones_like(visits[..., :1])
    else:
        real = padding.unsqueeze(-1).expand_as(visits[..., :1]).to(visits.dtype)
    num_tokens = real.sum().clamp(min=1)
    share = (visits * real).flatten(0, -2).sum(dim=0) / num_tokens  # (E,)
    mean_probability = (probabilities * real).flatten(0, -2).sum(dim=0) / num_tokens  # (E,)
    return router_logits.shape[-1] * (share * mean_probability).sum()
