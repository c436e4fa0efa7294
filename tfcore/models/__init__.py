"""Whole models: encoder-only, decoder-only, encoder-decoder, and heads for classes and tags."""

from tfcore.models.decoder import Decoder
from tfcore.models.encoder import Encoder
from tfcore.models.encoder_decoder import EncoderDecoder
from tfcore.models.heads import Classifier, Tagger
from tfcore.models.memory_decoder import MemoryDecoder

__all__ = ["Classifier", "Decoder", "Encoder", "EncoderDecoder", "MemoryDecoder", "Tagger"]
