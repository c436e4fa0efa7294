"""Grade one submission: drive the child over the wire and decide how many points its answers get.

The judge knows the exercises and the secret seed and never runs a line of a student's code. It is started as
a module by `autograder.grading.pair` with the number of its control socket and the folder of its pair. It
forks for each submission, so that nothing passes from one student to the next. Before it forks, it computes
the right results with which all submissions are compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import gc
import importlib
import os
import re
import resource
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.cage import limits, scratch_dir, wire
from autograder.checking.candidate import UNJUDGED, local
from autograder.checking.declaration import Exercise
from autograder.checking.examination import Examination
from autograder.checking.report import Report
from autograder.course.cells import grade_id_of, marks_of, text_of
from autograder.course.remark import Remark
from autograder.grading import matching
from autograder.grading.session import OVERHEAD_SECONDS, Limits, Session
from autograder.grading.verdict import CellVerdict, Verdict
from autograder.reading import forbidden_calls, tampering

Cell = dict[str, Any]

MEMORY = 4 << 30
LONGEST_CELL = 256 << 10
"""The most characters of a cell that is run."""

REMARKS = 8
"""The most remarks on the code of a submission that a teacher sees."""

FREQUENT = 15
"""From this number of failed reports on an exercise on, the results of all its mistakes are computed once for
all submissions. Before, each fork computes the few that it needs, which takes less time in all."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    gc.freeze()
    wire.send(control, {"ready": os.getpid()})
    failed: Counter[str] = Counter()
    known = ""
    while True:
        tag, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not tag:  # the driver is gone; it would have ended us before it removed this
            scratch_dir.remove(Path(sys.argv[2]))
            return
        task = wire.receive(control)
        requested = task.get("assignment") or task["exercise"]
        if requested != known:  # tasks are sorted, so the results for others would only take memory
            known = requested
            _prepare.cache_clear()
            examination.cache_clear()
            failed.clear()
        _prepare(requested, task["seed"], b"import torch" in task["submission"].tobytes())
        _learn(task["failed_before"], task["seed"], failed)
        pid = os.fork()
        if pid == 0:
            try:
                gc.disable()  # a fork that soon ends keeps its garbage
                _limit_resources(task["limits"])
                _grade_and_send(control, task, socket.socket(fileno=descriptors[0]))
                os._exit(0)
            finally:
                os._exit(1)
        os.close(descriptors[0])
        _, status = os.waitpid(pid, 0)
        if status:
            _send_verdict(
                control, Verdict("failed", note="the judge of this submission ended without a verdict")
            )


@cache
def _prepare(requested: str, seed: int, torch: bool) -> None:
    """Import the requested exercises once for all forks, and torch, which chapters 1 to 3 do not need.

    Then compute the right results, which nearly all submissions are compared with.
    """
    gc.disable()  # garbage collection is nearly a third of the time of torch's import
    with contextlib.suppress(Exception):  # the fork raises it again and reports it
        if torch:
            importlib.import_module("torch")
        for name in exercises.names_chosen([requested]):
            examination(name, seed).oracle.compute_expected()
    gc.freeze()
    gc.enable()


def _learn(failed_before: Sequence[tuple[str, str, str]], seed: int, failed: Counter[str]) -> None:
    """Count the failed reports, and compute once what many failed reports on an exercise need."""
    for name in {name for name, _, _ in failed_before}:
        failed[name] += 1
        if failed[name] == FREQUENT:
            examination(name, seed).oracle.compute_mistaken()
            gc.freeze()
    for name, mistake, criterion in failed_before:
        if failed[name] >= FREQUENT:
            examination(name, seed).learn(mistake, criterion)


def warm_up() -> None:
    """Explain a mistake, so that all imports of an explanation are done before the first submission."""
    exercise = exercises.find(exercises.names()[0])
    Examination(exercise, seed=0).report_on(local(exercise.misconceptions[0].function))
    forbidden_calls.statements("%matplotlib inline")


