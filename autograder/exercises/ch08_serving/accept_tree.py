"""ch08_serving/accept_tree: which path of a tree of guesses is accepted, and what follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from autograder.cage.tensors import is_array, numbers, strided
from autograder.checking.comparison import as_array, describe
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.ch08_serving.speculative_accept import distributions
from autograder.exercises.laws import FIRST, elsewhere, on_any_device
from tfcore import generate

Array = np.ndarray
GRID = 4
"""In the exact sums over u, ratios are multiples of 1/GRID and each u is half way between two of them."""
TEXT = -1
"""The parent of guesses that come right after the text."""


def accept_tree(p_target, p_draft, tokens, parents, u):
    """Compute the reference answer."""
    return generate.accept_tree(p_target, p_draft, tokens, parents, u)


@dataclass(frozen=True)
class Judged:
    """A node that the rule judges: the numbers, the verdict, and the siblings rejected before."""

    node: int
    parent: int
    t: float
    q: float
    u: float
    accepted: bool
    rejected_before: tuple[int, ...]


def judgements(case: Case) -> tuple[list[Judged], Array]:
    """Return the nodes that the rule judges, in order, and the distribution of the next token."""
    p, q, tokens, parents, u = (numbers(x) for x in case.args)
    judged: list[Judged] = []
    here, t = TEXT, p[0].astype(np.float64)
    rejected: tuple[int, ...] = ()
    for node in range(len(tokens)):
        if parents[node] != here:
            continue
        x = tokens[node]
        accepted = bool(u[node] * q[node, x] < t[x])
        judged.append(Judged(node, here, float(t[x]), float(q[node, x]), float(u[node]), accepted, rejected))
        if accepted:
            here, t, rejected = node, p[node + 1].astype(np.float64), ()
        else:
            t = np.maximum(t - q[node], 0)
            t, rejected = t / t.sum(), (*rejected, node)
    return judged, t


def tree(
    rng: np.random.Generator,
    says: str,
    V: int,
    parents: list[int],
    accept: dict[int, bool],
    without_replacement: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Make a tree in which the nodes that are judged are accepted or rejected as asked, far from the limit.

    Args:
        rng: source of the draws.
        says: the case in a few words.
        V: tokens of the vocabulary.
        parents: the parent of each node, -1 for the text.
        accept: the verdict on each node that is judged; the other nodes would mostly be accepted after
            their own parent.
        without_replacement: whether the draft of a sibling leaves out the tokens of the siblings before it.
        dtype: of the probabilities.
    """
    n = len(parents)
    for _ in range(1000):
        p, q = distributions(rng, n + 1, V), distributions(rng, n, V)
        tokens, u = rng.integers(V, size=n), rng.uniform(0.01, 0.4, size=n)
        t = {TEXT: p[0]} | {node: p[node + 1] for node in range(n)}
        for node, parent in enumerate(parents):
            before = [i for i in range(node) if parents[i] == parent]
            if before:
                q[node] = q[before[0]]
            if without_replacement:
                q[node, tokens[before]] = 0
                q[node] /= q[node].sum()
            if node not in accept:
                continue
            ratio = t[parent] / np.maximum(q[node], 1e-9)
            usable = np.flatnonzero(
                (q[node] > 0.02) & (ratio < 0.9) & ((ratio > 0.1) | ~np.bool_(accept[node]))
            )
            if not len(usable):
                break
            tokens[node] = rng.choice(usable)
            limit = ratio[tokens[node]]
            share = rng.uniform(0.1, 0.9)
            u[node] = limit * share if accept[node] else limit + (1 - limit) * share
            if not accept[node]:
                left = np.maximum(t[parent] - q[node], 0)
                t[parent] = left / left.sum()
        else:
            drawn = [torch.from_numpy(x).to(dtype) for x in (p, q)]
            case = Case(
                says, (*drawn, torch.from_numpy(tokens), torch.tensor(parents), torch.from_numpy(u).to(dtype))
            )
            if {j.node: j.accepted for j in judgements(case)[0]} == accept and clear_cut(case):
                return case
    raise ValueError(f"no such tree was drawn: {says}")


