"""Translation with one fixed context, or with a context that is computed for each token.

Everything but the context is the same in both models, so it explains any difference in what they learn.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.recurrent import GRU, AdditiveAttention, Attend, check_padding


class StaticContext:
    r"""Return the value of the last token that may be seen, for any query.

    $c = v_{\text{last}}$: attention with a fixed weight of 1 on one token. It has no parameters.

    From: Sutskever, Vinyals and Le (2014), *Sequence to Sequence Learning with Neural Networks*; Cho et al.
    (2014), *Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation*.

    >>> values = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> attend = StaticContext().prepare(values, values, mask=torch.tensor([[True, True, False]]))
    >>> print(attend(torch.zeros(1, 1)))
    (tensor([[2.]]), tensor([[0., 1., 0.]]))
    """

    def prepare(
        self,
        keys: Float[Tensor, "B T d_key"],
        values: Float[Tensor, "B T d_v"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Attend:
        """Work the context out once; the result, called with any query, returns it and its weights."""
        if mask is None:
            mask = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        check_padding(mask, values, name="mask")
        seen_from_here_on = mask.flip(1).cumsum(1).flip(1)  # (B, T): real tokens from here to the end
        last = mask & (seen_from_here_on == 1)
        context = torch.where(last.unsqueeze(-1), values, 0.0).sum(dim=1)  # (B, d_v)
        weights = last.to(torch.promote_types(values.dtype, torch.float32))
        return lambda query: (context, weights)


CONTEXTS: dict[str, Callable[[int], StaticContext | AdditiveAttention]] = {
    "static": lambda width: StaticContext(),
    "dynamic": lambda width: AdditiveAttention(width, width, width),
}


class Seq2Seq(nn.Module):
    r"""An encoder GRU reads the source, a decoder GRU writes the target with a context at each token.

    $s_t = \operatorname{GRU}([y_t; c_t], s_{t-1})$ with $c_t = \operatorname{context}(s_{t-1}, h)$, and the
    logits of the token after $y_t$ are linear in $[s_t; c_t]$. The encoder's states are h, the last is $s_0$.

    With ``"static"``, $c_t$ is the last state of the encoder for every t: the source, however long, has to
    fit into its width. With ``"dynamic"``, $c_t$ is a mean of all its states with weights for each t from
    additive attention: the room grows with the source. All else is the same. Under one seed both start from
    the same weights, because the weights of the attention are drawn last.

    Args:
        vocab_size: number of tokens, V, shared by source and target.
        d_hidden: width of embeddings and states.
        context: ``"static"`` or ``"dynamic"``.

    Raises:
        ValueError: another context.

    From: Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align and
    Translate*, here with an encoder that reads in one direction: a state knows its token and those before,
    so that the largest weight may fall on a neighbor of the token that is wanted.

    >>> model = Seq2Seq(vocab_size=9, d_hidden=8, context="dynamic")
    >>> source = torch.tensor([[3, 4, 5, 6]])
    >>> logits, weights = model(source, target=torch.tensor([[1, 6, 5]]), return_weights=True)
    >>> print(logits.shape, weights.shape)
    torch.Size([1, 3, 9]) torch.Size([1, 3, 4])
    """

    def __init__(self, vocab_size: int, d_hidden: int, context: str = "dynamic") -> None:
        super().__init__()
        if context not in CONTEXTS:
            raise ValueError(
                f"expected a context out of {', '.join(CONTEXTS)}, got {context!r}; name one of these"
            )
        self.vocab_size = vocab_size
        self.embed_source = nn.Embedding(vocab_size, d_hidden)
        self.embed_target = nn.Embedding(vocab_size, d_hidden)
        self.encoder = GRU(d_hidden, d_hidden)
        self.decoder = GRU(2 * d_hidden, d_hidden)
        self.readout = nn.Linear(2 * d_hidden, vocab_size)
        self.context = CONTEXTS[context](d_hidden)

    def forward(
        self,
        source: Int[Tensor, "B T_source"],
        target: Int[Tensor, "B T_target"],
        source_padding: Bool[Tensor, "B T_source"] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Predict each next token of a target that is known (teacher forcing).

        Args:
            source: the tokens to be translated, (B, T_source).
            target: the translation up to each token, (B, T_target): a token that begins it, then the
                translation without its last token. The logits at t have seen the tokens up to t.
            source_padding: True at real tokens of ``source``.
            return_weights: return the weights of the context too.

        Returns:
            The logits (B, T_target, V); or a tuple of them and the weights (B, T_target, T_source).

        Raises:
            ValueError: shapes or types that do not fit.
        """
        state, attend = self._encode(source, source_padding)
        _check_tokens("target", target, source.shape[0])
        features, weights = [], []
        for y in self.embed_target(target).unbind(dim=1):
            state, feature, weight = self._step(y, state, attend)
            features.append(feature)
            weights.append(weight)
        logits = self.readout(torch.stack(features, dim=1))  # (B, T_target, V)
        return (logits, torch.stack(weights, dim=1)) if return_weights else logits

    @torch.no_grad()
    def translate(
        self,
        source: Int[Tensor, "B T_source"],
        bos: int,
        max_len: int,
        source_padding: Bool[Tensor, "B T_source"] | None = None,
    ) -> Int[Tensor, "B max_len"]:
        """Write the likeliest token, read it back, and go on (greedy decoding).

        Args:
            source: the tokens to be translated, (B, T_source).
            bos: the token that begins a target; it is not part of the result.
            max_len: how many tokens to write. The caller finds the end of each target.
            source_padding: True at real tokens of ``source``.

        Returns:
            The tokens, (B, max_len). Their weights: ``model(source, target, return_weights=True)``.

        Raises:
            ValueError: shapes or types that do not fit, a bos outside the vocabulary, or a max_len below 1.
        """
        if not 0 <= bos < self.vocab_size:
            raise ValueError(f"expected a bos of 0 to {self.vocab_size - 1}, got {bos!r}; give a token")
        if max_len < 1:
            raise ValueError(f"expected max_len of 1 or more, got {max_len!r}; ask for one token at least")
        state, attend = self._encode(source, source_padding)
        token, tokens = source.new_full(source.shape[:1], bos), []
        for _ in range(max_len):
            state, feature, _ = self._step(self.embed_target(token), state, attend)
            token = self.readout(feature).argmax(dim=-1)
            tokens.append(token)
        return torch.stack(tokens, dim=1)

    def _encode(self, source: Tensor, source_padding: Tensor | None) -> tuple[Tensor, Attend]:
        _check_tokens("source", source)
        states, last = self.encoder(self.embed_source(source), padding=source_padding)
        return last, self.context.prepare(states, states, source_padding)

    def _step(self, y: Tensor, state: Tensor, attend: Attend) -> tuple[Tensor, Tensor, Tensor]:
        """Read one embedded target token; return the new state, the input of the readout, and the weights."""
        context, weights = attend(state[-1])  # (B, d_hidden), (B, T_source)
        _, state = self.decoder(torch.cat([y, context], dim=-1).unsqueeze(1), state)
        return state, torch.cat([state[-1], context], dim=-1), weights


def _check_tokens(name: str, tokens: Tensor, batch: int | None = None) -> None:
    if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.is_floating_point():
        raise ValueError(
            f"expected {name} (B, T) as whole numbers, at least one token long, got {tokens.dtype} "
            f"{tuple(tokens.shape)}; one sequence alone goes in as {name}[None]"
        )
    if batch is not None and tokens.shape[0] != batch:
        raise ValueError(f"expected one {name} per source, got {tokens.shape[0]} for {batch}; pair them")
