"""Recurrent networks from their equations, and the additive attention that first relieved them.

Products with the tokens are computed for all steps at once. Products with the state have to wait for the
step before: the Transformer does without that loop over time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Attend = Callable[[Tensor], tuple[Tensor, Tensor]]


class Recurrent(nn.Module):
    """Run one kind of step along the tokens, layer above layer; RNN, LSTM and GRU define the step.

    >>> class Sum(Recurrent):
    ...     num_gates = 1
    ...     step = staticmethod(lambda from_x, from_h, state: state + from_x)
    >>> network, x = Sum(3, 4), torch.randn(2, 5, 3)
    >>> torch.allclose(network(x)[1][0], network.W_x[0](x).sum(dim=1), atol=1e-5)
    True
    """

    num_gates: int
    state_width = 1  # in units of d_hidden; the first unit is what the layer above reads
    second_bias = False

    def __init__(self, d_in: int, d_hidden: int, num_layers: int = 1) -> None:
        super().__init__()
        for name, count in (("d_in", d_in), ("d_hidden", d_hidden), ("num_layers", num_layers)):
            if count < 1:
                raise ValueError(f"expected {name} of 1 or more, got {count!r}; give a positive whole number")
        self.d_in, self.d_hidden = d_in, d_hidden
        gates = self.num_gates * d_hidden
        below = [d_in] + [d_hidden] * (num_layers - 1)
        self.W_x = nn.ModuleList(nn.Linear(width, gates) for width in below)
        self.W_h = nn.ModuleList(nn.Linear(d_hidden, gates, bias=self.second_bias) for _ in below)

    @staticmethod
    def step(
        from_x: Float[Tensor, "B gates"], from_h: Float[Tensor, "B gates"], state: Float[Tensor, "B d_state"]
    ) -> Float[Tensor, "B d_state"]:
        """Make the next state from the state and the two inputs of the gates, from token and state."""
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_in"],
        state: Float[Tensor, "L B d_state"] | None = None,
        padding: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T d_hidden"], Float[Tensor, "L B d_state"]]:
        """Read the sequences.

        Args:
            x: the sequences, (B, T, d_in).
            state: the state of each layer before the first token; zeros when None.
            padding: True at real tokens, (B, T). At any other the state stays as it was, whatever ``x`` holds
                there, so that the last state is the one after the last real token.

        Returns:
            The output of the top layer at each token (B, T, d_hidden), and the last state of each layer
            (L, B, d_state), with which reading can go on.

        Raises:
            ValueError: shapes that do not fit, sequences without a token, or padding that is not boolean.
        """
        x, state = self._checked(x, state, padding)
        last = []
        for W_x, W_h, now in zip(self.W_x, self.W_h, state, strict=True):
            from_x = W_x(x)  # (B, T, gates), for all steps at once
            states = []
            for t in range(x.shape[1]):
                new = self.step(from_x[:, t], W_h(now[:, : self.d_hidden]), now)
                now = new if padding is None else torch.where(padding[:, t, None], new, now)
                states.append(now[:, : self.d_hidden])
            x = torch.stack(states, dim=1)  # (B, T, d_hidden), the input of the layer above
            last.append(now)
        return x, torch.stack(last)  # (B, T, d_hidden) and (L, B, d_state)

    def _checked(self, x: Tensor, state: Tensor | None, padding: Tensor | None) -> tuple[Tensor, Tensor]:
        if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != self.d_in:
            raise ValueError(
                f"expected x (B, T, {self.d_in}) with at least one token, got {tuple(x.shape)}; "
                "the batch comes first, and one sequence alone goes in as x[None]"
            )
        if padding is not None:
            check_padding(padding, x)
            x = x.masked_fill(~padding.unsqueeze(-1), 0.0)  # NaN there would come back in the gradients
        expected = (len(self.W_x), x.shape[0], self.state_width * self.d_hidden)
        if state is None:
            return x, x.new_zeros(expected)
        if tuple(state.shape) != expected:
            raise ValueError(
                f"expected a state (L, B, d_state) = {expected}, got {tuple(state.shape)}; "
                "pass the last state of an earlier call, or None to start from zeros"
            )
        return x, state


class RNN(Recurrent):
    r"""The simple recurrent network: everything read so far in one vector, rewritten at each token.

    $h_t = \tanh(W_x x_t + b + W_h h_{t-1})$.

    Args:
        d_in: width of the tokens.
        d_hidden: width of the state; ``d_state`` is the same.
        num_layers: layers, L, each reading the states of the one below.

    From: Elman (1990), *Finding Structure in Time*, Cognitive Science 14.

    >>> states, last = RNN(3, 4, num_layers=2)(torch.zeros(5, 7, 3))
    >>> print(states.shape, last.shape)
    torch.Size([5, 7, 4]) torch.Size([2, 5, 4])
    """

    num_gates = 1

    @staticmethod
    def step(from_x: Tensor, from_h: Tensor, state: Tensor) -> Tensor:
        """Rewrite the state, (B, d_hidden); ``from_x`` and ``from_h`` are as wide."""
        return torch.tanh(from_x + from_h)


class LSTM(Recurrent):
    r"""Long short-term memory: a cell c beside h that is added to, not rewritten.

    $c_t = f \odot c_{t-1} + i \odot g, \; h_t = o \odot \tanh(c_t)$, where $i, f, o = \sigma(\cdot)$ and
    $g = \tanh(\cdot)$ are each of the form $W_x x_t + b + W_h h_{t-1}$, their rows in the order i, f, g, o.

    From one cell to the next the gradient is multiplied by f, which can stay near 1, and not by a matrix.

    Args:
        d_in: width of the tokens.
        d_hidden: width of h and of c; the state holds both side by side, h first: ``d_state`` is twice that.
        num_layers: layers, L, each reading the h of the one below.

    From: Hochreiter and Schmidhuber (1997), *Long Short-Term Memory*, Neural Computation 9; Gers,
    Schmidhuber and Cummins (2000), *Learning to Forget: Continual Prediction with LSTM* (the gate f).

    >>> states, last = LSTM(3, 4)(torch.zeros(5, 7, 3))
    >>> h, c = last.chunk(2, dim=-1)
    >>> print(h.shape, torch.equal(h[0], states[:, -1]))
    torch.Size([1, 5, 4]) True
    """

    num_gates = 4
    state_width = 2

    @staticmethod
    def step(from_x: Tensor, from_h: Tensor, state: Tensor) -> Tensor:
        """Add to the cell and read h from it; gates are (B, 4 d_hidden), a state (B, 2 d_hidden), h first."""
        _, c = state.chunk(2, dim=-1)  # (B, d_hidden)
        i, f, g, o = (from_x + from_h).chunk(4, dim=-1)  # (B, d_hidden) each
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)


class GRU(Recurrent):
    r"""The gated recurrent unit: each component of the state decides how much of it to keep.

    $h_t = z \odot h_{t-1} + (1 - z) \odot n, \; n = \tanh(W_x x_t + b + r \odot (W_h h_{t-1} + b'))$, where
    $r, z = \sigma(W_x x_t + b + W_h h_{t-1} + b')$, the rows in the order r, z, n.

    The reset gate r multiplies after $W_h$, as in torch and cuDNN; in the paper it multiplies $h_{t-1}$.

    Args:
        d_in: width of the tokens.
        d_hidden: width of the state; ``d_state`` is the same.
        num_layers: layers, L, each reading the states of the one below.

    From: Cho et al. (2014), *Learning Phrase Representations using RNN Encoder-Decoder for Statistical
    Machine Translation*.

    >>> padding = torch.tensor([[True] * 7, [False] * 7])
    >>> states, last = GRU(3, 4)(torch.zeros(2, 7, 3), padding=padding)
    >>> print(last[0, 1])
    tensor([0., 0., 0., 0.], grad_fn=...)
    """

    num_gates = 3
    second_bias = True

    @staticmethod
    def step(from_x: Tensor, from_h: Tensor, state: Tensor) -> Tensor:
        """Keep a part of the state, (B, d_hidden), and renew the rest; gates are (B, 3 d_hidden)."""
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x.chunk(3, dim=-1), from_h.chunk(3, dim=-1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        return z * state + (1 - z) * torch.tanh(n_x + r * n_h)


class AdditiveAttention(nn.Module):
    r"""Weigh keys by a small network that sees each of them beside the query.

    $s_t = v \cdot \tanh(W_q q + W_k k_t)$, the weights are $a = \operatorname{softmax}(s)$ and the context is
    the sum of $a_t$ times the value at t.

    A query that may attend to nothing gets zero weights and a zero context. What a key or a value holds that
    the mask forbids, NaN included, changes neither output nor gradient.

    Args:
        d_query: width of the queries; in translation, of the state of the decoder.
        d_key: width of the keys; in translation, of the states of the encoder.
        d_attention: hidden units of the network that scores.

    From: Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align and
    Translate*.

    >>> keys = torch.randn(2, 7, 4)
    >>> context, weights = AdditiveAttention(3, 4, 5)(torch.randn(2, 3), keys, values=keys)
    >>> print(context.shape, weights.shape)
    torch.Size([2, 4]) torch.Size([2, 7])
    """

    def __init__(self, d_query: int, d_key: int, d_attention: int) -> None:
        super().__init__()
        self.W_q = nn.Linear(d_query, d_attention, bias=False)
        self.W_k = nn.Linear(d_key, d_attention, bias=False)
        self.v = nn.Linear(d_attention, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "B d_query"],
        keys: Float[Tensor, "B T d_key"],
        values: Float[Tensor, "B T d_v"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B d_v"], Float[Tensor, "B T"]]:
        """Attend with one query per sequence.

        Args:
            query: (B, d_query).
            keys: (B, T, d_key).
            values: (B, T, d_v).
            mask: (B, T), True = may attend: the padding mask of the keys goes in as it is.

        Returns:
            The context (B, d_v), and the weights (B, T) in float32 or wider.

        Raises:
            ValueError: shapes that do not fit, or a mask that is not boolean.
        """
        return self.prepare(keys, values, mask)(query)

    def prepare(
        self,
        keys: Float[Tensor, "B T d_key"],
        values: Float[Tensor, "B T d_v"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Attend:
        """Project the keys once, for all the queries to come; call the result with one query at a time."""
        if keys.ndim != 3 or keys.shape[-1] != self.W_k.in_features or values.shape[:-1] != keys.shape[:-1]:
            raise ValueError(
                f"expected keys (B, T, {self.W_k.in_features}) and values (B, T, d_v), got "
                f"{tuple(keys.shape)} and {tuple(values.shape)}; give each key its value"
            )
        if mask is None:
            mask = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        check_padding(mask, keys, name="mask")
        keys, values = (x.masked_fill(~mask.unsqueeze(-1), 0.0) for x in (keys, values))
        from_keys = self.W_k(keys)  # (B, T, d_attention), once for all queries

        def attend(query: Tensor) -> tuple[Tensor, Tensor]:
            if tuple(query.shape) != (keys.shape[0], self.W_q.in_features):
                raise ValueError(
                    f"expected query (B, d_query) = {(keys.shape[0], self.W_q.in_features)}, got "
                    f"{tuple(query.shape)}; give one query per sequence"
                )
            scores = self.v(torch.tanh(self.W_q(query).unsqueeze(1) + from_keys)).squeeze(-1)
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, dim=-1) * mask  # an empty row is uniform before the product
            context = weights.to(values.dtype).unsqueeze(1) @ values  # (B, 1, T) @ (B, T, d_v) = (B, 1, d_v)
            return context.squeeze(1), weights

        return attend


def check_padding(padding: Tensor, x: Tensor, name: str = "padding") -> None:
    """Raise ValueError unless there is one boolean for each token of ``x`` (B, T, ...).

    >>> check_padding(torch.ones(2, 5), torch.zeros(2, 5, 3))
    Traceback (most recent call last):
    ValueError: expected a boolean padding (B, T) = (2, 5), True at real tokens, got torch...
    """
    if padding.dtype != torch.bool or padding.shape != x.shape[:2]:
        raise ValueError(
            f"expected a boolean {name} (B, T) = {tuple(x.shape[:2])}, True at real tokens, got "
            f"{padding.dtype} {tuple(padding.shape)}; see tfcore.masks.padding_mask"
        )
