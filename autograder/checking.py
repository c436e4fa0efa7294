"""Examines a candidate against an exercise: points by criterion, and the reason for each point lost."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autograder import forbidden
from autograder.cage import calling, tensors, wire
from autograder.cage.served import Host
from autograder.exercise import (
    SLIP,
    Answer,
    Case,
    Criterion,
    Exercise,
    Function,
    Lent,
    Outcome,
    Property,
    Seed,
    Trial,
)
from autograder.report import CriterionResult, Failure, Report, Status
from autograder.shrink import MOST_TRIED, Patience, shrunk, size
from autograder.values import agree, as_code, describe, differs, in_words, same_form

Candidate = Callable[[Case], Outcome]
"""Calls the code under examination, wherever it runs."""


_NOT_EXAMINED: dict[str | None, tuple[Status, str]] = {
    "NotImplementedError": ("blank", "Not written yet. Replace the line that raises NotImplementedError."),
    "Undefined": ("missing", "Nothing to grade: {1}."),
    "TimeUp": (
        "stopped",
        "Your function did not come back in time ({0}). Does every loop end, and is the work small?",
    ),
    "KernelDied": ("stopped", "The process that ran your code was lost before this could be graded: {1}."),
}
"""Errors after which no other case is tried."""
MADE_FIRST = ("module", "parameters", "steps", "asked", "trained")
"""How the probes begin that make an object, with their first argument."""
SHORT = 240
"""A call is shown when it fits into so many characters."""


@dataclass(frozen=True)
class _Examined:
    """A criterion with its trials and, for each, the sentence about what is wrong or None."""

    criterion: Criterion
    trials: list[Trial]
    faults: list[str | None]

    @property
    def failed(self) -> bool:
        return any(self.faults)

    @property
    def failing(self) -> list[tuple[Trial, str]]:
        """The failing cases with their faults: the smallest first, and NaN last, which says least."""
        found = [(t, fault) for t, fault in zip(self.trials, self.faults, strict=True) if fault]
        return sorted(found, key=lambda pair: ("got nan" in pair[1], size(pair[0].case)))

    @property
    def kind(self) -> str:
        """What failed: "value", "arguments" or "cost". Where calls raised, their inputs say nothing more."""
        raised = any(trial.outcome.error for trial, _ in self.failing)
        return "value" if raised else self.criterion.observes

    @property
    def long(self) -> bool:
        """Whether trying it takes long: a cost, counted operation by operation, or a lesson."""
        return self.criterion.observes == "cost" or any(t.case.probe == "trained" for t in self.trials)


def local(function: Function, forbidden: tuple[str, ...] = ()) -> Candidate:
    """A candidate in this very process: the student's own function, or one from the bank."""

    def call(case: Case) -> Outcome:
        host = Host()

        def given(value: Any) -> Any:
            if isinstance(value, Seed):
                return wire.generator(value.value, value.library)
            return host.stand_in(value.make()) if isinstance(value, Lent) else value

        args = tensors.mapped(given, tensors.private_copy(list(case.args)))
        kwargs = tensors.mapped(given, tensors.private_copy(case.kwargs))
        told = calling.call(function, args, kwargs, list(forbidden), case.probe, case.metered)
        host.close()
        told |= {"arguments": tuple(told["arguments"]), "cost": told["cost"] or {}}
        return Outcome(**told, asked=tuple(host.asked))

    return call


def examine(exercise: Exercise, candidate: Candidate, seed: int) -> Report:
    """Tries every case of every criterion and explains what failed; see `Examination`."""
    return Examination(exercise, seed).of(candidate)


UNJUDGED = "what your code returned cannot be judged"
"""What a fault begins with when looking at an outcome failed: the student's oddity, or a fault of ours."""


