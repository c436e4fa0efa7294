"""Weights in 8 bits, for inference: a quarter of the memory of float32, at a cost in precision.

Decoding reads every weight once per token, so small weights also save time. That takes a kernel that reads
8-bit matrices directly. On a CPU torch has one for vectors in bfloat16, and :class:`Int8Linear` uses it:
``quantize_weights(model.bfloat16())`` writes faster than the model. Other types only show the arithmetic.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn

from tfcore.moe import MixtureOfExperts

FEW = 16  # vectors; for more, a product with the matrix in bfloat16 takes less time
REGISTER = 32  # channels that torch's kernel reads at once; it reads past the end of other widths


def quantize_absmax(x: Float[Tensor, "*shape"], dim: int) -> tuple[Int8[Tensor, "*shape"], Tensor]:
    r"""Round to 8 bits: 127 steps reach the largest entry along an axis.

    $s = \max |x| / 127, \; q = \text{round}(x / s), \; |x - s q| \le s / 2$.

    Args:
        x: finite numbers; the bound holds in float16 if the largest is above 1e-3.
        dim: the axis whose entries share a step.

    Returns:
        The rounded numbers from -127 to 127, int8, and the steps in the type of ``x``, with size 1 along the
        axis; zeros have step 0.

    From: Dettmers et al. (2022), *LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale*,
    section 2.

    >>> q, scale = quantize_absmax(torch.tensor([[-1.0, 0.5], [0.0, 0.0]]), dim=1)
    >>> print(q.tolist(), (q * scale)[0])
    [[-127, 64], [0, 0]] tensor([-1.0000,  0.5039])
    """
    scale = x.abs().amax(dim=dim, keepdim=True) / 127
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision cannot tell 126.4 from 126.5
    steps = x.to(wide) / torch.where(scale == 0, 1, scale).to(wide)
    return steps.round().clamp(-127, 127).to(torch.int8), scale


class Int8Matrix(nn.Module):
    r"""A matrix of weights whose rows are rounded to 8 bits, each in steps of its own.

    $W_{ij} \approx s_i q_{ij}$. A row makes one output of a linear layer, or is the vector of one token.

    Args:
        weight: (out, in).

    From: Dettmers et al. (2022), *LLM.int8()*, section 2.1 (vector-wise quantisation, of the weights).

    >>> matrix = Int8Matrix(torch.tensor([[1.0, -0.5], [100.0, 3.0]]))
    >>> print(matrix.rounded, matrix.scale.shape)
    tensor([[127, -64],
            [127,   4]], dtype=torch.int8) torch.Size([2, 1])
    """

    rounded: Int8[Tensor, "out in"]
    scale: Float[Tensor, "out 1"]

    def __init__(self, weight: Float[Tensor, "out in"]) -> None:
        super().__init__()
        rounded, scale = quantize_absmax(weight.detach().contiguous(), dim=1)
        self.register_buffer("rounded", rounded)
        self.register_buffer("scale", scale)

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Compute the whole matrix from its rounded entries."""
        return self.rounded * self.scale


