"""Provide the functions that students call in a notebook: `check(softmax)` and `bring("softmax")`."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.checking.candidate import local
from autograder.checking.comparison import describe
from autograder.checking.declaration import Exercise, Function
from autograder.checking.examination import examine
from autograder.checking.report import Report
from autograder.course.visible import visible
from autograder.reading import forbidden_calls, needed_code
from autograder.reading.needed_code import Definition

PUBLIC_SEED = 2017
CALL_SECONDS = 20.0
"""The processor seconds for one call: more than the grader allows, since a student's machine may be slow."""
BROUGHT = "# Brought from your other notebooks. Read it, run it, and change what you like."
"""The first line of the cell that `bring` writes."""


def check(function: Function, exercise: str | None = None) -> Report:
    """Examine your function on the public cases, print the report and return it.

    Args:
        function: your function (or class), under the name that the notebook gives it.
        exercise: the exercise's name, if your function has another name.

    Raises:
        TypeError: `function` is not a function or a class.
        UnknownExerciseError: no exercise has that name.
        KeyboardInterrupt: you stopped the check.
    """
    if not callable(function):
        raise TypeError(
            f"check expects your function itself, as in check(softmax); it got {describe(function)}"
        )
    namespace = sys._getframe(1).f_globals
    declared = exercises.find(exercise or _name(function, namespace))
    try:
        report = _examined(declared, function)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "check was stopped. If it ran for a long time, see whether every loop in your code ends"
        ) from None
    if report.forbidden:
        written = _written(function, namespace, _not_allowed(declared))
        report = replace(report, note=forbidden_calls.describe_violation(report.forbidden, written))
    print(visible(report.wrapped()))
    return report


def _examined(exercise: Exercise, function: Function) -> Report:
    """Return the report on a function in the public cases."""
    with _one_thread():
        return examine(exercise, local(function, _not_allowed(exercise), CALL_SECONDS), PUBLIC_SEED)


def _not_allowed(exercise: Exercise) -> tuple[str, ...]:
    """Return the library calls that a student's function must not make."""
    return *exercise.forbidden, "tfcore"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread in the block: for the small tensors of the cases, more threads are slower."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 1
    try:
        if torch:
            torch.set_num_threads(1)
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


def _written(function: Function, namespace: dict[str, Any], calls: tuple[str, ...]) -> str | None:
    """Return the forbidden name as it is written in the student's cells, which IPython keeps in `In`."""
    cells = [cell for cell in namespace.get("In", ()) if isinstance(cell, str)]
    if not cells:
        with contextlib.suppress(OSError, TypeError):
            cells = [inspect.getsource(function)]
    imports = [f"import {v.__name__} as {n}" for n, v in namespace.items() if inspect.ismodule(v)]
    return forbidden_calls.find([*imports, *cells], getattr(function, "__name__", ""), calls)


def _name(function: Function, namespace: dict[str, Any]) -> str:
    """Return a function's name in the exercises: its own name, or a name that the notebook assigned it to."""
    known = {name.split("/")[1] for name in exercises.names()}
    own_name = str(getattr(function, "__name__", type(function).__name__))
    bound = [name for name, value in namespace.items() if value is function and name in known]
    return own_name if own_name in known or not bound else bound[0]


@dataclass(frozen=True)
class Brought:
    """A function for the cell of `bring`: all its definitions, by name, and why it is not the student's."""

    exercise: Exercise
    code: dict[str, Definition]
    why_ours: str

    @property
    def whose(self) -> str:
        return "ours" if self.why_ours else f"yours, from {self.exercise.assignment}"


def bring(*names: str, again: bool = False) -> None:
    """Bring functions of earlier notebooks into this one: yours where they pass, ours for the rest.

    They are defined at once, and a new cell below shows their source.

    Args:
        names: the functions, such as "apply_rope".
        again: write the cell once more, after you have deleted it.

    Raises:
        UnknownExerciseError: no exercise has one of the names.
    """
    namespace = sys._getframe(1).f_globals
    wanted = [exercises.find(name) for name in names]
    if not again and _defined_before({exercise.function_name for exercise in wanted}, namespace):
        print("They are here already, from a cell that begins with # Brought. To write it again,")
        print("delete that cell and call bring(..., again=True).")
        return
    brought: list[Brought] = []
    for exercise in wanted:
        taken = {name: each for one in brought for name, each in one.code.items()}
        elsewhere = {e.function_name for e in wanted if e.assignment != exercise.assignment}
        brought.append(_yours_or_ours(exercise, taken, elsewhere))
    text = _cell(brought)
    exec(compile(text, "<brought>", "exec"), namespace)
    before = namespace.get("_brought", set())
    namespace["_brought"] = before | {each.exercise.function_name for each in brought}
    for each in brought:
        why = f", since {each.why_ours}" if each.why_ours else ""
        print(f"{each.exercise.function_name}: {each.whose}{why}")
    if shell := _shell():
        shell.set_next_input(text, replace=False)
        print("They are defined now. The new cell below shows their source, to be read and changed.")


