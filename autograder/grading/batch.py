"""Grades a class: finds the submissions, grades the new ones, enters the points, writes what nbgrader reads.

In this order, so that a run that is killed anywhere goes on where it was: verdicts to disk; all points into
the gradebook in one transaction; graded notebooks. Only this process writes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import nbformat

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.files import FULL, Files, hold_lock, read_seed, require_writable, write_atomically
from autograder.course.layout import Course
from autograder.course.remark import Remark
from autograder.course.student_ids import is_valid
from autograder.course.workers import MOST_WORKERS, Progress
from autograder.exercises import UnknownExerciseError
from autograder.grading import gradebook, submissions, written
from autograder.grading.executors import EXECUTORS, grade_all, tier_of
from autograder.grading.pair import Task, notebook_task
from autograder.grading.session import Limits
from autograder.grading.store import Identity, VerdictStore
from autograder.grading.submissions import Found, Problem, Submission
from autograder.grading.verdict import Verdict
from autograder.release import publish


@dataclass(frozen=True)
class Graded:
    """One submission with its points."""

    student: str
    assignment: str
    score: float
    max_score: float
    new: bool
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class Change:
    """Points for one exercise that are other than those that the gradebook had."""

    student: str
    assignment: str
    exercise: str
    before: float | None
    after: float
    same_notebook: bool
    """Whether it was graded before: the exercise or the grader has changed, and not what was handed in."""


@dataclass
class Batch:
    """What one run of the grader did."""

    graded: list[Graded] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    """The folders in autograded/ that a graded notebook could not be written to, and why."""
    seconds: float = 0.0
    tier: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON data."""
        return {
            "graded": sum(one.new for one in self.graded),
            "unchanged": sum(not one.new for one in self.graded),
            "seconds": round(self.seconds, 2),
            "tier": self.tier,
            "assignments": {name: self.summary(name) for name in self._assignments},
            "submissions": [asdict(one) for one in self.graded],
            "changes": [asdict(one) for one in self.changes],
            "problems": [asdict(one) for one in self.problems],
            "remarks": self.remarks,
            "unwritten": self.unwritten,
        }

    @property
    def _assignments(self) -> list[str]:
        return sorted({one.assignment for one in self.graded} | {one.assignment for one in self.problems})

    def summary(self, assignment: str) -> dict[str, Any]:
        """The figures of one assignment."""
        own = [one for one in self.graded if one.assignment == assignment]
        return {
            "graded": sum(one.new for one in own),
            "unchanged": sum(not one.new for one in own),
            "median": median(one.score for one in own) if own else None,
            "max_score": max((one.max_score for one in own), default=None),
            "problems": sum(one.assignment == assignment for one in self.problems),
        }


def grade(
    course: Course,
    names: list[str],
    folder: Path,
    *,
    executor: str = "processes",
    workers: int | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
    force: bool = False,
    allow_unsafe: bool = False,
    progress: Progress = lambda done, total: None,
) -> Batch:
    """Grades the submissions in a folder.

    Args:
        course: whose assignments they are.
        names: which assignments; all, if empty.
        folder: holds ``<student>/<assignment>/<notebook>.ipynb``.
        executor: where they are graded; see `autograder.grading.executors`.
        workers: how many at once.
        limits: what a submission may use.
        seed: draws the hidden cases; by default the course's own secret.
        force: grades again what was graded before.
        allow_unsafe: grades also where no walls hold.
        progress: is told how far it is.

    Raises:
        BadInputError: something that was given cannot be used. Nothing has changed then.
    """
    started = time.monotonic()
    limits = limits or Limits()
    if executor not in EXECUTORS:
        raise BadInputError(f"no executor is called {executor!r}. There are: {', '.join(EXECUTORS)}.")
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise BadInputError(f"expected between 1 and {MOST_WORKERS} workers, got {workers}.")
    known = exercises.assignments()
    chosen = [name for name in course.chosen(names) if name in names or name in known]
    for assignment in chosen:
        _require_exercises(assignment)
    gradebook.require_usable(course)
    for output in (course.state, course.autograded):
        require_writable(output)
    found = submissions.find(folder, {name: publish.notebook_names(course, name) for name in chosen}, names)
    releases = {name: publish.notebooks(course, name) for name in chosen if name in found.assignments}
    course.make_private()
    tier = tier_of(executor, allow_unsafe)
    with hold_lock(course.state / "lock", "autograder grade"):
        seed = secret_seed(course) if seed is None else seed
        batch = Batch(problems=list(found.problems), remarks=list(found.remarks), tier=tier)
        _Run(course, releases, found, limits, seed, force, batch).all(executor, workers, progress)
    batch.seconds = time.monotonic() - started
    return batch