def _limit_resources(requested: dict[str, Any]) -> None:
    """Limit the memory and the processor time of this fork, whatever the submission sends."""
    limits.lower(resource.RLIMIT_DATA, MEMORY + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    limits.lower(resource.RLIMIT_CPU, int(requested["total_seconds"]) + OVERHEAD_SECONDS)


@cache
def examination(name: str, seed: int) -> Examination:
    """Return the examination of an exercise under a seed; a fork inherits its cached results."""
    return Examination(exercises.find(name), seed)


def _grade_and_send(control: socket.socket, task: dict[str, Any], sock: socket.socket) -> None:
    try:
        verdict = grade(task, sock)
    except Exception:
        verdict = Verdict("failed", note=f"the grader itself failed:\n{traceback.format_exc()}")
    try:
        _send_verdict(control, verdict)
    except wire.WireError as error:
        note = f"its graded notebook cannot be stored ({error}); ask for it with less text and fewer pictures"
        _send_verdict(control, Verdict("unreadable", note=note))


def _send_verdict(control: socket.socket, verdict: Verdict) -> None:
    wire.send(control, {"verdict": wire.json_to_array(verdict.as_dict())})


def grade(task: dict[str, Any], sock: socket.socket) -> Verdict:
    """Return the verdict on a task: a notebook of an assignment, or a file with one answer."""
    session = Session(sock, Limits(**task["limits"]))
    data = task["submission"].tobytes()
    try:
        if "assignment" in task:
            released = wire.json_from_array(task["released"])
            known = [CellVerdict.from_dict(cell) for cell in wire.json_from_array(task["known"])]
            return grade_notebook(session, task["assignment"], released, data, task["seed"], known)
        exercise = exercises.find(task["exercise"])
        return grade_file(session, exercise, data, task["is_notebook"], task["seed"], task["shrinking"])
    except matching.UnreadableError as error:
        return Verdict("unreadable", note=str(error))


def grade_file(
    session: Session, exercise: Exercise, data: bytes, is_notebook: bool, seed: int, shrinking: bool
) -> Verdict:
    """Return the verdict on one function in a file; its cells or its whole text run after the given code."""
    if is_notebook:
        sources = [c["source"] for c in matching.read_notebook(data)["cells"] if c["cell_type"] == "code"]
    else:
        try:
            sources = [data.decode("utf-8-sig")]
        except UnicodeDecodeError as error:
            raise matching.UnreadableError(f"the file is not UTF-8 text ({error})") from error
        session.run("__file__ = 'answer.py'")
    _define_what_is_brought(session, [exercise])
    if exercise.given:
        session.run(exercise.given_source)
    ran = [session.run(source) for source in sources]
    where = "A cell" if is_notebook else "The file"
    errors = [f"{where} failed before that: {r.message}" for r in ran if r.error]
    if any(r.error == "ModuleNotFoundError" for r in ran):
        errors.append(f"{errors[-1]}. The grader has this file alone, without your other files")
    report = judge_exercise(session, exercise, sources, seed, errors, shrinking)
    cell = CellVerdict(exercise.function_name, report.score, report.max_score, report)
    return Verdict("graded", cells=(cell,))


def _define_what_is_brought(session: Session, declared: Iterable[Exercise]) -> None:
    """Define our answers of earlier notebooks; the student's own, if they are brought, replace them later."""
    for source in dict.fromkeys(exercise.brought_source for exercise in declared if exercise.brings):
        session.run(source)


def grade_notebook(
    session: Session,
    assignment: str,
    released: dict[str, Any],
    data: bytes,
    seed: int,
    known: Sequence[CellVerdict] = (),
) -> Verdict:
    """Return the verdict on a notebook: run its cells in order, examine each exercise at its test cell.

    A known verdict on an exercise is used again, unless it depends on other exercises: the kernel was lost in
    another exercise, or the report names an earlier answer.

    Args:
        session: the connection to the child.
        assignment: the name of the assignment.
        released: the released notebook.
        data: the bytes of the submitted notebook.
        seed: draws the hidden cases.
        known: verdicts on exercises that have not changed since the same notebook was graded.
    """
    reusable = {cell.grade_id: cell for cell in known if cell.report and _is_independent(cell.report)}
    tested = map(exercises.find, exercises.names_tested_by(released, assignment))
    declared = {exercise.function_name: exercise for exercise in tested}
    for cell in released["cells"]:
        cell["source"] = text_of(cell["source"])
    matched = matching.match(released["cells"], matching.read_notebook(data)["cells"])
    _define_what_is_brought(session, declared.values())
    session.run((sources := [matching.imports(released["cells"])])[0])
    errors: list[str] = []
    verdicts: dict[str, CellVerdict] = {}
    for cell in matched.cells:
        marks, saved = marks_of(cell), cell.pop("outputs", [])
        if cell["cell_type"] == "code":
            cell["outputs"] = []
        if marks.get("grade") and not marks.get("solution"):
            if (name := marks["grade_id"]) in reusable:
                verdicts[name] = reusable[name]
                continue
            report = judge_exercise(session, declared[name], sources, seed, errors)
            report = _name_earlier_mistake(report, sources, verdicts)
            verdicts[name] = CellVerdict(name, report.score, report.max_score, report)
        elif cell["cell_type"] == "code" and len(cell["source"]) > LONGEST_CELL:
            too_long = (
                f"a cell of {len(cell['source']):,} characters was not run; the limit is {LONGEST_CELL:,}"
            )
            matched.notes.append(too_long)
            errors.append(f"One of your cells is too long: {too_long}")
        elif cell["cell_type"] == "code" and cell["source"].strip():
            ran = session.run(cell["source"], saved)
            sources.append(cell["source"])
            cell["outputs"] = list(ran.outputs)
            if ran.error:
                errors.append(f"A cell failed before that: {ran.message}")
                cell["outputs"].append(_error_output(ran.error, ran.message))
    _examine_late_definitions(session, declared, sources, seed, verdicts)
    _write_scores(matched.cells, verdicts)
    manual = [
        CellVerdict(marks["grade_id"], None, float(marks["points"]))
        for cell in matched.cells
        if (marks := marks_of(cell)).get("grade") and marks.get("solution")
    ]
    remarks = _remarks(matched, released["cells"], verdicts, session.dead)
    notebook = {
        "cells": [{"id": f"cell-{i}", **cell} for i, cell in enumerate(matched.cells)],
        "metadata": released["metadata"],
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return Verdict("graded", cells=(*verdicts.values(), *manual), notebook=notebook, remarks=remarks)


def _remarks(
    matched: matching.Matched, released: list[Cell], verdicts: dict[str, CellVerdict], lost: str | None
) -> tuple[Remark, ...]:
    """Return the remarks for the teacher on cells, exercises, a lost process and the code."""
    unjudged = [
        f"{verdict.grade_id} could not be judged; check whether this is the grader's fault: {failure.fault}"
        for verdict in verdicts.values()
        for failure in (verdict.report.failures if verdict.report else ())
        if failure.fault.startswith(UNJUDGED)
    ]
    answers = {f"{name}_answer": name for name in verdicts}
    ran = [
        tampering.Cell(cell["source"], number, answers.get(grade_id_of(cell), ""))
        for number, cell in enumerate(matched.cells, 1)
        if cell["cell_type"] == "code" and len(cell["source"]) <= LONGEST_CELL
    ]
    try:
        on_code = tampering.remarks(ran, list(verdicts), {cell["source"] for cell in released})
    except RecursionError:  # cells that are nested so deeply earn no points
        on_code = []
    return (
        *map(Remark, [*matched.notes, *unjudged]),
        *([Remark(f"the kernel was lost: {lost}", "stopped")] if lost else []),
        *on_code[:REMARKS],
    )


def judge_exercise(
    session: Session,
    exercise: Exercise,
    sources: list[str],
    seed: int,
    errors: list[str],
    shrinking: bool = True,
) -> Report:
    """Return the report on one exercise, in the state of the notebook after the cells in `sources`."""
    calls = (*exercise.forbidden, "tfcore")
    try:
        call = forbidden_calls.find(sources, exercise.function_name, calls)
    except RecursionError:
        note = "Your code is nested too deeply for the grader. Write it with fewer brackets or branches."
        return Report.without_points(exercise, "stopped", note)
    if call:
        return Report.without_points(
            exercise, "forbidden", forbidden_calls.describe_violation(call), forbidden=call
        )
    report = examination(exercise.name, seed).report_on(
        session.candidate(exercise.function_name, calls), shrinking
    )
    if report.status == "missing" and (other := _other_name(exercise.function_name, sources[-1])):
        advice = f"Your code defines `{other}`: give it the name `{exercise.function_name}`."
        return Report.without_points(exercise, "missing", f"{report.note} {advice}")
    if not errors:
        return report
    if report.status == "missing":
        return Report.without_points(exercise, "missing", f"{report.note} {errors[-1]}")
    if report.failures and "NameError" in report.failures[0].fault:
        return dataclasses.replace(report, note=errors[-1])
    return report


def _other_name(name: str, cell: str) -> str | None:
    """Return the name that a cell defines and that is most like `name`, no exercise's own, or None."""
    asked = {each.rpartition("/")[2] for each in exercises.names()}
    defined = [
        other for other in re.findall(r"^(?:def|class) (\w+)", cell, re.MULTILINE) if other not in asked
    ]
    return next(iter(difflib.get_close_matches(name, defined, 1)), None)


USES_YOUR = "It uses your"


def _is_independent(report: Report) -> bool:
    return report.status in ("examined", "forbidden", "blank") and not report.note.startswith(USES_YOUR)


def _name_earlier_mistake(report: Report, sources: list[str], before: dict[str, CellVerdict]) -> Report:
    """Add a note to a failed report if the function uses an earlier answer that is wrong, a possible cause.

    A mistake that the earlier answer does not make is not caused by it, so its report gets no note.
    """
    if report.passed or report.status not in ("examined", "forbidden"):
        return report
    used = forbidden_calls.uses(sources, report.exercise.split("/")[-1])
    wrong = {
        name: v.report for name, v in before.items() if name in used and v.report and not v.report.passed
    }
    for name, earlier in wrong.items():
        if report.forbidden and earlier.forbidden == report.forbidden:
            why = f"which calls `{report.forbidden}`: write `{name}` without this call first."
            note = f"{USES_YOUR} `{name}`, {why}"
            return dataclasses.replace(report, note=note)
    if report.note:
        return report
    if not wrong or report.diagnosis not in (None, *(earlier.diagnosis for earlier in wrong.values())):
        return report
    names = " and ".join(f"`{name}`" for name in wrong)
    state, them = ("is", "it") if len(wrong) == 1 else ("are", "them")
    note = f"{USES_YOUR} {names}, which {state} not right yet: correct {them} first."
    return dataclasses.replace(report, note=note)


def _lacks_a_name(report: Report) -> bool:
    """Return whether the function, or a function that it calls, may be defined in a later cell."""
    return report.status == "missing" or any("NameError" in failure.fault for failure in report.failures)


def _examine_late_definitions(
    session: Session,
    declared: dict[str, Exercise],
    sources: list[str],
    seed: int,
    verdicts: dict[str, CellVerdict],
) -> None:
    """Examine again, after the last cell, the functions that may be defined after their test cell."""
    for grade_id, verdict in verdicts.items():
        if verdict.report and _lacks_a_name(verdict.report) and not session.dead:
            report = judge_exercise(session, declared[grade_id], sources, seed, [])
            is_defined = verdict.report.status == "missing" != report.status
            if is_defined or report.score > verdict.report.score:
                verdicts[grade_id] = CellVerdict(grade_id, report.score, report.max_score, report)


def _write_scores(cells: list[Cell], verdicts: dict[str, CellVerdict]) -> None:
    """Write into each test cell its one output, which nbgrader reads as the score."""
    for cell in cells:
        verdict = verdicts.get(grade_id_of(cell))
        if verdict and verdict.report and cell["cell_type"] == "code":
            data = {"text/plain": f"{verdict.report.score:g}", "text/html": verdict.report._repr_html_()}
            cell["execution_count"] = 1
            cell["outputs"] = [
                {"output_type": "execute_result", "execution_count": 1, "data": data, "metadata": {}}
            ]


def _error_output(name: str, message: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": message, "traceback": [message]}


if __name__ == "__main__":
    main()
