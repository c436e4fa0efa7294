"""Right answers to `kv_cache_bytes`, each in a style of its own."""

from __future__ import annotations

import math

from autograder.exercises.ch08_kv_cache.kv_cache_bytes import EXERCISE


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
