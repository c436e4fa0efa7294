"""Put all that is kept about one student into one archive, for the student to read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from nbgrader import api
from sqlalchemy import select

from autograder.course.class_file import NAME, ClassFile
from autograder.course.class_list import Person
from autograder.course.files import Files, read_if_there
from autograder.course.layout import Course
from autograder.course.visible import one_line, visible
from autograder.grading import gradebook
from autograder.roster import traces
from autograder.roster.forget import files_that_name

README = """What this course keeps about {student}, put together by `autograder export --student`.

about.json             the person: id, name, e-mail address, groups, extensions; problems, collected files
grades.json            each submission with its points, marks and comments, by cell
submitted/             what was handed in
replaced/              earlier versions
autograded/, feedback/ the graded notebooks and the pages about them
verdicts/              what the grader found, each time that it graded

{others}
"""


def collect_data(course: Course, person: Person) -> Files:
    """Return the files of the archive by path.

    Raises:
        BadInputError: the gradebook or `class.csv` cannot be read.
    """
    files: Files = {}
    for work in traces.works(course, person.student):
        for path in sorted(work.folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = visible(path.relative_to(work.folder).as_posix())
                files[f"{work.place}/{work.assignment}/{name}"] = path.read_bytes()
    records = {
        name: {
            path.stem: theirs.get(person.student, theirs)
            for path in traces.records(course)
            if path.parent.name == name and (theirs := traces.entries_of(path, person.student))
        }
        for name in traces.RECORDS
    }
    extensions = ClassFile.read(course).extensions(person.student)
    about = asdict(person) | {"extensions_in_days": extensions} | records
    files["about.json"] = _as_json(about)
    files["grades.json"] = _as_json(_grades(course, person.student))
    files |= _verdicts(course, files)
    kept = {
        *(path for home in traces.homes(course, person.student) for path in (home, *home.rglob("*"))),
        *traces.records(course),
        course.root / NAME,
        course.db_file,
    }
    naming = [path for path in files_that_name(course, person) if path not in kept]
    others = [one_line(str(path.relative_to(course.root))) for path in naming]
    left_out = "These files name you too. They are about others as well, so they are not here:\n"
    files["README.txt"] = README.format(
        student=person.student,
        others=left_out + "\n".join(others) if others else "No other file of the course names you.",
    ).encode()
    return files


def _as_json(data: Any) -> bytes:
    return json.dumps(data, indent=1, ensure_ascii=False, default=str).encode() + b"\n"


def _grades(course: Course, student: str) -> list[dict[str, Any]]:
    """Return each submission of a student as the gradebook has it."""
    if not gradebook.exists(course):
        return []
    submitted = api.SubmittedAssignment
    with gradebook.reading(course) as session:
        return [
            {
                "assignment": submission.name,
                "handed_in": submission.timestamp,
                "extension": submission.extension,
                "seconds_late": submission.total_seconds_late,
                "notebooks": [
                    {
                        "notebook": notebook.name,
                        "late_penalty": notebook.late_submission_penalty,
                        "flagged": notebook.flagged,
                        "grades": [
                            {
                                "cell": grade.name,
                                "auto_score": grade.auto_score,
                                "manual_score": grade.manual_score,
                                "extra_credit": grade.extra_credit,
                                "max_score": grade.cell.max_score,
                                "needs_manual_grade": grade.needs_manual_grade,
                            }
                            for grade in notebook.grades
                        ],
                        "comments": {c.name: c.comment for c in notebook.comments if c.comment},
                    }
                    for notebook in submission.notebooks
                ],
            }
            for submission in session.scalars(select(submitted).where(submitted.student_id == student))
        ]


def _verdicts(course: Course, files: Files) -> Files:
    """Return the verdicts on the notebooks among the files."""
    digests = {hashlib.sha256(data).hexdigest() for name, data in files.items() if name.endswith(".ipynb")}
    found: Files = {}
    for store in sorted((course.state / "verdicts").glob("*.jsonl")):
        lines = (read_if_there(store) or b"").splitlines(keepends=True)
        theirs = [line for line in lines if _submission(line) in digests]
        if theirs:
            found[f"verdicts/{store.name}"] = b"".join(theirs)
    return found


def _submission(line: bytes) -> str:
    try:
        return str(json.loads(line)["submission"])
    except (ValueError, KeyError, TypeError):
        return ""
