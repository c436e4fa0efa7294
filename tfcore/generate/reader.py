"""Feed a text that grows to a model, so that each token is read once if the model has a cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import index
from typing import Any

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfcore.cache import Cache
from tfcore.models.encoder import Encoder
from tfcore.models.encoder_decoder import EncoderDecoder
from tfcore.models.memory_decoder import MemoryDecoder

Model = Callable[..., Float[Tensor, "B T V"]]


class Reader:
    """Read the new tokens of a text, and compute the logits of the next token.

    A model that has ``new_cache(batch, max_len)`` is called as ``model(tokens, cache)`` with the tokens that
    the cache has not seen; any other callable as ``model(tokens)`` with all of them.

    Args:
        model: maps token ids (B, T) to logits (B, T, V).
        batch: B, sequences.
        max_len: tokens that will be read at most.
        padding: True at the real tokens of the prompt, (B, T_prompt); handed to the model as ``padding=``.
        context_len: tokens that the model sees at most: longer texts lose their beginning, and the cache.
        chunk: tokens that are read at a time; all that are new when None.
        cache: one that may have seen a part of the text already; a new one when None.
        kind: of a new cache, where it matters.

    >>> import torch
    >>> read = Reader(lambda tokens: torch.eye(5)[(tokens + 1) % 5], batch=1, max_len=3)
    >>> print(read(torch.tensor([[0, 3]]))[:, 0].argmax())
    tensor(4)
    """

    def __init__(
        self,
        model: Model,
        batch: int,
        max_len: int,
        *,
        padding: Bool[Tensor, "B T_prompt"] | None = None,
        context_len: int | None = None,
        chunk: int | None = None,
        cache: Any = None,
        kind: str | None = None,
    ) -> None:
        for name, value in (("context_len", context_len), ("chunk", chunk)):
            if value is not None and value < 1:
                raise ValueError(f"expected a {name} of 1 or more, got {value}; None is no limit")
        if isinstance(model, Encoder | EncoderDecoder | MemoryDecoder):
            raise ValueError(
                f"expected a model of the next token, such as Decoder, got {type(model).__name__}; "
                "an encoder writes nothing, and what reads a source writes with translate"
            )
        takes = _takes(model)
        if padding is not None and not takes("padding"):
            raise ValueError(
                f"expected a model that takes padding beside it, got {type(model).__name__}; generate from "
                "prompts of one length, or one by one"
            )
        if cache is not None and not hasattr(cache, "length"):
            raise ValueError(
                f"expected a cache from new_cache, got a {type(cache).__name__}; make one, or leave it out"
            )
        self.model, self.padding, self.context_len, self.chunk = model, padding, context_len, chunk
        self._keeps_last = takes("keep_last", if_unknown=False)
        if cache is None and hasattr(model, "new_cache"):
            if kind is not None and "kind" not in inspect.signature(model.new_cache).parameters:
                raise ValueError(
                    f"expected a model whose cache can be {kind}, got {type(model).__name__}, which keeps a "
                    "state that cannot go back; generate without guesses"
                )
            max_len = max_len if context_len is None else min(max_len, context_len)
            cache = model.new_cache(batch, max_len, **({} if kind is None else {"kind": kind}))
        self.cache = cache

    def reserve(self, length: int) -> None:
        """Refuse a text of this length, before any of it is read, if the cache has no room for it."""
        if isinstance(self.cache, Cache):
            longest = length if self.context_len is None else min(length, self.context_len)
            self.cache.visible(max(0, longest - self.cache.length))

    def __call__(self, tokens: Int[Tensor, "B T"], last: int = 1) -> Float[Tensor, "B last V"]:
        """Read the rest of a text, and give the logits of its last places."""
        end = tokens.shape[1]
        if self.cache is None or (self.context_len is not None and end > self.context_len):
            begin = 0 if self.context_len is None else max(0, end - self.context_len)
            return self._run(tokens, begin, end, last)[:, -last:]
        if self.cache.length >= end:
            raise ValueError(
                f"expected a cache that has seen less than the text of {end} tokens, got one that has seen "
                f"{self.cache.length}; the last token is read again: truncate it to {end - 1}"
            )
        while end - self.cache.length > (self.chunk or end):
            self._run(tokens, self.cache.length, self.cache.length + self.chunk, 1, self.cache)
        return self._run(tokens, self.cache.length, end, last, self.cache)[:, -last:]

    def _run(self, tokens: Tensor, begin: int, end: int, last: int, *cache: Any) -> Tensor:
        options: dict[str, Any] = {"keep_last": last} if self._keeps_last else {}
        if self.padding is not None and begin < self.padding.shape[1]:
            padding = F.pad(self.padding, (0, end - self.padding.shape[1]), value=True)
            options["padding"] = padding[:, begin:end]
        return self.model(tokens[:, begin:end], *cache, **options)

    def reorder(self, rows: Int[Tensor, " B_new"]) -> None:
        """Go on with the texts of these rows."""
        if self.cache is not None:
            self.cache.reorder(rows)
        if self.padding is not None:
            self.padding = self.padding[rows]

    def rewind(self, length: int) -> None:
        """Forget all but the first tokens, also tokens that have not been read."""
        if self.cache is not None and self.cache.length > length:
            self.cache.truncate(length)


def _takes(model: Model) -> Callable[..., bool]:
    """Return a function that says whether a model has a parameter of a name."""
    call = model
    if isinstance(model, nn.Module) and type(model).__call__ is nn.Module.__call__:
        call = model.forward
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):  # the signature of a compiled function is unknown
        return lambda name, if_unknown=True: if_unknown
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return lambda name, if_unknown=True: name in parameters or (anything and if_unknown)


def make_room(
    prompt: Int[Tensor, "B T"], max_new_tokens: int, pad: int, padding: Bool[Tensor, "B T"] | None = None
) -> Int[Tensor, "B T_total"]:
    """Copy the prompt into the front of a tensor that has room for the new tokens.

    >>> import torch
    >>> print(make_room(torch.tensor([[7, 8]]), max_new_tokens=2, pad=0))
    tensor([[7, 8, 0, 0]])
    """
    if prompt.ndim != 2 or prompt.shape[1] == 0 or prompt.is_floating_point():
        raise ValueError(
            f"expected a prompt (B, T) of whole numbers with T of 1 or more, got {prompt.dtype} "
            f"{tuple(prompt.shape)}; a single sequence goes in as prompt[None]"
        )
    try:
        whole = index(max_new_tokens)
    except TypeError:
        whole = -1
    if whole < 0:
        raise ValueError(
            f"expected max_new_tokens as a whole number of 0 or more, got {max_new_tokens}; "
            "say how many to add"
        )
    if padding is not None and (padding.shape != prompt.shape or not padding[:, -1].all()):
        raise ValueError(
            f"expected padding {tuple(prompt.shape)} that is True at the end of every prompt, got "
            f"{tuple(padding.shape)}; pad on the left, so that every prompt ends where the text goes on"
        )
    return F.pad(prompt, (0, whole), value=pad)
