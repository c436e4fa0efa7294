"""Gradescope: its results.json, and how a submission is graded in its container.

`autograder bundle gradescope` makes what is uploaded. In the container ``setup.sh`` calls `prepare` once and
``run_autograder`` calls `grade` for each submission, which is then alone there. No seed is kept: each
submission meets fresh cases, so that there is nothing to steal, and nothing to learn from the last report.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import stat
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.checking.report import Report
from autograder.course.files import write_atomically
from autograder.grading.verdict import Verdict

if TYPE_CHECKING:
    from autograder.grading.gradebook import Row

Results = dict[str, Any]
"""What Gradescope reads: its documentation calls the file results.json."""

BASE = "AUTOGRADER_BASE"
"""The variable that says where Gradescope's folders lie, if not in /autograder."""
UNFINISHED = (
    "The grader was ended before it was done: by the time limit of the assignment, or for want of memory. "
    "Does every loop in your notebook end? If so, hand it in again, and tell your teacher if it stays so."
)
OURS = (
    "The grader itself failed, which is not your fault. Hand it in again; tell your teacher if it stays so."
)
SECONDS_IN_ALL = 300.0
"""Below the ten minutes after which Gradescope ends a container, with what judging takes."""
UNPRIVILEGED = "nobody"
"""Who a submission runs as where no walls hold: one that may read or write nothing of the grader's."""


class NotGradableError(ValueError):
    """What was handed in cannot be graded; the message is for the student."""


def results(verdict: Verdict, told: str = "") -> Results:
    """Gradescope's results.json of a verdict.

    Args:
        verdict: the verdict.
        told: what only the instructor shall see, besides the verdict's remarks.
    """
    for_instructor = "\n".join([told, *map(str, verdict.remarks)]).strip()
    if verdict.status == "failed":
        return not_graded(OURS, f"{for_instructor}\n{verdict.note}")
    if verdict.status == "unreadable":
        what = verdict.note.partition(";")[0]
        told = f"Your notebook cannot be graded: {what}. Save it in Jupyter, and hand in the .ipynb file."
        return not_graded(told, for_instructor)
    tests = [entry(cell.grade_id, cell.max_score, cell.score, cell.report) for cell in verdict.cells]
    return _results(verdict.score, tests, for_instructor)


def of_gradebook(row: Row, reports: dict[str, Any], for_instructor: str = "") -> Results:
    """Gradescope's results.json of what the gradebook holds, marks by hand and a penalty included.

    Args:
        row: the gradebook's.
        reports: the grader's, by graded cell, as `autograder.grading.written.reports_in` gives them.
        for_instructor: what only the instructor shall see.
    """
    tests = [
        entry(
            name,
            most,
            None if name in row.needs_manual_grade else row.scores[name],
            Report.from_dict(reports[name]) if name in reports else None,
            row.comments.get(name, ""),
        )
        for name, most in row.max_scores.items()
    ]
    told = _results(row.total, tests, for_instructor)
    if row.late_penalty:
        told |= {
            "output": f"Taken off because it was late: {row.late_penalty:g} points.",
            "output_format": "text",
        }
    return told


def not_graded(why: str, for_instructor: str = "") -> Results:
    """A results.json without points that says why."""
    return _results(0.0, [], for_instructor) | {"output": why, "output_format": "text"}


def entry(name: str, most: float, score: float | None, report: Report | None, comment: str = "") -> Results:
    """One entry of Gradescope's list of tests: an exercise, or an answer that a person reads.

    Args:
        name: the graded cell.
        most: its points.
        score: what it gave; None where a person has still to read it.
        report: what the grader says of it.
        comment: what a teacher says of it.
    """
    made: Results = {"name": name, "max_score": most, "visibility": "visible", "output_format": "html"}
    said = [report._repr_html_()] if report else []
    if comment:
        said.append(f"<p>{html.escape(comment)}</p>")
    if score is None:
        del made["max_score"]  # or Gradescope would show it as lost
        said.append(f"<p>A person reads this answer, which may give {most:g} points.</p>")
    else:
        made |= {"score": score, "status": "passed" if score >= most else "failed"}
    return made | {"output": "".join(said)}


