"""Grades one submission: drives the child over the wire and decides what its answers are worth.

The judge knows the exercises and the secret seed and never runs a line of a student's code. It is started as
a module by `autograder.grading.pair` with the number of its control socket and the folder of its pair, and
forks for each submission, so that nothing passes from one student to the next. What all of them are compared
with, the judge finds before it forks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import os
import resource
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.cage import huge_pages, limits, scratch_dir, wire
from autograder.checking.candidate import UNJUDGED, local
from autograder.checking.declaration import Exercise
from autograder.checking.examination import Examination
from autograder.checking.report import Report
from autograder.course.remark import Remark
from autograder.grading import matching
from autograder.grading.session import Limits, Session
from autograder.grading.verdict import CellVerdict, Verdict
from autograder.reading import forbidden_calls, tampering

Cell = dict[str, Any]

MEMORY = 4 << 30
OVERHEAD_SECONDS = 60
LONGEST_CELL = 256 << 10
"""Characters of a cell that is still run."""

REMARKS = 8
"""So many remarks on the code of a submission reach the teacher."""

A_CLASS = 2
"""From so many notebooks of an assignment on, what its bank does is found once for all of them, and what was
found for another is forgotten."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    explain_once()
    huge_pages.prepare_forks()
    wire.send(control, {"ready": os.getpid()})
    handed_in: Counter[str] = Counter()
    while True:
        tag, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not tag:  # the driver is gone; it would have ended us before it removed this
            scratch_dir.remove(Path(sys.argv[2]))
            return
        task = wire.receive(control)
        asked = task.get("assignment") or task["exercise"]
        _import_what_is_needed(asked, b"import torch" in task["submission"].tobytes())
        handed_in[asked] += 1
        if handed_in[asked] == A_CLASS:
            handed_in = Counter({asked: A_CLASS})
            examination.cache_clear()
            for name in _asked_for(asked):
                examination(name, task["seed"]).oracle.prepare()
            huge_pages.prepare_forks()
        if handed_in[asked] >= A_CLASS:
            for name, mistake, criterion in task["made_before"]:
                if _is_of(asked, name):
                    examination(name, task["seed"]).learn(mistake, criterion)
        pid = os.fork()
        if pid == 0:
            try:
                _limit(task["limits"])
                _answer(control, task, socket.socket(fileno=descriptors[0]))
                os._exit(0)
            finally:
                os._exit(1)
        os.close(descriptors[0])
        _, status = os.waitpid(pid, 0)
        if status:
            _tell(control, Verdict("failed", note="the judge of this submission ended without a verdict"))


def _is_of(asked: str, exercise: str) -> bool:
    return asked in (exercise, exercise.split("/")[0])


def _asked_for(asked: str) -> list[str]:
    return [name for name in exercises.names() if _is_of(asked, name)]


@cache
def _import_what_is_needed(asked: str, torch: bool) -> None:
    """Imports the exercises asked for, and torch, once for all forks: chapters 1 to 3 do without it."""
    gc.disable()  # nearly a third of the time that torch takes is else spent looking for garbage in it
    with contextlib.suppress(Exception):  # the fork meets it again, and tells
        for name in _asked_for(asked):
            exercises.find(name)
        if torch:
            importlib.import_module("torch")
    huge_pages.prepare_forks()
    gc.enable()


def explain_once() -> None:
    """Explains a mistake, so that no submission pays for what only the first one imports."""
    exercise = exercises.find(exercises.names()[0])
    Examination(exercise, seed=0).report_on(local(exercise.misconceptions[0].function))
    forbidden_calls.statements("%matplotlib inline")


