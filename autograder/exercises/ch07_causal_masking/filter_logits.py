"""ch07_causal_masking/filter_logits: rule out unlikely tokens before one is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import is_tensor, numbers, strided
from autograder.checking.comparison import differs, tolerance_for
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import differentiated, elsewhere, on_any_device
from tfcore.generate import sampling

Array = np.ndarray
CLEAR = 0.2
"""How far p is from the sums before and after the token that crosses it, as a share of its probability."""


def filter_logits(logits, top_k=None, top_p=None):
    """Compute the reference answer, under the names that the notebook uses."""
    return sampling.filter_logits(logits, top_k, top_p)


def shares(logits: Array, top_k: int | None = None) -> Array:
    """Return the probabilities of each row (..., V), largest first, among the k largest."""
    p = -np.sort(-np.exp(logits - logits.max(axis=-1, keepdims=True)), axis=-1)[..., :top_k]
    return p / p.sum(axis=-1, keepdims=True)


def crossing(p: Array, top_p: float) -> int | None:
    """Count the sorted probabilities p (n,) that make up `top_p`; None where rounding might decide."""
    after = p.cumsum()
    last = int(np.searchsorted(after, top_p))
    if last == len(p):
        return None
    before = after[last] - p[last]
    room = CLEAR * p[last]
    return last + 1 if before + room < top_p < after[last] - room else None


def rows(
    rng: np.random.Generator, count: int, V: int, fits: Callable[[Array], bool], spread: float = 1.5
) -> Array:
    """Draw rows of logits (count, V), and draw each row again until it fits."""
    found: list[Array] = []
    while len(found) < count:
        row = rng.normal(scale=spread, size=V) + rng.normal()
        if fits(row):
            found.append(row)
    return np.stack(found)


def keeps(top_p: float, low: int, high: int, top_k: int | None = None) -> Callable[[Array], bool]:
    """Make the condition that clearly `low` to `high` tokens of a row stay."""
    return lambda row: low <= (crossing(shares(row, top_k), top_p) or 0) <= high


def tensor(array: Array, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(array).to(dtype)


def by_number(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("the 2 likeliest of 4", (tensor(rng.permutation([0.5, -1.0, 2.0, 1.0]))[None],), {"top_k": 2})
    B, V, k = sizes(rng, (2, 4), (7, 11), (3, 6))
    logits = rng.normal(size=(B, V)) + 3 * np.arange(B)[:, None]
    yield Case(f"B = {B}, V = {V}, top_k = {k}", (tensor(logits),), {"top_k": k})
    yield Case("the likeliest alone", (tensor(logits),), {"top_k": 1})
    yield Case("top_k = V keeps all", (tensor(logits),), {"top_k": V})
    yield Case("neither top_k nor top_p", (tensor(logits),))
    yield Case("V = 300, top_k = 40", (tensor(rng.normal(size=(2, 300))),), {"top_k": 40})


def by_share(rng: np.random.Generator) -> Iterator[Case]:
    half = np.log([0.5, 0.3, 0.15, 0.05])
    yield Case(
        "p = 0.5, 0.3, 0.15, 0.05 in some order", (tensor(rng.permutation(half))[None],), {"top_p": 0.6}
    )
    p = float(rng.uniform(0.65, 0.75))
    yield Case(f"3 rows, V = 8, top_p = {p:.3f}", (tensor(rows(rng, 3, 8, keeps(p, 2, 4))),), {"top_p": p})
    uneven = np.concatenate([rows(rng, 1, 9, keeps(0.8, 2, 2), 2.0), rows(rng, 1, 9, keeps(0.8, 5, 8), 0.5)])
    yield Case("a sharp row and a flat one, top_p = 0.8", (tensor(uneven),), {"top_p": 0.8})
    yield Case("top_p = 1 keeps all", (tensor(rng.normal(size=(2, 6))),), {"top_p": 1.0})
    yield Case("V = 300, top_p = 0.9", (tensor(rows(rng, 2, 300, keeps(0.9, 50, 250), 1.0)),), {"top_p": 0.9})


def sharp(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases in which the first token alone has more than p."""
    sure = np.log([0.9, 0.06, 0.04])
    yield Case("one token has 0.9", (tensor(rng.permutation(sure))[None],), {"top_p": 0.5})
    V = int(rng.integers(5, 9))
    yield Case("sharp rows, top_p = 0.1", (tensor(rows(rng, 3, V, keeps(0.1, 1, 1), 2.5)),), {"top_p": 0.1})
    far = 1e4 * rng.permuted(np.tile(np.linspace(-1, 1, 6), (2, 1)), axis=-1)
    yield Case("logits spread over 20,000", (tensor(far),), {"top_p": 0.7})


def order_matters(p: float, k: int) -> Callable[[Array], bool]:
    """Make the condition that fewer tokens stay if k is applied first: shares grow when others are out."""

    def fits(row: Array) -> bool:
        first, alone = crossing(shares(row, k), p), crossing(shares(row), p)
        return bool(first and alone and first < min(alone, k))

    return fits


