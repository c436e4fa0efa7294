"""The sizes of a model that decide its costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """The sizes of a Transformer, and the parts of its layers.

    Args:
        num_layers: blocks; of the decoder where there is an encoder as well.
        d_model: width of the residual stream.
        num_heads: query heads of each attention layer.
        d_ff: inner width of the feed-forward network, or of each expert.
        vocab_size: tokens that the model knows.
        max_len: longest context that the model was made for.
        num_kv_heads: heads of keys and values; as many as query heads when None.
        d_head: width of one head; d_model / num_heads when None.
        bias: whether the projections of attention and feed-forward network add a bias.
        gated: whether the feed-forward network has a third matrix, as SwiGLU does.
        norm: "layer" with weight and bias, or "rms" with weight alone.
        extra_norms: norms outside the blocks, such as the one before the head.
        learned_positions: whether there is a table of ``max_len`` positions.
        head: "tied" to the embedding, an "own" matrix, or "none".
        num_experts: feed-forward networks to choose from.
        top_k: experts that a token is sent to.
        window: how many tokens a causal query sees, itself included; all when None.
        num_encoder_layers: blocks of an encoder that every block of the decoder attends to.
        other_parameters: parameters that no other field counts, such as BERT's pooler.

    Raises:
        ValueError: sizes below 1 or numbers below 0, heads that do not divide, or an unknown norm or head.

    >>> words = {"vocab_size": 50257, "max_len": 1024, "learned_positions": True}
    >>> gpt2 = Architecture(12, 768, 12, 3072, **words)
    >>> gpt2.head_width, gpt2.kv_heads
    (64, 12)
    """

    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    vocab_size: int
    max_len: int
    num_kv_heads: int | None = None
    d_head: int | None = None
    bias: bool = True
    gated: bool = False
    norm: str = "layer"
    extra_norms: int = 1
    learned_positions: bool = False
    head: str = "tied"
    num_experts: int = 1
    top_k: int = 1
    window: int | None = None
    num_encoder_layers: int = 0
    other_parameters: int = 0

    def __post_init__(self) -> None:
        numbers: dict[str, Any] = {
            name: value for name, value in vars(self).items() if not isinstance(value, bool | str)
        }
        for name in ("extra_norms", "num_encoder_layers", "other_parameters"):
            numbers[name] = numbers[name] or None  # there may be none
        check_positive(**numbers)
        check_heads(self.d_model, self.num_heads, self.num_kv_heads, self.d_head)
        for name, choices in (("norm", ("layer", "rms")), ("head", ("tied", "own", "none"))):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"expected {name} out of {', '.join(choices)}, got {getattr(self, name)!r}; name one"
                )
        if self.top_k > self.num_experts:
            raise ValueError(
                f"expected a top_k of at most {self.num_experts} experts, got {self.top_k}; "
                "a token is sent to an expert once"
            )

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.d_model // self.num_heads if self.d_head is None else self.d_head

    @property
    def kv_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads


def check_positive(*, fractions: bool = False, **numbers: float | None) -> None:
    """Refuse numbers that are not above 0, or below 1 unless fractions are fine; None passes.

    Raises:
        ValueError: one of the numbers.

    >>> check_positive(q_len=5, batch=-1, k_len=None)
    Traceback (most recent call last):
    ValueError: expected batch of 1 or more, got -1; give a positive number, or leave it out
    >>> check_positive(fractions=True, bytes_per_element=0.5)
    """
    for name, number in numbers.items():
        if number is not None and not (number > 0 and (fractions or number >= 1)):
            raise ValueError(
                f"expected {name} {'above 0' if fractions else 'of 1 or more'}, got {number}; "
                "give a positive number, or leave it out"
            )


def check_heads(d_model: int, num_heads: int, num_kv_heads: int | None, d_head: int | None = None) -> None:
    """Refuse heads that do not divide d_model, unless ``d_head`` is given, or that key heads do not divide.

    Raises:
        ValueError: one of the two, or a width or a number of heads below 1.

    >>> check_heads(d_model=10, num_heads=4, num_kv_heads=None)
    Traceback (most recent call last):
    ValueError: expected heads that divide d_model, got d_model 10 and 4 heads; ...
    """
    check_positive(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads)
    if d_head is None and d_model % num_heads:
        raise ValueError(
            f"expected heads that divide d_model, got d_model {d_model} and {num_heads} heads; "
            "choose another number of heads"
        )
    if num_kv_heads is not None and num_heads % num_kv_heads:
        raise ValueError(
            f"expected key heads that divide the query heads, got {num_kv_heads} and {num_heads}; "
            "each key head serves the same number of query heads"
        )


def check_one_stack(architecture: Architecture) -> None:
    """Refuse an encoder-decoder: its two stacks read texts of two lengths, where a caller gives one.

    Raises:
        ValueError: an architecture with encoder layers.

    >>> check_one_stack(Architecture(2, 12, 3, 48, vocab_size=50, max_len=20, num_encoder_layers=4))
    Traceback (most recent call last):
    ValueError: expected a model of one stack, got one with 4 encoder layers; ...
    """
    if architecture.num_encoder_layers:
        raise ValueError(
            f"expected a model of one stack, got one with {architecture.num_encoder_layers} encoder layers; "
            "describe its encoder and its decoder apart"
        )
