"""One file for an encoder like BERT and its word pieces, which a page reads in a browser.

The matrices are in 8 bits with one step for each row (`tfcore.quantize`), the rest is in float32::

    8 bytes   TFMODEL1
    uint32    bytes of the header
    uint32    CRC-32 of all that follows
    header    JSON: sizes, tensors (name: type, shape, first byte), pieces (first byte, bytes)
    body      the tensors, then the word pieces in the order of their ids, one a line

All numbers are little-endian; bytes are counted from the start of the body. ``encoder.js`` reads it too.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.models import Encoder
from tfcore.quantize import quantize_weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAGIC = b"TFMODEL1"
LONGEST = 24
"""Tokens of a text, [CLS] and [SEP] among them; the table of positions has no more rows."""
TYPES = {"int8": "<i1", "float32": "<f4"}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write(model: Encoder, tokenizer: Tokenizer) -> bytes:
    """Write a model with its weights in 8 bits, and its word pieces.

    Args:
        model: an encoder like BERT; it is not changed.
        tokenizer: its WordPiece tokenizer, like BERT's without capitals.

    Raises:
        ValueError: a model that is built in another way, or word pieces that are not one for each of its ids.
    """
    sizes, vocabulary = _sizes(model.config), tokenizer.get_vocab()
    if sorted(vocabulary.values()) != list(range(model.config.vocab_size)):
        raise ValueError(
            f"expected word pieces with the ids 0 to {model.config.vocab_size - 1}, got {len(vocabulary)}; "
            "take the tokenizer that the model was trained with"
        )
    body, tensors = bytearray(), {}
    for name, tensor in quantize_weights(model).state_dict().items():
        kind = "int8" if tensor.dtype == torch.int8 else "float32"
        kept = tensor[:LONGEST] if name.endswith("positions.table") else tensor
        content = kept.cpu().numpy().astype(TYPES[kind])
        tensors[name.removeprefix("stack.")] = [kind, list(content.shape), len(body)]
        body += content.tobytes() + bytes(-content.nbytes % 4)
    pieces = "\n".join(sorted(vocabulary, key=vocabulary.__getitem__)).encode()
    place = [len(body), len(pieces)]
    header = json.dumps({"sizes": sizes, "tensors": tensors, "pieces": place}).encode()
    rest = header + bytes(b" " * (-len(header) % 4)) + body + pieces
    return MAGIC + struct.pack("<II", len(header) + -len(header) % 4, zlib.crc32(rest)) + rest


def read(content: bytes) -> tuple[Encoder, Tokenizer]:
    """Read a file that `write` has written.

    Returns:
        The encoder in float64 and evaluation mode, its matrices in 8 bits, and a tokenizer that cuts texts
        off after ``LONGEST`` tokens.

    Raises:
        ValueError: a file that is another, or is damaged.
    """
    start = len(MAGIC) + 8
    if content[: len(MAGIC)] != MAGIC or len(content) < start:
        raise ValueError(f"expected a file that begins with {MAGIC!r}, got {content[:8]!r}; write it again")
    length, checksum = struct.unpack_from("<II", content, len(MAGIC))
    if zlib.crc32(content[start:]) != checksum:
        raise ValueError(f"expected content with the CRC-32 {checksum}, got another; write the file again")
    header, body = json.loads(content[start : start + length]), content[start + length :]
    first, count = header["pieces"]
    pieces = body[first : first + count].decode().split("\n")
    model = quantize_weights(Encoder(_config(header["sizes"], len(pieces)))).double()
    weights = {}
    for name, (kind, shape, place) in header["tensors"].items():
        numbers = np.frombuffer(body, TYPES[kind], int(np.prod(shape)), place).reshape(shape)
        weights[f"stack.{name}"] = torch.from_numpy(numbers.copy())
    model.load_state_dict(weights)
    return model.eval(), _tokenizer(pieces)


def _config(sizes: dict[str, Any], vocab_size: int) -> ModelConfig:
    """The configuration of an encoder like BERT."""
    attention = AttentionConfig(sizes["d_model"], sizes["num_heads"])
    block = BlockConfig(attention, sizes["d_ff"], norm_place="post", norm_eps=sizes["norm_eps"])
    positions = PositionConfig("learned", max_len=sizes["max_len"])
    return ModelConfig(vocab_size, sizes["num_layers"], block, positions, num_segments=2, embedding_norm=True)


def _sizes(config: ModelConfig) -> dict[str, Any]:
    """The sizes that `_config` needs, of a model that is built as it builds one."""
    block = config.block
    sizes = {
        "num_layers": config.num_layers,
        "num_heads": block.attention.num_heads,
        "d_model": config.d_model,
        "d_ff": block.d_ff,
        "max_len": min(config.positions.max_len, LONGEST),
        "norm_eps": block.norm_eps,
    }
    like = _config(sizes, config.vocab_size)
    ours = (block.activation, block.gated, block.norm, block.norm_place, config.positions.kind)
    bert = (like.block.activation, False, "layer", "post", "learned")
    if ours != bert or config.num_segments != 2 or not config.embedding_norm or config.has_final_norm:
        raise ValueError(f"expected an encoder like BERT, {bert} with two segments, got {ours}: {config}")
    return sizes


def _tokenizer(pieces: list[str]) -> Tokenizer:
    """The tokenizer of BERT without capitals, with other word pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([piece for piece in SPECIAL if piece in ids])
    ends = [(piece, ids[piece]) for piece in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(LONGEST)
    return tokenizer
