"""ch08_serving/PagedCache: the keys and values of many texts, in blocks that texts share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.cage.probes import OVERWRITTEN
from autograder.cage.tensors import is_tensor, numbers
from autograder.checking.comparison import describe, differs
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome, Property, Trial
from autograder.exercises.ch08_kv_cache.caches import on_its_device, used
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, elsewhere
from tfcore.cache import paged

Init = dict[str, Any]
Move = tuple[Any, ...]
REFUSED, DONE = "a ValueError", "no error"
"""The results of the methods that return nothing."""


class PagedCache(paged.PagedCache):
    """The reference, which takes keys of any dtype from any device and keeps its own."""

    def append(self, sequence, k, v):
        super().append(sequence, k.to(self.keys), v.to(self.values))


def room(num_blocks: int, block_size: int, num_kv_heads: int, d_head: int) -> Init:
    return {
        "num_blocks": num_blocks,
        "block_size": block_size,
        "num_kv_heads": num_kv_heads,
        "d_head": d_head,
    }


def moves(
    rng: np.random.Generator, init: Init, *script: str, dtype: torch.dtype = torch.float32
) -> list[Move]:
    """Draw the moves of a script: "a+3" appends 3 tokens to a, "a>b" forks a as b, "a-" frees a, and "a"
    reads a."""

    def drawn(num_tokens: int) -> Tensor:
        return tensor(rng, init["num_kv_heads"], num_tokens, init["d_head"], dtype=dtype)

    def move(text: str) -> Move:
        name, rest = text[0], text[1:]
        if rest.startswith("+"):
            return "append", name, drawn(int(rest[1:])), drawn(int(rest[1:]))
        if rest.startswith(">"):
            return "fork", name, rest[1]
        return ("free" if rest == "-" else "gather"), name

    return [move(text) for text in script]


def case(rng: np.random.Generator, says: str, init: Init, script: str) -> Case:
    return used(says, init, *moves(rng, init, *script.split()))


def in_order(rng: np.random.Generator) -> Iterator[Case]:
    small = room(4, 2, 1, 3)
    yield case(rng, "one text of 3 tokens in blocks of 2", small, "a+3 a")
    yield case(rng, "one text, token by token", small, "a+1 a a+1 a a+1 a")
    yield case(rng, "two texts that take turns", small, "a+1 b+1 a+2 b+2 a b")
    wide = room(9, *sizes(rng, (3, 4), (2, 5), (5, 7)))
    yield case(rng, "three texts of different lengths", wide, "a+5 b+1 c+9 a+4 b+7 a b c")
    yield case(rng, "blocks of one token", room(6, 1, 2, 3), "a+2 b+1 a+1 b+2 b a")
    yield case(rng, "one block for all", room(1, 8, 3, 2), "a+3 a+4 a+1 a")
    yield case(rng, "read between the writes", wide, "a+2 a b+6 a a+3 a b")


def refused(rng: np.random.Generator) -> Iterator[Case]:
    small = room(2, 2, 1, 3)
    yield case(rng, "a fifth token in 2 blocks of 2", small, "a+4 a+1 a")
    yield case(rng, "a text longer than the room, then one that fits", small, "a+5 b+4 b")
    yield case(rng, "half of a chunk would fit", room(3, 2, 2, 3), "a+3 b+1 a+2 a b a+1 a")
    yield case(rng, "every text needs a block of its own", room(3, 4, 2, 5), "a+1 b+1 c+1 d+1 a+3 b+2 a b c")
    yield case(rng, "filled to the last place", room(3, 3, 2, 4), "a+4 b+2 a+2 b+1 a+1 b+1 a b")


def freed(rng: np.random.Generator) -> Iterator[Case]:
    small = room(2, 2, 1, 3)
    yield case(rng, "a text is freed, another takes its blocks", small, "a+4 a- b+3 b")
    yield case(rng, "freed and begun again", small, "a+3 a- a+2 a")
    init = room(5, *sizes(rng, (2, 3), (2, 5), (4, 7)))
    size = init["block_size"]
    script = f"a+{2 * size} b+{size + 1} a- c+{3 * size} b c c- d+{2 * size} b+1 d b"
    yield case(rng, "the blocks of a freed text are not adjacent", init, script)


def forked(rng: np.random.Generator) -> Iterator[Case]:
    small = room(4, 2, 1, 3)
    yield case(rng, "a fork reads as its source", small, "a+3 a>b b")
    yield case(rng, "a fork writes, its source reads", small, "a+3 a>b b+1 a b")
    yield case(rng, "the source writes, its fork reads", small, "a+3 a>b a+1 b a")
    yield case(rng, "source and fork write", small, "a+3 a>b a+1 b+1 a b")
    yield case(rng, "a fork takes no block", room(2, 2, 2, 3), "a+4 a>b b")
    yield case(rng, "a fork takes no block before it writes", room(2, 2, 2, 3), "a+3 a>b b+1 a b")
    yield case(rng, "a full block is never copied", room(2, 2, 2, 3), "a+2 a>b b+1 a b")
    yield case(rng, "the last user of a block need not copy it", room(3, 2, 2, 3), "a+3 a>b b+1 a+1 a b")
    yield case(rng, "the source is freed, the fork goes on", room(2, 3, 2, 4), "a+4 a>b a- b+2 b")
    yield case(
        rng, "the source is freed, and its blocks are still used", room(2, 2, 2, 3), "a+3 a>b a- c+2 b"
    )
    yield case(rng, "the source is freed, another text comes", room(3, 2, 2, 3), "a+3 a>b a- c+2 c+1 b c")
    yield case(rng, "source and fork are freed", room(2, 2, 1, 3), "a+4 a>b a- b- c+4 c")
    yield case(rng, "a fork writes beyond its block", room(4, 2, 2, 3), "a+3 a>b b+3 c+1 a b")
    yield case(rng, "a copy takes a block", room(3, 2, 2, 3), "a+3 a>b b+1 c+1 a b")
    yield case(rng, "two forks, and all three write", room(4, 2, 2, 3), "a+3 a>b a>c b+1 a+1 c+1 a b c")
    yield case(rng, "a fork of three blocks", room(5, 2, 3, 4), "a+5 a>b b+1 a+1 a b")
    yield case(rng, "a fork of a copy", room(5, 4, 2, 3), "a+2 a>b b+1 b>c b+1 c+1 b c a")
    script = "a+3 a>b b+2 c+2 c a b"
    yield case(rng, "a copy and a new block are needed, one block is free", room(3, 2, 2, 3), script)
    yield case(rng, "a copy is freed", room(2, 4, 2, 3), "a+2 a>b b+1 b- c+3 a c")
    init = room(9, *sizes(rng, (3, 4), (2, 5), (5, 7)))
    size = init["block_size"]
    script = f"a+{2 * size + 1} a>b a>c b>d c+1 b+{size} a d c b d- a+2 d+1 a b"
    yield case(rng, "forks of forks", init, script)


def in_other_dtypes(rng: np.random.Generator) -> Iterator[Case]:
    for asked, handed in (("float64", "float64"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")):
        init = {**room(3, 2, 3, 5), "dtype": getattr(torch, asked)}
        script = moves(rng, init, "a+3", "a>b", "b+1", "a", "b", dtype=getattr(torch, handed))
        yield used(f"dtype=torch.{asked}, keys in {handed}", init, *script)


def on_a_card(rng: np.random.Generator) -> Iterator[Case]:
    init = {**room(4, 2, 2, 3), "device": "cpu"}
    script = moves(rng, init, "a+3", "a>b", "b+2", "a", "b")
    yield used("texts and a fork, on another device", init, *script)
    yield Case("keys from the cpu for a cache on a graphics card", (init, script, "cpu"), probe="steps")


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield case(rng, "texts and a fork", room(4, 2, 3, 5), "a+3 b+1 a>c c+1 a b c")


def seen(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return what `gather` gave back, and for every other move whether it was refused."""
    outcome = call(case)
    if not isinstance(outcome.value, list):
        return outcome
    pairs = zip(case.args[1], outcome.value, strict=True)
    value = [
        result if name == "gather" else REFUSED if isinstance(result, dict) else DONE
        for (name, *_), result in pairs
    ]
    return replace(outcome, value=value)


