"""Write the first code cell of released notebooks: it installs the course in Colab, and only there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.packages.bundle_library import pins
from tfcore.zoo import MODELS

SETTINGS = "_config.yml"
"""The book's settings; ``repository`` is the address where the course is published."""
LACKING = ("jaxtyping", "wadler_lindig", "anywidget", "psygnal")
"""The packages that a notebook needs and Colab lacks; Colab keeps its own torch and numpy."""
LOADED = re.compile(r'zoo\.load\("([^"]+)"\)')
"""The code that loads a published model in a notebook. Colab lacks the package of the model."""
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


def first_cell(course: Course, models: Iterable[str] = ()) -> dict[str, Any] | None:
    """Return the first cell as nbformat stores it, or None if the course's address is unknown.

    Args:
        course: the course, whose settings name the address.
        models: the names in `tfcore.zoo` of the published models that the notebook loads.
    """
    if (published := repository(course)) is None:
        return None
    url, branch = published
    needed = pins(course, LACKING)
    if models:
        needed += [*pins(course, ["gguf"]), *(MODELS[name].package for name in models)]
    source = CELL.format(pins=" ".join(needed), url=url, branch=branch)
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "colab",
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def insert_first_cell(course: Course, notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the first cell before all other code cells."""
    cells = notebook["cells"]
    code = ["".join(each["source"]) if each["cell_type"] == "code" else None for each in cells]
    place = next((i for i, text in enumerate(code) if text is not None), None)
    models = sorted({name for text in code if text for name in LOADED.findall(text)} & MODELS.keys())
    cell = first_cell(course, models)
    if cell is None or place is None:
        return notebook
    return notebook | {"cells": [*cells[:place], cell, *cells[place:]]}
