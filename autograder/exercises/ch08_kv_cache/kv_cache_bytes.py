"""ch08_kv_cache/kv_cache_bytes: the memory of a cache."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from tfcore import costs

PARAMETERS = ("num_layers", "num_kv_heads", "d_head", "seq_len", "batch", "bytes_per_element")


def one_sequence(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 layers, 5 heads of width 7, 11 tokens", (3, 5, 7, 11))
    L, h, d, T = sizes(rng, (13, 40), (2, 12), (41, 128), (200, 3000))
    yield Case(f"{L} layers, {h} heads of width {d}, {T:,} tokens", (L, h, d, T))
    L, h, d, T = sizes(rng, (80, 130), (7, 16), (64, 79), (100_000, 200_000))
    yield Case(f"{T:,} tokens in {L} layers", (L, h, d, T))
    yield Case("one layer, one head of width 1, one token", (1, 1, 1, 1))


def batches(rng: np.random.Generator) -> Iterator[Case]:
    L, h, d, T, B = sizes(rng, (5, 9), (2, 4), (10, 20), (30, 99), (21, 29))
    yield Case("a batch of 3", (2, 5, 7, 11, 3))
    yield Case(f"batch={B}", (L, h, d, T), {"batch": B})


def widths(rng: np.random.Generator) -> Iterator[Case]:
    L, h, d, T, B = sizes(rng, (5, 9), (10, 14), (15, 20), (30, 99), (21, 29))
    yield Case("1 byte each, as with int8", (2, 5, 7, 11), {"bytes_per_element": 1})
    yield Case("4 bytes each, as with float32", (L, h, d, T), {"bytes_per_element": 4})
    yield Case(f"8 bytes each, a batch of {B}", (L, h, d, T, B, 8))


def given(trial: Trial) -> dict[str, int]:
    defaults = {"batch": 1, "bytes_per_element": 2}
    return defaults | dict(zip(PARAMETERS, trial.case.args, strict=False)) | trial.case.kwargs


def which_factor(trial: Trial) -> str | None:
    """Name the wrong factor in the result, and its cause where only one is possible."""
    got, expected = float(trial.value), float(trial.expected)
    if not math.isfinite(got) or got == expected:
        return None
    if got <= 0:
        return f"your result is {got:,.0f} bytes, but a cache takes more than 0"
    causes = [says for factor, says in _factors(trial) if math.isclose(got, factor * expected, rel_tol=1e-9)]
    if len(causes) == 1:
        return causes[0]
    return f"your result is {got / expected:.6g} times what it should be: a factor is missing or extra"


def _factors(trial: Trial) -> Iterator[tuple[float, str]]:
    """Yield each wrong factor that may be in the result, with a sentence about it."""
    sizes = given(trial)
    told = {*PARAMETERS[: len(trial.case.args)], *trial.case.kwargs}
    yield 0.5, "your result is half of what it should be: a cache holds keys *and* values"
    yield 2, "your result is twice what it should be: keys and values make a factor of 2, and no more"
    for name, size in sizes.items():
        if name in told and size > 2:
            yield 1 / size, f"your result is {size} times too small: `{name}` = {size} does not count in it"
            yield size, f"your result is {size} times too large: `{name}` = {size} counts twice"
            for wrong in (size - 1, size + 1):
                yield wrong / size, f"your result counts {wrong} for `{name}` = {size}"
        for other, another in sizes.items():
            if other != name and name in told and other in told and another != size:
                yield another / size, f"your result has `{other}` = {another} where `{name}` = {size} belongs"
    for name in sorted({"batch", "bytes_per_element"} - told):
        for wrong in (1, 2, 4, 8):
            if wrong != sizes[name]:
                says = f"without `{name}` your result counts {wrong} for it; its default is {sizes[name]}"
                yield wrong / sizes[name], says


def whole(trial: Trial) -> str | None:
    got = float(trial.value)
    return None if got == round(got) else f"you count {got:.6g} bytes; bytes come in whole numbers"


def doubled(trial: Trial) -> str | None:
    """Check that every size is a factor: twice as many tokens take twice as many bytes."""
    L, h, d, T, *more = trial.case.args
    twice = trial.call(Case("twice the tokens", (L, h, d, 2 * T, *more), trial.case.kwargs)).value
    if math.isclose(float(twice), 2 * float(trial.value), rel_tol=1e-9):
        return None
    return (
        f"{T:,} tokens take {float(trial.value):,.0f} bytes by your count, {2 * T:,} tokens "
        f"{float(twice):,.0f}; twice as many tokens should take twice the bytes"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/kv_cache_bytes",
    signature="kv_cache_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2)",
    goal="Count the bytes of the keys and values that a model keeps for its text.",
    section="By hand",
    minutes=5,
    difficulty="easy",
    reference=costs.kv_cache_bytes,
    criteria=(
        Criterion("keys and values in every layer, head, channel and place", 0.5, one_sequence),
        Criterion("a batch of sequences", 0.25, batches),
        Criterion("any number of bytes for an element", 0.25, widths),
    ),
    properties=(
        Property("bytes are whole", whole),
        Property("twice the tokens, twice the bytes", doubled),
        Property("each argument is a factor once", which_factor),
    ),
)
