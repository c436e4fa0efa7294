"""What is handed on as one zip file: to Gradescope, to students, to another instructor.

A bundle holds what is named here and nothing else that lies in the course's folder, so that no grade and no
seed can get into one. The same course gives the same bytes each time.
"""

from __future__ import annotations

import ast
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.files import Files, require_writable, write_atomically
from autograder.course.layout import CONFIG, Course
from autograder.exercises import UnknownExerciseError
from autograder.packages import colab
from autograder.packages.bundle_library import REQUIREMENTS, grader_wheels, pinned, student_wheels
from autograder.packages.wheels import BUNDLED, GUIDES, pack_zip, resources
from autograder.platforms import gradescope
from autograder.release import audit, publish

FOLDER = "bundles"
COMMENT = b"made by autograder bundle"
"""Stands in a bundle; a file without it is not overwritten."""
GRADING = ("ipython", "rapidfuzz", "pyseccomp", "scipy")
NOTEBOOKS = ("jupyterlab", "anywidget", "scipy")
GITHUB = "https://github.com/"
MOST_BYTES = 100 << 20
"""What Gradescope takes."""
NOBODY = "/your_name/"
"""Who the course belongs to until its settings say so."""


@dataclass(frozen=True)
class Bundle:
    """A bundle, to be written."""

    name: str
    files: Files


def of_gradescope(course: Course, assignment: str, index: str = "") -> Bundle:
    """An autograder for one assignment in Gradescope. It holds no seed: each submission gets fresh cases.

    Args:
        course: the course.
        assignment: which.
        index: where pip looks besides its own index.

    Raises:
        BadInputError: the assignment has no exercises, or not exactly one notebook.
    """
    try:
        exercises.of_assignment(assignment)
    except UnknownExerciseError as error:
        raise BadInputError(f"{assignment} has no exercises that the grader knows ({error}).") from error
    notebooks = publish.notebooks(course, assignment)
    if len(notebooks) != 1:
        raise BadInputError(
            f"{assignment} has {len(notebooks)} notebooks. Gradescope's autograder takes assignments of one: "
            "make an assignment of each."
        )
    scripts = {name: (BUNDLED / name).read_bytes() for name in ("setup.sh", "run_autograder")}
    released = {f"released/{assignment}/{name}.ipynb": data for name, data in notebooks.items()}
    unfinished = json.dumps(gradescope.not_graded(gradescope.UNFINISHED), indent=1).encode()
    files = scripts | released | {"unfinished.json": unfinished}
    wheels = grader_wheels()
    requirements = _requirements(pinned(course, GRADING), wheels, index)
    return Bundle(f"gradescope-{assignment}", files | wheels | requirements)


def for_class(course: Course, assignments: list[str], index: str = "") -> Bundle:
    """What students need to work outside the course's folder: notebooks, `check`, the widgets.

    Raises:
        BadInputError: something in it is not for students.
    """
    wheels = student_wheels()
    files = _released(course, assignments) | wheels | {"README.md": (BUNDLED / "student.md").read_bytes()}
    files |= _requirements(pinned(course, NOTEBOOKS), wheels, index)
    for found in audit.leaks(course, audit.unpack(files)):
        raise BadInputError(f"the bundle would give away {found}")
    return Bundle("student", files)


def for_colleagues(course: Course, assignments: list[str], index: str = "") -> Bundle:
    """What somebody else needs to teach the course: all but what belongs to this class and its teacher."""
    wheels = grader_wheels()
    needs = pinned(course, NOTEBOOKS, extras=("grade",))
    files = _released(course, assignments) | wheels | _requirements(needs, wheels, index)
    files |= {"README.md": (BUNDLED / "instructor.md").read_bytes(), CONFIG: _public(course.root / CONFIG)}
    for assignment in assignments:
        folder = course.solutions / assignment
        files |= {
            f"solutions/{path.relative_to(course.solutions).as_posix()}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
        }
        files[f"mark_schemes/{assignment}.md"] = publish.make_answer_key(course, assignment).encode()
    files |= colab.settings(course)
    return Bundle("instructor", files | _guides(course))


