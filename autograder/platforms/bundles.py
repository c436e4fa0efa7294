"""Make bundles: zip files for Gradescope, GitHub Classroom, students and other instructors.

A bundle holds only the files that this module names, not the whole folder of the course, so that no grade and
no seed can get into a bundle. The same course gives the same bytes each time.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.files import Files, require_writable, write_atomically
from autograder.course.layout import CONFIG, Course
from autograder.packages import colab
from autograder.packages.bundle_library import REQUIREMENTS, pinned, student_wheels
from autograder.packages.wheels import BUNDLED, GUIDES, build_both, pack_zip, resources
from autograder.platforms import gradescope
from autograder.release import audit, publish

FOLDER = "bundles"
COMMENT = b"made by autograder bundle"
"""The comment in each bundle; files without it are not overwritten."""
SETTING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
"""The kinds of statements that can set a value of nbgrader's configuration."""
NOTE = re.compile(rb"^\s*#[^\n]*")
"""A comment behind a statement."""
PASSWORD = re.compile(rb"\w://[^\s'\"/:@]*:[^\s'\"/@]+@")
"""An address with a name and a password."""
GRADING = ("ipython", "rapidfuzz", "pyseccomp", "scipy")
NOTEBOOKS = ("jupyterlab", "anywidget", "scipy")
GITHUB = "https://github.com/"
MOST_BYTES = 100 << 20
"""Gradescope's limit."""
NOBODY = "/your_name/"
"""The owner in the course's settings until the teacher enters one."""


@dataclass(frozen=True)
class Bundle:
    """The name and the files of a bundle."""

    name: str
    files: Files


def of_gradescope(course: Course, assignment: str, index: str = "") -> Bundle:
    """Return an autograder for Gradescope. It holds no seed: each submission gets fresh cases.

    Args:
        course: the course.
        assignment: the name of the assignment.
        index: the address of an extra index for pip.

    Raises:
        BadInputError: the assignment has no exercises, or not exactly one notebook.
    """
    exercises.names_of(assignment)  # refuses an assignment without exercises
    notebooks = publish.notebooks(course, assignment)
    if len(notebooks) != 1:
        raise BadInputError(
            f"{assignment} has {len(notebooks)} notebooks, but Gradescope's autograder grades only one. "
            "Make an assignment of each notebook."
        )
    scripts = {name: (BUNDLED / name).read_bytes() for name in ("setup.sh", "run_autograder")}
    released = {f"released/{assignment}/{name}.ipynb": data for name, data in notebooks.items()}
    unfinished = json.dumps(gradescope.not_graded(gradescope.UNFINISHED), indent=1).encode()
    files = scripts | released | {"unfinished.json": unfinished}
    wheels = build_both()
    requirements = _requirements(pinned(course, GRADING), wheels, index)
    return Bundle(f"gradescope-{assignment}", files | wheels | requirements)


def for_class(course: Course, assignments: list[str], index: str = "") -> Bundle:
    """Return the bundle for students who work without the course's folder: notebooks, `check`, the widgets.

    Raises:
        BadInputError: a file of the bundle would give a secret away.
    """
    wheels = student_wheels()
    files = _released(course, assignments) | wheels | {"README.md": (BUNDLED / "student.md").read_bytes()}
    files |= _requirements(pinned(course, NOTEBOOKS), wheels, index)
    for leak in audit.leaks(course, audit.unpack(files)):
        raise BadInputError(f"the bundle would give away {leak}")
    return Bundle("student", files)


