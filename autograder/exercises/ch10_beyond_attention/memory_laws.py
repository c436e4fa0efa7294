"""Cases and laws of the exercises whose memory replaces values: `delta_rule` and `gated_delta_rule`.

Their functions take queries, keys, values and betas first, and return the values that the queries read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.cage.tensors import is_tensor, numbers
from autograder.checking.comparison import differs
from autograder.checking.declaration import Case, Property, Test, Trial
from autograder.exercises.draw import tensor
from autograder.exercises.laws import CLOSE, index, near
from autograder.exercises.weighing import IN_FLOAT32, nothing_from_the_future, slack, weights_by_channel

NAMES = ("query", "key", "value", "beta", "log_decay")
KEY, VALUE, BETA, LOG_DECAY = 1, 2, 3, 4
"""The places of the arguments."""
MOST_AFTER = 8
"""The most tokens for which one value is followed."""
DIRECTIONS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6], [-0.6, 0.8]])
"""Keys of length 1 that are easy to compute with by hand."""


def drawn(
    rng: np.random.Generator, *shape: int, d_v: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Draw q (B, h, T, d_k), keys of length 1 that overlap, v (B, h, T, d_v), and betas between 0 and 1."""
    q, k = tensor(rng, *shape), tensor(rng, *shape) + 0.5
    beta = torch.from_numpy(rng.uniform(0.2, 0.95, size=shape[:-1]))
    return tuple(x.to(dtype) for x in (q, F.normalize(k, dim=-1), tensor(rng, *shape[:-1], d_v), beta))


def plain(rng: np.random.Generator, h: int, T: int, d_v: int) -> tuple[Tensor, ...]:
    """Draw a case of one sequence whose numbers are easy to compute with by hand; keys have the width 2."""
    key = torch.stack([DIRECTIONS[rng.permutation(len(DIRECTIONS))[:T]] for _ in range(h)])[None]
    q, v = (torch.from_numpy(rng.integers(1, 9, size=(1, h, T, d))).float() for d in (2, d_v))
    return q, key, v, torch.from_numpy(rng.choice([0.25, 0.5, 0.75], size=(1, h, T))).float()


def keys_have_length_1(case: Case) -> bool:
    """Return whether a smaller case is still allowed: keys of length 1, betas from 0 to 1, no growth."""
    key, beta, *decay = (numbers(case.args[place]) for place in (KEY, BETA, LOG_DECAY)[: len(case.args) - 2])
    lengths = np.linalg.norm(key, axis=-1)
    room = 0.02 if case.args[KEY].element_size() == 2 else 1e-4
    in_range = beta.min() >= 0 and beta.max() <= 1 and all(x.max() <= 0 for x in decay)
    return bool(np.abs(lengths - 1).max() < room and in_range)


def along_the_sphere(trial: Trial) -> str | None:
    """Compare gradients; of the keys' gradient only the part along the sphere counts.

    A key has length 1, and the exercise does not define what a longer key would change. Code that normalises
    keys once more gives another gradient in that direction, and is right.
    """
    key = trial.case.args[KEY].double()

    def flat(gradients: dict[str, Any]) -> dict[str, Any]:
        along = gradients[str(KEY)].double()
        along = along - (along * key).sum(dim=-1, keepdim=True) * key
        flattened = gradients | {str(KEY): along.to(trial.case.args[KEY].dtype)}
        return {NAMES[int(place)]: gradient for place, gradient in flattened.items()}

    why = differs(flat(trial.value), flat(trial.expected), IN_FLOAT32)
    return why and why.replace("in `", "the gradient with respect to `", 1)


def _again(trial: Trial, **changes: Tensor) -> np.ndarray:
    """Return the result of the same call with other arguments."""
    args = list(trial.case.args)
    for name, value in changes.items():
        args[NAMES.index(name)] = value
    return numbers(trial.call(replace(trial.case, args=tuple(args))).value)


def heads_stay_apart(trial: Trial) -> str | None:
    """Check that nothing passes from a head to another, or from a sequence to another."""
    value = trial.case.args[VALUE]
    for axis, what in ((1, "head"), (0, "sequence")):
        for alone in range(value.shape[axis]):
            only = torch.zeros_like(value)
            place = (slice(None),) * axis + (alone,)
            only[place] = value[place]
            wrong = np.abs(_again(trial, value=only)) > 1e-6
            wrong[place] = False
            if wrong.any():
                return (
                    f"with values in {what} {alone} alone there is an output{index(wrong)}, in another "
                    f"{what}; each {what} has a memory of its own, which is empty at first"
                )
    return None


