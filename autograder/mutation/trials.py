"""Grades mutants: which are rejected, and whether what their author reads is true."""

from __future__ import annotations

import multiprocessing
import re
import resource
import signal
import tomllib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from autograder import checking, exercises
from autograder.cage import tensors
from autograder.cage.calling import TimeUp
from autograder.checking import Candidate, Examination, local
from autograder.errors import BadInputError
from autograder.exercise import Case, Criterion, Exercise, Outcome, Trial
from autograder.mutation.operators import Mutant, sample
from autograder.report import Failure, Report
from autograder.workers import Progress, cores, end_with_parent

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
"""The reviewed list: changes that leave a right answer right, each with the reason."""
SECONDS = 20.0
"""Processor time for all calls of one mutant."""
LONGEST = 120.0
"""Seconds after which the process of a mutant is ended, whatever it does."""
MEMORY = 4 << 30
"""Bytes that a mutant may take beyond what the grader has taken."""
BARE = re.compile(
    r"^(`\w+` \(result \d+ of \d+\): |result \d+ of \d+: |at step \d+: |in `.*`: |the gradient with .*`: )*"
    r"expected (-?[\d.e+-]+|-?inf|nan|True|False)( at \[[\d, ]*\])?, got (-?[\d.e+-]+|-?inf|nan|True|False)$"
)
"""A fault that only compares two numbers."""


@dataclass(frozen=True)
class Tried:
    """A mutant with its report.

    Args:
        mutant: the answer that was graded.
        report: what its author reads.
        named: the mistakes that the report names.
        unlike: of those that do not give the mutant's results, the first case in which they differ.
    """

    mutant: Mutant
    report: Report
    named: tuple[str, ...] = ()
    unlike: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return self.report.passed

    @property
    def not_listed(self) -> bool:
        """Whether it is accepted, and the reviewed list does not say why that is right."""
        return self.accepted and self.mutant.key not in equivalent()

    @property
    def falsely_named(self) -> bool:
        return bool(self.unlike)

    @property
    def bare(self) -> bool:
        """Whether its author reads no more than two numbers that differ: no name, no broken law, no cause."""
        if self.accepted or self.named or self.report.status != "examined":
            return False
        first = self.report.failures[0]
        return not first.broken and bool(BARE.match(first.fault))

    @property
    def to_look_at(self) -> str:
        """Why a person should look at the mutant; empty where all is well."""
        if self.accepted:
            return "accepted" if self.not_listed else ""
        return "falsely named" if self.falsely_named else "bare" if self.bare else ""

    def as_dict(self) -> dict[str, Any]:
        """The mutant as JSON data."""
        return {
            **asdict(self.mutant),
            "to_look_at": self.to_look_at,
            "named": self.named,
            "unlike": self.unlike,
            "score": self.report.score,
            "max_score": self.report.max_score,
            "report": str(self.report),
        }


@dataclass(frozen=True)
class Figures:
    """How many mutants became what."""

    mutants: int
    rejected: int
    accepted: int
    not_listed: int
    named: int
    truly_named: int
    explained: int
    bare: int

    @classmethod
    def of(cls, tried: Iterable[Tried]) -> Figures:
        """Count the mutants that were tried; "explained" are rejected ones with a cause and no name."""
        own = list(tried)
        rejected = [one for one in own if not one.accepted]
        named = [one for one in rejected if one.named]
        bare = sum(one.bare for one in rejected)
        return cls(
            mutants=len(own),
            rejected=len(rejected),
            accepted=len(own) - len(rejected),
            not_listed=sum(one.not_listed for one in own),
            named=len(named),
            truly_named=sum(not one.falsely_named for one in named),
            explained=len(rejected) - len(named) - bare,
            bare=bare,
        )


def by_assignment(tried: list[Tried]) -> dict[str, Figures]:
    """Return the figures of each assignment and, under "all", those of all together."""
    key: Callable[[Tried], str] = lambda one: one.mutant.exercise.split("/")[0]  # noqa: E731
    parts = groupby(sorted(tried, key=key), key)
    return {name: Figures.of(own) for name, own in parts} | {"all": Figures.of(tried)}


