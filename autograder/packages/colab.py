"""Write the first code cell of released notebooks: it installs the course in Colab, and only there."""

from __future__ import annotations

import re
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.packages.bundle_library import pins

SETTINGS = "_config.yml"
"""The book's settings; ``repository`` is the address where the course is published."""
LACKING = ("jaxtyping", "wadler_lindig", "anywidget", "psygnal")
"""The packages that a notebook needs and Colab lacks; Colab keeps its own torch and numpy."""
PLAIN = re.compile(r"[\w./:@~+-]+")
"""An address or a branch that needs no quotes in a command."""
CELL = """\
# In Google Colab this installs the course. Anywhere else it does nothing.
try:
    import google.colab
    %pip install --quiet --no-deps {pins}
    %pip install --quiet --no-deps git+{url}@{branch}
except ImportError:
    pass"""


def repository(course: Course) -> tuple[str, str] | None:
    """Return the address and the branch where the course is published, or None without settings.

    Raises:
        BadInputError: the settings cannot be read.
    """
    import yaml

    path = course.root / SETTINGS
    if not path.is_file():
        return None
    try:
        published = yaml.safe_load(path.read_text("utf8"))["repository"]
        url, branch = str(published["url"]).rstrip("/"), str(published["branch"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BadInputError(
            f"{path} does not say where the course is published. Expected `repository:` with `url` and "
            f"`branch` below it; reading it gave {error!r}."
        ) from error
    for text in (url, branch):
        if not PLAIN.fullmatch(text):
            raise BadInputError(f"{path}: {text!r} in `repository` is not a valid address or branch.")
    return url, branch


def settings(course: Course) -> dict[str, bytes]:
    """Return the settings file that gives another course this course's address; empty without an address."""
    if (published := repository(course)) is None:
        return {}
    url, branch = published
    return {SETTINGS: f"repository:\n  url: {url}\n  branch: {branch}\n".encode()}


def first_cell(course: Course) -> dict[str, Any] | None:
    """Return the first cell as nbformat stores it, or None if the course's address is unknown."""
    if (published := repository(course)) is None:
        return None
    url, branch = published
    source = CELL.format(pins=" ".join(pins(course, LACKING)), url=url, branch=branch)
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "colab",
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def insert_first_cell(notebook: dict[str, Any], cell: dict[str, Any] | None) -> dict[str, Any]:
    """Return the notebook with `cell` before all other code cells."""
    cells = notebook["cells"]
    kinds = [each["cell_type"] for each in cells]
    if cell is None or "code" not in kinds:
        return notebook
    place = kinds.index("code")
    return notebook | {"cells": [*cells[:place], cell, *cells[place:]]}
