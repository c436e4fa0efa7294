"""Declare graded exercises.

A file in ``autograder/exercises/`` declares one exercise: its task, the cases that are drawn from a seed,
the mistakes that students make, and right answers in other styles. The student's `check`, the grader's
hidden cases and `autograder verify` all use this one declaration.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from autograder.cage import tensors
from autograder.checking.comparison import tolerance_for

Function = Callable[..., Any]

Gravity = Literal["slip", "fault", "useless"]
"""How grave a mistake is. A criterion that fails by a slip alone still earns the share `SLIP` of its points.
An answer with a "useless" mistake is an answer that nobody could work with, and must earn less than half."""
SLIP = 0.6


@dataclass(frozen=True)
class Seed:
    """A placeholder in a case's arguments: each call gets a new generator of random numbers instead.

    Args:
        value: the seed of the generator.
        library: "numpy" for ``numpy.random.default_rng(value)``, "torch" for a ``torch.Generator``.
    """

    value: int
    library: Literal["numpy", "torch"] = "numpy"

    def travels_as(self) -> dict[str, Any]:
        """Return the message that makes the child build this generator; see `autograder.cage.wire`."""
        return {"$": "generator", "seed": self.value, "library": self.library}


@dataclass(frozen=True)
class Lent:
    """A placeholder in a case's arguments: each call gets a new object instead, which stays with the grader.

    The student's code uses the object through a proxy (`autograder.cage.remote_objects`), and the grader
    records each request.

    Args:
        says: the object's name in a report, such as "a model of 7 tokens".
        make: makes the object; ``serves`` in its class lists the attributes that the student's code may use.
    """

    says: str
    make: Callable[[], Any]

    def __repr__(self) -> str:
        return self.says


@dataclass(frozen=True)
class Case:
    """One call of the student's code: its name in a report and its arguments.

    Args:
        says: the case in a few words.
        args: the arguments of the function, or of the probe where `probe` is not "call".
        kwargs: the arguments by keyword.
        probe: how the function or class is exercised; see `autograder.cage.probes`.
        metered: whether the call's cost is counted.
    """

    says: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    probe: str = "call"
    metered: bool = False

    @property
    def form(self) -> tuple[Any, ...]:
        """The case without the numbers inside its arrays: cases that differ only in such numbers share it."""
        plain = tensors.mapped(tensors.form, [*self.args, self.kwargs])
        return self.says, self.probe, self.metered, repr(plain)

    @cached_property
    def tolerance(self) -> float:
        """How far a right answer may differ from the reference; computed once and used for every mistake."""
        return tolerance_for((*self.args, *self.kwargs.values()))


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call: its value or its exception, its arguments after the call, and its cost.

    ``cost`` holds the counts of the meters in a metered case ("operations", "calls", "largest",
    "largest_shape", "peak_bytes", "total_bytes"). ``asked`` lists each request to a `Lent` object as
    (attribute, arguments in the order of its signature).
    """

    value: Any = None
    error: str | None = None
    message: str = ""
    arguments: tuple[Any, ...] = ()
    forbidden: str | None = None
    cost: dict[str, Any] = field(default_factory=dict)
    asked: tuple[tuple[str, list[Any]], ...] = ()


@dataclass(frozen=True)
class Trial:
    """One tried case: its outcome, the expected observation and a function to call the candidate again."""

    case: Case
    outcome: Outcome
    expected: Any
    call: Callable[[Case], Outcome]

    @property
    def value(self) -> Any:
        return self.outcome.value


Test = Callable[[Trial], str | None]

Measure = Callable[[Callable[[Case], Outcome], Case], Outcome]
"""A function that calls a candidate any number of times for one case and returns a single outcome."""