class Examination:
    """The cases of an exercise under one seed, and what the reference and the bank's mistakes do in them.

    The reference is asked once a case and each mistake at most once, however many candidates are examined;
    `prepare` asks them all beforehand. The smallest case that shows a mistake is found once as well.

    Args:
        exercise: the declaration.
        seed: draws the cases.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        self.drawn = list(exercise.draw(seed))
        self._expected: dict[tuple[str, str], Any] = {}
        self._mistaken: dict[tuple[str, str, int], Outcome] = {}
        self._smallest: dict[tuple[str, str], Case | None] = {}
        self._reference = _in_float64(exercise.reference)

    def of(self, candidate: Candidate, shrinking: bool = True) -> Report:
        """The report on a candidate.

        The explanation of a failure is sought in this order: a misconception of the bank whose outcomes are
        the candidate's in every failing case; a property that the outcome breaks; the first difference. The
        case that shows it is made smaller first, unless `shrinking` is false.
        """
        return self._report(self._tried(candidate), shrinking)

    def of_bank(self, calls: tuple[str, ...]) -> list[Report]:
        """The reports on every answer of the bank, where none may call `calls`.

        A mistake is called as an answer and held against the others as an explanation: once for both.
        """
        tried = []
        for answer in self.exercise.answers:
            called: dict[tuple[str, int], Outcome] = {}
            tried.append(self._tried(local(answer.function, calls), called))
            if answer in self.exercise.misconceptions:
                self._mistaken |= {(answer.name, *key): outcome for key, outcome in called.items()}
        return [self._report(examined, shrinking=False) for examined in tried]

    def _report(self, examined: list[_Examined] | Report, shrinking: bool) -> Report:
        if isinstance(examined, Report):
            return examined
        bank, patience = _Bank(self, examined), Patience() if shrinking else Patience(0)
        failures: list[Failure | None] = []
        for one in examined:
            named = {failure.misconception for failure in failures if failure}
            failures.append(_explain(one, bank, self, patience, named) if one.failed else None)
        earned = _earned(examined, [bank.named(one) if one.failed else () for one in examined])
        return Report(
            self.exercise.name,
            self.exercise.points,
            tuple(
                CriterionResult(one.criterion.says, one.criterion.points, points, failure)
                for one, points, failure in zip(examined, earned, failures, strict=True)
            ),
        )

    def _tried(
        self, candidate: Candidate, called: dict[tuple[str, int], Outcome] | None = None
    ) -> list[_Examined] | Report:
        """Every case of every criterion, or a report that says why they cannot be tried.

        What came of each call stands in `called` afterwards.
        """
        exercise = self.exercise
        examined: list[_Examined] = []
        called = {} if called is None else called
        written = False
        for criterion, cases in self.drawn:
            trials: list[Trial] = []
            call = criterion.through(candidate)
            for case in cases:
                key = _asked(criterion, case)
                outcome = called[key] = called[key] if key in called else _told(call, case)
                if outcome.forbidden:
                    return Report.without_points(
                        exercise, "forbidden", forbidden.told(outcome.forbidden), forbidden=outcome.forbidden
                    )
                written = written or outcome.error is None
                in_part = written and outcome.error == "NotImplementedError"
                if outcome.error in _NOT_EXAMINED and not in_part:
                    status, note = _NOT_EXAMINED[outcome.error]
                    return Report.without_points(exercise, status, note.format(case.says, outcome.message))
                trials.append(Trial(case, outcome, self.expected(criterion, case), call))
            faults = [_judged(exercise, criterion, trial) for trial in trials]
            examined.append(_Examined(criterion, trials, faults))
        return examined

    def expected(self, criterion: Criterion, case: Case) -> Any:
        """What a right answer shows in a case."""
        key = (criterion.says, case.says)
        if key not in self._expected:
            self._expected[key] = self.observed(criterion, case)
        return self._expected[key]

    def observed(self, criterion: Criterion, case: Case) -> Any:
        """The same, asked of the reference anew, unless all that counts is the arguments as they were."""
        if criterion.observes == "arguments":
            return tuple(tensors.arrays(case.args, case.kwargs))
        outcome = criterion.through(self._reference)(case)
        if criterion.observes == "cost":
            return outcome.cost
        return _Raised(outcome.error) if outcome.error else outcome.value

    def prepare(self) -> None:
        """Finds what the reference and every mistake do, but for lessons and costs, which take long."""
        for criterion, cases in self.drawn:
            for case in cases:
                self.expected(criterion, case)
                if criterion.observes != "cost" and case.probe != "trained":
                    for mistake in self.exercise.misconceptions:
                        self.mistaken(mistake, criterion, case)

    def smallest(self, mistake: Answer, criterion: Criterion) -> Case | None:
        """The smallest case in which a mistake of the bank is seen to fail a criterion; None if it passes."""
        key = (mistake.name, criterion.says)
        if key not in self._smallest:
            (cases,) = (cases for other, cases in self.drawn if other is criterion)
            call = criterion.through(local(mistake.function))
            trials = [
                Trial(case, self.mistaken(mistake, criterion, case), self.expected(criterion, case), call)
                for case in cases
            ]
            faults = [_judged(self.exercise, criterion, trial) for trial in trials]
            one = _Examined(criterion, trials, faults)
            self._smallest[key] = None
            if one.failed:
                trial, fault, law, _ = _shown(one, self)
                fails_alike = _FailsAlike(self, criterion, trial, fault, law)
                self._smallest[key] = shrunk(trial.case, fails_alike, Patience(MOST_TRIED))
        return self._smallest[key]

    def learn(self, mistake: str, criterion: str) -> None:
        """Finds the smallest case of a mistake that was made, since it will be made again."""
        for answer in self.exercise.misconceptions:
            for one, _ in self.drawn:
                if answer.name in mistake.split(" or ") and one.says == criterion and one.shrinks:
                    self.smallest(answer, one)

    def broken(self, criterion: Criterion, trial: Trial) -> tuple[Property | None, str | None]:
        """The first property that a trial breaks, and how."""
        looks = trial.case.probe == "steps" or same_form(trial.value, trial.expected)
        if criterion.observes == "value" and looks:
            for law in self.exercise.properties:
                if said := _guarded(law.broken, trial):
                    return law, said
        return None, None

    def mistaken(self, mistake: Answer, criterion: Criterion, case: Case) -> Outcome:
        """What a mistake of the bank does in a case."""
        key = (mistake.name, *_asked(criterion, case))
        if key not in self._mistaken:
            self._mistaken[key] = criterion.through(local(mistake.function))(case)
        return self._mistaken[key]


def _earned(examined: list[_Examined], named: list[tuple[Answer, ...]]) -> list[float]:
    """Return the points of each criterion: all if it is met, a part after a slip, none without the core.

    Args:
        examined: the criteria, the core first.
        named: the mistakes that explain each; none where it is met or nothing explains it.
    """
    shares = [
        1.0 if not one.failed else SLIP if mistakes and all(m.gravity == "slip" for m in mistakes) else 0.0
        for one, mistakes in zip(examined, named, strict=True)
    ]
    return [
        share * one.criterion.points if shares[0] else 0.0
        for one, share in zip(examined, shares, strict=True)
    ]


def _asked(criterion: Criterion, case: Case) -> tuple[str, int]:
    """Tells one call from another: criteria that share a case share it, unless they measure it themselves."""
    return criterion.says if criterion.measure else "", id(case)


def _without_forward(outcome: Outcome) -> Outcome:
    """The outcome; torch's own NotImplementedError for a module without `forward` is no blank answer."""
    if not re.search(r'required "forward"|_forward_unimplemented', outcome.message):
        return outcome
    said = (
        "your class has no method `forward`, which is what runs when a module is called. Write "
        "`def forward(self, ...)` inside the class; if it is there, look at its spelling and its indentation"
    )
    return replace(outcome, error="Unfit", message=said)


