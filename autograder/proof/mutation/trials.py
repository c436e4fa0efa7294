"""Grade mutants, each under a time limit, and count the results."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import signal
import time
import tomllib
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from autograder import exercises
from autograder.cage.calling import TimeUp
from autograder.checking.candidate import Candidate, watched_at_first
from autograder.checking.declaration import Case, Outcome
from autograder.checking.examination import Examination
from autograder.checking.report import Report
from autograder.course.workers import Progress, begin_worker, cores, end_with_parent
from autograder.proof.mutation.operators import Mutant, sample
from autograder.proof.mutation.truth import unlike_in

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
"""The reviewed list: the changes that keep a right answer right, each with the reason."""
SECONDS = 2.0
"""The processor time that all calls of a mutant may take, beyond ten times the time of the reference."""
LONGEST = 300.0
"""The seconds after which the process of a mutant is killed."""
MEMORY = 4 << 30
"""The bytes of memory that a mutant may take in addition to the grader's memory."""
NUMBER = r"(?:-?[\d.]+(?:e[+-]\d+)?|-?inf|nan|True|False)"
BARE = re.compile(
    r"(?:(?:`\w+` \()?result \d+ of \d+\)?: |at step \d+: |in `.*`: |the gradient with respect to `.*`: )*"
    rf"expected {NUMBER}(?: at \[[\d, ]*\])?, got {NUMBER}"
)
"""The text of a fault that only compares two numbers."""


@dataclass(frozen=True)
class Tried:
    """A mutant with its report.

    Args:
        mutant: the answer that was graded.
        report: the report that its author reads.
        named: the mistakes that the report names.
        unlike: named mistakes that do not give the mutant's results, each with the first case that differs.
        grader_failed: the traceback, if the grader itself failed on the mutant.
    """

    mutant: Mutant
    report: Report
    named: tuple[str, ...] = ()
    unlike: dict[str, str] = field(default_factory=dict)
    grader_failed: str = ""

    @property
    def accepted(self) -> bool:
        return self.report.passed

    @property
    def not_listed(self) -> bool:
        """Return whether the mutant is accepted and missing from the reviewed list."""
        return self.accepted and self.mutant.key not in equivalent()

    @property
    def bare(self) -> bool:
        """Return whether the report names no mistake and its first sentence only compares two numbers."""
        if self.accepted or self.named or self.report.status != "examined":
            return False
        first = self.report.failures[0]
        return not first.broken and bool(BARE.fullmatch(first.fault))

    @property
    def fails_the_run(self) -> bool:
        return self.not_listed or bool(self.grader_failed)

    @property
    def concern(self) -> str:
        """Return the reason why a person should look at the mutant, or an empty text."""
        if self.fails_the_run:
            return "the grader failed" if self.grader_failed else "accepted"
        return "falsely named" if self.unlike else "bare" if self.bare else ""


def figures(tried: list[Tried]) -> dict[str, int]:
    """Count the results of mutants; a mutant with a cause is rejected, not named and not bare."""
    accepted, bare = sum(trial.accepted for trial in tried), sum(trial.bare for trial in tried)
    named = sum(bool(trial.named) for trial in tried)
    return {
        "mutants": len(tried),
        "rejected": len(tried) - accepted,
        "accepted": accepted,
        "not_listed": sum(trial.not_listed for trial in tried),
        "named": named,
        "truly_named": named - sum(bool(trial.unlike) for trial in tried),
        "with_a_cause": len(tried) - accepted - named - bare,
        "bare": bare,
    }


def by_assignment(tried: list[Tried]) -> dict[str, dict[str, int]]:
    """Return the figures of each assignment and, under "all", their sums."""
    parts: dict[str, list[Tried]] = {}
    for trial in tried:
        parts.setdefault(trial.mutant.exercise.split("/")[0], []).append(trial)
    return {name: figures(part) for name, part in (parts | {"all": tried}).items()}


def as_dict(tried: list[Tried]) -> dict[str, Any]:
    """Return the figures and every mutant that a person should look at, as JSON data."""
    shown = [
        {
            **asdict(trial.mutant),
            "concern": trial.concern,
            "named": trial.named,
            "unlike": trial.unlike,
            "score": trial.report.score,
            "max_score": trial.report.max_score,
            "report": trial.grader_failed or str(trial.report),
        }
        for trial in tried
        if trial.concern
    ]
    return {"figures": by_assignment(tried), "concerns": shown}


