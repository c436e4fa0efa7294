"""Call the code under examination and bring back what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autograder.cage import calling, tensors, wire
from autograder.cage.remote_objects import Host
from autograder.checking.declaration import Case, Function, Lent, Outcome, Seed

Candidate = Callable[[Case], Outcome]
"""Calls the code under examination, wherever it runs."""

UNJUDGED = "what your code returned cannot be judged"
"""What a fault begins with when looking at an outcome failed: the student's oddity, or a fault of ours."""


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


def outcome_of(call: Candidate, case: Case) -> Outcome:
    """What came of a case; where it cannot even be measured, an error that says so."""
    try:
        return _without_forward(call(case))
    except Exception as error:
        return Outcome(None, error="Unfit", message=unjudged(error))


def _without_forward(outcome: Outcome) -> Outcome:
    """The outcome; torch's own NotImplementedError for a module without `forward` is no blank answer."""
    if not re.search(r'required "forward"|_forward_unimplemented', outcome.message):
        return outcome
    said = (
        "your class has no method `forward`, which is what runs when a module is called. Write "
        "`def forward(self, ...)` inside the class; if it is there, look at its spelling and its indentation"
    )
    return replace(outcome, error="Unfit", message=said)


def unjudged(error: Exception) -> str:
    return f"{UNJUDGED}: {type(error).__name__}: {str(error)[:200]}"
