"""Generation from a source: an encoder-decoder that has read it is a language model of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.cache import Cache
from tfcore.generate.beam import beam_search
from tfcore.generate.loop import generate

if TYPE_CHECKING:
    from tfcore.models import EncoderDecoder


class Conditioned:
    r"""An encoder-decoder that has read its source: to generation, a model of the target alone.

    $p(y_{t+1} \mid y_{\le t}, x)$ for one x, which is encoded once, and projected once for each layer's
    cross-attention.

    Args:
        model: the encoder-decoder.
        source: token ids, (B, T_s).
        source_padding: True at the source's real tokens, (B, T_s).

    From: Vaswani et al. (2017), *Attention Is All You Need*, section 3.1.

    >>> from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig
    >>> from tfcore.models import EncoderDecoder
    >>> block = BlockConfig(AttentionConfig(12, num_heads=3), d_ff=48)
    >>> stack = ModelConfig(50, num_layers=2, block=block)
    >>> model = EncoderDecoder(EncoderDecoderConfig(stack, stack))
    >>> model = Conditioned(model, torch.tensor([[7, 1, 4]]))
    >>> print(generate(model, torch.tensor([[0]]), max_new_tokens=5).shape)
    torch.Size([1, 6])
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Int[Tensor, "B T_s"],
        source_padding: Bool[Tensor, "B T_s"] | None = None,
    ) -> None:
        self.model, self.new_cache, self.batch = model, model.new_cache, len(source)
        self._memory = model.memory(model.encode(source, source_padding))
        self._padding = source_padding
        self._repeat(1)

    def __call__(
        self,
        tokens: Int[Tensor, "B_texts T"],
        cache: Cache | None = None,
        padding: Bool[Tensor, "B_texts T"] | None = None,
    ) -> Float[Tensor, "B_texts T V"]:
        """Compute the logits; the texts of one source (beam search has several) are neighbouring rows."""
        if len(tokens) != self.batch * self.copies:
            self._repeat(len(tokens) // self.batch)
        return self.model.decode(tokens, self.memory, self.source_padding, padding, cache)

    def _repeat(self, copies: int) -> None:
        """Give each text of a source its own copy of the memory that it attends to."""

        def repeat(x: Tensor) -> Tensor:
            return x if copies == 1 else x.repeat_interleave(copies, dim=0)

        self.copies = copies
        self.memory = [(repeat(k), repeat(v)) for k, v in self._memory]
        self.source_padding = None if self._padding is None else repeat(self._padding)


def translate(
    model: EncoderDecoder,
    source: Int[Tensor, "B T_s"],
    bos: int,
    max_new_tokens: int,
    source_padding: Bool[Tensor, "B T_s"] | None = None,
    eos: int | None = None,
    pad: int | None = None,
    *,
    beams: int = 1,
    length_penalty: float = 1.0,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Int[Tensor, "B max_new_tokens"]:
    r"""Write the target of a source: greedily, by draws, or by beam search.

    $y_{t+1} = \arg\max_v z_{t,v}$, a draw from $\text{softmax}(z_t / \tau)$, or the y of the highest score.

    Args:
        model: the encoder-decoder.
        source: token ids, (B, T_s).
        bos: the token that begins a target; it is not part of the result.
        max_new_tokens: tokens to write at most.
        source_padding: True at the source's real tokens, (B, T_s).
        eos: the token that ends a target; None for targets that are all of one length.
        pad: the token written after ``eos``; ``eos`` itself when None.
        beams: texts to keep in :func:`tfcore.generate.beam_search`; without it when 1.
        length_penalty: see there.
        temperature: see :func:`tfcore.generate.generate`, as for the rest.
        generator: source of the draws.
        top_k: draw from the k likeliest alone.
        top_p: draw from the likeliest that make up this probability.

    Returns:
        The targets, (B, max_new_tokens).

    Raises:
        ValueError: arguments that do not fit.

    From: Sutskever, Vinyals and Le (2014), *Sequence to Sequence Learning with Neural Networks* (beams);
    Vaswani et al. (2017), *Attention Is All You Need*.

    >>> from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig
    >>> from tfcore.models import EncoderDecoder
    >>> block = BlockConfig(AttentionConfig(12, num_heads=3), d_ff=48)
    >>> stack = ModelConfig(50, num_layers=2, block=block)
    >>> model = EncoderDecoder(EncoderDecoderConfig(stack, stack))
    >>> print(translate(model, torch.tensor([[7, 1, 4]]), bos=0, max_new_tokens=5, beams=3).shape)
    torch.Size([1, 5])
    """
    if beams < 1:
        raise ValueError(f"expected 1 beam or more, got {beams}; 1 writes without a search")
    if beams > 1 and temperature > 0:
        raise ValueError(
            f"expected beams or a temperature, got {beams} and {temperature}; beam search draws nothing"
        )
    with torch.inference_mode():
        conditioned = Conditioned(model, source, source_padding)
    start = source.new_full((len(source), 1), bos)
    if beams > 1:
        texts, _ = beam_search(conditioned, start, beams, max_new_tokens, length_penalty, eos, pad)
        return texts[:, 0, 1:]
    texts = generate(conditioned, start, max_new_tokens, temperature, generator, None, top_k, top_p, eos, pad)
    return texts[:, 1:]
