"""Mutants: break the code on purpose, one way at a time, and see whether a check notices."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One fault that a person might make, and how to make it.

    Args:
        name: the fault in words, as a line of the table.
        target: what to replace, ``"package.module:name"`` or ``"package.module:Class.method"``.
        patch: given the right one, returns the wrong one.

    >>> import math
    >>> shifted = Mutant("one too many", "math:floor", lambda right: lambda x: right(x) + 1)
    >>> with shifted.applied():
    ...     print(math.floor(2.5))
    3
    >>> print(math.floor(2.5))
    2
    """

    name: str
    target: str
    patch: Callable[[Any], Any]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the target wherever a module holds it under its own name, and put it back at the end.

        Out of reach are other names (``import f as g``), default arguments, and tables filled at import.
        """
        owner, name, right = self._find()
        holders = [owner] if isinstance(owner, type) else _holders(name, right)
        wrong = self.patch(right)
        try:
            for holder in holders:
                setattr(holder, name, wrong)
            yield
        finally:
            for holder in holders:
                setattr(holder, name, right)

    @property
    def code(self) -> CodeType | None:
        """Return the code of the target, or None if it is not a function of Python."""
        right = self._find()[2]
        return getattr(inspect.unwrap(getattr(right, "__func__", right)), "__code__", None)

    def _find(self) -> tuple[Any, str, Any]:
        module_name, _, path = self.target.partition(":")
        *parents, name = path.split(".")
        try:
            owner = importlib.import_module(module_name)
            for parent in parents:
                owner = getattr(owner, parent)
            return owner, name, vars(owner)[name]
        except (ImportError, AttributeError, KeyError, ValueError) as error:
            raise ValueError(
                f"expected a target 'package.module:name' that exists, got {self.target!r}; "
                "name it where it is defined"
            ) from error


def kill_table(
    mutants: Iterable[Mutant], checks: Mapping[str, Callable[[], object]]
) -> dict[str, str | None]:
    """Run the checks under every mutant, and name the check that catches it.

    A check is a function that raises when something is wrong.

    Args:
        mutants: the faults to make, one at a time.
        checks: by name. They are tried until one raises: first those that call the target, each time the
            quickest first.

    Returns:
        For the name of each mutant the name of the first check that catches it, None for a survivor.

    Raises:
        ValueError: a check that fails on the unbroken code, or two mutants of one name.

    From: DeMillo, Lipton and Sayward (1978), *Hints on Test Data Selection*.

    >>> import math
    >>> faults = [Mutant("rounds up", "math:floor", lambda right: math.ceil)]
    >>> def whole(): assert math.floor(2.0) == 2
    >>> def half(): assert math.floor(2.5) == 2
    >>> checks = {"whole": whole, "half": half}
    >>> print(kill_table(faults, {"whole": whole}), kill_table(faults, checks))
    {'rounds up': None} {'rounds up': 'half'}
    """
    mutants = list(mutants)
    if len({mutant.name for mutant in mutants}) < len(mutants):
        raise ValueError(
            "expected mutants of different names, got one name twice; it is their line of the table"
        )
    called: dict[str, set[CodeType]] = {name: set() for name in checks}
    seconds = {}
    for name, check in checks.items():
        start = time.perf_counter()
        with _calls_noted_in(called[name]):
            if _first_failing({name: check}):
                raise ValueError(
                    f"expected checks that pass on the unbroken code, got {name!r} failing; correct it first"
                )
        seconds[name] = time.perf_counter() - start
    table = {}
    for mutant in mutants:
        code = mutant.code
        order = sorted(checks, key=lambda name: (code not in called[name], seconds[name]))
        with mutant.applied():
            table[mutant.name] = _first_failing({name: checks[name] for name in order})
    return table


def format_kill_table(table: Mapping[str, str | None]) -> str:
    """Write a table of :func:`kill_table` as lines, the survivors first.

    >>> print(format_kill_table({"no scale": "grid", "sign": None}))
    sign      SURVIVES
    no scale  grid
    """
    width = max(map(len, table), default=0)
    rows = sorted(table.items(), key=lambda row: row[1] is not None)
    return "\n".join(f"{name:{width}}  {caught_by or 'SURVIVES'}" for name, caught_by in rows)


@contextmanager
def _calls_noted_in(called: set[CodeType]) -> Iterator[None]:
    """Note the code of every function that is called."""
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        yield
    finally:
        sys.setprofile(before)


def _first_failing(checks: Mapping[str, Callable[[], object]]) -> str | None:
    for name, check in checks.items():
        try:
            check()
        except Exception:
            return name
    return None


def _holders(name: str, value: Any) -> list[Any]:
    """List the modules that hold the value under this name: where it is defined and who imported it."""
    return [m for m in list(sys.modules.values()) if getattr(m, "__dict__", {}).get(name) is value]