def for_colleagues(course: Course, assignments: list[str], index: str = "") -> Bundle:
    """Return the bundle for other instructors: the course without the data of this class and its teacher."""
    wheels = build_both()
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
    """Return a template repository for students: the notebook, and a workflow that grades each push.

    Raises:
        BadInputError: the course's settings name no GitHub address, or a file would give a secret away.
    """
    published = colab.repository(course)
    if published is None or not published[0].startswith(GITHUB) or NOBODY in published[0]:
        raise BadInputError(
            f"The workflow installs the grader from {GITHUB}OWNER/REPOSITORY, but {colab.SETTINGS} names no "
            "such address. Publish the course on GitHub, and write its address under `repository: url:`."
        )
    repository = published[0].removeprefix(GITHUB).removesuffix(".git")
    template = Template((BUNDLED / "classroom.yml").read_text())
    text = template.substitute(course=repository, branch=published[1], assignment=assignment)
    files = {".github/workflows/classroom.yml": text.encode(), **publish.make_release(course, assignment)}
    for leak in audit.leaks(course, {f"{assignment}/{path}": data for path, data in files.items()}):
        raise BadInputError(f"the bundle would give away {leak}")
    return Bundle(f"classroom-{assignment}", files)


def of_all(course: Course, assignments: list[str], index: str = "") -> list[Bundle]:
    """Return the bundles of the course for Gradescope, students and instructors."""
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
    """Check all bundles, then write them into the course's ``bundles/``, or a single bundle to `output`.

    Raises:
        BadInputError: a bundle would replace another file, is too large, or cannot be written.
    """
    if output and len(bundles) != 1:
        raise BadInputError(
            f"--output names one file, but there are {len(bundles)} bundles. Leave --output out."
        )
    if output and not output.parent.is_dir():
        raise BadInputError(f"there is no folder {output.parent}. Make it, or name a file in another folder.")
    archives = {output or course.root / FOLDER / f"{b.name}.zip": pack_zip(b.files, COMMENT) for b in bundles}
    for path, data in archives.items():
        _require_bundle(path)
        require_writable(path.parent)
        if len(data) > MOST_BYTES:
            raise BadInputError(
                f"{path.name} would have {len(data) >> 20} MiB; the limit is {MOST_BYTES >> 20} MiB."
            )
    for path, data in archives.items():
        write_atomically(path, data)
    return list(archives)


def _require_bundle(path: Path) -> None:
    if path.is_dir():
        raise BadInputError(f"{path} is a folder. Name a file to write.")
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as archive:
            is_bundle = archive.comment == COMMENT
    except (OSError, zipfile.BadZipFile):
        is_bundle = False
    if not is_bundle:
        raise BadInputError(
            f"{path} exists and is not a bundle that was made here. Move it away, or name another file."
        )


def _released(course: Course, assignments: list[str]) -> Files:
    return {
        f"notebooks/{assignment}/{name}": data
        for assignment in assignments
        for name, data in publish.make_release(course, assignment).items()
    }


def _requirements(pins: str, wheels: Files, index: str) -> Files:
    """Return requirements.txt: the tested versions, then the wheels of the bundle."""
    index_line = f"--extra-index-url {index}\n" if index else ""
    wheel_lines = "".join(f"./{name}\n" for name in wheels)
    return {REQUIREMENTS: f"{index_line}{pins}{wheel_lines}".encode()}


def _public(config: Path) -> bytes:
    """Return nbgrader's configuration without the gradebook's address, which may hold a password."""
    source = config.read_bytes().removeprefix(codecs.BOM_UTF8)
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, SETTING) and not _is_text(node) and "db_url" in ast.unparse(node)
    ]
    lines = source.splitlines(keepends=True)
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        line = lines[first][: node.col_offset] + b"pass" + NOTE.sub(b"", lines[last][node.end_col_offset :])
        lines[first : last + 1] = [line, *[b""] * (last - first)]
    public = b"".join(lines)
    if PASSWORD.search(public):
        raise BadInputError(
            f"{config} holds an address with a password, and the bundle would pass it on. Read the address "
            "from an environment variable, or write it into the line that sets c.CourseDirectory.db_url."
        )
    return public


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a text alone, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _guides(course: Course) -> Files:
    """Return the guides for other instructors, from the course's folder or else from the package."""
    in_course = {name: course.root / "guides" / name for name in GUIDES}
    packaged = {name: resources()[f"guides/{name}"] for name in GUIDES}
    return {
        f"guides/{name}": (in_course[name] if in_course[name].is_file() else packaged[name]).read_bytes()
        for name in GUIDES
    }
