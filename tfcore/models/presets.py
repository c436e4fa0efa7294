"""Published models by name: a function for each family, and a table of sizes.

A function has the choices that all models of a family share; a line of the table has the sizes of one model.
Each family but Whisper has a ``-tiny`` one, which a laptop trains in seconds.
"""

from __future__ import annotations

from typing import Any

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.mamba import MambaConfig
from tfcore.mamba2 import Mamba2Config
from tfcore.rwkv import RWKVConfig


def gpt2(
    d_model: int, num_heads: int, num_layers: int, vocab_size: int = 50_257, max_len: int = 1024
) -> ModelConfig:
    """GPT-2: learned positions, norms before the sublayers.

    From: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    >>> config = gpt2(12, num_heads=3, num_layers=2)
    >>> config.block.d_ff, config.block.norm_place, config.has_final_norm
    (48, 'pre', True)
    """
    block = BlockConfig(AttentionConfig(d_model, num_heads), d_ff=4 * d_model, activation="gelu_tanh")
    return ModelConfig(vocab_size, num_layers, block, PositionConfig("learned", max_len))


def bert(
    d_model: int, num_heads: int, num_layers: int, vocab_size: int = 30_522, max_len: int = 512
) -> ModelConfig:
    """BERT: both directions, segments, norms after the sublayers.

    From: Devlin et al. (2019), *BERT: Pre-training of Deep Bidirectional Transformers*.

    >>> config = bert(12, num_heads=3, num_layers=2)
    >>> config.num_segments, config.block.norm_place, config.has_final_norm
    (2, 'post', False)
    """
    block = BlockConfig(
        AttentionConfig(d_model, num_heads), d_ff=4 * d_model, norm_eps=1e-12, norm_place="post"
    )
    positions = PositionConfig("learned", max_len)
    return ModelConfig(vocab_size, num_layers, block, positions, num_segments=2, embedding_norm=True)


def llama(
    d_model: int,
    num_heads: int,
    num_layers: int,
    d_ff: int,
    num_kv_heads: int | None = None,
    vocab_size: int = 32_000,
    max_len: int = 4096,
    base: float = 10_000.0,
    rope_scaling: dict[str, Any] | None = None,
    norm_eps: float = 1e-5,
    window: int | None = None,
    num_experts: int | None = None,
    tied: bool = False,
) -> ModelConfig:
    """Llama; with a window Mistral, with experts Mixtral.

    From: Touvron et al. (2023), *LLaMA*; Jiang et al. (2023), *Mistral 7B*; Jiang et al. (2024), *Mixtral of
    Experts*.

    >>> config = llama(12, num_heads=6, num_layers=2, d_ff=32, num_kv_heads=3, window=5)
    >>> block = config.block
    >>> block.attention.kv_heads, block.attention.window, block.gated, config.tied
    (3, 5, True, False)
    """
    block = BlockConfig(
        AttentionConfig(d_model, num_heads, num_kv_heads, bias=False, window=window),
        d_ff,
        activation="silu",
        gated=True,
        ffn_bias=False,
        norm="rms",
        norm_eps=norm_eps,
        num_experts=num_experts,
    )
    scaling = tuple(sorted(rope_scaling.items())) if rope_scaling else None
    positions = PositionConfig("rope", max_len, base=base, rope_scaling=scaling)
    return ModelConfig(vocab_size, num_layers, block, positions, tied=tied)


def bloom(d_model: int, num_heads: int, num_layers: int, vocab_size: int = 250_880) -> ModelConfig:
    """BLOOM: ALiBi, and a norm after the embedding.

    From: Le Scao et al. (2022), *BLOOM: A 176B-Parameter Open-Access Multilingual Language Model*.

    >>> config = bloom(12, num_heads=3, num_layers=2)
    >>> config.positions.kind, config.embedding_norm
    ('alibi', True)
    """
    block = BlockConfig(AttentionConfig(d_model, num_heads), d_ff=4 * d_model, activation="gelu_tanh")
    return ModelConfig(vocab_size, num_layers, block, PositionConfig("alibi", 2048), embedding_norm=True)


