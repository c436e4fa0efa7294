"""Slower rotations for texts longer than a model was trained on: one class for each rope_type.

The fields of a class are the entries that ``config.json`` has beside that rope_type; a field without a
default must be given. ``frequencies`` returns the angle per position of each pair of channels, and
``temperature`` the number that multiplies cosines and sines.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

Length = int | Int[Tensor, ""] | None  # tokens of the longest row; None: no more than in training
Entries = Mapping[str, Any] | Iterable[tuple[str, Any]]


@dataclass(frozen=True)
class Scaling:
    r"""Leave the rotations as they were trained, $\omega_i = \text{base}^{-2i/d}$.

    From: Su et al. (2021), *RoFormer: Enhanced Transformer with Rotary Position Embedding*.

    >>> print(Scaling().frequencies(4, 10_000.0), Scaling().temperature())
    tensor([1.0000, 0.0100], dtype=torch.float64) 1.0
    """

    looks_at_length: ClassVar[bool] = False  # whether the frequencies depend on the length

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        r"""List the angle per position of each pair of channels, $\omega_i$.

        Args:
            d_rotary: d, channels that are turned, even.
            base: of the geometric series.
            length: tokens of the longest row, a number or a tensor; None: no more than in training.

        Returns:
            Radians per position, (d_rotary / 2,), float64.

        Raises:
            ValueError: a number of channels, or a base, that the scaling cannot have.
        """
        return _powers(d_rotary, base)

    def temperature(self) -> float:
        """Return the number that multiplies cosines and sines, and by its square the scores."""
        return 1.0


@dataclass(frozen=True)
class Linear(Scaling):
    r"""Divide all frequencies: $\omega_i / s$, as if positions lay closer together.

    Args:
        factor: how many times longer the texts may be, s.

    From: Chen et al. (2023), *Extending Context Window of Large Language Models via Positional
    Interpolation*.

    >>> print(Linear(factor=4.0).frequencies(4, 10_000.0))
    tensor([0.2500, 0.0025], dtype=torch.float64)
    """

    factor: float

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        """Divide by the factor."""
        return _powers(d_rotary, base) / self.factor


@dataclass(frozen=True)
class Dynamic(Scaling):
    r"""Raise the base with the length n, to $\text{base} \cdot (1 + s (n / n_0 - 1))^{d / (d - 2)}$.

    The fastest pair turns as before; the slowest is divided by $1 + s (n / n_0 - 1)$ (known as dynamic NTK).
    A text of at most $n_0$ tokens has the base of the training. Each call chooses for itself. In transformers
    a call of $n_0$ tokens or more keeps the base of the longest call before it, until a call of fewer than
    $n_0$ tokens comes.

    Args:
        factor: how many times longer the texts may be, s.
        original_max_position_embeddings: $n_0$, the length that the model was trained for.

    From: bloc97 and emozilla (2023), on Reddit; Peng et al. (2023), *YaRN: Efficient Context Window Extension
    of Large Language Models*, describe it.

    >>> scaling = Dynamic(factor=2.0, original_max_position_embeddings=100)
    >>> print(scaling.frequencies(6, 10_000.0) / scaling.frequencies(6, 10_000.0, length=250))
    tensor([1.0000, 2.0000, 4.0000], dtype=torch.float64)
    """

    looks_at_length = True
    factor: float
    original_max_position_embeddings: int

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        """Choose the base by the length."""
        if d_rotary < 4:
            raise ValueError(
                f"expected at least 4 channels to turn, got {d_rotary}; a single pair is not slowed down"
            )
        if length is None:
            return _powers(d_rotary, base)
        stretched = _as_tensor(length) / self.original_max_position_embeddings
        slowest = 1 + self.factor * (stretched.clamp(min=1) - 1)  # divides the slowest frequency
        return _powers(d_rotary, base * slowest ** (d_rotary / (d_rotary - 2)))


@dataclass(frozen=True)
class Yarn(Scaling):
    r"""Divide slow frequencies, leave fast ones: $(1 - r_i) \, \omega_i + r_i \, \omega_i / s$.

    The ramp r is 0 up to the pair that turns ``beta_fast`` times in the original length, and 1 from the pair
    that turns ``beta_slow`` times. Between them it is linear in i, as in the published program; in the paper
    it is linear in the number of turns.

    Args:
        factor: how many times longer the texts may be, s.
        original_max_position_embeddings: the length that the model was trained for.
        attention_factor: the temperature; $0.1 \ln s + 1$ when None.
        beta_fast: pairs with more turns than this keep their frequency.
        beta_slow: pairs with fewer turns than this are divided by s.
        mscale: with ``mscale_all_dim``, makes the temperature
            $(0.1 \, m \ln s + 1) / (0.1 \, m_{all} \ln s + 1)$.
        mscale_all_dim: $m_{all}$; as for m, 0 is as None.
        truncate: whether the ends of the ramp are rounded outwards to whole pairs.

    From: Peng et al. (2023), *YaRN: Efficient Context Window Extension of Large Language Models*; DeepSeek-AI
    (2024), *DeepSeek-V2* (mscale).

    >>> scaling = Yarn(factor=4.0, original_max_position_embeddings=4096)
    >>> print(Scaling().frequencies(6, 10_000.0) / scaling.frequencies(6, 10_000.0))
    tensor([1.0000, 1.3333, 2.0000], dtype=torch.float64)
    """

    factor: float
    original_max_position_embeddings: int
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        """Blend the trained and the divided frequencies."""
        if base <= 1:
            raise ValueError(
                f"expected a base above 1, got {base}; with others no pair is slower than the first"
            )
        omega = _powers(d_rotary, base)
        slow = self._ramp(d_rotary, base)
        return (1 - slow) * omega + slow * omega / self.factor

    def _ramp(self, d_rotary: int, base: float) -> Float[Tensor, " d_rotary/2"]:
        """Return 0 for fast pairs, 1 for slow pairs, and a number between 0 and 1 for pairs between them."""

        def pair(turns: float) -> float:  # solves base^(-2i / d) * length = 2 pi * turns for i
            turned = self.original_max_position_embeddings / (2 * math.pi * turns)
            return d_rotary * math.log(turned) / (2 * math.log(base))

        begin, end = pair(self.beta_fast), pair(self.beta_slow)
        if self.truncate:
            begin, end = math.floor(begin), math.ceil(end)
        begin, end = max(begin, 0), min(end, d_rotary - 1)
        if begin == end:
            end += 0.001  # a step, without dividing by 0
        pairs = torch.arange(d_rotary // 2, dtype=torch.float64, device="cpu")
        return ((pairs - begin) / (end - begin)).clamp(0, 1)

    def temperature(self) -> float:
        """Sharpen the attention, which has more keys to choose from, by a little for each doubling."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.factor <= 1:
            return 1.0
        grown = 0.1 * math.log(self.factor)
        if self.mscale and self.mscale_all_dim:
            return (self.mscale * grown + 1) / (self.mscale_all_dim * grown + 1)
        return grown + 1


