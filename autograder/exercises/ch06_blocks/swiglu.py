"""ch06_blocks/swiglu: a feed-forward network with a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch06_blocks.tokens import a_token_moves_itself_alone
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, on_any_device
from tfcore.layers import feed_forward

Arguments = tuple[Tensor, Tensor, Tensor, Tensor]
OTHER_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "ReLU": F.relu,
    "GELU": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ELU": F.elu,
    "Mish": F.mish,
    "a leaky ReLU": F.leaky_relu,
    "no activation": lambda z: z,
}


def drawn(
    rng: np.random.Generator, *shape: int, d_ff: int, gate: float = 2.0, dtype: torch.dtype = torch.float32
) -> Arguments:
    """Draw x, W_g, W_u and W_d; `gate` is the spread of the gates, so wide that SiLU is not linear."""
    d_model = shape[-1]
    W_g = gate * tensor(rng, d_model, d_ff) / d_model**0.5
    W_u, W_d = tensor(rng, d_model, d_ff) / d_model**0.5, tensor(rng, d_ff, d_model) / d_ff**0.5
    x, W_g, W_u, W_d = (t.to(dtype) for t in (tensor(rng, *shape), W_g, 1.5 * W_u, 1.5 * W_d))
    return x, W_g, W_u, W_d


def ordinary(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens, d_model = 3, d_ff = 4", drawn(rng, 1, 2, 3, d_ff=4))
    yield Case("2 sequences of 3 tokens, d_model = 4, d_ff = 5", drawn(rng, 2, 3, 4, d_ff=5))
    B, T, d_model, d_ff = sizes(rng, (2, 6), (2, 6), (2, 9), (5, 12))
    yield Case("a batch of any size", drawn(rng, B, T, d_model, d_ff=d_ff))
    yield Case("a single token in each sequence", drawn(rng, 3, 1, 4, d_ff=6))
    yield Case("tokens of one channel", drawn(rng, 3, 4, 1, d_ff=5))
    yield Case("a single inner channel", drawn(rng, 2, 3, 5, d_ff=1))
    yield Case("an inner width below d_model", drawn(rng, 2, 3, 7, d_ff=5))
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 3, 4, 6, d_ff=8))))
    yield Case("an inner width of d_model", drawn(rng, 2, 3, 5, d_ff=5))


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one token", drawn(rng, 2, d_ff=3))
    yield Case("one sequence, (3, 4)", drawn(rng, 3, 4, d_ff=5))
    yield Case("four axes", drawn(rng, 2, 3, 4, 5, d_ff=6))
    x, *weights = drawn(rng, 2, 4, 3, 5, d_ff=7)
    yield Case("four axes, x not contiguous", (strided(x), *weights))


def large(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("gates of a hundred", drawn(rng, 2, 3, 4, d_ff=6, gate=1e2))
    yield Case("gates of ten thousand", drawn(rng, 2, 3, 5, d_ff=8, gate=1e4))


def other_types(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 1, 3, 4, d_ff=5, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 3, 4, d_ff=7, dtype=torch.bfloat16))


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from ordinary(rng)
    yield from leading_axes(rng)
    yield from large(rng)


def _with_one_changed(trial: Trial, place: int, factor: float) -> Tensor:
    args = list(trial.case.args)
    args[place] = factor * args[place]
    return trial.call(Case("one weight changed", tuple(args))).value


def linear_in_what_is_gated(trial: Trial) -> str | None:
    twice = _with_one_changed(trial, 2, 2.0)
    if near(twice.double().numpy(), 2 * trial.value.double().numpy()):
        return None
    place = int((twice - 2 * trial.value).abs().argmax())
    before, after = float(trial.value.flatten()[place]), float(twice.flatten()[place])
    return f"twice W_u should give twice y, since no SiLU acts on x W_u; it takes {before:.3g} to {after:.3g}"


def linear_in_the_way_back(trial: Trial) -> str | None:
    twice = _with_one_changed(trial, 3, 2.0)
    if near(twice.double().numpy(), 2 * trial.value.double().numpy()):
        return None
    return "twice W_d should give twice y: nothing comes after x has been taken back to d_model by W_d"


def a_closed_gate(trial: Trial) -> str | None:
    shut = _with_one_changed(trial, 1, 0.0)
    if bool((shut.abs() < 1e-6).all()):
        return None
    return (
        f"with W_g = 0 every gate is SiLU(0) = 0 and lets nothing through; yours lets {shut.abs().max():.3g} "
        "through"
    )


def bent_by_silu(trial: Trial) -> str | None:
    """Check the gate of a network with one channel everywhere, at x W_g = 2 and x W_g = -2."""
    one, x = torch.ones(1, 1).double(), torch.tensor([[1.0], [-1.0]]).double()
    got = trial.call(Case("one channel", (x, 2 * one, one, one))).value.double()

    def gives(gate: Callable[[Tensor], Tensor]) -> bool:
        return bool(torch.allclose(got, gate(2 * x) * x, rtol=0, atol=1e-2))

    if gives(F.silu):
        return None
    named = next((f", as {name} gives" for name, gate in OTHER_GATES.items() if gives(gate)), "")
    right = F.silu(2 * x) * x
    at = int((got - right).abs().argmax())
    return (
        f"with W_g = 2 and the other weights 1, y = SiLU(2 x) * x; at x = {int(x[at])} that is "
        f"{float(right[at]):.4g}, and yours is {float(got[at]):.4g}{named}"
    )


def read_by_products_alone(trial: Trial) -> str | None:
    """Check that a change of x which neither x W_g nor x W_u sees changes nothing, with one inner channel."""
    x, one = torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[1.0], [1.0], [1.0]])
    other, back = torch.tensor([[2.0, 1.0, 0.0]]), torch.ones(1, 3)
    got = [trial.call(Case("three channels", (x, one, one, back))).value.double() for x in (x, other)]
    if near(*(y.numpy() for y in got)):
        right, mine = float(3 * F.silu(torch.tensor(3.0))), float(got[0].flatten()[0])
        if abs(mine - right) < 0.1:
            return None
        return (
            "with all weights 1, the token (1, 2, 0) has x W_g = 3 and x W_u = 3, sums over its channels, so "
            f"each number of y is SiLU(3) * 3 = {right:.4g}; yours is {mine:.4g}"
        )
    return (
        "with all weights 1, the tokens (1, 2, 0) and (2, 1, 0) have the same products x W_g and x W_u, and "
        "your results differ; an inner channel is a sum over all channels of x"
    )


def each_inner_channel_counts(trial: Trial) -> str | None:
    """Check each inner channel alone, by a W_d whose other rows are 0."""
    x, W_g, W_u, W_d = (t.double() for t in trial.case.args)
    inner, silent, right = F.silu(x @ W_g) * (x @ W_u), [], 0
    for j in range(len(W_d)):
        alone = torch.zeros_like(W_d)
        alone[j] = W_d[j]
        got = trial.call(Case("one inner channel", (x, W_g, W_u, alone))).value.double()
        given = [bool(torch.allclose(got, inner[..., i, None] * W_d[j], rtol=1e-4)) for i in range(len(W_d))]
        right += given[j]
        silent += [] if got.any() else [j]
        if True in given and not given[j]:
            return (
                f"row {j} of W_d is multiplied by inner channel {given.index(True)}; it belongs to inner "
                f"channel {j}, which columns {j} of W_g and W_u make"
            )
    if silent and right == len(W_d) - len(silent) > 0:
        return f"inner channel {silent[0]} of {len(W_d)} adds nothing to y: use all d_ff of them"
    if right == len(W_d):
        return f"each of the {right} inner channels is right alone, and together they are not: add them up"
    return None


EXERCISE = Exercise(
    name="ch06_blocks/swiglu",
    signature="swiglu(x, W_g, W_u, W_d)",
    goal="Widen each token twice, gate one result by SiLU of the other, and take the product to d_model.",
    section="The feed-forward network, and where 8/3 comes from",
    minutes=10,
    difficulty="easy",
    reference=feed_forward.swiglu,
    criteria=(
        Criterion("(SiLU(x W_g) * (x W_u)) W_d", 0.5, ordinary),
        Criterion("any number of leading axes", 0.25, leading_axes),
        Criterion("gates of a hundred and of ten thousand", 0.25, large, tolerance=1e-2),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, other_types, tolerance=0.2),
        Criterion("gradients reach x and all weights", 0.25, differentiated(everything), tolerance=1e-2),
        Criterion("works on any device", 0.25, elsewhere(ordinary), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("tokens do not see each other", a_token_moves_itself_alone),
        Property("a closed gate lets nothing through", a_closed_gate),
        Property("linear in W_u", linear_in_what_is_gated),
        Property("linear in W_d", linear_in_the_way_back),
        Property("all inner channels count", each_inner_channel_counts),
        Property("the gate is SiLU", bent_by_silu),
        Property("x enters only through x W_g and x W_u", read_by_products_alone),
        *LAST,
    ),
)
