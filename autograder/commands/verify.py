"""Define the command ``autograder verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands import tables
from autograder.commands.console import out, print_json, progress
from autograder.commands.options import (
    NOT_PASSED,
    CourseFolder,
    Json,
    Workers,
    examples,
)
from autograder.course.errors import BadInputError
from autograder.course.layout import Course

EPILOG = examples(
    "autograder verify ch02_qkv",
    "autograder verify ch02_qkv/softmax",
    "autograder verify --json > proof.json",
    "autograder verify ch02_qkv/softmax --mutants 200 --seed 1",
)


def verify(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            help="Assignments, such as ch02_qkv, or exercises, such as ch02_qkv/softmax; all by default. The "
            "notebooks of an assignment are graded too, unless you name single exercises.",
            show_default=False,
        ),
    ] = None,
    mutants: Annotated[
        int | None,
        typer.Option(
            help="Grade this many right answers with one fault each, instead of the known answers.",
            min=1,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of the hidden cases and the mutants. By default the cases use the course's secret "
            "seed, if the course has one, and the mutants use 0.",
            min=0,
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            help="Write the kill matrix, or the figures of the mutants, to this page. Other assignments in "
            "an existing kill matrix stay as they are.",
        ),
    ] = None,
    caged: Annotated[
        int | None,
        typer.Option(
            help="Grade only this number of mistakes and of right answers of each exercise in the sandbox, "
            "drawn by the seed. `check` still examines all answers.",
            show_default="all",
            min=1,
        ),
    ] = None,
    workers: Workers = None,
    course: CourseFolder = Path(),
    as_json: Json = False,
) -> None:
    """Check that each known mistake is rejected and named, and each known right answer accepted.

    Exit with status 1 unless the grader and `check` reject every mistake and `check` names it, every right
    answer is accepted, every solution notebook gets full marks and every blank notebook none. With --mutants
    exit with status 1 if the grader accepts a mutant that is not in the list of right mutants.
    """
    if mutants is not None:
        if caged is not None:
            raise BadInputError("--caged does not apply to --mutants. Leave out one of them.")
        _verify_mutants(chosen or [], mutants, seed or 0, page, workers, as_json)
    else:
        _verify_bank(Course.at(course), chosen or [], seed, page, caged, workers, as_json)


def _verify_bank(
    course: Course,
    chosen: list[str],
    seed: int | None,
    page: Path | None,
    caged: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    from autograder import exercises
    from autograder.course.files import read_if_there, read_seed, write_if_changed
    from autograder.proof import kill_matrix
    from autograder.proof.verify import HIDDEN_SEED, Proof, try_all, try_notebooks

    names = exercises.names_chosen(chosen)
    whole = [name for name in exercises.assignments() if not chosen or name in chosen]
    if page and not {name.split("/")[0] for name in names} <= set(whole):
        raise BadInputError("--page needs whole assignments. Name the assignment, not one of its exercises.")
    secret = read_seed(course.state)
    hidden = seed if seed is not None else HIDDEN_SEED if secret is None else secret
    with progress("verifying the bank") as show_progress:
        proof = Proof(try_all(names, hidden, show_progress, workers, caged))
    pairs = {assignment: _solved_and_blank(course, assignment) for assignment in whole}
    with progress("verifying the notebooks"):
        proof.notebooks = list(try_notebooks(pairs, hidden, workers))
    if page:
        before = (read_if_there(page) or b"").decode("utf-8", "replace")
        write_if_changed(page, kill_matrix.page(proof, before).encode())
    if as_json:
        print_json({**proof.as_dict(), "matrix": proof.matrix()})
    else:
        tables.proof(proof, out)
    raise typer.Exit(0 if proof.holds else NOT_PASSED)


def _solved_and_blank(course: Course, assignment: str) -> list[tuple[bytes, bytes]]:
    """Return (solution, release) for each notebook of an assignment; no pair if the course lacks it."""
    from autograder.release import publish

    if assignment not in course.assignments:
        return []
    folder = course.solutions / assignment
    return [
        ((folder / f"{name}.ipynb").read_bytes(), released)
        for name, released in publish.notebooks(course, assignment).items()
    ]


def _verify_mutants(
    chosen: list[str], number: int, seed: int, page: Path | None, workers: int | None, as_json: bool
) -> None:
    from autograder import exercises
    from autograder.course.files import write_if_changed
    from autograder.proof.mutation import pages, trials

    names = exercises.names_chosen(chosen)
    with progress("grading mutants") as show_progress:
        tried = trials.try_mutants(names, number, seed, show_progress, workers)
    if page:
        write_if_changed(page, pages.page(trials.by_assignment(tried), number, seed).encode())
    if as_json:
        print_json(trials.as_dict(tried))
    else:
        tables.mutants(tried, out)
    raise typer.Exit(NOT_PASSED if any(trial.fails_the_run for trial in tried) else 0)
