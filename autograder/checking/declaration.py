"""The shape in which every graded exercise is declared.

One file in ``autograder/exercises/`` declares one exercise: what is asked, the cases that are drawn from
a seed, the mistakes that students make, and the right answers that look different from ours. The
student's `check`, the grader's hidden cases and `autograder verify` all come from that one file.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from autograder.cage import tensors
from autograder.checking.comparison import tolerance_for

Function = Callable[..., Any]

Gravity = Literal["slip", "fault", "useless"]
"""How grave a mistake is. A criterion that fails by a slip alone still earns `SLIP` of its points; an answer
with a useless one, which nobody could work with, must earn less than half."""
SLIP = 0.6


@dataclass(frozen=True)
class Seed:
    """Stands in a case's arguments for a generator of random numbers, made afresh for each call.

    Args:
        value: its seed.
        library: "numpy" for ``numpy.random.default_rng(value)``, "torch" for a ``torch.Generator``.
    """

    value: int
    library: Literal["numpy", "torch"] = "numpy"

    def travels_as(self) -> dict[str, Any]:
        """Its form on the wire to the child; see `autograder.cage.wire`."""
        return {"$": "generator", "seed": self.value, "library": self.library}


@dataclass(frozen=True)
class Lent:
    """Stands in a case's arguments for an object that stays with the grader, made afresh for each call.

    The student's code calls it as if it were there (`autograder.cage.remote_objects`); what it asks is
    written down.

    Args:
        says: what to call it in a report, such as "a model of 7 tokens".
        make: makes the object; its class says in ``serves`` what may be asked of it.
    """

    says: str
    make: Callable[[], Any]

    def __repr__(self) -> str:
        return self.says


@dataclass(frozen=True)
class Case:
    """One call: what to call it in a report, and its arguments.

    Args:
        says: the case in a few words.
        args: the arguments; those of the probe, where one is named.
        kwargs: the same by name.
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
        """What is the same in two cases that differ only in the numbers inside their arrays."""
        plain = tensors.mapped(tensors.form, [*self.args, self.kwargs])
        return self.says, self.probe, self.metered, repr(plain)

    @cached_property
    def tolerance(self) -> float:
        """How far a right answer in another style may stray; found once, asked of it for every mistake."""
        return tolerance_for((*self.args, *self.kwargs.values()))


