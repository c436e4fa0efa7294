"""ch08_kv_cache/kv_cache_bytes: what a cache weighs."""

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
    """Return the factor by which the result is off, with its cause where only one is possible."""
    got, expected = float(trial.value), float(trial.expected)
    if not math.isfinite(got) or got == expected:
        return None
    if got <= 0:
        return f"your result is {got:,.0f} bytes, and a cache has more than none"
    causes = [says for factor, says in _factors(trial) if math.isclose(got, factor * expected, rel_tol=1e-9)]
    if len(causes) == 1:
        return causes[0]
    return f"your result is {got / expected:.6g} times what it should be: a factor is missing, or too much"


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
    """Every size is a factor: twice as many tokens weigh twice as much."""
    L, h, d, T, *more = trial.case.args
    twice = trial.call(Case("twice the tokens", (L, h, d, 2 * T, *more), trial.case.kwargs)).value
    if math.isclose(float(twice), 2 * float(trial.value), rel_tol=1e-9):
        return None
    return (
        f"{T:,} tokens weigh {float(trial.value):,.0f} bytes by your count, {2 * T:,} tokens "
        f"{float(twice):,.0f}; twice as many tokens should weigh twice as much"
    )


EXERCISE = Exercise(
    name="ch08_kv_cache/kv_cache_bytes",
    signature="kv_cache_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2)",
    goal="Count the bytes of the keys and values that a model keeps for its text.",
    section="By hand",
    reference=costs.kv_cache_bytes,
    criteria=(
        Criterion("keys and values in every layer, head, channel and place", 0.5, one_sequence),
        Criterion("a batch of sequences", 0.25, batches),
        Criterion("any number of bytes for an element", 0.25, widths),
    ),
    properties=(
        Property("bytes are whole", whole),
        Property("twice the tokens, twice the bytes", doubled),
        Property("the factors are those that went in", which_factor),
    ),
)


@EXERCISE.misconception(
    "You count the keys alone, but the values are kept as well. Multiply by 2.", gravity="slip"
)
def keys_alone(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception(
    "You count a single layer, but every layer has keys and values of its own. Multiply by num_layers."
)
def layers_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception(
    "You count a single head, but each key head keeps keys and values. Multiply by num_kv_heads."
)
def heads_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception(
    "You count one number for each head, but a key has d_head of them. Multiply by d_head."
)
def width_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * seq_len * batch * bytes_per_element


@EXERCISE.misconception(
    "You count the bytes of one token, but the cache keeps all tokens. Multiply by seq_len."
)
def tokens_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * batch * bytes_per_element


@EXERCISE.misconception(
    "Your result does not depend on `batch`, but each sequence has keys and values of its own. Multiply by "
    "batch."
)
def batch_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * bytes_per_element


@EXERCISE.misconception(
    "You always count 2 bytes for an element. Multiply by `bytes_per_element`: int8 has 1, float32 has 4."
)
def always_two_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * 2


@EXERCISE.misconception("You count numbers, not bytes. Multiply by `bytes_per_element`.")
def elements_for_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch


@EXERCISE.misconception("You count bits. Return bytes, and leave the factor 8 out.", gravity="slip")
def bits_for_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element * 8


@EXERCISE.misconception(
    "Your result grows with the square of seq_len, as the scores do, but scores are not kept. Multiply by "
    "seq_len once."
)
def squared_length(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len**2 * batch * bytes_per_element


@EXERCISE.misconception(
    "You count three tensors, as many as queries, keys and values together, but queries are not kept. "
    "Multiply by 2."
)
def queries_too(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 3 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You return gibibytes. Return bytes; do not divide by 1024.", gravity="slip")
def gibibytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element / 1024**3


@EXERCISE.style("the product of all sizes")
def product(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.style("step by step, from one token to the batch")
def token_by_token(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    per_token_and_layer = num_kv_heads * (d_head + d_head) * bytes_per_element
    per_token = num_layers * per_token_and_layer
    return batch * seq_len * per_token


@EXERCISE.style("math.prod of the shape")
def prod_of_shape(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    shape = (num_layers, 2, batch, num_kv_heads, seq_len, d_head)
    return math.prod(shape) * bytes_per_element


@EXERCISE.style("layer by layer, in a loop")
def layer_by_layer(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    total = 0
    for _ in range(num_layers):
        for _ in ("keys", "values"):
            total += batch * num_kv_heads * seq_len * d_head * bytes_per_element
    return total