def some_rejected(rng: np.random.Generator) -> Iterator[Case]:
    """Draw trees in which the last accepted node has children, and all of them are rejected."""
    no, yes = False, True
    yield tree(rng, "one guess, which is rejected", 3, [-1], {0: no})
    yield tree(rng, "two guesses for one place, both rejected", 4, [-1, -1], {0: no, 1: no})
    yield tree(
        rng,
        "two guesses for one place, both rejected, and a guess after each",
        5,
        [-1, -1, 0, 1],
        {0: no, 1: no},
    )
    yield tree(rng, "a chain of 3 guesses, the second rejected", 6, [-1, 0, 1], {0: yes, 1: no})
    yield tree(rng, "three guesses for one place, all rejected", 12, [-1, -1, -1], {0: no, 1: no, 2: no})
    yield tree(
        rng,
        "the second of two is accepted, and both after it are rejected",
        7,
        [-1, -1, 0, 1, 1, 3],
        {0: no, 1: yes, 3: no, 4: no},
    )
    yield tree(
        rng,
        "siblings that are not numbered one after another",
        8,
        [-1, 0, -1, 0, 2, 2, 4],
        {0: no, 2: yes, 4: no, 5: no},
    )
    yield tree(
        rng,
        "siblings drawn without replacement, all rejected",
        9,
        [-1, -1, -1, 1],
        {0: no, 1: no, 2: no},
        without_replacement=True,
    )


def down_to_a_leaf(rng: np.random.Generator) -> Iterator[Case]:
    """Draw trees in which the path ends at a node without children."""
    no, yes = False, True
    yield tree(rng, "one guess, which is accepted", 3, [-1], {0: yes})
    yield tree(rng, "the first of two guesses is accepted", 4, [-1, -1], {0: yes})
    yield tree(rng, "the second of two guesses is accepted", 5, [-1, -1], {0: no, 1: yes})
    yield tree(rng, "a chain of 3 guesses, all accepted", 6, [-1, 0, 1], {0: yes, 1: yes, 2: yes})
    yield tree(rng, "the second, and the guess after it", 7, [-1, -1, 0, 1], {0: no, 1: yes, 3: yes})
    yield tree(
        rng,
        "the first guess, then the second of three after it",
        8,
        [-1, -1, 0, 0, 0, 2, 1],
        {0: yes, 2: no, 3: yes},
    )
    yield tree(
        rng,
        "siblings drawn without replacement, the second accepted twice",
        9,
        [-1, 0, 0, -1, 3, 3],
        {0: no, 3: yes, 4: no, 5: yes},
        without_replacement=True,
    )


def every(rng: np.random.Generator) -> Iterator[Case]:
    yield from down_to_a_leaf(rng)
    yield from some_rejected(rng)
    no, yes = False, True
    yield tree(rng, "float64", 6, [-1, -1, 1, 1], {0: no, 1: yes, 2: no, 3: yes}, dtype=torch.float64)
    case = tree(rng, "tensors that are not contiguous", 7, [-1, -1, -1, 2, 2], {0: no, 1: no, 2: yes, 3: yes})
    yield replace(case, args=tuple(map(strided, case.args)))


def few(rng: np.random.Generator) -> Iterator[Case]:
    """Draw one tree of each kind, for criteria on device and inputs."""
    no, yes = False, True
    yield tree(rng, "two guesses for one place, both rejected", 4, [-1, -1], {0: no, 1: no})
    yield tree(rng, "the second, and the guess after it", 7, [-1, -1, 0, 1], {0: no, 1: yes, 3: yes})
    yield tree(rng, "the first is accepted, the guess after it is not", 6, [-1, -1, 0], {0: yes, 2: no})


def two_siblings(rng: np.random.Generator) -> Iterator[Case]:
    """Draw two guesses for one place; the grid of u cuts the ratios of both siblings exactly.

    The draft likes token a too much, by a ratio on the grid. Its residual has a ratio on the grid at token b,
    and one above 1 at token c.
    """
    for name, above in (("the text", []), ("a guess that is accepted", [-1])):
        a, b, c = rng.permutation(3)
        q, r, p = np.zeros(3), np.zeros(3), np.zeros(3)
        q[[a, b, c]] = rng.permutation([0.5, 0.3, 0.2])
        r[b] = q[b] * rng.integers(1, GRID) / GRID
        r[c] = 1 - r[b]
        ratio = rng.integers(1, GRID) / GRID
        p[a] = q[a] * ratio
        left = q[a] - p[a]
        p[[b, c]] = q[[b, c]] + left * r[[b, c]]
        parents = torch.tensor([*above, len(above) - 1, len(above) - 1])
        n = len(parents)
        other, drafts = distributions(rng, n + 1, 3), np.stack([*distributions(rng, len(above), 3), q, q])
        other[len(above)] = p
        tokens, u = torch.zeros(n, dtype=torch.long), torch.zeros(n, dtype=torch.float64)
        tokens[: len(above)] = int(other[0].argmax()) if above else 0
        yield Case(
            f"two guesses after {name}: every pair of tokens, every u",
            (torch.from_numpy(other), torch.from_numpy(drafts), tokens, parents, u),
        )


