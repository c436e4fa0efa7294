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
"""Kinds that hold the name of one that it asks for, and are none."""


def number(rng: np.random.Generator, low: int, high: int) -> int:
    """A drawn number from low to high, both included."""
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
        f"than {num_layers} steps wait for each other"
    )


def at_least_the_tokens(trial: Trial) -> str | None:
    seq_len, _, kind = trial.case.args
    if kind != "rnn" or _got(trial) >= seq_len:
        return None
    return (
        f"you count {_got(trial):g} for {seq_len} tokens; state t is made from state t - 1, so no fewer than "
        f"{seq_len} steps wait for each other"
    )


def one_more(trial: Trial) -> str | None:
    """What one more token and one more layer cost."""
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
            ("layer", True): "the new layer works along, one token behind the layer below",
            ("layer", False): "the new layer reads the one below, all tokens at once",
        }[what, recurrent]
        return (
            f"with {kind!r}, {seq_len} tokens and {num_layers} layers, one more {what} makes your path "
            f"{added:g} longer; it should be {right}: {reason}"
        )
    return None


def last_layer(trial: Trial) -> str | None:
    """When the last layer reads the first token, and when the last."""
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
    goal="Count the layer steps that have to wait for each other, with as many processors as you like.",
    section="Who has to wait",
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


@EXERCISE.misconception(
    "You count every step of the recurrent network, T * L. Many of them go on at the same time: layer 2 "
    "reads token 1 while layer 1 reads token 2. Count the longest chain."
)
def every_step(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len * num_layers
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You leave out the layers: T is the path through one. After the last token's step in layer 1, each "
    "layer above has one more step: T + L - 1."
)
def layers_left_out(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "One too many: T + L counts the corner twice. With one token and one layer there is one step: T + L - 1.",
    gravity="slip",
)
def corner_counted_twice(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "One too few: T + L - 2 counts the arrows between the steps. Count the steps themselves; with one "
    "token and one layer there is one: T + L - 1.",
    gravity="slip",
)
def arrows_counted(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 2
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You take the longer of the two sides. A chain goes along the tokens *and* up the layers, and its steps "
    "add up: T + L - 1."
)
def longer_side(seq_len, num_layers, kind):
    if kind == "rnn":
        return max(seq_len, num_layers)
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You count the layers alone for the recurrent network. Within a layer, each state also waits for the "
    "state before: T + L - 1."
)
def tokens_left_out(seq_len, num_layers, kind):
    if kind in ("rnn", "attention"):
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "The two kinds are exchanged. The recurrent network waits from token to token, T + L - 1; attention "
    "waits for the layer below alone, L."
)
def kinds_exchanged(seq_len, num_layers, kind):
    if kind == "attention":
        return seq_len + num_layers - 1
    if kind == "rnn":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You count attention like a recurrent network. In attention no token waits for another of its layer: "
    "its path is L."
)
def attention_like_rnn(seq_len, num_layers, kind):
    if kind in ("rnn", "attention"):
        return seq_len + num_layers - 1
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You give attention T steps. It compares many pairs, but all of them at once: no token waits for "
    "another of its layer, so the path is L."
)
def attention_token_by_token(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    if kind == "attention":
        return seq_len
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You give attention one step. That is one layer; each of the L layers reads the result of the layer "
    "below: return L."
)
def attention_in_one_step(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    if kind == "attention":
        return 1
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You count the work of attention, not its path. T * L states are computed, but all T of a layer at the "
    "same time: the path is L."
)
def attention_by_its_work(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    if kind == "attention":
        return seq_len * num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You take every kind that is not 'rnn' for attention. An unknown kind is a caller's mistake: `raise "
    "ValueError(...)`."
)
def all_else_is_attention(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    return num_layers


@EXERCISE.misconception(
    "You accept names that only resemble the two, such as 'RNN' or 'self-attention'. Compare with ==, and "
    "`raise ValueError(...)` for all else."
)
def much_the_same_name(seq_len, num_layers, kind):
    if "rnn" in kind.lower():
        return seq_len + num_layers - 1
    if "attention" in kind.lower():
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "For an unknown kind your function ends silently and returns None. Refuse it: `raise ValueError(...)`."
)
def silent(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 1
    if kind == "attention":
        return num_layers


@EXERCISE.misconception(
    "A dictionary raises KeyError for a kind that it does not hold. Raise a ValueError: look first, `if "
    "kind not in lengths: raise ValueError(...)`.",
    gravity="slip",
)
def key_error(seq_len, num_layers, kind):
    return {"rnn": seq_len + num_layers - 1, "attention": num_layers}[kind]


@EXERCISE.misconception(
    "`assert` raises an AssertionError, and python -O removes it. For a caller's mistake write `raise "
    "ValueError(...)`.",
    gravity="slip",
)
def asserted(seq_len, num_layers, kind):
    assert kind in ("rnn", "attention")
    return seq_len + num_layers - 1 if kind == "rnn" else num_layers


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


@EXERCISE.style("a clock: at each tick, all that is ready is done; a float")
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


@EXERCISE.style("match, and a 0-d array")
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
