"""Ways to exercise what a student wrote: call it, build it, differentiate it, take it step by step.

A probe is a function of the candidate and of a case's arguments; what it returns is the outcome. A case names
its probe, so that the same one runs here, beside a reference, and in the child, beside a submission. Nothing
in this module knows an exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import tensors
from .remote_objects import unobserved

Candidate = Callable[..., Any]
NONE = "no gradient"
"""Stands for a gradient that torch does not give, since the result does not depend on the tensor."""
RETURNED = "a dict that speaks of an error, and no error"
"""Stands for what a submission returns in the form in which an error is told."""
OVERWRITTEN = 8192.0
"""The number in a tensor that was handed to a method, after the call; every dtype can hold it."""
LONGER = {"trained": 6}
"""A probe that does the work of many calls may take so many times the time of one."""


class Unfit(Exception):
    """A class has not the form that the exercise asks for; the message says what is missing."""


class Unsendable(Unfit):
    """What the student's code returned cannot travel."""


def call(function: Candidate, *args: Any, **kwargs: Any) -> Any:
    """The plain call."""
    return function(*args, **kwargs)


def gradients(function: Candidate, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What arrives at each floating tensor among the arguments, of a fixed push on each result.

    Returns:
        The gradient of each by its place, ``"0"`` for the first argument, ``"0[2]"`` in a list, or by its
        keyword; `NONE` where the result does not depend on it.
    """
    inputs: dict[str, Any] = {}

    def watched(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [watched(f"{name}[{place}]", inner) for place, inner in enumerate(value)]
        if not _differentiable(value):
            return value
        inputs[name] = value.detach().requires_grad_()
        return inputs[name] * 1  # what is changed in place is not a leaf

    import torch

    with torch.enable_grad():  # whatever the notebook has set for itself
        given = [watched(str(place), value) for place, value in enumerate(args)]
        named = {name: watched(name, value) for name, value in kwargs.items()}
        return _pulled_back(function(*given, **named), inputs)


def module(
    made: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """A module built with `init`, given these parameters, and called.

    It has been called with other numbers before, of which nothing may remain, and answers in use, after
    ``.eval()``, as it does in training.
    """
    built = build(made, init, parameters)
    built(*_others(args), **_others(kwargs))
    (given, named), (again, too) = (tensors.private_copy((args, kwargs)) for _ in range(2))
    result = tensors.private_copy(built(*args, **kwargs))
    if not _alike(result, built.eval()(*given, **named)):
        raise Unfit(
            "after `.eval()` your module gives other numbers than before, for the same inputs"
            if _alike(result, built.train()(*again, **too))
            else "the same call gives another result each time"
        )
    return result


def module_gradients(
    made: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """The same as `gradients`, and at the parameters too, by their names."""
    import torch

    with torch.enable_grad():
        built = build(made, init, parameters)
        inputs = {str(i): x.requires_grad_() for i, x in enumerate(args) if _differentiable(x)}
        inputs |= {name: x.requires_grad_() for name, x in kwargs.items() if _differentiable(x)}
        result = built(
            *[x * 1 if _differentiable(x) else x for x in args],
            **{name: x * 1 if _differentiable(x) else x for name, x in kwargs.items()},
        )
        own = dict(built.named_parameters())
        return _pulled_back(result, inputs | {name: own[name] for name in parameters})


def parameters(made: Candidate, init: dict[str, Any]) -> dict[str, Any]:
    """The sizes of a fresh module's parameters, by their names."""
    return {name: list(value.shape) for name, value in build(made, init, {}).named_parameters()}


def steps(made: Candidate, init: dict[str, Any], moves: list[tuple[Any, ...]]) -> list[Any]:
    """An object built with `init` and used: each move is a method with its arguments, or an attribute.

    Beside it a second object takes the same steps with other numbers, as the caches of two layers do: what
    one is told the other must not know.

    Returns:
        What each move gave, as it was then; ``{"raised": NAME}`` for an exception.
    """
    seen: list[Any] = []
    with unobserved():
        beside = _moved(made(**init), _others(moves))
    for found in _moved(made(**init), moves):
        with unobserved():
            seen.append(tensors.private_copy(found))
            next(beside)
    return seen


def _moved(made_object: Any, moves: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the result of each move, and overwrite the tensors that were handed to it.

    An object that keeps the caller's memory shows it then. At the end the tensors hold the numbers that the
    methods left in them.
    """
    left: list[tuple[Any, Any]] = []
    try:
        for name, *given in moves:
            try:
                found = getattr(made_object, name)
                shown = tensors.settled(found(*given) if given else found)
                yield RETURNED if isinstance(shown, dict) and "raised" in shown else shown
            except ValueError as error:
                yield {"raised": kind(error)}
            with unobserved():
                for tensor in filter(_differentiable, tensors.arrays(given)):
                    left.append((tensor, tensor.clone()))
                    tensor.fill_(OVERWRITTEN)
    finally:
        with unobserved():
            for tensor, numbers in left:
                tensor.copy_(numbers)


def elsewhere(function: Candidate, *args: Any, **kwargs: Any) -> str:
    """Return the fault that would show if the inputs were on another device than the cpu; empty if none.

    An object that is lent, such as a model, is there too.
    """
    from . import devices

    with devices.Elsewhere() as mode:
        args, kwargs = devices.guarded(mode, args), devices.guarded(mode, kwargs)
        return _clash(mode, lambda: function(*args, **kwargs))


def _clash(mode: Any, run: Callable[[], Any]) -> str:
    """Return the fault that shows when this runs under `devices.Elsewhere`; empty if none."""
    from . import devices

    try:
        result = run()
    except devices.Clash as clash:
        return str(clash)
    whence = [mode.whence(leaf) for leaf in tensors.arrays(result) if tensors.is_tensor(leaf)]
    return next((f"the result is on the cpu, {how}" for how in whence if how), "")


def casts(function: Candidate, *args: Any, **kwargs: Any) -> str:
    """The first number that the call casts to whole numbers that cannot hold it; empty if all fit."""
    from .undefined_casts import Casts

    with Casts() as seen:
        function(*args, **kwargs)
    return seen.wrong


def visits(function: Candidate, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What the call reads of the tensors in the lists that it is given, and how large a tensor it makes.

    Returns:
        "visits" to each tensor of each list, how many of a list are held "together", and the "largest" number
        of elements; see `autograder.cage.read_counter`.
    """
    from .read_counter import Visits

    with Visits([value for value in args if isinstance(value, list)]) as seen:
        function(*args, **kwargs)
    return {"visits": seen.counts, "together": seen.together, "largest": seen.largest}


def asked(made: Candidate, init: dict[str, int], question: str, *given: Any) -> Any:
    """Raw numbers of a language model; see `autograder.cage.language_models`."""
    from . import language_models

    return language_models.ASKED[question](made, init, *given)


def trained(made: Candidate, *lesson: Any) -> None:
    """A language model taught and examined; see `autograder.cage.language_models`."""
    from . import language_models

    language_models.trained(made, *lesson)


def module_elsewhere(
    made: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> str:
    """Return the same of a module whose parameters and buffers, and no other tensors, were moved there."""
    from . import devices

    with devices.Elsewhere() as mode:
        built = build(made, init, parameters)
        mode.move(built)
        return _clash(mode, lambda: built(*args, **kwargs))


def steps_elsewhere(
    made: Candidate, init: dict[str, Any], moves: list[tuple[Any, ...]], handed: str = "cuda"
) -> str:
    """Return the same of an object that is used step by step, and is asked for there.

    Args:
        made: its class.
        init: its arguments; the device among them becomes a graphics card.
        moves: what is done with it.
        handed: where the tensors are that it is handed: there, "cuda", or on the "cpu".
    """
    from . import devices

    there = {"device": devices.CARD} if "device" in init else {}
    with devices.Elsewhere() as mode:
        if handed == "cpu":
            mode.bring(tensors.arrays(moves))
        return _clash(mode, lambda: list(_moved(made(**init | there), moves)))


PROBES: dict[str, Callable[..., Any]] = {
    probe.__name__: probe
    for probe in (
        call,
        gradients,
        elsewhere,
        casts,
        visits,
        module,
        module_gradients,
        module_elsewhere,
        parameters,
        steps,
        steps_elsewhere,
        asked,
        trained,
    )
}


def build(made: Candidate, init: dict[str, Any], parameters: dict[str, Any]) -> Any:
    """A module with the parameters set; a parameter that is missing, too many or misshapen is named.

    Raises:
        Unfit: it is no module, or its parameters are not those asked for.
    """
    import torch

    built = made(**init)
    if not isinstance(built, torch.nn.Module):
        raise Unfit(f"expected an nn.Module, got a {type(built).__name__}: write `class ...(nn.Module)`")
    if not parameters:
        return built
    own = dict(built.named_parameters())
    if missing := [name for name in parameters if name not in own]:
        raise Unfit(f"there is no parameter `{missing[0]}`. Your module has {_listed(own)}")
    if extra := [name for name in own if name not in parameters]:
        raise Unfit(f"there is a parameter `{extra[0]}` that nobody asked for. Asked: {_listed(parameters)}")
    built.to(next(iter(parameters.values())).dtype)
    with torch.no_grad():
        for name, value in parameters.items():
            if own[name].shape != value.shape:
                got, asked = tuple(own[name].shape), tuple(value.shape)
                raise Unfit(f"the parameter `{name}` has shape {got}; expected {asked}")
            own[name].copy_(value)
    return built


def _listed(names: Any) -> str:
    names = list(names)
    return ", ".join(f"`{name}`" for name in names[:12]) + (", ..." if len(names) > 12 else "") or "none"


def kind(error: BaseException) -> str:
    """The name of an error; one that a student has derived from ValueError is a ValueError."""
    return "ValueError" if isinstance(error, ValueError) else type(error).__name__


def _others(values: Any) -> Any:
    """The same structure with other numbers: what is floating is negated."""
    return tensors.mapped(lambda leaf: -leaf if _differentiable(leaf) else leaf, values)


def _alike(one: Any, other: Any) -> bool:
    pairs = zip(tensors.arrays(one), tensors.arrays(other), strict=False)
    numbers = [(tensors.numbers(a), tensors.numbers(b)) for a, b in pairs]
    return all(a.shape == b.shape and np.allclose(a, b, 1e-2, 1e-4, equal_nan=True) for a, b in numbers)


def _differentiable(value: Any) -> bool:
    return bool(tensors.is_tensor(value) and value.is_floating_point())


def _pulled_back(result: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The gradients at `inputs` of a sum of all results, each number weighted differently."""
    import torch

    total: Any = 0
    for leaf in tensors.arrays(result):
        if _differentiable(leaf) and leaf.requires_grad:
            weights = torch.cos(torch.arange(leaf.numel(), dtype=torch.float64) + 0.5).to(leaf.dtype)
            finite = torch.isfinite(leaf)
            total = total + (torch.where(finite, leaf, 0) * weights.reshape(leaf.shape)).sum()
    if not tensors.is_tensor(total):
        return dict.fromkeys(inputs, NONE)
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return {name: NONE if g is None else g for name, g in zip(inputs, found, strict=True)}