def clear_cut(case: Case) -> bool:
    """Return whether this is a tree with distributions and possible guesses, none of them at the limit."""
    p, q, tokens, parents, u = (numbers(x) for x in case.args)
    n, V = q.shape
    if p.shape != (n + 1, V) or not tokens.shape == parents.shape == u.shape == (n,) or tokens.max() >= V:
        return False
    if not all(TEXT <= parent < node for node, parent in enumerate(parents)):
        return False
    sums = np.concatenate([p.sum(axis=1), q.sum(axis=1)])
    if not np.allclose(sums, 1, atol=1e-4) or p.min() < 0 or q.min() < 0:
        return False
    judged, following = judgements(case)
    return bool(np.isfinite(following).all()) and all(
        j.q > 0.01 and abs(j.t - j.u * j.q) > 1e-3 for j in judged
    )


def as_path(value: Any) -> Array | None:
    """Return a path, a list or tuple of numbers or a tensor, as an array; None if it is not a path."""
    items = numbers(value).tolist() if is_array(value) and value.ndim == 1 else value
    if not isinstance(items, list | tuple):
        return None
    found = [as_array(item) for item in items]
    if not all(item is not None and item.size == 1 and item.dtype.kind in "iu" for item in found):
        return None
    return np.array([int(item.reshape(())) for item in found if item is not None], dtype=np.int64)


