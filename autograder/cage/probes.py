"""Exercise a student's function or class: call it, build it, differentiate it, or use it step by step.

A probe is a function of the candidate and of a case's arguments; its result is the outcome. A case names its
probe, so that the same probe runs in the grader with a reference and in the child with a submission. This
module does not know any exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import tensors
from .errors import describe_error, kind
from .remote_objects import unobserved

Candidate = Callable[..., Any]
NONE = "no gradient"
"""The value in place of a gradient where the result does not depend on the tensor."""
RETURNED = "a dict with the key `raised`, and no error"
"""The value in place of a returned dict that looks like the record of an error."""
OVERWRITTEN = 8192.0
"""The number that overwrites a method's tensor arguments after the call; every dtype can hold it."""
LONGER = {"trained": 6}
"""The time limit of a probe that does the work of many calls, as a multiple of the limit of one call."""


class Unfit(Exception):
    """The error for a class that does not have the form of the exercise; the message names the difference."""


class Unsendable(Unfit):
    """The error for a returned value that cannot be sent on the wire."""


def call(function: Candidate, *args: Any, **kwargs: Any) -> Any:
    """Call the function and return its result."""
    return function(*args, **kwargs)


def gradients(function: Candidate, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the gradient of a fixed weighted sum of the results at each floating tensor among the arguments.

    Returns:
        The gradients by place, ``"0"`` for the first argument and ``"0[2]"`` in a list, or by keyword; `NONE`
        where the result does not depend on the tensor.
    """
    inputs: dict[str, Any] = {}

    def watched(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [watched(f"{name}[{place}]", inner) for place, inner in enumerate(value)]
        if not _differentiable(value):
            return value
        inputs[name] = value.detach().requires_grad_()
        return inputs[name] * 1  # not a leaf, so the code may change it in place

    import torch

    with torch.enable_grad():  # even if the notebook has switched gradients off
        given = [watched(str(place), value) for place, value in enumerate(args)]
        named = {name: watched(name, value) for name, value in kwargs.items()}
        return _weighted_gradients(function(*given, **named), inputs)


def module(
    make: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Build a module with `init`, set its parameters, call it and return the result.

    The module is first called with other numbers, and must not keep any of them. It must give the same result
    in training and after ``.eval()``.

    Raises:
        Unfit: the same call gives different results.
    """
    built = build(make, init, parameters)
    built(*_other_numbers(args), **_other_numbers(kwargs))
    first_copy, second_copy = (tensors.private_copy((args, kwargs)) for _ in range(2))
    result = tensors.private_copy(built(*args, **kwargs))
    if not _close(result, built.eval()(*first_copy[0], **first_copy[1])):
        raise Unfit(
            "after `.eval()` your module gives other numbers than before, for the same inputs"
            if _close(result, built.train()(*second_copy[0], **second_copy[1]))
            else "the same call gives another result each time"
        )
    return result


def module_gradients(
    make: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """Return the gradients as in `gradients`, and also those at the module's parameters, by their names."""
    import torch

    with torch.enable_grad():
        built = build(make, init, parameters)
        inputs = {str(i): x.requires_grad_() for i, x in enumerate(args) if _differentiable(x)}
        inputs |= {name: x.requires_grad_() for name, x in kwargs.items() if _differentiable(x)}
        result = built(
            *[x * 1 if _differentiable(x) else x for x in args],
            **{name: x * 1 if _differentiable(x) else x for name, x in kwargs.items()},
        )
        by_name = dict(built.named_parameters())
        return _weighted_gradients(result, inputs | {name: by_name[name] for name in parameters})


def parameters(make: Candidate, init: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes of a new module's parameters, by their names."""
    return {name: list(value.shape) for name, value in build(make, init, {}).named_parameters()}


def steps(make: Candidate, init: dict[str, Any], moves: list[tuple[Any, ...]]) -> list[Any]:
    """Build an object with `init` and use it: each move is a method with its arguments, or an attribute.

    A second object takes the same steps with other numbers at the same time, as the caches of two layers do,
    so that an object which shares its state with others is noticed.

    Returns:
        A copy of the result of each move; ``{"raised": NAME, "message": TEXT}`` for a ValueError.
    """
    results: list[Any] = []
    with unobserved():
        second = _use(make(**init), _other_numbers(moves))
    for result in _use(make(**init), moves):
        with unobserved():
            results.append(tensors.private_copy(result))
            next(second)
    return results


def _use(target: Any, moves: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the result of each move, and overwrite the tensors among its arguments.

    Later results then show whether the object keeps its caller's memory. At the end the tensors get back the
    numbers that the methods left in them.
    """
    left: list[tuple[Any, Any]] = []
    try:
        for name, *given in moves:
            try:
                attribute = getattr(target, name)
                result = tensors.to_plain_types(attribute(*given) if given else attribute)
                yield RETURNED if isinstance(result, dict) and "raised" in result else result
            except ValueError as error:
                yield {"raised": kind(error), "message": describe_error(error)}
            with unobserved():
                for tensor in filter(_differentiable, tensors.arrays(given)):
                    left.append((tensor, tensor.clone()))
                    tensor.fill_(OVERWRITTEN)
    finally:
        with unobserved():
            for tensor, numbers in left:
                tensor.copy_(numbers)


def elsewhere(function: Candidate, *args: Any, **kwargs: Any) -> str:
    """Return the fault of a call whose inputs are on another device than the cpu; empty if it has none.

    A `Served` object among the arguments, such as a model, is on that device too.
    """
    from . import devices

    with devices.Elsewhere() as mode:
        args, kwargs = devices.guard_served(mode, args), devices.guard_served(mode, kwargs)
        return _clash(mode, lambda: function(*args, **kwargs))


def _clash(mode: Any, run: Callable[[], Any]) -> str:
    """Return the fault of a run under `devices.Elsewhere`; empty if it has none."""
    from . import devices

    try:
        result = run()
    except devices.Clash as clash:
        return str(clash)
    several = isinstance(result, tuple) and len(result) > 1
    for place, part in enumerate(result if several else [result], 1):
        name = f"result {place} of {len(result)}" if several else "the result"
        for leaf in filter(tensors.is_tensor, tensors.arrays(part)):
            if reason := mode.reason(leaf):
                return f"{name} is on the cpu, {reason}"
    return ""


def casts(function: Candidate, *args: Any, **kwargs: Any) -> str:
    """Return the first number that a call casts to an integer dtype that cannot hold it; empty if all fit."""
    from .undefined_casts import Casts

    with Casts() as seen:
        function(*args, **kwargs)
    return seen.wrong


def visits(function: Candidate, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Count how often the call reads each tensor in its list arguments, and return the counts.

    Returns:
        "visits": the reads of each tensor of each list; "together": how many tensors of a list are held at
        once; "largest": the elements of the largest new tensor. See `autograder.cage.read_counter`.
    """
    from .read_counter import Visits

    with Visits([value for value in args if isinstance(value, list)]) as seen:
        function(*args, **kwargs)
    return {"visits": seen.counts, "together": seen.together, "largest": seen.largest}


def asked(make: Candidate, init: dict[str, int], question: str, *given: Any) -> Any:
    """Return raw numbers of a language model; see `autograder.cage.language_models`."""
    from . import language_models

    return language_models.ASKED[question](make, init, *given)


def trained(make: Candidate, *lesson: Any) -> None:
    """Train a language model and let it be examined; see `autograder.cage.language_models`."""
    from . import language_models

    language_models.trained(make, *lesson)


def module_elsewhere(
    make: Candidate, init: dict[str, Any], parameters: dict[str, Any], *args: Any, **kwargs: Any
) -> str:
    """Return the fault as in `elsewhere`, for a module: only its parameters and buffers are moved there."""
    from . import devices

    with devices.Elsewhere() as mode:
        built = build(make, init, parameters)
        mode.move_to_card(built)
        return _clash(mode, lambda: built(*args, **kwargs))


def module_chunks(
    make: Candidate, init: dict[str, Any], parameters: dict[str, Any], texts: list[list[Any]], room: int
) -> list[Any]:
    """Let a language model read texts in chunks, each text with a cache of its own, and return all logits.

    The texts are read in turn, a chunk of each, so that a model which keeps a text in itself is noticed.

    Args:
        make: the class of the model, with ``new_cache(batch, max_len)`` and ``forward(tokens, cache)``.
        init: the arguments of the class.
        parameters: all parameters of the model, by name.
        texts: for each text its chunks, tokens (B, T) in order.
        room: the number of tokens that a cache is made for.
    """
    return _read_in_chunks(build(make, init, parameters), texts, room)


def module_chunks_elsewhere(
    make: Candidate, init: dict[str, Any], parameters: dict[str, Any], texts: list[list[Any]], room: int
) -> str:
    """Return the fault as in `elsewhere`, for a language model that reads texts in chunks."""
    from . import devices

    with devices.Elsewhere() as mode:
        built = build(make, init, parameters)
        mode.move_to_card(built)
        return _clash(mode, lambda: _read_in_chunks(built, texts, room))


def _read_in_chunks(model: Any, texts: list[list[Any]], room: int) -> list[Any]:
    """Return the logits of the first chunk of each text, then those of the second chunks, and so on."""
    import torch

    with torch.no_grad():
        caches = [model.new_cache(len(text[0]), room) for text in texts]
        return [
            tensors.private_copy(model(text[turn], caches[number]))
            for turn in range(max(map(len, texts)))
            for number, text in enumerate(texts)
            if turn < len(text)
        ]


def steps_elsewhere(
    make: Candidate, init: dict[str, Any], moves: list[tuple[Any, ...]], handed: str = "cuda"
) -> str:
    """Return the fault as in `elsewhere`, for an object that is used step by step.

    Args:
        make: the class of the object.
        init: the arguments of the class; a "device" among them becomes a graphics card.
        moves: the methods with their arguments, and the attributes; see `steps`.
        handed: the device of the tensors among the arguments, "cuda" or "cpu".
    """
    from . import devices

    device = {"device": devices.CARD} if "device" in init else {}
    with devices.Elsewhere() as mode:
        if handed == "cpu":
            mode.move_to_cpu(tensors.arrays(moves))
        return _clash(mode, lambda: list(_use(make(**init | device), moves)))


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
        module_chunks,
        module_chunks_elsewhere,
        parameters,
        steps,
        steps_elsewhere,
        asked,
        trained,
    )
}


def build(make: Candidate, init: dict[str, Any], parameters: dict[str, Any]) -> Any:
    """Build a module and set its parameters.

    Raises:
        Unfit: the object is not a module, or a parameter is missing, superfluous or of another shape.
    """
    import torch

    built = make(**init)
    if not isinstance(built, torch.nn.Module):
        raise Unfit(f"expected an nn.Module, got a {type(built).__name__}: write `class ...(nn.Module)`")
    if not parameters:
        return built
    by_name = dict(built.named_parameters())
    if missing := [name for name in parameters if name not in by_name]:
        raise Unfit(f"there is no parameter `{missing[0]}`. Your module has {_listed(by_name)}")
    if extra := [name for name in by_name if name not in parameters]:
        raise Unfit(f"your module has an extra parameter `{extra[0]}`. Expected: {_listed(parameters)}")
    dtype = next(iter(parameters.values())).dtype
    held = (*by_name.values(), *built.buffers())
    if any(x.is_floating_point() and x.dtype != dtype for x in held):
        built._apply(lambda x: x.to(dtype) if x.is_floating_point() else x)  # `to` makes complex buffers real
    with torch.no_grad():
        for name, value in parameters.items():
            if by_name[name].shape != value.shape:
                got, wanted = tuple(by_name[name].shape), tuple(value.shape)
                raise Unfit(f"the parameter `{name}` has shape {got}; expected {wanted}")
            by_name[name].copy_(value)
    return built


def _listed(names: Any) -> str:
    names = list(names)
    return ", ".join(f"`{name}`" for name in names[:12]) + (", ..." if len(names) > 12 else "") or "none"


def _other_numbers(values: Any) -> Any:
    """Return the same structure with other numbers: floating tensors are negated."""
    return tensors.mapped(lambda leaf: -leaf if _differentiable(leaf) else leaf, values)


def _close(one: Any, other: Any) -> bool:
    pairs = zip(tensors.arrays(one), tensors.arrays(other), strict=False)
    numbers = [(tensors.numbers(a), tensors.numbers(b)) for a, b in pairs]
    return all(a.shape == b.shape and np.allclose(a, b, 1e-2, 1e-4, equal_nan=True) for a, b in numbers)


def _differentiable(value: Any) -> bool:
    return bool(tensors.is_tensor(value) and value.is_floating_point())


def _weighted_gradients(result: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the gradients at `inputs` of a sum of all results, with a different weight for each number."""
    import torch

    total: Any = 0
    for leaf in tensors.arrays(result):
        if _differentiable(leaf) and leaf.requires_grad:
            weights = torch.cos(torch.arange(leaf.numel(), dtype=torch.float64) + 0.5).to(leaf.dtype)
            finite = torch.isfinite(leaf)
            total = total + (torch.where(finite, leaf, 0) * weights.reshape(leaf.shape)).sum()
    if not tensors.is_tensor(total):
        return dict.fromkeys(inputs, NONE)
    slopes = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return {name: NONE if g is None else g for name, g in zip(inputs, slopes, strict=True)}