def t5(
    d_model: int,
    num_heads: int,
    num_layers: int,
    d_ff: int,
    d_head: int = 64,
    vocab_size: int = 32_128,
    version: str = "1.0",
) -> EncoderDecoderConfig:
    """T5; version 1.1 gates its feed-forward networks and unties its head.

    Raises:
        ValueError: another version.

    From: Raffel et al. (2020), *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer*; Shazeer (2020), *GLU Variants Improve Transformer* (the gate).

    >>> old, new = (t5(16, 2, 3, d_ff=24, version=version).decoder for version in ("1.0", "1.1"))
    >>> (old.block.gated, old.tied, old.logit_scale), (new.block.gated, new.tied, new.logit_scale)
    ((False, True, 0.25), (True, False, 1.0))
    """
    if version not in ("1.0", "1.1"):
        raise ValueError(f"expected version 1.0 or 1.1, got {version!r}; name one of these")
    new = version == "1.1"
    block = BlockConfig(
        AttentionConfig(d_model, num_heads, d_head=d_head, bias=False, scale=1.0),
        d_ff,
        activation="gelu_tanh" if new else "relu",
        gated=new,
        ffn_bias=False,
        norm="rms",
        norm_eps=1e-6,
    )
    logit_scale = 1.0 if new else d_model**-0.5
    positions = PositionConfig("t5", max_len=512)
    stack = ModelConfig(vocab_size, num_layers, block, positions, tied=not new, logit_scale=logit_scale)
    return EncoderDecoderConfig(stack, stack)


def bart(
    d_model: int, num_heads: int, num_layers: int, vocab_size: int = 50_265, max_len: int = 1024
) -> EncoderDecoderConfig:
    """BART: learned positions, norms after the sublayers and after the embedding.

    From: Lewis et al. (2020), *BART*.

    >>> config = bart(12, num_heads=3, num_layers=2)
    >>> decoder = config.decoder
    >>> config.encoder == decoder, decoder.block.norm_place, decoder.embedding_norm
    (True, 'post', True)
    """
    block = BlockConfig(AttentionConfig(d_model, num_heads), d_ff=4 * d_model, norm_place="post")
    positions = PositionConfig("learned", max_len)
    stack = ModelConfig(vocab_size, num_layers, block, positions, embedding_norm=True, logit_bias=True)
    return EncoderDecoderConfig(stack, stack)


def marian(d_model: int, num_heads: int, num_layers: int, vocab_size: int = 58_101) -> EncoderDecoderConfig:
    """Marian: the first Transformer, but for activation, layout of the sinusoids and a bias on the logits.

    From: Vaswani et al. (2017), *Attention Is All You Need*.

    >>> decoder = marian(16, num_heads=2, num_layers=3).decoder
    >>> activation, layout = decoder.block.activation, decoder.positions.layout
    >>> decoder.embedding_scale, activation, layout, decoder.logit_bias
    (4.0, 'silu', 'half', True)
    """
    block = BlockConfig(
        AttentionConfig(d_model, num_heads), d_ff=4 * d_model, activation="silu", norm_place="post"
    )
    stack = ModelConfig(
        vocab_size,
        num_layers,
        block,
        PositionConfig("sinusoidal", max_len=512, layout="half"),
        embedding_scale=d_model**0.5,
        logit_bias=True,
    )
    return EncoderDecoderConfig(stack, stack)


def whisper(
    d_model: int, num_heads: int, num_layers: int, vocab_size: int = 51_865, max_len: int = 448
) -> ModelConfig:
    """Whisper: the decoder alone, for a :class:`~tfcore.models.MemoryDecoder`.

    From: Radford et al. (2022), *Robust Speech Recognition via Large-Scale Weak Supervision*.

    >>> import torch
    >>> from tfcore.models import MemoryDecoder
    >>> model = MemoryDecoder(whisper(12, num_heads=3, num_layers=2, vocab_size=50, max_len=20))
    >>> heard = torch.zeros(1, 9, 12)  # 9 states
    >>> print(model(torch.tensor([[7, 1, 4]]), heard).shape)
    torch.Size([1, 3, 50])
    """
    block = BlockConfig(AttentionConfig(d_model, num_heads), d_ff=4 * d_model)
    return ModelConfig(vocab_size, num_layers, block, PositionConfig("learned", max_len))


def rope_scaling(factor: float) -> dict[str, Any]:
    """Scale the rotations as Llama 3 did, from 8,192 tokens to 131,072.

    Args:
        factor: divides the frequencies of slow rotations; fast ones stay as they are.

    Returns:
        The entries of ``config.json`` for it.

    From: Grattafiori et al. (2024), *The Llama 3 Herd of Models*.

    >>> from tfcore.positions import inverse_frequencies
    >>> slowed = inverse_frequencies(6, 500_000.0, rope_scaling(8.0))
    >>> print((inverse_frequencies(6, 500_000.0) / slowed).tolist())
    [1.0, 1.0, 8.0]
    """
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


