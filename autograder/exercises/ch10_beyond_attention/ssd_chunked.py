"""ch10_beyond_attention/ssd_chunked: Mamba-2's memory, attention in chunks and a recurrence between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.costs import too_little
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.ch10_beyond_attention.memory_laws import MOST_AFTER, from_chunk_to_chunk
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, index, on_any_device
from autograder.exercises.weighing import IN_FLOAT32, LONG, ROUGH, slack
from tfcore import state_space_duality as duality

ROOM = 4
"""Room for a few channels beside the scores of a chunk; T x T scores are more than 12 times as many."""


def ssd_chunked(x, delta, A, B, C, chunk_size):
    """Compute the reference answer by `tfcore`, whose size of the chunks has a default."""
    return duality.ssd_chunked(x, delta, A, B, C, chunk_size)


def drawn(
    rng: np.random.Generator, batch: int, T: int, h: int, p: int, N: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Draw x (B, T, h, p), delta (B, T, h), A (h,), B and C (B, T, N); step sizes above 0, rates below 0."""
    x, B, C = tensor(rng, batch, T, h, p), tensor(rng, batch, T, N), tensor(rng, batch, T, N)
    delta = torch.from_numpy(rng.uniform(0.2, 1.5, size=(batch, T, h)))
    A = -torch.from_numpy(rng.uniform(0.2, 1.5, size=h))
    return tuple(given.to(dtype) for given in (x, delta, A, B, C))


