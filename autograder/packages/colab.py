"""A released notebook's first code: it installs the course in Google Colab, and does nothing elsewhere."""

from __future__ import annotations

import re
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.packages.bundle_library import pins

SETTINGS = "_config.yml"
"""The book's settings; ``repository`` says where the course is published."""
LACKING = ("jaxtyping", "wadler_lindig", "anywidget", "psygnal")
"""What Colab does not have of all that a notebook needs. Its own torch and numpy are left as they are."""
PLAIN = re.compile(r"[\w./:@~+-]+")
"""An address or a branch that can stand in a command as it is."""
CELL = """\
# In Google Colab this installs the course. Anywhere else it does nothing.
try:
    import google.colab
    %pip install --quiet --no-deps {pins}
    %pip install --quiet --no-deps git+{url}@{branch}
except ImportError:
    pass"""


def repository(course: Course) -> tuple[str, str] | None:
    """The address and the branch at which the course is published; None where no settings say so.

    Raises:
        BadInputError: the settings cannot be read.
    """
    import yaml

    path = course.root / SETTINGS
    if not path.is_file():
        return None
    try:
        told = yaml.safe_load(path.read_text("utf8"))["repository"]
        url, branch = str(told["url"]).rstrip("/"), str(told["branch"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BadInputError(
            f"{path} does not say where the course is published. Expected `repository:` with `url` and "
            f"`branch` below it; reading it gave {error!r}."
        ) from error
    for one in (url, branch):
        if not PLAIN.fullmatch(one):
            raise BadInputError(f"{path}: `repository` has {one!r}, which no address or branch can be.")
    return url, branch


def settings(course: Course) -> dict[str, bytes]:
    """The file that tells another course where this one is published, by its name; none where none does."""
    if (published := repository(course)) is None:
        return {}
    url, branch = published
    return {SETTINGS: f"repository:\n  url: {url}\n  branch: {branch}\n".encode()}


def first_cell(course: Course) -> dict[str, Any] | None:
    """The cell, in the form that nbformat has for it; None where nobody knows what to install."""
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


def with_first_cell(notebook: dict[str, Any], cell: dict[str, Any] | None) -> dict[str, Any]:
    """The notebook with that cell before all other code."""
    cells = notebook["cells"]
    kinds = [one["cell_type"] for one in cells]
    if cell is None or "code" not in kinds:
        return notebook
    place = kinds.index("code")
    return notebook | {"cells": [*cells[:place], cell, *cells[place:]]}