def _cell(brought: list[Brought]) -> str:
    """Return the text of the cell: the imports, then each function with its helpers, each text once."""
    imports = {each.text for one in brought for each in one.code.values() if each.is_import}
    parts = ["\n".join([BROUGHT, *sorted(imports)])]
    written = set(imports)
    for one in brought:
        new = dict.fromkeys(each.text for each in one.code.values() if each.text not in written)
        if new:  # else it was brought already, with a function that needs it
            first, *more = new
            parts += [f"# {one.whose}\n{first}", *more]
            written |= {first, *more}
    return "\n\n\n".join(parts) + "\n"


def _shell() -> Any:
    """Return IPython's shell; None outside of a notebook."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython else None


def _defined_before(wanted: set[str], namespace: dict[str, Any]) -> bool:
    """Return whether these functions are here already; define them if a saved cell holds them.

    An earlier call has brought them, or a cell that begins with `# Brought` in a notebook of this folder.
    """
    if wanted <= namespace.get("_brought", set()):
        return True
    for cell in (cell for path in Path.cwd().glob("*.ipynb") for cell in _code_cells(path) or ()):
        known = needed_code.definitions([cell]) if cell.startswith(BROUGHT) else {}
        if wanted <= known.keys():
            needed = [each.text for name in wanted for each in needed_code.with_needs(name, known).values()]
            with contextlib.suppress(Exception):  # an import of this cell is missing here: try the next cell
                exec(compile("\n".join(needed), "<brought>", "exec"), namespace)
                return True
    return False


def _code_cells(path: Path) -> list[str] | None:
    """Return the texts of a notebook's code cells; None if it cannot be read."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _yours_or_ours(exercise: Exercise, taken: dict[str, Definition], elsewhere: set[str]) -> Brought:
    """Return the student's function if it passes its check and fits beside the others, or else ours.

    Args:
        exercise: the exercise.
        taken: the definitions that are taken already.
        elsewhere: functions that are brought from other notebooks.
    """
    code, why_ours = _yours(exercise)
    clashes = [
        name
        for name, each in code.items()
        if name in elsewhere or (name in taken and not _same(each, taken[name]))
    ]
    why_ours = why_ours or (f"yours needs a `{clashes[0]}` of its own" if clashes else "")
    if why_ours:
        answer = exercise.styles[0].pasted(exercise.function_name)
        code = needed_code.with_needs(exercise.function_name, needed_code.definitions([answer]))
    return Brought(exercise, code, why_ours)


def _same(one: Definition, other: Definition) -> bool:
    """Return whether two definitions of a name are the same: one text, or imports of one thing."""
    if not (one.is_import and other.is_import):
        return one.text == other.text
    spaces: list[dict[str, Any]] = [{}, {}]
    with contextlib.suppress(ImportError):
        for each, space in zip((one, other), spaces, strict=True):
            exec(each.text, space)
            del space["__builtins__"]
        return bool(spaces[0] == spaces[1])
    return False


def _yours(exercise: Exercise) -> tuple[dict[str, Definition], str]:
    """Return the student's function with all that it needs, and why it cannot be taken; "" if it can."""
    here, folder = Path.cwd(), exercise.assignment
    places = (here.parent / folder, here / folder, here)
    path = next((p for place in places if (p := place / f"{folder}.ipynb").is_file()), None)
    if path is None:
        return {}, f"{folder}.ipynb is not beside this notebook"
    cells = _code_cells(path)
    if cells is None:
        return {}, f"{folder}.ipynb cannot be read"
    name = exercise.function_name
    code = needed_code.with_needs(name, needed_code.definitions(cells))
    if not code:
        written = any(re.search(rf"^(def|class) {name}\b", cell, re.MULTILINE) for cell in cells)
        return {}, "your cell has a SyntaxError" if written else f"{folder}.ipynb does not define it"
    return code, _why_not(exercise, "\n".join(dict.fromkeys(each.text for each in code.values())))


def _why_not(exercise: Exercise, text: str) -> str:
    """Return why the student's function, made by this text, cannot be taken; "" if it passes its check."""
    space: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(text, "<yours>", "exec"), space)
    except Exception as error:
        return f"yours fails with a {type(error).__name__}"
    report = _examined(exercise, space[exercise.function_name])
    if report.passed:
        return ""
    if report.status == "blank":
        return "yours is not written yet"
    return f"yours has {report.score:g} of {report.max_score:g} points"
