"""The feed-forward network, which a block applies to each token alone."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcore.config import BlockConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    r"""Widen each token's vector, bend it, and bring it back.

    $W_{down} \, \phi(W_{up} x)$; gated, $W_{down} \, (\phi(W_{gate} x) \odot W_{up} x)$.

    Args:
        config: width, inner width, activation, gate and bias.

    From: Vaswani et al. (2017), section 3.3 (ReLU); Hendrycks and Gimpel (2016), *Gaussian Error Linear
    Units*; Shazeer (2020), *GLU Variants Improve Transformer*.

    >>> import torch
    >>> from tfcore.config import AttentionConfig
    >>> ffn = FeedForward(BlockConfig(AttentionConfig(d_model=12, num_heads=4), d_ff=48))
    >>> print(ffn(torch.zeros(2, 3, 12)).shape)
    torch.Size([2, 3, 12])
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        d_model, d_ff, bias = config.attention.d_model, config.d_ff, config.ffn_bias
        self.activation = ACTIVATIONS[config.activation]
        self.W_gate = nn.Linear(d_model, d_ff, bias=bias) if config.gated else None
        self.W_up = nn.Linear(d_model, d_ff, bias=bias)
        self.W_down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Work on each vector of (..., d_model) by itself; the result has the same shape."""
        if self.W_gate is None:
            return self.W_down(self.activation(self.W_up(x)))
        return self.W_down(self.activation(self.W_gate(x)) * self.W_up(x))  # (..., d_ff) inside


def swiglu(
    x: Float[Tensor, "*batch d_model"],
    W_g: Float[Tensor, "d_model d_ff"],
    W_u: Float[Tensor, "d_model d_ff"],
    W_d: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "*batch d_model"]:
    r"""Apply a feed-forward network whose inner channels are gated by SiLU.

    $(\text{SiLU}(x W_g) \odot x W_u) \, W_d$ with $\text{SiLU}(z) = z \, \sigma(z)$.

    Args:
        x: (..., d_model).
        W_g: weights of the gate, (d_model, d_ff).
        W_u: weights of the gated values, (d_model, d_ff).
        W_d: weights back to the stream, (d_ff, d_model).

    Returns:
        (..., d_model).

    From: Shazeer (2020), *GLU Variants Improve Transformer*.

    >>> import torch
    >>> print(swiglu(torch.ones(1, 1), *(torch.ones(1, 1) for _ in range(3))))
    tensor([[0.7311]])
    """
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d


def swiglu_hidden_size(d_model: int, multiple_of: int = 1) -> int:
    r"""Choose the inner width at which a gated network has as many weights as an ungated one of 4 d_model.

    $3 \, d \, d_{ff} = 2 \, d \cdot 4d$ gives $d_{ff} = \lfloor 8d / 3 \rfloor$, then up to a multiple.

    Args:
        d_model: width, d.
        multiple_of: what the width must be a multiple of.

    Returns:
        The inner width.

    Raises:
        ValueError: a size below 1.

    From: Shazeer (2020); Touvron et al. (2023), *LLaMA*, whose 7B model has 11,008.

    >>> swiglu_hidden_size(4096, multiple_of=256)
    11008
    """
    if d_model < 1 or multiple_of < 1:
        raise ValueError(f"expected sizes of 1 or more, got d_model {d_model} and multiple_of {multiple_of}")
    hidden = 8 * d_model // 3
    return -(-hidden // multiple_of) * multiple_of
