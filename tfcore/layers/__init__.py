"""The parts of a block, one to a file: heads, attention, norms, feed-forward network, the block itself."""

from tfcore.layers.block import DecoderBlock, TransformerBlock
from tfcore.layers.delta_net import GatedDeltaNet
from tfcore.layers.feed_forward import FeedForward, swiglu, swiglu_hidden_size
from tfcore.layers.heads import merge_heads, repeat_kv, split_heads
from tfcore.layers.indexer import Indexer, indexer_loss, top_keys_mask
from tfcore.layers.latent import LatentAttention, absorbed_scores
from tfcore.layers.multi_head import MultiHeadAttention
from tfcore.layers.native_sparse import NativeSparseAttention
from tfcore.layers.norms import layer_norm, make_norm, rms_norm

__all__ = [
    "DecoderBlock",
    "FeedForward",
    "GatedDeltaNet",
    "Indexer",
    "LatentAttention",
    "MultiHeadAttention",
    "NativeSparseAttention",
    "TransformerBlock",
    "absorbed_scores",
    "indexer_loss",
    "layer_norm",
    "make_norm",
    "merge_heads",
    "repeat_kv",
    "rms_norm",
    "split_heads",
    "swiglu",
    "swiglu_hidden_size",
    "top_keys_mask",
]