def channels_stay_apart(trial: Trial) -> str | None:
    """Check that a channel of the values shows in the same channel of the output alone."""
    value = trial.case.args[VALUE]
    for channel in range(value.shape[-1]):
        only = torch.zeros_like(value)
        only[..., channel] = value[..., channel]
        wrong = np.abs(_again(trial, value=only)) > 1e-6
        wrong[..., channel] = False
        if wrong.any():
            return (
                f"with values in channel {channel} alone there is an output{index(wrong)}, in another "
                f"channel; "
                "S is d_v x d_k, a token writes v k^T and reads S q"
            )
    return None


def beta_0_writes_nothing(trial: Trial) -> str | None:
    """Check that the memory stays empty if every beta is 0."""
    got = _again(trial, beta=torch.zeros_like(trial.case.args[BETA]))
    wrong = np.abs(got) > 1e-6
    return (
        f"with beta = 0 everywhere your output is {got[wrong][0]:.3g}{index(wrong)}; nothing is written, "
        f"so it "
        "must be 0"
        if wrong.any()
        else None
    )


def reads_what_it_wrote(trial: Trial) -> str | None:
    """Check that a token whose query is its key reads its own value, if beta is 1."""
    _, key, value, beta, *_ = trial.case.args
    got, right = _again(trial, query=key, beta=torch.ones_like(beta)), numbers(value)
    wrong = np.abs(got - right) > max(slack(trial), 1e-3) * np.maximum(1, np.abs(right))
    if not wrong.any():
        return None
    t = int(np.argwhere(wrong)[0][2])
    return (
        f"with beta = 1, and the query of token {t} equal to its key, your output is "
        f"{got[wrong][0]:.4g}{index(wrong)}; the token has just replaced the old value of this key by "
        f"{right[wrong][0]:.4g}, so it "
        "must read that"
    )


def one_value_followed(reference: Callable[..., Any], at_once: str, later: str) -> Test:
    """Check the effect of a value of 1 at a single token: at once, then token by token.

    Args:
        reference: the right answer.
        at_once: the formula of the effect at the token itself.
        later: what happens to it at each later token.
    """

    def broken(trial: Trial) -> str | None:
        query, key, _, *rest = trial.case.args
        T, close = query.shape[2], slack(trial)
        found = weights_by_channel(trial, VALUE)
        unit = torch.eye(T, dtype=torch.float64).expand(*query.shape[:2], T, T)
        wide = [x.double() if is_tensor(x) else x for x in (query, key, unit, *rest)]
        right = numbers(reference(*wide))
        for after in range(min(T, MOST_AFTER + 1)):
            for channel, b, h, j in np.ndindex(*found.shape[:3], T - after):
                got, wanted = found[channel, b, h, j + after, j], right[b, h, j + after, j]
                if abs(got - wanted) <= close * max(1, abs(wanted)):
                    continue
                given = f"a value of 1 at token {j} of head {h} alone gives {got:.4g}"
                if not after:
                    return f"{given} at that token; {at_once} is {wanted:.4g}"
                when = "a token" if after == 1 else f"{after} tokens"
                return f"{given} {when} later; {later}, which leaves {wanted:.4g}"
        return None

    return broken


def properties(reference: Callable[..., Any], at_once: str, later: str) -> tuple[Property, ...]:
    """Return the laws of a memory that replaces values; see `one_value_followed`."""
    return (
        Property("nothing comes from the future", nothing_from_the_future(VALUE, lambda trial: True)),
        Property("heads and sequences stay apart", heads_stay_apart),
        Property("channels of the values stay apart", channels_stay_apart),
        Property("beta = 0 writes nothing", beta_0_writes_nothing),
        Property("a token reads the value that it has just written", reads_what_it_wrote),
        Property("one value, followed through time", one_value_followed(reference, at_once, later)),
    )


def from_chunk_to_chunk(reference: Callable[..., Any], axis: int) -> Property:
    """Return the law that the size of the chunks has no effect, for calls that are right in one chunk.

    Args:
        reference: the right answer; its last argument is the size of the chunks.
        axis: the axis of time of the first argument.
    """

    def broken(trial: Trial) -> str | None:
        *given, chunk_size = trial.case.args
        T = given[0].shape[axis]
        whole = replace(trial.case, args=(*given, T))
        right = numbers(reference(*whole.args))
        if chunk_size >= T or not near(numbers(trial.call(whole).value), right):
            return None
        got = numbers(trial.value)
        wrong = ~np.isclose(got, right, rtol=CLOSE, atol=CLOSE)
        if not wrong.any():
            return None
        return (
            f"with all {T} tokens in one chunk your output is right; with chunk_size = {chunk_size} it is "
            f"{got[wrong][0]:.4g}{index(wrong)} and must be {right[wrong][0]:.4g}. The mistake is in the "
            f"step "
            "from one chunk to the next"
        )

    return Property("the chunk size has no effect", broken)
