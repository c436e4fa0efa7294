"""ch06_blocks/swiglu: a feed-forward network with a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.cage.tensors import strided
from autograder.exercise import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, near
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
    """x, W_g, W_u and W_d; the gates spread over `gate`, so that SiLU bends and does not merely halve."""
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


def leading_axes(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one token", drawn(rng, 2, d_ff=3))
    yield Case("one sequence, (3, 4)", drawn(rng, 3, 4, d_ff=5))
    yield Case("four axes", drawn(rng, 2, 3, 4, 5, d_ff=6))


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
    """The gate of a network with one channel everywhere, at z = 2 and z = -2."""
    one, z = torch.ones(1, 1).double(), torch.tensor([[2.0], [-2.0]]).double()
    got = trial.call(Case("one channel", (z, one, one, one))).value.double()

    def gives(gate: Callable[[Tensor], Tensor]) -> bool:
        return bool(torch.allclose(got, gate(z) * z, rtol=0, atol=1e-2))

    if gives(F.silu):
        return None
    named = next((f", as {name} gives" for name, gate in OTHER_GATES.items() if gives(gate)), "")
    at = int((got - F.silu(z) * z).abs().argmax())
    x, right = int(z[at]), float(F.silu(z[at]) * z[at])
    return (
        f"with all weights 1, y = SiLU(x) * x; at x = {x} that is {right:.4g}, and yours is "
        f"{float(got[at]):.4g}{named}"
    )


EXERCISE = Exercise(
    name="ch06_blocks/swiglu",
    signature="swiglu(x, W_g, W_u, W_d)",
    goal="Widen each token twice, let SiLU of the one gate the other, and take the product back to d_model.",
    reference=feed_forward.swiglu,
    criteria=(
        Criterion("(SiLU(x W_g) * (x W_u)) W_d", 0.75, ordinary),
        Criterion("any number of leading axes", 0.25, leading_axes),
        Criterion("gates of a hundred and of ten thousand", 0.25, large, tolerance=1e-2),
        Criterion("float64 and bfloat16 come back as they came", 0.25, other_types, tolerance=0.2),
        Criterion("gradients reach x and all weights", 0.25, differentiated(everything), tolerance=1e-2),
        Criterion("the inputs are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("a closed gate lets nothing through", a_closed_gate),
        Property("linear in W_u", linear_in_what_is_gated),
        Property("linear in W_d", linear_in_the_way_back),
        Property("the gate is SiLU", bent_by_silu),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "You exchange gate and up: SiLU acts on x W_g, the gate, and x W_u passes through it unbent."
)
def gate_and_up_exchanged(x, W_g, W_u, W_d):
    return ((x @ W_g) * F.silu(x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your gate is sigmoid(z), as in the GLU of 2017. SwiGLU takes SiLU(z) = z * sigmoid(z), which keeps the "
    "size of z."
)
def sigmoid_for_silu(x, W_g, W_u, W_d):
    return (torch.sigmoid(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your gate is ReLU; that variant is called ReGLU. SiLU(z) = z * sigmoid(z) is smooth and dips below 0."
)
def relu_for_silu(x, W_g, W_u, W_d):
    return (F.relu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception("Your gate is GELU; that variant is called GEGLU. SwiGLU takes z * sigmoid(z).")
def gelu_for_silu(x, W_g, W_u, W_d):
    return (F.gelu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception("SiLU acts on the gate alone. What passes through it, x W_u, stays linear.")
def silu_on_both(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * F.silu(x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You multiply first and bend the product. SiLU acts on x W_g before it multiplies x W_u."
)
def silu_of_the_product(x, W_g, W_u, W_d):
    return F.silu((x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Nothing bends: your gate is x W_g itself. Put it through SiLU, z * sigmoid(z), before it multiplies."
)
def no_activation(x, W_g, W_u, W_d):
    return ((x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You leave x W_u out, so nothing is gated: that is the network of two matrices. Multiply SiLU(x W_g) by "
    "x W_u, number by number."
)
def nothing_gated(x, W_g, W_u, W_d):
    return F.silu(x @ W_g) @ W_d


@EXERCISE.misconception("You bend x before W_g widens it. SiLU acts on the gates themselves: SiLU(x W_g).")
def silu_of_x(x, W_g, W_u, W_d):
    return ((F.silu(x) @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception("You add the gate to what it should gate. A gate multiplies, number by number.")
def added(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) + x @ W_u) @ W_d


@EXERCISE.misconception("You use W_g twice. What passes through the gate is x W_u.")
def one_matrix_twice(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_g)) @ W_d


@EXERCISE.misconception(
    "F.linear multiplies by the transposed weight, as nn.Linear keeps it. Here W_g is (d_model, d_ff): x @ "
    "W_g."
)
def weights_transposed(x, W_g, W_u, W_d):
    return F.linear(F.silu(F.linear(x, W_g)) * F.linear(x, W_u), W_d)


@EXERCISE.misconception(
    "z / (1 + exp(-z)) is SiLU on paper. Where exp(-z) overflows, its gradient is inf/inf: NaN. Write z * "
    "torch.sigmoid(z), or F.silu(z)."
)
def overflowing_exponential(x, W_g, W_u, W_d):
    z = x @ W_g
    return (z / (1 + torch.exp(-z)) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your einsum counts on a batch of sequences, 'btd'. Write '...d,df->...f', or x @ W, for any leading "
    "axes."
)
def three_axes_only(x, W_g, W_u, W_d):
    gate = F.silu(torch.einsum("btd,df->btf", x, W_g))
    return torch.einsum("btf,fd->btd", gate * torch.einsum("btd,df->btf", x, W_u), W_d)


@EXERCISE.misconception(
    "torch.mm takes matrices only, (T, d_model), no batch of them. Write x @ W: it carries all leading axes."
)
def matrices_only(x, W_g, W_u, W_d):
    return torch.mm(F.silu(torch.mm(x, W_g)) * torch.mm(x, W_u), W_d)


@EXERCISE.misconception(
    "The gate is cut off from the gradient (no_grad, detach, or a detour through numpy). W_g learns through "
    "it."
)
def gate_without_gradient(x, W_g, W_u, W_d):
    with torch.no_grad():
        gate = F.silu(x @ W_g)
    return (gate * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You turn everything into float32. The result should have the dtype of x: do not convert, or go back at "
    "the end."
)
def left_in_float32(x, W_g, W_u, W_d):
    x, W_g, W_u, W_d = x.float(), W_g.float(), W_u.float(), W_d.float()
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.style("F.silu")
def functional(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.style("z times sigmoid(z)")
def by_hand(x, W_g, W_u, W_d):
    gate = torch.matmul(x, W_g)
    up = torch.matmul(x, W_u)
    return torch.matmul(gate * torch.sigmoid(gate) * up, W_d)


@EXERCISE.style("einsum")
def einsum(x, W_g, W_u, W_d):
    gate = torch.einsum("...d,df->...f", x, W_g)
    up = torch.einsum("...d,df->...f", x, W_u)
    return torch.einsum("...f,fd->...d", gate * gate.sigmoid() * up, W_d)


@EXERCISE.style("F.linear with the weights turned, as Llama's MLP")
def linear_layers(x, W_g, W_u, W_d):
    return F.linear(nn.SiLU()(F.linear(x, W_g.T)) * F.linear(x, W_u.T), W_d.T)


@EXERCISE.style("both projections in one product, then cut apart")
def one_product(x, W_g, W_u, W_d):
    gate, up = (x @ torch.cat([W_g, W_u], dim=1)).chunk(2, dim=-1)
    return (up * F.silu(gate)) @ W_d


@EXERCISE.style("inner channel by inner channel, in a loop")
def channel_by_channel(x, W_g, W_u, W_d):
    y = 0
    for j in range(W_g.shape[1]):
        gate = (x * W_g[:, j]).sum(-1, keepdim=True)
        up = (x * W_u[:, j]).sum(-1, keepdim=True)
        y = y + gate * torch.sigmoid(gate) * up * W_d[j]
    return y
