"""ch04_multi_head/MultiHeadAttention: h attentions side by side, each through projections of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import cast, linear, mask, sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, near, not_softmax, on_any_device
from autograder.exercises.library import LAYERS
from tfcore.attention import attention
from tfcore.layers.heads import merge_heads, split_heads

PROJECTIONS = ("W_q", "W_k", "W_v", "W_o")


class MultiHeadAttention(nn.Module):
    """The reference: `tfcore`'s attention behind four projections that a student can name."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = split_heads(self.W_q(x), self.num_heads)
        k = split_heads(self.W_k(memory), self.num_heads)
        v = split_heads(self.W_v(memory), self.num_heads)
        return self.W_o(merge_heads(attention(q, k, v, mask=mask)))


def weights(rng: np.random.Generator, d_model: int, bias: bool = True) -> dict[str, Tensor]:
    """Parameters of a layer whose scores are soft and far from alike."""
    return {k: v for name in PROJECTIONS for k, v in linear(rng, name, d_model, d_model, bias).items()}


def layer(rng: np.random.Generator, says: str, num_heads: int, x: Tensor, **given: Tensor) -> Case:
    """A case of a layer with drawn weights, called with x and what else is given."""
    d_model = x.shape[-1]
    init = {"d_model": d_model, "num_heads": num_heads}
    return Case(says, (init, weights(rng, d_model), x), given, probe="module")


def to_itself(rng: np.random.Generator) -> Iterator[Case]:
    yield layer(rng, "2 heads of width 3", 2, tensor(rng, 1, 4, 6))
    B, T, h, d_head = sizes(rng, (2, 4), (5, 7), (2, 4), (3, 6))
    yield layer(rng, f"B = {B}, T = {T}, {h} heads of width {d_head}", h, tensor(rng, B, T, h * d_head))
    yield layer(rng, "one head", 1, tensor(rng, 2, 3, 5))
    yield layer(rng, "heads of width 1", 4, tensor(rng, 2, 3, 4))
    yield layer(rng, "a single token", 2, tensor(rng, 3, 1, 8))
    yield layer(rng, "40 tokens", 3, tensor(rng, 2, 40, 12))
    yield layer(rng, "a tensor that is not contiguous", 3, strided(tensor(rng, 2, 7, 9)))


def to_a_memory(rng: np.random.Generator) -> Iterator[Case]:
    x, memory = tensor(rng, 1, 2, 8), tensor(rng, 1, 3, 8)
    yield layer(rng, "2 tokens read a memory of 3", 2, x, memory=memory)
    B, T_q, T_k, h, d_head = sizes(rng, (2, 3), (5, 7), (4, 9), (2, 4), (3, 6))
    x, memory = tensor(rng, B, T_q, h * d_head), tensor(rng, B, T_k, h * d_head)
    yield layer(rng, f"{T_q} tokens read a memory of {T_k}, {h} heads", h, x, memory=memory)
    yield layer(rng, "as many tokens as in the memory", 3, tensor(rng, 2, 4, 6), memory=tensor(rng, 2, 4, 6))
    yield layer(rng, "a memory of one token", 2, tensor(rng, 3, 5, 8), memory=tensor(rng, 3, 1, 8))
    case = layer(rng, "the memory passed by place", 5, tensor(rng, 2, 3, 10))
    yield replace(case, args=(*case.args, tensor(rng, 2, 6, 10)))
    x, memory = strided(tensor(rng, 2, 4, 9)), strided(tensor(rng, 2, 5, 9))
    yield layer(rng, "tensors that are not contiguous", 3, x, memory=memory)
    x, memory = tensor(rng, 2, 4, 12), tensor(rng, 2, 5, 12)
    yield layer(rng, "a memory, (1, T_q, T_k)", 3, x, memory=memory, mask=mask(rng, 1, 4, 5))
    yield layer(rng, "padded memory, (B, 1, 1, T_k)", 3, x, memory=memory, mask=mask(rng, 2, 1, 1, 5))
    turned = strided(mask(rng, 2, 1, 4, 5))
    yield layer(rng, "one mask a sequence, not contiguous", 3, x, memory=memory, mask=turned)


