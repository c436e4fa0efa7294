"""ch08_kv_cache/kv_cache_bytes: what a cache weighs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autograder.exercise import Case, Criterion, Exercise, Property, Trial
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
    """Names the factor by which the result is off, where it is one of the numbers that went in."""
    ratio = float(trial.value) / float(trial.expected)
    for name, size in given(trial).items():
        if size > 2 and math.isclose(ratio, 1 / size, rel_tol=1e-9):
            return f"your result is {size} times too small: `{name}` = {size} does not count in it"
        if size > 2 and math.isclose(ratio, size, rel_tol=1e-9):
            return f"your result is {size} times too large: `{name}` = {size} counts twice"
    if math.isclose(ratio, 0.5, rel_tol=1e-9):
        return "your result is half of what it should be: a cache holds keys *and* values"
    return None


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
    reference=costs.kv_cache_bytes,
    criteria=(
        Criterion("keys and values in every layer, head, channel and place", 0.5, one_sequence),
        Criterion("a batch of sequences", 0.25, batches),
        Criterion("any number of bytes for an element", 0.25, widths),
    ),
    properties=(
        Property("bytes are whole", whole),
        Property("a number that went in is missing, or counts twice", which_factor),
        Property("twice the tokens, twice the bytes", doubled),
    ),
)


@EXERCISE.misconception("You count the keys alone. The values are kept as well, just as many: times 2.")
def keys_alone(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception(
    "You count a single layer. Every layer has keys and values of its own: times num_layers."
)
def layers_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You count a single head. Each key head keeps keys and values: times num_kv_heads.")
def heads_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You count one number for each head. A key has d_head of them: times d_head.")
def width_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You count the bytes of one token. The cache keeps all of them: times seq_len.")
def tokens_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * batch * bytes_per_element


@EXERCISE.misconception("`batch` is ignored. Each sequence has a cache of its own: times batch.")
def batch_left_out(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * bytes_per_element


@EXERCISE.misconception(
    "You always take 2 bytes for an element. Use `bytes_per_element`: int8 has 1, float32 has 4."
)
def always_two_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * 2


@EXERCISE.misconception("You count numbers, not bytes. Each takes `bytes_per_element` of them.")
def elements_for_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch


@EXERCISE.misconception("You count bits: a byte has 8 of them. Leave the factor 8 out.")
def bits_for_bytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element * 8


@EXERCISE.misconception(
    "You count the scores, seq_len squared. They are made and dropped in every step; what is kept grows with "
    "seq_len, not with its square."
)
def squared_length(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len**2 * batch * bytes_per_element


@EXERCISE.misconception(
    "You count three tensors, with the queries. A query is used once and forgotten; only keys and values are "
    "read again: times 2."
)
def queries_too(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 3 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You return gibibytes. Asked for are bytes: do not divide by 1024.")
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