def fitting(case: Case) -> bool:
    """Return whether all tokens have the heads and the width of the cache, and every name is known."""
    init, script, *_ = case.args
    shapes = [x.shape for name, _, *pair in script if name == "append" for x in pair]
    wanted = init["num_kv_heads"], init["d_head"]
    return min(init[name] for name in ("num_blocks", "block_size")) > 0 and all(
        min(shape) > 0 and (shape[0], shape[2]) == wanted for shape in shapes
    )


def gathers_a_pair(trial: Trial) -> str | None:
    """Check that `gather` returns keys and values; a ValueError may have its cause in another move."""
    for (name, *_), got, expected in zip(trial.case.args[1], trial.value, trial.expected, strict=True):
        if name == "gather" and isinstance(expected, tuple) and not isinstance(got, tuple | list | dict):
            what = "nothing" if got is None else "a single tensor" if is_tensor(got) else describe(got)
            return f"`gather` returns {what}; end it with `return keys, values`"
    return None


def refuses_where_it_must(trial: Trial) -> str | None:
    """Check that the moves that raise a ValueError are those that find no block."""
    for place, ((name, *given), got, expected) in enumerate(
        zip(trial.case.args[1], trial.value, trial.expected, strict=True), 1
    ):
        if name == "gather" or got == expected:
            continue
        tokens = f" of {given[1].shape[1]} tokens" if name == "append" else ""
        if expected == REFUSED:
            return (
                f"step {place}, `{name}`{tokens}, needs more blocks than are free, and is not refused. "
                "Count blocks, not tokens: a text has whole blocks, and shares them only with its forks"
            )
        return (
            f"step {place}, `{name}`{tokens}, raises a ValueError though enough blocks are free. A "
            "fork and a refused `append` take none, and `free` gives back the blocks that no other text has"
        )
    return None


