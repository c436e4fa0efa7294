"""Look into a model: the map of every head, and the change of the loss when a head is silenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfcore.layers import MultiHeadAttention
from tfcore.models.encoder_decoder import EncoderDecoder


def attention_maps(model: nn.Module, *inputs: Any, **options: Any) -> Float[Tensor, "layers B H T_q T_k"]:
    r"""Run a model and keep the weights of its self-attention.

    $A^{(l,h)}_{ij} = \text{softmax}_j(s \, q_i \cdot k_j)$ of layer l and head h.

    Args:
        model: an encoder or a decoder; of an encoder-decoder, one of its two stacks.
        inputs: the arguments of the model.
        options: the same, by name: a decoder's stack is called with its ``memory``.

    Returns:
        The weights of all layers, (layers, B, H, T_q, T_k), without gradient.

    Raises:
        ValueError: a model without attention layers, or with two stacks of them.

    From: Clark et al. (2019), *What Does BERT Look At?*

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> from tfcore.models import Decoder
    >>> block = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)
    >>> print(attention_maps(Decoder(ModelConfig(50, 2, block)), torch.tensor([[7, 1]])).shape)
    torch.Size([2, 1, 3, 2, 2])
    """
    layers = self_attention_layers(model)
    try:
        for layer in layers:
            layer.keep_weights = True
        with torch.no_grad():
            model(*inputs, **options)
        return torch.stack([layer.weights for layer in layers if layer.weights is not None])
    finally:
        for layer in layers:
            layer.keep_weights, layer.weights = False, None


@contextmanager
def silence_heads(model: nn.Module, heads: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Take the output of some heads out of the stream while the context lasts.

    A silenced head adds nothing: its slice of the input of ``W_o`` is zero.

    Args:
        model: an encoder or a decoder.
        heads: pairs of layer and head.

    Raises:
        ValueError: a layer or a head that is not there.

    From: Michel, Levy and Neubig (2019), *Are Sixteen Heads Really Better than One?*

    >>> from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
    >>> from tfcore.models import Decoder
    >>> model = Decoder(ModelConfig(50, 2, BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=48)))
    >>> before = model(torch.tensor([[7, 1]]))
    >>> with silence_heads(model, [(0, 2)]):
    ...     print(torch.equal(model(torch.tensor([[7, 1]])), before))
    False
    """
    layers = self_attention_layers(model)
    with ExitStack() as hooks:
        for index, head in heads:
            if not (0 <= index < len(layers) and 0 <= head < layers[index].config.num_heads):
                raise ValueError(
                    f"expected a layer below {len(layers)} and a head below {layers[0].config.num_heads}, "
                    f"got layer {index}, head {head}; both count from 0"
                )
            width = layers[index].config.width
            slot = slice(head * width, (head + 1) * width)
            handle = layers[index].W_o.register_forward_pre_hook(_zero(slot))
            hooks.callback(handle.remove)
        yield


def self_attention_layers(model: nn.Module) -> list[MultiHeadAttention]:
    """List the self-attention layers of a model, first to last.

    Raises:
        ValueError: a model without attention layers, or with two stacks of them.

    >>> from tfcore.models.presets import t5
    >>> model = EncoderDecoder(t5(12, 3, 2, d_ff=32, d_head=4, vocab_size=50))
    >>> len(self_attention_layers(model.decoder))  # beside as many that attend to the encoder
    2
    """
    if isinstance(model, EncoderDecoder):
        raise ValueError("expected one stack, got an EncoderDecoder; look into its encoder or its decoder")
    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention) and not name.endswith("cross_attention")
    ]
    if not layers:
        raise ValueError(f"expected a model with attention layers, got {type(model).__name__} without any")
    return layers


def _zero(slot: slice) -> Any:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        x = inputs[0].clone()
        x[..., slot] = 0
        return x

    return hook
