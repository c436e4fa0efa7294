"""Right answers to `parameter_count`, each in a style of its own."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from autograder.exercises.ch04_multi_head.parameter_count import EXERCISE


@EXERCISE.style("matrices, then biases")
def matrices_and_biases(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    count = 2 * d_model * d_model + 2 * d_model * d_kv
    if bias:
        count += 2 * d_model + 2 * d_kv
    return count


@EXERCISE.style("in closed form")
def closed_form(d_model, num_heads, num_kv_heads=None, bias=True):
    d_head, rest = divmod(d_model, num_heads)
    if rest:
        raise ValueError("num_heads must divide d_model")
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    return 2 * (d_model + int(bias)) * (num_heads + num_kv_heads) * d_head


@EXERCISE.style("shapes in a table, added up")
def table_of_shapes(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads != 0:
        raise ValueError("num_heads must divide d_model")
    d_kv = (num_kv_heads or num_heads) * d_model // num_heads
    shapes = {
        "W_q": (d_model, d_model),
        "W_k": (d_kv, d_model),
        "W_v": (d_kv, d_model),
        "W_o": (d_model, d_model),
    }
    return sum(d_out * d_in + (d_out if bias else 0) for d_out, d_in in shapes.values())


@EXERCISE.style("torch layers, counted")
def layers_counted(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("num_heads must divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads if num_kv_heads is not None else num_heads)
    with torch.device("meta"):
        layers = [nn.Linear(d_model, width, bias=bias) for width in (d_model, d_kv, d_kv, d_model)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


@EXERCISE.style("head by head, W_o by its columns")
def head_by_head(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("num_heads must divide d_model")
    d_head = d_model // num_heads
    total = d_model if bias else 0
    for _ in range(num_heads):
        total += d_model * d_head + bias * d_head
        total += d_head * d_model
    for _ in range(num_kv_heads or num_heads):
        total += 2 * (d_model * d_head + bias * d_head)
    return total


@EXERCISE.style("with numpy, as an array of one number")
def with_numpy(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("num_heads must divide d_model")
    given = np.array([num_heads, num_heads, num_kv_heads or num_heads, num_kv_heads or num_heads])
    return np.sum(given * (d_model // num_heads) * (d_model + bias))
