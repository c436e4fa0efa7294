"""Errors for settings that are not possible: what was expected, what was given, what to do."""

from __future__ import annotations

import math
from dataclasses import fields
from numbers import Real
from typing import Any, get_args


def check_sizes(config: Any, *names: str) -> None:
    """Refuse a size that is not a whole number of 1 or more. A field whose type allows None may also be None.

    Args:
        config: a dataclass.
        names: the fields that are sizes.

    Raises:
        ValueError: names the first field that is wrong.

    >>> from tfcore.config import AttentionConfig
    >>> check_sizes(AttentionConfig(d_model=12, num_heads=3, window=None), "d_model", "window")
    >>> AttentionConfig(d_model=0, num_heads=3)
    Traceback (most recent call last):
    ValueError: expected d_model as a whole number of 1 or more, got 0
    """
    optional = {field.name for field in fields(config) if "None" in str(field.type)}
    for name in names:
        value = getattr(config, name)
        if value is None and name in optional:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"expected {name} as a whole number of 1 or more, got {value!r}")


def check_eps(name: str, eps: float) -> None:
    if not (isinstance(eps, Real) and 0 <= eps < math.inf):
        raise ValueError(f"expected a {name} of 0 or more, got {eps!r}; 1e-5 is usual")


def check_softcap(name: str, cap: float | None) -> None:
    if cap is not None and not 0 < cap < math.inf:
        raise ValueError(f"expected a {name} above 0, got {cap!r}; None leaves it out")


def check_type(config: Any, name: str, *kinds: type) -> None:
    value = getattr(config, name)
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"expected {name} of type {names}, got {value!r}; make one first")


def check_choice(config: Any, name: str, choices: Any) -> None:
    value = getattr(config, name)
    if value not in get_args(choices):
        raise ValueError(f"expected {name} out of {', '.join(get_args(choices))}, got {value!r}; name one")