def _require_exercises(assignment: str) -> None:
    try:
        exercises.names_of(assignment)
    except UnknownExerciseError as error:
        raise BadInputError(f"{assignment} has no exercises that the grader knows ({error}).") from error


def secret_seed(course: Course) -> int:
    """The seed of the course's hidden cases: drawn once, kept where only its owner reads, never printed."""
    drawn = read_seed(course.state)
    if drawn is None:
        course.make_private()
        write_atomically(course.state / "seed", f"{secrets.randbits(62)}\n".encode(), mode=0o600)
        drawn = read_seed(course.state)
    assert drawn is not None
    return drawn


@dataclass
class _Run:
    """One run: the submissions found, and the verdicts on them."""

    course: Course
    releases: dict[str, Files]
    found: Found
    limits: Limits
    seed: int
    force: bool
    batch: Batch
    identities: dict[Submission, Identity] = field(default_factory=dict)
    stores: dict[str, VerdictStore] = field(default_factory=dict)
    fresh: dict[str, tuple[VerdictStore, Identity]] = field(default_factory=dict)
    done: int = 0

    def all(self, executor: str, workers: int | None, progress: Progress) -> None:
        """Grades, enters, writes."""
        failed: dict[str, Verdict] = {}
        with ExitStack() as stack:
            for assignment in self.releases:
                path = self.course.state / "verdicts" / f"{assignment}.jsonl"
                self.stores[assignment] = stack.enter_context(VerdictStore(path))
            progress(0, len(self.found.submissions))
            for own, verdict in grade_all(self._tasks(progress), self.batch.tier, executor, workers):
                store, identity = self.fresh[own]
                store.add(identity, verdict)
                if verdict.status == "failed":
                    failed[own] = verdict
                self._advance(progress)
            for store in self.stores.values():
                store.sync()
            self._enter(failed)
        self._see_what_is_kept()
        _remember_problems(self.course, self.releases, self.batch)

    def _see_what_is_kept(self) -> None:
        """Tells with each problem the points that the gradebook keeps from an earlier version."""
        if not self.batch.problems or not gradebook.exists(self.course):
            return
        totals = {
            (assignment, row.student): row.total
            for assignment in {one.assignment for one in self.batch.problems}
            for row in gradebook.read(self.course, assignment)
        }
        now = {(one.assignment, one.student) for one in self.batch.graded}
        self.batch.problems = [
            one
            if (one.assignment, one.student) in now
            else replace(one, kept=totals.get((one.assignment, one.student)))
            for one in self.batch.problems
        ]

    def _advance(self, progress: Progress) -> None:
        self.done += 1
        progress(self.done, len(self.found.submissions))

    def _tasks(self, progress: Progress) -> Iterator[tuple[str, Task]]:
        """The tasks that no verdict is known for, read one by one; equal submissions make one task.

        They come assignment by assignment, since a judge remembers what it has found for one.
        """
        for submission in sorted(self.found.submissions, key=lambda one: one.assignment):
            store = self._store(submission)
            released = self.releases[submission.assignment][submission.notebook]
            try:
                data = submission.read()
            except BadInputError as error:
                self._report(submission, str(error))
                self._advance(progress)
                continue
            identity = Identity.of(
                data, released, submission.assignment, self.batch.tier, self.seed, self.limits
            )
            self.identities[submission], own = identity, identity.key
            if own in self.fresh or (own in store and not self.force):
                self._advance(progress)
            else:
                self.fresh[own] = store, identity
                known = [] if self.force else store.known(identity)
                yield own, notebook_task(submission.assignment, released, data, self.seed, self.limits, known)

    def _store(self, submission: Submission) -> VerdictStore:
        return self.stores[submission.assignment]

    def _verdict(self, submission: Submission) -> Verdict:
        return self._store(submission)[self.identities[submission].key]

    def _report(self, submission: Submission, what: str) -> None:
        self.batch.problems.append(Problem(submission.student, submission.assignment, what))

    def _enter(self, failed: dict[str, Verdict]) -> None:
        """Enters all points in one transaction, then writes the graded notebooks."""
        graded: list[Submission] = []
        for submission, identity in self.identities.items():
            verdict = failed.get(identity.key) or self._verdict(submission)
            if verdict.status == "graded":
                graded.append(submission)
            elif verdict.status == "failed":
                why = verdict.note.strip().splitlines()
                self._report(
                    submission, f"{why[0]} {why[-1] if why[1:] else ''} Grade again, or report this fault"
                )
            else:
                self._report(submission, verdict.note)
        if not graded:
            return
        with gradebook.opened(self.course) as book:
            for assignment in sorted({submission.assignment for submission in graded}):
                book.learn(assignment, self.releases[assignment])
            for submission in graded:
                verdict = self._verdict(submission)
                self._enter_one(book, submission, verdict)
                self.batch.graded.append(self._told(submission, verdict))
        for submission in graded:
            notebook = written.noted(self._verdict(submission))
            folder = self._written_to(submission)
            try:
                written.write(folder, submission, notebook)
            except OSError as error:
                if error.errno in FULL:
                    raise
                self.batch.unwritten.append(f"{folder} ({error.strerror})")

    def _enter_one(self, book: gradebook.GradebookWriter, submission: Submission, verdict: Verdict) -> None:
        """Enters one submission, unless all of it was entered before: a teacher may have gone on since."""
        notebook = written.noted(verdict)
        scores = {cell.grade_id: cell.score for cell in verdict.cells if cell.score is not None}
        folder, stamp = self._written_to(submission), submission.timestamp
        done = written.is_written(folder, submission.notebook, notebook, stamp)
        held = book.held(submission.assignment, submission.student)
        if done and all(name in held and held[name] == score for name, score in scores.items()):
            book.penalise(submission.assignment, submission.student)
            return
        same = self._store(submission).graded_otherwise(self.identities[submission])
        self.batch.changes += [
            Change(submission.student, submission.assignment, name, held.get(name), score, same)
            for name, score in scores.items()
            if held and held.get(name) != score
        ]
        node = nbformat.from_dict(notebook)
        book.enter(
            submission.assignment,
            submission.student,
            {submission.notebook: node},
            scores,
            submission.timestamp,
            written.alike(written.notebook(folder / f"{submission.notebook}.ipynb"), notebook),
        )

    def _written_to(self, submission: Submission) -> Path:
        return self.course.autograded / submission.student / submission.assignment

    def _told(self, submission: Submission, verdict: Verdict) -> Graded:
        return Graded(
            submission.student,
            submission.assignment,
            verdict.score,
            verdict.max_score,
            self.identities[submission].key in self.fresh,
            verdict.remarks,
        )


def _remember_problems(course: Course, assignments: Iterable[str], batch: Batch) -> None:
    """Remember who could not be graded, until they are; a name that is no id, until the next run."""
    for assignment in assignments:
        graded = {one.student for one in batch.graded if one.assignment == assignment}
        known = problems(course, assignment).items()
        told = {student: what for student, what in known if student not in graded and is_valid(student)}
        own = (one for one in batch.problems if one.assignment == assignment)
        told |= {one.student: one.what for one in own}
        path = course.state / "problems" / f"{assignment}.json"
        if told or path.exists():
            write_atomically(path, json.dumps(told, indent=1, sort_keys=True).encode())


def problems(course: Course, assignment: str) -> dict[str, str]:
    """The submissions that could not be graded, and what to do about each."""
    try:
        told = json.loads((course.state / "problems" / f"{assignment}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(student): str(what) for student, what in told.items()} if isinstance(told, dict) else {}
