"""ch04_multi_head/parameter_count: the number of parameters of an attention layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import FIRST, LAST
from tfcore import costs


def width(rng: np.random.Generator, num_heads: int) -> int:
    """Draw a width that this number of heads divides, other than its square."""
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
    yield Case(f"{h_kv * groups} heads, {h_kv} key heads", (d_model, h_kv * groups), {"num_kv_heads": h_kv})
    yield Case("as many key heads, by num_kv_heads", (12, 3, 3))
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
    """Return d_model, the number of heads, and the width of all keys."""
    named = dict(zip(("d_model", "num_heads", "num_kv_heads", "bias"), trial.case.args, strict=False))
    named |= trial.case.kwargs
    d_model, num_heads = named["d_model"], named["num_heads"]
    return d_model, num_heads, d_model // num_heads * (named.get("num_kv_heads") or num_heads)


def right_but_for_biases(trial: Trial) -> str | None:
    """Accept a right count of the matrices; biases have a criterion of their own and may be missing."""
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
    """Find a count that is off by a whole number of matrices or biases."""
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
    """Find a right count of the matrices with a wrong count of the biases."""
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
    minutes=15,
    difficulty="medium",
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
        Property("every piece counts", whole_pieces),
        Property("biases are counted correctly", biases_counted),
        *LAST,
    ),
)
