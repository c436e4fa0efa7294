"""Read GGUF, llama.cpp's format: one file holds fields, tensors of few bits, and the tokenizer.

The names and layouts of GGUF are translated into those of a Hugging Face folder, so that a family reads both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from tfcore.io.gguf_architectures import ARCHITECTURES, EXPECTED, FIELDS, NAMES, Architecture
from tfcore.tokenizer import SPLITS as PATTERNS

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)


def _by_pattern(name: str) -> pre_tokenizers.PreTokenizer:
    by_pattern = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
    return pre_tokenizers.Sequence(
        [by_pattern, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


SPLITS = {  # the file's name of a way to cut text into words: how the tokenizers library says it
    "gpt-2": BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL]),
    "llama-bpe": _by_pattern("gpt4"),
    "qwen2": _by_pattern("qwen2"),
}
LINEAR = ("rope.scaling.type", "rope.scaling.factor")
WHOLE_WORDS = ("llama-bpe",)
"""The splits whose tokenizers keep a word whole if it is a token, without applying merges."""

SPECIAL, USER_DEFINED = 3, 4
"""The types of tokens that merges do not produce: special tokens, which no text can spell, such as the end of
a message, and user-defined tokens, which a text can spell, such as ``<think>``."""

TOKENIZER_FIELDS = tuple(f"tokenizer.ggml.{name}" for name in ("tokens", "token_type", "merges"))


def _header_of(path: Path) -> Any:
    """Read the fields of a file and where its tensors are.

    The reader of the ``gguf`` package makes slices for each token and merge of a tokenizer. Slices of a plain
    array over the mapped file take less time than slices of `numpy.memmap`.
    """
    from gguf import GGUFReader

    class Reader(GGUFReader):
        @property
        def data(self) -> Any:
            return self._bytes

        @data.setter
        def data(self, mapped: Any) -> None:
            self._bytes = np.asarray(mapped)

    return Reader(path)


class GGUFFile:
    """A language model in a GGUF file, of an architecture that is declared; tensors are read as float32.

    Args:
        path: the file.

    Raises:
        ValueError: a file that is broken, another architecture, or a field that tfcore does not compute.
    """

    def __init__(self, path: Path) -> None:
        self.folder = path  # what messages about the weights name
        try:
            reader = _header_of(path)
            self._fields = {name: field.contents() for name, field in reader.fields.items()}
            self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        except Exception as error:  # the reader believes every length in the file
            raise ValueError(
                f"expected a whole GGUF file, got {path}: {type(error).__name__}: {error}; "
                "copy or download it again"
            ) from error
        self.architecture = self._find_architecture()
        self._names = {name_on_the_hub(name, self.architecture.names): name for name in self._tensors}
        self.shapes = {
            name: tuple(map(int, self._tensors[own].shape[::-1])) for name, own in self._names.items()
        }
        self.json = self._config_json()

    def read(self, name: str) -> Tensor:
        r"""Read one tensor.

        In 4 bits a block of 32 numbers is stored as $x_i = d\, q_i + m$ with $q_i \in \{0, \dots, 15\}$
        (Q4_1) or $x_i = d\, (q_i - 8)$ (Q4_0), in 8 bits as $x_i = d\, q_i$ (Q8_0).

        Args:
            name: its name on the hub, such as ``model.norm.weight``.

        Returns:
            The numbers in float32, in the layout of the hub: queries and keys in the order that turns the
            two halves of a head, Gemma's norms without the 1 that is added to their weight.

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
        part = name.split(".")[-2]
        if self.architecture.one_added and part.endswith("norm"):
            return x - 1
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(part)
        return in_halves(x, self.json[heads]) if heads and self.architecture.in_pairs else x

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the file: byte-level BPE with a known way to cut text into words.

        It adds no token before a text, even if the file asks for one.

        Raises:
            ValueError: a tokenizer of another kind, or one with a missing field.
        """
        fields = self._fields
        kind, split = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
        if kind != "gpt2" or split not in SPLITS:
            raise ValueError(
                f"expected a byte-level BPE (gpt2) with the split {' or '.join(SPLITS)} in {self.folder}, "
                f"got {kind} with {split}; read the model's tokenizer.json with the tokenizers library"
            )
        if missing := [name for name in TOKENIZER_FIELDS if name not in fields]:
            raise ValueError(
                f"expected a tokenizer with {', '.join(TOKENIZER_FIELDS)} in {self.folder}, got none of "
                f"{', '.join(missing)}; read the model's tokenizer.json with the tokenizers library"
            )
        tokens, types, merged = (fields[name] for name in TOKENIZER_FIELDS)
        merges = [tuple(pair.split(" ")) for pair in merged]
        vocab = {token: i for i, token in enumerate(tokens)}
        bpe = models.BPE(vocab=vocab, merges=merges, ignore_merges=split in WHOLE_WORDS)
        tokenizer = Tokenizer(bpe)
        tokenizer.pre_tokenizer = SPLITS[split]
        tokenizer.decoder = decoders.ByteLevel()
        of_type = {
            kind: [t for t, own in zip(tokens, types, strict=True) if own == kind] for kind in set(types)
        }
        tokenizer.add_special_tokens([AddedToken(t, special=True) for t in of_type.get(SPECIAL, [])])
        tokenizer.add_tokens([AddedToken(t, normalized=False) for t in of_type.get(USER_DEFINED, [])])
        return tokenizer

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that makes one text of a dialogue's messages; None if the file has none."""
        return self._fields.get("tokenizer.chat_template")

    def _find_architecture(self) -> Architecture:
        """Find what is declared of the file's architecture, or say which ones are."""
        name = self._fields.get("general.architecture")
        if name not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise ValueError(f"expected an architecture out of {known} in {self.folder}, got {name}")
        return ARCHITECTURES[name]

    def _config_json(self) -> dict[str, Any]:
        """Return the fields as ``config.json`` has them, or name those that tfcore does not compute."""
        prefix = f"{self._fields['general.architecture']}."
        own = {
            name.removeprefix(prefix): plain(value)
            for name, value in self._fields.items()
            if name.startswith(prefix)
        }
        fields = FIELDS | dict(self.architecture.fields)
        json = {theirs: own[name] for name, theirs in fields.items() if name in own}
        missing = [name for name in ("embedding_length", "attention.head_count") if name not in own]
        if not missing:
            json.setdefault("head_dim", json["hidden_size"] // json["num_attention_heads"])
            json.setdefault("num_key_value_heads", json["num_attention_heads"])
            json |= self.architecture.more(json)
        if "model.embed_tokens.weight" in self.shapes:
            json.setdefault("vocab_size", self.shapes["model.embed_tokens.weight"][0])
        rope = {name: own.pop(name) for name in list(own) if name.startswith("rope.scaling.")}
        if rope.get("rope.scaling.type") == "linear" and set(rope) == {*LINEAR}:
            json["rope_scaling"] = {"rope_type": "linear", "factor": rope["rope.scaling.factor"]}
        elif rope.get("rope.scaling.type", "none") != "none":
            own |= rope
        unknown = [
            f"{name} is {value!r}"
            for name, value in own.items()
            if name not in fields and (name not in EXPECTED or missing or value != EXPECTED[name](json))
        ]
        if missing or unknown:
            what = "; ".join([*unknown, *(f"{name} is missing" for name in missing)])
            raise ValueError(
                f"expected a {prefix[:-1]} that tfcore computes in {self.folder}, got one where {what}; "
                "it would come out wrong: use llama.cpp for it"
            )
        return json | {
            "architectures": [self.architecture.family],
            "attention_bias": any(name.endswith("attn_q.bias") for name in self._tensors),
            "mlp_bias": any(name.endswith("ffn_up.bias") for name in self._tensors),
            "tie_word_embeddings": "output.weight" not in self._tensors,
        }


def name_on_the_hub(name: str, names: Mapping[str, str] | None = None) -> str:
    """Translate a tensor's name; a name that is not known stays as it is.

    >>> name_on_the_hub("blk.7.attn_q.weight"), name_on_the_hub("rope_freqs.weight")
    ('model.layers.7.self_attn.q_proj.weight', 'rope_freqs.weight')
    """
    stem, _, ending = name.rpartition(".")
    layer = re.search(r"\d+", stem)
    theirs = (NAMES if names is None else names).get(re.sub(r"\d+", "*", stem, count=1))
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
