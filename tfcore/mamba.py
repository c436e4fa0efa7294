"""Mamba: a language model of selective state spaces, without attention."""

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
from tfcore.selective_scan import selective_scan_carry, selective_scan_step
from tfcore.state_cache import StateCache
from tfcore.state_model import StateModel


@dataclass(frozen=True)
class MambaConfig:
    """The sizes of a Mamba-1 model.

    Args:
        vocab_size: V, tokens that the model knows.
        d_model: width of the residual stream.
        num_layers: blocks.
        d_state: N, memories per channel.
        d_conv: tokens that the convolution sees, the token itself included.
        expand: channels of a block for each of d_model.
        dt_rank: width that the step sizes are computed from; d_model / 16, rounded up, when None.
        bias: whether the first and the last projection of a block add a bias.
        conv_bias: whether the convolution does.
        norm_eps: added to the mean square in the norms.
        tied: whether the head uses the matrix of the token embedding.

    Raises:
        ValueError: a size below 1.

    From: Gu and Dao (2023), *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*.

    >>> config = MambaConfig(vocab_size=100, d_model=40, num_layers=2)
    >>> print(config.d_inner, config.rank)
    80 3
    """

    vocab_size: int
    d_model: int
    num_layers: int
    d_state: int = 16
    d_conv: int = 4
    expand: int = 2
    dt_rank: int | None = None
    bias: bool = False
    conv_bias: bool = True
    norm_eps: float = 1e-5
    tied: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "d_model", "num_layers", "d_state", "d_conv", "expand", "dt_rank")

    @property
    def d_inner(self) -> int:
        """Return the channels of a block."""
        return self.expand * self.d_model

    @property
    def rank(self) -> int:
        """Return the width that the step sizes are computed from."""
        return math.ceil(self.d_model / 16) if self.dt_rank is None else self.dt_rank


class MambaState(NamedTuple):
    """The state of one block: all that it keeps of the past.

    Attributes:
        window: the last inputs of the convolution, oldest first, (B, d_inner, d_conv - 1).
        memory: state of the selective scan, float32 or wider, (B, d_inner, N).

    >>> model = Mamba(MambaConfig(vocab_size=11, d_model=6, num_layers=2, d_state=5))
    >>> state = model.new_cache(batch=3).layers[0]
    >>> print(state.window.shape, state.memory.shape)
    torch.Size([3, 12, 3]) torch.Size([3, 12, 5])
    """

    window: Float[Tensor, "B d_inner K"]
    memory: Float[Tensor, "B d_inner N"]


class Mamba(StateModel):
    """Predict the next token with a state of fixed size in place of a cache that grows.

    Args:
        config: the sizes.

    From: Gu and Dao (2023), *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*, figure 3.

    >>> model = Mamba(MambaConfig(vocab_size=11, d_model=8, num_layers=2))
    >>> cache = model.new_cache(batch=3)
    >>> print(model(torch.zeros(3, 5, dtype=torch.long), cache).shape, cache.length)
    torch.Size([3, 5, 11]) 5
    """

    def __init__(self, config: MambaConfig) -> None:
        super().__init__(
            config,
            block=lambda layer: Block(config),
            state=MambaState,
            norm_final=nn.RMSNorm(config.d_model, config.norm_eps),
        )

    def new_cache(self, batch: int, max_len: int | None = None) -> StateCache:
        """Make the state before the first token of ``batch`` texts; ``max_len`` does not limit it."""
        weight, config = self.embedding.weight, self.config
        window = weight.new_zeros(batch, config.d_inner, config.d_conv - 1)
        memory = weight.new_zeros(batch, config.d_inner, config.d_state, dtype=wide(weight.dtype))
        return StateCache([MambaState(window.clone(), memory.clone()) for _ in self.blocks])