@dataclass(frozen=True)
class Outcome:
    """What one call did: its value, or its exception, its arguments afterwards, and what it cost.

    ``cost`` holds what the meters counted in a metered case ("operations", "calls", "largest",
    "largest_shape", "peak_bytes", "total_bytes"), ``asked`` what was asked of the objects lent: (attribute,
    arguments in the order of its signature).
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
    """One case tried: what was observed, what is expected, and a way to call again."""

    case: Case
    outcome: Outcome
    expected: Any
    call: Callable[[Case], Outcome]

    @property
    def value(self) -> Any:
        return self.outcome.value


Test = Callable[[Trial], str | None]

Measure = Callable[[Callable[[Case], Outcome], Case], Outcome]
"""Calls a candidate as often as it needs to, and makes one outcome of what it saw."""


@dataclass(frozen=True)
class Criterion:
    """One thing that a right answer does, and its points.

    Args:
        says: the criterion in the student's words, shown in the report.
        points: credit for it. The first criterion of an exercise is its core: without it no other counts.
        cases: draws the cases from a seeded generator, smallest first.
        observes: "value", what the call returns; "arguments", what it leaves behind in its inputs; "cost",
            what it took to get there, which only a `test` can judge.
        test: a sentence about what is wrong, or None; left out, the observation must equal the
            reference's.
        measure: makes the outcome of a case from several calls, where one call says too little (a statistic
            over seeds); left out, the outcome is that of the case's own call.
        tolerance: how far a number x may stray, as a part of max(1, abs(x)); left out, `values.tolerance_for`
            says.
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
        """Whether a smaller case may show a failure as well."""
        return not self.measure and self.observes != "cost"

    def through(self, candidate: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
        """The candidate as this criterion sees it."""
        return partial(self.measure, candidate) if self.measure else candidate


@dataclass(frozen=True)
class Property:
    """A law that every right answer obeys; a broken one explains a wrong number.

    ``broken(trial)`` returns the sentence that says how it is broken ("row 2 sums to 0.43; ..."), or None.
    """

    says: str
    broken: Test


@dataclass(frozen=True)
class Answer:
    """A whole implementation from the bank: a misconception with its hint, or an accepted style."""

    name: str
    says: str
    function: Function
    gravity: Gravity = "fault"

    def source(self, named: str) -> str:
        """The implementation as a student would have typed it, under the name of the exercise."""
        classes = _classes(self.function.__module__) if inspect.isclass(self.function) else {}
        text = classes.get(self.function.__name__) or inspect.getsource(self.function)
        lines = textwrap.dedent(text).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
        head = lines[start].replace(self.function.__name__, named, 1)
        return "\n".join([head, *lines[start + 1 :]]) + "\n"

    def pasted(self, named: str) -> str:
        """The same with the imports that it needs, as it can be pasted into any cell or file."""
        source = self.source(named)
        words = set(re.findall(r"\w+", source))
        around = vars(sys.modules[self.function.__module__])
        modules = {n: v.__name__ for n, v in around.items() if n in words and inspect.ismodule(v)}
        needed = {n: m for n, m in modules.items() if m.split(".")[0] not in ("tfcore", "autograder")}
        lines = [f"import {n}" if n == module else f"import {module} as {n}" for n, module in needed.items()]
        return "\n".join([*lines, "", "", source]) if lines else source


@cache
def _classes(module: str) -> dict[str, str]:
    """The text of each class of a module, read once: `inspect` reads the whole module for every class."""
    text = inspect.getsource(sys.modules[module])
    lines, nodes = text.splitlines(), ast.parse(text).body
    return {
        n.name: "\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in nodes if isinstance(n, ast.ClassDef)
    }


@dataclass(frozen=True)
class Exercise:
    """A graded exercise, whole.

    Args:
        name: ``assignment/function``, such as ``ch02_qkv/softmax``.
        signature: the call as the notebook shows it.
        goal: one sentence that says what to write.
        section: the heading in its chapter that treats it, for the teacher's report.
        minutes: how long students take, about.
        difficulty: how hard it is for them.
        reference: the right answer, from `tfcore`.
        criteria: what earns points, the core first.
        properties: laws that explain a failure when no misconception does.
        forbidden: library calls that *are* the exercise, as dotted names.
        same: equality of two observed values in a case, where plain closeness is not the question.
        domain: whether a case's arguments are what the exercise speaks of (weights that sum to 1, say); asked
            before a case that was made smaller is shown.
        given: the module whose code the notebook gives in a cell; answers may use what it defines.
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
        """The whole bank: what is wrong, then what is right."""
        return [*self.misconceptions, *self.styles]

    @property
    def given_source(self) -> str:
        """The text of what is given; empty where nothing is."""
        return inspect.getsource(self.given) if self.given else ""

    def misconception(self, hint: str, gravity: Gravity = "fault") -> Callable[[Function], Function]:
        """Declare the decorated function as a wrong answer; `hint` is what its author should read."""
        return _adding_to(self.misconceptions, hint, gravity)

    def style(self, says: str) -> Callable[[Function], Function]:
        """Declare the decorated function as a right answer; `says` is what is special about it."""
        return _adding_to(self.styles, says)

    def draw(self, seed: int) -> Iterator[tuple[Criterion, list[Case]]]:
        """The criteria with their cases; the same seed draws the same cases.

        Criteria that measure, and draw their cases by the same function, share these cases: what one has
        asked need not be asked again for another.

        What a call leaves behind in its inputs is seen where its value is: a criterion that observes
        "arguments" looks again at the cases of those before it.
        """
        before: dict[tuple[Any, ...], Case] = {}
        measured: dict[Any, list[Case]] = {}
        for index, criterion in enumerate(self.criteria):
            rng = np.random.default_rng([seed, index, *self.name.encode()])
            cases = list(criterion.cases(rng))
            if criterion.measure:
                cases = measured.setdefault(criterion.cases, cases)
            if criterion.observes == "arguments":
                cases = [before.get(case.form, case) for case in cases]
            elif not criterion.measure:
                before |= {case.form: case for case in cases}
            yield criterion, cases


def _adding_to(bank: list[Answer], says: str, gravity: Gravity = "fault") -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        bank.append(Answer(function.__name__, says, function, gravity))
        return function

    return add
