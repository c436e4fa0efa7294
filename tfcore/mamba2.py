"""Mamba-2: a language model of state spaces with heads, whose recurrence is a form of attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfcore.attention.pattern import wide
from tfcore.config import check_sizes
from tfcore.state_cache import StateCache
from tfcore.state_model import StateModel
from tfcore.state_space_duality import ssd_carry, ssd_step


@dataclass(frozen=True)
class Mamba2Config:
    """The sizes of a Mamba-2 model.

    Args:
        vocab_size: V, tokens that the model knows.
        d_model: width of the residual stream.
        num_layers: blocks.
        d_head: p, channels of a head.
        d_state: N, width of B and C, the keys and queries of its attention form.
        num_groups: groups of heads; the heads of a group share B, C and the mean of the gated norm.
        d_conv: tokens that the convolution sees, the token itself included.
        expand: channels of a block for each of d_model.
        step_limit: the smallest and the largest step size.
        bias: whether the first and the last projection of a block add a bias.
        conv_bias: whether the convolution does.
        norm_eps: added to the mean square in the norms.
        tied: whether the head uses the matrix of the token embedding.

    Raises:
        ValueError: a size below 1, channels that are not whole heads, heads that are not whole groups, or a
            limit below 0 or the wrong way round.

    From: Dao and Gu (2024), *Transformers are SSMs: Generalized Models and Efficient Algorithms Through
    Structured State Space Duality*.

    >>> config = Mamba2Config(vocab_size=100, d_model=40, num_layers=2, d_head=16)
    >>> print(config.d_inner, config.num_heads)
    80 5
    """

    vocab_size: int
    d_model: int
    num_layers: int
    d_head: int = 64
    d_state: int = 128
    num_groups: int = 1
    d_conv: int = 4
    expand: int = 2
    step_limit: tuple[float, float] = (0.0, math.inf)
    bias: bool = False
    conv_bias: bool = True
    norm_eps: float = 1e-5
    tied: bool = True

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "d_model", "num_layers", "d_head", "d_state", "num_groups", "d_conv", "expand")
        check_sizes(self, *sizes)
        if self.d_inner % self.d_head or self.num_heads % self.num_groups:
            raise ValueError(
                f"expected expand x d_model as whole heads of d_head, in num_groups of one size, got "
                f"{self.d_inner} channels, d_head {self.d_head} and {self.num_groups} groups; change one"
            )
        low, high = self.step_limit
        if not 0 <= low < high:
            raise ValueError(
                f"expected step_limit as 0 <= low < high, got {[low, high]}; exchange or raise them"
            )

    @property
    def d_inner(self) -> int:
        """Return the channels of a block."""
        return self.expand * self.d_model

    @property
    def num_heads(self) -> int:
        """Return the number of heads."""
        return self.d_inner // self.d_head

    @property
    def conv_width(self) -> int:
        """Return the channels of the convolution: d_inner for x, then N for each B and each C."""
        return self.d_inner + 2 * self.num_groups * self.d_state


class Mamba2State(NamedTuple):
    """The state of one block: all that it keeps of the past.

    Attributes:
        window: the last inputs of the convolution, oldest first, (B, conv_width, d_conv - 1).
        memory: a matrix for each head, float32 or wider, (B, h, p, N).

    >>> model = Mamba2(Mamba2Config(vocab_size=11, d_model=6, num_layers=2, d_head=4, d_state=5))
    >>> state = model.new_cache(batch=3).layers[0]
    >>> print(state.window.shape, state.memory.shape)
    torch.Size([3, 22, 3]) torch.Size([3, 3, 4, 5])
    """

    window: Float[Tensor, "B channels K"]
    memory: Float[Tensor, "B h p N"]


class Mamba2(StateModel):
    """Predict the next token with a matrix per head in place of a cache that grows.

    Args:
        config: the sizes.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 7.

    >>> model = Mamba2(Mamba2Config(vocab_size=11, d_model=8, num_layers=2, d_head=4))
    >>> cache = model.new_cache(batch=3)
    >>> print(model(torch.zeros(3, 5, dtype=torch.long), cache).shape, cache.length)
    torch.Size([3, 5, 11]) 5
    """

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__(
            config,
            block=lambda layer: Block(config),
            state=Mamba2State,
            norm_final=nn.RMSNorm(config.d_model, config.norm_eps),
        )

    def new_cache(self, batch: int, max_len: int | None = None) -> StateCache:
        """Make the state before the first token of ``batch`` texts; ``max_len`` does not limit it."""
        weight, config = self.embedding.weight, self.config
        window = weight.new_zeros(batch, config.conv_width, config.d_conv - 1)
        memory_shape = (batch, config.num_heads, config.d_head, config.d_state)
        memory = weight.new_zeros(memory_shape, dtype=wide(weight.dtype))
        return StateCache([Mamba2State(window.clone(), memory.clone()) for _ in self.blocks])


class Block(nn.Module):
    """Norm, mix over time, add to the stream; a block has no feed-forward network.

    >>> config = Mamba2Config(vocab_size=11, d_model=6, num_layers=1, d_head=4, d_state=5)
    >>> block, x = Block(config), torch.randn(2, 5, 6)
    >>> start = Mamba2(config).new_cache(batch=2).layers[0]
    >>> first, state = block(x[:, :3], start)
    >>> rest, _ = block(x[:, 3:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), block(x, start)[0], atol=1e-5)
    True
    """

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mixer = Mixer(config)

    def forward(self, x: Float[Tensor, "B T d"], state: Mamba2State) -> tuple[Tensor, Mamba2State]:
        """Add to the stream, (B, T, d_model), the output of the mixer; return the next state as well."""
        mixed, state = self.mixer(self.norm(x), state)
        return x + mixed, state


class Mixer(nn.Module):
    r"""Let each token choose what to remember and what to read, head by head, and gate the output.

    $z, x', \delta = W_{in} x; \; u, B, C = \operatorname{SiLU}(\operatorname{conv}(x')); \;
    \Delta = \operatorname{softplus}(\delta + b); \; y = \operatorname{SSD}(u, \Delta, A, B, C) + D u; \;
    o = W_{out} \operatorname{norm}(y \odot \operatorname{SiLU}(z))$.

    Mamba computes $\Delta$, B and C from u. Mamba-2 computes them from the token, in one projection with z
    and x'; B and C go through the convolution too. Heads can then be split over devices. The projections are
    named as in the authors' code; A is $-e^{\text{A\_log}}$, one rate for each head.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 7.1.

    >>> mixer = Mixer(Mamba2Config(vocab_size=11, d_model=6, num_layers=1, d_head=4))
    >>> steps = F.softplus(mixer.dt_bias)  # before a token changes them
    >>> print(steps.shape, bool(((steps > 0.0009) & (steps < 0.11)).all()))
    torch.Size([3]) True
    """

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__()
        self.config = config
        h, channels = config.num_heads, config.conv_width
        self.in_proj = nn.Linear(config.d_model, config.d_inner + channels + h, bias=config.bias)
        self.conv = nn.Conv1d(channels, channels, config.d_conv, groups=channels, bias=config.conv_bias)
        step = torch.empty(h).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # what softplus maps to step
        self.A_log = nn.Parameter(torch.empty(h).uniform_(1.0, 16.0).log())
        self.D = nn.Parameter(torch.ones(h))
        self.norm = GatedNorm(config.d_inner, config.num_groups, config.norm_eps)
        self.out_proj = nn.Linear(config.d_inner, config.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "B T d"], state: Mamba2State) -> tuple[Tensor, Mamba2State]:
        """Go on from a state with T more tokens, (B, T, d_model): in chunks, or by one step where T is 1.

        Returns:
            The mixed tokens, (B, T, d_model), and the state after the last.
        """
        T, config = x.shape[1], self.config
        widths = [config.d_inner, config.conv_width, config.num_heads]
        gate, inputs, dt = self.in_proj(x).split(widths, dim=-1)  # (B, T, d_inner), (..., channels), (..., h)
        padded = torch.cat([state.window, inputs.mT], dim=-1)  # (B, channels, d_conv - 1 + T)
        window = padded[..., T:].clone()  # a view would keep all T

        width = config.num_groups * config.d_state
        u, B, C = F.silu(self.conv(padded)).mT.split([config.d_inner, width, width], dim=-1)
        u = u.unflatten(-1, (config.num_heads, config.d_head))  # (B, T, h, p)
        B, C = (y.unflatten(-1, (config.num_groups, config.d_state)) for y in (B, C))  # (B, T, groups, N)
        delta = F.softplus(dt.to(wide(x.dtype)) + self.dt_bias).clamp(*config.step_limit)  # (B, T, h)
        A = -torch.exp(self.A_log.to(wide(x.dtype)))  # (h,)

        y, memory = ssd_by_group(u, delta, A, B, C, state.memory)  # (B, T, h, p), (B, h, p, N)
        y = y + self.D.unsqueeze(-1) * u
        return self.out_proj(self.norm(y.flatten(-2), gate)), Mamba2State(window, memory)


class GatedNorm(nn.Module):
    r"""Gate the channels, then divide each group of channels by its root mean square.

    $o = w \odot g / \sqrt{\operatorname{mean}(g^2) + \epsilon}, \; g = y \odot \operatorname{SiLU}(z)$.

    Args:
        width: channels.
        num_groups: groups of channels with a mean of their own.
        eps: added to the mean square.

    From: Dao and Gu (2024), *Transformers are SSMs*, section 7.1.

    >>> norm = GatedNorm(width=4, num_groups=2, eps=0.0)
    >>> normed = norm(torch.tensor([3.0, -3.0, 0.1, 0.1]), gate=torch.ones(4))
    >>> print(normed.detach().round(decimals=2))
    tensor([ 1., -1.,  1.,  1.])
    """

    def __init__(self, width: int, num_groups: int, eps: float) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(
        self, y: Float[Tensor, "*batch d"], gate: Float[Tensor, "*batch d"]
    ) -> Float[Tensor, "*batch d"]:
        """Gate and normalise channels, (..., d)."""
        dtype = wide(y.dtype)
        gated = (y.to(dtype) * F.silu(gate.to(dtype))).unflatten(-1, (self.num_groups, -1))
        normed = F.rms_norm(gated, gated.shape[-1:], eps=self.eps).flatten(-2)  # (..., d)
        return self.weight * normed.to(y.dtype)


def ssd_by_group(
    x: Float[Tensor, "B T h p"],
    delta: Float[Tensor, "B T h"],
    A: Float[Tensor, " h"],
    B: Float[Tensor, "B T groups N"],
    C: Float[Tensor, "B T groups N"],
    state: Float[Tensor, "B h p N"],
) -> tuple[Float[Tensor, "B T h p"], Float[Tensor, "B h p N"]]:
    """Run the state space of each group of heads with the B and the C of that group.

    Args:
        x: inputs, (B, T, h, p); the first heads are the first group.
        delta: step sizes, (B, T, h).
        A: rates, (h,).
        B: where to write, (B, T, groups, N).
        C: where to read, (B, T, groups, N).
        state: the memory after the tokens before these, (B, h, p, N).

    Returns:
        The outputs, (B, T, h, p), and the memory after the last token.

    >>> x, one = torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 1)
    >>> C = torch.tensor([[[[3.0], [5.0]]]])  # two groups of one head
    >>> start = torch.zeros(1, 2, 1, 1)
    >>> print(ssd_by_group(x, x[..., 0], -torch.ones(2), one, C, start)[0].flatten())
    tensor([3., 5.])
    """
    groups = B.shape[2]
    operands = zip(
        x.chunk(groups, dim=2),
        delta.chunk(groups, dim=2),
        A.chunk(groups),
        B.unbind(dim=2),
        C.unbind(dim=2),
        state.chunk(groups, dim=1),
        strict=True,
    )
    outputs, states = [], []
    for x_g, delta_g, A_g, B_g, C_g, state_g in operands:
        if x.shape[1] == 1:
            y, after = ssd_step(x_g[:, 0], delta_g[:, 0], A_g, B_g[:, 0], C_g[:, 0], state_g)
            y = y.unsqueeze(1)  # (B, 1, h / groups, p)
        else:
            y, after = ssd_carry(x_g, delta_g, A_g, B_g, C_g, state_g)
        outputs.append(y)
        states.append(after)
    return torch.cat(outputs, dim=2), torch.cat(states, dim=1)