def _results(score: float, tests: list[Results], for_instructor: str) -> Results:
    hidden = {
        "name": "For the instructor",
        "output": for_instructor,
        "output_format": "text",
        "visibility": "hidden",
    }
    return {
        "score": max(0.0, score),
        "stdout_visibility": "hidden",
        "tests": [*tests, *([hidden] if for_instructor else [])],
    }


def prepare() -> None:
    """Takes from all other users of the container what a submission has no need to read: our packages."""
    import autograder
    import tfcore
    from autograder.grading.cages import METERS, OPEN_TO_STUDENTS

    for package in (autograder, tfcore):
        folder = Path(str(package.__file__)).parent
        opened = [folder / part for part in (*OPEN_TO_STUDENTS[folder.name], METERS)]
        for path in folder.rglob("*"):
            if not any(one == path or one in path.parents or path in one.parents for one in opened):
                path.chmod(0o700 if path.is_dir() else 0o600)


def grade(base: Path) -> None:
    """Grades what lies in ``submission`` and writes ``results/results.json``, whatever happens."""
    started = time.monotonic()
    try:
        told = _graded(base)
    except NotGradableError as error:
        told = not_graded(str(error))
    except Exception:
        told = not_graded(OURS, traceback.format_exc())
    told["execution_time"] = round(time.monotonic() - started, 2)
    write_atomically(base / "results" / "results.json", json.dumps(told, indent=1).encode())


def _graded(base: Path) -> Results:
    from autograder.grading import cages
    from autograder.grading.pair import Pair, notebook_task
    from autograder.grading.session import Limits

    (released,) = (base / "source" / "released").glob("*/*.ipynb")
    data = _read(_notebook(base / "submission", released.name))
    held = cages.strongest()
    seed = secrets.randbits(62)
    limits = Limits(total_seconds=SECONDS_IN_ALL)
    user = UNPRIVILEGED if held.tier not in cages.SAFE and os.geteuid() == 0 else None
    with Pair(held.tier, user) as pair:
        verdict = pair.grade(notebook_task(released.parent.name, released.read_bytes(), data, seed, limits))
    return results(verdict, f"{_about_walls(held, user)}\nThe hidden cases were drawn from {seed}.")


def _about_walls(held: Any, user: str | None) -> str:
    from autograder.grading import cages

    if held.tier in cages.SAFE:
        return f"The code ran behind walls, tier {held.tier}."
    lacking = "; ".join(f"tier {tier}: {what}" for tier, what in held.missing.items())
    shut = (
        f"It ran as the user {user!r}, who can neither read the grader's files nor write results.json."
        if user
        else "It could read the grader's files and write results.json: look whether it tried."
    )
    return (
        f"This container holds no walls (tier {held.tier}; {lacking}), and this grades all the same, as with "
        f"--allow-unsafe: the container was the boundary. {shut}"
    )


def _notebook(folder: Path, name: str) -> Path:
    """The notebook that was handed in, whatever it is called; of several the one that is called `name`.

    Raises:
        NotGradableError: there is none, or nobody can say which is meant.
    """
    found = sorted(_notebooks(folder))
    named = [path for path in found if path.name == name]
    if not found:
        raise NotGradableError(f"No notebook was handed in. Hand in {name}, the file that you worked in.")
    if len(found) > 1 and len(named) != 1:
        some = ", ".join(path.relative_to(folder).as_posix() for path in found[:5])
        raise NotGradableError(
            f"{len(found)} notebooks were handed in, and one can be graded: {some}. Hand in {name} alone."
        )
    return found[0] if len(found) == 1 else named[0]


def _notebooks(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        for name in files:
            if name.lower().endswith(".ipynb") and not name.startswith("."):
                yield Path(where, name)


def _read(path: Path) -> bytes:
    from autograder.grading.matching import MAX_BYTES

    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise NotGradableError(f"{path.name} is a link and no file. Hand in the notebook itself.")
    if about.st_size > MAX_BYTES:
        raise NotGradableError(
            f"{path.name} has {about.st_size:,} bytes; at most {MAX_BYTES:,} are read. Clear its outputs, "
            "save it and hand it in again."
        )
    return path.read_bytes()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare()
    else:
        grade(Path(os.environ.get(BASE, "/autograder")))
