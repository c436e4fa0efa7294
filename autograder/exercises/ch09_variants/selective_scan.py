"""ch09_variants/selective_scan: leaky memories whose leak is chosen by the token itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import IN_FLOAT32, ROUGH
from autograder.exercises.ch09_variants.weighing import slack, weights_by_channel
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, index, on_any_device
from tfcore import selective_scan as mamba


def drawn(
    rng: np.random.Generator, batch: int, T: int, d: int, N: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """u, delta (B, T, d), A (d, N), B and C (B, T, N) and D (d,); step sizes above 0, rates below."""
    u, B, C = tensor(rng, batch, T, d), tensor(rng, batch, T, N), tensor(rng, batch, T, N)
    delta = torch.from_numpy(rng.uniform(0.2, 1.5, size=(batch, T, d)))
    A = -torch.from_numpy(rng.uniform(0.2, 1.5, size=(d, N)))
    return tuple(x.to(dtype) for x in (u, delta, A, B, C, 1 + tensor(rng, d)))


def scans(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 steps of 3 channels, N = 4", drawn(rng, 1, 2, 3, 4))
    B, T, d, N = sizes(rng, (2, 4), (5, 9), (3, 6), (2, 7))
    yield Case(f"B = {B}, T = {T}, d = {d}, N = {N}", drawn(rng, B, T, d, N))
    yield Case("one memory a channel", drawn(rng, 2, 4, 3, 1))
    yield Case("one channel", drawn(rng, 2, 3, 1, 5))
    yield Case("a single step", drawn(rng, 3, 1, 2, 4))
    yield Case("30 steps", drawn(rng, 1, 30, 3, 2))
    yield Case("tensors that are not contiguous", tuple(map(strided, drawn(rng, 2, 5, 3, 4))))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    u, delta, A, B, C, D = drawn(rng, 1, 4, 2, 3)
    yield Case("A = 0: nothing is forgotten", (u, delta, 0 * A, B, C, D))
    yield Case("rates of -10,000: all is forgotten", (u, delta, 1e4 * A, B, C, D))
    yield Case(
        "steps of 0: tokens passed over", (u, delta * torch.tensor([1.0, 0, 0, 1])[:, None], A, B, C, D)
    )
    u, delta, A, B, C, D = drawn(rng, 1, 120, 3, 2)
    yield Case("120 steps with rates around -20", (u, delta, 20 * A, B, C, D))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 5, 3, 4, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 3, 4, 5, dtype=torch.bfloat16))
    yield Case("float16", drawn(rng, 3, 4, 2, 5, dtype=torch.float16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 steps", drawn(rng, 1, 4, 3, 2))
    yield Case("5 steps, float64", drawn(rng, 2, 5, 3, 4, dtype=torch.float64))


def only_input_makes_output(trial: Trial) -> str | None:
    u, *rest = trial.case.args
    got = numbers(trial.call(replace(trial.case, args=(torch.zeros_like(u), *rest))).value)
    wrong = np.abs(got) > 1e-6
    return (
        f"with u = 0 your output is {got[wrong][0]:.3g}{index(wrong)}; it must be 0" if wrong.any() else None
    )


def channels_stay_apart(trial: Trial) -> str | None:
    u, *rest = trial.case.args
    alone = torch.zeros_like(u)
    alone[..., 0] = u[..., 0]
    got = numbers(trial.call(replace(trial.case, args=(alone, *rest))).value)
    wrong = np.abs(got) > 1e-6
    wrong[..., 0] = False
    if not wrong.any():
        return None
    return f"with an input in channel 0 alone there is an output{index(wrong)}; channels do not mix"


def answer_to_one_input(trial: Trial) -> str | None:
    """What an input of 1 at a single step does in each channel: before it, at once, and one step later."""
    found = weights_by_channel(trial, 0)
    return next((said for c, own in enumerate(found) if (said := _answer_of_channel(trial, c, own))), None)


def _answer_of_channel(trial: Trial, channel: int, found: np.ndarray) -> str | None:
    _, delta, A, B, C, D = map(numbers, trial.case.args)
    close = slack(trial)
    delta, rates, straight = delta[..., channel], A[channel], D[channel]
    for b, s in np.ndindex(*delta.shape):
        given = f"an input of 1 at step {s} alone, in channel {channel},"
        early = np.flatnonzero(np.abs(found[b, :s, s]) > 1e-6)
        if len(early):
            return f"{given} already shows at step {early[0]}; the past cannot know it"
        written = delta[b, s] * B[b, s]
        at_once = float(C[b, s] @ written + straight)
        if abs(found[b, s, s] - at_once) > close * max(1, abs(at_once)):
            return (
                f"{given} gives y = {found[b, s, s]:.4g} at that step; C . (delta B) is "
                f"{at_once - straight:.4g} and D is {straight:.4g}, together {at_once:.4g}"
            )
    for b, s in np.ndindex(len(delta), delta.shape[1] - 1):
        kept = np.exp(delta[b, s + 1] * rates) * delta[b, s] * B[b, s]
        later = float(C[b, s + 1] @ kept)
        got = found[b, s + 1, s]
        if abs(got - later) > close * max(1, abs(later)):
            return (
                f"an input of 1 at step {s} alone, in channel {channel}, gives y = {got:.4g} a step later; "
                f"what is left of the state, exp(delta A) h, read by C, is {later:.4g}"
            )
    return None


EXERCISE = Exercise(
    name="ch09_variants/selective_scan",
    signature="selective_scan(u, delta, A, B, C, D)",
    goal="Run N leaky memories a channel over time: h = exp(delta A) h + delta B u, y = C . h + D u.",
    section="Moving the brackets",
    reference=mamba.selective_scan,
    criteria=(
        Criterion("every step forgets, writes and reads", 0.75, scans),
        Criterion("rates of 0 and of -10,000, steps of 0, long sequences", 0.25, extremes),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion("gradients reach all six inputs", 0.25, differentiated(soft), tolerance=IN_FLOAT32),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("without input there is no output", only_input_makes_output),
        Property("channels do not mix", channels_stay_apart),
        Property("one input, followed through time", answer_to_one_input),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "B u is written into the state, without the step size. Write delta B u: the step size says how long "
    "the input acts.",
    gravity="slip",
)
def input_without_delta(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + u[:, t, :, None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your decay is exp(A), the same at every step. Use exp(delta A): the token chooses by its step size "
    "how much is forgotten."
)
def decay_without_delta(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your state is multiplied by delta A. Multiply it by exp(delta A), the share that is left after a "
    "step of length delta: A is a rate, below zero."
)
def no_exponential(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = delta[:, t, :, None] * A * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your decay is 1 + delta A, which is only the start of exp(delta A), and below zero for a large "
    "step. Use the exponential."
)
def euler_for_the_decay(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = (1 + delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your state grows: A is negative already, so exp(-delta A) is above 1. Use exp(delta A)."
)
def grows(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(-delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "You integrate the input exactly, (exp(delta A) - 1) / A B u. Write delta B u, as Mamba's code "
    "does: it is simpler and does not divide by A.",
    gravity="slip",
)
def exact_input(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * A)
        h = decay * h + (decay - 1) / A * B[:, t, None] * u[:, t, :, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "D is left out. Add D u to the output, y = C . h + D u: this share of the input goes straight to it.",
    gravity="slip",
)
def no_D(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1))
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "D u counts N times, once for each memory. Add it after the sum over the memories: (C h).sum(-1) + D u.",
    gravity="slip",
)
def D_in_the_sum(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None] + (D * u[:, t])[..., None]).sum(-1))
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "B and C are exchanged. Write the token to the memories by B, and read them by C.",
    gravity="slip",
)
def B_and_C_exchanged(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * C[:, t, None]
        ys.append((h * B[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your state is read before the token is written to it, so that y_t does not know u_t. Update h "
    "first, then take y = C . h.",
    gravity="slip",
)
def read_before_writing(u, delta, A, B, C, D):
    h, ys = torch.zeros_like(u[:, 0, :, None] * A), []
    for t in range(u.shape[1]):
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your new input decays as well, exp(delta A) (h + delta B u). Let only what is old decay: exp(delta "
    "A) h + delta B u.",
    gravity="slip",
)
def input_decays_too(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * (h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None])
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "You run backwards in time, from the last token to the first. Run forwards: token t reads what "
    "tokens 0 to t have written.",
    gravity="useless",
)
def backwards(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in reversed(range(u.shape[1])):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys[::-1], dim=1)


@EXERCISE.misconception(
    "Nothing is carried from step to step. Keep the state: h = exp(delta A) h + delta B u.",
    gravity="useless",
)
def nothing_carried(u, delta, A, B, C, D):
    drive = (delta * u)[..., None] * B[:, :, None]
    return (drive * C[:, :, None]).sum(-1) + D * u


@EXERCISE.misconception(
    "B and C of the first token are used at every step. Use B[:, t] and C[:, t]: each token brings its "
    "own, which is what selective means."
)
def not_selective(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, 0, None]
        ys.append((h * C[:, 0, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "You take the mean over the memories. Sum over N: C . h is a dot product.",
    gravity="slip",
)
def mean_over_memories(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).mean(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your numbers overflow as soon as much has been forgotten, as when you divide by the decay summed "
    "so far, exp(-cumsum). Step through time, or exponentiate differences, which are never above 0."
)
def divided_by_the_decay(u, delta, A, B, C, D):
    so_far = (delta[..., None] * A).cumsum(dim=1)
    drive = (delta * u)[..., None] * B[:, :, None]
    h = torch.exp(so_far) * (torch.exp(-so_far) * drive).cumsum(dim=1)
    return (h * C[:, :, None]).sum(-1) + D * u


@EXERCISE.misconception(
    "An operation in place, such as `h *= ...`, writes over numbers that autograd needs, and backward "
    "fails. Write h = ... * h + ..., which makes a new tensor."
)
def state_changed_in_place(u, delta, A, B, C, D):
    h, ys = torch.zeros_like(u[:, 0, :, None] * A), []
    for t in range(u.shape[1]):
        h *= torch.exp(delta[:, t, :, None] * A)
        h += (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "No gradient flows back through time: the state is cut off at every step, as by .detach(). Let the "
    "gradient flow through the state, so that what was written earlier is learned from."
)
def state_detached(u, delta, A, B, C, D):
    h, ys = torch.zeros_like(u[:, 0, :, None] * A), []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * A)
        h = decay * h.detach() + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your state or your result is float32 on the cpu, whatever comes in. Use zeros_like or new_zeros, "
    "or pass dtype=u.dtype, device=u.device to torch.zeros."
)
def float32_on_the_cpu(u, delta, A, B, C, D):
    h, y = torch.zeros(u.shape[0], *A.shape), torch.zeros(u.shape)
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        y[:, t] = (h * C[:, t, None]).sum(-1) + D * u[:, t]
    return y


@EXERCISE.misconception(
    "You write into the caller's input, as `u *= delta` does. Give the product a new name: drive = delta * u."
)
def input_changed_in_place(u, delta, A, B, C, D):
    straight = D * u
    u *= delta
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + u[:, t, :, None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + straight[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.style("step by step")
def step_by_step(u, delta, A, B, C, D):
    h = torch.zeros_like(u[:, 0, :, None] * A)
    ys = []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t].unsqueeze(-1) * A)
        h = decay * h + (delta[:, t] * u[:, t]).unsqueeze(-1) * B[:, t].unsqueeze(1)
        ys.append((h * C[:, t].unsqueeze(1)).sum(dim=-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.style("decays and drives for all steps first, read by a matrix product")
def all_drives_first(u, delta, A, B, C, D):
    decay = torch.exp(torch.einsum("btd,dn->btdn", delta, A))
    drive = torch.einsum("btd,btn,btd->btdn", delta, B, u)
    h, states = u.new_zeros(u.shape[0], *A.shape), []
    for a, b in zip(decay.unbind(1), drive.unbind(1), strict=True):
        h = a * h + b
        states.append(h)
    y = (torch.stack(states, dim=1) @ C.unsqueeze(-1)).squeeze(-1)
    return y + u * D


@EXERCISE.style("without a state: every pair of steps, by differences of summed rates")
def every_pair(u, delta, A, B, C, D):
    so_far = (delta[..., None] * A).cumsum(1)
    gone = so_far[:, :, None] - so_far[:, None]
    later = torch.ones(u.shape[1], u.shape[1], device=u.device).triu(1).bool()
    kept = torch.exp(gone.masked_fill(later[None, :, :, None, None], -torch.inf))
    drive = (delta * u)[..., None] * B[:, :, None, :]
    return torch.einsum("btsdn,bsdn,btn->btd", kept, drive, C) + D * u


@EXERCISE.style("a parallel scan: distances doubled, pairs joined")
def doubled(u, delta, A, B, C, D):
    a, b = torch.exp(delta[..., None] * A), (delta * u)[..., None] * B[:, :, None]
    step, T = 1, u.shape[1]
    while step < T:
        b = torch.cat([b[:, :step], b[:, step:] + a[:, step:] * b[:, :-step]], dim=1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], dim=1)
        step *= 2
    return (b * C[:, :, None]).sum(-1) + D * u


@EXERCISE.style("in float32 or wider, written into the result")
def written_into_the_result(u, delta, A, B, C, D):
    dtype = u.dtype
    u, delta, A, B, C, D = (x.double() for x in (u, delta, A, B, C, D))
    y = torch.empty_like(u)
    h = torch.zeros(u.shape[0], u.shape[2], A.shape[1], dtype=u.dtype, device=u.device)
    for t in range(u.shape[1]):
        h = (delta[:, t, :, None] * A).exp() * h + delta[:, t, :, None] * B[:, t, None, :] * u[:, t, :, None]
        y[:, t] = torch.einsum("bdn,bn->bd", h, C[:, t]) + D * u[:, t]
    return y.to(dtype)


@EXERCISE.style("memory by memory")
def memory_by_memory(u, delta, A, B, C, D):
    y = u * D
    for n in range(A.shape[1]):
        h, read = 0, []
        for t in range(u.shape[1]):
            h = torch.exp(delta[:, t] * A[:, n]) * h + delta[:, t] * B[:, t, n, None] * u[:, t]
            read.append(C[:, t, n, None] * h)
        y = y + torch.stack(read, 1)
    return y