def _in_float64(function: Function) -> Candidate:
    """The reference as an oracle: narrow inputs are widened first, so that its own rounding is no issue.

    Tensors come back in the dtype of the inputs, which a right answer keeps.
    """
    call = local(function)

    def widen(value: Any) -> Any:
        if tensors.is_tensor(value) and value.is_floating_point():
            return value.double()
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else value

    def widened(case: Case) -> Outcome:
        given = (*case.args, *case.kwargs.values())
        narrow = [x for x in tensors.arrays(*given) if tensors.is_tensor(x) and x.is_floating_point()]
        dtype = min((x.dtype for x in narrow), key=lambda d: d.itemsize, default=None)

        def back(value: Any) -> Any:
            floating = tensors.is_tensor(value) and value.is_floating_point()
            return value.to(dtype) if floating and dtype else value

        args, kwargs = tensors.mapped(widen, case.args), tensors.mapped(widen, case.kwargs)
        outcome = call(replace(case, args=args, kwargs=kwargs))
        return replace(outcome, value=tensors.mapped(back, outcome.value))

    return widened


@dataclass(frozen=True)
class _Raised:
    """Stands for a value where the right thing is to raise that error."""

    error: str


def _observed(criterion: Criterion, outcome: Outcome) -> Any:
    seen = {"value": outcome.value, "arguments": outcome.arguments, "cost": outcome.cost}
    return seen[criterion.observes]