def in_one_chunk(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("2 tokens, 3 heads, p = 4, N = 5, one chunk", (*drawn(rng, 1, 2, 3, 4, 5), 2))
    batch, T, h, p, N = sizes(rng, (2, 3), (5, 8), (2, 4), (3, 6), (4, 7))
    yield Case(f"B = {batch}, T = {T}, h = {h}, p = {p}, N = {N}", (*drawn(rng, batch, T, h, p, N), T))
    yield Case("one channel per head", (*drawn(rng, 2, 5, 3, 1, 4), 5))
    yield Case("N = 1", (*drawn(rng, 2, 4, 3, 5, 1), 4))
    yield Case("9 sequences of a single token", (*drawn(rng, 9, 1, 3, 2, 4), 1))
    yield Case("30 tokens in one chunk", (*drawn(rng, 1, 30, 3, 2, 4), 30))
    yield Case("tensors that are not contiguous", (*map(strided, drawn(rng, 3, 5, 2, 4, 6)), 5))


def in_chunks(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in chunks of 2", (*drawn(rng, 1, 4, 2, 3, 5), 2))
    yield Case("3 tokens in chunks of 1", (*drawn(rng, 1, 3, 2, 4, 5), 1))
    yield Case("5 tokens, chunk_size = 8", (*drawn(rng, 2, 5, 3, 4, 6), 8))
    yield Case("5 tokens in chunks of 2", (*drawn(rng, 2, 5, 3, 1, 4), 2))
    yield Case("7 tokens in chunks of 3", (*drawn(rng, 1, 7, 2, 5, 4), 3))
    T = int(rng.choice([9, 10, 11]))
    yield Case(f"{T} tokens in chunks of 4", (*drawn(rng, 2, T, 3, 4, 5), 4))
    x, delta, A, B, C = drawn(rng, 1, 40, 2, 3, 4)
    yield Case("40 tokens in chunks of 16, slow decay", (x, delta, A / 20, B, C, 16))


def extremes(rng: np.random.Generator) -> Iterator[Case]:
    x, delta, A, B, C = drawn(rng, 1, 5, 2, 3, 4)
    yield Case("rates of -0.000001: nothing is forgotten", (x, delta, -1e-6 * torch.ones_like(A), B, C, 2))
    yield Case("rates of -10,000: all is forgotten", (x, delta, 1e4 * A, B, C, 3))
    passed_over = delta * torch.tensor([1.0, 0, 0, 1, 1])[:, None]
    yield Case("steps of 0: tokens passed over", (x, passed_over, A, B, C, 4))
    x, delta, A, B, C = drawn(rng, 1, 120, 2, 3, 4)
    yield Case("120 tokens in chunks of 32, rates around -20", (x, delta, 20 * A, B, C, 32))
    yield Case("120 tokens in chunks of 32, slow decay", (x, delta, A / 100, B, C, 32))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", (*drawn(rng, 2, 5, 3, 4, 6, dtype=torch.float64), 2))
    yield Case("bfloat16", (*drawn(rng, 1, 5, 2, 3, 4, dtype=torch.bfloat16), 3))
    yield Case("float16", (*drawn(rng, 2, 4, 3, 5, 6, dtype=torch.float16), 3))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("4 tokens in chunks of 3", (*drawn(rng, 1, 4, 2, 3, 5), 3))
    yield Case("5 tokens in chunks of 2, float64", (*drawn(rng, 2, 5, 3, 4, 6, dtype=torch.float64), 2))


def soft_and_steep(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    x, delta, A, B, C = drawn(rng, 1, 9, 2, 3, 4)
    yield Case("rates around -20", (x, delta, 20 * A - 10, B, C, 9))


def long(rng: np.random.Generator) -> Iterator[Case]:
    T = int(rng.integers(101, 108))
    yield Case(f"{T} tokens in chunks of 8", (*drawn(rng, 1, T, 2, 3, 4), 8), metered=True)


def one_long_chunk(rng: np.random.Generator) -> Iterator[Case]:
    T = int(rng.integers(20, 26))
    yield Case(f"{T} tokens in one chunk", (*drawn(rng, 1, T, 2, 3, 4), T), metered=True)


def _twice_as_long(trial: Trial, chunk_size: int) -> Outcome:
    """Return the outcome of the call with its sequences twice in a row."""
    x, delta, A, B, C, _ = trial.case.args
    x, delta, B, C = (torch.cat([given, given], dim=1) for given in (x, delta, B, C))
    return trial.call(replace(trial.case, args=(x, delta, A, B, C, chunk_size)))


def linear_in_time(trial: Trial) -> str | None:
    """Check that no tensor has T x T numbers, and that operations grow in proportion to T."""
    if unseen := too_little(trial):
        return unseen
    batch, T, h, _ = trial.case.args[0].shape
    chunk_size, cost = trial.case.args[-1], trial.outcome.cost
    if cost["largest"] > ROOM * batch * h * T * chunk_size:
        shape = tuple(int(n) for n in cost["largest_shape"])
        return (
            f"your largest tensor has the shape {shape}, {cost['largest']:,} numbers; T * chunk_size is only "
            f"{T * chunk_size:,} a head. Score pairs of tokens of the same chunk only; the memory holds "
            "all earlier chunks"
        )
    twice = _twice_as_long(trial, chunk_size)
    if twice.error or twice.cost["operations"] <= 3 * cost["operations"]:
        return None
    return (
        f"{T} tokens take {cost['operations']:,} operations, {2 * T} take {twice.cost['operations']:,}: the "
        "cost grows with T^2. Carry a memory from chunk to chunk; it holds all earlier tokens"
    )


def few_large_products(trial: Trial) -> str | None:
    """Check that a longer chunk takes as many calls of torch: its tokens are computed together."""
    if unseen := too_little(trial):
        return unseen
    T = trial.case.args[0].shape[1]
    twice = _twice_as_long(trial, 2 * T)
    if twice.error:
        return None
    calls, more = (sum(outcome.cost["calls"].values()) for outcome in (trial.outcome, twice))
    if more <= 1.5 * calls:
        return None
    return (
        f"one chunk of {T} tokens takes {calls:,} calls of torch, one of {2 * T} takes {more:,}: your code "
        "goes through a chunk token by token. Compute all tokens of a chunk together, by matrix products"
    )


def _with_input(trial: Trial, x: Tensor) -> np.ndarray:
    return numbers(trial.call(replace(trial.case, args=(x, *trial.case.args[1:]))).value)


def only_input_makes_output(trial: Trial) -> str | None:
    got = _with_input(trial, torch.zeros_like(trial.case.args[0]))
    wrong = np.abs(got) > 1e-6
    return (
        f"with x = 0 your output is {got[wrong][0]:.3g}{index(wrong)}; it must be 0" if wrong.any() else None
    )


def heads_and_channels_stay_apart(trial: Trial) -> str | None:
    x = trial.case.args[0]
    for axis, what in ((0, "sequence"), (2, "head"), (3, "channel")):
        for alone in range(x.shape[axis]):
            place = (slice(None),) * axis + (alone,)
            only = torch.zeros_like(x)
            only[place] = x[place]
            wrong = np.abs(_with_input(trial, only)) > 1e-6
            wrong[place] = False
            if wrong.any():
                return (
                    f"with an input in {what} {alone} alone there is an output{index(wrong)}, in another "
                    f"{what}; heads share B and C, and nothing else"
                )
    return None


def answer_to_one_input(trial: Trial) -> str | None:
    """Check the effect of an input of 1 at a single token: before it, at once, and later."""
    x, delta, A, B, C = (numbers(given).astype(float) for given in trial.case.args[:-1])
    batch, T, h, _ = x.shape
    if T > LONG:
        raise ValueError("too long")
    close, found = slack(trial), []
    for s in range(T):
        unit = torch.zeros_like(trial.case.args[0])
        unit[:, s] = 1
        found.append(_with_input(trial, unit)[..., 0])
    gone = np.cumsum(delta * A, axis=1)
    for after in range(-1, min(T, MOST_AFTER + 1)):
        for b, head, s in np.ndindex(batch, h, T):
            given = f"an input of 1 at token {s} of head {head} alone"
            if after < 0:
                early = np.flatnonzero(np.abs(found[s][b, :s, head]) > 1e-6)
                if len(early):
                    return f"{given} already shows at token {early[0]}; the past cannot know it"
                continue
            if s + after >= T:
                continue
            kept = np.exp(gone[b, s + after, head] - gone[b, s, head])
            right = float(C[b, s + after] @ B[b, s]) * delta[b, s, head] * kept
            got = found[s][b, s + after, head]
            if abs(got - right) <= close * max(1, abs(right)):
                continue
            if not after:
                return f"{given} gives y = {got:.4g} at that token; delta (C . B) is {right:.4g}"
            when = "a token" if after == 1 else f"{after} tokens"
            return (
                f"{given} gives y = {got:.4g} {when} later; the write delta x B^T, times exp(delta A) of "
                f"each later token, read by C, is {right:.4g}"
            )
    return None


def rates_below_0(case: Case) -> bool:
    """Return whether a smaller case is still allowed: rates below 0, step sizes of 0 or more."""
    return bool((numbers(case.args[2]) < 0).all() and (numbers(case.args[1]) >= 0).all())


EXERCISE = Exercise(
    name="ch10_beyond_attention/ssd_chunked",
    signature="ssd_chunked(x, delta, A, B, C, chunk_size)",
    goal="Run H = exp(delta A) H + delta x B^T, y = H C, as attention in chunks and a memory between them.",
    section="One decay for a whole head",
    minutes=20,
    difficulty="hard",
    reference=ssd_chunked,
    domain=rates_below_0,
    criteria=(
        Criterion("every token forgets, writes and reads, in one chunk", 1, in_one_chunk),
        Criterion(
            "any chunk_size: several chunks, a shorter last one, chunks of 1, a size above T", 0.5, in_chunks
        ),
        Criterion(
            "memory for T * chunk_size numbers, a cost linear in T", 0.25, long, "cost", linear_in_time
        ),
        Criterion(
            "a chunk in a few large products, not token by token",
            0.25,
            one_long_chunk,
            "cost",
            few_large_products,
        ),
        Criterion(
            "rates near 0 and of -10,000, steps of 0, long sequences", 0.25, extremes, tolerance=IN_FLOAT32
        ),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach all five inputs", 0.25, differentiated(soft_and_steep), tolerance=IN_FLOAT32
        ),
        Criterion("works on any device", 0.125, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.125, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("without input there is no output", only_input_makes_output),
        from_chunk_to_chunk(ssd_chunked, axis=1),
        Property("heads and channels do not mix", heads_and_channels_stay_apart),
        Property("one input, followed through time", answer_to_one_input),
        *LAST,
    ),
)