@dataclass(frozen=True)
class LongRope(Scaling):
    r"""Divide each frequency by a number of its own, $\omega_i / \lambda_i$, which a search has found.

    There are two lists of $\lambda$: one is for texts of at most the original length, one for longer texts.

    Args:
        short_factor: $\lambda$ of short texts, d / 2 numbers.
        long_factor: $\lambda$ of long texts, as many.
        original_max_position_embeddings: $n_0$, the longest of the short texts.
        factor: s, by which the context was extended.
        attention_factor: the temperature, of short texts too; $\sqrt{1 + \ln s / \ln n_0}$ when None.

    Raises:
        ValueError: neither ``factor`` nor ``attention_factor``.

    From: Ding et al. (2024), *LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens*.

    >>> scaling = LongRope((1.0, 1.0), (1.0, 5.0), original_max_position_embeddings=100, factor=4.0)
    >>> print(scaling.frequencies(4, 10_000.0, length=101), f"{scaling.temperature():.3f}")
    tensor([1.0000, 0.0020], dtype=torch.float64) 1.141
    """

    looks_at_length = True
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float | None = None
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        if self.factor is None and self.attention_factor is None:
            raise ValueError(
                "expected a factor or an attention_factor for rope_type 'longrope', got neither; the factor "
                "is the new length divided by original_max_position_embeddings"
            )

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        """Divide by the list that is for texts of this length."""
        omega = _powers(d_rotary, base)
        for name in ("short_factor", "long_factor"):
            numbers = getattr(self, name)
            if len(numbers) != len(omega):
                raise ValueError(
                    f"expected a {name} of {len(omega)} numbers, one for each pair of channels that turns, "
                    f"got {len(numbers)}; d_rotary says how many channels turn"
                )
        short, long = (
            omega / torch.tensor(numbers, dtype=torch.float64, device="cpu")
            for numbers in (self.short_factor, self.long_factor)
        )
        return short if length is None else self.choose(short, long, length)

    def choose(
        self,
        short: Float[Tensor, " d_rotary/2"],
        long: Float[Tensor, " d_rotary/2"],
        length: int | Int[Tensor, ""],
    ) -> Float[Tensor, " d_rotary/2"]:
        """Choose between the frequencies for short and for long texts."""
        return torch.where(_as_tensor(length) > self.original_max_position_embeddings, long, short)

    def temperature(self) -> float:
        """Sharpen the attention by the length that it was extended to."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        assert self.factor is not None
        grown = math.log(max(self.factor, 1.0)) / math.log(self.original_max_position_embeddings)
        return math.sqrt(1 + grown)


@dataclass(frozen=True)
class Llama3(Scaling):
    r"""Divide slow frequencies, leave fast ones: $f_i \, \omega_i + (1 - f_i) \, \omega_i / s$.

    f rises from 0 to 1 and is linear in the number of turns that a pair makes in the original length.

    Args:
        factor: how many times longer the texts may be, s.
        low_freq_factor: pairs with fewer turns than this are divided by s.
        high_freq_factor: pairs with more turns than this keep their frequency.
        original_max_position_embeddings: the length that the model was trained for.

    From: Grattafiori et al. (2024), *The Llama 3 Herd of Models*.

    >>> scaling = Llama3(8.0, 1.0, 4.0, original_max_position_embeddings=8192)
    >>> print(Scaling().frequencies(6, 500_000.0) / scaling.frequencies(6, 500_000.0))
    tensor([1., 1., 8.], dtype=torch.float64)
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        if not self.low_freq_factor < self.high_freq_factor:
            raise ValueError(
                f"expected low_freq_factor below high_freq_factor, got {self.low_freq_factor} and "
                f"{self.high_freq_factor}; exchange them"
            )

    def frequencies(self, d_rotary: int, base: float, length: Length = None) -> Float[Tensor, " d_rotary/2"]:
        """Blend the trained and the divided frequencies."""
        omega = _powers(d_rotary, base)
        turns = omega * self.original_max_position_embeddings / (2 * math.pi)
        fast = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        fast = fast.clamp(0, 1)
        return fast * omega + (1 - fast) * omega / self.factor


