"""ch04_multi_head/parameter_count: what an attention layer learns, in numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import costs


def width(rng: np.random.Generator, num_heads: int) -> int:
    """A width that so many heads divide, other than their square."""
    return num_heads * (num_heads + int(rng.integers(2, 9)))


def as_many_key_heads(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads of width 3", (6, 2))
    yield Case("one head", (5, 1))
    h = int(rng.integers(3, 9))
    yield Case(f"{h} heads", (width(rng, h), h))
    yield Case("heads of width 1", (7, 7))
    yield Case("the layer of the first Transformer", (512, 8))


def fewer_key_heads(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 heads share 2 heads of keys", (12, 4, 2))
    yield Case("6 heads share one", (18, 6, 1))
    h_kv, groups = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    d_model = width(rng, h_kv * groups)
    yield Case(f"{h_kv * groups} heads share {h_kv}", (d_model, h_kv * groups), {"num_kv_heads": h_kv})
    yield Case("as many key heads, said so", (12, 3, 3))
    yield Case("a layer as wide as Llama 3 8B's", (4096, 32, 8))


def with_and_without_bias(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 heads, no biases", (6, 2), {"bias": False})
    yield Case("2 heads, with biases", (6, 2))
    h = int(rng.integers(3, 9))
    yield Case(f"{h} heads, no biases", (width(rng, h), h, None, False))
    yield Case("6 heads share 3, no biases", (30, 6, 3, False))
    yield Case("6 heads share 3, with biases", (30, 6, 3, True))
    yield Case("a layer of Mistral 7B", (4096, 32, 8), {"bias": False})


def not_dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 heads for a width of 8", (8, 3))
    h = int(rng.integers(3, 9))
    yield Case("one channel too many", (3 * h + 1, h), {"bias": False})
    yield Case("more heads than channels", (4, 8))


def _sizes(trial: Trial) -> tuple[int, int, int]:
    """d_model, the number of heads, and the width of all keys."""
    named = dict(zip(("d_model", "num_heads", "num_kv_heads", "bias"), trial.case.args, strict=False))
    named |= trial.case.kwargs
    d_model, num_heads = named["d_model"], named["num_heads"]
    return d_model, num_heads, d_model // num_heads * (named.get("num_kv_heads") or num_heads)


def right_but_for_biases(trial: Trial) -> str | None:
    """The matrices are counted rightly; biases, which have a criterion of their own, may be missing."""
    d_model, _, d_kv = _sizes(trial)
    biases = 2 * d_model + 2 * d_kv
    if trial.expected - biases <= trial.value <= trial.expected - biases + 4 * d_model:
        return None
    return f"expected {trial.expected}, {biases} of them in biases; got {trial.value}"


def is_whole(trial: Trial) -> str | None:
    got = float(trial.value)
    return None if got == int(got) else f"your count is {got:g}; parameters come in whole numbers"


def heads_cost_nothing(trial: Trial) -> str | None:
    d_model, num_heads, d_kv = _sizes(trial)
    if d_kv < d_model or num_heads == 1:
        return None
    args = (d_model, 1, None, *trial.case.args[3:])
    alone = trial.call(Case("one head", args, {k: v for k, v in trial.case.kwargs.items() if k == "bias"}))
    if alone.value == trial.value:
        return None
    return (
        f"with {num_heads} heads you count {trial.value}, with one head of the same total width "
        f"{alone.value}; heads share the width, so their number changes nothing"
    )


def whole_pieces(trial: Trial) -> str | None:
    """A count that is off by a whole number of matrices or biases."""
    d_model, _, d_kv = _sizes(trial)
    pieces = {
        d_model * d_model: f"a matrix of {d_model} x {d_model}",
        d_model * d_kv: f"a matrix of {d_kv} x {d_model}",
        d_kv: f"a bias of {d_kv}",
        d_model: f"a bias of {d_model}",
        d_model * (d_model + 1): f"a matrix of {d_model} x {d_model} with its bias",
        d_kv * (d_model + 1): f"a matrix of {d_kv} x {d_model} with its bias",
    }
    off = int(trial.value) - int(trial.expected)
    without_biases = off + 2 * d_model + 2 * d_kv
    for says, gap in (("", off), ("biases aside, ", without_biases)):
        for size, piece in pieces.items():
            times, rest = divmod(abs(gap), size)
            if not rest and 1 <= times <= 4:
                way = "large" if gap > 0 else "small"
                each = f"{times} times " if times > 1 else ""
                return f"{says}your count is {abs(gap)} too {way}: {each}{piece}"
    return None


def biases_counted(trial: Trial) -> str | None:
    """The matrices are counted rightly, the biases are not."""
    d_model, _, d_kv = _sizes(trial)
    matrices, right = 2 * d_model * (d_model + d_kv), 2 * d_model + 2 * d_kv
    got = int(trial.value) - matrices
    if trial.expected == matrices or not 0 <= got <= 2 * right:
        return None
    return (
        f"beside the matrices you count {got} numbers in biases; there are {right}: {d_model} each for W_q "
        f"and W_o, {d_kv} each for W_k and W_v"
    )


EXERCISE = Exercise(
    name="ch04_multi_head/parameter_count",
    signature="parameter_count(d_model, num_heads, num_kv_heads=None, bias=True)",
    goal="Count the parameters of an attention layer, also where query heads share heads of keys and values.",
    section="What heads cost",
    reference=costs.parameter_count,
    criteria=(
        Criterion("four matrices, biases aside", 1, as_many_key_heads, test=right_but_for_biases),
        Criterion("fewer heads of keys and values", 1, fewer_key_heads, test=right_but_for_biases),
        Criterion("biases where bias is True, and only there", 0.5, with_and_without_bias),
        Criterion("a ValueError when the heads do not divide d_model", 0.5, not_dividing),
    ),
    properties=(
        *FIRST,
        Property("a count is whole", is_whole),
        Property("heads cost nothing", heads_cost_nothing),
        Property("pieces are whole", whole_pieces),
        Property("biases are counted rightly", biases_counted),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "You leave W_o out. Count four projections: W_q, W_k, W_v, and W_o, which mixes the heads."
)
def W_o_left_out(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    matrices = d_model * d_model + 2 * d_model * d_kv
    return matrices + bias * (d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You multiply by the number of heads. Leave it out: the heads share the width, d_model / h for each, so "
    "that h heads cost as much as one."
)
def heads_multiplied_in(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    num_kv_heads = num_kv_heads or num_heads
    matrices = 2 * num_heads * d_model * d_model + 2 * num_kv_heads * d_model * d_model
    return matrices + bias * (2 * num_heads * d_model + 2 * num_kv_heads * d_model)


@EXERCISE.misconception(
    "You give each head matrices of the full width and one W_o. Let a head's W_q, W_k and W_v map d_model "
    "to d_model / h; all h together are one matrix of d_model x d_model."
)
def full_width_for_each_head(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    num_kv_heads = num_kv_heads or num_heads
    matrices = (num_heads + 2 * num_kv_heads) * d_model * d_model + d_model * d_model
    return matrices + bias * ((num_heads + 2 * num_kv_heads) * d_model + d_model)


@EXERCISE.misconception(
    "You count one head alone: a width of d_model / h. Count the projections of all h heads."
)
def one_head_alone(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_head = d_model // num_heads
    return 3 * d_model * d_head + d_head * d_model + bias * (3 * d_head + d_model)


@EXERCISE.misconception(
    "You never count the biases. With bias=True add one number for each channel that a projection gives."
)
def biases_forgotten(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv


@EXERCISE.misconception("You count the biases always. With bias=False count the four matrices alone.")
def biases_always(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + 2 * d_model + 2 * d_kv


@EXERCISE.misconception(
    "You count one number for each bias. A bias is a vector: count one number for each channel that the "
    "projection gives."
)
def biases_of_one_number(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + 4 * bias


@EXERCISE.misconception("You leave out the bias of W_o. Count one for each of the four projections.")
def no_bias_of_W_o(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    matrices = 2 * d_model * d_model + 2 * d_model * d_kv
    return matrices + bias * (d_model + 2 * d_kv)


@EXERCISE.misconception(
    "num_kv_heads changes nothing in your count. With fewer heads of keys and values, W_k and W_v give "
    "num_kv_heads * d_head channels, not d_model."
)
def kv_heads_ignored(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    return 4 * d_model * d_model + bias * 4 * d_model


@EXERCISE.misconception(
    "You shrink all four projections. Shrink W_k and W_v alone: W_q and W_o serve every query head."
)
def all_four_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 4 * d_model * d_kv + bias * (3 * d_kv + d_model)


@EXERCISE.misconception(
    "You shrink the keys and leave the values wide. Shrink both, since they are shared together: W_k and "
    "W_v give num_kv_heads * d_head channels."
)
def values_not_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 3 * d_model * d_model + d_model * d_kv + bias * (3 * d_model + d_kv)


@EXERCISE.misconception(
    "You shrink W_o as well. Leave it d_model x d_model: it gets the heads of the queries side by side, and "
    "there are as many of them as before."
)
def W_o_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return d_model * d_model + 3 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You shrink the matrices W_k and W_v and leave their biases wide. A bias has one number for each "
    "channel that is given: num_kv_heads * d_head."
)
def biases_not_shrunk(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * 4 * d_model


@EXERCISE.misconception(
    "You divide d_model by num_kv_heads, which is the width of a head if there were so few. Keep the width "
    "d_model / num_heads, and count num_kv_heads such heads."
)
def divided_by_kv_heads(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model if num_kv_heads is None else d_model // num_kv_heads
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You take None for one head. Where num_kv_heads is left out, count as many as there are query heads.",
    gravity="slip",
)
def none_is_one(d_model, num_heads, num_kv_heads=None, bias=True):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or 1)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You do not check that the heads divide d_model. Raise a ValueError when d_model % num_heads is not 0: "
    "there is no such layer to count."
)
def no_error(d_model, num_heads, num_kv_heads=None, bias=True):
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`."
)
def asserted(d_model, num_heads, num_kv_heads=None, bias=True):
    assert d_model % num_heads == 0, "the heads do not divide d_model"
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


@EXERCISE.misconception(
    "You leave out the biases unless they are asked for. Write bias=True as the default.", gravity="slip"
)
def no_bias_by_default(d_model, num_heads, num_kv_heads=None, bias=False):
    if d_model % num_heads:
        raise ValueError("the heads do not divide d_model")
    d_kv = d_model // num_heads * (num_kv_heads or num_heads)
    return 2 * d_model * d_model + 2 * d_model * d_kv + bias * (2 * d_model + 2 * d_kv)


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
