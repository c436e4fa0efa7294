"""Norms: bring each token's vector to one scale. The formulas, and the modules that models use."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcore.config import BlockConfig, NormKind


def layer_norm(
    x: Float[Tensor, "*batch d"], weight: Float[Tensor, " d"], bias: Float[Tensor, " d"], eps: float = 1e-5
) -> Float[Tensor, "*batch d"]:
    r"""Center each vector, bring its variance to 1, then rescale and shift each channel.

    $\gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta$, mean and (biased) variance over d.

    Args:
        x: (..., d).
        weight: the gain of each channel, (d,).
        bias: the shift of each channel, (d,).
        eps: added to the variance, under the root.

    Returns:
        The normed vectors, (..., d), in the type of ``x``: in float16, squares above 65,504 overflow.

    From: Ba, Kiros and Hinton (2016), *Layer Normalization*.

    >>> print(layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2)))
    tensor([-1.0000,  1.0000])
    """
    centered = x - x.mean(dim=-1, keepdim=True)  # (..., d); the mean is (..., 1)
    variance = centered.square().mean(dim=-1, keepdim=True)  # (..., 1)
    return centered * torch.rsqrt(variance + eps) * weight + bias


def rms_norm(
    x: Float[Tensor, "*batch d"], weight: Float[Tensor, " d"], eps: float = 1e-6
) -> Float[Tensor, "*batch d"]:
    r"""Bring the root mean square of each vector to 1, then rescale each channel; nothing is centered.

    $\gamma \odot \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}$.

    Args:
        x: (..., d).
        weight: the gain of each channel, (d,).
        eps: added to the mean square, under the root.

    Returns:
        The normed vectors, (..., d), in the type of ``x``: in float16, squares above 65,504 overflow.

    From: Zhang and Sennrich (2019), *Root Mean Square Layer Normalization*.

    >>> print(rms_norm(torch.tensor([3.0, 3.0]), torch.ones(2), eps=0.0))
    tensor([1., 1.])
    """
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def make_norm(config: BlockConfig) -> nn.Module:
    """Make the norm of a block: of torch's modules, which compute in float32 or wider.

    >>> from tfcore.config import AttentionConfig
    >>> make_norm(BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48, norm="rms"))
    RMSNorm((12,), eps=1e-05, elementwise_affine=True)
    """
    return norm_of(config.norm, config.attention.d_model, config.norm_eps, config.norm_bias)


def norm_of(kind: NormKind, width: int, eps: float, bias: bool = True) -> nn.Module:
    """Make a norm by its name; only LayerNorm can have a bias.

    >>> norm_of("layer", 12, eps=1e-5, bias=False)
    LayerNorm((12,), eps=1e-05, elementwise_affine=True, bias=False)
    """
    if kind == "layer":
        return nn.LayerNorm(width, eps=eps, bias=bias)
    return {"rms": nn.RMSNorm, "rms_plus_one": RMSNormPlusOne}[kind](width, eps=eps)


class RMSNormPlusOne(nn.RMSNorm):
    r"""RMSNorm whose gain is 1 + weight, so that weight decay pulls the gain to 1.

    $(1 + \gamma) \odot \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}$, with $\gamma = 0$ at first.

    From: Gemma Team (2024), *Gemma: Open Models Based on Gemini Research and Technology*.

    >>> print(RMSNormPlusOne(2, eps=0.0)(torch.tensor([3.0, 3.0])))
    tensor([1., 1.], grad_fn=<...>)
    """

    def reset_parameters(self) -> None:
        """Set the gain to 1, that is the weight to 0."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Norm each vector of (..., d)."""
        return F.rms_norm(x, self.normalized_shape, 1 + self.weight, self.eps)
