"""Explain a failure by a mistake of the bank, by a broken property or by the difference itself."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autograder.cage.tensors import is_tensor
from autograder.checking.candidate import local
from autograder.checking.comparison import as_code, without_numbers
from autograder.checking.declaration import Answer, Case, Criterion, Exercise, Lent, Property, Seed, Trial
from autograder.checking.diagnosis import Bank, Examined
from autograder.checking.faults import MADE_FIRST, Raised, fault_in, judge
from autograder.checking.oracle import Oracle, ask_safely
from autograder.checking.report import Failure
from autograder.checking.shrink import MOST_TRIED, Patience, shrink_case

SHORT = 340
"""The most characters of a call in a report; a longer call is left out."""

_ONE = re.compile(r"(?<![\w.,-])1 (guess(?=es)|layer|head|token|step|sample|channel|expert)e?s\b")

MOST_TESTED = 4
"""The most failing cases of a criterion, the smallest first, that are tested for a broken property."""


class SmallestCases:
    """A cache of the smallest case that shows each mistake of the bank."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self._smallest: dict[tuple[str, str], Case | None] = {}

    def find(self, mistake: Answer, criterion: Criterion) -> Case | None:
        """Return the smallest known case in which a mistake fails a criterion, or None if it passes."""
        key = (mistake.name, criterion.says)
        if key not in self._smallest:
            (cases,) = (cases for other, cases in self.oracle.drawn if other is criterion)
            call = criterion.through(local(mistake.function))
            trials = [
                Trial(
                    case,
                    self.oracle.mistake_outcome(mistake, criterion, case),
                    self.oracle.expected(criterion, case),
                    call,
                )
                for case in cases
            ]
            faults = [judge(self.oracle.exercise, criterion, trial) for trial in trials]
            examined = Examined(criterion, trials, faults)
            self._smallest[key] = None
            if examined.failed:
                trial, fault, law, _ = _choose_trial(examined, self.oracle)
                fails_alike = _FailsAlike(self.oracle, criterion, trial, fault, law)
                self._smallest[key] = shrink_case(trial.case, fails_alike, Patience(MOST_TRIED))
        return self._smallest[key]


def explain_failure(
    examined: Examined, bank: Bank, smallest: SmallestCases, patience: Patience, named: set[str | None]
) -> Failure:
    """Explain a failure in a small case by the mistakes that fit, by a broken property or by the difference.

    The smallest known case of a mistake is tried first. A report shows a mistake only once, so for a mistake
    in `named` no smaller case is sought.
    """
    oracle = smallest.oracle
    numpy_state = np.random.get_state()  # a mistake of the bank may draw from the student's generator
    mistakes = bank.named(examined)
    name = " or ".join(mistake.name for mistake in mistakes) or None
    again = name is not None and name in named
    trial, fault, law, broken = (
        (*examined.failing[0], None, None) if again else _choose_trial(examined, oracle)
    )
    if not again and examined.criterion.shrinks and patience.cases:
        fails_alike, smaller = _FailsAlike(oracle, examined.criterion, trial, fault, law), None
        if mistakes:
            agrees = [partial(bank.agrees, mistake, examined.criterion) for mistake in mistakes]
            fails_alike = replace(fails_alike, agrees=lambda other: all(agree(other) for agree in agrees))
            smaller = smallest.find(mistakes[0], examined.criterion)
        if smaller is None or (smaller is not trial.case and not fails_alike(smaller)):
            smaller = shrink_case(trial.case, fails_alike, patience)
        if smaller is not trial.case:
            trial, new_fault = fails_alike.try_case(smaller)
            fault = new_fault or fault
            broken = ask_safely(law.broken, trial) if law else None
    np.random.set_state(numpy_state)
    return Failure(
        case=trial.case.says,
        call=format_call(oracle.exercise, trial.case),
        fault=fault if trial.outcome.error else tidied(fault),
        broken=broken and tidied(broken),
        misconception=name,
        hint=("Either: " * (len(mistakes) > 1) + " Or: ".join(mistake.says for mistake in mistakes)) or None,
    )


def tidied(sentence: str) -> str:
    """Return the sentence with the singular after 1, and 0 for a negative zero."""
    sentence = _ONE.sub(r"1 \1", sentence)
    return re.sub(r"(?<![\w.\[])-0(?:\.0*)?(?![\w.])", "0", sentence)