SCALINGS: dict[str, type[Scaling]] = {
    "default": Scaling,
    "linear": Linear,
    "dynamic": Dynamic,
    "yarn": Yarn,
    "longrope": LongRope,
    "llama3": Llama3,
}


def scaling_pairs(given: Entries) -> tuple[tuple[str, Any], ...]:
    """Sort the entries of a scaling by name, and turn lists into tuples: equal scalings have equal hashes.

    Args:
        given: a dictionary, or pairs of names and values.

    Returns:
        Pairs of names and values.

    Raises:
        ValueError: anything else.

    >>> scaling_pairs({"rope_type": "linear", "factor": 4.0})
    (('factor', 4.0), ('rope_type', 'linear'))
    """
    try:
        entries = dict(given)
    except (TypeError, ValueError):
        raise ValueError(
            f"expected a scaling as a dictionary, got {given!r}; write it as in config.json"
        ) from None
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(entries.items())
    )


def read_scaling(given: Entries | None) -> Scaling:
    r"""Make the scaling that the entries of ``config.json`` describe: a rope_type, and what belongs to it.

    Args:
        given: the entries, a dictionary or pairs; None is as rope_type "default".

    Returns:
        An object of the class that ``SCALINGS`` has for the rope_type.

    Raises:
        ValueError: an unknown rope_type, an entry that is missing or does not belong to it, or a value that
            is not possible.

    >>> read_scaling({"rope_type": "linear", "factor": 4.0})
    Linear(factor=4.0)
    """
    if given is None:
        return Scaling()
    entries = dict(scaling_pairs(given))
    kind = entries.pop("rope_type", "default")
    if kind not in list(SCALINGS):  # a list, since kind may be unhashable
        raise ValueError(
            f"expected a rope_type out of {', '.join(SCALINGS)}, got {kind!r}; the others are not built"
        )
    fields = {field.name: field.default for field in dataclasses.fields(SCALINGS[kind])}
    needed = [name for name, default in fields.items() if default is dataclasses.MISSING]
    if not set(needed) <= set(entries) <= set(fields):
        optional = [name for name in fields if name not in needed]
        also = f", if you like {', '.join(optional)}" if optional else ""
        raise ValueError(
            f"expected rope_type {kind!r} with {', '.join(needed) or 'no other entry'}{also}, got {entries}; "
            "add the missing entries and delete the others"
        )
    for name, value in entries.items():
        if value is not None or fields[name] is not None:
            _check(name, value)
    return SCALINGS[kind](**entries)


def _check(name: str, value: Any) -> None:
    """Refuse a value that an entry of this name cannot have."""
    if name == "truncate":
        expected, possible = "True or False", isinstance(value, bool)
    elif name in ("short_factor", "long_factor"):
        expected = "a list of finite numbers above 0"
        possible = isinstance(value, tuple) and all(_is_number(x) and x > 0 for x in value)
    elif name in ("mscale", "mscale_all_dim"):
        expected, possible = "a finite number of 0 or more", _is_number(value) and value >= 0
    else:  # the logarithm of the original length is a divisor
        least = 1 if name == "original_max_position_embeddings" else 0
        expected, possible = f"a finite number above {least}", _is_number(value) and value > least
    if not possible:
        raise ValueError(f"expected {name} as {expected}, got {value!r}; correct this entry of the scaling")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _as_tensor(length: int | Int[Tensor, ""]) -> Float[Tensor, ""]:
    """Make a length a number in float64, where it is; a plain one is on the CPU, also in a model on meta."""
    if isinstance(length, Tensor):
        return length.to(torch.float64)
    return torch.tensor(length, dtype=torch.float64, device="cpu")


def _powers(d_rotary: int, base: float | Float[Tensor, ""]) -> Float[Tensor, " d_rotary/2"]:
    """Return base^(-2i / d) for each pair i."""
    if d_rotary < 2 or d_rotary % 2:
        raise ValueError(
            f"expected an even number of channels to turn, got {d_rotary}; a turn takes two of them"
        )
    device = base.device if isinstance(base, Tensor) else "cpu"  # also in a model built on meta
    even = torch.arange(0, d_rotary, 2, dtype=torch.float64, device=device)
    return base ** -(even / d_rotary)
