"""Read a model: its maps, its states as if each were the last, and what each part adds to a logit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfcore.interventions.edits import record
from tfcore.interventions.places import self_attention_layers
from tfcore.models import Decoder


def attention_maps(model: nn.Module, *inputs: Any, **options: Any) -> Float[Tensor, "layers B H T_q T_k"]:
    r"""Run a model and return the weights of its self-attention.

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

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> print(attention_maps(Decoder(preset("gpt2-tiny")), torch.tensor([[7, 1]])).shape)
    torch.Size([2, 1, 4, 2, 2])
    """
    with torch.no_grad(), ExitStack() as undo:
        seen = [undo.enter_context(record(layer, "weights")) for layer in self_attention_layers(model)]
        model(*inputs, **options)
    return torch.stack([maps["weights"] for maps in seen])


def logit_lens(model: Decoder, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "states B T V"]:
    r"""Read every state of the stream as if it were the last.

    $\text{head}(\text{norm}(x^{(l)}))$ for l = 0 ... L.

    Args:
        model: a decoder.
        tokens: ids, (B, T).

    Returns:
        Logits of each state, (L + 1, B, T, V); the last are the model's own.

    From: nostalgebraist (2020), *Interpreting GPT: the logit lens*.

    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> model, tokens = Decoder(preset("gpt2-tiny")), torch.tensor([[7, 1, 4]])
    >>> torch.allclose(logit_lens(model, tokens)[-1], model(tokens))
    True
    """
    with torch.no_grad(), record(model, "stream.*") as seen:
        model(tokens)
        norm = model.stack.final_norm or nn.Identity()
        return torch.stack([model.head(norm(x)) for x in seen.values()])


@dataclass(frozen=True)
class DirectEffect:
    """The contribution of each part of a decoder to a logit of the last place, through the final norm.

    Args:
        embedding: of the embeddings, (B,).
        heads: of each head, (L, B, H).
        ffn: of each feed-forward network, (L, B).
        bias: of the biases of $W_o$, the final norm and the head, (B,).
    """

    embedding: Float[Tensor, " B"]
    heads: Float[Tensor, "L B H"]
    ffn: Float[Tensor, "L B"]
    bias: Float[Tensor, " B"]

    def total(self) -> Float[Tensor, " B"]:
        """Add up all parts: the logit."""
        return self.embedding + self.heads.sum(dim=(0, 2)) + self.ffn.sum(dim=0) + self.bias


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@torch.no_grad()
def direct_effect(model: Decoder, tokens: Int[Tensor, "B T"], target: Int[Tensor, " B"]) -> DirectEffect:
    r"""Divide the logit of a token among the parts that write into the stream of the last place.

    $z_t = \sum_i \frac{\gamma \odot c_i}{\sigma(x^{(L)})} \cdot u_t$ plus biases, for $x^{(L)} = \sum_i c_i$;
    $u_t$ is the token's row of the head; for a LayerNorm each $c_i$ is centered. What a part does to
    later parts is not in it.

    Args:
        model: a decoder with pre-norm blocks.
        tokens: ids, (B, T).
        target: the token whose logit is divided, (B,).

    Returns:
        The contributions; they add up to the logit of the model in evaluation mode.

    Raises:
        ValueError: a model with norms after its sublayers, without a final norm, with a cap on logits, or
            with blocks without attention.

    From: Elhage et al. (2021), *A Mathematical Framework for Transformer Circuits*.

    >>> from tfcore.models.presets import preset
    >>> model = Decoder(preset("gpt2-tiny"))
    >>> tokens, target = torch.tensor([[7, 1, 4]]), torch.tensor([3])
    >>> effect = direct_effect(model, tokens, target)
    >>> torch.allclose(effect.total(), model(tokens)[:, -1, 3], atol=1e-5)
    True
    """
    norm: Any = model.stack.final_norm
    layers = self_attention_layers(model)
    only_attention = len(layers) == model.config.num_layers
    pre_norm = norm is not None and model.config.block.norm_place == "pre"
    if not (only_attention and pre_norm and model.config.logit_softcap is None):
        raise ValueError(
            "expected a model with pre-norm blocks of attention, a final norm and logits without a cap, got "
            "another"
        )
    names = ("stream.0", f"stream.{len(layers)}", "blocks.*.attention.heads", "blocks.*.ffn.output")
    with record(model, *names) as seen, _without_dropout(model):
        model(tokens)
    x = seen[names[1]][:, -1]  # (B, d_model)
    centers = model.config.block.norm == "layer"
    spread = x - x.mean(dim=-1, keepdim=True) if centers else x
    sigma = (spread.square().mean(dim=-1) + norm.eps).sqrt()  # (B,)
    gain = norm.weight + (model.config.block.norm == "rms_plus_one")
    direction = model.head.linear.weight[target] * gain * model.head.scale  # (B, d_model)
    if centers:
        direction = direction - direction.mean(dim=-1, keepdim=True)  # the same as centering each part

    def effect(parts: Float[Tensor, "*n B d_model"]) -> Float[Tensor, "*n B"]:
        return (parts * direction).sum(dim=-1) / sigma

    heads, ffn, bias = [], [], torch.zeros_like(x)
    for layer, attention_layer in enumerate(layers):
        said = seen[f"blocks.{layer}.attention.heads"][:, :, -1]  # (B, H, d_head)
        W_o = attention_layer.W_o.weight.unflatten(1, said.shape[1:])  # (d_model, H, d_head)
        heads.append(effect(torch.einsum("bhk,dhk->hbd", said, W_o)).T)  # (B, H)
        ffn.append(effect(seen[f"blocks.{layer}.ffn.output"][:, -1]))
        if attention_layer.W_o.bias is not None:
            bias = bias + attention_layer.W_o.bias
    of_biases = effect(bias)
    if getattr(norm, "bias", None) is not None:
        of_biases = of_biases + model.head.linear.weight[target] @ norm.bias * model.head.scale
    if model.head.linear.bias is not None:
        of_biases = of_biases + model.head.linear.bias[target]
    return DirectEffect(effect(seen["stream.0"][:, -1]), torch.stack(heads), torch.stack(ffn), of_biases)