Config = ModelConfig | EncoderDecoderConfig | RWKVConfig | MambaConfig | Mamba2Config
LLAMA_3: dict[str, Any] = {"num_kv_heads": 8, "vocab_size": 128_256, "base": 500_000.0}
TINY: dict[str, Any] = {"d_model": 64, "num_heads": 4, "num_layers": 2, "vocab_size": 256}

PRESETS: dict[str, Config] = {
    # Decoder                d_model, heads, layers, d_ff
    "gpt2": gpt2(768, 12, 12),
    "gpt2-medium": gpt2(1024, 16, 24),
    "gpt2-large": gpt2(1280, 20, 36),
    "gpt2-xl": gpt2(1600, 25, 48),
    "gpt2-tiny": gpt2(**TINY, max_len=256),
    "llama-2-7b": llama(4096, 32, 32, 11_008),
    "llama-2-13b": llama(5120, 40, 40, 13_824),
    "llama-2-70b": llama(8192, 64, 80, 28_672, num_kv_heads=8),
    "llama-3-8b": llama(4096, 32, 32, 14_336, **LLAMA_3, max_len=8192),
    "llama-3-70b": llama(8192, 64, 80, 28_672, **LLAMA_3, max_len=8192),
    "llama-3.1-8b": llama(4096, 32, 32, 14_336, **LLAMA_3, max_len=131_072, rope_scaling=rope_scaling(8.0)),
    "llama-3.2-1b": llama(
        2048, 32, 16, 8192, **LLAMA_3, max_len=131_072, rope_scaling=rope_scaling(32.0), tied=True
    ),
    "llama-tiny": llama(**TINY, num_kv_heads=2, d_ff=176),
    "mistral-7b": llama(4096, 32, 32, 14_336, num_kv_heads=8, max_len=32_768, window=4096),
    "mistral-tiny": llama(**TINY, num_kv_heads=2, d_ff=176, window=16),
    "mixtral-8x7b": llama(4096, 32, 32, 14_336, num_kv_heads=8, max_len=32_768, base=1e6, num_experts=8),
    "mixtral-tiny": llama(**TINY, num_kv_heads=2, d_ff=88, base=1e6, num_experts=4),
    "bloom-560m": bloom(1024, 16, 24),
    "bloom-1b7": bloom(2048, 16, 24),
    "bloom-7b1": bloom(4096, 32, 30),
    "bloom": bloom(14_336, 112, 70),
    "bloom-tiny": bloom(**TINY),
    # Encoder
    "bert-base": bert(768, 12, 12),
    "bert-large": bert(1024, 16, 24),
    "bert-tiny": bert(**TINY, max_len=256),
    # EncoderDecoder, sizes of each side
    "t5-small": t5(512, 8, 6, 2048),
    "t5-base": t5(768, 12, 12, 3072),
    "t5-large": t5(1024, 16, 24, 4096),
    "t5-v1.1-small": t5(512, 6, 8, 1024, version="1.1"),
    "t5-v1.1-base": t5(768, 12, 12, 2048, version="1.1"),
    "t5-tiny": t5(**TINY, d_ff=128, d_head=16),
    "bart-base": bart(768, 12, 6),
    "bart-large": bart(1024, 16, 12),
    "bart-tiny": bart(**TINY, max_len=256),
    "marian-en-de": marian(512, 8, 6),
    "marian-tiny": marian(**TINY),
    # MemoryDecoder
    "whisper-tiny-decoder": whisper(384, 6, 4),
    "whisper-small-decoder": whisper(768, 12, 12),
    # RWKV, Mamba          vocabulary, d_model, layers
    "rwkv-4-169m": RWKVConfig(50_277, 768, 12),
    "rwkv-4-430m": RWKVConfig(50_277, 1024, 24),
    "rwkv-tiny": RWKVConfig(256, 64, 2),
    "mamba-130m": MambaConfig(50_280, 768, 24),
    "mamba-370m": MambaConfig(50_280, 1024, 48),
    "mamba-tiny": MambaConfig(256, 64, 2),
    "mamba2-130m": Mamba2Config(50_288, 768, 24),
    "mamba2-tiny": Mamba2Config(256, 64, 2, d_head=16, d_state=16),
}


def preset(name: str) -> Any:
    """Look up the configuration of a published model, or of a tiny one of its family.

    Args:
        name: a name in ``PRESETS``.

    Returns:
        The configuration; the model is ``Decoder(preset("gpt2"))``, ``Encoder(preset("bert-base"))``, ...

    Raises:
        ValueError: a name that is not in the table.

    >>> preset("gpt2-xl").num_layers
    48
    """
    if name not in PRESETS:
        raise ValueError(f"expected a name out of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
