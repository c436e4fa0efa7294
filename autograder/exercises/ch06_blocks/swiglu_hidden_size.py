"""ch06_blocks/swiglu_hidden_size: how wide a gated network may be for the same number of weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.laws import LAST
from tfcore.layers import feed_forward


def any_width(rng: np.random.Generator) -> Iterator[Case]:
    """Yield widths with each remainder modulo 3, since the rounding is tested."""
    for d_model in (6, 7, 8):
        yield Case(f"d_model = {d_model}", (d_model,))
    for remainder in range(3):
        d_model = 3 * int(rng.integers(40, 400)) + remainder
        yield Case(f"d_model = {d_model}", (d_model,))
    yield Case("the width of GPT-2, 768", (768,))
    yield Case("the width of Llama 7B, 4096", (4096,))


def multiples(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("d_model = 6, multiple_of = 5", (6, 5))
    yield Case("d_model = 6, multiple_of = 4: 16 is a multiple already", (6,), {"multiple_of": 4})
    yield Case("d_model = 4, multiple_of = 5: rounded down to 10, a multiple", (4, 5))
    yield Case("d_model = 3, multiple_of = 256", (3, 256))
    d_model, multiple_of = int(rng.integers(100, 999)), int(rng.integers(10, 40))
    yield Case(f"d_model = {d_model}, multiple_of = {multiple_of}", (d_model, multiple_of))
    hidden = 8 * (3 * int(rng.integers(20, 200))) // 3
    yield Case(f"a hidden size of {hidden}, a multiple of 8", (3 * hidden // 8, 8))
    yield Case("Llama 7B: d_model = 4096, multiple_of = 256", (4096, 256))
    yield Case("Llama 13B: d_model = 5120, multiple_of = 256", (5120,), {"multiple_of": 256})


def _asked(trial: Trial) -> tuple[int, int, float]:
    """Return d_model, multiple_of and the answer."""
    d_model, *rest = trial.case.args
    return d_model, rest[0] if rest else trial.case.kwargs.get("multiple_of", 1), float(trial.value)


def is_a_multiple(trial: Trial) -> str | None:
    _, multiple_of, got = _asked(trial)
    if got % multiple_of == 0:
        return None
    return f"{got:g} is no multiple of {multiple_of}"


def three_matrices_weigh_as_two(trial: Trial) -> str | None:
    d_model, multiple_of, got = _asked(trial)
    room = 8 * d_model // 3
    if room <= got < room + multiple_of:
        return None
    return (
        f"three matrices of {d_model} x {got:g} hold {3 * d_model * got:,.0f} weights; the ungated network "
        f"holds 2 * {d_model} * {4 * d_model} = {8 * d_model**2:,}, which leaves room for {room}, then up to "
        f"a multiple of {multiple_of}"
    )


EXERCISE = Exercise(
    name="ch06_blocks/swiglu_hidden_size",
    signature="swiglu_hidden_size(d_model, multiple_of=1)",
    goal="Choose d_ff so that three matrices have as many weights as two with the inner width 4 d_model.",
    section="The feed-forward network, and where 8/3 comes from",
    minutes=5,
    difficulty="easy",
    reference=feed_forward.swiglu_hidden_size,
    criteria=(
        Criterion("8 d_model / 3, rounded down", 0.5, any_width),
        Criterion("then rounded up to a multiple", 0.5, multiples),
    ),
    properties=(
        Property("a multiple", is_a_multiple),
        Property("as many weights as before", three_matrices_weigh_as_two),
        *LAST,
    ),
)
