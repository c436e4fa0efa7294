"""The book for a machine without the published models: its sections on real models say so and run nothing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

HEADING = "## In a real model"
"""How the section of a page begins that runs a published model; it ends at the next heading of its level."""
NOTE = f"""{HEADING}

:::{{note}}
This section runs published language models. The book was built without them. `make models` installs them
(177 MB), `make book` then builds the section.
:::
"""
NUMBER = re.compile(r"\{number\}`\w+\.real_\w+:[^`]+`")
"""A number that a published model gave: its name begins with ``real_``."""


def stripped(page: str) -> str:
    """The page without what needs a published model."""
    kept: list[str] = []
    inside = fenced = False
    for line in page.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("## "):
            inside = line.startswith(HEADING)
            kept += [NOTE + "\n"] if inside else []
        kept += [] if inside else [line]
    return NUMBER.sub("(not measured here)", "".join(kept))


def copy(root: Path) -> Path:
    """A folder to build from: links to all of the repository, and pages of its own where they differ."""
    folder = root / "_build" / "without_models"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "book").mkdir(parents=True)
    for path in [*root.iterdir(), *(root / "book").iterdir()]:
        place = folder / path.relative_to(root)
        if path.name in ("book", ".git"):
            continue
        text = path.read_text("utf8") if path.suffix == ".md" and path.parent.name == "book" else ""
        if text and stripped(text) != text:
            place.write_text(stripped(text), "utf8")
        else:
            place.symlink_to(os.path.relpath(path, place.parent))
    return folder