def keeps_copies(trial: Trial) -> str | None:
    """Check that a cache keeps copies of what it is given."""
    for got in trial.value:
        for x in got if isinstance(got, tuple | list) else ():
            if is_tensor(x) and bool((x == OVERWRITTEN).any()):
                return (
                    f"the cache holds {OVERWRITTEN:g}, which the caller wrote into the tensors of an earlier "
                    "`append` after the call. Copy what you keep"
                )
    return None


def which_tokens(trial: Trial) -> str | None:
    """Name the tokens that the first wrong `gather` gives back, and the right ones."""
    known: list[tuple[str, np.ndarray, np.ndarray]] = []
    for place, ((name, sequence, *pair), got, expected) in enumerate(
        zip(trial.case.args[1], trial.value, trial.expected, strict=True), 1
    ):
        if name == "append" and expected != REFUSED:
            k, v = (numbers(x).astype(np.float64) for x in pair)
            begin = sum(label.startswith(sequence) for label, *_ in known)
            known += [(f"{sequence}{begin + t}", k[:, t], v[:, t]) for t in range(k.shape[1])]
        if name != "gather" or not isinstance(expected, tuple) or not isinstance(got, tuple | list):
            continue
        for which, kind in enumerate(("keys", "values")):
            held, wanted = (_labels(x[which], known, which) for x in (got, expected))
            if held and wanted and held != wanted:
                return (
                    f"step {place}, `gather({sequence!r})`: your {kind} are those of the tokens "
                    f"{_listed(held)}; they should be {_listed(wanted)} (a2 is the third token written to a)"
                )
    return None


def _labels(x: Any, known: list[tuple[str, np.ndarray, np.ndarray]], which: int) -> list[str] | None:
    if not is_tensor(x) or x.ndim != 3:
        return None
    found = []
    tokens = [(label, pair[which]) for label, *pair in known]
    for token in np.moveaxis(numbers(x).astype(np.float64), 1, 0):
        same = [name for name, x in tokens if x.shape == token.shape and np.allclose(x, token, 1e-2, 1e-2)]
        found.append(same[-1] if same else "zeros" if not token.any() else "something else")
    return found


def _listed(labels: list[str]) -> str:
    return f"[{', '.join(labels if len(labels) <= 9 else [*labels[:4], '...', *labels[-3:]])}]"


def in_the_dtype_asked(trial: Trial) -> str | None:
    """Check that `gather` returns the dtype of the cache, whatever the dtype of the tokens."""
    init, got = trial.case.args[0], trial.value
    if not isinstance(got, list) or len(got) != len(trial.expected):
        return f"expected {len(trial.expected)} results, got {describe(got)}"
    for pair, expected in zip(got, trial.expected, strict=True):
        for x in pair if isinstance(pair, tuple | list) else ():
            if is_tensor(x) and x.dtype != init["dtype"]:
                return f"a cache with dtype={init['dtype']} gives back {x.dtype}"
        if isinstance(expected, tuple):
            expected = tuple(x.to(init["dtype"]) for x in expected)
        if why := differs(pair, expected, trial.case.tolerance):
            return why
    return None


EXERCISE = Exercise(
    name="ch08_serving/PagedCache",
    drawn_as="ch08_kv_cache/PagedCache",
    signature="PagedCache(num_blocks, block_size, num_kv_heads, d_head, dtype=torch.float32, device='cpu')",
    goal="Keep the keys and values of many texts in blocks, and share blocks between texts that begin alike.",
    section="Many texts at once",
    minutes=30,
    difficulty="hard",
    reference=PagedCache,
    criteria=(
        Criterion("`gather` returns the tokens of each text, in order", 1, in_order, measure=seen),
        Criterion(
            "raises a ValueError where blocks are missing, and changes nothing", 0.5, refused, measure=seen
        ),
        Criterion("`free` gives blocks back", 0.25, freed, measure=seen),
        Criterion("`fork` shares blocks until one of the texts writes", 0.75, forked, measure=seen),
        Criterion(
            "the dtype that is asked for", 0.25, in_other_dtypes, measure=seen, test=in_the_dtype_asked
        ),
        Criterion("the device that is asked for", 0.25, elsewhere(on_a_card), test=on_its_device),
    ),
    properties=(
        Property("`gather` returns keys and values", gathers_a_pair),
        Property("the cache keeps copies", keeps_copies),
        Property("moves are refused where blocks are missing", refuses_where_it_must),
        Property("all tokens, in order", which_tokens),
        *FIRST,
        *LAST,
    ),
    domain=fitting,
)