def _told(call: Candidate, case: Case) -> Outcome:
    """What came of a case; where it cannot even be measured, an error that says so."""
    try:
        return _without_forward(call(case))
    except Exception as error:
        return Outcome(None, error="Unfit", message=_unjudged(error))


def _judged(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    """What is wrong with an outcome; one that raises an error while it is looked at is wrong."""
    try:
        return _fault(exercise, criterion, trial)
    except Exception as error:
        return _unjudged(error)


def _unjudged(error: Exception) -> str:
    return f"{UNJUDGED}: {type(error).__name__}: {str(error)[:200]}"


def _fault(exercise: Exercise, criterion: Criterion, trial: Trial) -> str | None:
    outcome = trial.outcome
    if isinstance(trial.expected, _Raised):
        if outcome.error == trial.expected.error:
            return None
        wanted = trial.expected.error
        if outcome.error:
            return f"expected a {wanted} here, got {outcome.message}"
        if wanted in repr(outcome.value):
            return f"your code returned a {wanted}; write `raise {wanted}(...)`, not `return`"
        return f"expected a {wanted} to be raised here; your code returned {describe(outcome.value)}"
    if outcome.error:
        return _raised(exercise, trial)
    if criterion.test and (
        criterion.measure or criterion.observes == "cost" or _can_be_judged(outcome.value, trial.expected)
    ):
        return criterion.test(trial)
    if criterion.observes == "arguments":
        return _changed(exercise, trial)
    return _unequal(exercise, criterion, trial.case, outcome.value, trial.expected)


def _raised(exercise: Exercise, trial: Trial) -> str:
    """What a student should know of an exception that nobody asked for."""
    outcome, probe = trial.outcome, trial.case.probe
    if outcome.error in ("Unsendable", "Unfit"):
        return outcome.message
    said = f"your code raised {outcome.message}"
    if re.match(r"AttributeError: cannot assign \w+ before Module.__init__", outcome.message):
        return f"{said}. Let `__init__` begin with `super().__init__()`"
    if unknown := re.match(r"NameError: name '(\w+)' is not defined", outcome.message):
        own = f", or write `self.{unknown[1]}` if your class has it" if probe.startswith(MADE_FIRST) else ""
        asked = (exercise.reference, getattr(exercise.reference, "forward", None))
        names = [name for function in asked if function for name in inspect.signature(function).parameters]
        if meant := difflib.get_close_matches(unknown[1], names, 1):
            return f"{said}. Do you mean `{meant[0]}`?"
        return f"{said}. Define or import `{unknown[1]}` before it is used here{own}"
    if torch_says := re.match(r"RuntimeError: ([^:(]*in-?place operation)", outcome.message):
        plain = replace(trial.case, probe="module" if probe.startswith("module") else "call")
        before = tuple(tensors.arrays(plain.args, plain.kwargs))
        changed = _changed(exercise, replace(trial, case=plain, outcome=trial.call(plain), expected=before))
        what = f"its input `{changed.split('`')[1]}`" if changed else "a tensor"
        return (
            f"your code changes {what} in place, and the gradient still needs the numbers that stood there. "
            "Write `x = x + y` for `x += y`; where you write into a tensor, make a new one. "
            f"(Torch: {torch_says[1]})"
        )
    return said


def _can_be_judged(got: Any, expected: Any) -> bool:
    """Whether a test may take it for what it should be: of what a probe tells, each part by its own form."""
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and got.keys() == expected.keys()
        return alike and all(_can_be_judged(got[key], expected[key]) for key in expected)
    return same_form(got, expected)


def _changed(exercise: Exercise, trial: Trial) -> str | None:
    """Which array among the arguments the call has changed, and where."""
    for place, (before, after) in enumerate(zip(trial.expected, trial.outcome.arguments, strict=False)):
        if changed := differs(after, before, 0.0):
            names = [name for name, value in _named(exercise, trial.case) if tensors.is_array(value)]
            changed = changed.replace("expected", "it had").replace("got", "now")
            return f"`{names[place]}` was changed in place: {changed}" if names[place:] else None
    return None


def _named(exercise: Exercise, case: Case) -> Iterator[tuple[str, Any]]:
    """The leaves of a case's arguments, each with what the student's code calls it."""
    function = exercise.reference
    if case.probe.startswith("module"):
        parameters = ["its arguments", "", *list(inspect.signature(function.forward).parameters)[1:]]  # type: ignore[attr-defined]
    elif case.probe.startswith("steps"):
        for method, *given in case.args[1]:
            called = inspect.signature(getattr(function, method)).parameters if given else ()
            yield from tensors.leaves(dict(zip(list(called)[1:], given, strict=False)))
        return
    else:
        parameters = list(inspect.signature(function).parameters)
    yield from tensors.leaves(dict(zip(parameters, case.args, strict=False)) | case.kwargs)


def _same(exercise: Exercise, case: Case, got: Any, expected: Any) -> bool:
    """Whether the exercise itself takes one result for the other."""
    return bool(exercise.same and same_form(got, expected) and exercise.same(got, expected, case))


def _unequal(exercise: Exercise, criterion: Criterion, case: Case, got: Any, expected: Any) -> str | None:
    if _same(exercise, case, got, expected):
        return None
    why = differs(got, expected, criterion.tolerance or case.tolerance)
    if not why:
        return None
    if isinstance(expected, tuple) and (names := _result_names(exercise, len(expected))):
        why = re.sub(r"^result (\d+) of \d+", lambda m: f"`{names[int(m[1]) - 1]}` ({m[0]})", why)
    why = re.sub(
        r"\bargument (\d+)((?:\[\d+\])*)", lambda m: _argument_name(exercise, case, int(m[1]), m[2]), why
    )
    return why.replace("in `", "the gradient with respect to `", 1) if "gradients" in case.probe else why


def _result_names(exercise: Exercise, count: int) -> list[str]:
    """What the reference's own example calls that many results; none if it does not say."""
    example = re.search(rf">>> (.+) = {exercise.function_name}\(", exercise.reference.__doc__ or "")
    names = example[1].split(", ") if example else []
    return names if len(names) == count else []


def _argument_name(exercise: Exercise, case: Case, place: int, inside: str) -> str:
    """What the exercise calls an argument, from the place by which a probe knows it: `x`, `shards[2]`."""
    function = exercise.reference
    called = function.forward if case.probe.startswith("module") else function  # type: ignore[attr-defined]
    names = [name for name in inspect.signature(called).parameters if name != "self"]
    return f"`{names[place]}{inside}`" if place < len(names) else f"argument {place + 1}{inside}"


MOST_NAMED = 2
"""Where more mistakes than this fit equally well, none of them is named."""


class _Bank:
    """The misconceptions tried on the same cases, each only when a failure has to be explained."""

    def __init__(self, examination: Examination, examined: list[_Examined]) -> None:
        self.exercise = examination.exercise
        self.examined = examined
        self._outcome = examination.mistaken
        self._named: dict[str, tuple[Answer, ...]] = {}

    def named(self, one: _Examined) -> tuple[Answer, ...]:
        """Return the mistakes that explain a failure: one, two where either fits, or none.

        Values, changed arguments and costs are explained apart, since an answer may well have two faults: but
        a mistake is named only if it does what the candidate does in every failing case of its kind.
        """
        kind = one.kind
        if kind not in self._named:
            failed = [other for other in self.examined if other.failed and other.kind == kind]
            matches = self._most_alike([m for m in self.exercise.misconceptions if self._fits(m, failed)])
            self._named[kind] = tuple(matches) if len(matches) <= MOST_NAMED else ()
        return self._named[kind]

    def _fits(self, mistake: Answer, failed: list[_Examined]) -> bool:
        """Whether a mistake does what the candidate does in all cases of the criteria that failed.

        A cost or a lesson alone says little: then all the rest must be the same. Where outcomes are random,
        so that agreement says less, the core must be the same as well. A mistake that fails a criterion which
        the candidate meets is another's, whatever else agrees.
        """
        core, short = self.examined[0], [one for one in failed if not one.long]
        if short:
            looked_at = [core, *short] if self.exercise.same else short
        else:
            looked_at = [one for one in self.examined if not one.long]
            looked_at += [one for one in failed if one.criterion.observes != "cost"]
        met = [one for one in self.examined if not (one.failed or one.long)]
        met = [one for one in met if one is core or one.criterion.observes == "value"]
        return (
            all(all(self._agreement(mistake, one)) for one in looked_at)
            and all(self._fails(mistake, one) for one in failed)
            and not any(self._fails(mistake, one) for one in met)
        )

    def _most_alike(self, matches: list[Answer]) -> list[Answer]:
        """Keep those that agree in most cases; of those, the only one that agrees to the last digit."""
        matches = self._with_most(matches, long=False)
        if len(matches) > 1:
            short = [one for one in self.examined if not one.long]
            exact = [m for m in matches if all(all(self._agreement(m, one, True)) for one in short)]
            matches = exact if len(exact) == 1 else self._with_most(matches, long=True)
        return matches

    def _with_most(self, matches: list[Answer], long: bool) -> list[Answer]:
        """Keep the matches that agree in most cases of the long criteria, or of the others."""
        if len(matches) < 2:
            return matches
        asked = [one for one in self.examined if one.long == long]
        totals = [sum(sum(self._agreement(m, one)) for one in asked) for m in matches]
        return [m for m, total in zip(matches, totals, strict=True) if total == max(totals)]

    def agrees(self, mistake: Answer, criterion: Criterion, trial: Trial) -> bool:
        """Whether the mistake does in a case what the candidate did; the case may be a new one."""
        mistaken = criterion.through(local(mistake.function))(trial.case)
        return self._agrees(mistake, mistaken, trial, criterion, exactly=False)

    def _fails(self, mistake: Answer, one: _Examined) -> bool:
        """Whether the mistake fails too; what passes a lenient test explains no failure of it.

        It pays too much in the same way: its faults are the candidate's but for numbers, and so is the shape
        of its largest tensor.
        """
        call = one.criterion.through(local(mistake.function))
        tried = [
            replace(trial, outcome=self._outcome(mistake, one.criterion, trial.case), call=call)
            for trial in one.trials
        ]
        faults = [_fault(self.exercise, one.criterion, trial) for trial in tried]
        if one.kind != "cost":
            return any(faults)
        return any(faults) and all(
            in_words(fault or "") == in_words(other or "")
            and trial.outcome.cost.get("largest_shape") == ours.outcome.cost.get("largest_shape")
            for fault, other, trial, ours in zip(faults, one.faults, tried, one.trials, strict=True)
            if other
        )

    def _agreement(self, mistake: Answer, one: _Examined, exactly: bool = False) -> Iterator[bool]:
        """Case by case, lazily: most mistakes are ruled out by the first."""
        return (
            self._agrees(
                mistake, self._outcome(mistake, one.criterion, trial.case), trial, one.criterion, exactly
            )
            for trial in one.trials
        )

    def _agrees(
        self, mistake: Answer, mistaken: Outcome, trial: Trial, criterion: Criterion, exactly: bool
    ) -> bool:
        if mistaken.error and trial.outcome.error and _complaint(mistaken) != _complaint(trial.outcome):
            # torch fails elsewhere where its calls are watched, as the candidate's are
            mistaken = criterion.through(local(mistake.function, self.exercise.forbidden))(trial.case)
        if mistaken.error or trial.outcome.error:
            return mistaken.error == trial.outcome.error and (
                isinstance(trial.expected, _Raised) or _fails_at_the_same(mistake, mistaken, trial.outcome)
            )
        got, expected = _observed(criterion, trial.outcome), _observed(criterion, mistaken)
        if criterion.observes == "cost":
            if got != expected or _questions(trial.outcome) != _questions(mistaken):
                return False
            got, expected = trial.value, mistaken.value
        if isinstance(expected, list) and isinstance(trial.expected, tuple):
            expected = tuple(expected)
        alike = not exactly and _same(self.exercise, trial.case, got, expected)
        return alike or agree(got, expected, criterion.tolerance or trial.case.tolerance)


def _questions(outcome: Outcome) -> list[Any]:
    """What was asked of the objects lent: names, numbers, and of tensors the shapes."""

    def form(value: Any) -> Any:
        shape = getattr(value, "shape", None)
        return value if isinstance(value, int | float | str) else (type(value).__name__, shape)

    return [(name, tensors.mapped(form, args)) for name, args in outcome.asked]


def _fails_at_the_same(mistake: Answer, mistaken: Outcome, outcome: Outcome) -> bool:
    """Whether two errors have the same message, and any library call of the hint is in both failing lines."""
    calls = [call for call in _LIBRARY_CALL.findall(mistake.says) if call in mistaken.message]
    return _complaint(mistaken) == _complaint(outcome) and all(call in outcome.message for call in calls)


_LIBRARY_CALL = re.compile(r"\b(?:F|np|torch|nn|math)\.[a-zA-Z_.]*[a-zA-Z_]")


def _complaint(outcome: Outcome) -> str:
    """The message of an error without the line that raised it."""
    return outcome.message.partition(" (line ")[0]


MOST_LOOKED_AT = 4
"""Failing cases of a criterion in which a broken property is sought, the smallest first."""


def _explain(
    one: _Examined, bank: _Bank, examination: Examination, patience: Patience, named: set[str | None]
) -> Failure:
    """Explain a failure by the mistakes that fit, a broken property or the bare difference, in a small case.

    A mistake that is among those `named` already is not explained again: a report shows no more of it. The
    case that is smallest for a mistake is tried first.
    """
    numpy_state = np.random.get_state()  # the student's, and a mistake of the bank may draw from it
    mistakes = bank.named(one)
    name = " or ".join(mistake.name for mistake in mistakes) or None
    again = name is not None and name in named
    trial, fault, law, broken = (*one.failing[0], None, None) if again else _shown(one, examination)
    if not again and one.criterion.shrinks and patience.cases:
        fails_alike, smaller = _FailsAlike(examination, one.criterion, trial, fault, law), None
        if mistakes:
            agrees = [partial(bank.agrees, mistake, one.criterion) for mistake in mistakes]
            fails_alike = replace(fails_alike, agrees=lambda other: all(agree(other) for agree in agrees))
            smaller = examination.smallest(mistakes[0], one.criterion)
        if smaller is None or (smaller is not trial.case and not fails_alike(smaller)):
            smaller = shrunk(trial.case, fails_alike, patience)
        if smaller is not trial.case:
            trial, found = fails_alike.tried(smaller)
            fault = found or fault
            broken = _guarded(law.broken, trial) if law else None
    np.random.set_state(numpy_state)
    return Failure(
        case=trial.case.says,
        call=_call_of(examination.exercise, trial.case),
        fault=fault,
        broken=broken,
        misconception=name,
        hint=("Either: " * (len(mistakes) > 1) + " Or: ".join(mistake.says for mistake in mistakes)) or None,
    )


def _shown(one: _Examined, examination: Examination) -> tuple[Trial, str, Property | None, str | None]:
    """Return the case to show with its fault: the smallest that breaks a property, else the smallest."""
    smallest, *others = one.failing
    for trial, fault in [smallest, *others[: MOST_LOOKED_AT - 1]]:
        law, broken = examination.broken(one.criterion, trial)
        if law:
            return trial, fault, law, broken
    return *smallest, None, None


@dataclass(frozen=True)
class _FailsAlike:
    """Whether another case fails for the reason for which one has failed."""

    examination: Examination
    criterion: Criterion
    trial: Trial
    fault: str
    law: Property | None
    agrees: Callable[[Trial], bool] = lambda other: True

    def __call__(self, case: Case) -> bool:
        return bool(_guarded(self._fails_alike, case))

    def tried(self, case: Case) -> tuple[Trial, str | None]:
        """The case tried, and what is wrong in it."""
        call = self.trial.call
        trial = Trial(case, call(case), self.examination.observed(self.criterion, case), call)
        return trial, _fault(self.examination.exercise, self.criterion, trial)

    def _fails_alike(self, case: Case) -> bool:
        domain = self.examination.exercise.domain
        if domain and not domain(case):
            return False
        other, found = self.tried(case)
        return bool(
            found
            and in_words(found) == in_words(self.fault)
            and other.outcome.error == self.trial.outcome.error
            and not other.outcome.forbidden
            and isinstance(other.expected, _Raised) == isinstance(self.trial.expected, _Raised)
            and self.agrees(other)
            and (not self.law or self.law.broken(other))
        )


def _call_of(exercise: Exercise, case: Case) -> str:
    """The call of a case as it could be typed, large arrays by their shapes; empty if even that is long."""
    function, name = exercise.reference, exercise.function_name
    for most in (12, 0):
        if case.probe.startswith(MADE_FIRST):
            said = f"{name}({_typed([], (), case.args[0], most)})"
            if case.probe.startswith("steps"):
                said += ", then " + ", ".join(f"`.{move}`" for move, *_ in case.args[1])
            if case.probe.startswith("module"):
                names = list(inspect.signature(function.forward).parameters)[1:]  # type: ignore[attr-defined]
                said += f"({_typed(names, case.args[2:], case.kwargs, most)})"
                said += ", with parameters that the check sets" if case.args[1] else ""
        else:
            names = list(inspect.signature(function).parameters)
            said = f"{name}({_typed(names, case.args, case.kwargs, most)})"
        if len(said) <= SHORT:
            return said
    return ""


def _typed(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], most: int) -> str:
    made = {"numpy": "np.random.default_rng", "torch": "torch.Generator().manual_seed"}

    def code(value: Any) -> str:
        if isinstance(value, Seed):
            return f"{made[value.library]}({value.value})"
        return f"<{value}>" if isinstance(value, Lent) else as_code(value, most)

    given = dict(zip(names, args, strict=False)) | kwargs
    return ", ".join(f"{name}={code(value)}" for name, value in given.items())


def _guarded(asked: Callable[[Any], Any], of: Any) -> Any:
    """A question about any outcome; one that cannot be asked, whatever the reason, has the answer None."""
    try:
        with np.errstate(all="ignore"):
            return asked(of)
    except Exception:
        return None
