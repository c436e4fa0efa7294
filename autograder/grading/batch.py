"""Grade a class: find the submissions, grade the new ones, enter the points, write the graded notebooks.

A run writes first the verdicts, then all points into the gradebook in one transaction, then the graded
notebooks. So a run that is killed at any time can be repeated, and goes on where it was. Only this process
writes.
"""

from __future__ import annotations

import os
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
from autograder.course.files import (
    FULL,
    Files,
    read_record,
    read_seed,
    require_writable,
    write_atomically,
    write_record,
)
from autograder.course.layout import Course
from autograder.course.lock import hold_lock, require_no_move
from autograder.course.remark import Remark
from autograder.course.student_ids import is_valid
from autograder.course.workers import MOST_WORKERS, Progress
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
    """New points for one exercise that differ from the points in the gradebook."""

    student: str
    assignment: str
    exercise: str
    before: float | None
    after: float
    same_notebook: bool
    """Whether the same notebook was graded before: then the exercise or the grader has changed."""


@dataclass
class Batch:
    """The results of one run of the grader."""

    graded: list[Graded] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    """The folders in autograded/ where a graded notebook could not be written, each with the reason."""
    seconds: float = 0.0
    tier: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON data."""
        return {
            "graded": sum(submission.new for submission in self.graded),
            "unchanged": sum(not submission.new for submission in self.graded),
            "seconds": round(self.seconds, 2),
            "tier": self.tier,
            "assignments": {name: self.summary(name) for name in self._assignments},
            "submissions": [asdict(submission) for submission in self.graded],
            "changes": [asdict(change) for change in self.changes],
            "problems": [asdict(problem) for problem in self.problems],
            "remarks": self.remarks,
            "unwritten": self.unwritten,
        }

    @property
    def _assignments(self) -> list[str]:
        graded = {submission.assignment for submission in self.graded}
        return sorted(graded | {problem.assignment for problem in self.problems})

    def summary(self, assignment: str) -> dict[str, Any]:
        """Return the counts and the median of one assignment."""
        graded = [submission for submission in self.graded if submission.assignment == assignment]
        return {
            "graded": sum(submission.new for submission in graded),
            "unchanged": sum(not submission.new for submission in graded),
            "median": median(submission.score for submission in graded) if graded else None,
            "max_score": max((submission.max_score for submission in graded), default=None),
            "problems": sum(problem.assignment == assignment for problem in self.problems),
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
    """Grade the submissions in a folder.

    Args:
        course: the course that has the assignments.
        names: the names of the assignments; all assignments, if empty.
        folder: the folder with ``<student>/<assignment>/<notebook>.ipynb``.
        executor: where the submissions are graded; see `autograder.grading.executors`.
        workers: the number of submissions graded at once.
        limits: the time and memory that a submission may use.
        seed: draws the hidden cases; by default the course's own secret seed.
        force: grade also the submissions that were graded before.
        allow_unsafe: grade also on a machine without walls.
        progress: is called with the numbers (done, total).

    Raises:
        BadInputError: an argument cannot be used; nothing has changed.
    """
    started = time.monotonic()
    limits = limits or Limits()
    if executor not in EXECUTORS:
        raise BadInputError(f"no executor is called {executor!r}. The executors are: {', '.join(EXECUTORS)}.")
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise BadInputError(f"expected between 1 and {MOST_WORKERS} workers, got {workers}.")
    known = exercises.assignments()
    chosen = [name for name in course.chosen(names) if name in names or name in known]
    for assignment in chosen:
        exercises.names_of(assignment)  # refuses an assignment without exercises
    gradebook.require_usable(course)
    for output in (course.state, course.autograded):
        require_writable(output)
    wanted: dict[str, Iterable[str]] = {name: publish.notebook_names(course, name) for name in chosen}
    submissions.find(folder, wanted, names)  # refuses a wrong folder before anything is written
    with hold_lock(course):  # from here on nobody renames a student whose notebook is found
        require_no_move(course)
        found = submissions.find(folder, wanted, names)
        releases = {name: publish.notebooks(course, name) for name in chosen if name in found.assignments}
        tier = tier_of(executor, allow_unsafe)
        seed = secret_seed(course) if seed is None else seed
        batch = Batch(problems=list(found.problems), remarks=list(found.remarks), tier=tier)
        _Run(course, releases, found, limits, seed, force, batch).grade_all(executor, workers, progress)
    batch.seconds = time.monotonic() - started
    return batch


def secret_seed(course: Course) -> int:
    """Return the secret seed of the hidden cases, which is drawn once and which only its owner can read."""
    drawn = read_seed(course.state)
    if drawn is None:
        course.make_private()
        write_atomically(course.state / "seed", f"{secrets.randbits(62)}\n".encode(), mode=0o600)
        drawn = read_seed(course.state)
    assert drawn is not None
    return drawn


@dataclass
class _Run:
    """One run of the grader: the submissions that were found, and the verdicts on them."""

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

    def grade_all(self, executor: str, workers: int | None, progress: Progress) -> None:
        """Grade the submissions, enter the points and write the graded notebooks."""
        failed: dict[str, Verdict] = {}
        with ExitStack() as stack:
            for assignment in self.releases:
                path = self.course.state / "verdicts" / f"{assignment}.jsonl"
                self.stores[assignment] = stack.enter_context(VerdictStore(path))
            progress(0, len(self.found.submissions))
            for key, verdict in grade_all(self._tasks(progress), self.batch.tier, executor, workers):
                store, identity = self.fresh[key]
                store.add(identity, verdict)
                if verdict.status == "failed":
                    failed[key] = verdict
                self._advance(progress)
            for store in self.stores.values():
                store.sync()
            self._enter(failed)
        self._add_kept_points()
        _save_problems(self.course, self.releases, self.batch, self.found.folder)
        self._save_tried(failed)

    def _save_tried(self, failed: dict[str, Verdict]) -> None:
        """Save which version of each notebook was graded or cannot be graded, for `autograder status`."""
        for assignment in self.releases:
            new = {
                f"{submission.student}/{submission.notebook}": identity.submission
                for submission, identity in self.identities.items()
                if submission.assignment == assignment and identity.key not in failed
            }
            write_record(_record(self.course, "tried", assignment), tried(self.course, assignment) | new)

    def _add_kept_points(self) -> None:
        """Add to each problem the points that the gradebook keeps from an earlier version."""
        if not self.batch.problems or not gradebook.exists(self.course):
            return
        totals = {
            (assignment, row.student): row.total
            for assignment in {problem.assignment for problem in self.batch.problems}
            for row in gradebook.read(self.course, assignment)
        }
        graded = {(submission.assignment, submission.student) for submission in self.batch.graded}
        self.batch.problems = [
            problem
            if (problem.assignment, problem.student) in graded
            else replace(problem, kept=totals.get((problem.assignment, problem.student)))
            for problem in self.batch.problems
        ]

    def _advance(self, progress: Progress) -> None:
        self.done += 1
        progress(self.done, len(self.found.submissions))

    def _tasks(self, progress: Progress) -> Iterator[tuple[str, Task]]:
        """Yield a task for each submission without a verdict; equal submissions share one task.

        The tasks are sorted by assignment, because a judge caches its results for the current assignment.
        """
        for submission in sorted(self.found.submissions, key=lambda found: found.assignment):
            store = self._store(submission)
            released = self.releases[submission.assignment][submission.notebook]
            try:
                data = submission.read()
            except BadInputError as error:
                self._add_problem(submission, str(error))
                self._advance(progress)
                continue
            identity = Identity.of(
                data, released, submission.assignment, self.batch.tier, self.seed, self.limits
            )
            self.identities[submission], key = identity, identity.key
            if key in self.fresh or (key in store and not self.force):
                self._advance(progress)
            else:
                self.fresh[key] = store, identity
                known = [] if self.force else store.known(identity)
                yield key, notebook_task(submission.assignment, released, data, self.seed, self.limits, known)

    def _store(self, submission: Submission) -> VerdictStore:
        return self.stores[submission.assignment]

    def _verdict(self, submission: Submission) -> Verdict:
        return self._store(submission)[self.identities[submission].key]

    def _add_problem(self, submission: Submission, what: str) -> None:
        self.batch.problems.append(Problem(submission.student, submission.assignment, what))

    def _enter(self, failed: dict[str, Verdict]) -> None:
        """Enter all points in one transaction, then write the graded notebooks."""
        graded: list[Submission] = []
        for submission, identity in self.identities.items():
            verdict = failed.get(identity.key) or self._verdict(submission)
            if verdict.status == "graded":
                graded.append(submission)
            elif verdict.status == "failed":
                first, *rest = verdict.note.strip().splitlines()
                why = " ".join([first, *rest[-1:]]).removesuffix(".")
                self._add_problem(submission, f"{why}. Grade again, or report this fault")
            else:
                self._add_problem(submission, verdict.note)
        if not graded:
            return
        with gradebook.opened(self.course) as book:
            for assignment in sorted({submission.assignment for submission in graded}):
                book.learn(assignment, self.releases[assignment])
            for submission in graded:
                verdict = self._verdict(submission)
                self._enter_one(book, submission, verdict)
                self.batch.graded.append(self._graded(submission, verdict))
        for submission in graded:
            notebook = written.with_results(self._verdict(submission))
            folder = self._written_to(submission)
            try:
                written.write(folder, submission, notebook)
            except OSError as error:
                if error.errno in FULL:
                    raise
                self.batch.unwritten.append(f"{folder} ({error.strerror})")

    def _enter_one(self, book: gradebook.GradebookWriter, submission: Submission, verdict: Verdict) -> None:
        """Enter one submission, unless it is entered already: a teacher may have changed its points since."""
        notebook = written.with_results(verdict)
        scores = {cell.grade_id: cell.score for cell in verdict.cells if cell.score is not None}
        folder, stamp = self._written_to(submission), submission.timestamp
        done = written.is_written(folder, submission.notebook, notebook, stamp)
        held = book.held(submission.assignment, submission.student, submission.notebook)
        if done and held and all(name in held and held[name] == score for name, score in scores.items()):
            book.penalise(submission.assignment, submission.student)
            return
        same = self._store(submission).has_other_verdict(self.identities[submission])
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
            written.cells_with_equal_answers(read_record(folder / f"{submission.notebook}.ipynb"), notebook),
        )

    def _written_to(self, submission: Submission) -> Path:
        return self.course.autograded / submission.student / submission.assignment

    def _graded(self, submission: Submission, verdict: Verdict) -> Graded:
        return Graded(
            submission.student,
            submission.assignment,
            verdict.score,
            verdict.max_score,
            self.identities[submission].key in self.fresh,
            verdict.remarks,
        )


def _save_problems(course: Course, assignments: Iterable[str], batch: Batch, folder: Path) -> None:
    """Save the problems of each assignment, each with the folder of submissions where it was found.

    A problem is kept until a submission of this student is graded, or until the student's work is no longer
    in that folder. A problem with a name that cannot be an id is kept until the next run.
    """
    where = course.shown(folder.resolve())
    for assignment in assignments:
        graded = {submission.student for submission in batch.graded if submission.assignment == assignment}
        known = problems(course, assignment).items()
        folders = read_record(_record(course, "problem_folders", assignment))
        gone = {
            student
            for student in folders
            if folders[student] == where and not os.path.lexists(folder / student / assignment)
        }
        open_problems = {
            student: what for student, what in known if student not in graded | gone and is_valid(student)
        }
        new = {one.student: one.what for one in batch.problems if one.assignment == assignment}
        open_problems |= new
        folders |= dict.fromkeys(new, where)
        path = _record(course, "problems", assignment)
        if open_problems or path.exists():
            write_record(path, open_problems)
            kept = {student: folders[student] for student in open_problems if student in folders}
            write_record(_record(course, "problem_folders", assignment), kept)


def problems(course: Course, assignment: str) -> dict[str, str]:
    """Return by student the problem of each submission that could not be graded, with the remedy."""
    return read_record(_record(course, "problems", assignment))


def tried(course: Course, assignment: str) -> dict[str, str]:
    """Return the SHA-256 of each notebook that was graded last or cannot be graded, by student/notebook."""
    return read_record(_record(course, "tried", assignment))


def _record(course: Course, what: str, assignment: str) -> Path:
    return course.state / what / f"{assignment}.json"