def as_dict(tried: list[Tried]) -> dict[str, Any]:
    """Return the figures and every mutant that a person should look at, as JSON data."""
    figures = {name: asdict(own) for name, own in by_assignment(tried).items()}
    return {"figures": figures, "to_look_at": [one.as_dict() for one in tried if one.to_look_at]}


def chosen_exercises(chosen: list[str]) -> list[str]:
    """Return the names of the exercises chosen, each by itself or by its assignment; of all, if none is."""
    known = (*exercises.assignments(), *exercises.names())
    if unknown := [name for name in chosen if name not in known]:
        assignment = unknown[0].partition("/")[0]
        there = exercises.names_of(assignment) if assignment in known else exercises.assignments()
        raise BadInputError(
            f"no exercise or assignment is called {unknown[0]!r}. There are: {', '.join(there)}."
        )
    names = exercises.names()
    return [name for name in names if not chosen or name in chosen or name.split("/")[0] in chosen]


@cache
def equivalent() -> dict[tuple[str, str, str], str]:
    """Read the reviewed list: the reason for each (exercise, style, change)."""
    return {
        (name, style, change): row["reason"]
        for name, rows in tomllib.loads(EQUIVALENT.read_text()).items()
        for row in rows
        for style, changes in row["changes"].items()
        for change in changes
    }


def try_mutants(
    names: list[str],
    number: int,
    seed: int,
    progress: Progress = lambda done, total: None,
    workers: int | None = None,
) -> list[Tried]:
    """Draw mutants of the exercises named and grade each of them.

    Args:
        names: exercises, as ``assignment/function``.
        number: how many mutants, over all exercises.
        seed: draws the mutants and the cases.
        progress: hears how much is done.
        workers: processes at once; by default one for each core.
    """
    mutants = sample(names, number, seed)
    parts = {name: [mutant for mutant in mutants if mutant.exercise == name] for name in reversed(names)}
    done: dict[str, list[Tried]] = {}
    with ProcessPoolExecutor(workers or cores(), multiprocessing.get_context("spawn"), _begin) as pool:
        running = {pool.submit(graded, name, own, seed): name for name, own in parts.items() if own}
        for future in as_completed(running):
            done[running[future]] = future.result()
            progress(sum(map(len, done.values())), len(mutants))
    return [one for name in names for one in done.get(name, [])]


def _begin() -> None:
    end_with_parent()
    import torch

    torch.set_num_threads(1)


def graded(name: str, mutants: list[Mutant], seed: int) -> list[Tried]:
    """Grade mutants of one exercise in a process of their own, and in another when one has ended it."""
    examination = Examination(exercises.find(name), seed)
    context = multiprocessing.get_context("fork")
    tried: list[Tried] = []
    while len(tried) < len(mutants):
        receiver, sender = context.Pipe(duplex=False)
        rest = mutants[len(tried) :]
        child = context.Process(target=_grade_all, args=(examination, rest, sender))
        child.start()
        sender.close()
        try:
            while len(tried) < len(mutants) and receiver.poll(LONGEST):
                tried.append(receiver.recv())
        except EOFError:
            pass
        child.kill()
        child.join()
        receiver.close()
        if len(tried) < len(mutants):
            tried.append(_ended(mutants[len(tried)], examination.exercise))
    return tried


def _ended(mutant: Mutant, exercise: Exercise) -> Tried:
    return Tried(mutant, Report.without_points(exercise, "stopped", "The process that ran it has ended."))


def _grade_all(examination: Examination, mutants: list[Mutant], sender: Any) -> None:
    end_with_parent()
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        taken = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    for mutant in mutants:
        try:
            sender.send(try_one(examination, mutant))
        except (MemoryError, TimeUp):
            sender.send(_ended(mutant, examination.exercise))