@dataclass(frozen=True)
class Criterion:
    """A requirement that a right answer meets, and its points.

    Args:
        says: the criterion in words for the student, shown in the report.
        points: the points for meeting it. The first criterion of an exercise is its core: the other criteria
            count only if the core is met.
        cases: draws the cases from a seeded generator, smallest first.
        observes: "value" compares the returned value, "arguments" the inputs after the call. "cost" is the
            cost of the call, which needs a `test`.
        test: returns a sentence about the fault, or None. Without a test, the observation must equal the
            reference's observation.
        measure: makes the outcome of a case from several calls, where one call is not enough, as for a
            statistic over seeds. Without it, one call gives the outcome.
        tolerance: the largest error of a number x, as a share of max(1, abs(x)); without it,
            `comparison.tolerance_for` computes the tolerance.
    """

    says: str
    points: float
    cases: Callable[[np.random.Generator], Iterable[Case]]
    observes: Literal["value", "arguments", "cost"] = "value"
    test: Test | None = None
    measure: Measure | None = None
    tolerance: float | None = None

    @property
    def shrinks(self) -> bool:
        """Whether a failure may be shown in a smaller case."""
        return not self.measure and self.observes != "cost"

    def through(self, candidate: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
        """Return the candidate, wrapped in `measure` where this criterion has one."""
        return partial(self.measure, candidate) if self.measure else candidate


@dataclass(frozen=True)
class Property:
    """A law that every right answer obeys; a broken law explains a wrong number.

    ``broken(trial)`` returns a sentence about how the trial breaks the law ("row 2 sums to 0.43; ..."), or
    None.
    """

    says: str
    broken: Test


@dataclass(frozen=True)
class Answer:
    """A complete implementation from the bank: a misconception with its hint, or an accepted style."""

    name: str
    says: str
    function: Function
    gravity: Gravity = "fault"

    def source(self, named: str) -> str:
        """Return the implementation as a student would type it, with `named` as the function's name."""
        classes = _classes(self.function.__module__) if inspect.isclass(self.function) else {}
        text = classes.get(self.function.__name__) or inspect.getsource(self.function)
        lines = textwrap.dedent(text).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
        head = lines[start].replace(self.function.__name__, named, 1)
        return "\n".join([head, *lines[start + 1 :]]) + "\n"

    def pasted(self, named: str) -> str:
        """Return the implementation with the imports that it needs, ready to paste into any cell or file."""
        source = self.source(named)
        words = set(re.findall(r"\w+", source))
        around = vars(sys.modules[self.function.__module__])
        modules = {n: v.__name__ for n, v in around.items() if n in words and inspect.ismodule(v)}
        needed = {n: m for n, m in modules.items() if m.split(".")[0] not in ("tfcore", "autograder")}
        lines = [f"import {n}" if n == module else f"import {module} as {n}" for n, module in needed.items()]
        return "\n".join([*lines, "", "", source]) if lines else source


@cache
def _classes(module: str) -> dict[str, str]:
    """Return the text of each class of a module, read once; `inspect` reads the module for every class."""
    text = inspect.getsource(sys.modules[module])
    lines, nodes = text.splitlines(), ast.parse(text).body
    return {
        n.name: "\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in nodes if isinstance(n, ast.ClassDef)
    }


@dataclass(frozen=True)
class Exercise:
    """The declaration of a graded exercise.

    Args:
        name: ``assignment/function``, such as ``ch02_qkv/softmax``.
        signature: the call as the notebook shows it.
        goal: one sentence about the function to write.
        section: the heading in the book's chapter that explains it, for the teacher's report.
        minutes: about how many minutes students need.
        difficulty: how hard the exercise is for students.
        reference: the right answer, from `tfcore`.
        criteria: the requirements that earn points, the core first.
        properties: laws that explain a failure when no misconception does.
        forbidden: library calls that solve the whole exercise, as dotted names.
        same: returns whether two observed values of a case count as equal, where closeness of numbers is not
            enough.
        domain: returns whether the exercise allows a case's arguments, such as weights that sum to 1. It
            is called before a smaller case is shown.
        given: the module with the code that the notebook gives in a cell; answers may use its names.
        brings: right answers to exercises of earlier notebooks, by name, that answers may use: the notebook
            brings them by `bring`, and the grader defines them before a submission runs.
        drawn_as: the name that seeds the cases, where it is not ``name``: an exercise whose chapter gets
            another number keeps the cases that it was tried with.
    """

    name: str
    signature: str
    goal: str
    reference: Function
    criteria: tuple[Criterion, ...]
    properties: tuple[Property, ...] = ()
    forbidden: tuple[str, ...] = ()
    same: Callable[[Any, Any, Case], bool] | None = None
    domain: Callable[[Case], bool] | None = None
    given: ModuleType | None = None
    brings: Mapping[str, Answer] = field(default_factory=dict)
    drawn_as: str | None = None
    section: str = ""
    minutes: int = 15
    difficulty: Literal["easy", "medium", "hard"] = "medium"
    misconceptions: list[Answer] = field(default_factory=list)
    styles: list[Answer] = field(default_factory=list)

    @property
    def assignment(self) -> str:
        return self.name.split("/")[0]

    @property
    def function_name(self) -> str:
        return self.name.split("/")[1]

    @property
    def points(self) -> float:
        return float(sum(criterion.points for criterion in self.criteria))

    @property
    def answers(self) -> list[Answer]:
        """The whole bank: first the misconceptions, then the accepted styles."""
        return [*self.misconceptions, *self.styles]

    @property
    def given_source(self) -> str:
        """The text of the module `given`; empty if the exercise has none."""
        return inspect.getsource(self.given) if self.given else ""

    @property
    def brought_source(self) -> str:
        """The text of the answers in `brings`, ready to run; empty if there are none."""
        return "\n\n".join(answer.pasted(name) for name, answer in self.brings.items())

    def misconception(self, hint: str, gravity: Gravity = "fault") -> Callable[[Function], Function]:
        """Declare the decorated function as a wrong answer; students who wrote it read `hint`."""
        return _append_to(self.misconceptions, hint, gravity)

    def style(self, says: str) -> Callable[[Function], Function]:
        """Declare the decorated function as a right answer; `says` describes its style."""
        return _append_to(self.styles, says)

    def draw(self, seed: int) -> Iterator[tuple[Criterion, list[Case]]]:
        """Yield each criterion with its cases; the same seed draws the same cases.

        Criteria that have a `measure` and draw their cases by the same function share these cases, so that no
        call is made twice.

        A criterion that observes "arguments" reuses equal cases of the criteria before it, so that one call
        shows both its value and its inputs afterwards.
        """
        before: dict[tuple[Any, ...], Case] = {}
        measured: dict[Any, list[Case]] = {}
        for index, criterion in enumerate(self.criteria):
            rng = np.random.default_rng([seed, index, *(self.drawn_as or self.name).encode()])
            cases = list(criterion.cases(rng))
            if criterion.measure:
                cases = measured.setdefault(criterion.cases, cases)
            if criterion.observes == "arguments":
                cases = [before.get(case.form, case) for case in cases]
            elif not criterion.measure:
                before |= {case.form: case for case in cases}
            yield criterion, cases


def _append_to(bank: list[Answer], says: str, gravity: Gravity = "fault") -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        bank.append(Answer(function.__name__, says, function, gravity))
        return function

    return add
