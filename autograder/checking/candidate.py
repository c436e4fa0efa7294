"""Call the code under examination and return the outcome of each call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autograder.cage import calling, tensors, wire
from autograder.cage.calling import TimeUp
from autograder.cage.probes import LONGER
from autograder.cage.remote_objects import Host
from autograder.checking.declaration import Case, Function, Lent, Outcome, Seed
from autograder.checking.time_limit import limited

Candidate = Callable[[Case], Outcome]
"""A function that calls the code under examination with a case, in this process or in another."""

UNJUDGED = "what your code returned cannot be judged"
"""The first words of a fault where the comparison itself failed: by an odd value or by the grader's error."""


def local(function: Function, forbidden: tuple[str, ...] = (), seconds: float | None = None) -> Candidate:
    """Return a candidate that calls a student's function, or an answer of the bank, in this process.

    Args:
        function: the function or class.
        forbidden: the library calls that it must not make, as dotted names.
        seconds: the processor time for an ordinary call, as in the grader; None is no limit.
    """

    def call(case: Case) -> Outcome:
        if seconds is None:
            return call_at_once(case)
        try:
            with limited(LONGER.get(case.probe, 1) * seconds):
                return call_at_once(case)
        except TimeUp as late:
            return Outcome(error="TimeUp", message=str(late))

    def call_at_once(case: Case) -> Outcome:
        host = Host()

        def real_value(value: Any) -> Any:
            if isinstance(value, Seed):
                return wire.generator(value.value, value.library)
            return host.make_proxy(value.make()) if isinstance(value, Lent) else value

        args = tensors.mapped(real_value, tensors.private_copy(list(case.args)))
        kwargs = tensors.mapped(real_value, tensors.private_copy(case.kwargs))
        fields = calling.call(function, args, kwargs, list(forbidden), case.probe, case.metered)
        host.close()
        fields |= {"arguments": tuple(fields["arguments"]), "cost": fields["cost"] or {}}
        return Outcome(**fields, asked=tuple(host.asked))

    return call


def watched_at_first(function: Function, forbidden: tuple[str, ...]) -> Candidate:
    """Return a candidate of ours, watched for forbidden calls only in its first call of each probe.

    The watch takes half of the time or more. A call in a branch that only later cases take is not seen, so
    students' code is always watched in full. The probe "trained", which takes longest, is never watched,
    since the other probes call the same model.
    """
    watched, unwatched, begun = local(function, forbidden), local(function), {"trained"}

    def call(case: Case) -> Outcome:
        chosen = unwatched if case.probe in begun else watched
        begun.add(case.probe)
        return chosen(case)

    return call


def run_case(call: Candidate, case: Case) -> Outcome:
    """Return the outcome of a case, or an outcome with the error "Unfit" where the call itself fails."""
    try:
        return _without_forward(call(case))
    except Exception as error:
        return Outcome(None, error="Unfit", message=describe_unjudged(error))


def _without_forward(outcome: Outcome) -> Outcome:
    """Return the outcome, with a message of ours where a module has no `forward`.

    Torch raises NotImplementedError for such a module, but the student's cell is not blank.
    """
    if not re.search(r'required "forward"|_forward_unimplemented', outcome.message):
        return outcome
    message = (
        "your class has no method `forward`, which is what runs when a module is called. Write "
        "`def forward(self, ...)` inside the class; if it is there, look at its spelling and its indentation"
    )
    return replace(outcome, error="Unfit", message=message)


def describe_unjudged(error: Exception) -> str:
    """Return the sentence that reports an error which prevented a comparison."""
    return f"{UNJUDGED}: {type(error).__name__}: {str(error)[:200]}"