def try_one(examination: Examination, mutant: Mutant) -> Tried:
    """Grade one mutant, in this process."""
    exercise = examination.exercise
    try:
        function = mutant.function()
    except Exception as error:
        note = f"{type(error).__name__}: {error}"
        return Tried(mutant, Report.without_points(exercise, "missing", note))
    candidate = _limited(local(function, (*exercise.forbidden, "tfcore")), SECONDS)
    report = examination.of(candidate, shrinking=False)
    named = tuple(dict.fromkeys(name for failure in report.failures for name in names_in(failure)))
    unlike = {name: unlike_in(examination, candidate, name) for name in named}
    return Tried(mutant, report, named, {name: case for name, case in unlike.items() if case})


def names_in(failure: Failure) -> tuple[str, ...]:
    """Return the mistakes that a failure names: none, one, or two where the report offers both."""
    return tuple(failure.misconception.split(" or ")) if failure.misconception else ()


def _limited(candidate: Candidate, seconds: float) -> Candidate:
    """Limit a candidate's calls to so much processor time in sum; a drawn case is called once."""
    left = [seconds]

    def end(signum: int, frame: Any) -> None:
        raise TimeUp(f"{seconds:g} s")

    def call(case: Case) -> Outcome:
        if left[0] <= 0:
            return Outcome(error="TimeUp", message=f"{seconds:g} s")
        signal.signal(signal.SIGPROF, end)
        signal.setitimer(signal.ITIMER_PROF, left[0])
        try:
            return candidate(case)
        except TimeUp as error:
            return Outcome(error="TimeUp", message=str(error))
        finally:
            left[0] = signal.setitimer(signal.ITIMER_PROF, 0)[0] - 1e-3

    return call


def unlike_in(examination: Examination, candidate: Candidate, name: str) -> str | None:
    """Return a case that the candidate fails in which a mistake of the bank does something else.

    It asks both again and compares what came of it; how the report was made has no part in this.

    Args:
        examination: draws the cases and knows the right results.
        candidate: calls the mutant.
        name: the mistake's name in the bank.
    """
    exercise = examination.exercise
    (mistake,) = (answer for answer in exercise.misconceptions if answer.name == name)
    for criterion, cases in examination.drawn:
        ours, theirs = criterion.through(candidate), criterion.through(local(mistake.function))
        for case in cases:
            outcome = ours(case)
            trial = Trial(case, outcome, examination.expected(criterion, case), ours)
            fails = checking._judged(exercise, criterion, trial)
            if fails and not _alike(exercise, criterion, case, outcome, theirs(case)):
                return f"{criterion.says}: {case.says}"
    return None


def _alike(exercise: Exercise, criterion: Criterion, case: Case, one: Outcome, other: Outcome) -> bool:
    if one.error or other.error:
        return (one.error, _complaint(one)) == (other.error, _complaint(other))
    if criterion.observes == "cost" and one.cost != other.cost:
        return False
    tolerance = criterion.tolerance or case.tolerance
    if criterion.observes == "arguments":
        return _near(list(one.arguments), list(other.arguments), tolerance)
    if _near(one.value, other.value, tolerance):
        return True
    return bool(exercise.same and exercise.same(one.value, other.value, case))


def _complaint(outcome: Outcome) -> str:
    return outcome.message.partition(" (line ")[0]


def _near(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two values are the same in form, and their numbers within the tolerance."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_near(*pair, tolerance) for pair in pairs)
    if tensors.is_tensor(one) != tensors.is_tensor(other):
        return False
    if tensors.is_tensor(one) and (one.dtype, one.device) != (other.dtype, other.device):
        return False
    if not all(tensors.is_array(x) or isinstance(x, int | float | np.generic) for x in (one, other)):
        return type(one) is type(other) and bool(one == other)
    left, right = (tensors.numbers(x).astype(np.float64) for x in (one, other))
    return left.shape == right.shape and bool(
        np.all(
            (np.abs(left - right) <= tolerance * np.maximum(1, np.abs(right)))
            | (left == right)
            | (np.isnan(left) & np.isnan(right))
        )
    )
