"""The parts of a model as frozen data: attention, block, positions, model.

One configuration describes GPT-2, another Llama, another the encoder of BERT: the families of the book differ
in these fields and in nothing else. ``tfcore.models.presets`` holds the published ones.
"""

from __future__ import annotations

from tfcore.config.attention import AttentionConfig, NormKind, QKNorm
from tfcore.config.block import Activation, BlockConfig, NormPlace
from tfcore.config.checks import check_sizes
from tfcore.config.delta_net import DeltaNetConfig
from tfcore.config.latent import LatentAttentionConfig
from tfcore.config.model import EncoderDecoderConfig, ModelConfig
from tfcore.config.native_sparse import NativeSparseConfig
from tfcore.config.positions import Layout, PositionConfig, PositionKind

__all__ = [
    "Activation",
    "AttentionConfig",
    "BlockConfig",
    "DeltaNetConfig",
    "EncoderDecoderConfig",
    "LatentAttentionConfig",
    "Layout",
    "ModelConfig",
    "NativeSparseConfig",
    "NormKind",
    "NormPlace",
    "PositionConfig",
    "PositionKind",
    "QKNorm",
    "check_sizes",
]
