"""ch04_multi_head/MultiHeadAttention: h attentions side by side, each through projections of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
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
    """Draw parameters of a layer whose scores are moderate and clearly different."""
    return {k: v for name in PROJECTIONS for k, v in linear(rng, name, d_model, d_model, bias).items()}


def layer(rng: np.random.Generator, says: str, num_heads: int, x: Tensor, **given: Tensor) -> Case:
    """Make a case of a layer with drawn weights, called with x and the other arguments."""
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
    case = layer(rng, "the memory passed by position", 5, tensor(rng, 2, 3, 10))
    yield replace(case, args=(*case.args, tensor(rng, 2, 6, 10)))
    x, memory = strided(tensor(rng, 2, 4, 9)), strided(tensor(rng, 2, 5, 9))
    yield layer(rng, "tensors that are not contiguous", 3, x, memory=memory)
    x, memory = tensor(rng, 2, 4, 12), tensor(rng, 2, 5, 12)
    yield layer(rng, "a memory, a mask (1, T_q, T_k)", 3, x, memory=memory, mask=mask(rng, 1, 4, 5))
    yield layer(rng, "padded memory, (B, 1, 1, T_k)", 3, x, memory=memory, mask=mask(rng, 2, 1, 1, 5))
    turned = strided(mask(rng, 2, 1, 4, 5))
    yield layer(rng, "one mask per sequence, not contiguous", 3, x, memory=memory, mask=turned)


def masked(rng: np.random.Generator) -> Iterator[Case]:
    x = tensor(rng, 1, 4, 6)
    yield layer(rng, "a mask (T_q, T_k)", 3, x, mask=mask(rng, 4, 4))
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    yield layer(rng, "only the past and the token itself", 3, tensor(rng, 2, 5, 12), mask=causal)
    x = tensor(rng, 2, 5, 12)
    yield layer(rng, "one mask for all, (1, T_q, T_k)", 3, x, mask=mask(rng, 1, 5, 5))
    yield layer(rng, "padding, (B, 1, 1, T_k)", 3, x, mask=mask(rng, 2, 1, 1, 5))
    yield layer(rng, "one mask per sequence, (B, 1, T_q, T_k)", 3, x, mask=mask(rng, 2, 1, 5, 5))
    yield layer(rng, "one mask per head, (1, h, T_q, T_k)", 3, x, mask=mask(rng, 1, 3, 5, 5))
    B, T, h, d_head = sizes(rng, (2, 3), (5, 7), (2, 4), (3, 6))
    x = tensor(rng, B, T, h * d_head)
    yield layer(rng, "a full mask, (B, h, T_q, T_k)", h, x, mask=mask(rng, B, h, T, T))
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
    """Yield cases with large scores; a bias of the keys adds the same to all scores of a query.

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
    """Return the output for other parameters or inputs; all else is as in the case."""
    init, own, *placed = trial.case.args
    inputs = dict(zip(("x", "memory"), placed, strict=False)) | trial.case.kwargs | given
    args = init, parameters or own, inputs.pop("x")
    return numbers(trial.call(Case("again", args, inputs, probe="module")).value)


def _inputs(trial: Trial) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return x, the memory and the mask (B, h, T_q, T_k) in full."""
    init, _, x, *more = trial.case.args
    memory = more[0] if more else trial.case.kwargs.get("memory")
    allowed = trial.case.kwargs.get("mask")
    if allowed is not None:
        T_k = (x if memory is None else memory).shape[1]
        allowed = allowed.expand(x.shape[0], init["num_heads"], x.shape[1], T_k)
    return x, memory, allowed


def _moved(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return how far each token's output has moved, (B, T_q)."""
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
    """Change at once all tokens that the first wrong token may not see, and check that its output stays."""
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
    return (
        f"a change of the other sequences moves the output of sequence 0 by {moved:.2g}; "
        "the sequences of a batch do not affect each other"
    )


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
            f"with a memory, a change of token 0 of x moves the output of token {i}; tokens of x see only "
            "the memory"
        )
    return None


def every_parameter_matters(trial: Trial) -> str | None:
    """Check that every parameter matters except W_k's bias, which adds the same to all scores of a query."""
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
    """Check that heads which trade places in all four weights leave the output of W_o as it was."""
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
    """Return the weights of 2 heads of width 4 over 3 tokens, and the scores without their scale.

    Each value is a unit vector for its token and W_o adds nothing, so the output *is* the weights of each
    head.
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
        return (
            "head 0's result is where the result of head 1 belongs: the heads are put together out of order"
        )
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
    """Check the weights of a case with a mask under a causal mask."""
    if trial.case.kwargs.get("mask") is None:
        return None
    allowed = torch.ones(3, 3, dtype=torch.bool).tril()
    seen, dots = _seen(trial, allowed)
    open_, sums = numbers(allowed), seen.sum(axis=-1)
    if (wrong := np.abs(sums - 1) > 1e-3).any():
        head, i = np.argwhere(wrong)[0]
        return (
            f"under a causal mask the weights of query {i} in head {head} sum to {sums[head, i]:.3g}; the "
            "allowed keys share 1"
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
        says = "x in reverse order should reverse the output"
    else:
        moved = _moved(numbers(trial.value), _again(trial, memory=memory.flip(1))).max()
        says = "a memory in reverse order should change nothing"
    return f"{says}; yours differs by {moved:.2g}" if moved > 1e-3 else None


EXERCISE = Exercise(
    name="ch04_multi_head/MultiHeadAttention",
    signature="MultiHeadAttention(d_model, num_heads, bias=True)",
    goal="Attend with h heads side by side, each with its own projections, and mix their results.",
    section="The mathematics",
    minutes=40,
    difficulty="hard",
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
        Property("sequences of a batch do not mix", sequences_are_apart),
        Property("forbidden tokens change nothing", forbidden_tokens_change_nothing),
        Property("queries come from x, keys and values from the memory", keys_come_from_the_memory),
        Property("every parameter matters", every_parameter_matters),
        Property("W_o comes last", W_o_comes_last),
        Property("heads are separate and equal", heads_are_alike),
        Property("weights are a softmax of scaled scores", weights_as_a_value_sees_them),
        Property("a masked softmax is right", weights_under_a_mask),
        Property("the order of the tokens does not matter", order_does_not_matter),
        *LAST,
    ),
    forbidden=LAYERS,
)