def masked(rng: np.random.Generator) -> Iterator[Case]:
    x = tensor(rng, 1, 4, 6)
    yield layer(rng, "a mask (T_q, T_k)", 3, x, mask=mask(rng, 4, 4))
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    yield layer(rng, "the past and itself", 3, tensor(rng, 2, 5, 12), mask=causal)
    x = tensor(rng, 2, 5, 12)
    yield layer(rng, "one mask for all, (1, T_q, T_k)", 3, x, mask=mask(rng, 1, 5, 5))
    yield layer(rng, "padding, (B, 1, 1, T_k)", 3, x, mask=mask(rng, 2, 1, 1, 5))
    yield layer(rng, "one mask a sequence, (B, 1, T_q, T_k)", 3, x, mask=mask(rng, 2, 1, 5, 5))
    yield layer(rng, "one mask a head, (1, h, T_q, T_k)", 3, x, mask=mask(rng, 1, 3, 5, 5))
    B, T, h, d_head = sizes(rng, (2, 3), (5, 7), (2, 4), (3, 6))
    x = tensor(rng, B, T, h * d_head)
    yield layer(rng, "in full, (B, h, T_q, T_k)", h, x, mask=mask(rng, B, h, T, T))
    everything = torch.ones(T, T, dtype=torch.bool)
    yield layer(rng, "a mask that allows everything", h, x, mask=everything)
    x = tensor(rng, 3, 5, 8)
    yield layer(rng, "padding for each head, (B, h, 1, T_k)", 2, x, mask=mask(rng, 3, 2, 1, 5))
    yield layer(rng, "one row for all queries, (1, T_k)", 2, x, mask=mask(rng, 1, 5))
    yield layer(rng, "a mask that is not contiguous", 4, x, mask=strided(mask(rng, 3, 1, 5, 5)))


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    x = tensor(rng, 1, 3, 4)
    yield layer(rng, "no query may attend", 2, x, mask=torch.zeros(3, 3, dtype=torch.bool))
    allowed = mask(rng, 4, 4)
    allowed[1] = False
    yield layer(rng, "query 1 may not attend", 3, tensor(rng, 2, 4, 6), mask=allowed)
    allowed = mask(rng, 2, 1, 1, 7)
    allowed[1] = False
    x, memory = tensor(rng, 2, 4, 15), tensor(rng, 2, 7, 15)
    yield layer(rng, "the second memory is all padding", 3, x, memory=memory, mask=allowed)
    allowed = mask(rng, 1, 2, 5, 5)
    allowed[0, 1, 3] = False
    yield layer(rng, "query 3 may not attend in head 1", 2, tensor(rng, 3, 5, 8), mask=allowed)


def scores_of_10_000(rng: np.random.Generator) -> Iterator[Case]:
    """A bias of the keys adds the same to all scores of a query: they stay soft, however large.

    A softmax in float32, cast back, is a right style: it rounds scores of 100,000 by about 0.01.
    """

    def enlarged(case: Case, name: str) -> Case:
        case = cast(case, torch.float64)
        init, parameters, x = case.args
        return replace(case, args=(init, parameters | {name: 3e4 * parameters[name]}, x))

    x = tensor(rng, 2, 5, 6)
    yield enlarged(layer(rng, "queries with scores far apart", 3, x), "W_k.bias")
    yield enlarged(layer(rng, "scores spread over 10,000", 3, x), "W_q.weight")
    yield enlarged(layer(rng, "a mask, scores far apart", 3, x, mask=mask(rng, 5, 5)), "W_k.bias")
    spread = layer(rng, "masked keys with scores of 10,000", 3, x, mask=mask(rng, 2, 1, 5, 5))
    yield enlarged(spread, "W_q.weight")


