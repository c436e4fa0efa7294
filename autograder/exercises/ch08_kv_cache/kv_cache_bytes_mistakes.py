"""Mistakes that people make in `kv_cache_bytes`, each with the hint for its author."""

from __future__ import annotations

from autograder.exercises.ch08_kv_cache.kv_cache_bytes import EXERCISE


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
    "You count a single head, but each key-value head keeps keys and values. Multiply by num_kv_heads."
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
    "You count three tensors, for queries, keys and values, but queries are not kept. Multiply by 2."
)
def queries_too(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 3 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


@EXERCISE.misconception("You return gibibytes. Return bytes; do not divide by 1024.", gravity="slip")
def gibibytes(num_layers, num_kv_heads, d_head, seq_len, batch=1, bytes_per_element=2):
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element / 1024**3
