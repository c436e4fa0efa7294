"""Mistakes that people make in `swiglu`, each with the hint for its author."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from autograder.exercises.ch06_blocks.swiglu import EXERCISE


@EXERCISE.misconception(
    "You exchange gate and up. Put x W_g, the gate, through SiLU and leave x W_u as it is: F.silu(x @ W_g) * "
    "(x @ W_u).",
    gravity="slip",
)
def gate_and_up_exchanged(x, W_g, W_u, W_d):
    return ((x @ W_g) * F.silu(x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You exchange W_u and W_d. The order of the weights is gate, up, down: W_u is the second and widens x, "
    "W_d is the third and comes last: (SiLU(x W_g) * (x W_u)) W_d.",
    gravity="slip",
)
def up_and_down_exchanged(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_d)) @ W_u


@EXERCISE.misconception(
    "Your gate is sigmoid(z), as in the GLU of 2017. Write SiLU(z) = z * sigmoid(z), which keeps the size of "
    "z.",
    gravity="slip",
)
def sigmoid_for_silu(x, W_g, W_u, W_d):
    return (torch.sigmoid(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your gate is ReLU(z); that variant is called ReGLU. Write SiLU(z) = z * sigmoid(z), which is smooth and "
    "dips below 0.",
    gravity="slip",
)
def relu_for_silu(x, W_g, W_u, W_d):
    return (F.relu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your gate is GELU(z); that variant is called GEGLU. Write SiLU(z) = z * sigmoid(z).", gravity="slip"
)
def gelu_for_silu(x, W_g, W_u, W_d):
    return (F.gelu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "SiLU acts on both products. Apply it to the gate x W_g alone and leave x W_u linear."
)
def silu_on_both(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * F.silu(x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You multiply first and apply SiLU to the product. Apply SiLU to x W_g, then multiply by x W_u.",
    gravity="slip",
)
def silu_of_the_product(x, W_g, W_u, W_d):
    return F.silu((x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your gate is x W_g itself, without an activation. Put it through SiLU, z * sigmoid(z), before it "
    "multiplies x W_u."
)
def no_activation(x, W_g, W_u, W_d):
    return ((x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You leave out x W_u, so nothing is gated. Multiply SiLU(x W_g) by x W_u, element by element, before W_d."
)
def nothing_gated(x, W_g, W_u, W_d):
    return F.silu(x @ W_g) @ W_d


@EXERCISE.misconception("You apply SiLU to x before W_g widens it. Apply it to the product: SiLU(x W_g).")
def silu_of_x(x, W_g, W_u, W_d):
    return ((F.silu(x) @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You add the gate to x W_u. A gate multiplies element by element: SiLU(x W_g) * (x W_u)."
)
def added(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) + x @ W_u) @ W_d


@EXERCISE.misconception("You use W_g twice and W_u never. Multiply the gate SiLU(x W_g) by x W_u.")
def one_matrix_twice(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_g)) @ W_d


@EXERCISE.misconception("You use W_u twice and W_g never. The gate is SiLU(x W_g); multiply it by x W_u.")
def up_matrix_twice(x, W_g, W_u, W_d):
    return (F.silu(x @ W_u) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "You use the weights transposed, as torch's linear layers store theirs. Here W_g and W_u are (d_model, "
    "d_ff) and W_d is (d_ff, d_model): multiply by them as they are, x @ W_g."
)
def weights_transposed(x, W_g, W_u, W_d):
    return F.linear(F.silu(F.linear(x, W_g)) * F.linear(x, W_u), W_d)


@EXERCISE.misconception(
    "The gradient is NaN where exp(-z) overflows: z / (1 + exp(-z)) then has inf / inf in the backward pass. "
    "Write z * torch.sigmoid(z), or F.silu(z)."
)
def overflowing_exponential(x, W_g, W_u, W_d):
    z = x @ W_g
    return (z / (1 + torch.exp(-z)) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "Your einsum names three axes of x, 'btd', so it takes no fewer and no more. Write '...d,df->...f', or "
    "x @ W, for any leading axes.",
    gravity="slip",
)
def three_axes_only(x, W_g, W_u, W_d):
    gate = F.silu(torch.einsum("btd,df->btf", x, W_g))
    return torch.einsum("btf,fd->btd", gate * torch.einsum("btd,df->btf", x, W_u), W_d)


@EXERCISE.misconception(
    "You unpack a shape into three sizes, so x must have three axes. `x @ W` fits any number of leading axes "
    "and needs no sizes.",
    gravity="slip",
)
def unpacks_three_sizes(x, W_g, W_u, W_d):
    _B, _T, _d_model = x.shape
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "torch.bmm takes three axes on both sides, no fewer and no more, and a weight has two. Write x @ W: it "
    "keeps all leading axes."
)
def batches_only(x, W_g, W_u, W_d):
    W_g, W_u, W_d = (W.expand(len(x), *W.shape) for W in (W_g, W_u, W_d))
    return torch.bmm(F.silu(torch.bmm(x, W_g)) * torch.bmm(x, W_u), W_d)


@EXERCISE.misconception(
    "torch.mm takes matrices only, (T, d_model), and no batch of them. Write x @ W: it keeps all leading "
    "axes."
)
def matrices_only(x, W_g, W_u, W_d):
    return torch.mm(F.silu(torch.mm(x, W_g)) * torch.mm(x, W_u), W_d)


@EXERCISE.misconception(
    "`view` cannot join axes of an x whose numbers are stored in another order. Write x @ W, which keeps "
    "all leading axes, or use reshape.",
    gravity="slip",
)
def view_of_what_came(x, W_g, W_u, W_d):
    rows = x.view(-1, x.shape[-1])
    return ((F.silu(rows @ W_g) * (rows @ W_u)) @ W_d).view(x.shape)


@EXERCISE.misconception(
    "torch.zeros(x.shape) is float32 and on the cpu, whatever x is. Use torch.zeros_like(x), or no loop at "
    "all, so that dtype and device are kept."
)
def filled_into_zeros(x, W_g, W_u, W_d):
    y = torch.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        y[place] = (F.silu(x[place] @ W_g) * (x[place] @ W_u)) @ W_d
    return y


@EXERCISE.misconception(
    "The values are right, but no gradient passes through the gate, so W_g never learns. Leave out no_grad, "
    "detach, .data and any detour through numpy."
)
def gate_without_gradient(x, W_g, W_u, W_d):
    with torch.no_grad():
        gate = F.silu(x @ W_g)
    return (gate * (x @ W_u)) @ W_d


@EXERCISE.misconception(
    "The values are right, but no gradient passes through x W_u, so W_u never learns. Leave out no_grad, "
    "detach and .data."
)
def up_without_gradient(x, W_g, W_u, W_d):
    return (F.silu(x @ W_g) * (x @ W_u).detach()) @ W_d


@EXERCISE.misconception(
    "You return float32 whatever comes in. The result should have the dtype of x: do not convert, or convert "
    "back at the end."
)
def left_in_float32(x, W_g, W_u, W_d):
    x, W_g, W_u, W_d = x.float(), W_g.float(), W_u.float(), W_d.float()
    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d