def without_bias(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("bias=False", ({"d_model": 6, "num_heads": 2, "bias": False},), probe="parameters")
    h, d_head = sizes(rng, (2, 4), (3, 6))
    init = {"d_model": h * d_head, "num_heads": h, "bias": True}
    yield Case(f"bias=True, d_model = {h * d_head}", (init,), probe="parameters")
    init = {"d_model": h * d_head, "num_heads": h, "bias": False}
    args = init, weights(rng, h * d_head, bias=False), tensor(rng, 2, 5, h * d_head)
    yield Case("bias=False, called", args, probe="module")


def not_dividing(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 heads for a width of 8", ({"d_model": 8, "num_heads": 3},), probe="parameters")
    h = int(rng.integers(3, 7))
    yield Case("one channel too many", ({"d_model": 3 * h + 1, "num_heads": h},), probe="parameters")


def other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    yield cast(layer(rng, "float64", 2, tensor(rng, 2, 3, 8)), torch.float64)
    yield cast(layer(rng, "bfloat16", 3, tensor(rng, 2, 4, 9)), torch.bfloat16)
    yield cast(layer(rng, "bfloat16, a mask", 2, tensor(rng, 3, 5, 6), mask=mask(rng, 5, 5)), torch.bfloat16)


def some_of_each(rng: np.random.Generator) -> Iterator[Case]:
    x, memory = tensor(rng, 2, 4, 9), tensor(rng, 2, 5, 9)
    yield layer(rng, "3 heads of width 2", 3, tensor(rng, 2, 4, 6))
    yield layer(rng, "a memory", 3, x, memory=memory)
    allowed = mask(rng, 2, 1, 4, 5)
    allowed[1, 0, 2] = False
    yield layer(rng, "a memory, a mask, an empty row", 3, x, memory=memory, mask=allowed)


def in_float64(rng: np.random.Generator) -> Iterator[Case]:
    return (cast(case, torch.float64) for case in some_of_each(rng))


def _again(trial: Trial, parameters: dict[str, Tensor] | None = None, **given: Any) -> np.ndarray:
    """The output for other parameters or inputs, all else as in the case."""
    init, own, *placed = trial.case.args
    inputs = dict(zip(("x", "memory"), placed, strict=False)) | trial.case.kwargs | given
    args = init, parameters or own, inputs.pop("x")
    return numbers(trial.call(Case("again", args, inputs, probe="module")).value)


def _inputs(trial: Trial) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """x, the memory and the mask (B, h, T_q, T_k) in full."""
    init, _, x, *more = trial.case.args
    memory = more[0] if more else trial.case.kwargs.get("memory")
    allowed = trial.case.kwargs.get("mask")
    if allowed is not None:
        T_k = (x if memory is None else memory).shape[1]
        allowed = allowed.expand(x.shape[0], init["num_heads"], x.shape[1], T_k)
    return x, memory, allowed


def _moved(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """By how much each token's output has moved, (B, T_q)."""
    return np.abs(after - before).max(axis=-1)


def empty_rows_leave_the_bias(trial: Trial) -> str | None:
    _, _, allowed = _inputs(trial)
    if allowed is None:
        return None
    output, bias = numbers(trial.value), numbers(trial.case.args[1]["W_o.bias"])
    empty = numbers(~allowed.any(dim=-1).any(dim=1))
    for b, i in np.argwhere(empty):
        if not near(output[b, i], bias):
            c = int(np.abs(output[b, i] - bias).argmax())
            return (
                f"token {i} of sequence {b} may attend to nothing in any head: the heads give zeros, so its "
                f"output is W_o's bias, {bias[c]:.4g} in channel {c}; yours is {output[b, i, c]:.4g}"
            )
    return None


def forbidden_tokens_change_nothing(trial: Trial) -> str | None:
    """Asked of the first token that comes out wrong: what it may not see is changed, all of it at once."""
    x, memory, allowed = _inputs(trial)
    if allowed is None:
        return None
    output = numbers(trial.value)
    b, i = (int(n) for n in np.argwhere(_moved(output, numbers(trial.expected)) > 1e-4)[0])
    forbidden = ~allowed[b].any(dim=0)[i]
    if memory is None:
        forbidden[i] = False
    source = x if memory is None else memory
    changed = torch.where(forbidden[:, None], source + 1, source)
    again = _again(trial, x=changed) if memory is None else _again(trial, memory=changed)
    moved = _moved(output, again)[b, i]
    if moved < 1e-3:
        return None
    return (
        f"token {i} of sequence {b} may not attend to {forbidden.nonzero().flatten().tolist()}, yet a "
        f"change there moves its output by {moved:.2g}; True in the mask means: may attend"
    )


def sequences_are_apart(trial: Trial) -> str | None:
    x, memory, _ = _inputs(trial)
    if len(x) < 2:
        return None
    changed = None if memory is None else torch.cat([memory[:1], memory[1:] + 1])
    again = _again(trial, x=torch.cat([x[:1], x[1:] + 1]), memory=changed)
    moved = _moved(numbers(trial.value), again)[0].max()
    if moved < 1e-3:
        return None
    return f"a change of the other sequences moves the output of sequence 0 by {moved:.2g}; a batch is apart"


def keys_come_from_the_memory(trial: Trial) -> str | None:
    x, memory, _ = _inputs(trial)
    if memory is None:
        return None
    output = numbers(trial.value)
    if _moved(output, _again(trial, memory=memory + 1)).max() < 1e-6:
        return "the memory has no effect on the output; with a memory, keys and values are made from it"
    moved = _moved(output, _again(trial, x=torch.cat([x[:, :1] + 1, x[:, 1:]], dim=1)))
    if moved[:, 0].max() < 1e-6 and memory.shape[1] > 1:
        return "x has no effect on the output; the queries are made from x, also where there is a memory"
    if moved.shape[1] > 1 and moved[:, 1:].max() > 1e-3:
        i = 1 + int(moved[:, 1:].max(axis=0).argmax())
        return (
            f"with a memory, a change of token 0 of x moves the output of token {i}; tokens of x meet only "
            "the memory"
        )
    return None


def every_parameter_matters(trial: Trial) -> str | None:
    """All but W_k's bias, which adds the same to all scores of a query."""
    x, memory, allowed = _inputs(trial)
    if allowed is not None or (x if memory is None else memory).shape[1] < 2:
        return None
    gradients = trial.call(replace(trial.case, probe="module_gradients")).value
    if unused := [name for name in trial.case.args[1] if isinstance(gradients[name], str)]:
        return f"no gradient reaches `{unused[0]}`: is it used?"
    still = [name for name in trial.case.args[1] if gradients[name].abs().max() <= 1e-3]
    if cancelled := [name for name in still if name != "W_k.bias"]:
        return f"`{cancelled[0]}` is used and moves no output: whatever it adds cancels on the way"
    if "W_k.bias" in still or "W_k.bias" not in trial.case.args[1]:
        return None
    return (
        "W_k's bias moves your output; it adds the same to all scores of a query, which a softmax over the "
        "keys does not see"
    )


def W_o_comes_last(trial: Trial) -> str | None:
    parameters = trial.case.args[1]
    doubled = {name: 2 * value for name, value in parameters.items() if name.startswith("W_o")}
    off = _moved(2 * numbers(trial.value), _again(trial, parameters=parameters | doubled)).max()
    if off < 1e-2:
        return None
    return (
        f"twice W_o should give twice the output; yours is off by {off:.2g}: something else comes after W_o"
    )


def heads_are_alike(trial: Trial) -> str | None:
    """Heads that trade places in all four weights leave the sum that W_o makes of them as it was."""
    init, parameters, *_ = trial.case.args
    allowed = trial.case.kwargs.get("mask")
    h, d_model = init["num_heads"], init["d_model"]
    if h < 2 or (allowed is not None and allowed.ndim == 4 and allowed.shape[1] > 1):
        return None
    turned = torch.arange(d_model).reshape(h, -1).flip(0).flatten()
    exchanged = {
        name: value[:, turned] if name == "W_o.weight" else value if name == "W_o.bias" else value[turned]
        for name, value in parameters.items()
    }
    moved = _moved(numbers(trial.value), _again(trial, parameters=exchanged)).max()
    if moved < 1e-3:
        return None
    return (
        f"heads that trade places in all four weights move the output by {moved:.2g}; head i is channels "
        "i d/h to (i + 1) d/h of q, k, v and of what W_o gets, for every token"
    )


def _seen(trial: Trial, mask: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The weights of 2 heads of width 4 over 3 tokens, and the scores without their scale.

    Where every value says whose it is and W_o adds nothing, the output *is* the weights of each head.
    """
    rng = np.random.default_rng(4)
    T, h, d_head = 3, 2, 4
    x = tensor(rng, 1, T, h * d_head)
    parameters = weights(rng, h * d_head)
    names_the_token = torch.zeros(h, d_head, h * d_head)
    names_the_token[:, :T] = torch.linalg.pinv(x[0].mT)
    parameters["W_v.weight"] = names_the_token.flatten(0, 1)
    parameters["W_o.weight"] = torch.eye(h * d_head)
    parameters["W_v.bias"] = parameters["W_o.bias"] = torch.zeros(h * d_head)
    case = Case("seen", ({"d_model": h * d_head, "num_heads": h}, parameters, x), probe="module")
    case = case if mask is None else replace(case, kwargs={"mask": mask})
    output = numbers(trial.call(case).value)
    q, k = (x @ parameters[f"{w}.weight"].mT + parameters[f"{w}.bias"] for w in ("W_q", "W_k"))
    dots = numbers(split_heads(q, h) @ split_heads(k, h).mT)[0]
    return output.reshape(T, h, d_head)[..., :T].swapaxes(0, 1), dots


def weights_as_a_value_sees_them(trial: Trial) -> str | None:
    seen, dots = _seen(trial)
    right = torch.softmax(torch.from_numpy(dots) / 2, dim=-1).numpy()
    if near(seen[::-1], right) and not near(seen, right):
        return "head 0's result stands where that of head 1 belongs: the heads are put together out of order"
    sums = seen.sum(axis=-1)
    if (wrong := np.abs(sums - 1) > 1e-3).any():
        head, i = np.argwhere(wrong)[0]
        return (
            f"in head {head} the weights of query {i} sum to {sums[head, i]:.3g}; they sum to 1 over the keys"
        )
    if (nothing := seen < 1e-4).any():
        head, i, j = np.argwhere(nothing)[0]
        return f"in head {head} query {i} gives key {j} no weight, though there is no mask"
    return not_softmax(seen, dots, "q . k of a head", 0.5, "1/sqrt(d_head) = ")


def weights_under_a_mask(trial: Trial) -> str | None:
    """Asked where there is a mask: the same weights under a causal one."""
    if trial.case.kwargs.get("mask") is None:
        return None
    allowed = torch.ones(3, 3, dtype=torch.bool).tril()
    seen, dots = _seen(trial, allowed)
    open_, sums = numbers(allowed), seen.sum(axis=-1)
    if (wrong := np.abs(sums - 1) > 1e-3).any():
        head, i = np.argwhere(wrong)[0]
        return (
            f"under a causal mask the weights of query {i} in head {head} sum to {sums[head, i]:.3g}; what "
            "is allowed shares 1"
        )
    if (shut := open_ & (seen < 1e-4)).any():
        head, i, j = np.argwhere(shut)[0]
        return f"under a causal mask query {i} gives key {j} no weight in head {head}, though it is allowed"
    return not_softmax(seen, dots, "q . k of a head", 0.5, "1/sqrt(d_head) = ", allowed=open_)


def order_does_not_matter(trial: Trial) -> str | None:
    x, memory, allowed = _inputs(trial)
    if allowed is not None:
        return None
    if memory is None:
        moved = _moved(numbers(trial.value)[:, ::-1], _again(trial, x=x.flip(1))).max()
        says = "x turned round should turn the output round"
    else:
        moved = _moved(numbers(trial.value), _again(trial, memory=memory.flip(1))).max()
        says = "a memory turned round should change nothing"
    return f"{says}; yours differs by {moved:.2g}" if moved > 1e-3 else None


EXERCISE = Exercise(
    name="ch04_multi_head/MultiHeadAttention",
    signature="MultiHeadAttention(d_model, num_heads, bias=True)",
    goal="Attend with h heads side by side, each through projections of its own, and mix what they find.",
    section="The mathematics",
    reference=MultiHeadAttention,
    criteria=(
        Criterion("a sequence attends to itself", 2, to_itself),
        Criterion("queries from x, keys and values from a memory, also a padded one", 1, to_a_memory),
        Criterion("a mask: True means may attend", 2, masked),
        Criterion("a query that may attend to nothing gets W_o's bias", 0.25, empty_rows),
        Criterion("scores as large as 10,000", 0.25, scores_of_10_000, tolerance=0.05),
        Criterion("a ValueError when the heads do not divide d_model", 0.25, not_dividing),
        Criterion("bias=False leaves out all four biases", 0.25, without_bias),
        Criterion("float64 stays float64, bfloat16 stays bfloat16", 0.25, other_dtypes, tolerance=0.1),
        Criterion("works on any device", 0.25, elsewhere(some_of_each), test=on_any_device),
        Criterion("gradients reach inputs and parameters", 0.25, differentiated(in_float64), tolerance=1e-4),
        Criterion("the inputs are left as they were", 0.25, some_of_each, observes="arguments"),
    ),
    properties=(
        Property("an empty row leaves W_o's bias", empty_rows_leave_the_bias),
        *FIRST,
        Property("sequences of a batch are apart", sequences_are_apart),
        Property("forbidden tokens change nothing", forbidden_tokens_change_nothing),
        Property("queries come from x, keys and values from the memory", keys_come_from_the_memory),
        Property("every parameter matters", every_parameter_matters),
        Property("W_o comes last", W_o_comes_last),
        Property("heads are apart and alike", heads_are_alike),
        Property("weights are a softmax of scaled scores", weights_as_a_value_sees_them),
        Property("so they are under a mask", weights_under_a_mask),
        Property("the order of the tokens does not matter", order_does_not_matter),
        *LAST,
    ),
    forbidden=LAYERS,
)


@EXERCISE.misconception(
    "You do not scale the scores. They spread like sqrt(d_head), so softmax picks one key: divide by the "
    "root of a head's width.",
    gravity="slip",
)
class scale_missing(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You divide by the root of d_model. A head's dot product has only d_head = d_model / num_heads terms: "
    "divide by sqrt(q.shape[-1]), with q already split.",
    gravity="slip",
)
class scale_by_d_model(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your scores are divided by d_head itself, or twice by its root, which makes all keys nearly alike. "
    "Divide once by sqrt(d_head); F.scaled_dot_product_attention does it for you.",
    gravity="slip",
)
class d_head_not_its_root(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / q.shape[-1]
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You divide by the root of the number of keys. Divide by sqrt(d_head), the last axis of q: the scale "
    "has nothing to do with the length of the sequence.",
    gravity="slip",
)
class root_of_T(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(k.shape[-2])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your heads mix tokens, as a view straight to (B, h, T, d_head) does, also where the shapes fit. Cut "
    "the channels first, (B, T, h, d_head), then exchange axes 1 and 2."
)
class view_without_transpose(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        B, T, d = x.shape
        q = self.W_q(x).reshape(B, self.num_heads, T, -1)
        k = self.W_k(memory).reshape(B, self.num_heads, memory.shape[1], -1)
        v = self.W_v(memory).reshape(B, self.num_heads, memory.shape[1], -1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.reshape(B, T, d))


@EXERCISE.misconception(
    "You split the heads rightly and put them together wrongly: (B, h, T, d_head) reshaped to (B, T, d) "
    "mixes tokens with heads. Exchange axes 1 and 2 first."
)
class merged_without_transpose(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.reshape(x.shape))


@EXERCISE.misconception(
    "Your head 0 takes every h-th channel, as a cut into (d_head, h) gives. Make each head a block of "
    "neighbours, in q, k and v and in what W_o gets: cut into (h, d_head).",
    gravity="slip",
)
class heads_interleaved(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        k = self.W_k(memory).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        v = self.W_v(memory).unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.permute(0, 2, 3, 1).flatten(2))


@EXERCISE.misconception(
    "One head of the full width does all the work, and num_heads changes nothing. Cut q, k and v into heads "
    "before the scores.",
    gravity="useless",
)
class one_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unsqueeze(1)
        k = self.W_k(memory).unsqueeze(1)
        v = self.W_v(memory).unsqueeze(1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Each token's heads attend to each other, and no token sees another: the heads stand behind the tokens. "
    "Bring the heads to axis 1 before q @ k.mT.",
    gravity="useless",
)
class attends_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1))
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1))
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).flatten(2))


@EXERCISE.misconception(
    "You leave out W_o, so the heads never meet. End with self.W_o(...), which mixes what they found."
)
class no_W_o(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return heads.transpose(1, 2).flatten(2)


@EXERCISE.misconception(
    "You use the tokens themselves as values. Project what a token gives, too: self.W_v(memory)."
)
class values_not_projected(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = memory.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You make the keys with W_q, so that each token looks for what it is, and W_k is never used. Use "
    "self.W_k(memory)."
)
class key_is_query(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You average the keys, and W_v is never used. Average the values, self.W_v(memory); the keys only "
    "decide how much of each."
)
class keys_for_values(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from W_v and your values from W_k. The two have one shape, so nothing fails: exchange "
    "the names.",
    gravity="slip",
)
class keys_and_values_swapped(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You add x to the result. Return what W_o gives; the residual connection belongs to the block around "
    "the layer (chapter 6).",
    gravity="slip",
)
class residual_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You return the weights as well. Return one tensor, the output (B, T_q, d_model).",
    gravity="slip",
)
class output_and_weights(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2)), weights


@EXERCISE.misconception(
    "`memory` has no effect: keys and values always come from x. Where a memory is passed, make them from it."
)
class memory_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You make the queries from the memory too, so that x has no effect. Make the queries from x, keys and "
    "values from the memory."
)
class all_from_memory(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        x = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your queries come from the memory, keys and values from x. Exchange them: x asks, and there is one "
    "output for each token of x.",
    gravity="slip",
)
class x_and_memory_swapped(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from x and your values from the memory. Make both from the memory: a key and its value "
    "belong to the same token."
)
class keys_from_x(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your keys come from the memory and your values from x. Make both from the memory: a key and its value "
    "belong to the same token."
)
class values_from_x(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`memory or x` asks a whole tensor for one truth value, which torch refuses. Write: x if memory is None "
    "else memory.",
    gravity="slip",
)
class asks_if_memory(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = memory or x
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The mask has no effect. Fill the scores with -inf where it is False, before softmax.",
    gravity="useless",
)
class mask_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your queries attend where the mask is False. True means *may* attend: fill the scores where it is "
    "False, masked_fill(~mask, ...).",
    gravity="useless",
)
class mask_inverted(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * ~mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You mask after softmax, when the forbidden keys have already taken their share and the rest sums to "
    "less than 1. Fill the scores before softmax."
)
class mask_after_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You mask after softmax and divide again. On paper that is right, but where a forbidden key scores far "
    "above the others they underflow to zero. Fill the scores before softmax."
)
class renormalised_after_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You set forbidden scores to 0. exp(0) is 1, so they still get a share: fill with -inf, whose "
    "exponential is 0.",
    gravity="useless",
)
class filled_with_zero(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, 0.0)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Forbidden keys win where the allowed scores are below -10,000, which is what you fill in. Fill with "
    "-inf or -1e9."
)
class fill_of_minus_10_000(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -10_000.0)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask.any(dim=-1, keepdim=True)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You add the boolean mask to the scores: True counts as 1, which only raises the allowed keys a little. "
    "Fill with -inf where it is False.",
    gravity="useless",
)
class mask_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`if mask:` asks a whole tensor for one truth value, which torch refuses. Ask whether there is a mask: "
    "`if mask is not None:`.",
    gravity="slip",
)
class asks_if_mask(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A mask that indexes the scores, as in scores[~mask], needs their full shape (B, h, T_q, T_k); one for "
    "all heads or all sequences has fewer axes. Use masked_fill or torch.where, which broadcast.",
    gravity="slip",
)
class mask_as_index(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores[~mask] = -1e9
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Every mask gets one more axis, as by unsqueeze(1), which shifts the axes of a mask that has its own "
    "for the heads. Use the mask as it comes: it broadcasts to (B, h, T_q, T_k).",
    gravity="slip",
)
class head_axis_added(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            mask = mask.unsqueeze(1)
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the mask of head 0 for all heads. A mask (B, h, T_q, T_k) has one for each: let it broadcast "
    "as it is."
)
class first_head_s_mask(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None and mask.ndim == 4:
            mask = mask[:, :1]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the mask of sequence 0 for the whole batch. Each sequence has padding of its own: let (B, 1, "
    "T_q, T_k) broadcast as it is."
)
class first_mask_for_all(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None and mask.ndim == 4:
            mask = mask[0]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The last two axes of the mask are exchanged, so that it forbids queries instead of keys. Use it as it "
    "comes: its axes are those of the scores, (T_q, T_k)."
)
class mask_turned(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is not None:
            mask = mask.mT
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A row of -inf alone gives NaN in softmax, and W_o spreads it over the token. Where a query may attend "
    "to nothing, set its weights to zero."
)
class nan_rows(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A query that may attend to nothing sees everything: a row that is filled with -1e9 throughout becomes "
    "uniform. Set its weights to zero after softmax."
)
class uniform_rows(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You set the output of an empty row to zero, after W_o. Set the zeros in front of W_o, whose bias is "
    "added to every token."
)
class zero_after_W_o(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        output = self.W_o(heads.transpose(1, 2).flatten(2))
        if mask is None:
            return output
        seen = mask.expand(*q.shape[:3], k.shape[2]).any(dim=-1).any(dim=1)
        return output * seen.unsqueeze(-1)


@EXERCISE.misconception(
    "You change the caller's own mask: its empty rows are open afterwards, as after `mask |= ...`. Write "
    "`mask = mask | empty`, which makes a new mask."
)
class empty_rows_opened_in_place(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            empty = ~mask.any(dim=-1, keepdim=True)
            mask |= empty
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * ~empty
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You multiply q by k as it is. A score is the dot product of a query and a key: transpose the keys in "
    "their last two axes, q @ k.transpose(-2, -1)."
)
class keys_not_transposed(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You normalise over the queries. Each query spreads one unit over the keys, the last axis of the "
    "scores: write dim=-1.",
    gravity="useless",
)
class softmax_over_queries(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-2)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The heads share one unit, not the keys: you normalise over axis 1 of four, which F.softmax takes "
    "without `dim`. Write dim=-1.",
    gravity="useless",
)
class softmax_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "exp overflows for scores beyond 88 in float32, 709 in float64. Use torch.softmax, or subtract each "
    "row's maximum first: the weights stay the same."
)
class no_maximum(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.exp(scores)
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You do not check that the heads divide d_model. Raise a ValueError in __init__, where the mistake is "
    "made, before the first batch comes."
)
class no_error(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You raise an AssertionError, and python -O leaves out every `assert`. For a wrong argument write "
    "`raise ValueError(...)`."
)
class asserted(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        assert d_model % num_heads == 0, "the heads do not divide d_model"
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The projections have biases even with bias=False. Pass the argument on: nn.Linear(d_model, d_model, "
    "bias=bias)."
)
class bias_ignored(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "One matrix for q, k and v is how large models store it. Make the four that are asked for by name, W_q, "
    "W_k, W_v and W_o, each an nn.Linear(d_model, d_model)."
)
class one_fused_projection(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        W_q, W_k, W_v = self.W_qkv.weight.chunk(3)
        q = F.linear(x, W_q).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = F.linear(memory, W_k).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = F.linear(memory, W_v).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "No parameter is found: layers in a plain Python list are invisible to nn.Module, and none is trained. "
    "Make each an attribute: self.W_q = nn.Linear(...)."
)
class in_a_list(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.projections = [nn.Linear(d_model, d_model, bias) for _ in range(4)]

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        W_q, W_k, W_v, W_o = self.projections
        q = W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your W_q, W_k and W_v give a single head's width, which all heads would share. Make each d_model wide: "
    "h heads of d_head, side by side."
)
class wide_as_one_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        d_head = d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_head, bias) for _ in range(3))
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = (W.unsqueeze(1) for W in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.squeeze(1).repeat(1, 1, self.num_heads))


@EXERCISE.misconception(
    "You compute the softmax in float32 and go on with it. That is good for precision, but the values have "
    "the dtype of x: cast the weights back with .to(v.dtype)."
)
class float32_inside(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores.float(), dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "A tensor is made on the cpu, whatever x is, as torch.zeros does. Pass the device on: torch.zeros(..., "
    "dtype=x.dtype, device=x.device), or x.new_zeros(...)."
)
class made_on_the_cpu(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        merged = torch.zeros(x.shape, dtype=x.dtype)
        for i in range(self.num_heads):
            merged[..., i * q.shape[-1] : (i + 1) * q.shape[-1]] = heads[:, i]
        return self.W_o(merged)


@EXERCISE.misconception(
    "No gradient reaches W_q and W_k: the weights are cut off from the scores, as by `.detach()` or "
    "`.data`, and the heads never learn where to look. Work on the scores themselves."
)
class weights_cut_off(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1).detach()
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "The output is right, its gradient is NaN: you add -inf and replace the NaN after softmax, and the way "
    "back leads through it. masked_fill (or torch.where) lets no gradient into filled scores."
)
class nan_gradients(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            allowed = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
            scores = scores + allowed.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You use the scores as weights. Put them through softmax over the keys, so that the weights of a query "
    "are positive and sum to 1.",
    gravity="useless",
)
class no_softmax(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        weights = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Without a mask no token sees a later one: you forbid the future though nobody asked. Where `mask` is "
    "None, leave the scores as they are; the caller passes a causal mask where one is wanted."
)
class causal_unasked(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        if mask is None:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril()
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "`view` cannot join axes of an x whose numbers do not lie in memory in their order. nn.Linear works on "
    "the last axis and keeps the others, so x needs no view; else use reshape.",
    gravity="slip",
)
class view_of_what_came(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        (B, T_q, d), T_k = x.shape, memory.shape[1]
        q = self.W_q(x.view(B * T_q, d)).view(B, T_q, self.num_heads, -1).transpose(1, 2)
        k = self.W_k(memory.view(B * T_k, d)).view(B, T_k, self.num_heads, -1).transpose(1, 2)
        v = self.W_v(memory.view(B * T_k, d)).view(B, T_k, self.num_heads, -1).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "You unpack a shape into four sizes, so the mask must have four axes. Let a mask broadcast as it is: "
    "(T_q, T_k) is one for all sequences and heads.",
    gravity="slip",
)
class mask_of_four_sizes(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            _B, _h, _T_q, _T_k = mask.shape
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.misconception(
    "Your layer has no biases unless they are asked for. Write bias=True as the default.", gravity="slip"
)
class no_bias_by_default(nn.Module):
    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.misconception("You make the values with W_q, and W_v is never used. Use self.W_v(memory).")
class value_is_query(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_q(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.style("-1e9 where forbidden, then the mask once more")
class filled_and_zeroed(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))


@EXERCISE.style("torch's fused attention behind the split")
class fused_kernel(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.style("einsum, -inf where forbidden, NaN mended by nan_to_num")
class infinite_fill(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).reshape(*x.shape[:2], self.num_heads, self.d_head)
        k = self.W_k(memory).reshape(*memory.shape[:2], self.num_heads, self.d_head)
        v = self.W_v(memory).reshape(*memory.shape[:2], self.num_heads, self.d_head)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.d_head**-0.5
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        return self.W_o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(-2))


@EXERCISE.style("a loop over the heads, slices of the channels, joined by cat")
class head_by_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = self.W_q(x), self.W_k(memory), self.W_v(memory)
        shape = (x.shape[0], self.num_heads, x.shape[1], memory.shape[1])
        allowed = torch.ones(shape, dtype=torch.bool, device=x.device) if mask is None else mask.expand(shape)
        heads = []
        for i in range(self.num_heads):
            own = slice(i * self.d_head, (i + 1) * self.d_head)
            scores = q[..., own] @ k[..., own].transpose(1, 2) / self.d_head**0.5
            scores = scores.masked_fill(~allowed[:, i], torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, dim=-1) * allowed[:, i]
            heads.append(weights @ v[..., own])
        return self.W_o(torch.cat(heads, dim=-1))


@EXERCISE.style("heads folded into the batch, bmm, softmax in float32 and cast back")
class folded_into_batch(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        (B, T_q, d), T_k, h = x.shape, memory.shape[1], self.num_heads
        q = self.W_q(x).view(B, T_q, h, -1).transpose(1, 2).reshape(B * h, T_q, -1)
        k = self.W_k(memory).view(B, T_k, h, -1).transpose(1, 2).reshape(B * h, T_k, -1)
        v = self.W_v(memory).view(B, T_k, h, -1).transpose(1, 2).reshape(B * h, T_k, -1)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_head)
        if mask is not None:
            mask = mask.expand(B, h, T_q, T_k).reshape(B * h, T_q, T_k)
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0)
        heads = torch.bmm(weights, v).view(B, h, T_q, -1)
        return self.W_o(heads.permute(0, 2, 1, 3).contiguous().view(B, T_q, d))


@EXERCISE.style("each head through its own columns of W_o, added up")
class sum_over_heads(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        output = 0 if self.W_o.bias is None else self.W_o.bias
        for i in range(self.num_heads):
            own = slice(i * self.d_head, (i + 1) * self.d_head)
            q, k, v = self.W_q(x)[..., own], self.W_k(memory)[..., own], self.W_v(memory)[..., own]
            scores = q @ k.mT / math.sqrt(self.d_head)
            weights = torch.softmax(scores, dim=-1)
            if mask is not None:
                own_mask = mask if mask.ndim < 4 else mask[:, i if mask.shape[1] > 1 else 0]
                scores = scores.masked_fill(~own_mask, -1e30)
                weights = torch.softmax(scores, dim=-1).masked_fill(~own_mask, 0)
            output = output + (weights @ v) @ self.W_o.weight[:, own].T
        return output


@EXERCISE.style("exponentials by hand, the sum divided out at the end")
class exponentials_by_hand(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.W_q(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(memory).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        if mask is not None:
            weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        heads = (weights @ v) / torch.where(total == 0, 1, total)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@EXERCISE.style("one product with the three matrices stacked, where x reads itself")
class weights_stacked(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, memory=None, mask=None):
        projections = [self.W_q, self.W_k, self.W_v]
        if memory is None:
            bias = None if self.W_q.bias is None else torch.cat([W.bias for W in projections])
            q, k, v = F.linear(x, torch.cat([W.weight for W in projections]), bias).chunk(3, dim=-1)
        else:
            q, k, v = self.W_q(x), self.W_k(memory), self.W_v(memory)
        q, k, v = (t.unflatten(2, (self.num_heads, self.d_head)).permute(0, 2, 1, 3) for t in (q, k, v))
        scores = torch.matmul(q * self.d_head**-0.5, k.transpose(-2, -1))
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e9)
        weights = scores.log_softmax(dim=-1).exp()
        if mask is not None:
            weights = torch.where(mask, weights, 0)
        heads = weights.matmul(v)
        return self.W_o(torch.cat(heads.unbind(dim=1), dim=-1))
