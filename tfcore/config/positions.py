"""How a model knows the order of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tfcore.config.checks import check_choice, check_sizes
from tfcore.rope_scaling import read_scaling, scaling_pairs

PositionKind = Literal["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]
Layout = Literal["half", "interleaved"]


@dataclass(frozen=True)
class PositionConfig:
    """How a model knows the order of its tokens; see ``tfcore.positions``.

    Args:
        kind: one of six methods, or "none".
        max_len: rows of a learned table; no other method has a limit.
        base: of the frequencies of sinusoids and rotations.
        layout: whether channel i is paired with i + d/2 ("half": Llama's rotations, Marian's sinusoids) or 2i
            with 2i + 1 ("interleaved": both papers).
        d_rotary: how many channels of a head are rotated; all when None.
        rope_scaling: slows the rotations down for longer contexts: a rope_type and its numbers, as in
            ``config.json``; a dictionary is turned into sorted pairs. See ``tfcore.rope_scaling``.
        num_buckets: how many buckets T5 sorts distances into.
        max_distance: distance beyond which all are alike, at the latest, for T5 and Shaw.

    Raises:
        ValueError: an unknown name, a size below 1, a scaling that is not known, or buckets of T5 that leave
            no distances to share one.

    >>> PositionConfig("rope", base=500_000.0).layout
    'half'
    """

    kind: PositionKind = "learned"
    max_len: int = 1024
    base: float = 10_000.0
    layout: Layout = "half"
    d_rotary: int | None = None
    rope_scaling: tuple[tuple[str, Any], ...] | None = None
    num_buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        check_choice(self, "kind", PositionKind)
        check_choice(self, "layout", Layout)
        check_sizes(self, "max_len", "d_rotary", "num_buckets", "max_distance")
        if not self.base > 0:
            raise ValueError(f"expected a base above 0, got {self.base!r}; frequencies are its powers")
        if self.rope_scaling is not None:
            object.__setattr__(self, "rope_scaling", scaling_pairs(self.rope_scaling))
        if self.kind == "rope":
            read_scaling(self.rope_scaling)
        check_distances(self, 1, 2)  # in a decoder, or in an encoder


def check_distances(positions: PositionConfig, *sides: int) -> None:
    """Refuse the buckets that T5's function refuses: keys are on one side of a query, or on two."""
    exact = [positions.num_buckets // count // 2 for count in sides]
    if positions.kind == "t5" and not any(1 <= end < positions.max_distance for end in exact):
        raise ValueError(
            f"expected more buckets or a larger distance, got num_buckets {positions.num_buckets} and "
            f"max_distance {positions.max_distance}; half of a side's buckets, "
            f"{' or '.join(map(str, exact))}, are exact: at least one, and they must end before max_distance"
        )
