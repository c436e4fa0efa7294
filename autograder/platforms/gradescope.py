"""Grade a submission in Gradescope's container, and write Gradescope's results.json.

`autograder bundle gradescope` makes the zip file to upload. In the container ``setup.sh`` calls `prepare`
once and ``run_autograder`` calls `grade` for each submission, which has a container of its own. The container
holds no seed: each submission gets fresh cases, so students cannot steal a seed or learn cases from a report.
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
    from autograder.grading.rows import Row

Results = dict[str, Any]
"""The data of Gradescope's file results.json."""

BASE = "AUTOGRADER_BASE"
"""The environment variable for the folder of Gradescope's folders; by default /autograder."""
UNFINISHED = (
    "The grader was stopped before it finished: it hit the time limit of the assignment, or ran out of "
    "memory. Does every loop in your notebook end? If so, hand it in again, and tell your teacher if this "
    "happens again."
)
OURS = (
    "The grader itself failed, which is not your fault. Hand your notebook in again, and tell your teacher "
    "if this happens again."
)
SECONDS_IN_ALL = 300.0
"""The time limit of a submission. With the grader's own time it is below Gradescope's ten minutes."""
UNPRIVILEGED = "nobody"
"""The user of a submission where no sandbox works. This user cannot read or write the grader's files."""


class NotGradableError(ValueError):
    """Raised if a submission cannot be graded; the message is for the student."""


def results(verdict: Verdict, note: str = "") -> Results:
    """Return Gradescope's results.json for a verdict.

    Args:
        verdict: the verdict.
        note: a note that only the instructor sees, before the verdict's remarks.
    """
    for_instructor = "\n".join([note, *map(str, verdict.remarks)]).strip()
    if verdict.status == "failed":
        return not_graded(OURS, f"{for_instructor}\n{verdict.note}")
    if verdict.status == "unreadable":
        reason = verdict.note.partition(";")[0]
        message = (
            f"Your notebook cannot be graded: {reason}. Save it in Jupyter, and hand in the .ipynb file."
        )
        return not_graded(message, for_instructor)
    tests = [entry(cell.grade_id, cell.max_score, cell.score, cell.report) for cell in verdict.cells]
    return _results(verdict.score, tests, for_instructor)


def of_gradebook(row: Row, reports: dict[str, Any], for_instructor: str = "") -> Results:
    """Return Gradescope's results.json for a row of the gradebook, with manual grades and late penalties.

    Args:
        row: the row of the gradebook.
        reports: the grader's reports by graded cell, from `autograder.grading.written.reports_in`.
        for_instructor: a note that only the instructor sees.
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
    results = _results(row.total, tests, for_instructor)
    if row.late_penalty:
        results |= {
            "output": f"Late penalty: {row.late_penalty:g} point{'' if row.late_penalty == 1 else 's'}.",
            "output_format": "text",
        }
    return results


def not_graded(reason: str, for_instructor: str = "") -> Results:
    """Return a results.json with no points and the reason."""
    return _results(0.0, [], for_instructor) | {"output": reason, "output_format": "text"}


def entry(name: str, most: float, score: float | None, report: Report | None, comment: str = "") -> Results:
    """Return one entry of Gradescope's list of tests: an exercise, or an answer that a person reads.

    Args:
        name: the name of the graded cell.
        most: the maximum points of the cell.
        score: the earned points; None if a person has not read the answer yet.
        report: the grader's report on the cell.
        comment: a teacher's comment on the cell.
    """
    test: Results = {"name": name, "max_score": most, "visibility": "visible", "output_format": "html"}
    parts = [report._repr_html_()] if report else []
    if comment:
        parts.append(f"<p>{html.escape(comment)}</p>")
    if score is None:
        del test["max_score"]  # else Gradescope would show the points as lost
        parts.append(f"<p>Your teacher marks this answer; it is worth up to {most:g} points.</p>")
    else:
        test |= {"score": score, "status": "passed" if score >= most else "failed"}
    return test | {"output": "".join(parts)}


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
    """Close our packages to the container's other users, except the parts that a submission imports."""
    import autograder
    import tfcore
    from autograder.grading.cages import METERS, OPEN_TO_STUDENTS

    for package in (autograder, tfcore):
        folder = Path(str(package.__file__)).parent
        readable = [folder / part for part in (*OPEN_TO_STUDENTS[folder.name], METERS)]
        for path in folder.rglob("*"):
            if not any(part == path or part in path.parents or path in part.parents for part in readable):
                path.chmod(0o700 if path.is_dir() else 0o600)