def whole(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the path as an array and the next distribution, (path, distribution)."""
    outcome = call(case)
    value = outcome.value
    if isinstance(value, tuple | list) and len(value) == 2 and (path := as_path(value[0])) is not None:
        return replace(outcome, value=(path, value[1]))
    return outcome


def path_alone(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the path alone, as an array."""
    outcome = whole(call, case)
    value = outcome.value
    return replace(outcome, value=value[0] if isinstance(value, tuple | list) and value else value)


def first_token(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the distribution of the token in place of the last two guesses, (V,): an exact sum.

    The sum is over both guesses, which the draft makes independently, and over the u of both, which are
    uniform. The token is an accepted guess; where both are rejected the next distribution decides.
    """
    p, q, tokens, parents, u = case.args
    n, V = q.shape
    came = np.zeros(V)
    for x, y, s, t in np.ndindex(V, V, GRID, GRID):
        tokens, u = tokens.clone(), u.clone()
        tokens[-2], tokens[-1] = x, y
        u[-2], u[-1] = (s + 0.5) / GRID, (t + 0.5) / GRID
        outcome = whole(call, replace(case, args=(p, q, tokens, parents, u)))
        value = outcome.value
        following = as_array(value[1]) if isinstance(value, tuple) and len(value) == 2 else None
        if following is None or following.shape != (V,) or not isinstance(value[0], np.ndarray):
            return outcome
        accepted = [node for node in value[0].tolist() if node in (n - 2, n - 1)]
        weight = float(q[-2, x] * q[-1, y]) / GRID**2
        came += weight * (np.eye(V)[int(tokens[accepted[0]])] if accepted else following.astype(np.float64))
    return Outcome(came)


def as_the_large_model(trial: Trial) -> str | None:
    if not (isinstance(trial.value, np.ndarray) and trial.value.shape == trial.expected.shape):
        return f"expected a path and a distribution (V,), got {describe(trial.value)}"
    p = numbers(trial.case.args[0])[len(trial.case.args[1]) - 2]
    off = np.abs(trial.value - p)
    if off.max() < 1e-6:
        return None
    worst = int(off.argmax())
    return (
        f"over all pairs of guesses and all u, token {worst} comes out with probability "
        f"{trial.value[worst]:.3f}; the large model gives it {p[worst]:.3f}, and guesses must not change that"
    )


def right_path(trial: Trial) -> str | None:
    """Check the path, and name the node where it went wrong."""
    if trial.case.probe != "call":
        return None
    got = trial.value[0] if isinstance(trial.value, tuple) else trial.value
    wanted = trial.expected[0] if isinstance(trial.expected, tuple) else trial.expected
    if not isinstance(got, np.ndarray) or got.ndim != 1:
        return f"expected the accepted nodes first, a list of their numbers, got {describe(got)}"
    if np.array_equal(got, wanted):
        return None
    parents = numbers(trial.case.args[3])
    right, begin = wanted.tolist(), f"your path is {got.tolist()}, and {wanted.tolist()} is right. "
    for place, node in enumerate(got.tolist()):
        if not 0 <= node < len(parents):
            return f"{begin}A path holds numbers of nodes, 0 to {len(parents) - 1}; {node} is not one"
        above = got[place - 1] if place else TEXT
        if parents[node] != above:
            return (
                f"{begin}In your path node {node} comes after {_named(above)}, but it is a child of "
                f"{_named(parents[node])}"
            )
        if right[place : place + 1] != [node]:
            break
    kept = sum(1 for one, other in zip(got.tolist(), right, strict=False) if one == other)
    here, chosen = right[kept - 1] if kept else TEXT, got[kept] if kept < len(got) else None
    children = [judged for judged in judgements(trial.case)[0] if judged.parent == here]
    return begin + _verdict(next(j for j in children if j.accepted or j.node == chosen), trial)


def _named(node: int) -> str:
    return "the text" if node == TEXT else f"node {node}"


def _listed(nodes: Sequence[int]) -> str:
    """Return "node 1" or "nodes 1, 2 and 3"."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"


def _verdict(judged: Judged, trial: Trial) -> str:
    """Describe why a node is accepted or rejected, with its numbers."""
    x = int(trial.case.args[2][judged.node])
    left = f", with t as {_listed(judged.rejected_before)} left it," if judged.rejected_before else ""
    return (
        f"Node {judged.node} after {_named(judged.parent)} is token {x}: "
        f"t/q = {judged.t:.3f}/{judged.q:.3f} = {judged.t / judged.q:.3f}{left} and u = {judged.u:.3f}, "
        f"so it is {'accepted' if judged.accepted else 'rejected'}"
    )


def is_a_distribution(trial: Trial) -> str | None:
    if not isinstance(trial.value, tuple):
        return None
    following = numbers(trial.value[1]).astype(np.float64)
    if (following < -1e-6).any():
        worst = int(following.argmin())
        return f"the next distribution gives token {worst} the probability {following[worst]:.3f}, below 0"
    if abs(following.sum() - 1) > 1e-3:
        total = f"{following.sum():.4g}"
        return f"the next distribution sums to {total}, not to 1: clamp first, then divide by the sum"
    return None


def right_following(trial: Trial) -> str | None:
    """Check path and next distribution; name a wrong token with the numbers that it is computed from."""
    if fault := right_path(trial):
        return fault
    if not isinstance(trial.value, tuple):
        return None
    expected = trial.expected[1]
    got = trial.value[1]
    if not isinstance(got, torch.Tensor) or got.shape != expected.shape:
        shape = tuple(expected.shape)
        return f"expected the next distribution second, a tensor of shape {shape}, got {describe(got)}"
    if got.dtype != expected.dtype:
        return f"expected the next distribution in {expected.dtype}, got {got.dtype}"
    got, wanted = numbers(got).astype(np.float64), numbers(expected).astype(np.float64)
    wrong = ~(np.abs(got - wanted) < 1e-4)
    if not wrong.any():
        return None
    x, path = int(np.flatnonzero(wrong)[0]), trial.expected[0].tolist()
    here = path[-1] if path else TEXT
    rejected = [j.node for j in judgements(trial.case)[0] if j.parent == here]
    row = f"p_target[{here + 1}]"
    if not rejected:
        return (
            f"{_named(here)} has no children, so return {row}: token {x} has {wanted[x]:.3f} there, and "
            f"{got[x]:.3f} in yours"
        )
    p, q = (numbers(a).astype(np.float64) for a in trial.case.args[:2])
    t, steps = p[here + 1], []
    for node in rejected:
        left = np.maximum(t - q[node], 0)
        steps.append(f"max({t[x]:.3f} - {q[node, x]:.3f}, 0) / {left.sum():.3f} = {left[x] / left.sum():.3f}")
        t = left / left.sum()
    return (
        f"after {_named(here)}, {_listed(rejected)} {'was' if len(rejected) == 1 else 'were'} rejected. Of "
        f"{row}, token {x} keeps "
        f"{', then '.join(steps)}; yours has {got[x]:.3f}"
    )


EXERCISE = Exercise(
    name="ch08_serving/accept_tree",
    drawn_as="ch08_kv_cache/accept_tree",
    signature="accept_tree(p_target, p_draft, tokens, parents, u)",
    goal="Decide which path of a tree of guesses is accepted, and which distribution the next token has.",
    section="Guessing ahead, exactly",
    minutes=25,
    difficulty="hard",
    reference=accept_tree,
    criteria=(
        Criterion(
            "children are judged in order, each by what its siblings have left",
            1,
            every,
            measure=path_alone,
            test=right_path,
        ),
        Criterion(
            "where all children are rejected: the residual of residuals",
            0.5,
            some_rejected,
            measure=whole,
            test=right_following,
        ),
        Criterion(
            "at a node without children: p_target after it",
            0.25,
            down_to_a_leaf,
            measure=whole,
            test=right_following,
        ),
        Criterion(
            "the resulting tokens have the large model's distribution",
            0.75,
            two_siblings,
            measure=first_token,
            test=as_the_large_model,
        ),
        Criterion("works on any device", 0.25, elsewhere(few), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, few, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the accepted path", right_path),
        Property("the next distribution sums to 1", is_a_distribution),
        Property("the residual of residuals", right_following),
    ),
    domain=clear_cut,
)
