"""Mistakes that people make in `selective_scan`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch10_beyond_attention.selective_scan import EXERCISE


@EXERCISE.misconception(
    "You write B u into the state, without the step size. Write delta B u: the step size is how long the "
    "input acts.",
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
    "You integrate the input exactly, (exp(delta A) - 1) / A * B u. Write delta B u, as Mamba's code does: "
    "it is simpler and does not divide by A.",
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
    "D is left out. Add D u, the share of the input that goes straight to the output: y = C . h + D u.",
    gravity="slip",
)
def no_D(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1))
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "u is added to the output without its factor D. Write y = C . h + D * u: each channel has its own share "
    "of the input that goes straight to the output.",
    gravity="slip",
)
def u_without_D(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "D is added to the output without the input. Write y = C . h + D * u: D is the share of u that goes "
    "straight to the output.",
    gravity="slip",
)
def D_without_u(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D)
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
    "Your state is read before the token is written to it, so that C . h lacks u_t. Update h first, then "
    "take y = C . h.",
    gravity="slip",
)
def read_before_writing(u, delta, A, B, C, D):
    h, ys = torch.zeros_like(u[:, 0, :, None] * A), []
    for t in range(u.shape[1]):
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your new input decays as well, exp(delta A) (h + delta B u). Let only the old state decay: exp(delta "
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
    "You compute -exp(A), as Mamba's code does because it stores the logarithm of the rates. Here A holds "
    "the rates themselves, below zero: use A as it is, exp(delta A).",
    gravity="slip",
)
def rates_from_their_logarithm(u, delta, A, B, C, D):
    A = -torch.exp(A)
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "You apply softplus to delta. Here delta holds the step sizes themselves, after softplus: use delta as "
    "it is.",
    gravity="slip",
)
def softplus_once_more(u, delta, A, B, C, D):
    delta = torch.nn.functional.softplus(delta)
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys, dim=1)


@EXERCISE.misconception(
    "Your result has the steps in front of the batch, (T, B, d), as torch.stack(ys) makes it. Return "
    "(B, T, d): torch.stack(ys, dim=1).",
    gravity="slip",
)
def time_in_front(u, delta, A, B, C, D):
    h, ys = 0, []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        ys.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(ys)


@EXERCISE.misconception(
    "Your numbers overflow as soon as much has been forgotten, as when you divide by the decay so far, a "
    "factor exp(-cumsum). Step through time, or exponentiate differences, which are never above 0."
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
    "gradient flow through the state, so that it reaches earlier inputs."
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