def grade(base: Path) -> None:
    """Grade the folder ``submission`` and write ``results/results.json``, even if grading fails."""
    (released,) = (base / "source" / "released").glob("*/*.ipynb")
    results = results_of(released, base / "submission")
    write_atomically(base / "results" / "results.json", json.dumps(results, indent=1).encode())


def results_of(released: Path, handed_in: Path) -> Results:
    """Grade the folder of a submission, and return the results even if grading fails.

    Args:
        released: the released notebook, ``<assignment>/<name>.ipynb``.
        handed_in: the folder of the submission.
    """
    started = time.monotonic()
    try:
        results = _grade_submission(released, handed_in)
    except NotGradableError as error:
        results = not_graded(str(error))
    except Exception:
        results = not_graded(OURS, traceback.format_exc())
    results["execution_time"] = round(time.monotonic() - started, 2)
    return results


def _grade_submission(released: Path, handed_in: Path) -> Results:
    from autograder.grading import cages
    from autograder.grading.pair import Pair, notebook_task
    from autograder.grading.session import Limits

    data = _read_notebook(_find_notebook(handed_in, released.name))
    cage = cages.strongest()
    seed = secrets.randbits(62)
    limits = Limits(total_seconds=SECONDS_IN_ALL)
    user = UNPRIVILEGED if cage.tier not in cages.SAFE and os.geteuid() == 0 else None
    with Pair(cage.tier, user) as pair:
        verdict = pair.grade(notebook_task(released.parent.name, released.read_bytes(), data, seed, limits))
    return results(verdict, f"{_describe_sandbox(cage, user)}\nThe hidden cases were drawn from {seed}.")


def _describe_sandbox(cage: Any, user: str | None) -> str:
    from autograder.grading import cages

    if cage.tier in cages.SAFE:
        return f"The code ran in a sandbox of tier {cage.tier}."
    missing = "; ".join(f"tier {tier}: {reason}" for tier, reason in cage.missing.items())
    protection = (
        f"It ran as the user {user!r}, who can neither read the grader's files nor write results.json."
        if user
        else "The code could read the grader's files and write results.json: check whether it tried."
    )
    return (
        f"No sandbox works in this container (tier {cage.tier}; {missing}). The submission was graded as "
        f"with --allow-unsafe, protected only by the container. {protection}"
    )


def _find_notebook(folder: Path, name: str) -> Path:
    """Return the path of the submitted notebook: the only notebook, or the one notebook called `name`.

    Raises:
        NotGradableError: there is no notebook, or it is not clear which notebook to grade.
    """
    notebooks = sorted(_notebooks(folder))
    named = [path for path in notebooks if path.name == name]
    if not notebooks:
        raise NotGradableError(f"No notebook was handed in. Hand in {name}, the file that you worked in.")
    if len(notebooks) > 1 and len(named) != 1:
        some = ", ".join(path.relative_to(folder).as_posix() for path in notebooks[:5])
        raise NotGradableError(
            f"{len(notebooks)} notebooks were handed in ({some}), but only one can be graded. "
            f"Hand in only {name}."
        )
    return notebooks[0] if len(notebooks) == 1 else named[0]


def _notebooks(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        for name in files:
            if name.lower().endswith(".ipynb") and not name.startswith("."):
                yield Path(parent, name)


def _read_notebook(path: Path) -> bytes:
    from autograder.grading.matching import MAX_BYTES

    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise NotGradableError(f"{path.name} is a link or a special file. Hand in the notebook itself.")
    if status.st_size > MAX_BYTES:
        raise NotGradableError(
            f"{path.name} has {status.st_size:,} bytes; the grader reads at most {MAX_BYTES:,}. Clear its "
            "outputs, save it and hand it in again."
        )
    return path.read_bytes()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare()
    else:
        grade(Path(os.environ.get(BASE, "/autograder")))