class Int8Linear(nn.Module):
    r"""A linear layer with an 8-bit matrix: the steps multiply the result instead of the matrix.

    $y_i = s_i \sum_j q_{ij} x_j + b_i$. In float16 the steps multiply the matrix, since a sum of
    products with whole numbers could overflow.

    Args:
        matrix: the rounded weights (out, in), which may be shared.
        bias: b, (out,), not rounded.

    From: Dettmers et al. (2022), *LLM.int8()*; here the inputs stay as they are.

    >>> layer = Int8Linear(Int8Matrix(torch.tensor([[2.0, 0.0]])), bias=None)
    >>> print(layer(torch.tensor([[3.0, 5.0]])))
    tensor([[6.]])
    """

    def __init__(self, matrix: Int8Matrix, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.matrix, self.bias = matrix, bias

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """Multiply vectors, (..., in), by the whole numbers and the result by the steps, (..., out)."""
        rounded, scale = self.matrix.rounded, self.matrix.scale.squeeze(1)  # (out, in), (out,)
        vectors = x.reshape(-1, self.in_features).contiguous()
        if _has_kernel(vectors):
            y = torch._weight_int8pack_mm(vectors, rounded, scale).view(*x.shape[:-1], self.out_features)
        elif x.dtype == torch.float16:  # a sum of whole numbers times x could exceed the range of float16
            y = F.linear(x, self.weight.to(x.dtype))  # (..., out)
        else:
            y = F.linear(x, rounded.to(x.dtype)) * scale  # (..., out)
        return y if self.bias is None else y + self.bias

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Compute the matrix from its rounded entries: cross-attention takes some of its rows."""
        return self.matrix.weight

    @property
    def in_features(self) -> int:
        """Return the width of x, as a linear layer names it."""
        return self.matrix.rounded.shape[1]

    @property
    def out_features(self) -> int:
        """Return the width of y."""
        return self.matrix.rounded.shape[0]


def _has_kernel(vectors: Float[Tensor, "N in"]) -> bool:
    """Say whether torch's kernel serves these vectors: its time grows with their number."""
    num_vectors, width = vectors.shape
    fits = 0 < num_vectors <= FEW and width % REGISTER == 0
    return (
        fits
        and vectors.device.type == "cpu"
        and vectors.dtype == torch.bfloat16
        and not vectors.requires_grad
    )


class Int8Embedding(nn.Module):
    r"""An embedding with an 8-bit matrix: the rows of the tokens are turned into numbers again.

    $x = s_t q_t$.

    Args:
        matrix: the rounded vectors (V, d_model), which may be shared with the head.

    From: as :class:`Int8Linear`; Press and Wolf (2017), *Using the Output Embedding to Improve Language
    Models* (sharing).

    >>> print(Int8Embedding(Int8Matrix(torch.eye(3)))(torch.tensor([2])))
    tensor([[0., 0., 1.]])
    """

    def __init__(self, matrix: Int8Matrix) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        """Turn tokens, (...), into vectors, (..., d_model); the other rows stay in 8 bits."""
        return self.matrix.rounded[tokens] * self.matrix.scale[tokens]

    @property
    def weight(self) -> Float[Tensor, "V d_model"]:
        """Compute the matrix from its rounded entries."""
        return self.matrix.weight


def quantize_weights(model: nn.Module) -> nn.Module:
    r"""Copy a model with the matrices of its linear layers and embeddings in 8 bits.

    $|W_{ij} - \hat W_{ij}| \le s_i / 2$: an output of a layer moves by at most $\frac{s_i}{2} \sum_j |x_j|$,
    and in half precision also by the rounding of $s_i q_{ij}$.

    What shares a matrix shares the rounded one: a tied head stays tied. Norms, biases, tables of positions
    and mixtures of experts stay as they are; a router that is rounded sends tokens to other experts.

    Args:
        model: any model; it is not changed.

    Returns:
        A model of the same kind, for inference.

    From: Dettmers et al. (2022), *LLM.int8()*.

    >>> model = nn.Sequential(nn.Embedding(50, 12), nn.Linear(12, 7))
    >>> small = quantize_weights(model)
    >>> embedding, linear = (type(layer).__name__ for layer in small)
    >>> print(embedding, linear, sum(x.nbytes for x in small.parameters()))
    Int8Embedding Int8Linear 28
    """
    return _quantized(copy.deepcopy(model), {}, {})


def _quantized(
    module: nn.Module, matrices: dict[Tensor, Int8Matrix], done: dict[nn.Module, nn.Module]
) -> nn.Module:
    """Exchange the matrices inside a module, or the module itself if it is a matrix."""
    if module not in done:  # a layer in two places stays one layer
        done[module] = _exchanged(module, matrices, done)
    return done[module]


def _exchanged(
    module: nn.Module, matrices: dict[Tensor, Int8Matrix], done: dict[nn.Module, nn.Module]
) -> nn.Module:

    def rounded(weight: Tensor) -> Int8Matrix:
        if weight not in matrices:
            matrices[weight] = Int8Matrix(weight)
        return matrices[weight]

    if type(module) is nn.Linear:  # and no subclass, which may use its weight in another way
        return Int8Linear(rounded(module.weight), module.bias)
    if type(module) is nn.Embedding:
        return Int8Embedding(rounded(module.weight))
    if not isinstance(module, MixtureOfExperts):
        for name, child in module._modules.items():  # named_children skips a module that it has already given
            if child is not None:
                setattr(module, name, _quantized(child, matrices, done))
    return module