def _limit(asked: dict[str, Any]) -> None:
    """What judging one submission may take, whatever it sends: of memory, and of processor time."""
    limits.lower(resource.RLIMIT_DATA, MEMORY + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    limits.lower(resource.RLIMIT_CPU, int(asked["total_seconds"]) + OVERHEAD_SECONDS)


@cache
def examination(name: str, seed: int) -> Examination:
    """The examination of an exercise under a seed; a fork inherits what has been found already."""
    return Examination(exercises.find(name), seed)


def _answer(control: socket.socket, task: dict[str, Any], sock: socket.socket) -> None:
    try:
        verdict = grade(task, sock)
    except Exception:
        verdict = Verdict("failed", note=f"the grader itself failed:\n{traceback.format_exc()}")
    try:
        _tell(control, verdict)
    except wire.WireError as error:
        note = f"its graded notebook cannot be kept ({error}); ask for it with less text and fewer pictures"
        _tell(control, Verdict("unreadable", note=note))


def _tell(control: socket.socket, verdict: Verdict) -> None:
    wire.send(control, {"verdict": wire.json_to_array(verdict.as_dict())})


def grade(task: dict[str, Any], sock: socket.socket) -> Verdict:
    """The verdict on a task: a notebook of an assignment, or a file with the answer to one exercise."""
    session = Session(sock, Limits(**task["limits"]))
    data = task["submission"].tobytes()
    try:
        if task["kind"] == "notebook":
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
    """The verdict on one function in a plain file: its cells, or its whole text, run after what is given."""
    if is_notebook:
        sources = [c["source"] for c in matching.read_notebook(data)["cells"] if c["cell_type"] == "code"]
    else:
        try:
            sources = [data.decode("utf-8-sig")]
        except UnicodeDecodeError as error:
            raise matching.UnreadableError(f"the file is not UTF-8 text ({error})") from error
        session.run("__file__ = 'answer.py'")
    if exercise.given:
        session.run(exercise.given_source)
    ran = [session.run(source) for source in sources]
    where = "A cell" if is_notebook else "The file"
    troubles = [f"{where} failed before that: {r.message}" for r in ran if r.error]
    if any(r.error == "ModuleNotFoundError" for r in ran):
        troubles.append(f"{troubles[-1]}. It is graded by itself, without other files of yours")
    report = judge_exercise(session, exercise, sources, seed, troubles, shrinking)
    cell = CellVerdict(exercise.function_name, report.score, report.max_score, report)
    return Verdict("graded", cells=(cell,))


def grade_notebook(
    session: Session,
    assignment: str,
    released: dict[str, Any],
    data: bytes,
    seed: int,
    known: Sequence[CellVerdict] = (),
) -> Verdict:
    """The verdict on a submitted notebook: cells run in order, each exercise examined at its test cell.

    What is known of an exercise stands, unless it speaks of others: the kernel was lost in one of them, or it
    rests on one.
    """
    standing = {cell.grade_id: cell for cell in known if cell.report and _speaks_for_itself(cell.report)}
    declared = {e.function_name: e for e in exercises.of_assignment(assignment)}
    for cell in released["cells"]:
        cell["source"] = matching.joined(cell["source"])
    matched = matching.match(released["cells"], matching.read_notebook(data)["cells"])
    sources = [matching.imports(released["cells"])]
    session.run(sources[0])
    troubles: list[str] = []
    verdicts: dict[str, CellVerdict] = {}
    for cell in matched.cells:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade") and not marks.get("solution"):
            if marks["grade_id"] in standing:
                verdicts[marks["grade_id"]] = standing[marks["grade_id"]]
                continue
            exercise = declared[marks["grade_id"]]
            report = judge_exercise(session, exercise, sources, seed, troubles)
            report = _inherited(report, sources, verdicts)
            verdicts[marks["grade_id"]] = CellVerdict(
                marks["grade_id"], report.score, report.max_score, report
            )
        elif cell["cell_type"] == "code" and len(cell["source"]) > LONGEST_CELL:
            too_long = (
                f"a cell of {len(cell['source']):,} characters was not run; {LONGEST_CELL:,} are at most"
            )
            matched.notes.append(too_long)
            troubles.append(f"Of your cells, {too_long}")
        elif cell["cell_type"] == "code" and cell["source"].strip():
            ran = session.run(cell["source"])
            sources.append(cell["source"])
            cell["outputs"] = list(ran.outputs)
            if ran.error:
                troubles.append(f"A cell failed before that: {ran.message}")
                cell["outputs"].append(_error_output(ran.error, ran.message))
    _examine_the_undefined(session, declared, sources, seed, verdicts)
    _fill_in(matched.cells, verdicts)
    manual = [
        CellVerdict(marks["grade_id"], None, float(marks["points"]))
        for cell in matched.cells
        if (marks := cell["metadata"].get("nbgrader", {})).get("grade") and marks.get("solution")
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
    """Return what the teacher should know: of cells, of exercises, of a lost process and of the code."""
    unjudged = [
        f"{verdict.grade_id} could not be judged; look whether that is the grader's fault: {failure.fault}"
        for verdict in verdicts.values()
        for failure in (verdict.report.failures if verdict.report else ())
        if failure.fault.startswith(UNJUDGED)
    ]
    answers = {f"{name}_answer": name for name in verdicts}
    ran = [
        tampering.Cell(cell["source"], number, answers.get(_grade_id(cell), ""))
        for number, cell in enumerate(matched.cells, 1)
        if cell["cell_type"] == "code" and len(cell["source"]) <= LONGEST_CELL
    ]
    try:
        found = tampering.remarks(ran, list(verdicts), {cell["source"] for cell in released})
    except RecursionError:  # nothing is earned with cells that are nested so deeply
        found = []
    return (
        *map(Remark, [*matched.notes, *unjudged]),
        *([Remark(f"the kernel was lost: {lost}", "stopped")] if lost else []),
        *found[:REMARKS],
    )


def judge_exercise(
    session: Session,
    exercise: Exercise,
    sources: list[str],
    seed: int,
    troubles: list[str],
    shrinking: bool = True,
) -> Report:
    """The report on one exercise, as the notebook stands after the cells in `sources`."""
    calls = (*exercise.forbidden, "tfcore")
    try:
        found = forbidden_calls.find(sources, exercise.function_name, calls)
    except RecursionError:
        note = "Your code is nested more deeply than can be read. Write it with fewer brackets or branches."
        return Report.without_points(exercise, "stopped", note)
    if found:
        return Report.without_points(
            exercise, "forbidden", forbidden_calls.describe_violation(found), forbidden=found
        )
    report = examination(exercise.name, seed).report_on(
        session.candidate(exercise.function_name, calls), shrinking
    )
    if not troubles:
        return report
    if report.status == "missing":
        return Report.without_points(exercise, "missing", f"{report.note} {troubles[-1]}")
    if report.failures and "NameError" in report.failures[0].fault:
        return dataclasses.replace(report, note=troubles[-1])
    return report


RESTS_ON = "It rests on your"


def _speaks_for_itself(report: Report) -> bool:
    return report.status in ("examined", "forbidden", "blank") and not report.note.startswith(RESTS_ON)


def _inherited(report: Report, sources: list[str], before: dict[str, CellVerdict]) -> Report:
    """Says of a failure that the function rests on an earlier answer, which is not right and may be why.

    A mistake that the earlier answer does not make is the function's own.
    """
    if report.passed or report.status != "examined" or report.note:
        return report
    used = forbidden_calls.uses(sources, report.exercise.split("/")[-1])
    wrong = {
        name: v.report for name, v in before.items() if name in used and v.report and not v.report.passed
    }
    if not wrong or report.diagnosis not in (None, *(one.diagnosis for one in wrong.values())):
        return report
    names = " and ".join(f"`{name}`" for name in wrong)
    return dataclasses.replace(report, note=f"{RESTS_ON} {names}, which is not right yet: mend that first.")


def _lacks_a_name(report: Report) -> bool:
    """Whether the function, or something that it calls, may be defined further down."""
    return report.status == "missing" or any("NameError" in one.fault for one in report.failures)


def _examine_the_undefined(
    session: Session,
    declared: dict[str, Exercise],
    sources: list[str],
    seed: int,
    verdicts: dict[str, CellVerdict],
) -> None:
    """Looks again, at the end, for functions that were defined after their test cell."""
    for grade_id, verdict in verdicts.items():
        if verdict.report and _lacks_a_name(verdict.report) and not session.dead:
            report = judge_exercise(session, declared[grade_id], sources, seed, [])
            found = verdict.report.status == "missing" != report.status
            if found or report.score > verdict.report.score:
                verdicts[grade_id] = CellVerdict(grade_id, report.score, report.max_score, report)


def _fill_in(cells: list[Cell], verdicts: dict[str, CellVerdict]) -> None:
    """Gives every test cell its one output, which nbgrader reads as the score."""
    for cell in cells:
        verdict = verdicts.get(_grade_id(cell))
        if verdict and verdict.report and cell["cell_type"] == "code":
            data = {"text/plain": f"{verdict.report.score:g}", "text/html": verdict.report._repr_html_()}
            cell["execution_count"] = 1
            cell["outputs"] = [
                {"output_type": "execute_result", "execution_count": 1, "data": data, "metadata": {}}
            ]


def _grade_id(cell: Cell) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))


def _error_output(name: str, message: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": message, "traceback": [message]}


if __name__ == "__main__":
    main()
