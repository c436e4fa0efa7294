"""Drawn weights for both blocks, and laws that name the sublayer at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage import probes
from autograder.checking.declaration import Case, Property, Trial
from autograder.exercises import draw

LAST_LAYER = {"attention": "attention.W_o", "cross_attention": "cross_attention.W_o", "ffn": "ffn.2"}
"""The layer of each sublayer that writes to the stream: with weights of zero, it adds nothing."""


def weights(
    rng: np.random.Generator, d_model: int, d_ff: int, cross: bool = False, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Draw parameters of a block in which the output of every sublayer is as large as the stream.

    In bfloat16 they are smaller, so that its rounding does not decide a softmax.
    """
    gain = 0.5 if dtype == torch.bfloat16 else 1.5
    attentions = ("attention", "cross_attention") if cross else ("attention",)
    norms = ("norm_attention", "norm_cross", "norm_ffn") if cross else ("norm_attention", "norm_ffn")
    drawn: dict[str, Tensor] = {}
    for attention in attentions:
        for projection in ("W_q", "W_k", "W_v", "W_o"):
            drawn |= draw.linear(rng, f"{attention}.{projection}", d_model, d_model, gain=gain)
    for norm in norms:
        drawn |= draw.norm(rng, norm, d_model)
    drawn |= draw.linear(rng, "ffn.0", d_model, d_ff, gain=gain)
    drawn |= draw.linear(rng, "ffn.2", d_ff, d_model, gain=gain)
    return {name: value.to(dtype) for name, value in drawn.items()}


def silent_attention(case: Case) -> Case:
    """Return the case with attentions that add nothing, so that every norm reads the tokens themselves."""
    init, own, *given = case.args
    quiet = {name: torch.zeros_like(value) if "W_o" in name else value for name, value in own.items()}
    return replace(case, args=(init, quiet, *given))


def fits(case: Case) -> bool:
    """Return whether all tensors have the sizes of the block, and no norm has a weight of 0."""
    init, own, *given = case.args
    widths = {x.shape[-1] for x in given} | {own["norm_ffn.weight"].shape[0]}
    gains = all(
        bool(value.all()) for name, value in own.items() if name.startswith("norm") and "weight" in name
    )
    return gains and widths == {init["d_model"]} and len(own["ffn.0.weight"]) == init["d_ff"]


def _silenced(trial: Trial, *sublayers: str) -> Case:
    """Return the trial's case with sublayers that add nothing."""
    init, own, *given = trial.case.args
    quiet = {
        name: torch.zeros_like(value) if any(name.startswith(LAST_LAYER[s]) for s in sublayers) else value
        for name, value in own.items()
    }
    return replace(trial.case, args=(init, quiet, *given))


def _with_inputs(case: Case, **changed: Tensor) -> Case:
    """Return the case with other tensors for x or for the memory."""
    given = dict(zip(("init", "own", "x", "memory"), case.args, strict=False)) | changed
    return replace(case, args=tuple(given.values()))


def _names(trial: Trial) -> list[str]:
    return [s for s, layer in LAST_LAYER.items() if f"{layer}.weight" in trial.case.args[1]]


def _apart(one: Tensor, other: Tensor) -> Tensor:
    """Return where two results differ beyond rounding, token by token (B, T)."""
    return (one.double() - other.double()).abs().amax(dim=-1) > 1e-2


def _numbers(row: Tensor) -> str:
    return "[" + ", ".join(f"{float(n):.2f}" for n in row.detach()[:3]) + (", ...]" if len(row) > 3 else "]")


def nothing_is_drawn(trial: Trial) -> str | None:
    """Find dropout by three calls, since in a small block one call may drop nothing."""
    again = [trial.call(trial.case).value for _ in range(3)]
    if all(torch.equal(one, trial.value) for one in again):
        return None
    return "the same call gives another result each time; dropout was not asked for, and nothing is random"


def hands_x_on(trial: Trial) -> str | None:
    """Check that a pre-norm block is the identity when its sublayers add nothing."""
    x = trial.case.args[2]
    if trial.case.args[0].get("norm", "pre") != "pre":
        return None
    got = trial.call(_silenced(trial, *_names(trial))).value
    wrong = torch.nonzero(_apart(got, x))
    if not len(wrong):
        return None
    b, t = wrong[0].tolist()
    layers = " and ".join(LAST_LAYER[s] for s in _names(trial))
    return (
        f"with {layers} at zero nothing is added, and a pre-norm block passes x on unchanged; yours turns "
        f"{_numbers(x[b, t])} into {_numbers(got[b, t])}. Add to x itself, without a norm"
    )


def the_sublayer_at_fault(reference: Callable[..., Any], trial: Trial) -> str | None:
    """Name the sublayer that is wrong when all others add nothing."""
    names = _names(trial)
    for speaking in names:
        case = _silenced(trial, *(name for name in names if name != speaking))
        got, right = trial.call(case).value, probes.module(reference, *case.args, **case.kwargs)
        if bool(_apart(got, right).any()):
            if not bool(_apart(got, trial.call(_silenced(trial, *names)).value).any()):
                return (
                    f"the output of `{speaking}` is lost: with all other sublayers at zero it changes nothing"
                )
            return (
                f"with all other sublayers at zero, the output of `{speaking}` is wrong already: look at its "
                "norm, at its input, at its layers and at the sum"
            )
    if not bool(_apart(trial.value, trial.expected).any()):
        return None
    return (
        f"each of {', '.join(names)} is right when the others add nothing, and together they are not: look "
        "at the order, and whether each reads the output of the previous one"
    )


