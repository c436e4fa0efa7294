"""llama.cpp as a contender, through the C interface of ``llama-cpp-python``: several sequences at a time."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FORMATS = {"Q8_0": "LLAMA_FTYPE_MOSTLY_Q8_0", "Q4_1": None}  # the published file is in Q4_1


@cache
def library() -> tuple[Any, Any]:
    """Return llama-cpp-python, which prints nothing as long as the second object lives."""
    import llama_cpp

    llama_cpp.llama_backend_init()
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    return llama_cpp, silent


def in_format(file: Path, name: str, folder: Path) -> Path:
    """Return the file with its numbers in another format, written into the folder where they differ."""
    llama_cpp, _ = library()
    if FORMATS[name] is None:
        return file
    written = folder / f"{name}.gguf"
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize = getattr(llama_cpp, FORMATS[name]), True
    if llama_cpp.llama_model_quantize(str(file).encode(), str(written).encode(), ctypes.byref(options)):
        raise RuntimeError(f"llama.cpp did not write {file} as {name}")
    return written


class LlamaCpp:
    """A model in llama.cpp, whose logits are read and whose likeliest tokens are fed back.

    Args:
        file: in GGUF.
        batch: sequences that are written at a time.
        max_len: tokens of each.
        threads: of the processor.
    """

    def __init__(self, file: Path, batch: int, max_len: int, threads: int) -> None:
        self.lib, _ = library()
        llama_cpp = self.lib
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(file).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp did not load {file}")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        sizes = llama_cpp.llama_context_default_params()
        sizes.n_ctx, sizes.n_batch, sizes.n_seq_max = batch * max_len, batch * max_len, batch
        sizes.n_threads = sizes.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, sizes)
        self.batch = llama_cpp.llama_batch_init(batch * max_len, 0, 1)

    def generate(self, prompt: Tensor, new: int) -> Tensor:
        """Append the likeliest tokens to prompts (B, T); the result is (B, T + new)."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        text = self._append(prompt, prompt, 0)
        for _ in range(new - 1):
            text = self._append(text, text[:, -1:], text.shape[1] - 1)
        return text

    def _append(self, text: Tensor, tokens: Tensor, begin: int) -> Tensor:
        """Read tokens (B, T) at places from `begin` on, and append the likeliest next ones to the text."""
        rows, length = tokens.shape
        batch, asked = self.batch, []
        for row, sequence in enumerate(tokens.tolist()):
            for place, token in enumerate(sequence):
                i = row * length + place
                batch.token[i], batch.pos[i] = token, begin + place
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
                batch.logits[i] = place == length - 1
            asked.append(row * length + length - 1)
        batch.n_tokens = rows * length
        if self.lib.llama_decode(self.context, batch):
            raise RuntimeError("llama.cpp did not read the tokens")
        logits = [self.lib.llama_get_logits_ith(self.context, i) for i in asked]
        best = [torch.frombuffer(self._buffer(row), dtype=torch.float32).argmax() for row in logits]
        return torch.cat([text, torch.stack(best)[:, None]], dim=1)

    def _buffer(self, pointer: Any) -> Any:
        return ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float * self.vocab_size)).contents

    def close(self) -> None:
        """Free what the C library holds."""
        self.lib.llama_batch_free(self.batch)
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)
