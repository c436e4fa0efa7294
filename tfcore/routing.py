"""Routers: how a mixture of experts chooses the experts of each token, and weighs their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def route_top_k(logits: Float[Tensor, "*N E"], k: int) -> tuple[Float[Tensor, "*N k"], Int[Tensor, "*N k"]]:
    r"""Choose the k best experts for each token, and weigh them.

    $w_i = e^{z_i} / \sum_{j \in \text{top}_k(z)} e^{z_j}$ for the chosen i.

    A softmax over all experts, whose chosen entries are divided by their sum, gives the same.

    Args:
        logits: the router's scores, (N, E) or with more leading axes.
        k: how many experts each token visits.

    Returns:
        The weights, (N, k), which sum to 1, largest first; and the numbers of their experts, (N, k).

    Raises:
        ValueError: k below 1 or above the number of experts.

    From: Shazeer et al. (2017), *Outrageously Large Neural Networks*, equations 3 to 5, without the noise.

    >>> weights, experts = route_top_k(torch.tensor([[0.0, 5.0, -1.0, 5.0]]).log_softmax(-1), k=2)
    >>> print(weights, sorted(experts[0].tolist()))
    tensor([[0.5000, 0.5000]]) [1, 3]
    """
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(
            f"expected k between 1 and the number of experts, {logits.shape[-1]}, got {k}; "
            "a token visits at least one expert and each at most once"
        )
    best, experts = logits.topk(k, dim=-1)
    return best.softmax(dim=-1), experts


@dataclass(frozen=True)
class RouterConfig:
    """A way to choose experts and to weigh them; by default Mixtral's, a softmax over the chosen.

    Args:
        score: what turns the router's logits into scores.
        normalised: whether the weights of the chosen experts are divided by their sum.
        scale: multiplies the weights.
        num_groups: equal groups of neighbouring experts; a token goes to some groups alone.
        top_groups: how many groups that is.
        group_score: how many of its best scores a group is judged by.
        balance: whether each expert has a number that is added to its score for the choice alone. A rule
            lowers the number of a busy expert; no loss is needed.
        bias: whether the logits have a bias.

    Raises:
        ValueError: an unknown score, or groups or numbers that do not fit.

    From: Jiang et al. (2024), *Mixtral of Experts*; DeepSeek-AI (2024), *DeepSeek-V2* (groups); DeepSeek-AI
    (2024), *DeepSeek-V3 Technical Report* (sigmoid, balance); OpenAI (2025), *gpt-oss-120b & gpt-oss-20b
    Model Card* (bias).

    >>> RouterConfig(score="sigmoid", balance=True).normalised
    True
    """

    score: Literal["softmax", "sigmoid"] = "softmax"
    normalised: bool = True
    scale: float = 1.0
    num_groups: int = 1
    top_groups: int = 1
    group_score: int = 1
    balance: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        if self.score not in ("softmax", "sigmoid"):
            raise ValueError(f"expected the score softmax or sigmoid, got {self.score!r}")
        if not 1 <= self.top_groups <= self.num_groups or self.group_score < 1:
            raise ValueError(
                f"expected top_groups from 1 to num_groups and a group_score of 1 or more, got "
                f"{self.top_groups} of {self.num_groups} and {self.group_score}"
            )

    @property
    def is_plain(self) -> bool:
        """Return whether the weights are a softmax over the logits of the chosen experts."""
        plain = self.score == "softmax" and self.normalised and not self.balance
        return plain and self.num_groups == 1


class Router(nn.Linear):
    r"""Score the experts for each token, choose the best, and weigh them.

    $s = \operatorname{softmax}(W x)$ or $\sigma(W x)$; the k experts with the largest $s_i + b_i$ get the
    weights $c \, s_i / \sum_{j \text{ chosen}} s_j$.

    Args:
        d_model: width of the tokens.
        num_experts: experts, E.
        top_k: how many experts a token visits.
        config: how they are chosen and weighed.

    Raises:
        ValueError: groups that do not divide the experts, or that have too few for top_k.

    From: Shazeer et al. (2017), *Outrageously Large Neural Networks*; and see :class:`RouterConfig`.

    >>> config = RouterConfig("sigmoid", scale=2.5)
    >>> router = Router(d_model=4, num_experts=6, top_k=2, config=config)
    >>> weights, experts = router.choose(router(torch.randn(3, 4)))
    >>> print(weights.sum(dim=-1), experts.shape)
    tensor([2.5000, 2.5000, 2.5000], grad_fn=<...>) torch.Size([3, 2])
    """

    def __init__(self, d_model: int, num_experts: int, top_k: int, config: RouterConfig) -> None:
        super().__init__(d_model, num_experts, bias=config.bias)
        if not 1 <= top_k <= num_experts:
            raise ValueError(
                f"expected top_k between 1 and num_experts={num_experts}, got {top_k}; choose fewer"
            )
        in_group = num_experts // config.num_groups
        too_few = top_k > config.top_groups * in_group or config.group_score > in_group
        if num_experts % config.num_groups or too_few:
            raise ValueError(
                f"expected groups that divide {num_experts} experts and whose best hold {top_k}, got "
                f"{config.top_groups} of {config.num_groups} groups, judged by {config.group_score} scores"
            )
        self.config, self.top_k = config, top_k
        self.balance = nn.Parameter(torch.zeros(num_experts), requires_grad=False) if config.balance else None

    def choose(self, logits: Float[Tensor, "*N E"]) -> tuple[Float[Tensor, "*N k"], Int[Tensor, "*N k"]]:
        """Choose the experts of each token.

        Args:
            logits: what the router gives for the tokens, (N, E) or with more leading axes.

        Returns:
            The weights, (N, k), those of the best choice first, and the numbers of their experts, (N, k).
        """
        # Weights in float32 or wider sum to 1; rounded to half precision, they would not.
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.config.is_plain:
            weights, experts = route_top_k(wide, self.top_k)
            return weights * self.config.scale, experts
        scores = wide.softmax(dim=-1) if self.config.score == "softmax" else wide.sigmoid()
        choice = scores if self.balance is None else scores + self.balance
        if self.config.num_groups > 1:
            choice = choice.masked_fill(~self._in_top_groups(choice), -torch.inf)
        experts = choice.topk(self.top_k, dim=-1).indices  # (N, k)
        weights = scores.gather(-1, experts)
        if self.config.normalised:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)  # sigmoids may all be 0
        return weights * self.config.scale, experts

    def _in_top_groups(self, choice: Float[Tensor, "*N E"]) -> Bool[Tensor, "*N E"]:
        """Tell which experts are in the best groups of a token."""
        groups = choice.unflatten(-1, (self.config.num_groups, -1))  # (N, groups, E / groups)
        merit = groups.topk(self.config.group_score, dim=-1).values.sum(dim=-1)  # (N, groups)
        best = merit.topk(self.config.top_groups, dim=-1).indices
        allowed = torch.zeros_like(merit, dtype=torch.bool).scatter(-1, best, True)
        return allowed.unsqueeze(-1).expand_as(groups).flatten(-2)

    @torch.no_grad()
    def rebalance(self, experts: Int[Tensor, "*N k"], rate: float = 0.001) -> None:
        r"""Lower the ``balance`` of experts visited more than the mean; raise it for those visited less.

        $b_i \leftarrow b_i + \gamma \operatorname{sign}(\bar n - n_i)$ with n the visits of a batch.

        Args:
            experts: what :meth:`choose` has chosen for a batch of tokens.
            rate: $\gamma$.

        Raises:
            ValueError: a router without balance.

        From: Wang et al. (2024), *Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts*.

        >>> router = Router(4, num_experts=3, top_k=1, config=RouterConfig(balance=True))
        >>> router.rebalance(torch.tensor([[0], [0], [1]]), rate=0.5)
        >>> print(router.balance.tolist())
        [-0.5, 0.0, 0.5]
        """
        if self.balance is None:
            raise ValueError(
                "expected a router with balance, got one without; RouterConfig(balance=True) has it"
            )
        visits = experts.flatten().bincount(minlength=self.out_features).to(self.balance.dtype)
        self.balance.add_(rate * (visits.mean() - visits).sign())