def tokens_meet_in_attention_alone(trial: Trial) -> str | None:
    x = trial.case.args[2]
    quiet = _silenced(trial, *(name for name in _names(trial) if name != "ffn"))
    other = x.clone()
    other[:, 0] = other[:, 0].flip(-1) + 1
    moved = _apart(trial.call(_with_inputs(quiet, x=other)).value, trial.call(quiet).value)[:, 1:]
    if not bool(moved.any()):
        return None
    t = int(torch.nonzero(moved)[0][1]) + 1
    return (
        f"with attention at zero, changing token 0 still moves token {t}; norms and ffn work on each token "
        "alone"
    )


def order_of_the_tokens(trial: Trial) -> str | None:
    if any(value is not None for value in trial.case.kwargs.values()):
        return None
    x = trial.case.args[2]
    turned = trial.call(_with_inputs(trial.case, x=x.flip(1))).value
    if not bool(_apart(turned.flip(1), trial.value).any()):
        return None
    return (
        "the tokens in reverse do not give the results in reverse; without a mask or positions, a block "
        "knows no order"
    )


def the_mask_is_kept(trial: Trial) -> str | None:
    """Check that a token which no query may attend to changes only its own output."""
    x = trial.case.args[2]
    mask = trial.case.kwargs.get("mask", trial.case.kwargs.get("self_mask"))
    if mask is None:
        return None
    seen = mask.expand(np.broadcast_shapes(mask.shape, (len(x), 1, x.shape[1], x.shape[1]))).any(dim=1)
    return _obeyed(trial, seen, "x", "token")


def the_memory_mask_is_kept(trial: Trial) -> str | None:
    x, memory = trial.case.args[2:4]
    mask = trial.case.kwargs.get("memory_mask")
    if mask is None:
        return None
    seen = mask.expand(np.broadcast_shapes(mask.shape, (len(x), 1, x.shape[1], memory.shape[1]))).any(dim=1)
    return _obeyed(trial, seen, "memory", "memory token")


def _obeyed(trial: Trial, seen: Tensor, what: str, called: str) -> str | None:
    """Check that one changed token moves the queries that see it and no others; `seen` is (B, T_q, T_k)."""
    given = trial.case.args[2 if what == "x" else 3]
    for j in range(given.shape[1]):
        other = given.clone()
        other[:, j] = other[:, j].flip(-1) + 1
        moved = _apart(trial.call(_with_inputs(trial.case, **{what: other})).value, trial.value)
        forbidden = ~seen[:, :, j]
        if what == "x":
            forbidden[:, j] = False
        if bool((moved & forbidden).any()):
            b, i = torch.nonzero(moved & forbidden)[0].tolist()
            return (
                f"in sequence {b} the mask forbids query {i} to see {called} {j}, and changing that {called} "
                f"moves output {i} all the same; True means may attend"
            )
    return None


def the_memory_has_no_order(trial: Trial) -> str | None:
    memory = trial.case.args[3]
    if trial.case.kwargs.get("memory_mask") is not None:
        return None
    turned = trial.call(_with_inputs(trial.case, memory=memory.flip(1))).value
    if not bool(_apart(turned, trial.value).any()):
        return None
    masked = trial.case.kwargs.get("self_mask") is not None
    cause = "self_mask is for `attention` alone" if masked else "queries come from x"
    return f"the memory in reverse gives another result; {cause}, and a set of keys has no order"


def the_memory_is_read(trial: Trial) -> str | None:
    memory = trial.case.args[3]
    other = trial.call(_with_inputs(trial.case, memory=memory.flip(-1) + 1)).value
    if bool(_apart(other, trial.value).any()):
        return None
    return "another memory gives the same result; keys and values of cross_attention come from the memory"


def ends_normed(trial: Trial) -> str | None:
    """Check that the output of a post-norm block comes from norm_ffn."""
    init, own, *_ = trial.case.args
    if init.get("norm") != "post":
        return None
    plain = (trial.value.detach().double() - own["norm_ffn.bias"]) / own["norm_ffn.weight"]
    mean, variance = float(plain[0, 0].mean()), float(plain[0, 0].var(correction=0))
    if abs(mean) < 1e-2 and abs(variance - 1) < 1e-2:
        return None
    return (
        "a post-norm block ends with norm_ffn. Before its weight and bias, token 0 should have "
        f"mean 0 and variance 1; yours has {mean:.2f} and {variance:.2f}"
    )


def laws(reference: Callable[..., Any]) -> tuple[Property, ...]:
    """Return the laws that both blocks obey."""
    return (
        Property("nothing is random", nothing_is_drawn),
        Property("the mask is kept", the_mask_is_kept),
        Property("tokens have no order", order_of_the_tokens),
        Property("only attention mixes tokens", tokens_meet_in_attention_alone),
        Property("a zeroed block returns x", hands_x_on),
        Property("a post-norm block ends in a norm", ends_normed),
        Property("a sublayer is at fault", partial(the_sublayer_at_fault, reference)),
    )
