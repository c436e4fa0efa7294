"""ch01_rnn_bottleneck/critical_path: how many steps have to wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import bottleneck

KINDS = ("lstm", "gru", "convolution", "transformer", "feedforward", "mlp", "perceptron", "pooling")
"""Kinds of layers that the exercise does not ask for."""
NEARLY = ("RNN", "rnn2", "self-attention", "Attention")
"""Kinds that the exercise refuses, though their names resemble 'rnn' or 'attention'."""


def number(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a number from low to high, both included."""
    return int(rng.integers(low, high + 1))


def recurrent(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, 2 layers", (3, 2, "rnn"))
    yield Case("one layer", (number(rng, 4, 9), 1, "rnn"))
    yield Case("one token", (1, number(rng, 3, 9), "rnn"))
    yield Case("one token, one layer", (1, 1, "rnn"))
    yield Case("more tokens than layers", (number(rng, 20, 60), number(rng, 5, 12), "rnn"))
    yield Case("more layers than tokens", (number(rng, 3, 8), number(rng, 20, 40), "rnn"))
    yield Case("some 400 tokens", (number(rng, 380, 420), number(rng, 13, 24), "rnn"))


def attending(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens, 2 layers", (3, 2, "attention"))
    yield Case("one layer", (number(rng, 4, 9), 1, "attention"))
    yield Case("one token", (1, number(rng, 3, 9), "attention"))
    yield Case("more tokens than layers", (number(rng, 20, 60), number(rng, 5, 12), "attention"))
    yield Case("more layers than tokens", (number(rng, 3, 8), number(rng, 20, 40), "attention"))


def other_kinds(rng: np.random.Generator) -> Iterator[Case]:
    for kind in rng.permutation(KINDS)[:2]:
        yield Case(f"the kind {str(kind)!r}", (number(rng, 4, 9), number(rng, 2, 3), str(kind)))
    for kind in NEARLY:
        yield Case(f"the kind {kind!r}", (number(rng, 4, 9), number(rng, 2, 3), kind))
    yield Case("no kind at all", (number(rng, 4, 9), number(rng, 2, 3), ""))


def _got(trial: Trial) -> float:
    return float(np.asarray(trial.value))


def whole(trial: Trial) -> str | None:
    got = _got(trial)
    return None if got == round(got) else f"you count {got:.4g} steps; steps come in whole numbers"


def at_least_the_layers(trial: Trial) -> str | None:
    _, num_layers, _ = trial.case.args
    if _got(trial) >= num_layers:
        return None
    return (
        f"you count {_got(trial):g} for {num_layers} layers; each layer reads the one below, so no fewer "
        f"than {num_layers} steps run one by one"
    )


def at_least_the_tokens(trial: Trial) -> str | None:
    seq_len, _, kind = trial.case.args
    if kind != "rnn" or _got(trial) >= seq_len:
        return None
    return (
        f"you count {_got(trial):g} for {seq_len} tokens; state t is made from state t - 1, so no fewer than "
        f"{seq_len} steps run one by one"
    )


def one_more(trial: Trial) -> str | None:
    """Check how much one more token and one more layer add."""
    seq_len, num_layers, kind = trial.case.args
    got = _got(trial)
    recurrent = kind == "rnn"
    growing = (
        ("token", (seq_len + 1, num_layers, kind), 1 if recurrent else 0),
        ("layer", (seq_len, num_layers + 1, kind), 1),
    )
    for what, args, right in growing:
        added = float(np.asarray(trial.call(Case(f"one {what} more", args)).value)) - got
        if added == right:
            continue
        reason = {
            ("token", True): "a layer may read token t while the layer below reads token t + 1",
            ("token", False): "no token of a layer waits for another of the same layer",
            ("layer", True): "the new layer works at the same time, one token behind the layer below",
            ("layer", False): "the new layer reads the one below, all tokens at once",
        }[what, recurrent]
        return (
            f"with {kind!r}, {seq_len} tokens and {num_layers} layers, one more {what} makes your path "
            f"{added:g} longer; it should be {right}: {reason}"
        )
    return None


def last_layer(trial: Trial) -> str | None:
    """Check the steps at which the last layer reads the first token and the last token."""
    seq_len, num_layers, kind = trial.case.args
    if _got(trial) == trial.expected:
        return None
    if kind == "attention":
        reads = f"all tokens at step {num_layers}"
    else:
        last = f" and token {seq_len} at step {seq_len + num_layers - 1}" if seq_len > 1 else ""
        reads = f"token 1 at step {num_layers}{last}"
    return f"layer {num_layers}, the last, reads {reads}, where the path ends; you return {_got(trial):g}"


EXERCISE = Exercise(
    name="ch01_rnn_bottleneck/critical_path",
    signature="critical_path(seq_len, num_layers, kind)",
    goal="Count the layer steps that must run one after another, with as many processors as you like.",
    section="Who has to wait",
    minutes=10,
    difficulty="easy",
    reference=bottleneck.critical_path,
    criteria=(
        Criterion("layers of a recurrent network", 1, recurrent),
        Criterion("layers of attention", 0.5, attending),
        Criterion("a ValueError for any other kind", 0.5, other_kinds),
    ),
    properties=(
        *FIRST,
        Property("steps are whole", whole),
        Property("each layer waits for the one below", at_least_the_layers),
        Property("each state waits for the one before", at_least_the_tokens),
        Property("one token or one layer more", one_more),
        Property("the path ends where the last layer reads the last token", last_layer),
        *LAST,
    ),
)
