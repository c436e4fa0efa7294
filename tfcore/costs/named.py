"""Published models: their sizes, their published numbers of parameters, and the sources."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfcore.costs.architecture import Architecture


@dataclass(frozen=True)
class NamedModel:
    """A published model.

    Args:
        architecture: its sizes.
        published: the number of parameters as it is given with the weights, to about three digits; for GPT-3
            and Gemma as the paper gives it. (The paper on GPT-2 has all four numbers wrong.)
        source: key of the bibliography.

    >>> from tfcore.costs import model_parameters
    >>> gpt2 = MODELS["GPT-2 small"]
    >>> print(model_parameters(gpt2.architecture), gpt2.published, gpt2.source)
    124439808 124000000.0 radford2019language
    """

    architecture: Architecture
    published: float
    source: str


def _gpt(layers: int, width: int, heads: int, context: int = 1024) -> Architecture:
    return Architecture(layers, width, heads, 4 * width, 50257, context, learned_positions=True)


def _bert(layers: int, width: int, heads: int) -> Architecture:
    """Make an encoder without its training head; other: two segments, and the pooler."""
    other = 2 * width + width * width + width
    return Architecture(
        *(layers, width, heads, 4 * width, 30522, 512),
        learned_positions=True,
        head="none",
        other_parameters=other,
    )


def _t5(layers: int, width: int, heads: int, d_head: int, d_ff: int) -> Architecture:
    """Other: one bias for each of 32 distances and each head, in either stack."""
    return Architecture(
        *(layers, width, heads, d_ff, 32128, 512),
        d_head=d_head,
        bias=False,
        norm="rms",
        extra_norms=2,
        num_encoder_layers=layers,
        other_parameters=2 * 32 * heads,
    )


def _llama(
    layers: int, width: int, heads: int, kv_heads: int, d_ff: int, vocab: int, context: int
) -> Architecture:
    return Architecture(
        *(layers, width, heads, d_ff, vocab, context, kv_heads),
        bias=False,
        gated=True,
        norm="rms",
        head="own",
    )


_MISTRAL = _llama(32, 4096, 32, 8, 14336, 32000, 32768)

MODELS = {
    "GPT-2 small": NamedModel(_gpt(12, 768, 12), 124e6, "radford2019language"),
    "GPT-2 medium": NamedModel(_gpt(24, 1024, 16), 355e6, "radford2019language"),
    "GPT-2 large": NamedModel(_gpt(36, 1280, 20), 774e6, "radford2019language"),
    "GPT-2 XL": NamedModel(_gpt(48, 1600, 25), 1558e6, "radford2019language"),
    "GPT-3": NamedModel(_gpt(96, 12288, 96, 2048), 175e9, "brown2020language"),
    "BERT-base": NamedModel(_bert(12, 768, 12), 110e6, "devlin2019bert"),
    "BERT-large": NamedModel(_bert(24, 1024, 16), 336e6, "devlin2019bert"),
    "T5-base": NamedModel(_t5(12, 768, 12, 64, 3072), 223e6, "raffel2020exploring"),
    "T5-11B": NamedModel(_t5(24, 1024, 128, 128, 65536), 11.3e9, "raffel2020exploring"),
    "BLOOM-176B": NamedModel(
        Architecture(70, 14336, 112, 57344, 250880, 2048, extra_norms=2),
        176_247_271_424,
        "scao2022bloom",
    ),
    "Llama 2 7B": NamedModel(_llama(32, 4096, 32, 32, 11008, 32000, 4096), 6.74e9, "touvron2023llama"),
    "Llama 2 13B": NamedModel(_llama(40, 5120, 40, 40, 13824, 32000, 4096), 13.0e9, "touvron2023llama"),
    "Llama 2 70B": NamedModel(_llama(80, 8192, 64, 8, 28672, 32000, 4096), 69.0e9, "touvron2023llama"),
    "Llama 3 8B": NamedModel(_llama(32, 4096, 32, 8, 14336, 128256, 8192), 8.03e9, "grattafiori2024llama3"),
    "Llama 3 70B": NamedModel(_llama(80, 8192, 64, 8, 28672, 128256, 8192), 70.6e9, "grattafiori2024llama3"),
    "Llama 3.1 405B": NamedModel(
        _llama(126, 16384, 128, 8, 53248, 128256, 131072), 406e9, "grattafiori2024llama3"
    ),
    "Gemma 7B": NamedModel(
        replace(_llama(28, 3072, 16, 16, 24576, 256128, 8192), d_head=256, head="tied"),
        8_538_074_112,
        "gemma2024gemma",
    ),
    "Mistral 7B": NamedModel(replace(_MISTRAL, window=4096), 7.24e9, "jiang2023mistral"),
    "Mixtral 8x7B": NamedModel(replace(_MISTRAL, num_experts=8, top_k=2), 46.7e9, "jiang2024mixtral"),
}
"""The models by name. The second extra norm of BLOOM, and the only one of BERT, is on the embeddings.
Every other layer of GPT-3 attends to a sparse pattern, which these sizes do not say."""