def _choose_trial(examined: Examined, oracle: Oracle) -> tuple[Trial, str, Property | None, str | None]:
    """Return the trial to show with its fault: the smallest that breaks a property, else the smallest.

    The other two values are the property and the sentence about how it is broken, or None and None.
    """
    smallest, *others = examined.failing
    for trial, fault in [smallest, *others[: MOST_TESTED - 1]]:
        law, broken = oracle.broken(examined.criterion, trial)
        if law:
            return trial, fault, law, broken
    return *smallest, None, None


@dataclass(frozen=True)
class _FailsAlike:
    """A test of whether another case fails for the same reason as `trial` did."""

    oracle: Oracle
    criterion: Criterion
    trial: Trial
    fault: str
    law: Property | None
    agrees: Callable[[Trial], bool] = lambda other: True

    def __call__(self, case: Case) -> bool:
        return bool(ask_safely(self._fails_alike, case))

    def try_case(self, case: Case) -> tuple[Trial, str | None]:
        """Try a case, and return its trial with the fault."""
        call = self.trial.call
        trial = Trial(case, call(case), self.oracle.observed(self.criterion, case), call)
        return trial, fault_in(self.oracle.exercise, self.criterion, trial)

    def _fails_alike(self, case: Case) -> bool:
        domain = self.oracle.exercise.domain
        if domain and not domain(case):
            return False
        other, fault = self.try_case(case)
        return bool(
            fault
            and without_numbers(fault) == without_numbers(self.fault)
            and other.outcome.error == self.trial.outcome.error
            and not other.outcome.forbidden
            and isinstance(other.expected, Raised) == isinstance(self.trial.expected, Raised)
            and self.agrees(other)
            and (not self.law or self.law.broken(other))
        )


def format_call(exercise: Exercise, case: Case) -> str:
    """Return the call of a case as Python code, with shapes for large arrays; empty if still too long."""
    function, name = exercise.reference, exercise.function_name
    for most in (12, 0):
        if case.probe.startswith(MADE_FIRST):
            text = f"{name}({_format_arguments([], (), case.args[0], most)})"
            if case.probe.startswith("steps"):
                text += ", then " + _format_moves(case.args[1], most)
            if case.probe.startswith("module_chunks"):
                texts = [[chunk.shape[1] for chunk in chunks] for chunks in case.args[2]]
                lengths = " and ".join(map(str, texts))
                read, each = ("texts in turn", "each ") if len(texts) > 1 else ("a text", "")
                text += f", then {read} in chunks of {lengths} tokens, {each}with a cache"
            elif case.probe.startswith("module"):
                names = list(inspect.signature(function.forward).parameters)[1:]  # type: ignore[attr-defined]
                text += f"({_format_arguments(names, case.args[2:], case.kwargs, most)})"
                text += ", with parameters that the check sets" if case.args[1] else ""
        else:
            names = list(inspect.signature(function).parameters)
            text = f"{name}({_format_arguments(names, case.args, case.kwargs, most)})"
        if len(text) <= SHORT:
            return text
    return ""


def _format_moves(moves: list[tuple[Any, ...]], most: int) -> str:
    """Return the method calls in their order, such as `.length`, then `.update` 30 times.

    If there is room, a call with a text among its arguments shows them: `.append('a', <shape (1, 3, 4)>)`.
    """

    def text(name: str, *given: Any) -> str:
        names = [repr(value) for value in given if isinstance(value, str)]
        shapes = {f"<shape {tuple(value.shape)}>" for value in given if is_tensor(value)}
        return f"`.{name}({', '.join([*names, *shapes])})`" if names and most else f"`.{name}`"

    runs = [(move, len(list(run))) for move, run in itertools.groupby(text(*move) for move in moves)]
    return ", ".join(move + (f" {times} times" if times > 1 else "") for move, times in runs)


def _format_arguments(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], most: int) -> str:
    generators = {"numpy": "np.random.default_rng", "torch": "torch.Generator().manual_seed"}

    def code(value: Any) -> str:
        if isinstance(value, Seed):
            return f"{generators[value.library]}({value.value})"
        return f"<{value}>" if isinstance(value, Lent) else as_code(value, most)

    arguments = dict(zip(names, args, strict=False)) | kwargs
    return ", ".join(f"{name}={code(value)}" for name, value in arguments.items())
