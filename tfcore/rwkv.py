"""RWKV-4: a language model that is trained like a Transformer and runs like a recurrent network."""

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
from tfcore.wkv import WKVState, wkv_carry, wkv_step


@dataclass(frozen=True)
class RWKVConfig:
    """The sizes of an RWKV-4 model.

    Args:
        vocab_size: V, tokens that the model knows.
        d_model: width of the residual stream.
        num_layers: blocks.
        d_attention: channels of the time mixing; d_model when None.
        d_ff: inner width of the channel mixing; 4 d_model when None.
        norm_eps: added to the variance in every norm but the last, which has 1e-5.
        tied: whether the head uses the matrix of the token embedding.

    Raises:
        ValueError: a size below 1.

    From: Peng et al. (2023), *RWKV: Reinventing RNNs for the Transformer Era*.

    >>> RWKVConfig(vocab_size=100, d_model=12, num_layers=2).ff_width
    48
    """

    vocab_size: int
    d_model: int
    num_layers: int
    d_attention: int | None = None
    d_ff: int | None = None
    norm_eps: float = 1e-5
    tied: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "d_model", "num_layers", "d_attention", "d_ff")

    @property
    def attention_width(self) -> int:
        """Return the channels of the time mixing."""
        return self.d_model if self.d_attention is None else self.d_attention

    @property
    def ff_width(self) -> int:
        """Return the inner width of the channel mixing."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff


class RWKVState(NamedTuple):
    """The state of one block: all that it keeps of the past.

    Attributes:
        time_token: last input of the time mixing, (B, d_model).
        channel_token: last input of the channel mixing, (B, d_model).
        numerator: of :class:`~tfcore.wkv.WKVState`, like the two that follow, (B, d_attention).
        denominator: likewise.
        peak: likewise.

    >>> model = RWKV(RWKVConfig(vocab_size=11, d_model=6, num_layers=2, d_attention=10))
    >>> state = model.new_cache(batch=3).layers[0]
    >>> print(state.time_token.shape, state.numerator.shape, state.peak[0, 0])
    torch.Size([3, 6]) torch.Size([3, 10]) tensor(-inf)
    """

    time_token: Float[Tensor, "B d"]
    channel_token: Float[Tensor, "B d"]
    numerator: Float[Tensor, "B d_attention"]
    denominator: Float[Tensor, "B d_attention"]
    peak: Float[Tensor, "B d_attention"]


class RWKV(StateModel):
    """Predict the next token with a state of fixed size in place of a cache that grows.

    Some programs halve the stream every few blocks, and weights in memory with it, so that float16 does not
    overflow. The norms undo that, but for their eps. It is left out here, so the numbers are the same as in
    training.

    Args:
        config: the sizes.

    From: Peng et al. (2023), *RWKV: Reinventing RNNs for the Transformer Era*.

    >>> model = RWKV(RWKVConfig(vocab_size=11, d_model=8, num_layers=2))
    >>> cache = model.new_cache(batch=3)
    >>> print(model(torch.zeros(3, 5, dtype=torch.long), cache).shape, cache.length)
    torch.Size([3, 5, 11]) 5
    """

    def __init__(self, config: RWKVConfig) -> None:
        super().__init__(
            config,
            block=lambda layer: Block(config, layer),
            state=RWKVState,
            norm_final=nn.LayerNorm(config.d_model),
            norm_embedding=nn.LayerNorm(config.d_model, config.norm_eps),
        )

    def new_cache(self, batch: int, max_len: int | None = None) -> StateCache:
        """Make the state before the first token of ``batch`` texts; ``max_len`` does not limit it."""
        token = self.embedding.weight.new_zeros(batch, self.config.d_model)
        key = token.new_zeros(batch, self.config.attention_width)
        layers = (RWKVState(token.clone(), token.clone(), *WKVState.empty(key)) for _ in self.blocks)
        return StateCache(list(layers))


class Block(nn.Module):
    """Mix over time, then over channels, each added to the stream.

    >>> config, x = RWKVConfig(vocab_size=11, d_model=6, num_layers=1), torch.randn(2, 5, 6)
    >>> block, start = Block(config, layer=0), RWKV(config).new_cache(batch=2).layers[0]
    >>> first, state = block(x[:, :3], start)
    >>> rest, _ = block(x[:, 3:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), block(x, start)[0], atol=1e-5)
    True
    """

    def __init__(self, config: RWKVConfig, layer: int) -> None:
        super().__init__()
        self.norm_time = nn.LayerNorm(config.d_model, config.norm_eps)
        self.norm_channel = nn.LayerNorm(config.d_model, config.norm_eps)
        self.time_mixing = TimeMixing(config, layer)
        self.channel_mixing = ChannelMixing(config, layer)

    def forward(self, x: Float[Tensor, "B T d"], state: RWKVState) -> tuple[Tensor, RWKVState]:
        """Go on from a state with T more tokens, (B, T, d_model); return the next state as well."""
        time_input = self.norm_time(x)
        mixed, sums = self.time_mixing(time_input, state.time_token, WKVState(*state[2:]))
        x = x + mixed
        channel_input = self.norm_channel(x)
        x = x + self.channel_mixing(channel_input, state.channel_token)
        return x, RWKVState(time_input[:, -1].clone(), channel_input[:, -1].clone(), *sums)


class TimeMixing(nn.Module):
    r"""Let each token read the past by ``wkv``, through a gate.

    $o = W_o (\sigma(r) \odot \operatorname{wkv}(e^{\lambda}, u, k, v))$, where r, k and v are projections of
    the token mixed with the one before it, and $\lambda$ is ``log_decay``.

    From: Peng et al. (2023), *RWKV*, time mixing.

    >>> config = RWKVConfig(vocab_size=11, d_model=6, num_layers=2, d_attention=10)
    >>> mixing = TimeMixing(config, layer=0)
    >>> start = WKVState.empty(torch.zeros(3, 10))
    >>> mixed, sums = mixing(torch.randn(3, 5, 6), last=torch.zeros(3, 6), sums=start)
    >>> print(mixed.shape, sums.numerator.shape)
    torch.Size([3, 5, 6]) torch.Size([3, 10])
    """

    def __init__(self, config: RWKVConfig, layer: int) -> None:
        super().__init__()
        d, d_attention = config.d_model, config.attention_width
        depth, share = layer / max(config.num_layers - 1, 1), 1 - layer / config.num_layers
        channel, place = torch.arange(d) / d, torch.arange(d_attention) / max(d_attention - 1, 1)
        self.log_decay = nn.Parameter(-5 + 8 * place ** (0.7 + 1.3 * depth))
        self.bonus = nn.Parameter(math.log(0.3) + 0.5 * ((torch.arange(d_attention) + 1) % 3 - 1))
        self.mix_r = nn.Parameter(channel ** (0.5 * share))
        self.mix_k = nn.Parameter(channel**share)
        self.mix_v = nn.Parameter(channel**share + 0.3 * depth)
        self.W_r = nn.Linear(d, d_attention, bias=False)
        self.W_k = nn.Linear(d, d_attention, bias=False)
        self.W_v = nn.Linear(d, d_attention, bias=False)
        self.W_o = nn.Linear(d_attention, d, bias=False)

    def forward(
        self, x: Float[Tensor, "B T d"], last: Float[Tensor, "B d"], sums: WKVState
    ) -> tuple[Float[Tensor, "B T d"], WKVState]:
        """Mix each token with those before it, by ``wkv``, or by one step of it where T is 1.

        Args:
            x: the tokens, (B, T, d_model).
            last: the token before them, (B, d_model).
            sums: the sums of ``wkv`` over all tokens before them, (B, d_attention) each.

        Returns:
            (B, T, d_model), and the sums after the last token.
        """
        before = shift(x, last)  # (B, T, d_model)
        gate = torch.sigmoid(self.W_r(mix(x, before, self.mix_r)))  # (B, T, d_attention)
        k = self.W_k(mix(x, before, self.mix_k))  # (B, T, d_attention)
        v = self.W_v(mix(x, before, self.mix_v))
        w = torch.exp(self.log_decay.to(wide(x.dtype)))
        if x.shape[1] == 1:
            average, sums = wkv_step(w, self.bonus, k[:, 0], v[:, 0], sums)
            average = average.unsqueeze(1)  # (B, 1, d_attention)
        else:
            average, sums = wkv_carry(w, self.bonus, k, v, sums)
        return self.W_o(gate * average), sums


class ChannelMixing(nn.Module):
    r"""Work on each token alone, but for the mixing with the token before it.

    $o = \sigma(W_r x_r) \odot W_v \max(0, W_k x_k)^2$.

    From: Peng et al. (2023), *RWKV*, channel mixing.

    >>> mixing = ChannelMixing(RWKVConfig(vocab_size=11, d_model=6, num_layers=2), layer=1)
    >>> x = torch.randn(3, 5, 6)  # the last token is enough to go on
    >>> whole = mixing(x, last=torch.zeros(3, 6))
    >>> torch.allclose(mixing(x[:, 2:], last=x[:, 1]), whole[:, 2:], atol=1e-5)
    True
    """

    def __init__(self, config: RWKVConfig, layer: int) -> None:
        super().__init__()
        d, d_ff = config.d_model, config.ff_width
        share = 1 - layer / config.num_layers
        self.mix_r = nn.Parameter((torch.arange(d) / d) ** share)
        self.mix_k = nn.Parameter((torch.arange(d) / d) ** share)
        self.W_r = nn.Linear(d, d, bias=False)
        self.W_k = nn.Linear(d, d_ff, bias=False)
        self.W_v = nn.Linear(d_ff, d, bias=False)

    def forward(self, x: Float[Tensor, "B T d"], last: Float[Tensor, "B d"]) -> Float[Tensor, "B T d"]:
        """Work on tokens, (B, T, d_model); the first is mixed with ``last``, (B, d_model)."""
        before = shift(x, last)  # (B, T, d_model)
        gate = torch.sigmoid(self.W_r(mix(x, before, self.mix_r)))  # (B, T, d_model)
        hidden = F.relu(self.W_k(mix(x, before, self.mix_k))) ** 2  # (B, T, d_ff)
        return gate * self.W_v(hidden)


def shift(x: Float[Tensor, "B T d"], last: Float[Tensor, "B d"]) -> Float[Tensor, "B T d"]:
    """Replace each token by the token before it, and the first token by ``last``.

    >>> print(shift(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[7.0]])).flatten())
    tensor([7., 1.])
    """
    return torch.cat([last.unsqueeze(1), x[:, :-1]], dim=1)


def mix(
    x: Float[Tensor, "B T d"], before: Float[Tensor, "B T d"], share: Float[Tensor, " d"]
) -> Float[Tensor, "B T d"]:
    """Take a learned share of each channel from the token, and the rest from the token before it.

    >>> print(mix(torch.tensor([1.0]), torch.tensor([5.0]), torch.tensor([0.75])))
    tensor([2.])
    """
    return share * x + (1 - share) * before