class Block(nn.Module):
    """Norm, mix over time, add to the stream; a block has no feed-forward network.

    >>> config, x = MambaConfig(vocab_size=11, d_model=6, num_layers=1), torch.randn(2, 5, 6)
    >>> block, start = Block(config), Mamba(config).new_cache(batch=2).layers[0]
    >>> first, state = block(x[:, :3], start)
    >>> rest, _ = block(x[:, 3:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), block(x, start)[0], atol=1e-5)
    True
    """

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mixer = Mixer(config)

    def forward(self, x: Float[Tensor, "B T d"], state: MambaState) -> tuple[Tensor, MambaState]:
        """Add to the stream, (B, T, d_model), the output of the mixer; return the next state as well."""
        mixed, state = self.mixer(self.norm(x), state)
        return x + mixed, state


class Mixer(nn.Module):
    r"""Let each token choose what to remember and what to read, and gate the output.

    $x', z = W_{in} x; \; u = \operatorname{SiLU}(\operatorname{conv}(x')); \; \delta, B, C = W_x u; \;
    \Delta = \operatorname{softplus}(W_{dt} \delta + b); \;
    y = W_{out} \, (\operatorname{scan}(u, \Delta, A, B, C, D) \odot \operatorname{SiLU}(z))$.

    The projections are named as in the authors' code; A is $-e^{\text{A\_log}}$, so that every memory decays.

    From: Gu and Dao (2023), *Mamba*, section 3.4 and algorithm 2.

    >>> config = MambaConfig(vocab_size=11, d_model=6, num_layers=1)
    >>> steps = F.softplus(Mixer(config).dt_proj.bias)  # before a token changes them
    >>> print(steps.shape, bool(((steps > 0.0009) & (steps < 0.11)).all()))
    torch.Size([12]) True
    """

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        d_inner, N, rank = config.d_inner, config.d_state, config.rank
        self.in_proj = nn.Linear(config.d_model, 2 * d_inner, bias=config.bias)
        self.conv = nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner, bias=config.conv_bias)
        self.x_proj = nn.Linear(d_inner, rank + 2 * N, bias=False)
        self.dt_proj = nn.Linear(rank, d_inner)
        self.A_log = nn.Parameter(torch.arange(1.0, N + 1).log().repeat(d_inner, 1))
        self.D = nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, config.d_model, bias=config.bias)
        with torch.no_grad():  # steps from 0.001 to 0.1, equally many in each decade
            step = torch.empty(d_inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
            self.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))  # what softplus maps to step
            self.dt_proj.weight.uniform_(-(rank**-0.5), rank**-0.5)

    def forward(self, x: Float[Tensor, "B T d"], state: MambaState) -> tuple[Tensor, MambaState]:
        """Go on from a state with T more tokens, (B, T, d_model): by a scan, or by one step where T is 1.

        Returns:
            The mixed tokens, (B, T, d_model), and the state after the last.
        """
        T = x.shape[1]
        inputs, gate = self.in_proj(x).chunk(2, dim=-1)  # (B, T, d_inner) each
        padded = torch.cat([state.window, inputs.mT], dim=-1)  # (B, d_inner, d_conv - 1 + T)
        u = F.silu(self.conv(padded)).mT  # (B, T, d_inner)
        window = padded[..., T:].clone()  # a view would keep all T

        N, rank = self.A_log.shape[1], self.dt_proj.in_features
        dt, B, C = self.x_proj(u).split([rank, N, N], dim=-1)  # (B, T, rank), (B, T, N), (B, T, N)
        delta = F.softplus(self.dt_proj(dt).to(wide(x.dtype)))  # (B, T, d_inner)
        A = -torch.exp(self.A_log.to(wide(x.dtype)))  # (d_inner, N)
        if T == 1:
            y, memory = selective_scan_step(u[:, 0], delta[:, 0], A, B[:, 0], C[:, 0], self.D, state.memory)
            y = y.unsqueeze(1)  # (B, 1, d_inner)
        else:
            y, memory = selective_scan_carry(u, delta, A, B, C, self.D, state.memory)
        return self.out_proj(y * F.silu(gate)), MambaState(window, memory)