@cache
def equivalent() -> dict[tuple[str, str, str], str]:
    """Return the reviewed list: the reason for each (exercise, style, change)."""
    rows = tomllib.loads(EQUIVALENT.read_text("utf-8"))
    reasons = rows.pop("reasons")
    return {
        (exercise, *row.split(": ", 1)): reasons.get(reason, reason)
        for exercise, changes in rows.items()
        for row, reason in changes.items()
    }


def try_mutants(
    names: list[str],
    number: int,
    seed: int,
    progress: Progress = lambda done, total: None,
    workers: int | None = None,
) -> list[Tried]:
    """Draw mutants of these exercises and grade each of them.

    Args:
        names: exercises, as ``assignment/function``.
        number: the number of mutants of all exercises together.
        seed: the seed of the mutants and of the cases.
        progress: is called with the number of graded mutants and their total.
        workers: processes at once; by default one for each core.
    """
    mutants = sample(names, number, seed)
    by_name = {name: [mutant for mutant in mutants if mutant.exercise == name] for name in names}
    done: dict[str, list[Tried]] = {}
    with ProcessPoolExecutor(workers or cores(), multiprocessing.get_context("spawn"), begin_worker) as pool:
        # the last exercises of the course are the longest: they begin first
        running = {
            pool.submit(grade, name, by_name[name], seed): name for name in reversed(names) if by_name[name]
        }
        for future in as_completed(running):
            done[running[future]] = future.result()
            progress(sum(map(len, done.values())), len(mutants))
    return [trial for name in names for trial in done.get(name, [])]


def grade(name: str, mutants: list[Mutant], seed: int) -> list[Tried]:
    """Grade the mutants of one exercise in a child process; start another child when a mutant ends it.

    Args:
        name: the exercise, as ``assignment/function``.
        mutants: its mutants.
        seed: the seed of the cases.
    """
    examination, context = Examination(exercises.find(name), seed), multiprocessing.get_context("fork")
    started = time.process_time()
    examination.oracle.compute_expected()
    seconds = SECONDS + 10 * (time.process_time() - started)
    tried: list[Tried] = []
    while rest := mutants[len(tried) :]:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_grade_all, args=(examination, rest, seconds, sender))
        child.start()
        sender.close()
        ended = Report.without_points(examination.exercise, "stopped", "It ended its process.")
        try:
            while len(tried) < len(mutants) and receiver.poll(LONGEST):
                tried.append(receiver.recv())
        except EOFError:
            pass
        child.kill()
        child.join()
        receiver.close()
        if len(tried) < len(mutants):
            tried.append(Tried(mutants[len(tried)], ended))
    return tried


def _grade_all(examination: Examination, mutants: list[Mutant], seconds: float, sender: Any) -> None:
    end_with_parent()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # LAPACK prints its errors there
    signal.signal(signal.SIGPROF, _time_up)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    if (size := Path("/proc/self/statm")).exists():  # only Linux has this file
        taken = int(size.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard_limit))
    for mutant in mutants:
        sender.send(grade_one(examination, mutant, seconds))


def _time_up(signum: int, frame: Any) -> None:
    raise TimeUp("it took too long")


def grade_one(examination: Examination, mutant: Mutant, seconds: float) -> Tried:
    """Grade one mutant in this process.

    Args:
        examination: the examination of its exercise.
        mutant: the answer.
        seconds: the processor time that all its calls may take.
    """
    exercise = examination.exercise
    try:
        function = mutant.function()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return Tried(mutant, Report.without_points(exercise, "missing", message))
    candidate = _limited(watched_at_first(function, (*exercise.forbidden, "tfcore")), seconds)
    try:
        report = examination.report_on(candidate, shrinking=False)
        split = (failure.misconception.split(" or ") for failure in report.failures if failure.misconception)
        named = tuple(dict.fromkeys(name for names in split for name in names))
        unlike = {name: unlike_in(examination, candidate, name) for name in named}
    except Exception:
        ended = Report.without_points(exercise, "stopped", "The grader failed.")
        return Tried(mutant, ended, grader_failed=traceback.format_exc())
    return Tried(mutant, report, named, {name: case for name, case in unlike.items() if case})


def _limited(candidate: Candidate, seconds: float) -> Candidate:
    """Return the candidate with a limit on the processor time of all its calls together."""
    left = seconds

    def call(case: Case) -> Outcome:
        nonlocal left
        if left <= 0:
            return Outcome(error="TimeUp", message=case.says)
        try:
            signal.setitimer(signal.ITIMER_PROF, left)
            return candidate(case)
        except TimeUp:
            return Outcome(error="TimeUp", message=case.says)
        finally:
            left = signal.setitimer(signal.ITIMER_PROF, 0)[0] - 1e-6

    return call