def both(rng: np.random.Generator) -> Iterator[Case]:
    flat = np.log([0.3, 0.22, 0.2, 0.15, 0.13])
    yield Case(
        "top_k = 2, then top_p = 0.45",
        (tensor(rng.permutation(flat))[None],),
        {"top_k": 2, "top_p": 0.45},
    )
    V, k = sizes(rng, (9, 12), (4, 6))
    some = tensor(rows(rng, 3, V, order_matters(0.7, k), 0.7))
    yield Case(f"V = {V}, top_k = {k}, top_p = 0.7", (some,), {"top_k": k, "top_p": 0.7})
    yield Case("by position", (some, k, 0.7))
    yield Case(f"top_k = {k}, and top_p = 1", (some,), {"top_k": k, "top_p": 1.0})


def tied(rng: np.random.Generator) -> Iterator[Case]:
    """Yield cases with equal logits: the number of tokens that stay counts, not which ones."""
    yield Case("three equal logits, top_k = 2", (torch.full((1, 3), 0.5),), {"top_k": 2})
    three = np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    ties = np.stack([rng.permutation(three) for _ in range(2)])
    yield Case("a tie at the second place, top_k = 2", (tensor(ties),), {"top_k": 2})
    yield Case("four equal logits, top_p = 0.6", (torch.full((1, 4), -1.5),), {"top_p": 0.6})
    last = [0.2, 0.2, 0.2, 0.4]
    ties = np.log(np.stack([last, rng.permutation(last), rng.permutation(last)]))
    yield Case("a tie where p is crossed, top_p = 0.5", (tensor(ties),), {"top_p": 0.5})


