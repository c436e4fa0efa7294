"""Mistakes that people make in `critical_path`, each with the hint for its author."""

from __future__ import annotations

from autograder.exercises.ch01_rnn_bottleneck.critical_path import EXERCISE


@EXERCISE.misconception(
    "You count every step of the recurrent network, T * L. Many of them run at the same time: layer 2 "
    "reads token 1 while layer 1 reads token 2. Count the longest chain."
)
def every_step(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len * num_layers
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You leave out the layers: T is the path through one layer. After the last token's step in layer 1, each "
    "layer above has one more step: T + L - 1."
)
def layers_left_out(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "One step too many: T + L counts the step at the turn from tokens to layers twice. Count it once: with "
    "one token and one layer there is one step.",
    gravity="slip",
)
def corner_counted_twice(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "One step too few: T + L - 2 counts the arrows between steps. Count the steps themselves: with one "
    "token and one layer there is one step.",
    gravity="slip",
)
def arrows_counted(seq_len, num_layers, kind):
    if kind == "rnn":
        return seq_len + num_layers - 2
    if kind == "attention":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You take the larger of T and L. A chain goes along the tokens *and* up the layers, and its steps "
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
    "waits only for the layer below, L."
)
def kinds_exchanged(seq_len, num_layers, kind):
    if kind == "attention":
        return seq_len + num_layers - 1
    if kind == "rnn":
        return num_layers
    raise ValueError(f"no such kind: {kind}")


@EXERCISE.misconception(
    "You count attention like a recurrent network. In attention no token waits for another of its layer: "
    "the path is L."
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
    "You give attention one step, as if it had one layer. Each of the L layers reads the result of the layer "
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
    "You treat every kind that is not 'rnn' as attention. An unknown kind is a caller's mistake: `raise "
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


@EXERCISE.misconception("For an unknown kind your function returns None. Refuse it: `raise ValueError(...)`.")
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
