"""Read GGUF, llama.cpp's format: one file holds fields, tensors of few bits, and the tokenizer.

The names and layouts of GGUF are translated into those of a Hugging Face folder, so that a family reads both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

NAMES = {  # of a tensor in the file, without its ending: on the hub
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.*.attn_norm": "model.layers.*.input_layernorm",
    "blk.*.attn_q": "model.layers.*.self_attn.q_proj",
    "blk.*.attn_k": "model.layers.*.self_attn.k_proj",
    "blk.*.attn_v": "model.layers.*.self_attn.v_proj",
    "blk.*.attn_output": "model.layers.*.self_attn.o_proj",
    "blk.*.ffn_norm": "model.layers.*.post_attention_layernorm",
    "blk.*.ffn_gate": "model.layers.*.mlp.gate_proj",
    "blk.*.ffn_up": "model.layers.*.mlp.up_proj",
    "blk.*.ffn_down": "model.layers.*.mlp.down_proj",
}

FIELDS = {  # behind "llama.": in config.json
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}

EXPECTED: dict[str, Callable[[dict[str, Any]], Any]] = {  # further fields: the value that tfcore computes
    "rope.dimension_count": lambda json: json["head_dim"],
    "attention.value_length": lambda json: json["head_dim"],
    "rope.scaling.type": lambda json: "none",
    "expert_count": lambda json: 0,
    "expert_used_count": lambda json: 0,
}

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
SPLITS = {  # the file's name of a way to cut text into words: how the tokenizers library says it
    "gpt-2": BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL]),
}
SPECIAL = 3
"""The type of a token that no text spells, such as the end of a message."""


class GGUFFile:
    """A language model of the llama architecture in a GGUF file; tensors are read on demand, as float32.

    Args:
        path: the file.

    Raises:
        ValueError: a file that is broken, another architecture, or a field that tfcore does not compute.
    """

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self.folder = path  # what messages about the weights name
        try:
            reader = GGUFReader(path)
            self._fields = {name: field.contents() for name, field in reader.fields.items()}
            self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        except Exception as error:  # the reader believes every length in the file
            raise ValueError(
                f"expected a whole GGUF file, got {path}: {type(error).__name__}: {error}; "
                "copy or download it again"
            ) from error
        self.json = self._config_json()
        self._names = {name_on_the_hub(name): name for name in self._tensors}
        self.shapes = {
            name: tuple(map(int, self._tensors[own].shape[::-1])) for name, own in self._names.items()
        }

    def read(self, name: str) -> Tensor:
        r"""Read one tensor.

        In 4 bits a block of 32 numbers is stored as $x_i = d\, q_i + m$ with $q_i \in \{0, \dots, 15\}$
        (Q4_1) or $x_i = d\, (q_i - 8)$ (Q4_0), in 8 bits as $x_i = d\, q_i$ (Q8_0).

        Args:
            name: its name on the hub, such as ``model.norm.weight``.

        Returns:
            The numbers in float32, queries and keys in the order that turns the two halves of a head.

        Raises:
            ValueError: a type of numbers that the ``gguf`` package does not read.
        """
        from gguf.quants import dequantize

        tensor = self._tensors[self._names[name]]
        try:
            numbers = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ValueError(
                f"expected numbers that the gguf package reads, got {tensor.tensor_type.name} for "
                f"{tensor.name} in {self.folder}; quantize the model to Q8_0 or Q4_1"
            ) from error
        x = torch.from_numpy(np.array(numbers, dtype=np.float32)).reshape(self.shapes[name])
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        return in_halves(x, self.json[heads]) if heads else x

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the file: byte-level BPE with a known way to cut text into words.

        Raises:
            ValueError: a tokenizer of another kind.
        """
        fields = self._fields
        kind, split = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
        if kind != "gpt2" or split not in SPLITS:
            raise ValueError(
                f"expected a byte-level BPE (gpt2) with the split {' or '.join(SPLITS)} in {self.folder}, "
                f"got {kind} with {split}; read the model's tokenizer.json with the tokenizers library"
            )
        tokens = fields["tokenizer.ggml.tokens"]
        merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = SPLITS[split]
        tokenizer.decoder = decoders.ByteLevel()
        types = fields["tokenizer.ggml.token_type"]
        special = [token for token, kind in zip(tokens, types, strict=True) if kind == SPECIAL]
        tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
        return tokenizer

    def _config_json(self) -> dict[str, Any]:
        """Return the fields as ``config.json`` has them, or name those that tfcore does not compute."""
        architecture = self._fields.get("general.architecture")
        if architecture != "llama":
            raise ValueError(f"expected the architecture llama in {self.folder}, got {architecture}")
        own = {
            name.removeprefix("llama."): plain(value)
            for name, value in self._fields.items()
            if name.startswith("llama.")
        }
        json = {theirs: own[name] for name, theirs in FIELDS.items() if name in own}
        missing = [name for name in ("embedding_length", "attention.head_count") if name not in own]
        if not missing:
            json.setdefault("head_dim", json["hidden_size"] // json["num_attention_heads"])
            json.setdefault("num_key_value_heads", json["num_attention_heads"])
        unknown = [
            f"{name} is {value!r}"
            for name, value in own.items()
            if name not in FIELDS and (name not in EXPECTED or missing or value != EXPECTED[name](json))
        ]
        if missing or unknown:
            what = "; ".join([*unknown, *(f"{name} is missing" for name in missing)])
            raise ValueError(
                f"expected a llama that tfcore computes in {self.folder}, got one where {what}; "
                "it would come out wrong: use llama.cpp for it"
            )
        json |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
        json |= {
            "attention_bias": any(name.endswith("attn_q.bias") for name in self._tensors),
            "mlp_bias": any(name.endswith("ffn_up.bias") for name in self._tensors),
            "tie_word_embeddings": "output.weight" not in self._tensors,
        }
        return json


def name_on_the_hub(name: str) -> str:
    """Translate a tensor's name; a name that is not known stays as it is.

    >>> name_on_the_hub("blk.7.attn_q.weight"), name_on_the_hub("rope_freqs.weight")
    ('model.layers.7.self_attn.q_proj.weight', 'rope_freqs.weight')
    """
    stem, _, ending = name.rpartition(".")
    layer = re.search(r"\d+", stem)
    theirs = NAMES.get(re.sub(r"\d+", "*", stem, count=1))
    return f"{theirs.replace('*', layer[0] if layer else '')}.{ending}" if theirs else name


def in_halves(x: Tensor, num_heads: int) -> Tensor:
    """Reorder the rows of each head from neighbouring pairs, as GGUF has them, to halves.

    The pair of dimensions $(2i, 2i+1)$ that one frequency turns becomes $(i, i + d/2)$.

    Args:
        x: weight of shape (num_heads * d, ...) or bias of shape (num_heads * d).
        num_heads: how many heads the rows belong to.

    >>> in_halves(torch.tensor([0, 3, 1, 4, 2, 5]), num_heads=1)
    tensor([0, 1, 2, 3, 4, 5])
    """
    return x.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def plain(value: Any) -> Any:
    """Return a field as Python would write it: a float32 as the shortest number that rounds to it.

    >>> plain(9.999999747378752e-06), plain(8192)
    (1e-05, 8192)
    """
    return float(str(np.float32(value))) if isinstance(value, float) else value