def forms(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one row without a batch, top_k", (tensor(rng.normal(size=7)),), {"top_k": 3})
    yield Case(
        "one row without a batch, top_p", (tensor(rows(rng, 1, 6, keeps(0.7, 2, 4))[0]),), {"top_p": 0.7}
    )
    deep = rows(rng, 6, 7, order_matters(0.7, 4), 0.7).reshape(2, 3, 7)
    yield Case("(B, T, V) = (2, 3, 7)", (tensor(deep),), {"top_k": 4, "top_p": 0.7})
    yield Case("logits (3, 1, 2, 7)", (tensor(deep.reshape(3, 1, 2, 7)),), {"top_k": 4, "top_p": 0.7})
    yield Case("float64", (tensor(rows(rng, 2, 5, keeps(0.6, 2, 3)), torch.float64),), {"top_p": 0.6})
    coarse = tensor(
        np.stack([rng.permutation(np.log([0.5, 0.3, 0.12, 0.08])) for _ in range(3)]), torch.bfloat16
    )
    yield Case("bfloat16", (coarse,), {"top_k": 3, "top_p": 0.7})
    yield Case("float16", (coarse.half(),), {"top_k": 3, "top_p": 0.7})
    ruled_out = rows(rng, 2, 4, keeps(0.7, 2, 3))
    ruled_out = np.concatenate([ruled_out, np.full((2, 3), -np.inf)], axis=-1)
    mixed = tensor(rng.permuted(ruled_out, axis=-1))
    yield Case("three tokens are ruled out already, top_k = 5", (mixed,), {"top_k": 5})
    yield Case("the same, top_k = 5, top_p = 0.7", (mixed,), {"top_k": 5, "top_p": 0.7})
    yield Case(
        "not contiguous",
        (strided(tensor(rows(rng, 3, 8, keeps(0.7, 2, 5, top_k=6)))),),
        {"top_k": 6, "top_p": 0.7},
    )


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield from by_number(rng)
    yield from by_share(rng)
    yield from both(rng)


def _options(case: Case) -> tuple[Array, int | None, float | None]:
    """Return the logits (N, V) as numbers, top_k and top_p of a case."""
    given = dict(zip(("logits", "top_k", "top_p"), case.args, strict=False)) | case.kwargs
    logits = numbers(given["logits"]).astype(np.float64)
    return logits.reshape(-1, logits.shape[-1]), given.get("top_k"), given.get("top_p")


def clear_cut(case: Case) -> bool:
    """Return whether every row crosses p clearly, so that no rounding decides."""
    logits, top_k, top_p = _options(case)
    return top_p in (None, 1) or all(crossing(shares(row, top_k), top_p) for row in logits)


def as_many_of_the_likeliest(got: Any, expected: Any, case: Case) -> bool:
    """Compare the logits that stay and their places; of several equal logits, any may stay."""
    if not is_tensor(got) or got.dtype != expected.dtype:
        return False
    tolerance, logits = tolerance_for(case.args), case.args[0]
    stays = got != -math.inf
    return bool(
        not differs(torch.where(stays, got, 0), torch.where(stays, logits, 0), tolerance)
        and not differs(got.sort(dim=-1).values, expected.sort(dim=-1).values, tolerance)
    )


def _kept(trial: Trial) -> Iterator[tuple[str, Array, Array, Array]]:
    """Yield for each row its name, its logits, the logits that stay, and the logits that should."""
    logits = _options(trial.case)[0]
    got, expected = (
        numbers(x).astype(np.float64).reshape(logits.shape) for x in (trial.value, trial.expected)
    )
    for index, row in enumerate(logits):
        yield f"row {index}", row, got[index], expected[index]


def something_stays(trial: Trial) -> str | None:
    for name, row, got, _ in _kept(trial):
        if np.isneginf(got).all():
            return (
                f"no token of {name} stays, though its likeliest has the probability {shares(row)[0]:.3g}; "
                "the likeliest should always stay"
            )
    return None


def removed_means_minus_infinity(trial: Trial) -> str | None:
    for name, row, got, expected in _kept(trial):
        wrong = np.isneginf(expected) & ~np.isneginf(got) & (got != row)
        if wrong.any():
            i = int(np.argmax(wrong))
            return f"token {i} of {name} holds {got[i]:.4g}; a token that is removed holds -inf, nothing else"
    return None


def what_stays_is_unchanged(trial: Trial) -> str | None:
    for name, row, got, _ in _kept(trial):
        wrong = ~np.isneginf(got) & ~(np.abs(got - row) < 0.02 + 1e-2 * np.abs(row))
        if wrong.any():
            i = int(np.argmax(wrong))
            return (
                f"the logit of token {i} of {name} was {row[i]:.4g}, and is {got[i]:.4g} now; a logit "
                "that stays is not changed"
            )
    return None


def the_likeliest_stay(trial: Trial) -> str | None:
    for name, row, got, _ in _kept(trial):
        stays = ~np.isneginf(got)
        if stays.any() and not stays.all() and row[stays].min() < row[~stays].max():
            out, kept = row[~stays].max(), row[stays].min()
            return f"in {name} a logit of {kept:.3g} stays and one of {out:.3g} is removed; keep the larger"
    return None


def as_many_as_top_k(trial: Trial) -> str | None:
    _, top_k, top_p = _options(trial.case)
    for name, _, got, expected in _kept(trial):
        count, wanted = int((~np.isneginf(got)).sum()), int((~np.isneginf(expected)).sum())
        if top_k and count > top_k:
            return f"{count} tokens of {name} stay; top_k={top_k} keeps no more than {top_k} of them"
        if top_k and not top_p and count != wanted:
            return f"{count} token{'s' * (count != 1)} of {name} stay, not {wanted}; top_k={top_k}"
        if not top_k and not top_p and count != wanted:
            return f"{count} tokens of {name} stay; without top_k and top_p all {wanted} do"
    return None


def as_many_as_make_up_p(trial: Trial) -> str | None:
    _, top_k, top_p = _options(trial.case)
    if not top_p:
        return None
    for name, row, got, expected in _kept(trial):
        p = shares(row, top_k)
        count, wanted = int((~np.isneginf(got)).sum()), int((~np.isneginf(expected)).sum())
        if count == wanted:
            continue
        among = f" (among the top_k={top_k})" if top_k else ""
        have, need = p[:count].sum(), p[:wanted].sum()
        if count < wanted:
            return (
                f"the tokens of {name} that stay hold {have:.3f} of the probability{among}, less than "
                f"top_p={top_p:.3g}; the token that crosses it stays as well"
            )
        return (
            f"{count} tokens of {name} stay, where {wanted} hold{'s' * (wanted == 1)} {need:.3f} of the "
            f"probability{among}: that makes up top_p={top_p:.3g} already"
        )
    return None


EXERCISE = Exercise(
    name="ch07_causal_masking/filter_logits",
    signature="filter_logits(logits, top_k=None, top_p=None)",
    goal="Remove unlikely tokens: keep the k likeliest, then the likeliest of these up to the share p.",
    section="Drawing a token",
    minutes=20,
    difficulty="hard",
    reference=filter_logits,
    same=as_many_of_the_likeliest,
    domain=clear_cut,
    criteria=(
        Criterion("top_k: the k likeliest stay, as they are", 1, by_number),
        Criterion("top_p: the likeliest stay until they make up p", 1, by_share),
        Criterion("at least one token stays", 0.5, sharp),
        Criterion("top_k first, then top_p among these k", 0.25, both),
        Criterion("ties keep no more tokens than asked for", 0.25, tied),
        Criterion("any leading axes, any type of logits", 0.25, forms),
        Criterion("gradients reach the logits that stay", 0.25, differentiated(soft)),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the logits are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        Property("some token stays", something_stays),
        Property("removed logits are -inf", removed_means_minus_infinity),
        Property("the logits that stay are not changed", what_stays_is_unchanged),
        Property("the likeliest stay", the_likeliest_stay),
        Property("top_k tokens stay", as_many_as_top_k),
        Property("the tokens that stay make up p", as_many_as_make_up_p),
    ),
)