def of_classroom(course: Course, assignment: str) -> Bundle:
    """A repository that each student gets a copy of: the notebook, and a workflow that grades each push.

    Raises:
        BadInputError: nobody knows where on GitHub the course is published, or it gives something away.
    """
    published = colab.repository(course)
    if published is None or not published[0].startswith(GITHUB) or NOBODY in published[0]:
        raise BadInputError(
            f"GitHub takes the grader from {GITHUB}OWNER/REPOSITORY, and {colab.SETTINGS} names no such "
            "place. Publish the course there, and write the address under `repository: url:`."
        )
    names = {
        "COURSE": published[0].removeprefix(GITHUB).removesuffix(".git"),
        "BRANCH": published[1],
        "ASSIGNMENT": assignment,
    }
    text = (BUNDLED / "classroom.yml").read_text()
    for name, value in names.items():
        text = text.replace(name, value)
    files = {".github/workflows/classroom.yml": text.encode(), **publish.make_release(course, assignment)}
    for found in audit.leaks(course, {f"{assignment}/{path}": data for path, data in files.items()}):
        raise BadInputError(f"the bundle would give away {found}")
    return Bundle(f"classroom-{assignment}", files)


def of_all(course: Course, assignments: list[str], index: str = "") -> list[Bundle]:
    """All bundles of the course."""
    known = [name for name in assignments if name in exercises.assignments()]
    return [
        *(of_gradescope(course, name, index) for name in known),
        for_class(course, assignments, index),
        for_colleagues(course, assignments, index),
    ]


KINDS: dict[str, Callable[[Course, list[str], str], list[Bundle]]] = {
    "gradescope": lambda course, names, index: [of_gradescope(course, name, index) for name in names],
    "classroom": lambda course, names, index: [of_classroom(course, name) for name in names],
    "student": lambda course, names, index: [for_class(course, names, index)],
    "instructor": lambda course, names, index: [for_colleagues(course, names, index)],
    "all": of_all,
}


def write(course: Course, bundles: list[Bundle], output: Path | None = None) -> list[Path]:
    """Writes the bundles, into the course's ``bundles/`` or one as the file `output`; all are checked first.

    Raises:
        BadInputError: what lies in a place was not made here, or is too large, or cannot be written.
    """
    if output and len(bundles) != 1:
        raise BadInputError(f"--output names one file, but this makes {len(bundles)} bundles. Leave it out.")
    if output and not output.parent.is_dir():
        raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another.")
    made = {output or course.root / FOLDER / f"{b.name}.zip": pack_zip(b.files, COMMENT) for b in bundles}
    for path, data in made.items():
        _require_ours(path)
        require_writable(path.parent)
        if len(data) > MOST_BYTES:
            raise BadInputError(f"{path.name} would have {len(data) >> 20} MiB; {MOST_BYTES >> 20} are most.")
    for path, data in made.items():
        write_atomically(path, data)
    return list(made)


def _require_ours(path: Path) -> None:
    if path.is_dir():
        raise BadInputError(f"{path} is a folder. Name a file to write.")
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as archive:
            ours = archive.comment == COMMENT
    except (OSError, zipfile.BadZipFile):
        ours = False
    if not ours:
        raise BadInputError(
            f"{path} is there and is no bundle that was made here. Move it away, or name another."
        )


def _released(course: Course, assignments: list[str]) -> Files:
    return {
        f"notebooks/{assignment}/{name}": data
        for assignment in assignments
        for name, data in publish.make_release(course, assignment).items()
    }


def _requirements(pins: str, wheels: Files, index: str) -> Files:
    """requirements.txt: the tested versions, then the wheels beside it."""
    first = f"--extra-index-url {index}\n" if index else ""
    beside = "".join(f"./{name}\n" for name in wheels)
    return {REQUIREMENTS: f"{first}{pins}{beside}".encode()}


def _public(config: Path) -> bytes:
    """nbgrader's configuration without the gradebook's address, which may hold a password."""
    source = config.read_text()
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any("db_url" in ast.unparse(target) for target in node.targets):
            end = node.end_lineno or node.lineno
            instead = f"{' ' * node.col_offset}pass\n" if node.col_offset else ""
            lines[node.lineno - 1 : end] = [instead, *[""] * (end - node.lineno)]
    return "".join(lines).encode()


def _guides(course: Course) -> Files:
    """The pages that a colleague should read, from a bundle's own folder or as the grader has them."""
    own = {name: course.root / "guides" / name for name in GUIDES}
    ours = {name: resources()[f"guides/{name}"] for name in GUIDES}
    return {
        f"guides/{name}": (own[name] if own[name].is_file() else ours[name]).read_bytes() for name in GUIDES
    }
