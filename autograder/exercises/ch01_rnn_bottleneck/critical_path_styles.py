"""Right answers to `critical_path`, each in a style of its own."""

from __future__ import annotations

import numpy as np

from autograder.exercises.ch01_rnn_bottleneck.critical_path import EXERCISE


@EXERCISE.style("one formula for each kind")
def formulas(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    if kind == "attention":
        return num_layers
    raise ValueError(f"expected the kind 'rnn' or 'attention', got {kind!r}")


@EXERCISE.style("a table of lengths")
def table_of_lengths(seq_len, num_layers, kind):
    lengths = {"rnn": seq_len + num_layers - 1, "attention": num_layers}
    if kind not in lengths:
        raise ValueError(f"kind must be one of {sorted(lengths)}")
    return lengths[kind]


@EXERCISE.style("the earliest step of every state, filled in")
def earliest_steps(seq_len, num_layers, kind):
    if kind not in {"rnn", "attention"}:
        raise ValueError("unknown kind")
    done = np.zeros((num_layers + 1, seq_len + 1), dtype=int)
    for layer in range(1, num_layers + 1):
        for t in range(1, seq_len + 1):
            waits_for = [done[layer - 1, t]]
            if kind == "rnn":
                waits_for.append(done[layer, t - 1])
            done[layer, t] = 1 + max(waits_for)
    return done.max()


@EXERCISE.style("a clock: each tick does all steps that are ready, counted in floats")
def clock(seq_len, num_layers, kind):
    if kind == "attention":
        return float(num_layers)
    if kind != "rnn":
        raise ValueError(kind)
    read, ticks = [0] * num_layers, 0.0
    while read[-1] < seq_len:
        below = [seq_len, *read[:-1]]
        read = [min(seq_len, n + (n < ready)) for n, ready in zip(read, below, strict=True)]
        ticks += 1
    return ticks


@EXERCISE.style("match, returning a 0-d array")
def matched(seq_len, num_layers, kind):
    match kind:
        case "rnn":
            return np.array(seq_len - 1 + num_layers)
        case "attention":
            return np.array(num_layers)
        case _:
            raise ValueError("kind is 'rnn' or 'attention'")


@EXERCISE.style("diagonals of a grid, counted")
def diagonals(seq_len, num_layers, kind):
    waits = {"rnn": 1, "attention": 0}
    if waits.get(kind) is None:
        raise ValueError(f"{kind} is neither 'rnn' nor 'attention'")
    steps = np.add.outer(np.arange(num_layers), waits[kind] * np.arange(seq_len))
    return len(np.unique(steps))
